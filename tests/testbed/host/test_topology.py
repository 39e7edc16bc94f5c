"""The neighbours of a core, as the kernel lists them."""

from __future__ import annotations

from pathlib import Path

from testbed.host import topology


def kernel_files(folder: Path, siblings: dict[int, str], nodes: dict[int, str]) -> Path:
    for core, text in siblings.items():
        place = folder / f"cpu/cpu{core}/topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(f"{text}\n", encoding="ascii")
    for node, text in nodes.items():
        place = folder / f"node/node{node}"
        place.mkdir(parents=True)
        (place / "cpulist").write_text(f"{text}\n", encoding="ascii")
    return folder


def test_threads_of_one_physical_core_are_siblings_whether_listed_or_as_a_range(tmp_path: Path) -> None:
    system = kernel_files(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3", 4: "4-5", 5: "4-5"}, {})
    found = topology.read(range(6), system)
    assert found.siblings == {0: (2,), 1: (3,), 2: (0,), 3: (1,), 4: (5,), 5: (4,)}
    assert (found.physical, found.nodes) == (3, 1)


def test_a_core_that_this_process_may_not_use_is_nobodys_sibling(tmp_path: Path) -> None:
    system = kernel_files(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, {})
    assert topology.read([0, 1, 3], system).siblings == {0: (), 1: (3,), 3: (1,)}


def test_each_core_belongs_to_the_memory_node_that_lists_it(tmp_path: Path) -> None:
    system = kernel_files(tmp_path, {}, {0: "0-1,4", 1: "2-3,5"})
    found = topology.read(range(6), system)
    assert found.node == {0: 0, 1: 0, 2: 1, 3: 1, 4: 0, 5: 1}
    assert found.nodes == 2


def test_without_the_kernels_files_no_core_shares_anything(tmp_path: Path) -> None:
    found = topology.read([0, 1], tmp_path)
    assert (found.siblings, found.node, found.physical, found.nodes) == ({0: (), 1: ()}, {0: 0, 1: 0}, 2, 1)


def test_the_topology_of_this_host_names_each_core_once() -> None:
    found = topology.read([0])
    assert (found.cores, found.physical) == ((0,), 1)
