"""Suppression, losses and the optimum in plain Python, straight from the definitions, and random small tables."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from privpipe.blocks import ClassModel, Facts, Guarantee
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.models import (
    AverageRisk,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    RecursiveCLDiversity,
    SampleUniqueness,
    TCloseness,
)
from privpipe.roles import Roles
from privpipe.testing import Classes, oracle_of
from privpipe.testing.plain_engine import histogram_of
from privpipe.tolerance import floor_share
from privpipe.transforms import Generalize
from privpipe.transforms.base import StageContext
from privpipe.transforms.recoding.labelling import Aggregate, LossSpec

COLUMNS = ("a", "b", "c")
Text = str | None


@dataclass(frozen=True)
class Problem:
    """A table with hierarchies as rows of text, guarantees and a quality model."""

    rows: dict[str, list[Text]]
    hierarchies: dict[str, list[list[str]]]
    guarantees: tuple[Guarantee, ...]
    loss: LossSpec = field(default_factory=LossSpec)
    limit: float = 0.0
    limits: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """Generalized columns."""
        return list(self.hierarchies)

    @property
    def keys(self) -> tuple[str, ...]:
        """Quasi-identifiers, those without a hierarchy last."""
        return tuple(name for name in self.rows if name != "ill")

    def __len__(self) -> int:
        return len(self.rows["ill"])

    @property
    def table(self) -> pa.Table:
        return pa.table({name: pa.array(cells, pa.string()) for name, cells in self.rows.items()})

    @property
    def context(self) -> StageContext:
        specs = {}
        for name, rows in self.hierarchies.items():
            least, most = self.limits.get(name, (0, len(rows[0]) - 1))
            hierarchy = Hierarchy.from_rows(rows, column=name, min_level=least, max_level=most)
            specs[name] = HierarchySpec.from_hierarchy(hierarchy, column=name)
        return StageContext(
            roles=Roles(quasi_identifiers=self.keys, sensitive=["ill"]),
            schema=self.table.schema,
            hierarchies=specs,
            guarantees=self.guarantees,
            base=Facts(records=len(self), histograms={"ill": histogram_of(self.rows["ill"])}),
            place="transform[0].generalize",
        )

    @property
    def stage(self) -> Generalize:
        return Generalize(loss=self.loss, suppress_at_most=self.limit)

    def nodes(self) -> list[tuple[int, ...]]:
        """Every vector of levels, in lexicographic order."""
        ranges = []
        for name, rows in self.hierarchies.items():
            least, most = self.limits.get(name, (0, len(rows[0]) - 1))
            ranges.append(range(least, most + 1))
        return list(itertools.product(*ranges))

    def labels(self, node: Sequence[int]) -> dict[str, list[Text]]:
        """Released texts of every column."""
        found = dict(self.rows)
        for name, level in zip(self.columns, node, strict=True):
            label = {row[0]: row[level] for row in self.hierarchies[name]}
            found[name] = [label[cell] for cell in self.rows[name]]  # type: ignore[index]
        return found

    def share(self, name: str, value: Text, level: int) -> Fraction:
        rows = self.hierarchies[name]
        label = next(row[level] for row in rows if row[0] == value)
        return Fraction(sum(row[level] == label for row in rows), len(rows))

    def suppressed(self, node: Sequence[int]) -> set[int] | None:
        """Rows that must go at a node; None when nothing that is left would do."""
        labels = self.labels(node)

        def own(keys: Sequence[str], row: int) -> list[float]:
            columns = [name for name in self.columns if name in keys]
            each = []
            for name in columns:
                level = node[self.columns.index(name)]
                each.append(self.unit(name, self.share(name, self.rows[name][row], level)))
            return [round(figure, 12) for figure in self.aggregated(columns, each)]

        return suppressed(labels, self.guarantees, self.keys, {"ill": self.rows["ill"]}, own)

    def unit(self, name: str, share: Fraction) -> Fraction:
        """u of a kept record."""
        least = self.g / len(self.hierarchies[name])
        return Fraction(0) if least == 1 else max(Fraction(0), (self.g * share - least) / (1 - least))

    @property
    def g(self) -> Fraction:
        return min(Fraction(1), 2 - 2 * Fraction(str(self.loss.gs_factor)))

    @property
    def s(self) -> Fraction:
        return min(Fraction(1), 2 * Fraction(str(self.loss.gs_factor)))

    def exact_loss(self, node: Sequence[int], gone: set[int]) -> list[float]:
        """One figure, under rank one a column."""
        n, each = len(self), []
        for name, level in zip(self.columns, node, strict=True):
            total, d = Fraction(0), len(self.hierarchies[name])
            for row, value in enumerate(self.rows[name]):
                share = self.share(name, value, level)
                total += share + self.s * (1 - share) if row in gone else self.g * share
            span = n - self.g * n / d
            each.append(Fraction(0) if span == 0 else max(Fraction(0), (total - self.g * n / d) / span))
        return self.aggregated(self.columns, each)

    def aggregated(self, columns: Sequence[str], each: Sequence[Fraction]) -> list[float]:
        weights = [Fraction(str(self.loss.weights.get(name, 1.0))) for name in columns]
        top = max(weights, default=Fraction(1))
        weights = [Fraction(1) if top == 0 else weight / top for weight in weights]
        scaled = [u * weight for u, weight in zip(each, weights, strict=True)]
        m = max(len(scaled), 1)
        match self.loss.aggregate:
            case "geometric_mean":
                return [float(math.prod(1 + u for u in scaled)) ** (1 / m) - 1]
            case "arithmetic_mean":
                return [float(sum(scaled) / m)]
            case "sum":
                return [float(sum(scaled))]
            case "max":
                return [float(max(scaled, default=0))]
        return sorted(map(float, scaled), reverse=True)

    def optimum(self) -> tuple[tuple[int, ...], list[float], set[int]] | None:
        """The first of the nodes of least loss, by trying all."""
        found = []
        for node in self.nodes():
            gone = self.suppressed(node)
            if gone is not None and len(gone) <= floor_share(self.limit, len(self)) and len(gone) < len(self):
                found.append((self.exact_loss(node, gone), node, gone))
        if not found:
            return None
        least = min(loss for loss, _, _ in found)
        for entry in range(len(least)):  # a first entry that is less by rounding alone must not decide
            least = min(loss for loss, _, _ in found if close(loss[:entry], least[:entry]))
        tied = [(node, loss, gone) for loss, node, gone in found if close(loss, least)]
        return min(tied, key=lambda entry: entry[0])


def close(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(abs(a - b) < 1e-9 for a, b in zip(one, other, strict=True))


def suppressed(
    labels: Mapping[str, Sequence[Text]],
    guarantees: Sequence[Guarantee],
    quasi_identifiers: Sequence[str],
    values: Mapping[str, Sequence[Any]],
    own: Callable[[Sequence[str], int], list[float]],
) -> set[int] | None:
    """The rule of suppression: failing classes in rounds, then shortest prefixes, until nothing more goes."""
    gone: set[int] = set()
    n = len(next(iter(values.values())))
    base = {name: histogram(cells) for name, cells in values.items()}

    def classes(keys: Sequence[str]) -> list[list[int]]:
        groups: dict[tuple[Text, ...], list[int]] = {}
        for row in range(n):
            if row not in gone:
                groups.setdefault(tuple(labels[key][row] for key in keys), []).append(row)
        return list(groups.values())

    def met(guarantee: Guarantee, members: list[list[int]]) -> bool:
        judged = oracle_of(type(guarantee))(guarantee, Classes(members, 0, values, base))  # type: ignore[arg-type]
        return judged.outcome == "pass"

    def keys_of(guarantee: Guarantee) -> Sequence[str]:
        return quasi_identifiers if guarantee.quasi_identifiers is None else guarantee.quasi_identifiers

    while True:
        failing = {
            row
            for guarantee in guarantees
            if isinstance(guarantee, ClassModel)
            for members in classes(keys_of(guarantee))
            if not met(guarantee, [members])
            for row in members
        }
        gone |= failing
        if len(gone) == n:
            return gone
        if failing:
            continue
        before = len(gone)
        for guarantee in guarantees:
            if isinstance(guarantee, ClassModel):
                continue
            keys = keys_of(guarantee)
            order = sorted(
                classes(keys),
                key=lambda rows: (
                    len(rows),
                    own(keys, rows[0]),
                    [(labels[key][rows[0]] is None, labels[key][rows[0]] or "") for key in keys],
                ),
            )
            prefix = next((at for at in range(len(order)) if met(guarantee, order[at:])), None)
            if prefix is None and order:
                return None
            gone |= {row for rows in order[: prefix or 0] for row in rows}
        if len(gone) == before:
            return gone


def histogram(cells: Sequence[Any]) -> Any:
    from collections import Counter

    return Counter(cells)


def random_hierarchy(draw: random.Random) -> list[list[str]]:
    """2 to 6 values, 1 to 3 levels above them (or none), the last a root where there is one."""
    values = draw.randint(2, 6)
    rows = [[f"v{at}"] for at in range(values)]
    if draw.random() < 0.05:
        return rows[:1]  # one value, no level
    groups = list(range(values))
    for level in range(draw.choice([0, 1, 1, 2])):
        merged = [draw.randint(0, max(groups)) for _ in range(max(groups) + 1)]
        groups = [merged[group] for group in groups]
        for row, group in zip(rows, groups, strict=True):
            row.append(f"l{level + 1}g{group}")
    return [[*row, "*"] for row in rows]


def random_guarantee(draw: random.Random, keys: Sequence[str], sizes: bool) -> Guarantee:
    own: dict[str, Any] = {}
    if draw.random() < 0.4:
        own["quasi_identifiers"] = tuple(draw.sample(list(keys), draw.randint(1, len(keys))))
    if sizes and draw.random() < 0.5:
        return draw.choice(
            [
                AverageRisk(at_most=draw.choice([0.2, 0.3, 0.5]), **own),
                SampleUniqueness(at_most=draw.choice([0.0, 0.1]), **own),
            ]
        )
    ill: dict[str, Any] = {"column": "ill", **own}
    return draw.choice(
        [
            KAnonymity(k=draw.randint(1, 5), **own),
            KAnonymity(k=draw.randint(2, 5), **own),
            DistinctLDiversity(l=draw.randint(1, 3), **ill),
            EntropyLDiversity(l=draw.choice([1.5, 2.0]), estimator=draw.choice(["shannon", "grassberger"]), **ill),
            RecursiveCLDiversity(c=draw.choice([1.0, 2.0, 4.0]), l=draw.randint(1, 3), **ill),
            TCloseness(t=draw.choice([0.2, 0.3, 0.5]), **ill),
            TCloseness(t=draw.choice([0.2, 0.3]), distance="ordered", order="text", **ill),
        ]
    )


def random_problem(seed: int, sizes: bool) -> Problem:
    """A small table with hierarchies, guarantees over several sets of keys, and any quality model."""
    draw = random.Random(seed)
    columns = COLUMNS[: draw.randint(1, 2 if sizes else 3)]
    trees = {name: random_hierarchy(draw) for name in columns}
    n = draw.choice([1, 5, 12, 20, 30, 40])
    rows: dict[str, list[Text]] = {
        name: [tree[int(len(tree) * draw.random() ** 1.5)][0] for _ in range(n)] for name, tree in trees.items()
    }
    if draw.random() < 0.3:
        rows["fixed"] = draw.choices(["x", "y", None], [8, 3, 1], k=n)
    keys = list(rows)
    rows["ill"] = draw.choices(["flu", "gout", "ulcer"], [3, 2, 1], k=n)
    limits = {}
    for name, tree in trees.items():
        if draw.random() < 0.15:
            least, most = sorted(draw.choices(range(len(tree[0])), k=2))
            limits[name] = (least, most)
    aggregates: tuple[Aggregate, ...] = ("geometric_mean", "arithmetic_mean", "sum", "max", "rank")
    return Problem(
        rows=rows,
        hierarchies=trees,
        guarantees=tuple(random_guarantee(draw, keys, sizes) for _ in range(draw.choice([1, 1, 2, 3]))),
        loss=LossSpec(
            aggregate=draw.choice(aggregates),
            gs_factor=draw.choice([0.0, 0.25, 0.5, 0.75, 1.0]),
            weights={name: draw.choice([0.0, 0.5, 2.0, 4.0]) for name in columns if draw.random() < 0.3},
        ),
        limit=draw.choice([0.0, 0.1, 0.5, 1.0]),
        limits=limits,
    )


class OnlyDistinct:
    """What the planner asks of an engine, in memory: distinct combinations, sorted, nulls last."""

    def distinct(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        found = table.group_by(list(columns)).aggregate([([], "count_all")])
        found = found.rename_columns([*columns, "__count"])
        return found.sort_by([(name, "ascending") for name in columns])


@pytest.fixture(scope="session")
def plain() -> OnlyDistinct:
    """An engine that only counts distinct combinations."""
    return OnlyDistinct()


@pytest.fixture(scope="session")
def random_problems() -> st.SearchStrategy[Problem]:
    """Small problems of every kind, by the number they are drawn from."""
    return st.builds(random_problem, st.integers(0, 2**40), st.booleans())


@pytest.fixture(scope="session")
def make_problem() -> type[Problem]:
    """A problem written out by hand."""
    return Problem


@pytest.fixture(scope="session")
def suppressed_rows() -> Callable[..., set[int] | None]:
    """The rule of suppression in plain Python."""
    return suppressed
