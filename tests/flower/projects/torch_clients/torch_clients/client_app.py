"""Clients of the old API."""

import torch
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context

from torch_clients.task import data, network, test, train


class Digits(NumPyClient):
    def __init__(self, partition: int, partitions: int, epochs: int) -> None:
        self.model, self.loader, self.epochs = network(), data(partition, partitions), epochs

    def get_parameters(self, config):
        return [value.cpu().numpy() for value in self.model.state_dict().values()]

    def set_parameters(self, parameters) -> None:
        names = self.model.state_dict().keys()
        values = {name: torch.tensor(value) for name, value in zip(names, parameters, strict=True)}
        self.model.load_state_dict(values)

    def fit(self, parameters, config):
        self.set_parameters(parameters)
        loss = train(self.model, self.loader, self.epochs, config["lr"])
        return self.get_parameters(config), len(self.loader.dataset), {"train_loss": loss}

    def evaluate(self, parameters, config):
        self.set_parameters(parameters)
        loss, correct = test(self.model, *self.loader.dataset.tensors)
        return loss, len(self.loader.dataset), {"eval_acc": correct}


def client_fn(context: Context):
    node = context.node_config
    epochs = int(context.run_config["local-epochs"])
    return Digits(node["partition-id"], node["num-partitions"], epochs).to_client()


app = ClientApp(client_fn=client_fn)
