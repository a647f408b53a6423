"""A figure does not depend on blocks: however classes are dealt out, in any order, merged in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privpipe.blocks import ClassBlock, DistinctBlock, Facts, Guarantee, Verdict
from privpipe.judging.ways import way_of
from privpipe.testing.gates import random_gate
from privpipe.testing.random_classes import ClassTable, facts_for, over_classes, random_classes, values_served

__all__ = ["splitting_problems"]


def splitting_problems(entry: Guarantee, seed: int = 1, tables: int = 40) -> list[str]:
    """What splits show of an entry that reads classes or the distinct table; empty when it depends on none.

    Each of the random tables is measured whole, and then dealt out to blocks at random, blocks without a class among
    them, merged two by two in random order. Verdicts are compared to the last bit. A distinct table, which is one
    block, is compared with its rows in another order, under other codes, and with a combination in two rows.

    Parameters
    ----------
    entry : Guarantee
    seed : int
    tables : int

    Returns
    -------
    list of str
        One line a table whose verdicts differ.

    Raises
    ------
    LookupError
        The entry reads neither, or takes none of the tables.

    Examples
    --------
    >>> from privpipe.measures import MarketerRisk
    >>> splitting_problems(MarketerRisk())
    []
    """
    block = way_of(entry).measures
    if block is None:
        raise LookupError(f"{entry.name()} reads {entry.way.name}, not classes")
    return SPLITTING[block](entry, seed, tables)


def _of_classes(entry: Guarantee, seed: int, tables: int) -> list[str]:
    worlds = list(values_served(entry))
    if not worlds:
        raise LookupError(f"{entry.name()} takes none of the random tables")
    rng = np.random.default_rng(seed)
    filled, columns = over_classes(entry)
    problems = []
    for at in range(tables):
        values = worlds[at % len(worlds)][1]
        strangers = entry.needs_population and not columns
        table = random_classes(rng, int(rng.integers(1, 13)), columns, len(values), strangers=strangers)
        facts = facts_for(table, values, filled)
        gate = random_gate(rng, filled, table, facts) if filled.is_gate() else filled
        whole = gate.judge(gate.measure(table.block(), facts), facts)
        for _ in range(3):
            split = _in_blocks(rng, gate, table, facts)
            problems += _differences(gate, whole, split, f"{len(table)} classes")
    return problems


def _in_blocks(rng: np.random.Generator, entry: Guarantee, table: ClassTable, facts: Facts) -> Verdict:
    blocks = int(rng.integers(1, 6))
    owner = rng.integers(blocks, size=len(table))
    order = rng.permutation(len(table))
    parts = [order[owner[order] == block] for block in range(blocks)]
    figures = [entry.measure(table.take(part).block(), facts) for part in parts]
    while len(figures) > 1:
        one = figures.pop(int(rng.integers(len(figures))))
        other = figures.pop(int(rng.integers(len(figures))))
        figures.append(entry.merge(one, other))
    return entry.judge(figures[0], facts)


def _of_distinct_tables(entry: Guarantee, seed: int, tables: int) -> list[str]:
    rng = np.random.default_rng(seed)
    columns = entry.quasi_identifiers or ("age", "town", "zip")
    filled = entry.with_roles(_roles_of(columns))
    problems = []
    for _ in range(tables):
        block = _distinct_block(rng, columns, entry.weight_column())
        whole = _judged(filled, block)
        for other in (_renamed(rng, block), _in_two_rows(rng, block)):
            problems += _differences(filled, whole, _judged(filled, other), f"{len(block)} combinations")
    return problems


def _roles_of(columns: Sequence[str]) -> Any:
    from privpipe.roles import Roles

    return Roles(quasi_identifiers=list(columns))


def _judged(entry: Any, block: DistinctBlock) -> Verdict:
    verdict: Verdict = entry.judge(entry.measure(block, Facts()), Facts())
    return verdict


def _distinct_block(rng: np.random.Generator, columns: Sequence[str], weight: str | None) -> DistinctBlock:
    codes = np.unique(rng.integers(0, 4, size=(int(rng.integers(1, 30)), len(columns))), axis=0).astype(np.int64)
    counts = rng.integers(1, 6, size=len(codes)).astype(np.int64)
    weights = None if weight is None else np.round(1 + 30 * rng.random(len(codes)), 2)
    return DistinctBlock(tuple(columns), codes, counts, np.zeros(codes.shape, dtype=np.bool_), weights)


def _renamed(rng: np.random.Generator, block: DistinctBlock) -> DistinctBlock:
    order = rng.permutation(len(block))
    codes = block.codes[order].copy()
    for column in range(codes.shape[1]):
        codes[:, column] = rng.permutation(9)[codes[:, column]]
    blanks = None if block.blanks is None else block.blanks[order]
    weights = None if block.weights is None else block.weights[order]
    return DistinctBlock(block.columns, codes, block.counts[order], blanks, weights)


def _in_two_rows(rng: np.random.Generator, block: DistinctBlock) -> DistinctBlock:
    """Combinations of several records in two rows, as a choice of columns of a wider table has them."""
    many = np.flatnonzero(block.counts > 1)
    if not len(many):
        return block
    places = np.append(np.arange(len(block)), many)
    counts = np.append(block.counts, np.ones(len(many), np.int64))
    counts[many] -= 1
    blanks = None if block.blanks is None else block.blanks[places]
    weights = None if block.weights is None else block.weights[places]
    return replace(block, codes=block.codes[places], counts=counts, blanks=blanks, weights=weights)


def _differences(entry: Guarantee, whole: Verdict, split: Verdict, what: str) -> list[str]:
    one, other = whole.to_dict(), split.to_dict()
    names = [name for name in one if repr(one[name]) != repr(other[name])]
    return [f"{entry!r} over {what}: {name} {one[name]!r} becomes {other[name]!r}" for name in names]


SPLITTING: Mapping[type[Any], Callable[[Guarantee, int, int], list[str]]] = {
    ClassBlock: _of_classes,
    DistinctBlock: _of_distinct_tables,
}
"""How the blocks that entries measure are dealt out."""
