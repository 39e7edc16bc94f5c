"""Splits: how training samples are assigned to devices. One file for each split; numpy only."""

from testbed.common.plugins import Catalogue
from testbed.learning.splits.dirichlet import Dirichlet
from testbed.learning.splits.iid import IID
from testbed.learning.splits.label_groups import LabelGroups
from testbed.learning.splits.labels import Labels
from testbed.learning.splits.natural import Natural
from testbed.learning.splits.power_law import PowerLaw
from testbed.learning.splits.sizes import Sizes
from testbed.learning.splits.sort_and_partition import SortAndPartition
from testbed.learning.splits.split import Split

SPLITS: Catalogue[Split] = Catalogue(
    Split,
    {
        "dirichlet": Dirichlet,
        "iid": IID,
        "label-groups": LabelGroups,
        "labels": Labels,
        "natural": Natural,
        "power-law": PowerLaw,
        "sizes": Sizes,
        "sorted": SortAndPartition,
    },
)
"""Name in a profile → class."""
