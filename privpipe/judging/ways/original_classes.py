"""Judge classes of a release compared with those of its original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Guarantee, Histogram, RowBlock, Verdict
from privpipe.blocks.file_pair import DistinctPair, DistinctPairMeasure, JoinedClassMeasure, JoinedTables
from privpipe.blocks.row_reductions import NothingLeft
from privpipe.blocks.verdict import EXPLAIN, Comparison, least
from privpipe.blocks.way import BESIDE, JOINED_CLASSES, RECODED_TABLES
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, HierarchyError, PrivpipeError
from privpipe.hierarchies import canonical_text
from privpipe.judging.assessment import all_suppressed, not_judged, resting_on
from privpipe.judging.counted_classes import NO_RECORDS
from privpipe.judging.judged_table import require_columns
from privpipe.judging.recovery import BothTables, counted_whole
from privpipe.judging.rules import JudgingRules, keys_of
from privpipe.judging.table_facts import ClassCount
from privpipe.judging.ways import ByOriginal, WayOfJudging, of_kind
from privpipe.judging.ways.record_pairs import paired
from privpipe.measures.risk.attribute.recovery import Recovery
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.judging.counted_classes import JudgingContext

__all__ = ["Alike", "ByColumnsBeside", "ByJoinedClasses", "ByRecodedTables", "NotAlike"]


Text = str | None
NUMBERS = ("integer", "number", "decimal")


class NotAlike(PrivpipeError):
    """A column whose values in the two tables are never equal, so that a count of equal keys would prove nothing."""


@dataclass
class Alike:
    """The tables of a comparison, by their kind; each column is converted to one form in all of them.

    `numbers` are the columns brought that hold numbers in both: of two that differ it is known that they do.
    """

    engine: Engine
    rules: JudgingRules
    tables: dict[str, Any]
    numbers: set[str] = field(default_factory=set)

    def bring(self, name: str) -> None:
        """Recode the column by its hierarchy where the release was, or write it as text where types differ.

        Raises
        ------
        NotAlike
        """
        own, shown = (self._kind(side, name) for side in ("original", "released table"))
        if shown == "text" and (name in self.rules.hierarchies or own != "text"):
            self._by_labels(name, own)
            return
        if own != shown and not {own, shown} <= set(NUMBERS):
            raise NotAlike(f"column {name!r} is {own} in the original and {shown} in the release: no value is equal.")
        self._note_numbers(name, own)
        types = {str(table.schema.field(name).type) for table in self.tables.values()}
        if len(types) > 1:
            for side in self.tables:
                self._as_text(side, name)

    def _note_numbers(self, name: str, kind: str) -> None:
        if kind in NUMBERS:
            self.numbers.add(name)

    def _kind(self, side: str, name: str) -> str:
        return str(column_type_of(self.tables[side].schema.field(name).type))

    def _by_labels(self, name: str, kind: str) -> None:
        labels: set[Text] = {
            text for text in self._values("released table", name)[1] if text not in (None, self.rules.mark)
        }
        if name not in self.rules.hierarchies:
            self._parsed(name, kind)
            return
        mine, texts, counts = self._values("original", name)
        known = set(texts)
        more: list[Text] = []
        if "holdout" in self.tables:
            more = [text for text in self._values("holdout", name)[1] if text not in known]
        try:
            hierarchy: Any = self.rules.hierarchies[name].build([*texts, *more], [*counts, *(0 for _ in more)], kind)
        except HierarchyError as error:
            raise NotAlike(f"the hierarchy of {name!r} does not fit: {error}.") from None
        level = self._level(name, hierarchy, labels, kind)
        if level == 0 and hierarchy.unknown_code is None:
            self._note_numbers(name, kind)
            for side in self.tables if kind != "text" else ():
                self._as_text(side, name)
            return
        for side in self.tables:
            if side != "released table":
                values, own = (mine, texts) if side == "original" else self._values(side, name)[:2]
                shown = _labels_of(hierarchy, level, own)
                self.tables[side] = self.engine.recode(self.tables[side], {name: (values, shown)})

    def _level(self, name: str, hierarchy: Any, labels: set[Text], kind: str) -> int:
        """The level the plan says, else the lowest that has all labels known to the hierarchy."""
        planned = [stage["detail"]["levels"] for stage in self.rules.stages if stage["name"] == "generalize"]
        for levels in reversed(planned):
            if name in levels:
                return int(levels[name])
        shown = [set(hierarchy.released_labels(level)) - {None} for level in range(hierarchy.height + 1)]
        ours = {label for label in labels if any(label in level for level in shown)}
        if kind == "text" or _plain(labels - ours, kind):
            for level, texts in enumerate(shown):
                if ours <= texts:
                    return level
        raise NotAlike(
            f"column {name!r} was not released at one level of its hierarchy, so keys over it are never equal; leave "
            "it out of columns."
        )

    def _parsed(self, name: str, kind: str) -> None:
        """Text in the release and no hierarchy: the same values, as a file without types has them, or labels."""
        import pyarrow as pa

        values, texts, _ = self._values("released table", name)
        try:
            plain = canonical_text(pa.array(texts, pa.string()), kind, column=name)
        except DataError:
            raise NotAlike(
                f"column {name!r} is {kind} in the original and text in the release, and no hierarchy shows which "
                "values its labels stand for; leave it out of columns."
            ) from None
        self._note_numbers(name, kind)
        self.tables["released table"] = self.engine.recode(self.tables["released table"], {name: (values, plain)})
        for side in self.tables:
            if side != "released table":
                self._as_text(side, name)

    def _values(self, side: str, name: str) -> tuple[pa.Array, list[Text], list[int]]:
        table = self.tables[side]
        found = self.engine.facts(table, FactsRequest(histograms=(name,))).histograms[name]
        return found.values, canonical_text(found.values, None, column=name).to_pylist(), found.counts.tolist()

    def _as_text(self, side: str, name: str) -> None:
        import pyarrow as pa

        table = self.tables[side]
        if pa.types.is_string(table.schema.field(name).type):
            return
        schema = table.schema.set(table.schema.get_field_index(name), pa.field(name, pa.string()))
        self.tables[side] = self.engine.map_rows(table, AsText(name), schema)


@dataclass(frozen=True)
class AsText:
    """A column as canonical text, block by block: 1 and 1.0 are one number, NaN is null."""

    column: str

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.replace(self.column, canonical_text(rows.column(self.column), None, column=self.column))


def _plain(labels: set[Text], kind: str) -> bool:
    """Whether texts that no level of a hierarchy has are values of the column's type, and no labels."""
    import pyarrow as pa

    try:
        canonical_text(pa.array(sorted(str(label) for label in labels), pa.string()), kind)
    except DataError:
        return False
    return True


