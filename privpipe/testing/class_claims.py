"""What a model claims of all tables, tried on random classes.

Classes are merged, suppressed, judged at thresholds, and split into blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privpipe.blocks import ClassBlock, ClassModel, DistinctBlock, Facts, Guarantee, SizeModel, Verdict
from privpipe.judging.ways import way_of
from privpipe.testing.class_blocks import (
    ClassTable,
    at_threshold,
    facts_for,
    over_classes,
    random_classes,
    random_gate,
    values_served,
)

__all__ = ["EXAMPLES", "Claim", "merging_claims", "splitting_problems", "suppression_claim", "threshold_claim"]


EXAMPLES = 1000
"""Cases that a claim must pass, those that say nothing (a failing part, a table without a figure) left out."""
BATCH = 40
ROUNDS = 400


@dataclass(frozen=True)
class Claim:
    """A claim of a model, and how it fared.

    Parameters
    ----------
    name : str
        What is claimed.
    examples : int
        Cases that could have contradicted it.
    against : tuple of str
        Cases that do, none where it holds.
    least : int
        Cases asked for.
    """

    name: str
    examples: int
    against: tuple[str, ...] = ()
    least: int = EXAMPLES

    @property
    def holds(self) -> bool:
        """Whether enough cases were tried, and none contradicts."""
        return self.examples >= self.least and not self.against

    def __str__(self) -> str:
        said = f"{self.name}: {self.examples:,} examples, {len(self.against):,} against it"
        return "; ".join((said, *self.against[:3]))


def merging_claims(
    model: ClassModel, seed: int = 1, *, least: int = EXAMPLES, flags: tuple[str, ...] | None = None
) -> list[Claim]:
    """Try `hereditary` and `convex` on random pairs of classes, by gates of many thresholds.

    Hereditary: a class that fails has only failing parts. Convex: parts that pass merge to a whole that passes. Both
    let a search prune, so a false one publishes what fails or loses the optimum. `least_size` is tried too.

    Parameters
    ----------
    model : ClassModel
        A gate.
    seed : int
    least : int
        Examples to try of each.
    flags : tuple of {"hereditary", "convex"}, optional
        Claims to try; default: those the model makes.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> [str(claim) for claim in merging_claims(KAnonymity(k=3))][0].split(",")[0]
    'hereditary: 1'
    >>> all(claim.holds for claim in merging_claims(KAnonymity(k=3)))
    True
    """
    tried = [flag for flag in ("hereditary", "convex") if (getattr(model, flag) if flags is None else flag in flags)]
    found: dict[str, list[Any]] = {flag: [0, []] for flag in tried}
    found["least_size"] = [0, []]
    rng = np.random.default_rng(seed)
    worlds = list(values_served(model))
    for at in range(ROUNDS if worlds else 0):
        if at >= 30 and all(examples >= least for examples, _ in found.values()):
            break
        first, second, facts, gate = _pairs(rng, model, worlds[at % len(worlds)][1])
        one, other = (_passing(gate, part, facts) for part in (first, second))
        whole = _passing(gate, first + second, facts)
        parts = {"hereditary": one | other, "convex": one & other}
        for flag in tried:
            wrong = np.flatnonzero(parts[flag] & ~whole)
            found[flag][0] += int(parts[flag].sum())
            found[flag][1] += [f"{gate!r}: {_shown(first, second, place)}" for place in wrong[:2]]
        small = first.sizes < gate.least_size()
        if not model.needs_population:
            found["least_size"][0] += len(first)
            found["least_size"][1] += [f"{gate!r} passes a class below its least_size"] * bool((small & one).any())
        else:
            found["least_size"][0] = least  # sizes are the table's, and the rule the population's
    return [Claim(name, examples, tuple(against), least) for name, (examples, against) in found.items()]


def _pairs(rng: np.random.Generator, model: Guarantee, values: Any) -> tuple[ClassTable, ClassTable, Facts, Any]:
    filled, columns = over_classes(model)
    strangers = model.needs_population and not columns
    first, second = (random_classes(rng, BATCH, columns, len(values), strangers=strangers) for _ in range(2))
    whole = first + second
    facts = facts_for(whole, values, filled)
    source = (first, second, whole)[int(rng.integers(3))]
    return first, second, facts, random_gate(rng, filled, source, facts)


def _passing(gate: Any, table: ClassTable, facts: Facts) -> Any:
    return np.asarray(gate.passing(table.block(), facts), dtype=np.bool_)


def _shown(first: ClassTable, second: ClassTable, place: int) -> str:
    """Counts of invented classes: no data."""
    if not first.counts:
        sizes = [f"{int(part.sizes[place])} of {int(part.population[place])}" for part in (first, second)]
        return " with ".join(sizes)
    return "; ".join(
        f"{name} {first.counts[name][place].tolist()} with {second.counts[name][place].tolist()}"
        for name in first.counts
    )


def suppression_claim(model: SizeModel, seed: int = 1, *, least: int = EXAMPLES) -> Claim:
    """Try `prefix_monotone`: without its smallest classes, a table that met the rule still meets it.

    Examples
    --------
    >>> from privpipe.models import AverageRisk
    >>> suppression_claim(AverageRisk(at_most=0.3)).holds
    True
    """
    rng = np.random.default_rng(seed)
    examples, against = 0, []
    for _ in range(ROUNDS * 20):
        if examples >= least:
            break
        table = random_classes(rng, int(rng.integers(2, 12)))
        facts = Facts(records=int(table.sizes.sum()))
        filled, _ = over_classes(model)
        gate: Any = random_gate(rng, filled, table, facts)
        if rng.random() < 0.5:
            gate = _gate_of_table(gate, table, facts)
        sizes = np.sort(table.sizes)
        left = [np.unique(sizes[start:], return_counts=True) for start in range(len(sizes))]
        # Of what has no figure, such as one record that no pair is left of, nothing is claimed.
        met = [gate.met_by(*some, facts) for some in left if not np.isnan(gate.figure_of(*some))]
        examples += any(met[:-1])
        if met != sorted(met):
            against.append(f"{gate!r} with sizes {sizes.tolist()}: {met}")
    return Claim("prefix_monotone", examples, tuple(against), least)


def _gate_of_table(gate: Guarantee, table: ClassTable, facts: Facts) -> Guarantee:
    """The gate with the table's own figure as threshold."""
    observed = gate.judge(gate.measure(table.block(), facts), facts).observed
    return next((at for _, at, _ in at_threshold(gate, observed, facts)), gate)


