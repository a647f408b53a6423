"""Notes on a judged table beyond its guarantees: near-unique columns, spelling, and perturbed values."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import (
    Cells,
    ClassBlock,
    ClassModel,
    ClassQuery,
    Facts,
    FactsRequest,
    Guarantee,
    Histogram,
    RowBlock,
    Tally,
)
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.blocks.parameters import flat_names, marked
from privpipe.engines import Engine
from privpipe.judging.rules import Gate, JudgingRules, keys_of
from privpipe.judging.table_facts import count_persons
from privpipe.measures.risk.attribute.recovery import in_percent
from privpipe.roles import Roles

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.judging.assessment import Assessment

__all__ = [
    "Fold",
    "Known",
    "Values",
    "folded",
    "is_text",
    "near_unique_notes",
    "perturbation_notes",
    "stage_columns",
    "stage_names",
    "table_notes",
    "values_of",
]


def stage_columns(stage: Mapping[str, Any]) -> list[str]:
    """The columns a stage of a plan names, also in several lists; none where it leaves them out or says `all`.

    Examples
    --------
    >>> stage_columns({"name": "microaggregate", "parameters": {"columns": [["age"], ["income", "hours"]]}})
    ['age', 'income', 'hours']
    >>> stage_columns({"name": "synthesize", "parameters": {"columns": "all"}})
    []
    """
    return stage_names(stage, Columns)


def stage_names(stage: Mapping[str, Any], mark: type[ColumnNames]) -> list[str]:
    """The columns in the parameters of a stage of a plan that carry a mark; none of a stage that is unknown."""
    from privpipe.transforms import CATALOGUE

    name, parameters = str(stage["name"]), stage.get("parameters", {})
    fields = marked(CATALOGUE[name], mark) if name in CATALOGUE else ()
    named = [parameters.get(field) for field in fields]
    return list(flat_names([each for each in named if each not in (None, "all")]))


def perturbation_notes(entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules) -> list[str]:
    """A note for each entry over quasi-identifiers that a perturbing or synthesizing stage of the release changed."""
    asking = [entry for entry in entries if entry.trusts_values]
    if not asking or not rules.stages:
        return []
    from privpipe.transforms import CATALOGUE

    changed: dict[str, str] = {}
    for stage in rules.stages:
        name = str(stage["name"])
        if name in CATALOGUE and getattr(CATALOGUE[name], "taxon", None) in ("perturbative", "synthetic"):
            changed |= dict.fromkeys(stage_columns(stage) or roles.columns, name)
    notes = []
    for entry in asking:
        touched = [column for column in keys_of(entry, roles) if column in changed]
        if touched:
            named = ", ".join(map(repr, touched))
            stages = ", ".join(dict.fromkeys(changed[column] for column in touched))
            notes.append(
                f"{entry.name()} trusts the values of {named}, which {stages} changed: a unique combination need "
                "not be a person's; judge such a release by record_linkage"
            )
    return list(dict.fromkeys(notes))


SPACES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"


def folded(values: pa.Array) -> pa.Array:
    """Texts without differences of spelling: case, surrounding spaces, Unicode form (NFKC); missing ones stay missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> folded(pa.array(["Flu", " flu ", "GRIPPE\\u0301", "grippé", None])).to_pylist()
    ['flu', 'flu', 'grippé', 'grippé', None]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.ascii_trim(pc.ascii_lower(values), characters=SPACES)
    foreign = np.flatnonzero(pc.fill_null(pc.invert(pc.string_is_ascii(values)), False).to_numpy(zero_copy_only=False))
    if not len(foreign):
        return plain
    texts = values.take(pa.array(foreign)).to_pylist()
    fine = [unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip() for text in texts]
    mask = np.zeros(len(values), dtype=np.bool_)
    mask[foreign] = True
    return pc.replace_with_mask(plain, pa.array(mask), pa.array(fine, plain.type))


@dataclass(frozen=True)
class Fold:
    """Rows in which the texts of a column are folded."""

    column: str

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.replace(self.column, folded(rows.column(self.column)))


@dataclass(frozen=True)
class Known:
    """A reduction: the entry's figure over classes in which a missing value is not a value, unless there is no other.

    Parameters
    ----------
    entry : Guarantee
    column : str
    missing : int
        Code of the missing value.
    """

    entry: Guarantee
    column: str
    missing: int

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        """The entry's figure of some whole classes."""
        cells, held = block.cells[self.column], block.held.get(self.column)
        lengths = np.diff(cells.offsets)
        kept = (cells.codes != self.missing) | (np.repeat(lengths, lengths) == 1)
        sums = np.concatenate([[0], np.cumsum(kept)])
        offsets = sums[cells.offsets].astype(np.int64)
        known = Cells(offsets, cells.codes[kept], cells.counts[kept])
        others = dict(block.held)
        if held is not None:
            others[self.column] = held.rows((held.codes != self.missing) | (lengths == 1)[held.classes])
        changed = ClassBlock(block.sizes, {**block.cells, self.column: known}, held=others)
        return self.entry.measure(changed, facts)

    def merge(self, left: Tally, right: Tally) -> Tally:
        """The entry's own."""
        return self.entry.merge(left, right)


