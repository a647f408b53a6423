"""Task graphs: nodes that know what they need, gathered into one plain Dask graph when they run.

Dask's own `delayed` keeps a layered graph in every task and merges them for each new one, which grows with the
square of the number of partitions where partitions meet.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from privpipe.errors import EngineError, PrivpipeError

__all__ = ["Held", "Node", "Shared", "Step", "engine_error", "foreign_nodes", "graph_of", "task_node", "value_node"]


SMALLER = "lower `partition_size` under `engines.dask`, or give the workers more memory"


def engine_error(step: str, error: BaseException) -> EngineError:
    """What may be reported of a failure of the machinery: its step and its kind, for its text may quote cells."""
    what = type(error).__name__
    if isinstance(error, MemoryError):
        what = f"memory ran out; {SMALLER}"
    if what == "KilledWorker":
        what = f"workers died over it again and again, which mostly means that memory ran out; {SMALLER}"
    if what in ("FutureCancelledError", "CancelledError"):
        what = "what workers held is lost, since they died or were restarted; run again"
    if isinstance(error, OSError) and error.strerror:
        what = f"{what} ({error.strerror})"
    return EngineError(f"dask engine: could not {step}: {what}")


class Held:
    """A value as an item of a graph, whose own repr might show data and whose own kind might mean a task."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Held({type(self.value).__name__})"


class Shared(Held):
    """A large value that many tasks read: sent to the workers once, when the first of them runs there."""

    __slots__ = ("future",)

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.future: Any = None


class Step:
    """The function of one task: its repr and its errors hold no data, wherever they are logged.

    Parameters
    ----------
    name : str
        What it does, as in "count cells"; shown in errors and in the scheduler's own view.
    function : callable or None
        Takes the results of the tasks before it, then `fixed`. None: the first result is the function.
    """

    __slots__ = ("fixed", "function", "name")

    def __init__(self, name: str, function: Callable[..., Any] | None, fixed: Mapping[str, Any]) -> None:
        self.name = name
        self.function = function
        self.fixed = fixed

    def __repr__(self) -> str:
        return f"Step({self.name!r})"

    def __call__(self, *results: Any) -> Any:
        values = [bare(result) for result in results]
        try:
            if self.function is None:
                return values[0](*values[1:], **self.fixed)
            return self.function(*values, **self.fixed)
        except PrivpipeError:
            raise
        except Exception as error:  # noqa: BLE001 - workers log what is raised, and any message may quote a cell
            problem = engine_error(self.name, error)
        raise problem


def bare(result: Any) -> Any:
    """What a task sees of an argument."""
    if isinstance(result, list):
        return [bare(each) for each in result]
    return result.value if isinstance(result, Held) else result


class Node:
    """A task, or a value that tasks read.

    Parameters
    ----------
    key : hashable
        Its name in the graph.
    content : object
        Of the graph: a tuple (step, keys or lists of keys), a `Held` value, a future.
    needs : tuple of Node
    foreign : mapping, optional
        The foreign graph that holds the key.
    here : bool
        Whether all it needs is in this process, and it may run here though there are workers.
    """

    __slots__ = ("content", "foreign", "here", "key", "needs")

    def __init__(
        self,
        key: Hashable,
        content: Any,
        needs: tuple[Node, ...],
        foreign: Mapping[Any, Any] | None = None,
        *,
        here: bool = False,
    ) -> None:
        self.key = key
        self.content = content
        self.needs = needs
        self.foreign = foreign
        self.here = here

    def __repr__(self) -> str:
        return f"Node({self.key!r})"


def task_node(
    name: str,
    function: Callable[..., Any] | Node,
    parts: Iterable[Any],
    fixed: Mapping[str, Any],
    *,
    here: bool = False,
) -> Node:
    """A task on the results of nodes, or of lists of nodes; one that needs nothing runs `here` or by workers."""
    given = list(parts)
    if isinstance(function, Node):
        step, given = Step(name, None, fixed), [function, *given]
    else:
        step = Step(name, function, fixed)
    needs: list[Node] = []
    arguments: list[Any] = []
    for part in given:
        if isinstance(part, list):
            needs.extend(part)
            arguments.append([each.key for each in part])
        else:
            needs.append(part)
            arguments.append(part.key)
    return Node(_fresh(name), (step, *arguments), tuple(needs), here=all(n.here for n in needs) if needs else here)


def value_node(value: Any) -> Node:
    """A value: a `Held`, a record batch, or a future of one."""
    return Node(_fresh("value"), value, (), here=isinstance(value, Held))


def foreign_nodes(parts: Iterable[Any]) -> list[Node]:
    """Foreign delayed objects as nodes."""
    return [Node(part.key, None, (), part.dask) for part in parts]


def graph_of(nodes: Iterable[Node]) -> dict[Hashable, Any]:
    """The plain graph of nodes and all they need."""
    graph: dict[Hashable, Any] = {}
    merged: set[int] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.foreign is not None:
            if id(node.foreign) not in merged:
                merged.add(id(node.foreign))
                graph.update(node.foreign)
        elif node.key not in graph:
            graph[node.key] = node.content
            waiting.extend(node.needs)
    return graph


def _fresh(name: str) -> str:
    return f"{name.replace(' ', '-')}-{uuid.uuid4().hex}"
