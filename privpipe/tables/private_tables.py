"""Tables under differential privacy: bounded contributions, exact discrete noise, and the budget that pays for it.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import linalg

from privpipe.draws import Stream
from privpipe.errors import DataError, Refused, UsageError
from privpipe.kernels.synthesis.noisy_marginals import discrete_gaussian, discrete_laplace
from privpipe.tables.cells import Cells

__all__ = ["Account", "PrivateTable", "Spend", "kept_contributions"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
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
class Account:
    """The budget of one source and contributor: amounts of a unit add up, and none is spent beyond the limit.

    Parameters
    ----------
    unit : str
        ``epsilon`` or ``rho``.
    limit : Fraction
    write : callable
        Makes a spend last, as a ledger does, or raises. It is called before any noise is drawn, so that a run that
        breaks down has spent what it may have shown.
    spent : Fraction
        By earlier tables.

    Examples
    --------
    >>> kept = []
    >>> account = Account("epsilon", Fraction(1), kept.append)
    >>> account.spend(Spend("epsilon", Fraction(3, 4)))
    >>> account.left, len(kept)
    (Fraction(1, 4), 1)
    """

    unit: str
    limit: Fraction
    write: Callable[[Spend], object] = field(repr=False)
    spent: Fraction = Fraction(0)

    @property
    def left(self) -> Fraction:
        return self.limit - self.spent

    def spend(self, spend: Spend) -> None:
        """Write a spend down, or refuse it.

        Raises
        ------
        UsageError
            If it is of another unit, or not more than 0.
        Refused
            If less than it is left.
        """
        if spend.unit != self.unit or not spend.amount > 0:
            raise UsageError(f"private_table: the budget is kept in {self.unit}; spend more than 0 of it")
        if spend.amount > self.left:
            raise Refused(
                f"private_table: the table costs {self.unit} {float(spend.amount):g}, and {float(self.left):g} of "
                f"{float(self.limit):g} is left. Nothing was published"
            )
        self.write(spend)
        self.spent += spend.amount


@dataclass(frozen=True, kw_only=True)
class PrivateTable:
    """Noise for counts and sums of a table, so that each contributor changes what is published little.

    Parameters
    ----------
    epsilon, rho : Fraction or None
        The one that the mechanism takes, for all responses of the table together.
    delta : Fraction or None
        Of the statement about ``gaussian``; it changes no noise.
    contribution_bound : int
        Leaf cells in which a contributor counts.
    bounds : tuple of int, or None
        What a contributor's sum in a cell is clipped to, in units; needed for sums.
    neighbours : str
        ``add_remove``: tables that differ by one contributor. ``replace``: by the values of one.
    mechanism : str
        ``laplace`` or ``gaussian``.
    split : str
        ``leaves``: noise in leaf cells, totals are their sums. ``levels``: noise at every combination of levels, a
        share of the budget each, brought together by weighted least squares.
    at_least_zero : bool
        Whether negative noisy counts become 0, which costs no privacy and biases.
    """

    epsilon: Fraction | None = None
    rho: Fraction | None = None
    delta: Fraction | None = None
    contribution_bound: int
    bounds: tuple[int, int] | None = None
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
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:
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
        if response == "count":
            return 1
        if self.bounds is None:
            raise UsageError(f"private_table: response {response!r} is a sum and needs bounds")
        return max(abs(self.bounds[0]), abs(self.bounds[1]))

    def sensitivity(self, response: str) -> int:
        """The most that all cells of one level change together, as a sum of absolute values."""
        return (2 if self.neighbours == "replace" else 1) * self.contribution_bound * self.largest_part(response)

    def squared_sensitivity(self, response: str, *, leaves: bool) -> int:
        """The largest sum of squares of what the cells of one level change.

        In leaf cells one contributor counts once each; above them all of it may be in one cell.
        """
        c, part = self.contribution_bound, self.largest_part(response)
        if not leaves:
            # A replaced contributor takes all from one cell and adds it to another, or changes its sign in one.
            widest = c * (self.bounds[1] - self.bounds[0]) if response != "count" and self.bounds else 0
            return max(2 * (c * part) ** 2, widest**2) if self.neighbours == "replace" else (c * part) ** 2
        if self.neighbours == "add_remove":
            return c * part**2
        width = self.bounds[1] - self.bounds[0] if response != "count" and self.bounds else 0
        return max(2 * c * part**2, c * width**2)

    def scale(self, response: str, share: Fraction, *, leaves: bool = True) -> Fraction:
        """The scale of Laplace noise, or the variance of Gaussian noise, for a share of the budget."""
        budget = self.spend.amount * share
        if self.mechanism == "laplace":
            return self.sensitivity(response) / budget
        return self.squared_sensitivity(response, leaves=leaves) / (2 * budget)

    def statement(self, responses: int = 1) -> dict[str, Any]:
        """What may be published about the noise: never counts of contributors or of clipped values."""
        spend = self.spend
        said: dict[str, Any] = {
            "mechanism": f"discrete {self.mechanism}",
            spend.unit: float(spend.amount),
            "contribution_bound": self.contribution_bound,
            "neighbours": self.neighbours,
            "split": self.split,
            "responses": responses,
        }
        if self.bounds is not None:
            said["bounds"] = list(self.bounds)
        if self.delta is not None:
            said["delta"] = float(self.delta)
            said["epsilon"] = float(spend.amount) + 2 * math.sqrt(float(spend.amount) * math.log(1 / self.delta))
        return said

    def noisy(
        self, cells: Cells, responses: Mapping[str, Ints], account: Account, *, noise: Noise | None = None
    ) -> dict[str, Ints]:
        """Every response of every cell with noise; the responses share the budget evenly.

        Parameters
        ----------
        cells : Cells
            All combinations of labels, which were fixed before the data was looked at: absent cells get noise too.
        responses : mapping of str to ndarray of int64, shape (cells,)
            ``count`` and sums in units, of contributions bounded as `kept_contributions` does; only leaf cells are
            read, totals follow from them.
        account : Account
            Pays before the first draw; a second call is a second spend.

        Raises
        ------
        DataError
            If a combination of labels is missing, or figures are too large.
        Refused
            If the budget does not suffice.
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
        account.spend(self.spend)
        draw = noise or self._draw
        share = Fraction(1, len(responses))
        leaves, parts = _parts(cells)
        found = {}
        for response, values in responses.items():
            level = self._levels if self.split == "levels" else self._leaves
            noisy = level(cells, values, response, share, (leaves, parts), draw)
            if self.at_least_zero:
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
        level = _levels(cells)
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
Inner = tuple[Ints, sparse.csr_array]


