"""Count the class tables of a release and its original in one, keys as the release shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Histogram
from privpipe.blocks.comparison import EXPLAIN, Comparison, least
from privpipe.blocks.joined_classes import JoinedClassMeasure, JoinedTables
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from privpipe.hierarchies import canonical_text
from privpipe.judging.alike import Alike, NotAlike
from privpipe.judging.persons import ClassCount
from privpipe.judging.required_columns import require_columns
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["joined_tables"]

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
                    "at the most; group them by a stage first."
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
        """How many released records bear a value of a key column that the original has: others are never joined."""
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
