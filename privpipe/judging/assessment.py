"""The assessment of a table, its public figures, and the verdicts that no entry makes of itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from privpipe.blocks import Entry, Guarantee, Outcome, Verdict
from privpipe.blocks.public_edition import LEAST_REPORTED, PublicRules
from privpipe.blocks.verdict import VERDICT_HEAD, Comparison, least, plain, warning_of
from privpipe.border import bordered
from privpipe.errors import ColumnsLost, Refused
from privpipe.html_tables import Table, figure, html_tables
from privpipe.judging.column_loss import LossTable

__all__ = [
    "ALL_SUPPRESSED",
    "EMPTY_PASSED",
    "SCHEMA_VERSION",
    "Assessment",
    "all_suppressed",
    "check_metadata",
    "compares_tables",
    "empty_passed",
    "founded",
    "not_judged",
    "public_figures",
    "resting_on",
    "rules_of_judging",
]


ALL_SUPPRESSED = "every record is suppressed."
EMPTY_PASSED = "the table has no records, which `empty: pass` allows: nothing was compared."


def not_judged(entry: Guarantee, reason: str) -> Verdict:
    """An error, which blocks as a fail does."""
    return Verdict(entry, None, "error", entry.demanded(), reason=reason)


def all_suppressed(entry: Guarantee, *, allowed: bool = False) -> Verdict:
    """The verdict over suppressed records alone: a fail, unless an empty release is allowed."""
    outcome: Outcome = "pass" if allowed else "fail"
    return Verdict(entry, None, outcome, entry.demanded(), reason=ALL_SUPPRESSED)


def empty_passed(entry: Guarantee) -> Verdict:
    """The verdict over a table without a record, where the policy lets one pass: it rests on nothing and says so.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> verdict = empty_passed(KAnonymity(k=5))
    >>> verdict.outcome, verdict.observed, verdict.compared[0].compared
    ('pass', None, 0)
    """
    nothing = Comparison(0, 0, "records judged")
    return Verdict(entry, None, "pass", entry.demanded(), reason=EMPTY_PASSED, compared=(nothing,))


def resting_on(verdict: Verdict, *comparisons: Comparison) -> Verdict:
    """The verdict with its further notes."""
    return replace(verdict, compared=(*verdict.compared, *comparisons))


def founded(verdict: Verdict, records: int) -> Verdict:
    """The verdict itself; an error where its figure is not a number, or rests on fewer than half of what it compares.

    An entry over one table compares all its records. One that compares two must state how much of them it compared:
    a figure over nothing is 0 as easily as a figure over everything.

    Parameters
    ----------
    records : int
        Records judged.
    """
    if verdict.outcome == "error":
        return verdict
    if isinstance(verdict.observed, float) and math.isnan(verdict.observed):
        return replace(verdict, outcome="error", observed=None, reason="the figure is undefined (not a number).")
    if not verdict.compared:
        if compares_tables(verdict.entry) and verdict.passed:
            return replace(verdict, outcome="error", reason=f"{verdict.name} does not state how much it compared.")
        return replace(verdict, compared=(Comparison(records, records, "records judged"),))
    [worst] = least(verdict.compared)
    if not worst.enough:
        # Without the remedy, a share of nothing ("0 of 0") gives no one anything to act on.
        remedy = f"; {worst.remedy}" if worst.remedy else ""
        return replace(
            verdict, outcome="error", reason=f"{worst}: a figure over fewer than half proves nothing{remedy}."
        )
    if worst.compared < worst.of:
        return replace(verdict, reason=f"{verdict.reason.removesuffix('.')}; {worst}.")
    return verdict


def compares_tables(entry: Entry) -> bool:
    """Whether an entry compares the judged table with another one."""
    return isinstance(entry, Guarantee) and (entry.needs_population or not entry.way.of_table)


COLUMNS = ("guarantee", "parameters", "asked", "reached", "margin", "outcome")


def public_figures(shown: Mapping[str, Any], verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """What the public edition of the verdict states about each guarantee: required, achieved, margin and outcome.

    Of a table that was refused it says no more than of a release: no figure that compares with the source or rests on
    few records.

    Parameters
    ----------
    shown : mapping
        The public verdict document.
    verdicts : iterable of Verdict
        Of its guarantees, in their order.
    """
    return {
        "passed": shown["passed"],
        "engine": shown.get("engine"),
        "policy_hash": shown.get("policy_hash"),
        "records": shown["records"],
        "suppressed_records": shown["suppressed_records"],
        "classes": shown["classes"],
        "warnings": shown["warnings"],
        "guarantees": [_row(verdict, row) for verdict, row in zip(verdicts, shown["guarantees"], strict=True)],
    }


def check_metadata(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The guarantees as rows of texts, and the counts that the public edition shows, as plain JSON values.

    Parameters
    ----------
    figures : mapping
        Of `public_figures`. What the public edition withholds is left empty.

    Examples
    --------
    >>> row = {"guarantee": "k_anonymity", "parameters": {"k": 5}, "asked": 5, "reached": 7, "margin": 2.0}
    >>> check_metadata({"guarantees": [{**row, "outcome": "pass"}], "records": 90})["guarantees"][0]["parameters"]
    'k=5'
    """
    rows = [{name: _cell(row[name]) for name in COLUMNS} for row in figures.get("guarantees", ())]
    counts = {name: figures[name] for name in ("records", "classes") if figures.get(name) is not None}
    warned = {"warnings": list(figures["warnings"])} if figures.get("warnings") else {}
    return {"guarantees": rows, **counts, **warned} if rows else {}


