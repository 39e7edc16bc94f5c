"""A strategy of the project's own, which lowers the learning rate, and an evaluation at the server."""

from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdagrad

from torch_messages.task import everything, network, test

app = ServerApp()


class Slower(FedAdagrad):
    """FedAdagrad with a learning rate that is smaller every second round."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if server_round % 2 == 0:
            config["lr"] = config["lr"] * 0.9
        return super().configure_train(server_round, arrays, config, grid)


@app.main()
def main(grid: Grid, context: Context) -> None:
    Slower(fraction_evaluate=0.0).start(
        grid=grid,
        initial_arrays=ArrayRecord(network().state_dict()),
        num_rounds=int(context.run_config["num-server-rounds"]),
        train_config=ConfigRecord({"lr": context.run_config["lr"]}),
        evaluate_fn=evaluate,
    )


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    model = network()
    model.load_state_dict(arrays.to_torch_state_dict())
    images, labels = everything()
    loss, correct = test(model, images[1500:], labels[1500:])
    return MetricRecord({"accuracy": correct, "loss": loss})
