"""Whether the parts of a plan of sequential trees fit each other: a plan is read from JSON, which may hold anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privpipe.errors import UsageError
from privpipe.transforms.synthesis.codebooks import Codebook

if TYPE_CHECKING:
    from privpipe.kernels.synthesis.trees import CodeTree

__all__ = ["require_sound_trees"]


def require_sound_trees(
    model: Mapping[str, Any],
    columns: Sequence[str],
    given: Sequence[str],
    books: Mapping[str, Codebook],
    trees: Mapping[str, CodeTree],
) -> None:
    """Refuse a model that would be looked up outside of its arrays, or that draws other columns than it says.

    Raises
    ------
    UsageError
    """
    order = list(model["order"])
    records = model["records"]
    whole = (
        isinstance(records, int)
        and records >= 0
        and len(set(order)) == len(order)
        and set(order) == set(trees) == set(columns)
        and set(books) == {*columns, *given}
        and all(book.is_sound() for book in books.values())
        and set(model["zeros"]) <= set(order)
    )
    if not whole:
        raise _unfit("codebooks")
    sizes = {name: len(book) for name, book in books.items()}
    for at, name in enumerate(order):
        before = {each: sizes[each] for each in (*given, *order[:at])}
        if not trees[name].fits(before, sizes[name]):
            raise _unfit("trees")
        for column, pairs in model["zeros"].get(name, {}).items():
            if column not in before or not all(
                len(pair) == 2 and _within(pair[:1], before[column]) and _within(pair[1:], sizes[name])
                for pair in pairs
            ):
                raise _unfit("zeros")
    for rule in model["rules"]:
        for side in (rule["when"], rule["then"]):
            if not all(name in sizes and _within(codes, sizes[name]) for name, codes in side.items()):
                raise _unfit("rules")
        for name in rule["then"]:
            earlier = {*given, *order[: order.index(name)]} if name in order else set()
            if not rule["then"][name] or not set(rule["when"]) <= earlier:
                raise _unfit("rules")


def _within(codes: Any, size: int) -> bool:
    return isinstance(codes, list) and all(type(code) is int and 0 <= code < size for code in codes)


def _unfit(what: str) -> UsageError:
    return UsageError(f"the plan holds {what} that do not fit each other: make a new plan")
