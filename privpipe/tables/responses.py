"""Responses of a table: counts, sums, means and ratios, and what must be added up for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from privpipe.errors import UsageError, did_you_mean

__all__ = ["Kind", "Response", "responses_of"]

Kind = Literal["count", "sum", "mean", "ratio"]
KEYS = ("decimals", "name")


@dataclass(frozen=True, kw_only=True)
class Response:
    """One figure of each cell.

    Parameters
    ----------
    kind : {"count", "sum", "mean", "ratio"}
    columns : tuple of str
        None for a count, one for a sum or mean, two for a ratio.
    decimals : int, optional
        Of the unit in which the columns are added up; needed for floats.
    name : str
        Column of the result.
    """

    kind: Kind
    columns: tuple[str, ...] = ()
    decimals: int | None = None
    name: str = ""

    @classmethod
    def of(cls, given: object) -> Response:
        """A response as it is written: ``count``, ``{sum: cost, decimals: 2}``, ``{ratio: [a, b]}``.

        Raises
        ------
        UsageError

        Examples
        --------
        >>> Response.of({"sum": "cost", "decimals": 2}).name, Response.of("count").name
        ('sum_cost', 'count')
        """
        if isinstance(given, Response):
            return given
        if given == "count":
            return cls(kind="count", name="count")
        if not isinstance(given, Mapping):
            raise UsageError(f"responses: give count, or a mapping such as {{sum: cost}}, not {given!r}")
        kinds = [key for key in given if key in get_args(Kind)]
        unknown = [key for key in given if key not in (*get_args(Kind), *KEYS)]
        if unknown:
            known = (*get_args(Kind), *KEYS)
            raise UsageError(f"responses: unknown key {unknown[0]!r}{did_you_mean(str(unknown[0]), known)}")
        if len(kinds) != 1:
            raise UsageError(f"responses: each has exactly one of {', '.join(get_args(Kind))}")
        kind = cast(Kind, kinds[0])
        columns = _columns(kind, given[kind])
        name = given.get("name", "_".join([kind, *columns]))
        if not isinstance(name, str) or not name:
            raise UsageError("responses: name must be a text")
        return cls(kind=kind, columns=columns, decimals=given.get("decimals"), name=name)


def _columns(kind: Kind, given: Any) -> tuple[str, ...]:
    columns = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else ()
    needed = {"count": 0, "sum": 1, "mean": 1, "ratio": 2}[kind]
    if len(columns) != needed or not all(isinstance(each, str) for each in columns):
        raise UsageError(f"responses: {kind} takes {needed} column{'s' if needed != 1 else ''}")
    return columns


def responses_of(given: object) -> tuple[Response, ...]:
    """The responses of a table.

    Raises
    ------
    UsageError
        None, or two of one name.
    """
    listed = [given] if isinstance(given, str | Mapping | Response) else given
    if not isinstance(listed, Sequence) or not listed:
        raise UsageError("responses: give a list, as in [count, {sum: cost, decimals: 2}]")
    found = tuple(Response.of(each) for each in listed)
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"responses: two are named {name!r}; give one another `name`")
    decimals: dict[str, int] = {}
    for each in found:
        for column in each.columns:
            if each.decimals is not None and decimals.setdefault(column, each.decimals) != each.decimals:
                raise UsageError(f"responses: column {column!r} has two numbers of decimals")
    return found
