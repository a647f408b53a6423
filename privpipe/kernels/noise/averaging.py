"""Repeated noise: observations of one column in several releases, and the noise that remains when they are averaged."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.release_history import NoiseRows, ReleaseRows
from privpipe.kernels.grouping.word_groups import group_rows

__all__ = ["NoiseObservations", "left_ratios", "looks_at"]


RENAMED = 0.5
Rows = tuple[Ints, Ints, Ints, Ints, Floats]


@dataclass(frozen=True)
class NoiseObservations:
    """Observations of the numbers of persons, one per row, all arrays of shape (n,).

    `units` are numbered 0 .. u - 1; `stages`, `draws` and `values` are numbers of hashes; `releases` and `keys` count
    those that show the column, `bare` the releases that show it unchanged.
    """

    units: Ints
    stages: Ints
    draws: Ints
    values: Ints
    ratios: Floats
    releases: int
    keys: int
    bare: int


def looks_at(column: str, current: ReleaseRows, earlier: Sequence[ReleaseRows]) -> NoiseObservations:
    """Observations of a column in the newest release and the earlier ones, for persons whose value the newest shows.

    In an earlier release it is the column of the same name, and any in which at least half of the persons in both have
    exactly the same value. Where an earlier release shows it unchanged, its persons are observed without noise.

    Parameters
    ----------
    column : str
    current : ReleaseRows
        With its noise.
    earlier : sequence of ReleaseRows
    """
    assert current.noise is not None
    first = _of(current.noise, column)
    parts, releases, bare = [first], 1, 0
    for release, rows in enumerate(earlier):
        if rows.noise is None:
            continue
        names = {name for name, _ in rows.noise.stages}
        same = [_of(rows.noise, name) for name in sorted(names) if name == column or _renamed(first, rows.noise, name)]
        parts += same
        if column in rows.noise.bare:
            parts.append(_bare(rows, release))
            bare += 1
        releases += bool(same) or column in rows.noise.bare
    units, stages, draws, values, ratios = (np.concatenate(each) for each in zip(*parts, strict=True))
    here = _numbers(np.concatenate([first[0], units]))
    judged = np.zeros(int(here.max()) + 1 if len(here) else 0, dtype=np.bool_)
    judged[here[: len(first[0])]] = True
    own = here[len(first[0]) :]
    kept = judged[own]
    places = np.cumsum(judged) - 1
    keys = _numbers(stages[kept])
    return NoiseObservations(
        units=places[own[kept]].astype(np.int64),
        stages=keys,
        draws=_numbers(draws[kept]),
        values=_numbers(values[kept]),
        ratios=ratios[kept],
        releases=releases,
        keys=len(np.unique(keys)),
        bare=bare,
    )


def _of(noise: NoiseRows, column: str) -> Rows:
    """Rows of one column: units, words of the stage key, draws, values, ratios."""
    wanted = [at for at, (name, _) in enumerate(noise.stages) if name == column]
    here = np.isin(noise.stage, wanted)
    words: Ints = np.array([_words(key) for _, key in noise.stages], dtype=np.int64).reshape(-1, 2)
    return noise.units[here], words[noise.stage[here]], noise.draws[here], noise.values[here], noise.ratios[here]


def _bare(rows: ReleaseRows, release: int) -> Rows:
    """Every person of a release, observed without noise."""
    units = rows.units
    nothing = np.full_like(units, -1 - release)
    return units, nothing, nothing, nothing, np.zeros(len(units))


def _renamed(first: Rows, noise: NoiseRows, column: str) -> bool:
    units, _, _, values, _ = _of(noise, column)
    if not len(units) or not len(first[0]):
        return False
    count = len(first[0])
    people, hidden = _numbers(np.concatenate([first[0], units])), _numbers(np.concatenate([first[3], values]))
    both = np.intersect1d(people[:count], people[count:])
    alike = np.intersect1d(hidden[:count], hidden[count:])  # a value's hash includes the person's
    owners = np.unique(people[count:][np.isin(hidden[count:], alike)])
    return len(both) > 0 and len(owners) >= RENAMED * len(both)


def _words(key: str) -> tuple[int, int]:
    data = hashlib.sha256(key.encode()).digest()
    return int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:16], "big", signed=True)


def _numbers(words: Ints) -> Ints:
    return group_rows(np.ascontiguousarray(words))[0]


def left_ratios(units: Ints, keys: Ints, draws: Ints, values: Ints, ratios: Floats, *, moving: bool) -> Floats:
    """Remaining variance ratio of the noise on each unit's number when releases are averaged.

    Independent draws, weighted by the inverse of their variances, leave 1 / sum 1/ratio. A draw observed twice counts
    once. Draws under one key that hide different values belong to different quantities: for each key only the value
    that is observed best counts. Draws under different keys are combined whatever they hide, since a number may have
    changed only a little.

    Parameters
    ----------
    units : ndarray of int64, shape (n,)
        0 .. u - 1, each at least once.
    keys, draws, values : ndarray of int64, shape (n,)
        Numbers of the stage key, the draw and the hidden value.
    ratios : ndarray of float64, shape (n,)
        At least 0; with a 0 no noise remains.
    moving : bool
        Whether draws under one key are combined even where they hide different values.

    Returns
    -------
    ndarray of float64, shape (u,)

    Examples
    --------
    >>> same, other = np.array([0, 0]), np.array([0, 1])
    >>> half = np.array([0.2, 0.2])
    >>> left_ratios(same, other, other, same, half, moving=False).tolist()  # two plans
    [0.1]
    >>> left_ratios(same, same, same, same, half, moving=False).tolist()  # one plan, one value
    [0.2]
    >>> [left_ratios(same, same, other, other, half, moving=m).tolist() for m in (False, True)]  # one plan, two values
    [[0.2], [0.1]]
    """
    count = int(units.max()) + 1 if len(units) else 0
    seen = _first_of(units, keys, draws)
    units, keys, values, ratios = units[seen], keys[seen], values[seen], ratios[seen]
    with np.errstate(divide="ignore"):
        precisions = 1.0 / ratios
    if not moving:
        groups, firsts = group_rows(np.column_stack([units, keys, values]))
        precisions = _sums(groups, precisions, len(firsts))
        units, keys = units[firsts], keys[firsts]
        groups, firsts = group_rows(np.column_stack([units, keys]))
        best = np.zeros(len(firsts))
        np.maximum.at(best, groups, precisions)
        precisions, units = best, units[firsts]
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / _sums(units, precisions, count), dtype=np.float64)


def _first_of(*columns: Ints) -> Ints:
    return np.sort(group_rows(np.column_stack(columns))[1])


def _sums(groups: Ints, figures: Floats, count: int) -> Floats:
    """Sums that do not depend on the order of the releases: each group's figures are added in order of size."""
    order = np.lexsort((figures, groups))
    return np.asarray(np.bincount(groups[order], weights=figures[order], minlength=count), dtype=np.float64)