def _labels_of(hierarchy: Any, level: int, texts: Sequence[Text]) -> pa.Array:
    """The released label of each value; one that the hierarchy lacks stays unchanged and equals no label."""
    import pyarrow as pa

    shown, codes = hierarchy.released(level), hierarchy.encode(list(texts)).tolist()
    return pa.array([shown[code] if code >= 0 else text for code, text in zip(codes, texts, strict=True)], pa.string())


SIDE = "__privpipe_side"
MOST_SECRETS = 200
"""Distinct values of a secret; more are numbers that a stage should have grouped."""


def joined_tables(entry: JoinedClassMeasure, context: JudgingContext) -> JoinedTables | str:
    """What an entry counts over the joined classes, or why it cannot be judged.

    Raises
    ------
    DataError
        A column that one of the tables lacks; a holdout that cannot be read.
    """
    engine, keys, secret = context.engine, entry.compared_columns(context.roles), entry.secret()
    columns = [*keys, *((secret,) if secret is not None else ())]
    sides = {"original": context.original, "released table": context.with_ids.left}
    for side, table in sides.items():
        require_columns(table.schema.names, columns, side)
    path = entry.table_beside()
    if path is not None:
        sides["holdout"] = _holdout(engine, path, context, columns)
    records = {side: engine.count(table) for side, table in sides.items()}
    if not keys:
        return "there is no column to compare by."
    if not all(records.values()):
        return "there are no records to compare."
    alike = Alike(engine, context.rules, {side: engine.select(table, columns) for side, table in sides.items()})
    try:
        for name in columns:
            alike.bring(name)
    except NotAlike as error:
        return str(error)
    counted = _Counted(engine, keys, secret, alike.tables)
    secrets = counted.secrets() if secret is not None else np.zeros(0, dtype=np.int64)
    if isinstance(secrets, str):
        return secrets
    reduction = entry.reduction(secrets)
    return JoinedTables(
        counts=counted.beside("original", reduction),
        compared=least(
            counted.numbers(name) if name in alike.numbers and not entry.compares_numbers else counted.found(name)
            for name in keys
        ),
        records=records["original"],
        released=records["released table"],
        secrets=secrets,
        holdout=counted.beside("holdout", reduction) if path is not None else None,
        holdout_records=records.get("holdout", 0),
    )