def is_text(table: Any, column: str) -> bool:
    """Whether a column of a table holds text."""
    import pyarrow as pa

    return column in table.schema.names and pa.types.is_string(table.schema.field(column).type)


PRUNED_BELOW = 0.1
"""A column whose distinct values, by an estimate, are fewer than this share of the records is not counted: for half of
the records to be alone the estimate would have to be off by five times its standard error of at most 13 %."""
HELD = 200_000
"""Distinct values that are sent to the driver, at most."""


@dataclass(frozen=True)
class Values:
    """How the values of a column are distributed.

    Parameters
    ----------
    distinct : int
        Distinct values, a missing one not among them.
    own : int
        Records that share theirs with no other record, or only with their household.
    """

    distinct: int = 0
    own: int = 0


@dataclass(frozen=True)
class _SingleValueClasses:
    """A reduction over classes of one value each."""

    household: str | None

    def measure(self, block: ClassBlock, facts: Facts) -> Values:
        alone = block.sizes == 1
        if self.household is not None:
            alone |= np.diff(block.cells[self.household].offsets) == 1
        return Values(len(block), int(block.sizes[alone].sum()))

    def merge(self, left: Values, right: Values) -> Values:
        return Values(left.distinct + right.distinct, left.own + right.own)


def values_of(
    engine: Engine, table: Any, columns: Sequence[str], records: int, household: str | None
) -> dict[str, Values]:
    """The values of each column that may be near-unique; a missing value is unique to no record.

    Columns that an estimate of their distinct values rules out are left out.
    """
    estimated = engine.estimated_distinct(table, columns) if columns else {}
    near = [name for name in columns if estimated.get(name, records) >= PRUNED_BELOW * records]
    few = [name for name in near if household is None and min(estimated.get(name, records), records) <= HELD]
    found = _by_histograms(engine, table, few)
    return found | _by_classes(engine, table, [name for name in near if name not in found], household)


def _by_histograms(engine: Engine, table: Any, columns: Sequence[str]) -> dict[str, Values]:
    """Values that are few enough for the driver, all columns in one pass."""
    if not columns:
        return {}
    histograms = engine.facts(table, FactsRequest(histograms=tuple(columns))).histograms
    found = {}
    for name in columns:
        counts = histograms[name].counts
        counts = counts[:-1] if histograms[name].nulls else counts  # a missing value is unique to no record
        found[name] = Values(len(counts), int(np.count_nonzero(counts == 1)))
    return found


def _by_classes(engine: Engine, table: Any, near: Sequence[str], household: str | None) -> dict[str, Values]:
    """Values of any number, counted where they are."""
    if not near:
        return {}
    nulls = engine.facts(table, FactsRequest(nulls=(*near, *([household] if household else [])))).nulls
    if household is not None and nulls[household]:
        household = None  # records without a household are not one household
    found: dict[str, Values] = {}
    for name in near:
        together = household if household != name else None
        seen = table
        if nulls[name]:
            kept = [name, *([together] if together else [])]
            chosen = engine.select(table, kept)
            seen = engine.map_rows(chosen, _Present(name), chosen.schema)
        query = ClassQuery(keys=(name,), columns=() if together is None else (together,))
        found[name] = engine.reduce_classes(seen, query, _SingleValueClasses(together), Facts()) or Values()
    return found


@dataclass(frozen=True)
class _Present:
    """The rows that have a value."""

    column: str

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(rows.column(self.column).is_valid().to_numpy(zero_copy_only=False)))


def near_unique_notes(found: Mapping[str, Values], records: int, household: str | None) -> list[str]:
    """A sentence for each column in which more than half of the records have a unique value.

    Examples
    --------
    >>> near_unique_notes({"income": Values(90, 80), "sex": Values(2, 0)}, 100, None)
    ['80 % of the records have a value of `income` of their own: anyone who knows that value finds the record']
    """
    whose = "of their own" if household is None else "of their own or of their household's"
    return [
        f"{in_percent(values.own / records)} of the records have a value of `{name}` {whose}: anyone who knows that "
        "value finds the record"
        for name, values in found.items()
        if 2 * values.own > records
    ]


LARGEST_FOLDED = 1_000_000
"""Distinct values whose spelling is compared, at most."""
Judge = Callable[..., "Assessment"]


