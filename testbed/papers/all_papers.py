"""All papers by name, in the order of the document."""

from __future__ import annotations

from testbed.papers.afl import paper as afl
from testbed.papers.asafl import paper as asafl
from testbed.papers.asyncfeded import paper as asyncfeded
from testbed.papers.audg import paper as audg
from testbed.papers.eafl import paper as eafl
from testbed.papers.framework.paper import Paper

PAPERS: dict[str, Paper] = {
    paper.name: paper for paper in (audg.PAPER, afl.PAPER, asafl.PAPER, asyncfeded.PAPER, eafl.PAPER)
}
