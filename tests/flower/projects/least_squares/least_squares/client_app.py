"""Linear regression on points of the partition's own, by numpy: arrays of four types, and a state that stays."""

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from least_squares.points import points

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    weights, bias, half, count = msg.content["arrays"].to_numpy_ndarrays()
    inputs, targets = points(context.node_config["partition-id"])
    chosen = np.random.permutation(len(targets))[: len(targets) // 2]  # a random half: seeded for each job
    for _ in range(int(context.run_config["local-epochs"])):
        errors = inputs[chosen] @ weights + bias - targets[chosen]
        rate = context.run_config["lr"]
        weights = weights - rate * inputs[chosen].T @ errors / len(chosen)
        bias = bias - rate * errors.mean()
    jobs = int(context.state.config_records["jobs"]["done"]) if "jobs" in context.state else 0
    context.state["jobs"] = ConfigRecord({"done": jobs + 1})
    arrays = ArrayRecord([weights, np.asarray(bias, np.float32), half, np.asarray(count + 1)])
    metrics = {
        "loss": float((errors**2).mean()),
        "num-examples": len(targets),
        "jobs-before": jobs,
        "round": int(msg.content["config"]["server-round"]),
        "count": int(count),
    }
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord(metrics)}), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    weights, bias, _, _ = msg.content["arrays"].to_numpy_ndarrays()
    inputs, targets = points(context.node_config["partition-id"])
    loss = float(((inputs @ weights + bias - targets) ** 2).mean())
    metrics = MetricRecord({"loss": loss, "errors": [0.0, 1.0], "num-examples": len(targets)})
    return Message(RecordDict({"metrics": metrics}), reply_to=msg)
