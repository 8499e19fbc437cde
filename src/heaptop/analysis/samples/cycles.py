"""Functions that call each other, found in a graph of calls."""

from __future__ import annotations


def strongly_connected(callees: dict[int, list[int]]) -> list[list[int]]:
    """The strongly connected components, callees before callers (Tarjan, 1972), without recursion.

    Args:
        callees: the successors of every node; each successor is a key.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    waiting: set[int] = set()
    components: list[list[int]] = []
    for start, successors in callees.items():
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        waiting.add(start)
        work = [(start, iter(successors))]
        while work:
            node, rest = work[-1]
            for successor in rest:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    waiting.add(successor)
                    work.append((successor, iter(callees[successor])))
                    break
                if successor in waiting:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    components.append(_take(stack, waiting, node))
    return components


def _take(stack: list[int], waiting: set[int], node: int) -> list[int]:
    """Off the stack down to this node: one component."""
    component = []
    while True:
        member = stack.pop()
        waiting.remove(member)
        component.append(member)
        if member == node:
            return component
