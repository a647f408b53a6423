"""The verdict of a guarantee on a table: pass, fail or error; an error blocks a release as a fail does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, Literal, TypeVar

from privpipe.blocks.entry import Entry
from privpipe.blocks.public_edition import PublicRules, public_parameters, shown_parameters
from privpipe.html_tables import Table, cut, figure, html_tables

__all__ = [
    "ALIGN",
    "EXPLAIN",
    "VERDICT_HEAD",
    "Comparison",
    "Demand",
    "Outcome",
    "Severity",
    "Verdict",
    "binding",
    "least",
    "plain",
    "warning_of",
]


EXPLAIN = "declare the hierarchy that the labels come from, or leave the column out of the columns compared"
ALIGN = "compare the release with the table that it was made from, by the same record ids"


@dataclass(frozen=True)
class Comparison:
    """Records or pairs that were compared, of those that should have been.

    Parameters
    ----------
    compared : int
    of : int
        Those that should have been. 0: there was nothing to compare.
    what : str
        What is counted, as the rest of a sentence that begins with the two numbers.
    remedy : str
        What to do where too few were compared.

    Examples
    --------
    >>> few = Comparison(3, 8, "released records have a label of 'age' that is explained", EXPLAIN)
    >>> str(few), few.enough
    ("3 of 8 released records have a label of 'age' that is explained", False)
    >>> Comparison(0, 0, "released records").enough, Comparison(4, 8, "released records").enough
    (False, True)
    """

    compared: int
    of: int
    what: str
    remedy: str = ""

    @property
    def share(self) -> float:
        """The share that was compared; 0 of nothing."""
        return self.compared / self.of if self.of else 0.0

    @property
    def enough(self) -> bool:
        """Whether it is at least half, so that a figure over it can be judged."""
        return self.of > 0 and 2 * self.compared >= self.of

    def __str__(self) -> str:
        return f"{self.compared:,} of {self.of:,} {self.what}"

    def to_dict(self) -> dict[str, int | str]:
        """The row of a verdict document."""
        return {"compared": self.compared, "of": self.of, "what": self.what}


def least(comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    """The comparison with the smallest share compared, the first if several are equal; None if there is none.

    Examples
    --------
    >>> least([Comparison(8, 8, "rows"), Comparison(2, 8, "rows"), Comparison(1, 4, "rows")])
    (Comparison(compared=2, of=8, what='rows', remedy=''),)
    """
    found = list(comparisons)
    return (min(found, key=lambda each: each.share),) if found else ()


Severity = Literal["fail", "warn"]


class Demand(Entry):
    """Something that a policy requires of a release: its severity, and the verdict if it cannot be judged."""

    severity: Severity

    @property
    def binds(self) -> bool:
        """Whether a release is refused where it does not hold."""
        return self.severity == "fail"

    def parameters(self) -> dict[str, Any]:
        """As for every entry; with the severity only if it is not the default."""
        left_out = {"severity"} if self.binds else set()
        return {name: value for name, value in super().parameters().items() if name not in left_out}

    def demanded(self) -> Any:
        """What `observed` is compared with."""
        raise TypeError(f"{type(self).__name__} demands nothing")

    def not_judged(self, reason: str, observed: Any = None, compared: tuple[Comparison, ...] = ()) -> Verdict:
        """An error, never a pass; the reason is a sentence without its full stop."""
        return Verdict(self, observed, "error", self.demanded(), reason=f"{reason}.", compared=compared)


G = TypeVar("G", bound=Demand)


def binding(guarantees: Iterable[G]) -> tuple[G, ...]:
    """The guarantees that refuse a release, in order: what a search must meet.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> binding([KAnonymity(k=5), KAnonymity(k=11, severity="warn")])
    (KAnonymity(k=5),)
    """
    return tuple(guarantee for guarantee in guarantees if guarantee.binds)


Outcome = Literal["pass", "fail", "error"]
OF_THE_SOURCE = "the figure compares with the source and is in the private record."
OF_FEW = "the figure rests on few records and is in the private record."
WITHHELD = dict.fromkeys(("observed", "failing_classes", "failing_records", "failing_share"))
VERDICT_HEAD = ("guarantee", "parameters", "observed", "required", "outcome", "failing records")
"""What the cells of `Verdict.row` are."""
LONGEST = 80
WARNING = "warning"
SAID = {"pass": "held", "fail": "failed", "error": "not judged"}


@dataclass(frozen=True)
class Verdict:
    """The judgement of one entry over one table.

    Parameters
    ----------
    entry : Entry
        The guarantee or measure that judged.
    observed : int, float, mapping or None
        The tightest parameter with which the table would pass; None when no number meets the definition.
    outcome : {"pass", "fail", "error"}
    threshold : int, float, mapping or None
    failing_classes, failing_records : int or None
        What the figure is based on; None if the entry does not judge class by class.
    failing_share : float or None
        failing_records / records judged.
    reason : str
        One sentence for a person; never a data value.
    compared : tuple of Comparison
        How much it rests on. Of an entry that compares two tables, what shows nothing about it is not a pass.
    evidence : object
        The evidence that it holds, only for the private record; it is in no document of a verdict.
    table : str
        Which of related tables was judged by itself; empty for all of them together, or if there is only one.
    """

    entry: Entry
    observed: Any
    outcome: Outcome
    threshold: Any = None
    failing_classes: int | None = None
    failing_records: int | None = None
    failing_share: float | None = None
    reason: str = ""
    compared: tuple[Comparison, ...] = ()
    evidence: Any = field(default=None, repr=False, compare=False)
    table: str = ""

    @property
    def name(self) -> str:
        """The entry's catalogue name."""
        return self.entry.name()

    @property
    def parameters(self) -> dict[str, Any]:
        """The entry's parameters, defaults included."""
        return self.entry.parameters()

    @property
    def public_parameters(self) -> dict[str, Any]:
        """The parameters as plain JSON values, without the locations of files."""
        return public_parameters(type(self.entry), plain(self.parameters))

    @property
    def passed(self) -> bool:
        """Whether the outcome is `pass`."""
        return self.outcome == "pass"

    @property
    def severity(self) -> str:
        """Of the entry: `fail` or `warn`."""
        return str(getattr(self.entry, "severity", "fail"))

    @property
    def blocks(self) -> bool:
        """Whether it keeps a table from passing: a fail or an error that is not a warning."""
        return not self.passed and self.severity == "fail"

    @property
    def warns(self) -> bool:
        """Whether it is a fail or an error of an entry that only warns."""
        return not self.passed and self.severity == "warn"

    def to_dict(self) -> dict[str, Any]:
        """The row of the verdict document."""
        return {
            "name": self.name,
            "parameters": plain(self.parameters),
            "observed": plain(self.observed),
            "threshold": plain(self.threshold),
            "outcome": self.outcome,
            "severity": self.severity,
            "failing_classes": self.failing_classes,
            "failing_records": self.failing_records,
            "failing_share": plain(self.failing_share),
            "reason": self.reason,
            **self._rests_on(),
        }

    def to_measure(self) -> dict[str, Any]:
        """The row of a measure, which has no outcome."""
        return {
            "name": self.name,
            "parameters": plain(self.parameters),
            "observed": plain(self.observed),
            "reason": self.reason,
            **self._rests_on(),
        }

    def _rests_on(self) -> dict[str, Any]:
        compared = {"compared": [each.to_dict() for each in self.compared]} if self.compared else {}
        return {**compared, "table": self.table} if self.table else compared

    def to_public(self, rules: PublicRules, records: int) -> dict[str, Any]:
        """The row of the public verdict document, of a table of so many records.

        Figures are only those of the released table; for the others it gives the outcome.
        """
        row = {**self.to_dict(), "parameters": self.public_parameters}
        if self.entry.discloses_source(rules):
            row.pop("compared", None)
            # A threshold may be derived from the source as well; what the policy asks for is public.
            secret = getattr(self.entry, "threshold_field", None) in self.entry.withheld
            asked = None if secret else getattr(self.entry, "demanded", lambda: None)()
            return {**row, **WITHHELD, "threshold": plain(asked), "reason": f"{SAID[self.outcome]}; {OF_THE_SOURCE}"}
        names = ("failing_classes", "failing_records", *(("observed",) if self.entry.counts_records() else ()))
        shown = {name: rules.reported(row[name], records) for name in names}
        if all(row[name] == value for name, value in shown.items()):
            return row
        return {**row, **shown, "failing_share": None, "reason": f"{SAID[self.outcome]}; {OF_FEW}"}

    def to_public_measure(self, rules: PublicRules, records: int) -> dict[str, Any]:
        """The row of a measure in the public verdict document."""
        row = {**self.to_measure(), "parameters": self.public_parameters}
        if self.entry.discloses_source(rules):
            row.pop("compared", None)
            return {**row, "observed": None, "reason": f"measured; {OF_THE_SOURCE}"}
        shown = rules.reported(row["observed"], records, shares=self.entry.counts_records())
        return row if shown == row["observed"] else {**row, "observed": shown, "reason": f"measured; {OF_FEW}"}

    def row(self) -> tuple[str, ...]:
        """Its cells in a printed table; see `VERDICT_HEAD`."""
        return (
            self.name,
            shown_parameters(type(self.entry), plain(self.parameters)),
            _few_signs(self.observed),
            "" if self.threshold is None else _few_signs(self.threshold),
            f"{self.outcome} ({WARNING})" if self.warns else self.outcome,
            figure(self.failing_records),
        )

    def _repr_html_(self) -> str:
        rows = list(zip(VERDICT_HEAD[1:], self.row()[1:], strict=True))
        return html_tables(self.name, Table(rows=rows), notes=[self.reason])

    def __repr__(self) -> str:
        asked = "" if self.threshold is None else f", required {_few_signs(self.threshold)}"
        return f"Verdict({self.name}, {self.outcome}, observed {_few_signs(self.observed)}{asked})"

    def __str__(self) -> str:
        outcome = f"{WARNING} ({self.outcome})" if self.warns else self.outcome
        return f"{outcome.upper():5} {self.entry!r}: {self.reason}"