def rules_of_judging(
    guarantees: Sequence[Guarantee], columns: Iterable[str], person: str | None = None, household: str | None = None
) -> PublicRules:
    """Rules for a caller that has the judgement but no policy.

    No count below the largest required k is shown, and never one below 5.

    Parameters
    ----------
    guarantees : sequence of Guarantee
    columns : iterable of str
        Those of the judged table that are released.
    person, household : str, optional
        By which column these are counted.
    """
    asked = [int(entry.demanded() or 1) for entry in guarantees if entry.name() == "k_anonymity"]
    least = max([LEAST_REPORTED, *asked])
    return PublicRules(columns=frozenset(columns), person=person, household=household, least=least, counts=False)


def _row(verdict: Verdict, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "guarantee": row["name"],
        "parameters": row["parameters"],
        "asked": row["threshold"],
        "reached": row["observed"],
        "margin": _margin(row["threshold"], row["observed"], getattr(verdict.entry, "direction", None)),
        "outcome": row["outcome"],
        "severity": row["severity"],
    }


def _margin(asked: Any, reached: Any, direction: str | None) -> float | None:
    """How far the figure is on the safe side; below 0 it is not."""
    known = all(isinstance(each, int | float) and math.isfinite(each) for each in (asked, reached))
    if not known or direction is None:
        return None
    return float(reached - asked if direction == "at_least" else asked - reached)


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return "" if value is None else str(value)


SCHEMA_VERSION = 2
OF_WHOLE = "the whole table"
NO_FIGURES = rules_of_judging((), (), person="a column that was not named")


