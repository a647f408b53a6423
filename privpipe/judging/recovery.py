"""Count how well released columns predict transformed ones: all records on an engine, a sample for the notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Cells, ClassBlock, ClassQuery, Facts, Guarantee, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.marks import Columns, Levels
from privpipe.blocks.row_reductions import NothingLeft
from privpipe.engines import Engine
from privpipe.judging.judged_table import require_columns
from privpipe.judging.notes import stage_names
from privpipe.judging.paired_columns import PairedSample, looked_at, paired_sample
from privpipe.judging.table_facts import ClassCount
from privpipe.measures.risk.attribute.recovery import (
    Chance,
    Confirmed,
    Confirming,
    Guesses,
    Guessing,
    PairCounts,
    Recovered,
    Recovery,
    beyond_chance,
    in_percent,
)
from privpipe.roles import Roles, column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream
    from privpipe.judging.assessment import Assessment
    from privpipe.judging.rules import JudgingRules
    from privpipe.kernels.classes.coded_classes import Coded, CodedCells

__all__ = [
    "GUARD",
    "LEAST_GAIN",
    "BothTables",
    "CountedOnEngine",
    "Recoveries",
    "before",
    "counted_whole",
    "recoveries",
]


LEAST_GAIN = 0.05
"""Gains above this are noted."""
WORDS = {
    **dict.fromkeys(("generalize", "mondrian", "local_recoding", "safepub"), "generalized"),
    **dict.fromkeys(("top_code", "bottom_code"), "coded"),
    "suppress_cells": "suppressed",
    "round": "rounded",
    "pram": "perturbed",
    "microaggregate": "aggregated",
}


COARSENED = ("generalized", "coded", "suppressed")
GUARD = Recovery(at_most=0.5, determined_at_most=0.2, beyond_chance=True)
"""What every release has to meet whose policy has no `recovery` among its guarantees."""


UNPAIRED = (
    "what released columns reveal about transformed ones was not judged: the records of the table and of its original "
    "could not be paired; give both the policy's `record_id`, or both in the same order with align position"
)


@dataclass(frozen=True)
class Recoveries:
    """What released columns reveal about transformed ones, in sentences, and the built-in guarantee where it fails.

    Parameters
    ----------
    notes : tuple of str
        One for each column that predicts another well, the greatest gain first; they disclose something of the source.
    refused : Verdict or None
        Of `GUARD`, over the columns that were generalized, coded or suppressed.
    exceeding : tuple of Recovered
        What makes it fail.
    unpaired : bool
        Whether nothing was judged because the records of the two tables could not be paired.
    """

    notes: tuple[str, ...] = ()
    refused: Verdict | None = None
    exceeding: tuple[Recovered, ...] = ()
    unpaired: bool = False

    def joining(self, judged: Assessment, guarantees: Sequence[Guarantee]) -> Assessment:
        """The assessment with the notes, and with the failed guarantee unless one of the policy decides instead.

        That one is an error by itself where records could not be paired.
        """
        decided = any(isinstance(each, Recovery) for each in guarantees)
        refused = () if self.refused is None or decided else (self.refused,)
        notes = (UNPAIRED,) if self.unpaired and not decided else ()
        return replace(judged.noting(*notes, source=self.notes), verdicts=(*refused, *judged.verdicts))


def recoveries(
    engine: Engine,
    released: Any,
    original: Any,
    roles: Roles,
    rules: JudgingRules,
    order: Stream,
    sample: PairedSample | None = None,
) -> Recoveries:
    """What each released column reveals about transformed ones.

    A large table is judged by as many records as `looked_at` says, those of smallest keyed order. Nothing where the two
    tables cannot be aligned.

    Parameters
    ----------
    sample : PairedSample, optional
        The records of both, where they were brought already.
    """
    if original is None:
        return Recoveries()
    entry, tables = Recovery(), BothTables(released.schema, original.schema, roles)
    columns = tables.columns(entry)
    if not columns:
        return Recoveries()
    sample = sample or paired_sample(engine, released, original, columns)
    if sample is None:
        return Recoveries()
    counts = _sampled(sample, order, roles, rules.mark)
    found = list(tables.recovered(entry, counts, rules.stages))
    noted = sorted((each for each in found if each.gain > LEAST_GAIN), key=lambda each: -each.gain)
    notes = [_sentence(each, roles, rules.stages) for each in noted]
    coarse = [each for each in found if _is_coarsened(each.column, tables, roles, rules.stages)]
    suspects = [beyond_chance(counts, each, GUARD.min_group) for each in coarse if GUARD.exceeded(each)]
    exceeding = tuple(each for each in suspects if GUARD.exceeded(each))
    refused = _refused(exceeding, counts.records) if exceeding else None
    return Recoveries(tuple(notes), refused, exceeding)


def _refused(found: Sequence[Recovered], records: int) -> Verdict:
    verdict = GUARD.judge_recovered(found, records)
    remedy = "drop that column, generalize it, or list `recovery` with another `at_most` among the guarantees"
    return replace(verdict, reason=f"{verdict.reason} Every release has to meet this: {remedy}.")


def _is_coarsened(column: str, tables: BothTables, roles: Roles, stages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a stage generalized, coded or suppressed a column; where no stage is known, whether it has labels now."""
    done = [WORDS.get(stage["name"], "") for stage in stages if _touches(stage, column, roles)]
    return bool(set(done) & set(COARSENED)) if stages else not tables.is_measured(column)


