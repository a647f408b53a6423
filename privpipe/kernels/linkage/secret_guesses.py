"""Which guesses of a secret are right, and how often the nearest rows of a release guess it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.linkage.nearest_rows import NearRows, SearchedRows
from privpipe.tolerance import slack

__all__ = ["Secrets", "nearest_guesses", "right_numbers"]

Places = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Secrets:
    """Secrets of records beside the released values that may be guessed.

    Parameters
    ----------
    own : ndarray of int64, shape (n,)
        Number of the distinct secret of each record.
    shown : ndarray of int64, shape (n',)
        Number of the distinct released value of each row.
    low, high : ndarray of int64, shape (secrets,)
        The released values from low to before high are right for a secret.
    covers : ndarray of bool, shape (secrets, released values), optional
        Which are right where no range says it: those of labels.
    values : int
        Distinct released values.
    """

    own: Places = field(repr=False)
    shown: Places = field(repr=False)
    values: int
    low: Places = field(repr=False)
    high: Places = field(repr=False)
    covers: NDArray[np.bool_] | None = field(default=None, repr=False)

    def right(self, own: Places, guesses: Places) -> NDArray[np.bool_]:
        """Whether guesses of released values are right for secrets, pair by pair."""
        if self.covers is not None:
            return np.asarray(self.covers[own, guesses])
        return np.asarray((self.low[own] <= guesses) & (guesses < self.high[own]))

    def shares(self, own: Places) -> Numbers:
        """Of each released value the share of the records with these secrets for which it is right."""
        counts = np.bincount(own, minlength=len(self.low)).astype(np.float64)
        if self.covers is not None:
            return np.asarray(counts @ self.covers) / max(len(own), 1)
        steps = np.zeros(self.values + 1)
        held = self.low < self.high
        np.add.at(steps, self.low[held], counts[held])
        np.add.at(steps, self.high[held], -counts[held])
        return np.cumsum(steps)[:-1] / max(len(own), 1)

    def random_share(self, own: Places) -> float:
        """How often the value of a row drawn at random is right for these secrets."""
        counts = np.bincount(self.shown, minlength=self.values)
        return float(self.shares(own) @ counts) / len(self.shown)


def right_numbers(own: Numbers, shown: Numbers, relative: float | None, absolute: float | None) -> Secrets:
    """Secrets that are numbers: right is what lies within a share of the secret, or within a distance of it.

    A missing secret is guessed by a missing value alone.

    Examples
    --------
    >>> found = right_numbers(np.array([1000.0, 0.0, np.nan]), np.array([-5.0, 960.0, 0.0, np.nan]), 0.05, None)
    >>> [found.right(np.full(4, found.own[at]), found.shown).tolist() for at in range(3)]
    [[False, True, False, False], [False, False, True, False], [False, False, False, True]]
    """
    secrets, places = np.unique(own, return_inverse=True)
    values, guesses = np.unique(shown, return_inverse=True)
    numbers = values[~np.isnan(values)]
    reach = np.abs(secrets) * relative if relative is not None else np.full(len(secrets), float(absolute or 0.0))
    reach = np.where(np.isnan(secrets), 0.0, reach)
    reach = reach + slack(reach)
    low = np.searchsorted(numbers, secrets - reach, side="left")
    high = np.searchsorted(numbers, secrets + reach, side="right")
    missing = np.isnan(secrets)
    low, high = np.where(missing, len(numbers), low), np.where(missing, len(values), high)
    return Secrets(
        places.reshape(-1).astype(np.int64),
        guesses.reshape(-1).astype(np.int64),
        len(values),
        low.astype(np.int64),
        high.astype(np.int64),
    )


def nearest_guesses(rows: SearchedRows, near: NearRows, secrets: Secrets, own: Places) -> Numbers:
    """For each record the share of its nearest rows whose value is right.

    Parameters
    ----------
    rows : SearchedRows
        The release by what is known.
    near : NearRows
        Of the records, one nearest row each and all that tie.
    secrets : Secrets
    own : ndarray of int64, shape (m,)
        The secret of each record.

    Returns
    -------
    ndarray of float64, shape (m,)
    """
    cells, counts = np.unique(np.column_stack([rows.place, secrets.shown]), axis=0, return_counts=True)
    starts = np.searchsorted(cells[:, 0], np.arange(len(rows.counts) + 1))
    table = np.zeros((1, 1), np.bool_) if secrets.covers is None else secrets.covers
    return np.asarray(
        _right_shares(
            (read_only(near.offsets, np.int64), read_only(near.members, np.int64)),
            (
                read_only(starts, np.int64),
                read_only(cells[:, 1], np.int64),
                read_only(np.concatenate([[0], np.cumsum(counts)]), np.int64),
            ),
            (read_only(secrets.low[own], np.int64), read_only(secrets.high[own], np.int64)),
            read_only(own, np.int64),
            read_only(table, np.bool_),
            secrets.covers is not None,
        )
    )


@njit(nogil=True, cache=True)
def _right_shares(
    near: tuple[Places, Places],
    cells: tuple[Places, Places, Places],
    ends: tuple[Places, Places],
    own: Places,
    table: NDArray[np.bool_],
    covers: bool,
) -> Numbers:
    starts, values, before = cells
    out = np.empty(len(own))
    for r in range(len(own)):
        right, rows = 0, 0
        for at in range(near[0][r], near[0][r + 1]):
            start, end = starts[near[1][at]], starts[near[1][at] + 1]
            rows += before[end] - before[start]
            if covers:
                for cell in range(start, end):
                    if table[own[r], values[cell]]:
                        right += before[cell + 1] - before[cell]
            else:
                low = start + np.searchsorted(values[start:end], ends[0][r])
                high = start + np.searchsorted(values[start:end], ends[1][r])
                if high > low:
                    right += before[high] - before[low]
        out[r] = right / rows
    return out
