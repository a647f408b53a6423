"""Responses of a table: the figures of each cell, and the counts and sums they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, cast, get_args

from privpipe.errors import UsageError, did_you_mean
from privpipe.tables.aggregates import rational

__all__ = ["Kind", "Response", "responses_of"]

Kind = Literal[
    "count", "sum", "mean", "ratio", "percentage", "variance", "sd", "minimum", "maximum", "quantile", "mode"
]
KEYS: Mapping[str, tuple[str, ...]] = {
    "percentage": ("of", "digits"),
    "minimum": ("structural",),
    "maximum": ("structural",),
    "quantile": ("q", "smoothed", "unit"),
}
"""Keys of each kind in addition to `COMMON`."""
COMMON = ("decimals", "name")
ORDERED = ("minimum", "maximum", "quantile", "mode")
MOST_DIGITS = 12
FINEST = 10**6
"""Denominator up to which ranks of all tables are computed within 64 bits."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """One figure of each cell.

    Parameters
    ----------
    kind : str
        ``count``, ``sum``, ``mean``, ``ratio``, ``percentage``, ``variance``, ``sd`` (divisor N - 1), or one of
        contributors in order: ``minimum``, ``maximum``, ``quantile``, ``mode`` (the least of the commonest values).
    columns : tuple of str
        None for a count and its percentage, two for a ratio, else one.
    decimals : int, optional
        Of the unit in which the columns are added up; needed for floats.
    name : str
        Column of the result.
    structural : Fraction, optional
        Of an extreme: a value that bounds it by definition, and may be published as one person's.
    q : Fraction, optional
        Of a quantile: the share of contributors below it, type 7 of Hyndman and Fan, American Statistician 50 (1996).
    smoothed : int, optional
        Contributors whose mean is published as the quantile.
    unit : Fraction, optional
        Multiple to which the quantile is rounded instead, halves up.
    of : tuple of str
        Dimensions whose total is the base of a percentage.
    digits : int
        Of a percentage, after the point.
    """

    kind: Kind
    columns: tuple[str, ...] = ()
    decimals: int | None = None
    name: str = ""
    structural: Fraction | None = None
    q: Fraction | None = None
    smoothed: int | None = None
    unit: Fraction | None = None
    of: tuple[str, ...] = ()
    digits: int = 1

    @property
    def ordered(self) -> bool:
        """Whether it is the figure of single contributors in the order of their values."""
        return self.kind in ORDERED

    @property
    def spread(self) -> bool:
        """Whether it needs the sum of squares."""
        return self.kind in ("variance", "sd")

    @classmethod
    def read(cls, given: object) -> Response:
        """A response as written: ``count``, ``{sum: cost, decimals: 2}``, ``{quantile: cost, q: 0.5, unit: 10}``.

        Raises
        ------
        UsageError

        Examples
        --------
        >>> Response.read({"sum": "cost", "decimals": 2}).name, Response.read("count").name
        ('sum_cost', 'count')
        >>> Response.read({"quantile": "cost", "q": 0.25, "smoothed": 10}).name
        'quantile_0.25_cost'
        """
        if isinstance(given, Response):
            return given
        if given == "count":
            return cls(kind="count", name="count")
        if not isinstance(given, Mapping):
            raise UsageError(f"responses: give count, or a mapping such as {{sum: cost}}, not {given!r}")
        kinds = [key for key in given if key in get_args(Kind)]
        if len(kinds) != 1:
            unknown = [key for key in given if key not in (*get_args(Kind), *COMMON)]
            hint = did_you_mean(str(unknown[0]), get_args(Kind)) if unknown else ""
            raise UsageError(f"responses: each has exactly one of {', '.join(get_args(Kind))}{hint}")
        kind = cast(Kind, kinds[0])
        known = (kind, *KEYS.get(kind, ()), *COMMON)
        unknown = [key for key in given if key not in known]
        if unknown:
            raise UsageError(f"responses: {kind}: unknown key {unknown[0]!r}{did_you_mean(str(unknown[0]), known)}")
        columns = _columns(kind, given[kind])
        more = _more(kind, given)
        share = [f"{float(more['q']):g}"] if "q" in more else []
        name = given.get("name", "_".join([kind, *share, *(columns or (() if kind == "count" else ("count",)))]))
        if not isinstance(name, str) or not name:
            raise UsageError("responses: name must be a text")
        return cls(kind=kind, columns=columns, decimals=given.get("decimals"), name=name, **more)


def _columns(kind: Kind, given: Any) -> tuple[str, ...]:
    if kind == "percentage" and given == "count":
        return ()
    columns = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else ()
    needed = {"count": 0, "ratio": 2}.get(kind, 1)
    if len(columns) != needed or not all(isinstance(each, str) for each in columns):
        raise UsageError(f"responses: {kind} takes {needed} column{'s' if needed != 1 else ''}")
    return columns


def _more(kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a kind has in addition to its columns."""
    if kind == "percentage":
        return _base(given)
    if kind in ("minimum", "maximum"):
        bound = given.get("structural")
        return {} if bound is None else {"structural": _number(f"{kind}: structural", bound)}
    if kind != "quantile":
        return {}
    if "q" not in given:
        raise UsageError("responses: quantile: give q, as in {quantile: cost, q: 0.5, smoothed: 10}")
    q = _number("quantile: q", given["q"])
    if not 0 < q < 1:
        raise UsageError(f"responses: quantile: q must be between 0 and 1, got {given['q']!r}; see minimum, maximum")
    if ("smoothed" in given) == ("unit" in given):
        raise UsageError(
            "responses: quantile: give `smoothed: n` (the mean of n contributors is published) or `unit: u` (a "
            "multiple of u is); a quantile itself is the value of one person"
        )
    if "unit" in given:
        unit = _number("quantile: unit", given["unit"])
        if not unit > 0:
            raise UsageError(f"responses: quantile: unit must be above 0, got {given['unit']!r}")
        return {"q": q, "unit": unit}
    smoothed = given["smoothed"]
    if isinstance(smoothed, bool) or not isinstance(smoothed, int) or smoothed < 2:
        raise UsageError(f"responses: quantile: smoothed must be an integer of at least 2, got {smoothed!r}")
    return {"q": q, "smoothed": smoothed}


