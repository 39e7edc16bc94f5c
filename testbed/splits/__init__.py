"""How training data is dealt to devices. One small file for each split; numpy only."""

from testbed.splits.dirichlet import Dirichlet
from testbed.splits.iid import IID
from testbed.splits.label_groups import LabelGroups
from testbed.splits.labels import Labels
from testbed.splits.natural import Natural
from testbed.splits.power_law import PowerLaw
from testbed.splits.sizes import Sizes
from testbed.splits.sort_and_partition import SortAndPartition
from testbed.splits.split import Split

CATALOGUE: dict[str, type[Split]] = {
    "dirichlet": Dirichlet,
    "iid": IID,
    "label-groups": LabelGroups,
    "labels": Labels,
    "natural": Natural,
    "power-law": PowerLaw,
    "sizes": Sizes,
    "sorted": SortAndPartition,
}
"""Name in a profile → class."""

BASE = Split
"""What a user's own split must be."""
