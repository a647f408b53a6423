"""What must hold in a policy once its sections are read.

There are conditions for each way of counting, for sinks that keep earlier rows, and for processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privpipe.blocks import ClassModel, Guarantee, SizeModel
from privpipe.blocks.release_history import HistoryMeasure
from privpipe.blocks.way import CountedOver
from privpipe.errors import RolesError
from privpipe.judging.gaps import (
    nothing_compared,
    refused_in_persons,
    refused_under_wildcard,
    refused_without_wildcard,
    uncountable,
)
from privpipe.policy.entries import ReadEntry
from privpipe.policy.places import Report
from privpipe.policy.secret import SecretSpec
from privpipe.policy.specs import ColumnSpec, SinkSpec, SourceSpec, roles_of
from privpipe.roles import Roles
from privpipe.transforms.base import Transformer
from privpipe.transforms.mondrian.mondrian import Mondrian
from privpipe.transforms.recoding.generalize import Generalize
from privpipe.transforms.sampling.safepub import HARMLESS_BEFORE, Safepub
from privpipe.transforms.synthesis.synthesize import Synthesize

__all__ = [
    "KEEPS_KEYS",
    "Draft",
    "check_appending",
    "check_counting",
    "check_persons_in_stages",
    "check_processes",
    "check_stages_under_counting",
    "drawing_stage",
    "suppresses",
    "unjudged_whole",
]


@dataclass
class Draft:
    """A policy being read.

    `unreadable_columns` names columns whose role could not be read: nothing more is reported of these. `of_tables` is
    whether tables of cells are released and no records, so that no guarantee judges any.
    """

    base_dir: Path
    columns: Mapping[str, ColumnSpec] = field(default_factory=dict)
    unreadable_columns: frozenset[str] = frozenset()
    transform: Sequence[ReadEntry] = ()
    guarantees: Sequence[ReadEntry] = ()
    measures: Sequence[ReadEntry] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    of_tables: bool = False

    def with_role(self, *roles: str) -> tuple[str, ...]:
        """Columns of these roles, in policy order."""
        return tuple(name for name, column in self.columns.items() if column.role in roles)

    @property
    def roles(self) -> Roles | None:
        """The role of every column; None where some could not be read, or names differ by case alone."""
        try:
            return None if self.unreadable_columns else roles_of(self.columns)
        except RolesError:
            return None

    def judging(self) -> Iterable[tuple[ReadEntry, Guarantee]]:
        """Sound guarantees and measures."""
        for read in (*self.guarantees, *self.measures):
            if isinstance(read.entry, Guarantee):
                yield read, read.entry

    def stages(self) -> Iterable[tuple[ReadEntry, Transformer]]:
        """Sound stages."""
        for read in self.transform:
            if isinstance(read.entry, Transformer):
                yield read, read.entry


def drawing_stage(stages: Iterable[Transformer], columns: Mapping[str, ColumnSpec]) -> Transformer | None:
    """The stage that replaces all rows by new ones; None where every row stays one of the source.

    Examples
    --------
    >>> from privpipe.transforms import Synthesize
    >>> columns = {"age": ColumnSpec(role="quasi_identifier"), "name": ColumnSpec(role="identifier")}
    >>> drawing_stage([Synthesize()], columns), drawing_stage([], columns)
    (Synthesize(), None)
    """
    made = tuple(stages)
    kept = {name for stage in made if stage.taxon == "identifiers" for name in stage.masked_columns()}
    released = [
        name for name, each in columns.items() if each.role != "drop" and (each.role != "identifier" or name in kept)
    ]
    for stage in made:
        if stage.draws_records(released):
            return stage
        released += stage.made_columns()
    return None


KEEPS_KEYS = ("suppress_records", "sample", "drop_identifiers", "pseudonymise")
"""Stages that leave quasi-identifiers unchanged."""
AS_RECORDS = "write `over: records` where it has that parameter, or leave it out"
INSTEAD = "generalize by given `levels:` without suppress_at_most, and the gate judges what comes out"


def check_counting(draft: Draft, report: Report) -> None:
    """Every entry must be able to count as the policy asks: passed over, figures would look safer than they are."""
    wildcard, persons = draft.values.get("nulls") == "wildcard", "person_id" in draft.values
    drawn = drawing_stage((stage for _, stage in draft.stages()), draft.columns)
    if "wildcard" in draft.values and not wildcard:
        # Without wildcard matching the text means nothing.
        report.wrong(("wildcard",), "has a meaning only with `nulls: wildcard`")
    if wildcard and persons:
        report.unsupported(("person_id",), "matching by `nulls: wildcard` counts records; leave one of the two out")
    roles = draft.roles
    for read, entry in draft.judging():
        if roles is not None and (refused := nothing_compared(entry, roles)):
            report.wrong(read.place, refused)
        if refused := (refused_under_wildcard if wildcard else refused_without_wildcard)(entry):
            report.wrong(read.place, refused)
        elif drawn is not None and (refused := _counts_nobody(draft, entry)):
            report.wrong(read.place, f"{read.name} {refused} {drawn.name()} draws; {AS_RECORDS}")
        elif persons and drawn is None and (refused := refused_in_persons(entry)):
            report.unsupported(read.place, refused)
        if refused := uncountable(entry, draft.values.get("person_id"), draft.values.get("household_id")):
            report.wrong(read.place, refused)
        if wildcard and entry.counts_over() in ("persons", "households"):
            report.unsupported(
                read.place, f"{read.name}: matching by `nulls: wildcard` counts records; leave `over` out"
            )


def _counts_nobody(draft: Draft, entry: Guarantee) -> str:
    """The unit that an entry counts and to which no record drawn from a model belongs; or nothing."""
    over = entry.counts_over()
    if entry.reads_households() or over == "households":
        return "counts households, and there are none among the records that"
    by_default = over is None and isinstance(entry, CountedOver) and "person_id" in draft.values
    return "counts persons, and there are none among the records that" if over == "persons" or by_default else ""


def check_persons_in_stages(draft: Draft, report: Report) -> None:
    """A threshold of a stage counts persons where the policy distinguishes them, or the stage is refused."""
    households = any(entry.counts_over() == "households" for _, entry in draft.judging())
    for read, stage in draft.stages() if households or "person_id" in draft.values else ():
        as_guarantees = isinstance(stage, Mondrian) and stage.k is not None
        if refused := _counts_records(draft) if as_guarantees else stage.uncounted_persons():
            report.unsupported(read.place, f"counts records, and the policy distinguishes persons: {refused}")


def _counts_records(draft: Draft) -> str:
    """Why the k of a stage that counts as the guarantees do counts no persons; or nothing."""
    over = {each.entry.counts_over() for each in draft.guarantees if isinstance(each.entry, ClassModel | SizeModel)}
    return "k counts as the guarantees do; leave `over: records` out of these, or k" if over == {"records"} else ""


def check_stages_under_counting(draft: Draft, report: Report) -> None:
    """Stages that suppress or search must count as the guarantees do, at the levels these are judged at."""
    compared = [read.name for read, entry in draft.judging() if entry.needs_population]
    for read, stage in draft.stages():
        if compared and _touches_raw_population(draft, stage):
            # Who works for a guarantee needs the raw population: a generalized one would be refused too.
            works = suppresses(stage) and _guarded(draft)
            way = INSTEAD if works else "give a population that is `generalized: true`"
            report.unsupported(read.place, f"{stage.not_followed()}, and {compared[0]} compares with one; {way}")
        if suppresses(stage) and (problem := _miscounts(draft, read, stage)):
            report.unsupported(read.place, f"{problem}{INSTEAD}")


def _miscounts(draft: Draft, read: ReadEntry, stage: Transformer) -> str:
    """How a stage that suppresses counts otherwise than the guarantees do, up to what to write instead; or nothing."""
    guarded, paid = _guarded(draft), [each.name for each in _binding(draft) if _looks_at_labels(each)]
    if draft.values.get("nulls") == "wildcard" and "wildcard" not in stage.serves:
        return "counts classes, and under `nulls: wildcard` there are none; "
    if guarded and "population" not in stage.serves:
        return f"does not count the population of {guarded[0]} yet; "
    if guarded and _stands_elsewhere(draft, read, stage):
        return (
            f"suppresses for {guarded[0]}, whose population is `generalized: true`: that stands at the levels of "
            "the release, not at those this stage compares with; give the raw population, or "
        )
    if paid and "labels" not in stage.serves:
        return f"does not know what labels lose, which {paid[0]} is about; "
    over = {each.entry.counts_over() for each in draft.guarantees if isinstance(each.entry, ClassModel | SizeModel)}
    if len({_unit(draft, each) for each in over}) > 1:
        return (
            "works for guarantees that count alike, and these count records, persons and households by turns: give all "
            "the same `over` (k over households holds over records too), or "
        )
    if any(_unit(draft, each) for each in over or {None}) and "persons" not in stage.serves:
        return "counts records and not persons or households; use suppress_records, or "
    return ""


def _binding(draft: Draft) -> list[ReadEntry]:
    return [each for each in draft.guarantees if getattr(each.entry, "binds", True)]


def _guarded(draft: Draft) -> list[str]:
    """Binding guarantees that compare with a population, by name."""
    return [each.name for each in _binding(draft) if getattr(each.entry, "needs_population", False)]


def _unit(draft: Draft, over: str | None) -> Any:
    """The column that distinguishes those who are counted so."""
    key = {None: "person_id", "persons": "person_id", "households": "household_id"}.get(over)
    return draft.values.get(key) if key else None


def _looks_at_labels(read: ReadEntry) -> bool:
    return isinstance(read.entry, ClassModel) and bool(read.entry.counted_columns(("",)))


def _stands_elsewhere(draft: Draft, read: ReadEntry, stage: Transformer) -> bool:
    """Whether a generalized population and the table of this stage may differ in their levels."""
    population = draft.values.get("population")
    if not isinstance(population, SourceSpec) or not population.generalized:
        return False
    later = [other for where, other in draft.stages() if where.place > read.place]
    return stage.searches or any(other.name() not in KEEPS_KEYS for other in later)


def suppresses(stage: Transformer) -> bool:
    """Whether a stage suppresses with the parameters it has."""
    if isinstance(stage, Generalize):
        return stage.limit is not None
    return stage.suppresses


def _touches_raw_population(draft: Draft, stage: Transformer) -> bool:
    population = draft.values.get("population")
    if not isinstance(population, SourceSpec) or population.generalized:
        return False
    if stage.name() in KEEPS_KEYS or not stage.not_followed():
        return False
    named = set(stage.named_columns())
    return not named or bool(named & set(draft.with_role("quasi_identifier")))


def check_appending(draft: Draft, report: Report) -> None:
    """A guarantee that cannot judge the rows of earlier releases is refused: passed over, it would seem to hold."""
    sink = draft.values.get("sink")
    if not isinstance(sink, SinkSpec):
        return
    _check_partition(draft, report, sink)
    if not sink.keeps_rows:
        return
    judging = [read.entry for read in draft.guarantees]
    if judging and all(isinstance(entry, HistoryMeasure) for entry in judging):
        report.unsupported(
            ("sink", "mode"), f"{sink.mode} needs a guarantee that judges the whole table, as k_anonymity does; add one"
        )
    for read in draft.guarantees:
        if isinstance(read.entry, Guarantee) and (why := unjudged_whole(read.entry)):
            report.unsupported(
                read.place,
                f"{why}, so the whole table cannot be judged by it after `mode: {sink.mode}`; publish with `mode: "
                "replace`, or make it one of the `measures:`, which are taken of the batch",
            )


def _check_partition(draft: Draft, report: Report, sink: SinkSpec) -> None:
    """Readers must see by which values a partition is replaced."""
    for at, name in enumerate(sink.partition):
        column, place = draft.columns.get(name), ("sink", "partition", at)
        if column is None and name not in draft.unreadable_columns:
            report.wrong(place, f"{name!r} has no role under `columns:`; give it one, as `role: insensitive`")
        elif column is not None and column.role in ("identifier", "drop"):
            report.wrong(place, f"{name!r} has `role: {column.role}` and is not released; name released columns")
        elif name in sink.partition[:at]:
            report.wrong(place, f"{name!r} is named twice")


def unjudged_whole(entry: Guarantee) -> str:
    """Why an entry cannot judge a table that holds releases of several runs; nothing where it can.

    One with a ledger judges the batch together with every release before it, which is what the whole table is.

    Examples
    --------
    >>> from privpipe.models import DifferentialPrivacy, KAnonymity
    >>> unjudged_whole(KAnonymity(k=5))
    ''
    >>> unjudged_whole(DifferentialPrivacy(epsilon=1.0, delta=1e-6))
    'it judges the process of one release'
    """
    if isinstance(entry, HistoryMeasure) and entry.ledger is not None:
        return ""
    if entry.way.of_process:
        return "it judges the process of one release"
    if not entry.way.of_table:
        return "it compares a release with its original, and earlier ones are without theirs"
    if entry.needs_population:
        return "it compares with a population that is generalized as one release is"
    return ""


def check_processes(draft: Draft, report: Report) -> None:
    """Differential privacy is of the whole way from the data to the release."""
    for at, read in enumerate(draft.transform):
        if isinstance(read.entry, Synthesize) and read.entry.method == "marginals":
            for other in draft.transform[:at]:
                if other.entry is not None and other.name not in HARMLESS_BEFORE:
                    report.wrong(
                        read.place,
                        f"comes after transform[{other.at}].{other.name}, which looks at other records too; draw first",
                    )
    places = [read for read, stage in draft.stages() if isinstance(stage, Safepub)]
    if not places:
        return
    first = places[0]
    for again in places[1:]:
        report.wrong(again.place, f"is there already (transform[{first.at}].{first.name}); one stage draws the sample")
    for read in draft.transform[: first.at]:
        if read.entry is not None and read.name not in HARMLESS_BEFORE:
            report.wrong(
                first.place,
                f"comes after transform[{read.at}].{read.name}, which looks at other records too; draw first",
            )
    seed = draft.values.get("seed")
    if isinstance(seed, SecretSpec) and seed.within is not None:
        report.warn(first.place, "the sample is drawn by the seed written in this file: it is as secret as the file")
    beside = _released_beside(draft)
    if beside:
        report.warn(
            first.place,
            f"classes are formed over the quasi-identifiers; {', '.join(map(repr, beside))} "
            "will be released beside them and is not covered: declare it a quasi-identifier, or leave it out",
        )


def _released_beside(draft: Draft) -> list[str]:
    """Columns of the release that are not quasi-identifiers."""
    beside = [*draft.with_role("sensitive", "insensitive")]
    for _, stage in draft.stages():
        if stage.name() == "pseudonymise":
            beside += stage.masked_columns()
    return list(dict.fromkeys(beside))