@dataclass
class _Counted:
    engine: Engine
    keys: tuple[str, ...]
    secret: str | None
    tables: dict[str, Any]

    def __post_init__(self) -> None:
        import pyarrow as pa

        self.sides = self.dictionary = Histogram(pa.array([0, 1], pa.int64()), np.ones(2, dtype=np.int64))

    def secrets(self) -> Any:
        """Records of the original with each secret, whose values become codes in both tables; or why not."""
        import pyarrow as pa

        name, seen = str(self.secret), {}
        for side, table in self.tables.items():
            distinct = self.engine.reduce_classes(table, ClassQuery(keys=(name,)), ClassCount(), Facts()) or 0
            if distinct > MOST_SECRETS:
                return (
                    f"column {name!r} has {distinct:,} distinct values in the {side}, {MOST_SECRETS} are counted "
                    "at most; group them by a stage first."
                )
            seen[side] = self.engine.facts(table, FactsRequest(histograms=(name,))).histograms[name]
        texts = {side: canonical_text(found.values, None, column=name).to_pylist() for side, found in seen.items()}
        values = sorted({text for each in texts.values() for text in each}, key=lambda text: (text is None, text or ""))
        number = {text: at for at, text in enumerate(values)}
        for side, found in seen.items():
            shown = int(side == "released table")
            labels = pa.array([f"{shown} {number[text]:03d}" for text in texts[side]], pa.string())
            self.tables[side] = self.engine.recode(self.tables[side], {name: (found.values, labels)})
        codes = [f"{shown} {at:03d}" for shown in (0, 1) for at in range(len(values))]
        self.dictionary = Histogram(pa.array(codes, pa.string()), np.ones(len(codes), dtype=np.int64))
        counts = np.zeros(len(values), dtype=np.int64)
        for text, count in zip(texts["original"], seen["original"].counts.tolist(), strict=True):
            counts[number[text]] += count
        return counts

    def found(self, name: str) -> Comparison:
        """How many released records have a value of a key column that the original has: others are never joined."""
        stacked = self.engine.stack(self.tables["original"], self.tables["released table"], [name], SIDE)
        query = ClassQuery(keys=(name,), columns=(SIDE,), dictionaries={SIDE: self.sides})
        shown, joined = self.engine.reduce_classes(stacked, query, _Joined(), Facts()) or (0, 0)
        what = f"released records have a value of {name!r} that is in the original, recoded as the release was"
        return Comparison(joined, shown, what, EXPLAIN)

    def numbers(self, name: str) -> Comparison:
        """How many released records have a number, or miss it as records of the original do."""
        sides = (self.tables["original"], self.tables["released table"])
        own, shown = (self.engine.facts(each, FactsRequest(nulls=(name,))).nulls[name] for each in sides)
        records = self.engine.count(sides[1])
        what = f"released records have a number in {name!r}"
        return Comparison(records if own else records - shown, records, what, "leave the column out of columns")

    def beside(self, side: str, reduction: Any) -> Any:
        """The counts over the classes of a table joined with those of the release."""
        columns = [*self.keys, *((self.secret,) if self.secret is not None else ())]
        stacked = self.engine.stack(self.tables[side], self.tables["released table"], columns, SIDE)
        counted = SIDE if self.secret is None else self.secret
        query = ClassQuery(keys=self.keys, columns=(counted,), dictionaries={counted: self.dictionary})
        return self.engine.reduce_classes(stacked, query, reduction, Facts())


