"""Opens a Flower project: imports its apps, runs its ServerApp up to the first round, and counts the samples.

A client alone knows how many samples it has. It tells so in its replies, so each client trains once here, on the
initial model, unless the profile has ``task.samples``.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from testbed.common.clock import WallClock
from testbed.common.errors import UserError
from testbed.common.finders.user_code import in_one_line
from testbed.common.terminal.plain_text import show_on_errors
from testbed.learning.flower import project_apps
from testbed.learning.flower.array_layout import ArrayLayout, NamedArrays
from testbed.learning.flower.client_calls import Clients
from testbed.learning.flower.flower_task import FlowerTask, Scoring
from testbed.learning.flower.project_file import FlowerProject, RunConfig
from testbed.learning.flower.round_messages import RoundMessages
from testbed.learning.flower.seeded_call import seeded
from testbed.learning.flower.server_run import run_server_app
from testbed.learning.flower.server_side import (
    LegacyServer,
    ServerSide,
    get_parameters_content,
    numbered,
    with_arrays,
)
from testbed.learning.flower.what_is_refused import check_client_app
from testbed.learning.training.own_training import OwnTrainingError, check_result

_SLOW_SECONDS = 0.5
_TELL_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class OpeningRequest:
    """A project, and what the profile says about it."""

    project: FlowerProject
    run_config: RunConfig
    devices: int
    samples: tuple[int, ...]
    """Samples of each device; one number: of all devices; empty: the clients are asked."""
    evaluated_clients: int
    accuracy: str
    patience: float
    data_seed: int
    model_seed: int


def open_project(request: OpeningRequest) -> FlowerTask:
    """Return the task of a project. Raises UserError, with the line of the project that raised an exception."""
    logging.getLogger("flwr").setLevel(logging.ERROR)  # each fork would log what Flower recommends
    project = request.project
    client_app = project_apps.load(project, project.client_app, ClientApp)
    server_app = project_apps.load(project, project.server_app, ServerApp)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return _opened(request, client_app, server_app)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        text = in_one_line(error, with_type=not isinstance(error, OwnTrainingError))
        raise UserError(f"Flower project {project.name}: {text}") from error


def _opened(request: OpeningRequest, client_app: ClientApp, server_app: ServerApp) -> FlowerTask:
    project, devices = request.project, request.devices
    check_client_app(client_app)
    seed = int(np.random.SeedSequence([request.model_seed, 6]).generate_state(1)[0])
    clients = Clients(client_app, request.run_config, devices, project.folder, request.patience)
    server: ServerSide = seeded(
        seed, lambda: run_server_app(server_app, request.run_config, devices), project.folder, request.patience
    )
    layout = ArrayLayout(_initial(server, clients, seed))
    messages = RoundMessages(server, seed=seed, folder=project.folder, patience=request.patience)
    samples, seconds = _count(request, messages, clients, layout, server.weighted_by, seed)
    scoring = _scoring(request, server, client_app, layout, seed)
    if scoring.partitions and not scoring.by_server:
        messages.evaluation()
    return FlowerTask(
        clients=clients,
        server=server,
        messages=messages,
        layout=layout,
        samples=samples,
        scoring=scoring,
        folder=project.folder,
        place=f"{project.name}, {project.client_app}",
        notes=list(_notes(request, server, layout, scoring)),
        is_slow=seconds > _SLOW_SECONDS,
    )


def _initial(server: ServerSide, clients: Clients, seed: int) -> NamedArrays:
    found = server.initial()
    if found is not None:
        return found
    assert isinstance(server, LegacyServer)
    reply = clients.call("get_parameters", 0, get_parameters_content(), seed=seed)
    server.learn_parameters(numbered(list(reply.arrays.values())))
    return reply.arrays


def _count(
    request: OpeningRequest, messages: RoundMessages, clients: Clients, layout: ArrayLayout, weighted_by: str, seed: int
) -> tuple[list[int], float]:
    """Return the samples of each device, and the seconds of the longest training that was needed to count them."""
    given = list(request.samples) * (request.devices if len(request.samples) == 1 else 1)
    if given and len(given) != request.devices:
        raise UserError(
            f"task.samples has {len(given)} numbers, and there are {request.devices} devices; give one number for each"
            " device, or one for all"
        )
    vector, found, longest = layout.initial(), [], 0.0
    clock, told = WallClock.starting_now(), 0.0
    for partition in range(1 if given else request.devices):
        began = clock.now()
        content = with_arrays(messages.train(1), layout.arrays(vector, layout.local))
        reply = clients.call("train", partition, content, seed=seed)
        longest, who = max(longest, clock.now() - began), f"the client of partition {partition}"
        check_result(layout.vector(reply.arrays, who), layout.size, who)
        found.append(given[partition] if given else reply.samples(weighted_by, who))
        if clock.now() - told > _TELL_SECONDS:
            told = clock.now()
            show_on_errors(
                f"Flower project: {partition + 1} of {request.devices} clients have trained once, for their numbers"
                " of samples; task.samples saves this"
            )
    return given or found, longest


def _scoring(
    request: OpeningRequest, server: ServerSide, client_app: ClientApp, layout: ArrayLayout, seed: int
) -> Scoring:
    model = layout.arrays(layout.initial(), layout.local)
    by_server = seeded(seed, lambda: server.evaluate(model), request.project.folder, request.patience) is not None
    # Flower itself finds out only when it calls the function
    can_evaluate = client_app._call is not None or "evaluate.default" in client_app._registered_funcs
    count = min(request.evaluated_clients, request.devices) if can_evaluate else 0
    rng = np.random.default_rng([request.data_seed, 7])
    partitions = np.sort(rng.choice(request.devices, count, replace=False)).tolist()
    return Scoring(by_server=by_server, partitions=tuple(partitions), accuracy=request.accuracy, seed=seed)


def _notes(
    request: OpeningRequest, server: ServerSide, layout: ArrayLayout, scoring: Scoring
) -> Generator[str, None, None]:
    """Yield what is not as in Flower, in sentences."""
    strategy = f"its strategy {server.strategy} is" if server.strategy else "its own rounds are"
    yield f"Flower project {request.project.name}: {strategy} replaced by the strategy of this profile"
    if scoring.by_server:
        yield "scores: by the evaluate function of its ServerApp"
    elif not scoring.partitions:
        yield "scores: none, because neither its ServerApp nor its ClientApp evaluates"
    else:
        count = len(scoring.partitions)
        which = "all" if count == request.devices else f"{count} of the"
        yield f"scores: by the clients of {which} {request.devices} partitions, weighted by their samples"
    if layout.local:
        yield f"{_few(list(layout.local))}: whole numbers, which each device keeps for itself"
    if layout.wide:
        yield f"{_few(layout.wide)}: float64 in the project, float32 between jobs"


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:2])
    return f"arrays {shown} and {len(names) - 2} more" if len(names) > 2 else f"arrays {shown}"