@bordered
@dataclass(frozen=True, kw_only=True)
class Assessment:
    """All verdicts over one table.

    Parameters
    ----------
    verdicts : tuple of Verdict
        One a guarantee, in policy order; before them built-in guarantees that do not hold.
    measures : tuple of Verdict
        One a measure; reported, never judged.
    records : int
        Records judged: released and not suppressed.
    suppressed_records : int
        Records of the judged table that carry the suppression mark in every quasi-identifier, and those that a
        release left out.
    classes : int or None
        Equivalence classes over the policy's quasi-identifiers (over the first guarantee's, where it has its own).
    notes : tuple of str
        What a reader must know about the policy and the judged table: the base distribution used, what was not judged.
    source_notes : tuple of str
        Notes that disclose something of the source; they are in private records only.
    built_in : tuple of Verdict
        Built-in guarantees that hold (`no_identifiers`); first in the verdict document.
    run : mapping
        Run id, hashes, engine and versions, when the assessment is part of a run.
    whole : Assessment or None
        Of all rows that readers see, where a release joins rows of earlier ones; it must pass as well.
    lost : LossTable or None
        What each column of a release has lost; its alarms refuse where the policy says so. In private records only.
    public : PublicRules or None
        What readers of the judged table may learn of it, as far as the judgement knows.

    Examples
    --------
    >>> Assessment(verdicts=(), records=0).passed
    False
    """

    verdicts: tuple[Verdict, ...]
    measures: tuple[Verdict, ...] = ()
    records: int
    suppressed_records: int = 0
    classes: int | None = None
    notes: tuple[str, ...] = ()
    source_notes: tuple[str, ...] = ()
    built_in: tuple[Verdict, ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)
    whole: Assessment | None = None
    lost: LossTable | None = None
    public: PublicRules | None = field(default=None, repr=False, compare=False)

    @property
    def holds(self) -> bool:
        """Whether there is a verdict of severity `fail` and every such verdict is a pass; an error blocks as a fail."""
        judged = any(verdict.severity == "fail" for verdict in self.verdicts)
        return judged and not self.failed and (self.whole is None or not self.whole.failed)

    @property
    def passed(self) -> bool:
        """Whether every guarantee of severity `fail` holds and no alarm refuses; warnings are `warned`."""
        return self.holds and not (self.lost is not None and self.lost.refuses)

    @property
    def alarms(self) -> tuple[str, ...]:
        """Columns that lost all their information, or more than the policy says, in sentences."""
        return () if self.lost is None else self.lost.alarms

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """The verdicts that block."""
        return tuple(verdict for verdict in self.verdicts if verdict.blocks)

    @property
    def warned(self) -> tuple[Verdict, ...]:
        """Verdicts of severity `warn` that are not a pass: the table may pass all the same."""
        return tuple(verdict for verdict in self.verdicts if verdict.warns)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each of these: which entry, what was required and what was achieved."""
        of_whole = () if self.whole is None else (f"{OF_WHOLE}: {warning}" for warning in self.whole.warnings)
        return (*(warning_of(verdict.to_dict()) for verdict in self.warned), *of_whole)

    def raise_if_failed(self, ending: str = "Nothing was published.", *, record: str = "") -> Assessment:
        """The assessment itself when it passed.

        Parameters
        ----------
        ending : str
            The end of the error: what did not happen.
        record : str
            Folder of the private record of the run.

        Raises
        ------
        Refused
            Otherwise; it carries the assessment. `ColumnsLost` where guarantees hold and an alarm refuses.
        """
        if self.passed:
            return self
        if self.holds:
            lines = [f"ALARM {alarm}" for alarm in self.alarms]
            raise ColumnsLost("refused: " + "\n         ".join(lines) + f"\n{ending}", self, record)
        lines = [str(verdict) for verdict in self.failed]
        if self.whole is not None:
            lines += [f"{OF_WHOLE}: {verdict}" for verdict in self.whole.failed]
        lines = lines or ["no guarantee that could refuse was judged"]
        raise Refused("refused: " + "\n         ".join(lines) + f"\n{ending}", self, record)

    def noting(self, *notes: str, source: Sequence[str] = ()) -> Assessment:
        """The same assessment with more notes, none of them twice; those of `source` disclose something of it."""
        return replace(
            self,
            notes=tuple(dict.fromkeys((*self.notes, *notes))),
            source_notes=tuple(dict.fromkeys((*self.source_notes, *source))),
        )

    def within(self, **run: Any) -> Assessment:
        """The same assessment as part of a run."""
        return replace(self, run={**self.run, **run})

    def __repr__(self) -> str:
        warned = f"{len(self.warned)} warned, " if self.warned else ""
        return (
            f"Assessment({'passed' if self.passed else 'failed'}, {self.records:,} records, "
            f"{len(self.verdicts)} guarantees, {len(self.failed)} of them failed, {warned}"
            f"{len(self.measures)} measures)"
        )

    def _repr_html_(self) -> str:
        # Sentences of alarms and notes of the source reveal figures of it; a notebook is often handed on.
        kept = [("alarms", len(self.alarms)), ("notes of the source", len(self.source_notes))]
        about = [
            ("records judged", self.records),
            ("suppressed records", self.suppressed_records),
            ("classes", self.classes),
            ("engine", str(self.run.get("engine") or "-")),
            *((name, f"{count}, not shown here") for name, count in kept if count),
        ]
        rows = [verdict.row() for verdict in (*self.built_in, *self.verdicts)]
        measured = [verdict.row()[:3] for verdict in self.measures]
        reasons = [f"{verdict.name}: {verdict.reason}" for verdict in self.failed]
        if self.whole is not None:
            reasons += [f"{OF_WHOLE}: {verdict.name}: {verdict.reason}" for verdict in self.whole.failed]
        reasons = [*(f"WARNING {warning}" for warning in self.warnings), *reasons]
        held = "Passed, with warnings" if self.warned else "Passed: every guarantee holds"
        return html_tables(
            held if self.passed else "Failed",
            Table(head=VERDICT_HEAD, rows=rows),
            Table(head=("measure", *VERDICT_HEAD[1:3]), rows=measured),
            Table(rows=[(name, value if isinstance(value, str) else figure(value)) for name, value in about]),
            notes=[*reasons, *(f"note: {note}" for note in self.notes)],
        )

    def public_dict(self, rules: PublicRules) -> dict[str, Any]:
        """The public edition of the verdict document: outcomes, and figures of the released table alone.

        Parameters
        ----------
        rules : PublicRules
            What readers of the release know anyway.
        """
        rows = [verdict.to_public(rules, self.records) for verdict in (*self.built_in, *self.verdicts)]
        whole = None if self.whole is None else self.whole._public_whole(rules)
        of_whole = () if whole is None else whole["guarantees"]
        return {
            "schema_version": SCHEMA_VERSION,
            "edition": "public",
            **plain(self.run),
            "passed": self.passed,
            "records": self.records,
            "suppressed_records": self.suppressed_records if rules.counts else None,
            "classes": self.classes,
            "warnings": [
                *(text for text in map(warning_of, rows) if text),
                *(f"{OF_WHOLE}: {text}" for text in map(warning_of, of_whole) if text),
            ],
            "guarantees": rows,
            "measures": [verdict.to_public_measure(rules, self.records) for verdict in self.measures],
            "notes": list(self.notes),
            **({} if whole is None else {"whole_table": whole}),
        }

    def to_asset_check_metadata(self, rules: PublicRules | None = None) -> dict[str, Any]:
        """What an asset check of Dagster shows: a row of texts a guarantee, and counts, as plain JSON values.

        Parameters
        ----------
        rules : PublicRules, optional
            Of a policy; left out, those of the judgement. Of an assessment made by hand no figure is shown.

        Examples
        --------
        >>> Assessment(verdicts=(), records=0).to_asset_check_metadata()
        {}
        """
        shown = self.public_dict(rules or self.public or NO_FIGURES)
        return check_metadata(public_figures(shown, (*self.built_in, *self.verdicts)))

    def _public_whole(self, rules: PublicRules) -> dict[str, Any]:
        rows = [verdict.to_public(rules, self.records) for verdict in (*self.built_in, *self.verdicts)]
        return {**self._whole(), "guarantees": rows}

    def _whole(self) -> dict[str, Any]:
        """Its part of the document of the release that joins this table."""
        return {
            "passed": not self.failed,
            "records": self.records,
            "suppressed_records": self.suppressed_records,
            "classes": self.classes,
            "guarantees": [verdict.to_dict() for verdict in (*self.built_in, *self.verdicts)],
            "notes": list(self.notes),
        }

    def to_dict(self) -> dict[str, Any]:
        """The whole verdict document, as plain JSON values; for those who run it, not for readers of the release."""
        return {
            "schema_version": SCHEMA_VERSION,
            "edition": "private",
            **plain(self.run),
            "passed": self.passed,
            "records": self.records,
            "suppressed_records": self.suppressed_records,
            "classes": self.classes,
            "warnings": list(self.warnings),
            "guarantees": [verdict.to_dict() for verdict in (*self.built_in, *self.verdicts)],
            "measures": [verdict.to_measure() for verdict in self.measures],
            "notes": [*self.notes, *self.source_notes],
            **({} if self.whole is None else {"whole_table": self.whole._whole()}),
            **({} if self.lost is None else self.lost.documents()),
        }
