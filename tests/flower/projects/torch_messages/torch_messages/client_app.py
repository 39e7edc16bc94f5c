"""Clients of the Message API, with state dictionaries."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from torch_messages.task import data, network, train

app = ClientApp()


@app.train()
def train_digits(msg: Message, context: Context) -> Message:
    model = network()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    loader = data(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss = train(model, loader, int(context.run_config["local-epochs"]), float(msg.content["config"]["lr"]))
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(loader.dataset)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content, reply_to=msg)
