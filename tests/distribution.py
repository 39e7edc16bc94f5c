"""How tests are distributed to the workers of pytest-xdist.

``loadgroup`` of pytest-xdist 3.8 would do, but with pytest 9.2 it ignores the groups: it writes them into an attribute
that pytest no longer reads.
"""

from __future__ import annotations

import functools
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]


class ByModuleFixture(LoadScopeScheduling):
    """One test at a time. All tests of a module go to one worker if it has a fixture of its own: it is made once.

    Modules with many tests come first, so that no worker begins a long one when the others have finished.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return module if has_module_fixture(module) else nodeid


@functools.cache
def has_module_fixture(module: str) -> bool:
    return 'scope="module"' in (ROOT / module).read_text(encoding="utf-8")