def _few_signs(value: Any) -> str:
    return cut(figure(plain(value)), LONGEST)


def warning_of(row: Mapping[str, Any]) -> str:
    """The sentence on a warning that is not met, from its row of a verdict document; nothing of any other row.

    Examples
    --------
    >>> row = {"name": "k_anonymity", "outcome": "fail", "severity": "warn", "threshold": 9, "observed": 4}
    >>> warning_of(row)
    'k_anonymity: required 9, achieved 4'
    >>> warning_of({**row, "outcome": "error", "observed": None}), warning_of({**row, "outcome": "pass"})
    ('k_anonymity: required 9, not judged', '')
    """
    if row.get("severity") != "warn" or row.get("outcome") == "pass":
        return ""
    asked, observed = row.get("threshold"), row.get("observed")
    said = [] if asked is None else [f"required {_few_signs(asked)}"]
    if row.get("outcome") == "error":
        said.append("not judged")
    else:
        said.append("not met" if observed is None else f"achieved {_few_signs(observed)}")
    column = row.get("parameters", {}).get("column")
    of = f" of {column!r}" if isinstance(column, str) else ""
    return f"{row['name']}{of}: {', '.join(said)}"


def plain(value: Any) -> Any:
    """A value as JSON: numpy scalars unwrapped, non-finite floats None, tuples lists.

    Examples
    --------
    >>> plain({"k": 3, "h": float("inf"), "pair": (1, 2.5)})
    {'k': 3, 'h': None, 'pair': [1, 2.5]}
    """
    if value is None or type(value) in (str, int, bool):  # most values of a document, which is made plain often
        return value
    if isinstance(value, dict | Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value
