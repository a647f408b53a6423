"""How a table is judged: how its values are read, which columns it may have, which entries are counted together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Literal, get_args

from privpipe.blocks import ClassBlock, ClassQuery, Facts, Guarantee, Histogram, Tally, Verdict
from privpipe.blocks.marks import ColumnName, ColumnNames
from privpipe.blocks.way import Over
from privpipe.engines import Source
from privpipe.engines.readers.unjudged_content import foreign_metadata
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.models.attribute.base_distribution import GivenBase
from privpipe.models.identity.no_identifiers import NoIdentifiers
from privpipe.progress import within
from privpipe.roles import EmptyRule, NullRule, Roles

if TYPE_CHECKING:
    from privpipe.blocks import FilePair
    from privpipe.blocks.file_pair import RowPositions
    from privpipe.blocks.release_history import ReleaseHistory
    from privpipe.draws import Stream
    from privpipe.hierarchies import HierarchySpec

__all__ = [
    "Base",
    "Composite",
    "Gate",
    "Group",
    "Judged",
    "JudgingRules",
    "OthersRule",
    "UndeclaredRule",
    "base_of",
    "column_verdicts",
    "groups_of",
    "keys_of",
    "metadata_notes",
    "named_columns",
    "query_of",
    "undeclared_rule",
]


MOST_KEYS = 10
UndeclaredRule = Literal["refuse", "note"]
OthersRule = Literal["refuse", "note", "drop"]
"""What becomes of columns that a policy does not name; a table that is finished is judged unchanged: `drop` refuses."""


def undeclared_rule(said: Any, *, whole: bool) -> UndeclaredRule:
    """What happens to a column without a role: as given, else an error if roles of a whole table are given.

    Parameters
    ----------
    said : {"refuse", "note"} or None
    whole : bool
        Whether roles of the table's columns are given, not only the columns that are counted.

    Examples
    --------
    >>> undeclared_rule(None, whole=True), undeclared_rule(None, whole=False), undeclared_rule("note", whole=True)
    ('refuse', 'note', 'note')
    """
    if said is None:
        return "refuse" if whole else "note"
    if said not in get_args(UndeclaredRule):
        near = did_you_mean(said, get_args(UndeclaredRule)) if isinstance(said, str) else ""
        raise UsageError(f"undeclared must be refuse or note, not {said!r}{near}")
    return said  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """How the columns of a judged table are treated.

    Parameters
    ----------
    undeclared : {"refuse", "note"}
        Whether a column without a role is an error.
    declared : tuple of str
        Columns that have a role which the entries do not ask for.
    metadata : {"refuse", "note"}
        Whether metadata of files that is not their writers' own is an error.
    raw : bool
        The table is a source, raw by nature: its identifiers are noted, for no release holds them.
    columns : tuple of str, optional
        What readers see, where the judged table holds more; default: all its columns.
    whole : bool
        Whether the guarantees are all that the table is judged by.
    notes : bool
        Whether columns and spellings that no entry needs are examined as well.
    pseudonyms : tuple of str
        Columns that a `pseudonymise` stage made: each value stands for one person by design.
    """

    undeclared: UndeclaredRule = "note"
    declared: tuple[str, ...] = ()
    metadata: UndeclaredRule = "note"
    raw: bool = False
    columns: tuple[str, ...] | None = None
    whole: bool = True
    notes: bool = False
    pseudonyms: tuple[str, ...] = ()

    def seen(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns that readers of the table see."""
        return tuple(names) if self.columns is None else self.columns

    def completed(self, names: Sequence[str], roles: Roles) -> Roles:
        """The roles; columns of a whole table without one are insensitive, so that attacks and notes look at them."""
        if not self.whole:
            return roles
        more = [name for name in self.seen(names) if name in names and name not in roles.columns]
        return replace(roles, insensitive=(*roles.insensitive, *more)) if more else roles


