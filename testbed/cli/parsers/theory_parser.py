"""The options of ``run_testbed.py theory``."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.parsers import shared_options
from testbed.cli.parsers.shared_options import Commands

DESCRIPTION = """\
Upper bounds on the loss of AUDG and PSURDG above the best possible, from the delays that a run measured: Hao et al.,
The Impact Analysis of Delays in Asynchronous Federated Learning with Data Heterogeneity for Edge Intelligence, 2025.
With one run, both bounds come from its delays. With two, one of audg and one of psurdg, each comes from its own, and
the prediction is compared with the final losses. The trace has the delays; the constants must be given.
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser(
        "theory",
        help="which of audg and psurdg the delays of a run favour, by the bounds of Hao et al., 2025",
        description=DESCRIPTION,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # the constants describe themselves; no other command needs them
    from testbed.common.parameters import describe
    from testbed.theory.bound_constants import WEIGHTS, Constants

    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or its trace")
    parser.add_argument("other", type=Path, nargs="?", metavar="RUN2", help="a run of the other strategy")
    for name, _, allowed, meaning in describe(Constants):
        parser.add_argument(f"--{name}", metavar="X", help=f"{meaning} ({allowed})")
    parser.add_argument(
        "--weights",
        choices=WEIGHTS,
        help="λ_i: a device's share of the samples, or the same for all; default: the strategy's weighting in the run's"
        " profile.toml, or samples",
    )
    shared_options.add_format(parser)