def threshold_claim(model: Guarantee, seed: int = 1, *, least: int = EXAMPLES) -> Claim:
    """Try the tolerance: a table on the threshold passes however its figure was rounded, one beyond it fails.

    The threshold is moved to the figure of random tables, to both sides of it by what rounding explains, and by more
    than that. Where a model compares with a bare ``>=``, some table that meets it exactly fails; where it allows too
    much, some table beyond passes.

    Parameters
    ----------
    model : Guarantee
        A gate that reads classes.

    Examples
    --------
    >>> from privpipe.models import TCloseness
    >>> threshold_claim(TCloseness(column="illness", t=0.2)).holds
    True
    """
    rng = np.random.default_rng(seed)
    filled, columns = over_classes(model)
    worlds = list(values_served(model))
    examples, against = 0, []
    for at in range(ROUNDS * 5 if worlds else 0):
        if examples >= least:
            break
        values = worlds[at % len(worlds)][1]
        table = random_classes(rng, int(rng.integers(1, 9)), columns, len(values))
        facts = facts_for(table, values, filled)
        observed = filled.judge(filled.measure(table.block(), facts), facts).observed
        for what, gate, passes in at_threshold(filled, observed, facts) if observed is not None else ():
            examples += 1
            verdict = gate.judge(gate.measure(table.block(), facts), facts)
            if verdict.passed != passes:
                against.append(f"{gate!r} {what}: observed {verdict.observed!r}, outcome {verdict.outcome}")
    return Claim("threshold", examples, tuple(against), least)


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
        One line for each table whose verdicts differ.

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