@dataclass(frozen=True)
class _Joined:
    """Rows of the release, and those whose key is in the original too."""

    def measure(self, block: ClassBlock, facts: Facts) -> tuple[int, int]:
        [cells] = block.cells.values()
        sides = np.zeros((2, len(block)), dtype=np.int64)
        sides[cells.codes, np.repeat(np.arange(len(block)), np.diff(cells.offsets))] = cells.counts
        return int(sides[1].sum()), int(sides[1][sides[0] > 0].sum())

    def merge(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        return left[0] + right[0], left[1] + right[1]


def _holdout(engine: Engine, path: str, context: JudgingContext, columns: list[str]) -> Any:
    schema, versions = context.original.schema, context.rules.versions
    types: Any = {name: column_type_of(schema.field(name).type) for name in columns}
    try:
        table = engine.scan(Source(data=path, version=versions.get(path), types=types))
    except DataError as error:
        error.args = (f"holdout: {error}",)
        raise
    require_columns(table.schema.names, columns, "holdout")
    return table


class ByColumnsBeside(ByOriginal):
    """The two tables are joined once, however many entries ask; suppressed records are left out."""

    way = BESIDE

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        engine, original, left = context.engine, context.original, context.with_ids.left
        tables = BothTables(context.with_ids.table.schema, original.schema, context.roles)
        asked = of_kind(entries, Recovery)
        for entry in asked.values():
            tables.require(entry.named)
        columns = list(dict.fromkeys(name for entry in asked.values() for name in tables.columns(entry)))
        counts = counted_whole(engine, left, original, columns)
        released, verdicts = engine.count(left), {}
        for at, entry in asked.items():
            found = tables.recovered(entry, counts, context.rules.stages)
            verdict = entry.judge_recovered(list(found), counts.records)
            evidence = entry.compared_with(counts, tables.columns(entry), left.schema.names)
            verdicts[at] = resting_on(verdict, paired(counts.records, released), evidence)
        return verdicts


class ByJoinedClasses(ByOriginal):
    """One count of both tables for each entry, two where a holdout is compared."""

    way = JOINED_CLASSES

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        return {at: _verdict(entry, context) for at, entry in of_kind(entries, JoinedClassMeasure).items()}


def _verdict(entry: JoinedClassMeasure, context: JudgingContext) -> Verdict:
    found = joined_tables(entry, context)
    if isinstance(found, str):
        return not_judged(entry, found)
    rows = Comparison(found.released, found.released, "released records are counted by their key")
    return resting_on(entry.judge_joined(found), rows, *found.compared)


class ByRecodedTables(WayOfJudging):
    """Entries over the same columns share one count; without an original only the release is judged."""

    way = RECODED_TABLES
    serves_wildcard: ClassVar[bool] = True

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        verdicts: dict[int, Verdict] = {}
        counted: dict[tuple[str, ...], tuple[pa.Table, int, pa.Table | None]] = {}
        for at, entry in of_kind(entries, DistinctPairMeasure).items():
            keys = keys_of(entry, context.roles)
            columns = entry.columns_read(keys)
            if columns not in counted:
                counted[columns] = _counted(context, columns)
            released, marked, original = counted[columns]
            if not released.num_rows:
                verdicts[at] = all_suppressed(entry)
                continue
            pair = DistinctPair(
                keys=keys,
                released=released,
                original=original,
                marked=marked,
                records=context.rules.records,
                hierarchies=context.rules.hierarchies,
                stages=context.rules.stages,
                blanks=_blanks(context.rules),
            )
            shown = int(np.asarray(released["__count"].to_numpy()).sum())
            verdicts[at] = resting_on(entry.judge_tables(pair), Comparison(shown, shown, "released records"))
        return verdicts


def _blanks(rules: JudgingRules) -> tuple[str | None, ...]:
    """What a released cell holds where it may represent any value."""
    if rules.nulls != "wildcard":
        return (rules.mark,)
    return (rules.mark, None) if rules.wildcard is None else (rules.mark, None, rules.wildcard)


def _counted(context: JudgingContext, columns: tuple[str, ...]) -> tuple[pa.Table, int, pa.Table | None]:
    """The release's combinations, how many records are suppressed, and the original's where it has the columns."""
    judged_table, original, engine = context.judged_table, context.original, context.engine
    require_columns(judged_table.table.schema.names, columns)
    released = engine.distinct(judged_table.table, columns)
    if (
        NothingLeft(columns, judged_table.by.mark, judged_table.by.untyped).like(released).any()
        and judged_table.suppressed
    ):
        released = engine.distinct(judged_table.left, columns)
    marked = judged_table.known or 0
    if not released.num_rows and not marked:
        raise DataError(NO_RECORDS)
    known = original is not None and all(column in original.schema.names for column in columns)
    return released, marked, engine.distinct(original, columns) if known else None