def before(name: str) -> str:
    """What a column of the original is called next to the released ones."""
    return f"__privpipe_original_{name}"


@dataclass(frozen=True)
class BothTables:
    """The columns that both tables have, and which of them may have been transformed."""

    released: pa.Schema
    original: pa.Schema
    roles: Roles

    def require(self, names: Sequence[str]) -> None:
        """Refuse names that one of the tables lacks."""
        for name in names:
            for schema, side in ((self.original, "original"), (self.released, "released table")):
                require_columns(schema.names, [name], side)

    def columns(self, entry: Recovery) -> list[str]:
        """Columns of both tables whose values the entry guesses."""
        both = [name for name in self.released.names if name in self.original.names]
        return [name for name in both if name not in self.roles.unreleased and (not entry.named or name in entry.named)]

    def recovered(self, entry: Recovery, counts: Any, stages: Sequence[Mapping[str, Any]]) -> Iterator[Recovered]:
        """What each released column reveals of each of them."""
        columns = self.columns(entry)
        categories = {name for stage in stages if stage["name"] == "pram" for name in _columns_of(stage, self.roles)}
        perturbed = [name for name in columns if name not in (*entry.named, *categories) and self.is_measured(name)]
        return entry.recovered(counts, columns, list(self.released.names), perturbed)

    def is_measured(self, name: str) -> bool:
        """Whether a column has numbers or dates in both tables."""
        kinds = [column_type_of(schema.field(name).type) for schema in (self.released, self.original)]
        return not {"text", "boolean"} & set(kinds)


class _Counted:
    """Counts by classes, each made once."""

    def __init__(self, records: int) -> None:
        self.records = records
        self._distinct: dict[str, int] = {}

    def distinct(self, column: str) -> int:
        if column not in self._distinct:
            self._distinct[column] = self._reduced(ClassQuery(keys=(column,)), ClassCount()) or 0
        return self._distinct[column]

    def guesses(self, column: str, evidence: tuple[str, ...], min_group: int) -> Guesses:
        name = before(column)
        found: Guesses | None = self._reduced(ClassQuery(keys=evidence, columns=(name,)), Guessing(name, min_group))
        return found or Guesses()

    def labels(self, column: str) -> Guesses:
        query = ClassQuery(keys=(before(column),), columns=(column,))
        found: Guesses | None = self._reduced(query, Guessing(column))
        return found or Guesses()

    def confirmed(self, column: str, evidence: tuple[str, ...]) -> Confirmed:
        name = before(column)
        found: Confirmed | None = self._reduced(ClassQuery(keys=evidence, columns=(name,)), Confirming(name))
        return found or Confirmed()

    def chance(self, column: str, evidence: tuple[str, ...], min_group: int) -> float:
        *others, last = evidence
        name = before(column)
        query = ClassQuery(keys=tuple(others), columns=(name, last))
        return float(self._reduced(query, Chance(name, last, min_group)) or 0.0)

    def _reduced(self, query: ClassQuery, reduction: Any) -> Any:
        raise TypeError(f"{type(self).__name__} counts nothing")


class CountedOnEngine(_Counted):
    """All records, counted where they are."""

    def __init__(self, engine: Engine, table: Any) -> None:
        super().__init__(engine.count(table))
        self._engine, self._table = engine, table

    def _reduced(self, query: ClassQuery, reduction: Any) -> Any:
        return self._engine.reduce_classes(self._table, query, reduction, Facts())


