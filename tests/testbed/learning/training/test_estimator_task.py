"""Training by partial_fit: equal to scikit-learn by hand, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Perceptron, SGDClassifier, SGDRegressor
from sklearn.metrics import hinge_loss, log_loss, r2_score
from sklearn.neural_network import MLPClassifier

from devices.compute.job_steps import training
from testbed.common.parameters import ParameterError
from testbed.learning import setup
from testbed.learning.tasks.setting import Setting
from testbed.learning.training.estimator_task import EstimatorTask
from testbed.learning.training.own_training import OwnTrainingError
from testbed.learning.training.task import Memory, VectorJob
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

LINEAR = "sklearn.linear_model"
ALL = Job(steps=1, batch=0, lr=0.1)
"""One step on all samples of the device."""


def opened(path: str = f"{LINEAR}:SGDClassifier", data: object = "digits", **parameters: object) -> EstimatorTask:
    table = {"estimator": path, "parameters": parameters, "data_from": data}
    task = setup.entry("sklearn", table, "test").open(Setting(devices=3))
    assert isinstance(task, EstimatorTask)
    return task


def trained(task: EstimatorTask, job: Job, base: Vector | None = None, memory: Memory | None = None) -> Vector:
    steps = training(
        task,
        VectorJob(
            base=task.initial() if base is None else base,
            job=job,
            device=0,
            number=0,
            samples=task.shards[0],
            rng=np.random.default_rng(1),
            memory={} if memory is None else memory,
        ),
    )
    while True:
        try:
            assert next(steps) >= 0.0
        except StopIteration as end:
            vector: Vector = end.value
            return vector


def samples_of(task: EstimatorTask, device: int = 0) -> tuple[Any, Any]:
    return task._samples(task._data.train, task.shards[device])


def flat(estimator: Any) -> Vector:
    return np.concatenate([estimator.coef_.ravel(), np.ravel(estimator.intercept_)]).astype(np.float32)


@pytest.mark.parametrize("loss", ["hinge", "log_loss", "modified_huber"])
def test_a_step_of_a_classifier_is_a_partial_fit(loss: str) -> None:
    task = opened(loss=loss, shuffle=False)
    by_hand = SGDClassifier(loss=loss, shuffle=False, learning_rate="constant", eta0=0.1)
    # the samples in the order in which the job draws them
    rng = np.random.default_rng(1)
    rng.integers(2**63)
    inputs, targets = task._samples(task._data.train, rng.permutation(task.shards[0]))
    by_hand.partial_fit(inputs, targets, classes=np.arange(10))
    assert np.array_equal(trained(task, ALL), flat(by_hand))


def test_a_step_of_a_regressor_is_a_partial_fit() -> None:
    task = opened(f"{LINEAR}:SGDRegressor", "regression", shuffle=False, penalty="l1", alpha=0.01)
    by_hand = SGDRegressor(shuffle=False, penalty="l1", alpha=0.01, learning_rate="constant", eta0=1e-3)
    rng = np.random.default_rng(1)
    rng.integers(2**63)
    by_hand.partial_fit(*task._samples(task._data.train, rng.permutation(task.shards[0])))
    assert np.array_equal(trained(task, Job(steps=1, batch=0, lr=1e-3)), flat(by_hand))


def test_the_shuffle_of_a_step_follows_from_the_seed_of_the_job() -> None:
    task = opened()
    assert np.array_equal(trained(task, Job(steps=5)), trained(task, Job(steps=5)))


def test_a_perceptron_with_layers_begins_and_steps_as_scikit_learn_does() -> None:
    task = opened("sklearn.neural_network:MLPClassifier", hidden_layer_sizes=[8], shuffle=False, solver="sgd")
    rng = np.random.default_rng(1)
    rng.integers(2**63)
    inputs, targets = task._samples(task._data.train, rng.permutation(task.shards[0]))
    by_hand = MLPClassifier([8], solver="sgd", shuffle=False, learning_rate_init=0.1, random_state=0)
    by_hand.partial_fit(inputs[:1], targets[:1], classes=np.arange(10))
    arrays = task.tensors(task.initial())
    assert list(arrays) == ["coefs_.0", "coefs_.1", "intercepts_.0", "intercepts_.1"]
    by_hand.coefs_ = [arrays["coefs_.0"].astype(float), arrays["coefs_.1"].astype(float)]
    by_hand.intercepts_ = [arrays["intercepts_.0"].astype(float), arrays["intercepts_.1"].astype(float)]
    del by_hand._optimizer
    by_hand.t_ = 0
    by_hand.partial_fit(inputs, targets)
    expected = np.concatenate([each.ravel() for each in (*by_hand.coefs_, *by_hand.intercepts_)]).astype(np.float32)
    assert np.array_equal(trained(task, ALL), expected)
    assert arrays["coefs_.0"].std() > 0.05, "its first coefficients are random"


def test_the_first_coefficients_of_a_perceptron_with_layers_are_those_of_scikit_learn() -> None:
    task = opened("sklearn.neural_network:MLPClassifier", hidden_layer_sizes=[8])
    seed = int(np.random.SeedSequence([0, 4]).generate_state(1)[0])
    by_hand = MLPClassifier([8], random_state=seed, solver="sgd", learning_rate_init=1e-12)
    by_hand.partial_fit(*task._samples(task._data.train, np.zeros(1, np.int64)), classes=np.arange(10))
    assert np.array_equal(task.tensors(task.initial())["coefs_.0"], by_hand.coefs_[0].astype(np.float32))


def test_the_base_is_rounded_to_float32_and_the_steps_are_not() -> None:
    task = opened(shuffle=False)
    whole, base = trained(task, Job(steps=2, batch=0, lr=0.1)), trained(task, ALL)
    assert not np.array_equal(whole, base)
    assert whole.dtype == np.float32


def test_metrics_are_those_of_scikit_learn() -> None:
    task = opened()
    model = trained(task, Job(steps=20))
    inputs, targets = task._samples(task._data.test, task._test)
    estimator = task._flat.loaded(model)
    found = task.evaluate(model)
    assert found["accuracy"] == pytest.approx(estimator.score(inputs, targets))
    assert found["loss"] == pytest.approx(
        hinge_loss(targets, estimator.decision_function(inputs), labels=np.arange(10))
    )


def test_probabilities_give_a_log_loss() -> None:
    task = opened(loss="log_loss")
    model = trained(task, Job(steps=20))
    inputs, targets = task._samples(task._data.test, task._test)
    expected = log_loss(targets, task._flat.loaded(model).predict_proba(inputs), labels=np.arange(10))
    assert task.evaluate(model)["loss"] == pytest.approx(expected)


def test_two_classes_have_one_row_of_coefficients() -> None:
    task = opened(f"{LINEAR}:Perceptron", "svm", shuffle=False)
    model = trained(task, Job(steps=50))
    inputs, targets = task._samples(task._data.test, task._test)
    estimator = task._flat.loaded(model)
    assert isinstance(estimator, Perceptron)
    assert task.size == 11
    assert task.evaluate(model)["loss"] == pytest.approx(
        hinge_loss(2 * targets - 1, estimator.decision_function(inputs))
    )


def test_values_have_a_mean_squared_error_and_r2() -> None:
    task = opened(f"{LINEAR}:SGDRegressor", "regression")
    model = trained(task, Job(steps=50, lr=1e-3))
    inputs, targets = task._samples(task._data.test, task._test)
    found = task.evaluate(model)
    assert found["r2"] == pytest.approx(r2_score(targets, task._flat.loaded(model).predict(inputs)))
    assert found["loss"] == found["mse"] / 2
    assert task.labels is None


def test_the_count_of_steps_is_reset_or_kept() -> None:
    task = opened(learning_rate="optimal", shuffle=False)
    reset, kept = Job(steps=3), Job(steps=3, optimizer_state="kept")
    memory: Memory = {}
    first = trained(task, kept, memory=memory)
    assert memory["estimator"]["t_"] == 1 + 3 * 32
    assert np.array_equal(trained(task, reset), first), "the first job begins with nothing"
    again = trained(task, kept, first, memory)
    assert memory["estimator"]["t_"] == 1 + 6 * 32
    assert not np.array_equal(again, trained(task, reset, first))


def test_a_whole_job_has_the_same_result_and_one_loss() -> None:
    task = opened()
    assert np.array_equal(trained(task, Job(steps=4, whole=True)), trained(task, Job(steps=4)))


@pytest.mark.parametrize(
    ("key", "value"),
    [("momentum", 0.9), ("optimizer", "adam"), ("proximal", 0.1), ("weight_decay", 0.1), ("clip_gradient", 1.0)],
)
def test_keys_of_the_optimiser_of_a_network_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"{key} is {value}; SGDClassifier trains itself: leave it out"):
        opened().check(Job(**{key: value}))


def test_a_strategy_that_sets_such_a_key_for_a_job_is_told() -> None:
    with pytest.raises(OwnTrainingError, match=r"job 0: .*training\.proximal is 0\.5; SGDClassifier trains itself"):
        trained(opened(), Job(proximal=0.5))


@pytest.mark.filterwarnings("ignore:Class PassiveAggressiveClassifier is deprecated:FutureWarning")
def test_an_estimator_without_a_learning_rate_refuses_its_decay() -> None:
    task = opened(f"{LINEAR}:PassiveAggressiveClassifier")
    assert task.evaluate(trained(task, Job(steps=50)))["accuracy"] > 0.5
    with pytest.raises(ParameterError, match=r"lr_decay is 0\.9; .* computes its learning rate itself"):
        task.check(Job(lr_decay=0.9))
    opened().check(Job(lr_decay=0.9, lr_schedule="inverse-sqrt"))


@pytest.mark.parametrize(
    ("path", "parameters", "problem"),
    [
        ("SGDClassifier", {}, r"write it as module:Class, such as sklearn\.linear_model:SGDClassifier"),
        (f"{LINEAR}:SGDClasifier", {}, "has no SGDClasifier; did you mean 'SGDClassifier'"),
        ("sklearn.nothing:A", {}, "No module named 'sklearn.nothing'"),
        (f"{LINEAR}:LogisticRegression", {}, "LogisticRegression has no partial_fit"),
        ("sklearn.naive_bayes:GaussianNB", {}, "GaussianNB has neither coef_ and intercept_ nor coefs_"),
        ("sklearn.cluster:MiniBatchKMeans", {}, "is neither a classifier nor a regressor"),
        ("builtins:dict", {}, "it is not an estimator of scikit-learn"),
        (f"{LINEAR}:SGDRegressor", {}, "the data has classes: use a classifier, such as SGDClassifier"),
        (f"{LINEAR}:SGDClassifier", {"alpah": 1}, "parameters.alpah is not a parameter of .*; did you mean 'alpha'"),
        (f"{LINEAR}:SGDClassifier", {"alpha": -1.0}, "'alpha' parameter of SGDClassifier must be a float"),
        (f"{LINEAR}:SGDClassifier", {"eta0": 0.1}, r"parameters\.eta0 is 0\.1; training\.lr is its value"),
        (f"{LINEAR}:SGDClassifier", {"random_state": 1}, "the seed of the experiment is its value"),
        (f"{LINEAR}:SGDClassifier", {"n_jobs": 2}, "a device is one process with one thread"),
        (f"{LINEAR}:SGDClassifier", {"average": True}, "leave it out"),
    ],
)
def test_an_estimator_that_cannot_be_used_is_refused_in_one_line(
    path: str, parameters: dict[str, object], problem: str
) -> None:
    with pytest.raises(ParameterError, match=problem) as caught:
        opened(path, **parameters)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("digts", "data_from is 'digts'; did you mean 'digits'"),
        ({"name": "synthetic", "alph": 1}, r"data_from\.alph is not a known key; did you mean 'alpha'"),
        ({"alpha": 1}, r"data_from\.name is missing"),
        ({"name": "digits", "split": "iid"}, r"data_from\.split is 'iid'; give it to the task itself: task\.split"),
        ("sklearn", "has no data of its own; name another task"),
    ],
)
def test_data_that_there_is_not_is_refused_in_one_line(data: object, problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        opened(data=data)


def test_the_data_of_another_task_has_its_parameters() -> None:
    task = opened(data={"name": "synthetic", "alpha": 0.0, "beta": 0.0}, loss="log_loss")
    assert task.size == 610
    assert opened(data={"name": "digits", "model": "cnn"}).size == 7850, "images of 28×28"