def _base(given: Mapping[str, Any]) -> dict[str, Any]:
    of = given.get("of")
    listed = (of,) if isinstance(of, str) else tuple(of) if isinstance(of, Sequence) else ()
    if not listed or not all(isinstance(each, str) for each in listed):
        raise UsageError("responses: percentage: `of` names the dimensions whose total is 100 %, as in {of: [age]}")
    digits = given.get("digits", 1)
    if isinstance(digits, bool) or not isinstance(digits, int) or not 0 <= digits <= MOST_DIGITS:
        raise UsageError(f"responses: percentage: digits must be an integer from 0 to {MOST_DIGITS}, got {digits!r}")
    return {"of": listed, "digits": digits}


def _number(what: str, value: Any) -> Fraction:
    found = rational(value, f"responses: {what}")
    if found.denominator > FINEST:
        raise UsageError(f"responses: {what} has more than {len(str(FINEST)) - 1} decimals; give fewer")
    return found


def responses_of(given: object) -> tuple[Response, ...]:
    """The responses of a table.

    Raises
    ------
    UsageError
        None, two of one name, or figures whose parts would be published without being judged.
    """
    listed = [given] if isinstance(given, str | Mapping | Response) else given
    if not isinstance(listed, Sequence) or not listed:
        raise UsageError("responses: give a list, as in [count, {sum: cost, decimals: 2}]")
    found = tuple(Response.read(each) for each in listed)
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"responses: two are named {name!r}; give one another `name`")
    if any(each.ordered for each in found) and not any(each.kind == "count" for each in found):
        raise UsageError(
            "responses: extremes, quantiles and modes rest on counts that are judged; add `count` to the responses"
        )
    decimals: dict[str, int] = {}
    for each in found:
        for column in each.columns:
            if each.decimals is not None and decimals.setdefault(column, each.decimals) != each.decimals:
                raise UsageError(f"responses: column {column!r} has two numbers of decimals")
    return found
