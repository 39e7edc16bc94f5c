"""A strategy of the old API; the initial model is asked of a client."""

from flwr.common import Context
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg


def server_fn(context: Context) -> ServerAppComponents:
    strategy = FedAvg(on_fit_config_fn=lambda server_round: {"lr": context.run_config["lr"] / server_round**0.5})
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=3))


app = ServerApp(server_fn=server_fn)
