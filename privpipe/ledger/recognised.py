"""Persons of several releases under one id each, however the releases spell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.release_history import ReleaseRows
from privpipe.judging.class_memory import places_of

__all__ = ["known_share", "recognised"]


def recognised(releases: Sequence[ReleaseRows]) -> tuple[ReleaseRows, ...]:
    """The releases with the id of each person's folded spelling in place of that of the spelling itself.

    A folded spelling that two persons of one release share is nobody's: they keep their own ids, as do persons of
    releases that were remembered without it, unless a newer release spells them so.

    Examples
    --------
    >>> words = lambda *codes: np.array([[code, code] for code in codes])
    >>> row = lambda unit, fold: ReleaseRows(words(unit), words(7), np.ones(1, dtype=np.int64), folds=words(fold))
    >>> [int(rows.units[0, 0]) for rows in recognised([row(1, 9), row(2, 9), row(3, 8)])]
    [9, 9, 8]
    """
    pairs = [np.unique(np.hstack([rows.units, rows.folds]), axis=0) for rows in releases if rows.folds is not None]
    if not pairs:
        return tuple(releases)
    taken = np.concatenate([_repeated(each[:, 2:]) for each in pairs])
    known = np.unique(np.concatenate(pairs), axis=0)
    if len(taken):
        known = known[places_of(taken, known[:, 2:]) < 0]
    return tuple(_renamed(rows, known) for rows in releases)


def known_share(current: ReleaseRows, earlier: Sequence[ReleaseRows]) -> tuple[int, int]:
    """How many persons of a release one of the earlier releases holds, and how many there are."""
    persons = np.unique(current.units, axis=0)
    known = np.zeros(len(persons), dtype=np.bool_)
    for rows in earlier:
        known |= places_of(rows.units, persons) >= 0
    return int(known.sum()), len(persons)


def _repeated(words: NDArray[np.int64]) -> NDArray[np.int64]:
    distinct, counts = np.unique(words, axis=0, return_counts=True)
    found: NDArray[np.int64] = distinct[counts > 1]
    return found


def _renamed(rows: ReleaseRows, known: NDArray[np.int64]) -> ReleaseRows:
    noise = rows.noise
    if noise is not None:
        noise = replace(noise, units=_names(noise.units, known))
    return replace(rows, units=_names(rows.units, known), noise=noise)


def _names(units: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
    places = places_of(known[:, :2], units)
    return np.where((places >= 0)[:, None], known[np.maximum(places, 0), 2:] if len(known) else units, units)
