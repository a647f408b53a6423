"""The stages `cell_key` and `round_table`, and the guarantee that noise of keys cannot be averaged away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks.arrays import Ints
from privpipe.blocks.marks import Stricter
from privpipe.blocks.verdict import Comparison, Verdict
from privpipe.errors import DataError, UsageError
from privpipe.tables.aggregates import CellFigures, rational
from privpipe.tables.aggregation import COUNT
from privpipe.tables.cell_keys import LARGEST_DEVIATION, NoiseTable, averaged_variance, averages
from privpipe.tables.cells import linked
from privpipe.tables.contribution_rows import key_of_sums
from privpipe.tables.entries import CellGuarantee, TableSet, TableStage
from privpipe.tables.rounding import (
    CellDraws,
    controlled,
    reader_intervals,
    rounded,
    rounded_small_counts,
    small_count_intervals,
)
from privpipe.tables.table import Measure, Table

if TYPE_CHECKING:
    from privpipe.draws import Seed
    from privpipe.tables.aggregation import TableSpec

__all__ = ["ADDED_UP", "Averaging", "CellKey", "RoundTable", "keyed_spec", "keys_of", "require_added_up"]


ADDED_UP = ("count", "sum", "mean", "ratio", "percentage")
"""Responses made only of counts and sums."""
NOT_ADDITIVE = "figures have noise one by one, so parts do not add up to totals; the same people have the same figure"
NO_NOISE = "no table was perturbed by cell_key, so there is no noise to be averaged."


def require_added_up(owner: str, spec: TableSpec) -> None:
    """Refuse figures that are neither counts nor sums.

    Raises
    ------
    UsageError
    """
    for response in spec.responses:
        if response.kind not in ADDED_UP:
            raise UsageError(
                f"{owner}: {response.name!r} is neither a count nor a sum nor made of them; publish it in a table of "
                "its own"
            )


def keyed_spec(owner: str, spec: TableSpec, seed: Seed, purpose: str, *, sums: bool) -> TableSpec:
    """What is counted of a table, with record keys of its counts, and of its sums where they are wanted.

    Raises
    ------
    UsageError
        The table has weights, or a figure that is neither a count nor a sum.
    """
    if spec.weight is not None:
        raise UsageError(f"{owner}: weighted tables have no cell keys; leave `weight` out")
    require_added_up(owner, spec)
    measures = (COUNT, *(spec.sums if sums else ()))
    more = {(purpose, measure): key_of_sums(seed, purpose, measure) for measure in measures}
    return replace(spec, record_keys={**spec.record_keys, **more})


def keys_of(owner: str, table: Table, purpose: str, measure: str) -> Ints:
    """Cell keys of a measure.

    Raises
    ------
    UsageError
        The table was counted without them.
    """
    found = table.aggregated.keys.get((purpose, measure))
    if found is None:
        raise UsageError(
            f"{owner}: table {table.name!r} was counted without cell keys; give the stage to Aggregate too: "
            "Aggregate(...).apply(frame, person_id=..., seed=..., stages=[...])"
        )
    return np.asarray(found, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, repr=False)
class CellKey(TableStage):
    """Add noise to every count and sum that belongs to the people of the cell: the same people, the same figure.

    Each contributor has a key under the seed; the key of a cell is the sum of its contributors' keys. Noise follows
    from the cell's key by a public table of probabilities of mean 0. Means and ratios are made of perturbed parts.
    Parts do not add up to totals. Give the same seed to every release: under another one the noise is another, and
    averages away.

    Parameters
    ----------
    D : int
        Largest deviation of a count, 1 to 1000; of a sum, in parts of delta times its largest contribution.
    V : float
        Largest variance of these deviations.
    js : int
        Counts 1 .. js are never published; below D.
    stay : float, optional
        Least probability that a count stays unchanged.
    monotone : bool
        Whether probabilities do not fall from the left up to no deviation.
    delta : float, optional
        Part of the largest contribution that a sum moves per step of deviation. Needed for sums.
    purpose : str
        Cells of one purpose share their noise.

    Examples
    --------
    >>> import pandas as pd
    >>> from privpipe.tables import Aggregate
    >>> visits = pd.DataFrame({"region": list("NNNNNSSSS"), "person": range(9)})
    >>> noise = CellKey(D=2, V=1.0)
    >>> seed = {"insecure": "docs"}
    >>> count = Aggregate(by=["region"], responses=["count"])
    >>> table = count.apply(visits, person_id="person", seed=seed, stages=[noise])
    >>> one = noise.apply(table).public()
    >>> one["count_status"].tolist(), bool((one["count"] - [9, 5, 4]).abs().max() <= 2)
    (['perturbed', 'perturbed', 'perturbed'], True)
    >>> one.equals(noise.apply(count.apply(visits[::-1], person_id="person", seed=seed, stages=[noise])).public())
    True
    """

    source = "Thompson, Broadfoot, Elazar 2013; Marley, Leaver 2011; Giessing, Tent 2019; sdcTools ptable, cellKey"
    preserves: ClassVar[str] = (
        "counts to within D, sums to within a few parts of their largest contribution; on average"
    )
    reveals: ClassVar[str] = "of each count 2 D + 1 values at most that it can have had, and how likely they are"

    D: Annotated[int, Ge(1), Le(LARGEST_DEVIATION), Doc("largest deviation of a count")]
    V: Annotated[float, Gt(0), Doc("largest variance of the deviations")]
    js: Annotated[int, Ge(0), Doc("counts from 1 to js are never published")] = 0
    stay: Annotated[float | None, Ge(0), Lt(1), Doc("least probability that a count stays unchanged")] = None
    monotone: Annotated[bool, Doc("probabilities do not fall from the left up to no deviation")] = True
    delta: Annotated[
        float | None, Gt(0), Doc("part of the largest contribution that a sum moves by each step; for sums")
    ] = None
    purpose: Annotated[str, Doc("cells of one purpose share their noise")] = "tables"
    tables: Annotated[tuple[str, ...] | None, Doc("tables that are perturbed; left out: all")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.js >= self.D:
            raise UsageError("CellKey: js must be below D, so that each count can become another")
        if not self.purpose:
            raise UsageError("CellKey: purpose must be a text")

    @property
    def needs_seed(self) -> bool:
        return True

    def counting(self, spec: TableSpec, seed: Seed) -> TableSpec:
        if spec.sums and self.delta is None:
            raise UsageError("cell_key: sums need `delta`, the part of the largest contribution that they move by")
        return keyed_spec(self.name(), spec, seed, self.purpose, sums=True)

    @property
    def noise(self) -> NoiseTable:
        """The table of probabilities.

        Raises
        ------
        UsageError
            A count cannot have so little variance.
        """
        return NoiseTable.of_greatest_entropy(self.D, self.V, self.js, self.stay, monotone=self.monotone)

    def run(self, tables: TableSet) -> TableSet:
        noise, changed = self.noise, {}
        others = [m for t in tables.tables.values() for m in t.measures.values() if m.noise is not None]
        if any((other.noise, other.drawn_by) != (noise, self._drawn_by) for other in others):
            raise UsageError(
                "cell_key: another `cell_key` has other parameters: the same people would have two figures, and both "
                "together say more than each; give all tables the same ones"
            )
        for name, table in tables.chosen(self.tables).items():
            measures = dict(table.measures)
            for key in table.shown_measures:
                measures[key] = self._perturbed(table, key, measures[key], noise)
            changed[name] = replace(table, measures=measures)
        rows = [{"values": list(row.values), "bounds": list(row.bounds)} for row in noise.rows]
        moments = [{"mean": float(row.mean), "variance": float(row.variance)} for row in noise.rows]
        return tables.having(changed, NOT_ADDITIVE, step={"public": {"p_table": rows}, "moments": moments})

    @property
    def _drawn_by(self) -> tuple[Any, ...]:
        return self.purpose, self.delta

    def _perturbed(self, table: Table, key: str, measure: Measure, noise: NoiseTable) -> Measure:
        if measure.status != "published":
            raise UsageError(f"cell_key: table {table.name!r} is {measure.status} already; perturb once")
        figures = measure.figures
        keys = keys_of(self.name(), table, self.purpose, key)
        if figures.counting:
            shown = noise.noisy_counts(figures.totals, keys)
            low, high = noise.reader_intervals(shown)
        else:
            delta = rational(self.delta, "cell_key: delta")
            shown = noise.noisy_sums(figures.totals, figures.largest[:, 0], keys, delta)
            low, high = sum_intervals(figures, shown, noise, delta)
        return replace(
            measure,
            shown=shown,
            low=low,
            high=high,
            status="perturbed",
            noise=noise,
            drawn_by=self._drawn_by,
            by_interval=True,
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(D=5, V=3.0), cls(D=5, V=3.0, js=2, stay=0.5, delta=0.5)]


def sum_intervals(figures: CellFigures, shown: Ints, noise: NoiseTable, delta: Fraction) -> tuple[Ints, Ints]:
    """Bounds from noisy sums for an attacker who knows the largest contribution; others learn less."""
    away = figures.largest[:, 0].astype(object) * (delta.numerator * noise.largest)
    # The noise is rounded to a unit.
    most = np.array([-(-int(each) // delta.denominator) for each in away], dtype=np.int64)
    low, high = shown - most, shown + most
    nonnegative = figures.negative == 0
    return np.where(nonnegative, np.maximum(low, 0), low), high


@dataclass(frozen=True, kw_only=True, repr=False)
class Averaging(CellGuarantee):
    """The noise of each count keeps a variance of at least v, averaged over all sums that equal it; observed = least.

    A total is published itself, and as the sum of its parts at each level of each dimension of each table. Their best
    average has the variance 1 / sum 1/V_i.

    Parameters
    ----------
    at_least : float
        v, above 0.

    Examples
    --------
    >>> Averaging(at_least=1)
    Averaging(at_least=1.0)
    """

    source = "Giessing, Tent 2019; Asghar, Kaafar, Averaging attacks on bounded noise, PETS 2020"
    threat = "A total is published many times over, as the sum of other cells, each time with other noise."
    formula = "min over cells with contributors of 1 / sum over sums that equal it of 1/variance >= v"
    choose = "1, for noise of variance 2 or more; fewer dimensions and levels raise the observed figure."
    observes = float

    at_least: Annotated[float, Gt(0), Stricter("larger"), Doc("v: least variance that is left of the noise of a count")]

    def judge(self, tables: TableSet) -> Verdict:
        chosen = [table for table in tables.chosen(self.tables).values() if table.measures[COUNT].status == "perturbed"]
        variables = linked([table.cells for table in chosen]) if chosen else None
        found: dict[Any, NDArray[np.float64]] = {}
        for table, variable in zip(chosen, () if variables is None else variables.variables, strict=True):
            noise = table.measures[COUNT].noise
            if noise is None:
                raise TypeError("a perturbed measure has its noise")
            figures = table.measures[COUNT].figures
            for way, variance in averages(table.cells, figures.contributors, noise):
                # The same sum in two tables is one figure.
                known = found.setdefault(way, np.full(0 if variables is None else variables.size, np.inf))
                known[variable] = np.minimum(known[variable], variance)
        left = averaged_variance(found.values())
        left = left[np.isfinite(left)]
        judged = len(left)
        compared = (Comparison(judged, judged, "counts with noise were judged"),)
        if not judged:
            return Verdict(self, None, "error", self.at_least, reason=NO_NOISE, compared=compared)
        least, failing = float(left.min()), int((left < self.at_least).sum())
        return Verdict(
            self,
            least,
            outcome="fail" if failing else "pass",
            threshold=self.at_least,
            failing_classes=failing,
            reason=f"observed {least:g}; the noise of {failing:,} of {judged:,} counts averages to less.",
            compared=compared,
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(at_least=1), cls(at_least=0.5)]


@dataclass(frozen=True, kw_only=True, repr=False)
class RoundTable(TableStage):
    """Publish multiples of a base instead of figures.

    Suppress first, and round the rest: rounding alone hides neither small cells nor differences, and the audit
    judges it with the interval of each figure. Means and ratios are made of rounded parts.

    Parameters
    ----------
    base : int
        At least 2; for sums in units of the column, not of its decimals.
    method : {"nearest", "midpoint", "random", "controlled", "small_counts"}
        ``nearest``: halves up. ``midpoint``: 0, or the middle of an interval (counts). ``random``: up with a
        probability of what is over a multiple, by the keys of the contributors: the same people have the same figure
        in every table and release. ``controlled``: up or down so that all totals are the sums of their parts.
        ``small_counts``: only counts below the base that make a published one below it, to 0 or the base, and added up
        again.
    purpose : str
        Cells of one purpose share their draws.

    Examples
    --------
    >>> import pandas as pd
    >>> from privpipe.tables import Aggregate
    >>> table = Aggregate(by=["region"], responses=["count"]).apply(pd.DataFrame({"region": list("NNNNNNNSSS")}))
    >>> RoundTable(base=5).apply(table).public()["count"].tolist()
    [10, 5, 5]
    """

    source = "Hundepool et al., Statistical Disclosure Control, Wiley 2012, 5.4; SmallCountRounding"
    preserves: ClassVar[str] = "figures to within the base; by random also their mean"
    reveals: ClassVar[str] = "the interval that each rounded figure can come from"

    base: Annotated[int, Ge(2), Doc("figures become multiples of it")]
    method: Annotated[
        Literal["nearest", "midpoint", "random", "controlled", "small_counts"],
        Doc("how figures are rounded; random and small_counts by keys of the contributors"),
    ] = "nearest"
    purpose: Annotated[str, Doc("for random and small_counts: cells of one purpose share their draws")] = "tables"
    tables: Annotated[tuple[str, ...] | None, Doc("tables that are rounded; left out: all")] = None

    @property
    def needs_seed(self) -> bool:
        return self.method in KEYED

    def counting(self, spec: TableSpec, seed: Seed) -> TableSpec:
        if self.method == "small_counts" and spec.sums:
            raise UsageError("round_table: small_counts is for counts; round sums by nearest, random or controlled")
        return keyed_spec(self.name(), spec, seed, self.purpose, sums=False) if self.needs_seed else spec

    def run(self, tables: TableSet) -> TableSet:
        chosen = tables.chosen(self.tables)
        for name, table in chosen.items():
            require_added_up("round_table", table.aggregated.spec)
            for key in table.shown_measures:
                if (status := table.measures[key].status) != "published":
                    raise UsageError(f"round_table: table {name!r} is {status} already; round once")
        made = self._controlled(chosen) if self.method == "controlled" else {}
        changed, differences = {}, []
        for name, table in chosen.items():
            measures = dict(table.measures)
            for key in table.shown_measures:
                if self.method == "small_counts":
                    measures[key], most = self._small_counts(table, measures[key])
                    differences.append(most)
                else:
                    rounding = made.get((name, key)) or self._alone(table, key, measures[key], tables.seed)
                    measures[key] = self._rounded(measures[key], *rounding)
            changed[name] = replace(table, measures=measures)
        note = f"figures are rounded to multiples of {self.base} one by one, so parts need not add up to totals"
        step = {} if self.method != "small_counts" else {"largest_difference": max(differences, default=0)}
        return tables.having(changed, *(() if self.method in ADDITIVE else (note,)), step=step)

    def _alone(self, table: Table, key: str, measure: Measure, seed: Seed | None) -> tuple[Ints, int]:
        """Each figure rounded by itself."""
        if self.method == "midpoint" and key != COUNT:
            raise UsageError("round_table: midpoint is for counts; round sums by nearest, random or controlled")
        draws = None
        if self.method == "random":
            keys = keys_of("round_table", table, self.purpose, COUNT)
            if seed is None:
                raise UsageError("round_table: random rounding needs the seed that is kept for all releases")
            contributors = table.measures[COUNT].figures.contributors
            draws = CellDraws(seed, self.purpose, keys, contributors, key)
        return rounded(measure.figures.totals, self.base * 10**measure.places, self.method, draws), 0

    def _rounded(self, measure: Measure, shown: Ints, steps: int) -> Measure:
        nonnegative = not (measure.figures.negative > 0).any()
        base = self.base * 10**measure.places
        low, high = reader_intervals(shown, base, self.method, counts=nonnegative, steps=steps)
        return replace(measure, shown=shown, low=low, high=high, status="rounded")

    def _controlled(self, chosen: Mapping[str, Table]) -> dict[tuple[str, str], tuple[Ints, int]]:
        """Each measure rounded in all tables together: a cell of two tables has one figure."""
        groups: dict[tuple[str, int], list[Table]] = {}
        for table in chosen.values():
            for key in table.shown_measures:
                measure = table.measures[key]
                if (measure.figures.negative > 0).any() or not measure.figures.additive:
                    raise DataError("round_table: controlled rounding needs figures that add up and are not negative")
                groups.setdefault((key, measure.places), []).append(table)
        found = {}
        for (key, places), own in groups.items():
            cells = linked([table.cells for table in own])
            values = np.zeros(cells.size, dtype=np.int64)
            for table, variable in zip(own, cells.variables, strict=True):
                values[variable] = table.measures[key].figures.totals
            done = controlled(cells, values, self.base * 10**places)
            for table, variable in zip(own, cells.variables, strict=True):
                found[table.name, key] = done.published[variable], done.steps
        return found

    def _small_counts(self, table: Table, measure: Measure) -> tuple[Measure, int]:
        """Counts without small ones; the interval of each holds for an attacker who knows which cells were rounded."""
        counts = measure.figures.totals
        if not measure.figures.additive:
            raise DataError("round_table: small_counts needs counts that add up; give `contribution_bound: 1`")
        ties = keys_of("round_table", table, self.purpose, COUNT)
        done = rounded_small_counts(table.cells, counts, self.base, ~measure.hidden, ties)
        low, high = small_count_intervals(table.cells, counts, done.rounded, self.base)
        made = replace(measure, shown=done.published, low=low, high=high, status="rounded", by_interval=True)
        return made, done.largest_difference

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(base=5), cls(base=3, method="controlled"), cls(base=5, method="random")]


KEYED = ("random", "small_counts")
"""Methods that draw."""
ADDITIVE = ("controlled", "small_counts")
"""Methods after which parts add up to totals."""
