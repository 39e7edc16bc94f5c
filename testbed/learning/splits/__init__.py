"""Splits: how training samples are assigned to devices. One file for each split; numpy only."""

from testbed.common.plugins import Catalogue
from testbed.learning.splits.dirichlet import Dirichlet
from testbed.learning.splits.growing_sizes import GrowingSizes
from testbed.learning.splits.iid import IID
from testbed.learning.splits.inner_dirichlet import InnerDirichlet
from testbed.learning.splits.label_groups import LabelGroups
from testbed.learning.splits.labels import Labels
from testbed.learning.splits.natural import Natural
from testbed.learning.splits.pathological import Pathological
from testbed.learning.splits.power_law import PowerLaw
from testbed.learning.splits.shards import Shards
from testbed.learning.splits.sizes import Sizes
from testbed.learning.splits.sort_and_partition import SortAndPartition
from testbed.learning.splits.split import Split

SPLITS: Catalogue[Split] = Catalogue(
    Split,
    {
        "dirichlet": Dirichlet,
        "growing-sizes": GrowingSizes,
        "iid": IID,
        "inner-dirichlet": InnerDirichlet,
        "label-groups": LabelGroups,
        "labels": Labels,
        "natural": Natural,
        "pathological": Pathological,
        "power-law": PowerLaw,
        "shards": Shards,
        "sizes": Sizes,
        "sorted": SortAndPartition,
    },
)
"""Name in a profile → class."""