def named_columns(entries: Iterable[Guarantee]) -> tuple[str, ...]:
    """Columns that entries name themselves, whatever roles the table has.

    Examples
    --------
    >>> from privpipe.models import DistinctLDiversity
    >>> named_columns([DistinctLDiversity(column="illness", l=2, quasi_identifiers=("zip",))])
    ('zip', 'illness')
    """
    return tuple(
        dict.fromkeys(
            name
            for entry in entries
            for name in (
                *(entry.quasi_identifiers or ()),
                *entry.columns_marked(ColumnName),
                *entry.columns_marked(ColumnNames),
            )
        )
    )


def column_verdicts(
    gate: Gate, names: Sequence[str], roles: Roles, guarantees: Sequence[Guarantee], named: Collection[str] = ()
) -> tuple[tuple[Verdict, ...], tuple[Verdict, ...], list[str]]:
    """Verdicts over the columns of a table: built-in ones that fail, built-in ones that hold, and notes.

    Where the guarantees list `no_identifiers` themselves it is not built in a second time. `named` are columns that
    entries name themselves: they need no role.

    Raises
    ------
    DataError
        Columns without a role, unless these are noted.
    """
    seen = gate.seen(names)
    notes = _undeclared(gate, seen, {*roles.columns, *gate.declared, *named})
    if gate.raw:
        for what, those in (("identifiers", roles.identifiers), ("dropped columns", roles.dropped)):
            found = [name for name in seen if name in those]
            if found:
                notes.append(f"{what} of the source, which no release holds: {_listed(found)}")
        return (), (), notes
    if any(isinstance(guarantee, NoIdentifiers) for guarantee in guarantees):
        return (), (), notes
    verdict = NoIdentifiers().judge_columns(seen, roles)
    return ((), (verdict,), notes) if verdict.passed else ((verdict,), (), notes)


def metadata_notes(source: Source, rule: UndeclaredRule) -> tuple[str, ...]:
    """What the files of a finished table contain in addition to rows, in notes by kind: keys, never values.

    Raises
    ------
    DataError
        They say anything, unless that is noted.
    """
    told = [
        f"{kind} files hold metadata that is neither rows nor their writers' own: {_listed(keys[:MOST_KEYS])}"
        + (f" and {len(keys) - MOST_KEYS:,} more" if len(keys) > MOST_KEYS else "")
        for kind, keys in foreign_metadata(source).items()
    ]
    if told and rule == "refuse":
        raise DataError(
            f"{'; '.join(told)}; readers get it and nothing judges it: write the table without it, or write "
            "`metadata: note` to judge the table all the same"
        )
    return tuple(told)


