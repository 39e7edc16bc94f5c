"""Each strategy cites its paper with a number by which it can be found."""

from __future__ import annotations

import re

from aggregator.strategies import STRATEGIES
from testbed.common.plugins import citation

NUMBER = re.compile(r"\b(arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,9}/\S+\w)\b")
WITHOUT_A_KNOWN_NUMBER = {"asafl", "ca2fl", "eafl", "safl-sc", "safl-weighted"}
"""Their papers (Chen et al. 2024, Wang et al. 2024, Zhou et al. 2024, Ma et al. 2021) have no preprint on arXiv, and no
DOI that we could confirm."""


def test_every_citation_has_a_doi_or_an_arxiv_number() -> None:
    without = {name for name, strategy in STRATEGIES.items() if not NUMBER.search(citation(strategy))}
    assert without == WITHOUT_A_KNOWN_NUMBER
