"""Modules that import each other, imports for type checkers counted: how many have to be read together, at most."""

from __future__ import annotations

import grimp
import pytest

MOST = {"svc.api": 4, "svc.apps": 4, "svc.store": 9}
"""Of the package; elsewhere FEW. Lower numbers are welcome here, higher ones are not."""
FEW = 3


@pytest.fixture(scope="module")
def circles() -> list[list[str]]:
    graph = grimp.build_graph("svc", cache_dir=None)
    imports = {name: sorted(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
    return [sorted(circle) for circle in components(imports) if len(circle) > 1]


def components(imports: dict[str, list[str]]) -> list[list[str]]:
    """The strongly connected components, by Tarjan's algorithm without recursion."""
    found: list[list[str]] = []
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    for root in sorted(imports):
        if root in index:
            continue
        work = [(root, iter(imports[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            name, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(imports[other])))
                    break
                if other in stack:
                    low[name] = min(low[name], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    at = stack.index(name)
                    found.append(stack[at:])
                    del stack[at:]
    return found


def test_components() -> None:
    assert sorted(map(sorted, components({"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": ["e"], "e": ["d"], "f": ["a"]}))) == [
        ["a", "b", "c"],
        ["d", "e"],
        ["f"],
    ]


def test_circles_are_small(circles: list[list[str]]) -> None:
    too_large = [circle for circle in circles if len(circle) > MOST.get(".".join(circle[0].split(".")[:2]), FEW)]
    assert too_large == []
