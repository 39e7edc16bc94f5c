"""The papers by name, in the order of the document."""

from __future__ import annotations

from testbed.papers import afl, asafl, asyncfeded, audg, eafl
from testbed.papers.paper import Paper

PAPERS: dict[str, Paper] = {
    paper.name: paper for paper in (audg.PAPER, afl.PAPER, asafl.PAPER, asyncfeded.PAPER, eafl.PAPER)
}
