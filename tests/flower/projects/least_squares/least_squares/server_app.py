"""FedProx, whose strategy adds a key to the messages; the models are scored by the clients."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedProx

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    arrays = [np.zeros(3), np.zeros((), np.float32), np.ones(2, np.float16), np.array(0)]
    result = FedProx(proximal_mu=0.1).start(
        grid=grid, initial_arrays=ArrayRecord(arrays), num_rounds=int(context.run_config["num-server-rounds"])
    )
    np.savez("final_model", *result.arrays.to_numpy_ndarrays())
