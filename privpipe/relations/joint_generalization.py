"""One vector of levels over the quasi-identifiers of related tables: its cost, who is left, which is best."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import FactsRequest
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.errors import NoSolutionError, UnsupportedError, UsageError
from privpipe.kernels.quality import quality_model
from privpipe.kernels.quality.table import TableOfColumns
from privpipe.relations.counting import Census, RelatedTables
from privpipe.relations.guarantees import JointGuarantee, JointKAnonymity
from privpipe.relations.related_rows import counts_of, failing_persons, without_persons
from privpipe.relations.set_stages import RelatedSet, SetStage
from privpipe.tolerance import floor_share
from privpipe.transforms.base import StageContext
from privpipe.transforms.recoding.labelling import LossSpec, built_over, is_recoded, labels_at, texts_of

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy

__all__ = [
    "Checked",
    "GeneralizeJointly",
    "JointLevels",
    "Levels",
    "LevelsColumn",
    "climbed",
    "described",
    "least_loss",
]


Levels = tuple[int, ...]
MOST_VECTORS = 100_000
"""Vectors of levels among which the best one is sought."""
LOOKED_AT = 64
"""Vectors from which the next one to check is chosen."""


@dataclass(frozen=True)
class LevelsColumn:
    """A column with its hierarchy.

    Parameters
    ----------
    table, name : str
    hierarchy : Hierarchy
    values : pyarrow.Array
        Distinct values, null last where there are any.
    codes : ndarray of int64
        The leaf of each value.
    counts : ndarray of int64
        Records of each leaf.
    """

    table: str
    name: str
    hierarchy: Hierarchy = field(repr=False)
    values: pa.Array = field(repr=False)
    codes: Ints = field(repr=False)
    counts: Ints = field(repr=False)

    @property
    def allowed(self) -> range:
        """Levels that may be chosen."""
        return range(self.hierarchy.min_level, self.hierarchy.max_level + 1)

    def leaves(self, codes: Ints, records: Ints) -> Ints:
        """Records of each leaf, of values with these leaves."""
        found = np.zeros(len(self.hierarchy.values), dtype=np.int64)
        np.add.at(found, codes, records)
        return found


@dataclass(frozen=True)
class Checked:
    """What a vector of levels comes to.

    Parameters
    ----------
    levels : tuple of int
    loss : float
        Of the tables without the persons that go.
    gone : pyarrow.Table
        Keys of those persons; where the check ended early, only as many as exceed the limit.
    """

    levels: Levels
    loss: float
    gone: pa.Table = field(repr=False)

    @property
    def order(self) -> tuple[float, Levels]:
        """The least is best."""
        return self.loss, self.levels


@dataclass
class JointLevels:
    """Vectors of levels over related tables.

    Parameters
    ----------
    related : RelatedTables
        With raw columns.
    guarantees : sequence of JointGuarantee
    census : Census
    columns : tuple of LevelsColumn
    allowed : int
        Persons that may go.
    checked : int
        Vectors that were checked.
    """

    related: RelatedTables
    guarantees: Sequence[JointGuarantee]
    census: Census
    columns: tuple[LevelsColumn, ...]
    allowed: int
    checked: int = 0
    _bounds: dict[tuple[str, Levels], float] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        related: RelatedTables,
        guarantees: Sequence[JointGuarantee],
        contexts: Mapping[str, StageContext],
        census: Census,
        allowed: int,
    ) -> JointLevels:
        """Over the columns with a hierarchy, in the order of the tables; those of a table without records stay raw.

        Raises
        ------
        UnsupportedError
            Values that a hierarchy lacks, and whose records were to be suppressed.
        """
        columns: list[LevelsColumn] = []
        for name, context in contexts.items():
            own = tuple(each for each in related.tree.tables[name].quasi_identifiers if each in context.hierarchies)
            found = related.engine.facts(related.tables[name], FactsRequest(histograms=own)).histograms if own else {}
            held = {each: found[each] for each in own if len(found[each].values)}
            for column, hierarchy in built_over(held, context).items():
                histogram = held[column]
                codes = hierarchy.encode(texts_of(histogram.values, context, column)).astype(np.int64)
                lacking = int(np.asarray(histogram.counts)[codes < 0].sum())
                if lacking:
                    raise UnsupportedError(
                        f"generalize_jointly: {lacking:,} records of {name!r} have a value in {column!r} that its "
                        "hierarchy lacks, and single records are not removed here; add them, or write `unknown: root`"
                    )
                raw = LevelsColumn(name, column, hierarchy, histogram.values, codes, np.zeros(0, np.int64))
                counts = raw.leaves(codes, np.asarray(histogram.counts, dtype=np.int64))
                columns.append(LevelsColumn(name, column, hierarchy, histogram.values, codes, counts))
        return cls(related, guarantees, census, tuple(columns), allowed)

    @property
    def is_monotone(self) -> bool:
        """Whether a person kept at some levels is kept at all coarser ones, so that failing goes down."""
        return all(isinstance(each, JointKAnonymity) for each in self.guarantees)

    @property
    def top(self) -> Levels:
        """The coarsest vector."""
        return tuple(each.allowed[-1] for each in self.columns)

    @property
    def bottom(self) -> Levels:
        """The finest vector."""
        return tuple(each.allowed[0] for each in self.columns)

    @property
    def size(self) -> int:
        """How many vectors there are."""
        return int(np.prod([len(each.allowed) for each in self.columns], dtype=object))

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for at, each in enumerate(self.columns):
            found.setdefault(each.table, []).append(at)
        return found

    def bound(self, levels: Levels) -> float:
        """The loss of a vector with everyone kept: it loses no less when persons go."""
        losses = {}
        for table, places in self._places.items():
            own = tuple(levels[at] for at in places)
            if (table, own) not in self._bounds:
                kept = {at: self.columns[at].counts for at in places}
                self._bounds[table, own] = self._table_loss(places, levels, kept)
            losses[table] = self._bounds[table, own]
        return self._mean(losses)

    def _table_loss(self, places: Sequence[int], levels: Levels, kept: Mapping[int, Ints]) -> float:
        columns = [self.columns[at] for at in places]
        before = np.concatenate([each.counts for each in columns])
        lost = before - np.concatenate([kept[at] for at in places])
        counted = TableOfColumns(
            tuple(each.name for each in columns),
            tuple(each.hierarchy for each in columns),
            before,
            lost,
            int(columns[0].counts.sum()),
        )
        loss, _ = quality_model(counted, LossSpec()).exact([levels[at] for at in places], np.zeros(0, np.bool_))
        return loss[0]

    def _mean(self, losses: Mapping[str, float]) -> float:
        """Of tables, weighted by their cells."""
        cells = {name: int(sum(self.columns[at].counts.sum() for at in self._places[name])) for name in losses}
        return sum(loss * cells[name] for name, loss in losses.items()) / sum(cells.values())

    def recoded(self, levels: Levels) -> RelatedTables:
        """The tables under the labels of a vector."""
        tables = {}
        for name, places in self._places.items():
            codebooks = {}
            for at in places:
                column = self.columns[at]
                if is_recoded(column.hierarchy, levels[at]):
                    codebooks[column.name] = (
                        column.values,
                        labels_at(column.hierarchy, levels[at], column.codes.astype(np.int32)),
                    )
            if codebooks:
                tables[name] = self.related.engine.recode(self.related.tables[name], codebooks)
        return self.related.having(tables)

    def check(self, levels: Levels, *, whole: bool = False) -> Checked:
        """The persons to be removed at a vector of levels, and its loss then.

        Parameters
        ----------
        whole : bool
            Whether to go on where more have to go than may.
        """
        self.checked += 1
        enough = None if whole else self.allowed
        gone = failing_persons(self.recoded(levels), self.guarantees, self.census, enough)
        if not gone.num_rows:
            return Checked(levels, self.bound(levels), gone)
        if gone.num_rows > self.allowed or gone.num_rows == self.census.persons:
            return Checked(levels, float("inf"), gone)
        left = without_persons(self.related, gone)
        losses = {}
        for table, places in self._places.items():
            names = tuple(self.columns[at].name for at in places)
            found = self.related.engine.facts(left.tables[table], FactsRequest(histograms=names)).histograms
            kept = {}
            for at in places:
                column, own = self.columns[at], found[self.columns[at].name]
                # Values are those of the whole table, or fewer.
                codes = column.codes[pc.index_in(own.values, value_set=column.values).to_numpy()]
                kept[at] = column.leaves(codes, np.asarray(own.counts, dtype=np.int64))
            losses[table] = self._table_loss(places, levels, kept)
        return Checked(levels, self._mean(losses), gone)

    def is_within(self, checked: Checked) -> bool:
        """Whether the persons to be removed are within the budget, and at least one is left."""
        return bool(checked.gone.num_rows <= self.allowed and checked.gone.num_rows < self.census.persons)


def climbed(search: JointLevels) -> Checked | None:
    """Up from the finest levels, by the step that spares most persons for its loss, until few enough are removed."""
    here = search.check(search.bottom, whole=True)
    while not search.is_within(here):
        least = search.bound(here.levels)
        steps = [
            search.check((*here.levels[:at], level + 1, *here.levels[at + 1 :]), whole=True)
            for at, level in enumerate(here.levels)
            if level < search.top[at]
        ]
        if not steps:
            return None

        def worth(step: Checked, before: int = here.gone.num_rows, least: float = least) -> tuple[float, float]:
            spared, paid = before - step.gone.num_rows, max(search.bound(step.levels) - least, 1e-9)
            return (spared / paid, -paid) if spared > 0 else (0.0, -paid)

        here = max(steps, key=worth)
    return here


def least_loss(search: JointLevels) -> Checked | None:
    """The vector of least loss among all within the limit; of equal ones the first in order.

    Raises
    ------
    UnsupportedError
        There are too many vectors.
    """
    if search.size > MOST_VECTORS:
        raise UnsupportedError(
            f"generalize_jointly: there are {search.size:,} vectors of levels, and the best is sought among at most "
            f"{MOST_VECTORS:,}; narrow them by min_level and max_level of hierarchies, or use `search: bottom_up`"
        )
    vectors = np.array(list(itertools.product(*(each.allowed for each in search.columns))), dtype=np.int64)
    bounds = np.array([search.bound(tuple(each)) for each in vectors.tolist()])
    order = np.argsort(bounds, kind="stable")  # the product is in order of levels
    vectors, bounds = vectors[order], bounds[order]
    best: Checked | None = None
    while len(vectors):
        at = _most_telling(search, vectors)
        checked = search.check(tuple(vectors[at].tolist()))
        alive: Bools = np.ones(len(vectors), np.bool_)
        alive[at] = False
        if not search.is_within(checked):
            if search.is_monotone:
                alive &= ~(vectors <= vectors[at]).all(axis=1)
        elif best is None or checked.order < best.order:
            best = checked
            alive &= _may_be_better(vectors, bounds, best)
        vectors, bounds = vectors[alive], bounds[alive]
    return best


def _most_telling(search: JointLevels, vectors: Ints) -> int:
    """The vector that rules most others out, whichever way its check ends; vectors are in order of their bounds."""
    if not search.is_monotone:
        return 0
    looked = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), LOOKED_AT)).astype(np.int64))
    below = np.array([int((vectors <= vectors[at]).all(axis=1).sum()) for at in looked])
    return int(looked[np.argmax(np.minimum(below, len(vectors) - looked))])


def _may_be_better(vectors: Ints, bounds: Floats, best: Checked) -> Bools:
    equal = np.flatnonzero(bounds == best.loss)
    better: Bools = bounds < best.loss
    better[equal] = [tuple(vectors[at].tolist()) < best.levels for at in equal]
    return better


def described(search: JointLevels, levels: Levels) -> dict[str, Any]:
    """Levels by table and column."""
    return {f"{each.table}.{each.name}": level for each, level in zip(search.columns, levels, strict=True)}


@dataclass(frozen=True, kw_only=True, repr=False)
class GeneralizeJointly(SetStage):
    """Replace values of all tables by labels of their hierarchies, by the one vector of levels that loses least.

    Parameters
    ----------
    search : {"optimal", "bottom_up"}
        All vectors, or a walk from the finest one up, which ends at one that meets the guarantees and claims no
        optimum.
    suppress_at_most : float
        Share of the persons, in [0, 1], that may go with all their rows; by default no one.

    Raises
    ------
    NoSolutionError
        No vector meets the guarantees; the message has the number of persons that would have to go.

    Notes
    -----
    Columns are the quasi-identifiers with a hierarchy that the stages of their table left unchanged. The loss is
    that of `generalize` for each table, suppressed rows and all, as a mean weighted by cells. Under
    `joint_k_anonymity` alone, levels that fail rule out all finer ones; under other guarantees every vector that
    would lose less than the best is looked at.

    Examples
    --------
    >>> GeneralizeJointly(suppress_at_most=0.02)
    GeneralizeJointly(suppress_at_most=0.02)
    """

    threat = "Persons whom few others match in what an intruder knows, over all tables."
    choose = "`optimal`; `bottom_up` where there are many vectors of levels and large tables."

    search: Annotated[Literal["optimal", "bottom_up"], Doc("the best vector of levels, or a walk up to one")] = (
        "optimal"
    )
    suppress_at_most: Annotated[float, Ge(0), Le(1), Doc("share of the persons that may be removed")] = 0.0

    def run(self, tables: RelatedSet) -> RelatedSet:
        search = self._search(tables)
        persons, allowed = search.census.persons, search.allowed
        found = least_loss(search) if self.search == "optimal" else climbed(search)
        if found is None:
            top = search.check(search.top, whole=True).gone.num_rows
            raise NoSolutionError(
                f"{self.name()}: no levels meet the joint guarantees with at most {allowed:,} of {persons:,} "
                f"persons suppressed; at the coarsest levels {top:,} would have to go: raise `suppress_at_most`, or "
                "cap rows before"
            )
        proved = {"optimal": self.search == "optimal", "vectors": search.size, "vectors_checked": search.checked}
        return self._after(tables, search, found, proved)

    def follow(self, tables: RelatedSet, planned: Mapping[str, int]) -> RelatedSet:
        """The tables at the levels of a plan; persons of groups that fail there go, as far as they may.

        Raises
        ------
        UsageError
            The levels are of other columns, or above those that the hierarchies have here.
        NoSolutionError
            More persons would have to go than may.
        """
        search = self._search(tables)
        names = list(described(search, search.top))
        if sorted(planned) != sorted(names):
            raise UsageError(
                f"{self.name()}: the plan has levels of {', '.join(sorted(planned)) or 'no column'}, and the tables of "
                f"{', '.join(sorted(names))}; make a new plan"
            )
        levels = tuple(planned[name] for name in names)
        for name, level, column in zip(names, levels, search.columns, strict=True):
            if level not in column.allowed:
                raise UsageError(f"{self.name()}: {name} has no level {level} in its hierarchy here; make a new plan")
        found = search.check(levels, whole=True)
        if not search.is_within(found):
            raise NoSolutionError(
                f"{self.name()}: at the levels of the plan {found.gone.num_rows:,} of {search.census.persons:,} "
                f"persons would have to go, and {search.allowed:,} may: make a new plan, or raise `suppress_at_most`"
            )
        return self._after(tables, search, found, {})

    def _search(self, tables: RelatedSet) -> JointLevels:
        census = tables.related.census()
        allowed = floor_share(self.suppress_at_most, census.persons)
        search = JointLevels.of(tables.related, tables.demanded(self.name()), tables.contexts, census, allowed)
        if not search.columns:
            raise UsageError(
                f"{self.name()}: no table has a quasi-identifier with a `hierarchy:` that its own stages left unchanged"
            )
        return search

    def _after(self, tables: RelatedSet, search: JointLevels, found: Checked, proved: Mapping[str, Any]) -> RelatedSet:
        after = search.recoded(found.levels)
        after = without_persons(after, found.gone) if found.gone.num_rows else after
        return tables.after(
            after,
            name=self.name(),
            levels=described(search, found.levels),
            loss=found.loss,
            **proved,
            persons=search.census.persons,
            suppressed_persons=found.gone.num_rows,
            rows_before=counts_of(tables.related),
            rows_after=counts_of(after),
        )

    @classmethod
    def public_detail(cls, detail: Mapping[str, Any]) -> dict[str, Any]:
        return {"levels": dict(detail.get("levels", {}))}  # the labels are in the data

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(search="bottom_up", suppress_at_most=0.1)]
