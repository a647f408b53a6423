"""`dates`: calendar units of dates and timestamps, finest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Annotated, ClassVar, Final, Literal, Self, cast, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from typing_extensions import Doc

from privpipe.errors import UsageError
from privpipe.hierarchies.canonical import canonical_literal
from privpipe.hierarchies.levels import Draft, Levels
from privpipe.hierarchies.options import ROOT, check_type_of_column, choice, known_keys, listed

__all__ = ["Dates"]

EXAMPLE = "{levels: [day, month, year], timezone: UTC}"
Unit = Literal["second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century"]

# From YYYY-MM-DDTHH:MM:SS. A century has the same first two digits, so that decades nest in it.
LABELS: Final[dict[str, Callable[[str], str]]] = {
    "second": lambda text: text[:19],
    "minute": lambda text: text[:16],
    "hour": lambda text: text[:13],
    "day": lambda text: text[:10],
    "week": lambda text: "{:04d}-W{:02d}".format(*date.fromisoformat(text[:10]).isocalendar()),
    "month": lambda text: text[:7],
    "quarter": lambda text: f"{text[:4]}-Q{(int(text[5:7]) + 2) // 3}",
    "year": lambda text: text[:4],
    "decade": lambda text: f"{text[:3]}0-{text[:3]}9",
    "century": lambda text: f"{text[:2]}00-{text[:2]}99",
}
UNITS: Final = get_args(Unit)
OF_A_DAY: Final = ("second", "minute", "hour")


@dataclass(frozen=True, kw_only=True)
class Dates:
    """Calendar units, one per level, and a ``*`` level above.

    Weeks are those of ISO 8601, labelled year-week; they refine into nothing but the root.

    Examples
    --------
    >>> Dates(levels=("month", "year")).draft(["2024-05-17"], None, "date", "born").levels.labels
    (('2024-05-17',), ('2024-05',), ('2024',), ('*',))
    """

    example: ClassVar[str] = "{levels: [month, quarter, year, decade]}"
    example_values: ClassVar[tuple[str, ...]] = ("1969-12-31", "1970-01-01", "2024-05-17")
    example_type: ClassVar[str] = "date"

    levels: Annotated[tuple[Unit, ...], Doc("units of the calendar, each once, finest first")]
    timezone: Annotated[str, Doc("where the calendar is read; timestamps only")] = "UTC"

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `dates:`."""
        mapping = known_keys(given, cls, EXAMPLE)
        levels = listed(mapping.get("levels"), "levels")
        return cls(levels=tuple(cast(Unit, level) for level in levels), timezone=mapping.get("timezone", "UTC"))

    def __post_init__(self) -> None:
        if not self.levels:
            raise UsageError(f"levels: name at least one unit, as in {EXAMPLE}")
        for level in self.levels:
            choice(level, "levels", UNITS)
        if "week" in self.levels and self.levels[-1] != "week":
            after = self.levels[self.levels.index("week") + 1]
            raise UsageError(
                f"levels: not functional: a week does not refine into a {after}, since it may be in two; "
                "leave one of them out"
            )
        for below, above in pairwise(self.levels):
            if UNITS.index(below) >= UNITS.index(above):
                raise UsageError(f"levels: {above!r} after {below!r}; list each unit once, finest first")
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
            raise UsageError(
                f"timezone: {self.timezone!r} is not an IANA time zone known here, as in Europe/Rome"
            ) from None

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in order of time."""
        check_type_of_column(kind, ("date", "timestamp"), "dates", column)
        if kind == "date":
            self._require_days(column)
        moments = [_moment(value) for value in values]
        inside = sorted((place for place, moment in enumerate(moments) if moment), key=lambda place: moments[place])
        local = [self._local(moments[place]) for place in inside]
        columns = [[LABELS[level](text) for text in local] for level in self.levels]
        return Draft(
            levels=Levels.from_columns([[values[place] for place in inside], *columns, [ROOT] * len(inside)]),
            source="dates",
            level_names=("raw", *self.levels, ROOT),
            outside=tuple(place for place, moment in enumerate(moments) if not moment),
            outside_why="they are not ISO 8601 dates or timestamps of the years 1 to 9999",
        )

    def _require_days(self, column: str) -> None:
        finer = [level for level in self.levels if level in OF_A_DAY]
        if finer or self.timezone != "UTC":
            what = f"levels: {finer[0]}" if finer else "timezone"
            raise UsageError(f"dates: {what} is for timestamps, and column {column!r} holds dates")

    def _local(self, moment: str) -> str:
        if self.timezone == "UTC":
            return moment
        instant = datetime.fromisoformat(moment[:19]).replace(tzinfo=UTC)
        return instant.astimezone(ZoneInfo(self.timezone)).replace(tzinfo=None).isoformat(timespec="seconds")


def _moment(text: str) -> str:
    """Canonical UTC text down to the second, or an empty text."""
    try:
        return canonical_literal(text, "timestamp") or ""
    except ValueError:
        return ""