class _OnDriver(_Counted):
    """A few records, as columns of codes 0, 1, ... with how many there are."""

    def __init__(self, codes: Mapping[str, Coded], records: int) -> None:
        super().__init__(records)
        self._codes = codes
        self._pair: tuple[tuple[str, str], Coded] | None = None

    def _reduced(self, query: ClassQuery, reduction: Any) -> Any:
        if not self.records:
            return None
        from privpipe.kernels.classes.coded_classes import cells_of, joined

        first, *others = query.keys
        column, *more = query.columns or [first]
        if more:
            every = {name: self._cells(query.keys, name) for name in query.columns}
            held = {name: Cells(each.offsets, each.codes, each.counts) for name, each in every.items()}
            return reduction.measure(ClassBlock(every[column].sizes, held), Facts())
        if self._pair is None or self._pair[0] != (first, column):  # one column after another is evidence on a pair
            self._pair = ((first, column), joined([self._codes[first], self._codes[column]]))
        joint = joined([*(self._codes[name] for name in others), self._pair[1]])
        found = cells_of(joint, self._codes[column].distinct)
        cells = Cells(found.offsets, found.codes, found.counts)
        return reduction.measure(ClassBlock(found.sizes, {column: cells}), Facts())

    def _cells(self, keys: Sequence[str], column: str) -> CodedCells:
        from privpipe.kernels.classes.coded_classes import coded_cells

        return coded_cells([self._codes[name] for name in keys], self._codes[column])

    def distinct(self, column: str) -> int:
        return self._codes[column].distinct


def counted_whole(engine: Engine, released: Any, original: Any, columns: Sequence[str]) -> PairCounts:
    """Counts of all records of both tables: on the driver where it may hold them, which is quicker, else on the engine.

    Parameters
    ----------
    released : Table
        Without suppressed records.
    columns : sequence of str
        Of the original.
    """
    if engine.count(released) <= looked_at(len(released.schema.names)):
        sample = paired_sample(engine, released, original, columns)
        if sample is not None and sample.whole:
            return _on_driver(sample, *sample.pairs)
    return CountedOnEngine(engine, engine.beside(released, original, {name: before(name) for name in columns}))


def _sampled(sample: PairedSample, order: Stream, roles: Roles, mark: str) -> _OnDriver:
    """The records of both tables, suppressed ones left out, the largest number allowed of them."""
    names = tuple(name for name in sample.released.schema.names if name not in roles.unreleased)
    kept = ~NothingLeft(names, mark)(sample.released) if names else None
    return _on_driver(sample, *sample.chosen(order, kept))


def _on_driver(sample: PairedSample, first: Ints, second: Ints) -> _OnDriver:
    import pyarrow as pa

    codes = {}
    for rows, places, called in ((sample.released, second, str), (sample.original, first, before)):
        chosen = pa.array(places)
        # A column at a time: a copy of both tables would be as large as all that the sample holds.
        codes.update({called(name): _coded(rows.column(name).take(chosen)) for name in rows.schema.names})
    return _OnDriver(codes, len(first))


def _coded(column: pa.Array) -> Coded:
    from privpipe.engines.base.class_blocks import group_key
    from privpipe.kernels.classes.coded_classes import Coded

    encoded = group_key(column).dictionary_encode(null_encoding="encode")
    return Coded(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), max(1, len(encoded.dictionary)))


def _sentence(found: Recovered, roles: Roles, stages: Sequence[Mapping[str, Any]]) -> str:
    done = [WORDS[stage["name"]] for stage in stages if stage["name"] in WORDS and _touches(stage, found.column, roles)]
    told = " and ".join(f"`{name}`" for name in found.by)
    known = all(name in roles.quasi_identifiers for name in found.by)
    remedy = "or generalize it further" if known else "generalize it, or make it a quasi-identifier"
    return (
        f"{found} although it was {done[-1] if done else 'transformed'}; drop {told}, {remedy} "
        f"(its label alone reveals {in_percent(found.by_label / found.records)})"
    )


def _touches(stage: Mapping[str, Any], column: str, roles: Roles) -> bool:
    return column in _columns_of(stage, roles)


def _columns_of(stage: Mapping[str, Any], roles: Roles) -> set[str]:
    """Columns that a stage of a plan transforms; left out, those that identify."""
    return set(stage_names(stage, Columns) or stage_names(stage, Levels) or roles.quasi_identifiers)