def table_notes(
    engine: Engine,
    table: Any,
    records: int,
    entries: Sequence[Guarantee],
    roles: Roles,
    rules: JudgingRules,
    judge: Judge,
) -> list[str]:
    """Notes on a table without its suppressed records; a function only of its cells.

    Parameters
    ----------
    engine : Engine
    table : Table
    records : int
        How many it has.
    entries : sequence of Guarantee
        Guarantees and measures over it.
    roles : Roles
    rules : JudgingRules
    judge : callable
        `assess`, to judge the table again with its values folded.
    """
    household = _household(table.schema.names, entries)
    values = values_of(engine, table, _unmasked(table.schema.names, roles, rules.gate), records, household)
    notes = near_unique_notes(values, records, household)
    again = _Again(engine, table, [entry for entry in entries if _of_values(entry)], roles, rules, judge)
    for name in roles.sensitive:
        if name in table.schema.names:
            notes += again.of_column(name, values.get(name))
    if rules.person is not None and is_text(table, rules.person):
        notes += again.of_persons(rules.person)
    return notes


def _unmasked(names: Sequence[str], roles: Roles, gate: Gate) -> list[str]:
    """Columns that are released with the quasi-identifiers, without pseudonyms."""
    seen = [name for name in gate.seen(names) if name in names]
    released = (*roles.sensitive, *roles.insensitive, *roles.carried)
    return [name for name in seen if name in released and name not in gate.pseudonyms]


def _household(names: Sequence[str], entries: Sequence[Guarantee]) -> str | None:
    """The first column of the table by which an entry distinguishes households."""
    return next((column for entry in entries if (column := entry.household_column()) in names), None)


def _of_values(entry: Guarantee) -> bool:
    """Whether a figure depends only on how values are distinguished in classes of the judged table."""
    return entry.way.classes_alone and not entry.needs_base and not entry.needs_population


class _Again:
    """Judges a table once more with other values."""

    def __init__(
        self,
        engine: Engine,
        table: Any,
        entries: Sequence[Guarantee],
        roles: Roles,
        rules: JudgingRules,
        judge: Judge,
    ) -> None:
        self._engine, self._table, self._entries = engine, table, entries
        self._roles, self._judge = roles, judge
        self._rules = replace(rules, gate=Gate(columns=()))

    def of_column(self, column: str, values: Values | None) -> list[str]:
        """What the spelling of a sensitive column, and its missing values, hold up."""
        about = [entry for entry in self._entries if column in entry.sensitive_columns()]
        towards_l = [entry for entry in about if isinstance(entry, ClassModel) and ({"l", "p"} & set(vars(entry)))]
        text = is_text(self._table, column)
        nulls = self._engine.facts(self._table, FactsRequest(nulls=(column,))).nulls[column] if towards_l else 0
        if not text and not nulls:
            return []
        if values is not None and values.distinct > LARGEST_FOLDED:
            return [f"`{column}` has {values.distinct:,} values: their spelling was not compared"]
        histogram = self._engine.facts(self._table, FactsRequest(histograms=(column,))).histograms[column]
        notes = self._of_spelling(column, histogram, about) if text else []
        return notes + (self._of_missing(column, histogram, towards_l) if nulls else [])

    def _of_spelling(self, column: str, histogram: Histogram, about: Sequence[Guarantee]) -> list[str]:
        fold = folded(histogram.values)
        before, after = (len(values.drop_null().unique()) for values in (histogram.values, fold))
        if after == before:
            return []
        table = self._engine.recode(self._table, {column: (histogram.values, fold)})
        return [f"`{column}` has {before:,} values, {after:,} of them apart from spelling{self._figures(table, about)}"]

    def _of_missing(self, column: str, histogram: Histogram, entries: Sequence[Guarantee]) -> list[str]:
        facts = Facts(histograms={column: histogram})
        figures = []
        for entry in entries:
            query = ClassQuery(
                keys=keys_of(entry, self._roles),
                columns=entry.sensitive_columns(),
                dictionaries={column: histogram},
                mark=self._rules.mark,
                person=self._rules.unit(entry),
            )
            found = self._engine.reduce_classes(self._table, query, Known(entry, column, len(histogram) - 1), facts)
            if found is not None:
                figures.append(f"{entry.name()} observed {_shown(entry.judge(found, facts).observed)}")
        told = f"; without them {', '.join(figures)}" if figures else ""
        return [f"`{column}` has missing values, which count as a value{told}"]

    def of_persons(self, person: str) -> list[str]:
        """What the spelling of the column that distinguishes persons holds up."""
        alone = self._engine.select(self._table, [person])
        before = count_persons(self._engine, alone, person)
        after = count_persons(self._engine, self._engine.map_rows(alone, Fold(person), alone.schema), person)
        if before == after:
            return []
        table = self._engine.map_rows(self._table, Fold(person), self._table.schema)
        told = self._figures(table, self._entries)
        return [f"`{person}` tells {before:,} persons apart, {after:,} of them apart from spelling{told}"]

    def _figures(self, table: Any, entries: Sequence[Guarantee]) -> str:
        if not entries:
            return ""
        judged = self._judge(self._engine, table, guarantees=entries, roles=self._roles, rules=self._rules)
        told = [f"{each.name} observed {_shown(each.observed)}" for each in judged.verdicts]
        return f"; after folding {', '.join(told)}"


def _shown(observed: Any) -> str:
    if isinstance(observed, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in observed.items())
    return "no number" if observed is None else short(observed)
