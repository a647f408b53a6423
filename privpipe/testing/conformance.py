"""Conformance: every model over every hostile table on an engine, compared with the oracle.

Also what an entry must bring along.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from privpipe.blocks import Catalogue, Entry, Guarantee, Verdict
from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import PrivpipeError
from privpipe.judging import Assessment, JudgingRules, assess
from privpipe.models import CATALOGUE
from privpipe.testing.gaps import GAPS, Gap
from privpipe.testing.hostile_tables import HOSTILE_TABLES, HostileTable, arrow_table
from privpipe.testing.oracle import Expected, count_classes, oracle
from privpipe.testing.plain_engine import histogram_of

__all__ = [
    "Case",
    "Conformance",
    "Nonconforming",
    "Report",
    "cases",
    "catalogue_problems",
    "conformance",
    "examples_of",
]


EXPLAINED = ("source", "threat", "formula", "choose")


def catalogue_problems(catalogue: Catalogue, tests: Path | None = None) -> list[str]:
    """What the entries of a catalogue lack: empty when each is complete.

    Parameters
    ----------
    catalogue : Catalogue
    tests : Path, optional
        Folder that mirrors the room; each built-in entry must have a test file there, and plug-ins, whose
        tests are elsewhere, are left out.

    Returns
    -------
    list of str
        One line per fault.

    Examples
    --------
    >>> from privpipe.models import CATALOGUE
    >>> catalogue_problems(CATALOGUE)
    []
    """
    problems = []
    for name in catalogue if tests is None else catalogue.built_in:
        entry = catalogue[name]
        problems += [f"{name}: {fault}" for fault in _faults(entry, explained=catalogue.kind == "privacy model")]
        test = Path(*catalogue.module_of(name).split(".")).with_name(f"test_{name}.py")
        if tests is not None and not (tests / test).is_file():
            problems.append(f"{name}: has no test file {test}")
    return problems


def _faults(entry: type[Entry], *, explained: bool) -> list[str]:
    faults = _docstring_faults(entry)
    described = entry.descriptions()
    names = [field.name for field in dataclasses.fields(entry) if not field.name.startswith("_")]  # type: ignore[arg-type]
    faults += [
        f"parameter {name} has no line of text: `Doc(...)` in its annotation" for name in names if name not in described
    ]
    faults += [f"`{text}` is empty" for text in EXPLAINED if explained and not getattr(entry, text)]
    if entry.summary().count("\n") or not entry.summary().endswith("."):
        faults.append("the first line of its docstring is not a sentence")
    return [*faults, *_example_faults(entry)]


def _docstring_faults(entry: type[Entry]) -> list[str]:
    text = entry.__doc__ or ""
    return [] if text.strip() and "Examples\n" in text else ["its docstring is missing or has no example"]


def _example_faults(entry: type[Entry]) -> list[str]:
    examples = entry.examples()
    if not examples:
        return ["it has no examples"]
    changed = [example for example in examples if entry.build(_plain(example)) != example]
    return ["an example does not survive the way through a policy"] * len(changed)


def _plain(entry: Entry) -> dict[str, object]:
    """Parameters as a policy would write them."""
    from privpipe.blocks.verdict import plain

    parameters: dict[str, object] = plain(entry.parameters())
    return parameters


CANARIES = ("4711", "gout", "grippe", "Grippe ")


class Nonconforming(AssertionError):
    """An engine's verdict that is not the oracle's."""


@dataclass(frozen=True)
class Case:
    """One model over one hostile table; with `persons`, the person of each row, persons are counted."""

    model: Guarantee
    table: HostileTable
    persons: tuple[Any, ...] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.table.name}-{self.model!r}"

    def gap(self, engine: str) -> Gap | None:
        """Why this case may fail on that engine."""
        name = self.model.name()
        for owner in (engine, "*"):
            for what in (self.table.name, name, f"{name} {self.table.name}"):
                gap = GAPS.get((owner, what))
                if gap is not None and not gap.parameters:
                    return gap
        return None


@dataclass(frozen=True)
class Report:
    """What `conformance` found."""

    engine: str
    passed: int
    failures: Mapping[str, str]
    gaps: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.engine}: {self.passed:,} cases conform, {len(self.failures):,} do not"]
        lines += [f"  {name}: {text}" for name, text in self.failures.items()]
        lines += [f"  known gap {name}: {why}" for name, why in self.gaps.items()]
        return "\n".join(lines)


def examples_of(catalogue: Catalogue, *, population: bool = False) -> list[Guarantee]:
    """The examples of every entry that reads classes, in catalogue order.

    Parameters
    ----------
    catalogue : Catalogue
    population : bool
        Whether those are wanted too that compare with a population.

    Examples
    --------
    >>> from privpipe.models import CATALOGUE
    >>> examples_of(CATALOGUE)[0]
    KAnonymity(k=1)
    """
    examples = [example for name in catalogue for example in catalogue[name].examples()]
    return [
        example
        for example in examples
        if isinstance(example, Guarantee) and example.way.classes_alone and (population or not example.needs_population)
    ]


def cases(models: Sequence[Guarantee] | None = None) -> Iterator[Case]:
    """Every model with every hostile table."""
    for table in HOSTILE_TABLES.values():
        for model in examples_of(CATALOGUE, population=True) if models is None else models:
            yield Case(model, table)


class Conformance:
    """Checks cases on one engine; all models of a table that give a verdict are judged in one go.

    Parameters
    ----------
    engine : Engine
    models : sequence of Guarantee, optional
        Default: the examples of all models.
    folder : Path, optional
        Where to put the tables as Parquet, each row in another of three files than the one before, for the engine
        to read; left out, frames are passed.
    """

    def __init__(self, engine: Engine, models: Sequence[Guarantee] | None = None, folder: Path | None = None) -> None:
        self.engine = engine
        self.folder = folder
        self.models = tuple(examples_of(CATALOGUE, population=True) if models is None else models)
        self._judged: dict[str, dict[str, tuple[Verdict, Assessment]] | Exception] = {}
        self._refused: dict[str, Exception | None] = {}
        self._definitions: dict[Any, Expected | PrivpipeError] = {}

    def check(self, case: Case) -> None:
        """Nothing when the engine agrees with the oracle.

        Raises
        ------
        Nonconforming
        """
        expected = self._defined(case)
        if isinstance(expected, PrivpipeError):
            self._check_refusal(case, type(expected))
            return
        if case.model not in self.models or case.gap(self.engine.name):
            judged = self._assess(case.table, [case.model])
        else:
            judged = self._together(case.table)
        compare(case, *judged[repr(case.model)], expected)

    def _defined(self, case: Case) -> Expected | PrivpipeError:
        """What the oracle says, or raises; worked out once."""
        key = (str(case), case.persons)
        if key not in self._definitions:
            try:
                self._definitions[key] = oracle(case.model, case.table, persons=case.persons)
            except PrivpipeError as error:
                self._definitions[key] = error
        return self._definitions[key]

    def report(self, cases: Iterable[Case]) -> Report:
        """Check each of the cases, whatever the others give.

        Parameters
        ----------
        cases : iterable of Case

        Returns
        -------
        Report
            A case with a known gap that conforms is a failure: its gap must go.
        """
        passed, failures, gaps = 0, {}, {}
        for case in cases:
            gap = case.gap(self.engine.name)
            try:
                self.check(case)
            except Exception as error:  # noqa: BLE001 - a report of failures must survive each of them
                if gap is not None and isinstance(error, gap.raises):
                    gaps[str(case)] = gap.why
                else:
                    failures[str(case)] = f"{type(error).__name__}: {error}"
            else:
                passed += 1
                if gap is not None:
                    failures[str(case)] = "conforms, so its gap must go"
        return Report(self.engine.name, passed, failures, gaps)

    def _check_refusal(self, case: Case, error: type[PrivpipeError]) -> None:
        raised = self._refusal(case)
        if raised is None:
            raise Nonconforming(f"{case}: expected {error.__name__}, got a verdict")
        if not isinstance(raised, error):
            raise Nonconforming(f"{case}: expected {error.__name__}, got {type(raised).__name__}") from raised
        _no_cell_in(case, str(raised))

    def _refusal(self, case: Case) -> Exception | None:
        """What judging the case raises; for a table that may not be judged, once for all its models."""
        key = case.table.name if case.table.refused is not None else str(case)
        if key not in self._refused:
            models = self.models if case.table.refused is not None else [case.model]
            try:
                self._assess(case.table, models)
                self._refused[key] = None
            except Exception as error:  # noqa: BLE001 - kept, so that every case of the table reports it
                self._refused[key] = error
        return self._refused[key]

    def _together(self, table: HostileTable) -> dict[str, tuple[Verdict, Assessment]]:
        if table.name not in self._judged:
            every = [Case(model, table) for model in self.models]
            able = [
                case.model
                for case in every
                if not isinstance(self._defined(case), PrivpipeError) and not case.gap(self.engine.name)
            ]
            try:
                self._judged[table.name] = self._assess(table, able)
            except Exception as error:  # noqa: BLE001 - kept, so that every case of the table reports it
                self._judged[table.name] = error
        found = self._judged[table.name]
        if isinstance(found, Exception):
            raise found
        return found

    def _assess(self, table: HostileTable, models: Sequence[Guarantee]) -> dict[str, tuple[Verdict, Assessment]]:
        handle = self.engine.scan(self._source(table))
        gates = [model for model in models if model.is_gate()]
        reported = [model for model in models if not model.is_gate()]
        asked = any(model.needs_population for model in models) and table.refused is None
        assessment = assess(
            self.engine,
            handle,
            population=self.engine.scan(Source(data=table.population.frame())) if asked else handle,
            guarantees=gates,
            measures=reported,
            roles=table.roles,
            rules=JudgingRules(base={name: histogram_of(values) for name, values in table.base.items()}),
        )
        verdicts = (*assessment.verdicts, *assessment.measures)
        return {
            repr(model): (verdict, assessment) for model, verdict in zip((*gates, *reported), verdicts, strict=True)
        }

    def _source(self, table: HostileTable) -> Source:
        if self.folder is None:
            return Source(data=table.frame())
        folder = self.folder / table.name
        if not folder.exists():
            write_in_parts(table, folder)
        return Source(data=str(folder), format="parquet")


def compare(case: Case, verdict: Verdict, assessment: Assessment, expected: Expected | None = None) -> None:
    """Nothing when the verdict is the oracle's, `expected` where it is known.

    Raises
    ------
    Nonconforming
        Naming what differs.
    """
    expected = expected or oracle(case.model, case.table, persons=case.persons)
    classes = count_classes(case.model, case.table, "*", case.persons)
    records = sum(len(rows) for rows in classes.members)
    share = None if expected.failing_records is None else expected.failing_records / sum(classes.sizes)
    pairs = {
        "outcome": (verdict.outcome, expected.outcome),
        "failing_classes": (verdict.failing_classes, expected.failing_classes),
        "failing_records": (verdict.failing_records, expected.failing_records),
        "records": (assessment.records, records),
        "suppressed_records": (assessment.suppressed_records, classes.suppressed),
        "classes": (assessment.classes, len(classes.members)),
    }
    wrong = [f"{name} is {got}, by definition {want}" for name, (got, want) in pairs.items() if got != want]
    for name, got, want in (
        ("observed", verdict.observed, expected.observed),
        ("failing_share", verdict.failing_share, share),
    ):
        if not _same_figure(got, want, expected.tolerance):
            exact = float(want) if isinstance(want, Fraction) else want
            wrong.append(f"{name} is {got!r}, by definition {exact!r}")
    if not verdict.reason:
        wrong.append("the verdict gives no reason")
    if wrong:
        raise Nonconforming(f"{case}: " + "; ".join(wrong))
    _no_cell_in(case, verdict.reason)


def conformance(
    engine: Engine | str, options: Mapping[str, Any] | None = None, models: Sequence[Guarantee] | None = None
) -> Report:
    """Every model over every hostile table on one engine, against the oracle.

    Parameters
    ----------
    engine : Engine or str
        An engine, or the name of one with its `options`.
    models : sequence of Guarantee, optional
        Default: the examples of the catalogue. A plug-in passes its own, each with its oracle next to it.

    Returns
    -------
    Report

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> from privpipe.testing import PlainEngine
    >>> conformance(PlainEngine(), models=[KAnonymity(k=2)]).failures
    {}
    """
    running = open_engine(engine, options) if isinstance(engine, str) else engine
    checks = Conformance(running, models)
    found = checks.report(cases(checks.models))
    if isinstance(engine, str):
        running.close()
    return found


def write_in_parts(table: HostileTable, folder: Path, parts: int = 3) -> None:
    """The rows as Parquet files, dealt out in turn, so that classes are in several of them."""
    import numpy as np
    import pyarrow.parquet as pq

    frame = arrow_table(table)
    folder.mkdir(parents=True)
    for part in range(parts):
        pq.write_table(frame.take(np.arange(part, len(frame), parts)), folder / f"part-{part}.parquet")


def _same_figure(got: Any, want: Any, tolerance: float) -> bool:
    if got is None or want is None:
        return got is want
    if isinstance(want, Mapping):
        return set(got) == set(want) and all(_same_figure(got[name], want[name], tolerance) for name in want)
    if isinstance(want, int):
        return isinstance(got, int) and got == want
    return math.isclose(cast("float", got), want, rel_tol=tolerance, abs_tol=1e-12)


def _no_cell_in(case: Case, text: str) -> None:
    """No value of the table that cannot be a word of ours is in what is shown."""
    cells = {value for values in case.table.rows.values() for value in values if value in CANARIES}
    shown = [cell for cell in cells if str(cell) in text]
    if shown:
        raise Nonconforming(f"{case}: {len(shown)} cell values are in the message")