def _undeclared(gate: Gate, seen: Sequence[str], declared: Collection[str]) -> list[str]:
    extra = [name for name in seen if name not in declared]
    if not extra:
        return []
    if gate.undeclared == "note":
        return [f"columns without a role, which were not looked at: {_listed(extra)}"]
    raise DataError(
        f"{len(extra)} column(s) of the table have no role: {_listed(extra)}; give each a role (under `columns:` of a "
        "policy, in `roles` of a call), take it out of the table (a named index level is a column), or write "
        "`undeclared: note` to judge the table all the same"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


@dataclass(frozen=True, kw_only=True)
class JudgingRules:
    """How values are read, whatever the guarantee.

    Parameters
    ----------
    nulls : {"own_value", "wildcard", "refuse"}
        How a missing quasi-identifier matches.
    refuse_nulls : tuple of str
        Sensitive columns in which a missing value is an error.
    wildcard : str, optional
        Under `nulls: wildcard` a text that matches anything, as a missing value does.
    person : str, optional
        Column that distinguishes persons: they are counted instead of records.
    household : str, optional
        Column that distinguishes households, for entries that count them.
    mark : str
        A record in which only this text is left counts as suppressed: every released column has it, or is
        missing where it cannot hold text.
    released : tuple of str, optional
        The released columns; default: all of the judged table.
    untyped : tuple of str
        Columns declared as no text that are read as text, from a file without types.
    base : mapping of column to Histogram
        Base distributions given by a run: S over the records that entered the suppressing stage.
    entered : mapping of column to Facts
        The same, and the number, where persons or households are counted by that column.
    records : int, optional
        Records that entered the suppressing stage, given by a run; default: those of the judged table.
    hierarchies : mapping of column to HierarchySpec
        Declared ones.
    process : mapping, optional
        Record that a stage left of itself, for guarantees of a process rather than of a table.
    stages : tuple of mapping
        The release's own plan, for attacks that know it: of each stage name, parameters and detail.
    order : Stream, optional
        Keyed order of records, by which the attacked ones are sampled.
    histories : mapping of ledger to ReleaseHistory
        What the ledgers of entries over several releases remember, with this release's own rows.
    positions : RowPositions or str, optional
        Where records are in the files and were in the original, for entries that read positions, or why it is not
        known.
    models : tuple of Guarantee
        What the release must meet, for attacks on the search that worked for it.
    rerun : callable, optional
        The run's stages once more with other values in a column, for the same.
    gate : Gate
        How the table's columns are looked at, whatever the guarantees.
    allow_empty : bool
        Let a table with only suppressed records pass vacuously; never set by a release.
    empty : {"refuse", "pass"}
        Whether a table without a record is an error, or passes with a note: nothing of it can disclose anything.
    versions : mapping of path to int
        Of Delta tables that entries name, as the run pinned them.
    """

    nulls: NullRule = "own_value"
    refuse_nulls: tuple[str, ...] = ()
    wildcard: str | None = None
    person: str | None = None
    household: str | None = None
    mark: str = "*"
    released: tuple[str, ...] | None = None
    untyped: tuple[str, ...] = ()
    base: Mapping[str, Histogram] = field(default_factory=dict)
    entered: Mapping[str | None, Facts] = field(default_factory=dict)
    records: int | None = None
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    process: Mapping[str, Any] | None = None
    stages: tuple[Mapping[str, Any], ...] = ()
    order: Stream | None = field(default=None, repr=False)
    histories: Mapping[str, ReleaseHistory] = field(default_factory=dict, repr=False)
    positions: RowPositions | str | None = field(default=None, repr=False)
    models: tuple[Guarantee, ...] = ()
    rerun: Callable[[FilePair, str, Sequence[Any]], str] | None = field(default=None, repr=False)
    gate: Gate = field(default_factory=Gate)
    allow_empty: bool = False
    empty: EmptyRule = "refuse"
    versions: Mapping[str, int] = field(default_factory=dict)

    def unit(self, entry: Guarantee) -> str | None:
        """The column that identifies what an entry counts; None: it counts records."""
        return {None: self.person, "persons": self.person, "households": self.household}.get(entry.counts_over())

    @property
    def counted(self) -> Over:
        """What is counted by `person`, for sentences."""
        if self.person is None:
            return "records"
        return "households" if self.person == self.household else "persons"

    def counting(self, unit: str | None) -> JudgingRules:
        """The same rules for entries that count by another column, with the input of the run counted likewise."""
        if unit == self.person:
            return self
        known = self.entered.get(unit)
        if known is None:
            return replace(self, person=unit, base={}, records=None)
        return replace(self, person=unit, base=known.histograms, records=known.records if known.records >= 0 else None)


Base = Literal["original", "released"] | GivenBase


@dataclass(frozen=True)
class Group:
    """Entries counted together: the same keys, the same base of each column.

    `over` are the columns that the entries read, of which `keys` may be a part; `population` states whether the
    classes of a population are counted with them, `weight` which column is summed in each, `unit` by which column
    those who are counted are distinguished.
    """

    keys: tuple[str, ...]
    base: Base
    over: tuple[str, ...]
    population: bool
    weight: str | None = None
    unit: str | None = None
    entries: list[tuple[int, Guarantee]] = field(default_factory=list)


def base_of(entry: Guarantee) -> Base:
    """What an entry compares classes with; entries that compare with nothing share the first."""
    base: Base = entry.base_distribution() if entry.needs_base else "original"
    return base


def keys_of(entry: Guarantee, roles: Roles) -> tuple[str, ...]:
    """The quasi-identifiers that an entry reads.

    Raises
    ------
    UsageError
        None is declared, and it does not say that it means none.
    """
    if entry.quasi_identifiers is not None:
        return entry.quasi_identifiers
    if not roles.quasi_identifiers:
        raise UsageError(
            f"{entry.name()}: no quasi-identifier is declared, so every table would be one class; declare "
            "`role: quasi_identifier`, or write `quasi_identifiers: []` on the guarantee to mean that"
        )
    return tuple(roles.quasi_identifiers)


def groups_of(
    entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules, faulty_weights: Container[str | None] = ()
) -> list[Group]:
    """Entries over classes, each with its place among all entries; the policy's own quasi-identifiers first.

    Entries whose weight is among the faulty ones are in no group.
    """
    groups: dict[tuple[Any, ...], Group] = {}
    for at, entry in enumerate(entries):
        if not entry.way.over_classes or entry.weight_column() in faulty_weights:
            continue
        base = base_of(entry)
        unit = rules.unit(entry)
        if base == "released" and not rules.counting(unit).base:
            base = "original"  # without one of the original, that of the judged table is used for both
        sets = entry.key_sets(keys_of(entry, roles))
        over = _over(entry, sets, roles)
        for keys in sets:
            kind = (keys, base, over, entry.needs_population, unit, entry.weight_column())
            group = groups.setdefault(kind, Group(*kind[:-2], unit=unit, weight=kind[-1]))
            group.entries.append((at, entry))
    _join_weighted(groups)
    # Their class count is in the verdict document.
    own = tuple(roles.quasi_identifiers)
    return sorted(groups.values(), key=lambda group: (group.keys != own, group.keys != group.over, group.population))


def _join_weighted(groups: dict[tuple[Any, ...], Group]) -> None:
    """A count that sums a weight serves those that ask for none as well."""
    for kind in [kind for kind in groups if kind[-1] is not None]:
        plain = groups.pop((*kind[:-1], None), None)
        if plain is not None:
            groups[kind].entries.extend(plain.entries)


def _over(entry: Guarantee, sets: Sequence[tuple[str, ...]], roles: Roles) -> tuple[str, ...]:
    columns = [column for keys in sets for column in keys]
    if entry.quasi_identifiers is not None and entry.own_columns() == entry.quasi_identifiers:
        columns += roles.quasi_identifiers  # it looks at some columns of the table, not at an attacker's knowledge
    return tuple(dict.fromkeys(columns))


def query_of(group: Group, facts: Facts, rules: JudgingRules) -> ClassQuery:
    """The one count that all entries of a group share."""
    entries = [entry for _, entry in group.entries]
    columns = dict.fromkeys(column for entry in entries for column in entry.sensitive_columns())
    coded = {column for entry in entries if entry.needs_base for column in entry.sensitive_columns()}
    households = [column for entry in entries if (column := entry.household_column()) is not None]
    columns |= dict.fromkeys(households)
    coded.update(households)
    return ClassQuery(
        keys=group.keys,
        columns=tuple(columns),
        dictionaries={column: facts.histograms[column] for column in columns if column in coded},
        mark=rules.mark,
        person=group.unit,
        weight=group.weight,
    )


@dataclass(frozen=True)
class Judged:
    """What all entries of a composite observed for some classes.

    `released` and `marked` count records, `classes` the released classes; `alone`, under wildcard matching, the records
    that are complete and equal no other complete record.
    """

    tallies: tuple[Tally, ...]
    released: int
    marked: int
    classes: int
    alone: int | None = None


@dataclass(frozen=True)
class Composite:
    """The entries that are judged over one set of quasi-identifiers.

    Every entry sees every class: an early exit on the first failure would leave the others unjudged.
    """

    entries: tuple[Guarantee, ...]

    def measure(self, block: ClassBlock, facts: Facts) -> Judged:
        """Measure a block with every entry; suppressed records are not a class."""
        released = block.released()
        return Judged(
            tallies=tuple(map(methodcaller("measure", released, facts), self.entries)),
            released=released.records,
            marked=block.records - released.records,
            classes=len(released),
        )

    def merge(self, left: Judged, right: Judged) -> Judged:
        """Merge entry by entry."""
        within("classes", left.classes + right.classes)
        return Judged(
            tallies=tuple(
                entry.merge(*pair)
                for entry, pair in zip(self.entries, zip(left.tallies, right.tallies, strict=True), strict=True)
            ),
            released=left.released + right.released,
            marked=left.marked + right.marked,
            classes=left.classes + right.classes,
        )
