"""The entries of a policy, read from the catalogues, and the conditions between them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from privpipe.blocks import Catalogue, ClassModel, Entry, Guarantee, SizeModel
from privpipe.blocks.marks import Columns, FilePath
from privpipe.blocks.parameters import marked, parameters_of
from privpipe.blocks.release_history import HistoryMeasure
from privpipe.blocks.way import CountedOver
from privpipe.errors import RolesError, UsageError, did_you_mean
from privpipe.judging.judging import (
    nothing_compared,
    refused_in_persons,
    refused_under_wildcard,
    refused_without_wildcard,
    uncountable,
)
from privpipe.policy.catalogues import Catalogues
from privpipe.policy.plain_values import Place, Report
from privpipe.policy.secret import SecretSpec
from privpipe.policy.specs import (
    KEEPS_KEYS,
    ColumnSpec,
    SinkSpec,
    SourceSpec,
    drawing_stage,
    located,
    roles_of,
    suppresses,
)
from privpipe.roles import Roles
from privpipe.tables.entries import CellGuarantee, TableStage
from privpipe.transforms.base import Transformer

__all__ = [
    "Draft",
    "Lists",
    "ReadEntry",
    "check_appending",
    "check_counting",
    "check_persons_in_stages",
    "check_processes",
    "check_stages_under_counting",
    "filled_in",
    "is_of_tables",
    "read_entries",
    "section_hint",
    "unjudged_whole",
]


FILE_KEYS = ("file", "from_file")
"""What a mapping calls the path of a file, in whatever parameter."""


@dataclass(frozen=True)
class ReadEntry:
    """One item of a list: where it is, what it said, the entry if it was sound, and its class if there is one."""

    place: Place
    name: str
    parameters: Mapping[str, Any]
    entry: Entry | None
    kind: type[Entry] | None = None

    @property
    def at(self) -> int:
        """Its position in the list."""
        return int(self.place[1])


def is_of_tables(item: ReadEntry) -> bool:
    """Whether an entry is about cells of tables."""
    return item.kind is not None and issubclass(item.kind, TableStage | CellGuarantee)


def read_entries(report: Report, value: Any, section: str, catalogues: Catalogues, base_dir: Path) -> list[ReadEntry]:
    """The items of `transform`, `guarantees` or `measures`; what is wrong with any is noted."""
    if not isinstance(value, list):
        report.wrong((section,), "must be a list of entries, each `- name: {parameters}`")
        return []
    return [
        _read(report, _found_from(item, base_dir), (section, at), section, catalogues, base_dir)
        for at, item in enumerate(value)
    ]


def filled_in(
    report: Report, items: Sequence[ReadEntry], columns: Mapping[str, ColumnSpec], *, population: bool
) -> list[ReadEntry]:
    """The items with what they leave to the roles of the columns, and to whether a population is given, filled in."""
    try:
        roles = roles_of(columns)
    except RolesError:  # names that differ only in case, noted already where they are
        return list(items)
    return [_over(report, item, roles, population) for item in items]


def _over(report: Report, item: ReadEntry, roles: Roles, population: bool) -> ReadEntry:
    if not isinstance(item.entry, Guarantee):
        return item
    try:
        return replace(item, entry=item.entry.with_roles(roles).beside(population))
    except UsageError as error:
        report.wrong(item.place, str(error))
        return item


def _found_from(value: Any, base_dir: Path) -> Any:
    """The value with the files it names seen from where the program runs."""
    if isinstance(value, list):
        return [_found_from(item, base_dir) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: located(item, base_dir) if key in FILE_KEYS and isinstance(item, str) else _found_from(item, base_dir)
        for key, item in value.items()
    }


def _with_paths(entry: type[Entry], parameters: Mapping[str, Any], base_dir: Path) -> dict[str, Any]:
    """The parameters with the paths in fields of the entry seen from where the program runs."""
    words = {name: parameters_of(entry)[name].marked(FilePath).words for name in marked(entry, FilePath)}
    return {
        name: _located(value, words[name], base_dir) if name in words else value for name, value in parameters.items()
    }


def _located(value: Any, words: tuple[str, ...], base_dir: Path) -> Any:
    if isinstance(value, list):
        return [_located(each, words, base_dir) for each in value]
    return located(value, base_dir) if isinstance(value, str) and value not in words else value


def _read(report: Report, item: Any, place: Place, section: str, catalogues: Catalogues, base_dir: Path) -> ReadEntry:
    if not isinstance(item, Mapping) or len(item) != 1:
        hint = f", as in `- {item}: {{}}`" if isinstance(item, str) and item.isidentifier() else ""
        several = f"; this one has {len(item)} keys" if isinstance(item, Mapping) and item else ""
        report.wrong(place, f"an entry is a mapping with one key, its name{hint}{several}")
        return ReadEntry(place, "", {}, None)
    [(name, parameters)] = item.items()
    place = (*place, name)
    parameters = {} if parameters is None else parameters
    if not isinstance(parameters, Mapping):
        report.wrong(place, "the parameters of an entry are a mapping, as in {k: 5}")
        return ReadEntry(place, name, {}, None)
    found = _class_of(report, name, place, section, catalogues)
    if found is None:
        return ReadEntry(place, name, parameters, None)
    name = found.name()
    parameters = _with_paths(found, parameters, base_dir)
    entry = _build(report, found, parameters, place)
    if isinstance(entry, Guarantee):
        entry = entry if _threshold_fits(report, entry, place, section) else None
    return ReadEntry(place, name, parameters, entry, found)


def _class_of(report: Report, name: str, place: Place, section: str, catalogues: Catalogues) -> type[Entry] | None:
    rooms = catalogues.of(section)
    for room in rooms:
        if name in room:
            return _taken(report, room, name, place)
    for room in catalogues.every():
        if name in room:
            if (room in (catalogues.set_stages, catalogues.joint_guarantees)) != catalogues.sets:
                what = "related tables together" if not catalogues.sets else "one table"
                other = "a policy with `tables:`" if not catalogues.sets else "the table, under `tables:`"
                report.wrong(place, f"is a {room.kind}, about {what}; it belongs in {other}")
                return None
            report.wrong(place, f"is a {room.kind}, and belongs under {_sections(room, catalogues)}, not `{section}:`")
            return None
    known = [name for room in rooms for name in room]
    *first, last = (room.kind for room in rooms)
    kinds = f"{', '.join(first)} or {last}"
    near = did_you_mean(name, known) or f"; known: {', '.join(known)}"
    report.wrong(place, f"unknown {kinds}{near}")
    return None


def section_hint(name: str, catalogues: Catalogues) -> str:
    """Where the entry of a name belongs that is a key of the policy itself; empty for what is not an entry."""
    for room in catalogues.every():
        if name in room:
            return f"; it is a {room.kind}: add it to the list under {_sections(room, catalogues)}"
    return ""


def _sections(room: Catalogue, catalogues: Catalogues) -> str:
    stages = (*catalogues.of("transform"), catalogues.set_stages)
    return "`transform:`" if any(room is each for each in stages) else "`guarantees:` or `measures:`"


def _taken(report: Report, room: Catalogue, name: str, place: Place) -> type[Entry] | None:
    try:
        return room[name]
    except UsageError as error:  # of a plug-in that is not sound
        report.wrong(place, str(error))
        return None


def _build(report: Report, entry: type[Entry], parameters: Mapping[str, Any], place: Place) -> Entry | None:
    known = [field.name for field in dataclasses.fields(entry)]  # type: ignore[arg-type]
    parameters = entry.unspelt(parameters)
    sound = not issubclass(entry, Transformer) or _columns_fit(report, entry, parameters, place)
    unknown = [name for name in parameters if name not in known]
    _tell_unknown(report, entry, unknown, known, place)
    given = {name: value for name, value in parameters.items() if name in known}
    wrong = entry.problems(given)
    for name, message in wrong.items():
        if not sound and name == _columns_key(entry):
            continue
        where, text = _blamed(name, message, known)
        report.wrong((*place, *where), text)
    if wrong or unknown or not sound:
        return None
    try:
        return entry.made_of(given)
    except UsageError as error:
        report.wrong(place, str(error))
        return None


def _tell_unknown(
    report: Report, entry: type[Entry], unknown: Sequence[str], known: Sequence[str], place: Place
) -> None:
    for name in unknown:
        if issubclass(entry, Transformer) and name == _columns_key(entry):
            continue  # said already
        near = did_you_mean(name, known) or f"; {entry.name()} takes {', '.join(known) or 'none'}"
        report.wrong((*place, name), f"unknown parameter of {entry.name()}{near}")


def _columns_fit(report: Report, stage: type[Transformer], parameters: Mapping[str, Any], place: Place) -> bool:
    """Whether the stage names its columns as its rule asks."""
    own = _columns_key(stage)
    given = parameters.get(own)
    if stage.columns_rule == "none" and own in parameters:
        report.wrong((*place, own), f"{stage.name()} takes no {own}")
        return False
    if stage.columns_rule == "required" and given is None:
        report.wrong((*place, own), f"is required: the stage names its columns, as in `{own}: [income]`")
        return False
    if isinstance(given, str) and not (given == "all" and stage.columns_rule == "optional"):
        report.wrong((*place, own), f"must be a list, also for a single column: [{given}]")
        return False
    return True


def _columns_key(entry: type[Entry]) -> str:
    """The parameter by which a stage names its columns; the usual word where it takes none."""
    return next(iter(marked(entry, Columns)), "columns")


def _blamed(name: str, message: str, known: Sequence[str]) -> tuple[tuple[str | int, ...], str]:
    """The parameter a message is about, and the message without the class it came from.

    Examples
    --------
    >>> _blamed("", "KAnonymity: k must be an integer >= 1, got 0", ["k"])
    (('k',), 'must be an integer >= 1, got 0')
    >>> _blamed("columns.0", "Input should be a valid string", ["columns"])
    (('columns', 0), 'Input should be a valid string')
    """
    if name:
        return tuple(int(part) if part.isdigit() else part for part in name.split(".")), message
    text = re.sub(r"^\w+: ", "", message)
    first, _, rest = text.partition(" ")
    parts = first.rstrip(":").split(".")
    return (tuple(parts), rest) if parts[0] in known else ((), text)


def _threshold_fits(report: Report, entry: Guarantee, place: Place, section: str) -> bool:
    """Guarantees judge and so need their threshold; measures report and must not have one."""
    field = entry.threshold_field
    if section == "measures" and not entry.binds:
        report.wrong((*place, "severity"), "a measure is reported, never judged: leave `severity` out")
        return False
    if section == "guarantees" and not entry.is_gate():
        if field is None:
            report.wrong(place, "only reports and has no threshold: it belongs under `measures:`")
            return False
        report.wrong(
            (*place, field),
            f"a guarantee needs its threshold `{field}`; without one the entry belongs under `measures:`",
        )
        return False
    if section == "measures" and entry.is_gate():
        what = (
            f"a measure is reported, never judged: leave `{field}` out" if field else "it has no form that only reports"
        )
        report.wrong((*place, field) if field else place, f"{what}, or move the entry to `guarantees:`")
        return False
    return True


Lists = Mapping[str, list[ReadEntry]]
"""What a policy lists under each of `transform`, `guarantees` and `measures`."""


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
        """The role of every column; None where some could not be read, or names differ only in case."""
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
    if not draft.transform or not (households or "person_id" in draft.values):
        return
    from privpipe.transforms.mondrian.mondrian import Mondrian

    for read, stage in draft.stages():
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
    if not draft.transform:
        return
    from privpipe.transforms.sampling.safepub import HARMLESS_BEFORE, Safepub
    from privpipe.transforms.synthesis.synthesize import Synthesize

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
            "will be released in addition to them and is not covered: declare it a quasi-identifier, or leave it out",
        )


def _released_beside(draft: Draft) -> list[str]:
    """Columns of the release that are not quasi-identifiers."""
    beside = [*draft.with_role("sensitive", "insensitive")]
    for _, stage in draft.stages():
        if stage.name() == "pseudonymise":
            beside += stage.masked_columns()
    return list(dict.fromkeys(beside))
