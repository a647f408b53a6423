"""Noise of differential privacy for tables: exact and discrete, for contributions that are bounded, and paid before.

Sources: Canonne, Kamath, Steinke, The discrete Gaussian for differential privacy, NeurIPS 2020; Bun, Steinke,
Concentrated differential privacy, TCC 2016; Hay et al., Boosting the accuracy of differentially private histograms
through consistency, VLDB 2010.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Annotated, Any, Self, TypeAlias

import numpy as np
import scipy
from annotated_types import Gt, Lt
from typing_extensions import Doc

from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.marks import Stricter
from privpipe.blocks.public_edition import PublicRules
from privpipe.blocks.verdict import Comparison, Verdict
from privpipe.errors import DataError, UsageError
from privpipe.kernels.synthesis.noisy_marginals import discrete_gaussian, discrete_laplace
from privpipe.tables.cells import Cells
from privpipe.tables.entries import CellGuarantee, TableSet
from privpipe.tables.table import Table
from privpipe.tolerance import at_most

__all__ = ["MECHANISMS", "DifferentialPrivacy", "Paid", "PrivateNoise", "Spend", "levels_of", "of_tables"]


MECHANISMS = {"laplace": "epsilon", "gaussian": "rho"}
NEIGHBOURS = ("add_remove", "replace")
SPLITS = ("leaves", "levels")
LARGEST_INTEGER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class Spend:
    """What one private table costs.

    Parameters
    ----------
    unit : str
        ``epsilon`` or ``rho``.
    amount : Fraction
    """

    unit: str
    amount: Fraction


@dataclass
class Paid:
    """What was spent and not yet drawn for: it pays for noise once.

    Parameters
    ----------
    unit : str
    left : Fraction

    Examples
    --------
    >>> paid = Paid("epsilon", Fraction(1))
    >>> paid.take(Spend("epsilon", Fraction(3, 4)))
    >>> paid.left
    Fraction(1, 4)
    """

    unit: str
    left: Fraction

    def take(self, spend: Spend) -> None:
        """Use up some of it.

        Raises
        ------
        UsageError
            It is of another unit, or less than that is left.
        """
        if spend.unit != self.unit or not 0 < spend.amount <= self.left:
            raise UsageError(f"private_table: noise of {spend.unit} {spend.amount} was not paid for")
        self.left -= spend.amount


@dataclass(frozen=True, kw_only=True)
class PrivateNoise:
    """Noise for counts and sums of a table, so that each contributor changes the published figures little.

    Parameters
    ----------
    epsilon, rho : Fraction or None
        The one that the mechanism takes, for all responses of the table together.
    delta : Fraction or None
        Of the statement about ``gaussian``; it changes no noise.
    contribution_bound : int
        Leaf cells in which a contributor counts.
    bounds : mapping of response to (int, int)
        Bounds to which a contributor's sum in a leaf cell is clipped, in units; needed for sums.
    neighbours : str
        ``add_remove``: tables that differ by one contributor. ``replace``: by the values of one.
    mechanism : str
        ``laplace`` or ``gaussian``.
    split : str
        ``leaves``: noise in leaf cells, totals are their sums. ``levels``: noise at every combination of levels, a
        share of the budget each, brought together by weighted least squares.
    at_least_zero : bool
        Whether negative figures of leaf cells become 0 where contributions are not negative, which costs no privacy and
        biases.
    """

    epsilon: Fraction | None = None
    rho: Fraction | None = None
    delta: Fraction | None = None
    contribution_bound: int
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    neighbours: str = "add_remove"
    mechanism: str = "laplace"
    split: str = "leaves"
    at_least_zero: bool = False

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS or self.neighbours not in NEIGHBOURS or self.split not in SPLITS:
            raise UsageError(
                f"private_table: mechanism is one of {', '.join(MECHANISMS)}, neighbours of {', '.join(NEIGHBOURS)}, "
                f"split of {', '.join(SPLITS)}"
            )
        wanted, other = (self.epsilon, self.rho) if self.mechanism == "laplace" else (self.rho, self.epsilon)
        if wanted is None or not wanted > 0 or other is not None:
            unit = MECHANISMS[self.mechanism]
            raise UsageError(f"private_table: {self.mechanism} noise takes {unit}, more than 0, and nothing else")
        if self.delta is not None and not (self.mechanism == "gaussian" and 0 < self.delta < 1):
            raise UsageError("private_table: delta is for gaussian noise, between 0 and 1")
        if self.contribution_bound < 1:
            raise UsageError("private_table: contribution_bound must be at least 1")
        if any(not least < most for least, most in self.bounds.values()):
            raise UsageError("private_table: bounds must ascend")

    @property
    def spend(self) -> Spend:
        """What the table costs."""
        return Spend(MECHANISMS[self.mechanism], Fraction(self.epsilon or self.rho or 0))

    def largest_part(self, response: str) -> int:
        """The most that one contributor adds to one leaf cell, as an absolute value.

        Raises
        ------
        UsageError
            If a sum has no bounds.
        """
        least, most = self._bounds(response)
        return max(abs(least), abs(most))

    def _bounds(self, response: str) -> tuple[int, int]:
        if response == "count":
            return 0, 1
        if response not in self.bounds:
            raise UsageError(f"private_table: response {response!r} is a sum and needs bounds")
        return self.bounds[response]

    def sensitivity(self, response: str) -> int:
        """The most that all cells of one level change together, as a sum of absolute values."""
        return (2 if self.neighbours == "replace" else 1) * self.contribution_bound * self.largest_part(response)

    def squared_sensitivity(self, response: str, *, leaves: bool) -> int:
        """The largest sum of squared changes of the cells of one level.

        In leaf cells one contributor counts once each; above them all of it may be in one cell.
        """
        c, part = self.contribution_bound, self.largest_part(response)
        least, most = self._bounds(response)
        if not leaves:
            # A replaced contributor takes all from one cell and adds it to another, or changes its sign in one.
            widest = c * (most - least)
            return max(2 * (c * part) ** 2, widest**2) if self.neighbours == "replace" else (c * part) ** 2
        if self.neighbours == "add_remove":
            return c * part**2
        return max(2 * c * part**2, c * (most - least) ** 2)

    def scale(self, response: str, share: Fraction, *, leaves: bool = True) -> Fraction:
        """The scale of Laplace noise, or the variance of Gaussian noise, for a share of the budget."""
        budget = self.spend.amount * share
        if self.mechanism == "laplace":
            return self.sensitivity(response) / budget
        return self.squared_sensitivity(response, leaves=leaves) / (2 * budget)

    def noisy(
        self, cells: Cells, responses: Mapping[str, Ints], paid: Paid, *, noise: Noise | None = None
    ) -> dict[str, Ints]:
        """Every response of every cell with noise; the responses share the budget evenly.

        Parameters
        ----------
        cells : Cells
            All combinations of labels, which were fixed before the data was looked at: absent cells get noise too.
        responses : mapping of str to ndarray of int64, shape (cells,)
            ``count`` and sums in units, of bounded contributions; only leaf cells are read, totals follow from them.
        paid : Paid
            A second call takes as much again.

        Raises
        ------
        DataError
            If a combination of labels is missing, or figures are too large.
        UsageError
            If it was not paid for.
        """
        missing = math.prod(cells.shape) - len(cells)
        if missing:
            raise DataError(f"private_table: {missing} combinations of labels have no cell; give all of them")
        if any(dimension.overlapping for dimension in cells.dimensions):
            raise UsageError("private_table: the labels of a dimension must not overlap")
        for response, values in responses.items():
            self.largest_part(response)
            if len(values) != len(cells):
                raise DataError(f"private_table: response {response!r} has another number of cells than the table")
        paid.take(self.spend)
        draw = noise or self._draw
        share = Fraction(1, len(responses))
        leaves, parts = _parts(cells)
        found = {}
        for response, values in responses.items():
            level = self._levels if self.split == "levels" else self._leaves
            noisy = level(cells, values, response, share, (leaves, parts), draw)
            if self.at_least_zero and self._bounds(response)[0] >= 0:
                noisy = np.maximum(noisy, 0)
            found[response] = np.asarray(parts @ noisy, dtype=np.int64)
        return found

    def _draw(self, scale: Fraction) -> int:
        return discrete_laplace(scale) if self.mechanism == "laplace" else discrete_gaussian(scale)

    def _leaves(self, cells: Cells, values: Ints, response: str, share: Fraction, inner: Inner, draw: Noise) -> Ints:
        scale = self.scale(response, share)
        return _added(values[inner[0]], [draw(scale) for _ in range(len(inner[0]))])

    def _levels(self, cells: Cells, values: Ints, response: str, share: Fraction, inner: Inner, draw: Noise) -> Ints:
        """Leaves of the table that is nearest to noisy figures of all levels, each weighted by its variance."""
        leaves, parts = inner
        exact = np.asarray(parts @ values[leaves], dtype=np.int64)
        level = levels_of(cells)
        count = int(level.max(initial=0)) + 1
        measured, weight = np.empty(len(cells), dtype=np.int64), np.empty(len(cells))
        lowest = set(np.unique(level[leaves]).tolist())
        for at in range(count):
            here = np.flatnonzero(level == at)
            only_leaves = at in lowest and bool(np.isin(here, leaves).all())
            scale = self.scale(response, share / count, leaves=only_leaves)
            measured[here] = _added(exact[here], [draw(scale) for _ in here])
            weight[here] = 1.0 / float(scale if self.mechanism == "gaussian" else 2 * scale * scale)
        return np.rint(_least_squares(parts, measured, weight / weight.max())).astype(np.int64)


Noise = Callable[[Fraction], int]
Inner: TypeAlias = "tuple[Ints, scipy.sparse.csr_array]"


def _added(values: Ints, noise: list[int]) -> Ints:
    total = [value + more for value, more in zip(values.tolist(), noise, strict=True)]
    if any(abs(figure) > LARGEST_INTEGER // max(len(total), 1) for figure in total):
        raise DataError("private_table: figures are too large for 64 bits; publish them in larger units")
    return np.array(total, dtype=np.int64)


def _parts(cells: Cells) -> Inner:
    """Leaf cells, and which of them add up to each cell, in the order of the cells."""
    order = np.argsort(cells.keys)
    leaf = np.ones(len(cells), dtype=np.bool_)
    matrix: scipy.sparse.csr_array | None = None
    for place, dimension in enumerate(cells.dimensions):
        leaf &= np.isin(cells.codes[:, place], dimension.leaves)
        rows, columns = [], []
        for column, code in enumerate(dimension.leaves.tolist()):
            while code >= 0:
                rows.append(code)
                columns.append(column)
                code = dimension.parent[code]
        shape = (len(dimension.labels), len(dimension.leaves))
        along = scipy.sparse.csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=shape)
        matrix = along if matrix is None else scipy.sparse.csr_array(scipy.sparse.kron(matrix, along))
    if matrix is None:
        raise UsageError("private_table: a table needs at least one dimension")
    back = np.empty(len(cells), dtype=np.int64)
    back[order] = np.arange(len(cells))
    leaves = np.flatnonzero(leaf)
    return leaves[np.argsort(cells.keys[leaves])], scipy.sparse.csr_array(matrix[back])


def levels_of(cells: Cells) -> Ints:
    """The number of the combination of depths of each cell; a leaf above the lowest level belongs to all below it."""
    depths = []
    for place, dimension in enumerate(cells.dimensions):
        depth = dimension.depth.copy()
        depth[dimension.leaves] = depth.max(initial=0)
        depths.append(depth[cells.codes[:, place]])
    combinations = list(product(*(sorted(set(depth.tolist())) for depth in depths)))
    number = {combination: at for at, combination in enumerate(combinations)}
    return np.array([number[key] for key in zip(*(depth.tolist() for depth in depths), strict=True)], dtype=np.int64)


def _least_squares(parts: scipy.sparse.csr_array, measured: Ints, weight: Floats) -> Floats:
    from scipy.sparse.linalg import cg

    weighted = scipy.sparse.csr_array(parts.T @ scipy.sparse.diags_array(weight))
    normal = scipy.sparse.csc_array(weighted @ parts)
    found, failed = cg(
        normal, weighted @ measured, rtol=1e-10, maxiter=10_000, M=scipy.sparse.diags_array(1.0 / normal.diagonal())
    )
    if failed:
        raise DataError("private_table: the levels could not be brought together; use split: leaves")
    return np.asarray(found, dtype=np.float64)


@dataclass(frozen=True, kw_only=True, repr=False)
class DifferentialPrivacy(CellGuarantee):
    """All tables have noise for bounded contributions, and cost at most epsilon and delta together; observed = both.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In (0, 1). Tables with Laplace noise need none of it.

    Examples
    --------
    >>> DifferentialPrivacy(epsilon=1, delta=1e-6)
    DifferentialPrivacy(epsilon=1.0, delta=1e-06)
    """

    of_process = True
    observes = dict
    source = "Bun, Steinke, Concentrated differential privacy, TCC 2016"

    epsilon: Annotated[
        float,
        Gt(0),
        Stricter("smaller"),
        Doc("how much likelier any result may become by one contributor, as an exponent"),
    ]
    delta: Annotated[float, Gt(0), Lt(1), Stricter("smaller"), Doc("chance that more than that is lost")]

    def discloses_source(self, rules: PublicRules) -> bool:
        """The cost of tables follows from the policy alone."""
        return False

    def demanded(self) -> Any:
        return {"epsilon": self.epsilon, "delta": self.delta}

    def judge(self, tables: TableSet) -> Verdict:
        chosen = list(tables.chosen(self.tables).values())
        noisy = [table for table in chosen if table.process is not None]
        compared = (Comparison(len(noisy), len(chosen), "tables have the record of private_table"),)
        if not noisy:
            reason = "needs the process record of a `private_table` stage: no table can prove differential privacy"
            return self.not_judged(reason, compared=compared)
        broken = [why for table in chosen for why in _violations(table)]
        spent = {
            unit: sum((Fraction((table.process or {}).get(unit, 0)) for table in noisy), start=Fraction(0))
            for unit in ("epsilon", "rho")
        }
        rho = float(spent["rho"])
        epsilon = float(spent["epsilon"]) + rho + 2 * math.sqrt(rho * math.log(1 / self.delta))
        if not at_most(epsilon, self.epsilon):
            broken.append(f"the tables cost epsilon {epsilon:g} together, required at most {self.epsilon:g}")
        return Verdict(
            self,
            {"epsilon": epsilon, "delta": self.delta if rho else 0.0},
            outcome="fail" if broken else "pass",
            threshold=self.demanded(),
            failing_classes=len(broken),
            reason=f"{'; '.join(broken) or f'{len(noisy):,} tables have the noise that their record states'}.",
            compared=compared,
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(epsilon=1.0, delta=1e-6)]


def _violations(table: Table) -> list[str]:
    """What a table shows that its noise does not cover."""
    if table.process is None:
        return [f"table {table.name!r} is published without noise"]
    process, spec = table.process, table.aggregated.spec
    found = []
    if spec.domain is None or not process["labels_fixed"]:
        found.append(f"the labels of table {table.name!r} were made from the records")
    if spec.contribution_bound is None or spec.contribution_bound > process["contribution_bound"]:
        found.append(f"contributors count in more leaf cells of table {table.name!r} than its noise covers")
    for key in table.shown_measures:
        measure = table.measures[key]
        if measure.status != "noisy" or bool(measure.hidden.any()):
            found.append(f"table {table.name!r}: {key!r} was changed by its true figures")
        if key in spec.sums:
            unit = 10**measure.figures.decimals
            if [each * unit for each in spec.bounds.get(key, ())] != process["bounds"].get(key):
                found.append(f"table {table.name!r}: contributions to {key!r} have other bounds than its noise covers")
    return found


def of_tables(entry: Any) -> Any:
    """The counterpart for tables of a guarantee: the one on how records were made has one on tables.

    Examples
    --------
    >>> from privpipe import models
    >>> of_tables(models.DifferentialPrivacy(epsilon=1.0, delta=1e-6)) == DifferentialPrivacy(epsilon=1.0, delta=1e-6)
    True
    """
    kind = entry if isinstance(entry, type) else type(entry)
    if kind.__name__ != "DifferentialPrivacy" or not kind.__module__.startswith("privpipe.models"):
        return entry
    if isinstance(entry, type):
        return DifferentialPrivacy
    return DifferentialPrivacy(epsilon=entry.epsilon, delta=entry.delta, severity=entry.severity)