def kept_contributions(
    contributors: Ints, cells: Ints, values: Ints, table: PrivateTable, stream: Stream
) -> tuple[NDArray[np.bool_], Ints]:
    """Which rows count, and their clipped values: of each contributor at most `contribution_bound` leaf cells.

    Parameters
    ----------
    contributors : ndarray of int64, shape (rows, 2)
        Keyed ids; all rows of a contributor must be here.
    cells : ndarray of int64, shape (rows,)
        Leaf cell of each row, at most one row for each contributor and cell.
    values : ndarray of int64, shape (rows,)
        The contributor's sum in the cell, in units.
    stream : Stream
        Chooses the cells that count.

    Examples
    --------
    >>> table = PrivateTable(epsilon=Fraction(1), contribution_bound=1, bounds=(0, 10))
    >>> rows = np.array([[7, 7], [7, 7], [8, 8]])
    >>> kept, values = kept_contributions(rows, np.array([0, 1, 1]), np.array([5, 50, 50]), table, Stream(bytes(16)))
    >>> int(kept[:2].sum()), bool(kept[2]), values.max().item()
    (1, True, 10)
    """
    _, person = np.unique(contributors, axis=0, return_inverse=True)
    person = person.reshape(-1)
    # A draw for each contributor and cell: the second word of the id is mixed with the cell's number.
    drawn = stream.words(
        np.column_stack(
            [
                contributors[:, 0],
                contributors[:, 1] ^ stream.words(np.column_stack([cells, np.zeros_like(cells)]), 1).view(np.int64),
            ]
        )
    )
    order = np.lexsort((cells, drawn, person))
    first = np.flatnonzero(np.diff(person[order], prepend=-1))
    place = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    kept = np.zeros(len(order), dtype=np.bool_)
    kept[order] = place < table.contribution_bound
    clipped = values if table.bounds is None else np.clip(values, *table.bounds)
    return kept, np.asarray(clipped, dtype=np.int64)


def _added(values: Ints, noise: list[int]) -> Ints:
    total = [value + more for value, more in zip(values.tolist(), noise, strict=True)]
    if any(abs(figure) > LARGEST_INTEGER // max(len(total), 1) for figure in total):
        raise DataError("private_table: figures are too large for 64 bits; publish them in larger units")
    return np.array(total, dtype=np.int64)


def _parts(cells: Cells) -> Inner:
    """Leaf cells, and which of them add up to each cell, in the order of the cells."""
    order = np.argsort(cells.keys)
    leaf = np.ones(len(cells), dtype=np.bool_)
    matrix: sparse.csr_array | None = None
    for place, dimension in enumerate(cells.dimensions):
        leaf &= np.isin(cells.codes[:, place], dimension.leaves)
        rows, columns = [], []
        for column, code in enumerate(dimension.leaves.tolist()):
            while code >= 0:
                rows.append(code)
                columns.append(column)
                code = dimension.parent[code]
        shape = (len(dimension.labels), len(dimension.leaves))
        along = sparse.csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=shape)
        matrix = along if matrix is None else sparse.csr_array(sparse.kron(matrix, along))
    if matrix is None:
        raise UsageError("private_table: a table needs at least one dimension")
    back = np.empty(len(cells), dtype=np.int64)
    back[order] = np.arange(len(cells))
    leaves = np.flatnonzero(leaf)
    return leaves[np.argsort(cells.keys[leaves])], sparse.csr_array(matrix[back])


def _levels(cells: Cells) -> Ints:
    """The number of the combination of depths of each cell; a leaf above the lowest level belongs to all below it."""
    depths = []
    for place, dimension in enumerate(cells.dimensions):
        depth = dimension.depth.copy()
        depth[dimension.leaves] = depth.max(initial=0)
        depths.append(depth[cells.codes[:, place]])
    combinations = list(product(*(sorted(set(depth.tolist())) for depth in depths)))
    number = {combination: at for at, combination in enumerate(combinations)}
    return np.array([number[key] for key in zip(*(depth.tolist() for depth in depths), strict=True)], dtype=np.int64)


def _least_squares(parts: sparse.csr_array, measured: Ints, weight: Floats) -> Floats:
    weighted = sparse.csr_array(parts.T @ sparse.diags_array(weight))
    normal = sparse.csc_array(weighted @ parts)
    found, failed = linalg.cg(
        normal, weighted @ measured, rtol=1e-10, maxiter=10_000, M=sparse.diags_array(1.0 / normal.diagonal())
    )
    if failed:
        raise DataError("private_table: the levels could not be brought together; use split: leaves")
    return np.asarray(found, dtype=np.float64)
