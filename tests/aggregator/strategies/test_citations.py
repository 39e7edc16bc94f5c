"""Each strategy cites its paper with a number by which it can be found."""

from __future__ import annotations

import re

from aggregator.strategies import STRATEGIES
from testbed.common.plugins import citation

NUMBER = re.compile(r"\b(arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,9}/\S+\w|openreview:\w{10})\b")
"""Papers of ICLR have no DOI: OpenReview numbers them."""
WITHOUT_A_KNOWN_NUMBER = {"asafl", "eafl", "safl-sc", "safl-weighted"}
"""Their papers (Chen et al. 2024, Zhou et al. 2024, Ma et al. 2021) have no preprint on arXiv, and no DOI that we could
confirm."""


def test_every_citation_has_a_number_by_which_the_paper_is_found() -> None:
    without = {name for name, strategy in STRATEGIES.items() if not NUMBER.search(citation(strategy))}
    assert without == WITHOUT_A_KNOWN_NUMBER
