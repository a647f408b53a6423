"""Every quality model against its definition in plain Python, and its bounds against every way of suppressing."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.blocks.quality_spec import LossSpec
from privpipe.errors import UnsupportedError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.kernels.quality import MODELS, Forced, normalised_score, quality_model
from privpipe.kernels.quality.table import Counted, TableOfCodes

FIXED = "fixed"
ILL = "ill"


@dataclass
class Small:
    """Records as text, their hierarchies as rows of text, and what is suppressed beforehand."""

    trees: dict[str, list[list[str]]]
    records: list[dict[str, str]]
    unknown: int
    fixed: bool
    heights: dict[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        return list(self.trees)

    @property
    def n(self) -> int:
        return len(self.records) + self.unknown

    def label(self, column: str, value: str, level: int) -> str:
        return next(row[level] for row in self.trees[column] if row[0] == value)

    def leaves(self, column: str, value: str, level: int) -> int:
        label = self.label(column, value, level)
        return sum(row[level] == label for row in self.trees[column])

    def key(self, record: dict[str, str], levels: Sequence[int]) -> tuple[str, ...]:
        labels = [self.label(name, record[name], level) for name, level in zip(self.columns, levels, strict=True)]
        return (*labels, *([record[FIXED]] if self.fixed else []))

    def sizes_of_domains(self) -> list[int]:
        fixed = [len({record[FIXED] for record in self.records})] if self.fixed else []
        return [len(rows) for rows in self.trees.values()] + fixed

    @cached_property
    def combinations(self) -> list[tuple[str, ...]]:
        names = [*self.columns, *([FIXED] if self.fixed else []), ILL]
        return sorted({tuple(record[name] for name in names) for record in self.records})

    @cached_property
    def table(self) -> TableOfCodes:
        names = [*self.columns, *([FIXED] if self.fixed else []), ILL]
        counts = Counter(tuple(record[name] for name in names) for record in self.records)
        hierarchies = tuple(Hierarchy.from_rows(rows, column=name) for name, rows in self.trees.items())
        codes = [hierarchy.encode([row[at] for row in self.combinations]) for at, hierarchy in enumerate(hierarchies)]
        if self.fixed:
            values = sorted({record[FIXED] for record in self.records})
            codes.append(np.array([values.index(row[-2]) for row in self.combinations]))
        ills = sorted({record[ILL] for record in self.records})
        return TableOfCodes(
            columns=tuple(self.columns),
            fixed=(FIXED,) if self.fixed else (),
            hierarchies=hierarchies,
            codes=np.stack(codes, axis=1).astype(np.int32),
            rows=Counted(
                np.array([counts[row] for row in self.combinations], dtype=np.int64),
                {ILL: np.array([ills.index(row[-1]) for row in self.combinations], dtype=np.int64)},
            ),
            records=self.n,
            unknown=self.unknown,
        )

    def rows_of(self, gone: set[tuple[str, ...]], levels: Sequence[int]) -> np.ndarray[Any, Any]:
        """Which combinations belong to these classes."""
        names = [*self.columns, *([FIXED] if self.fixed else []), ILL]
        keys = [self.key(dict(zip(names, row, strict=True)), levels) for row in self.combinations]
        return np.array([key in gone for key in keys], dtype=np.bool_)

    def classes(self, levels: Sequence[int]) -> list[tuple[str, ...]]:
        return sorted({self.key(record, levels) for record in self.records})


def small(seed: int) -> Small:
    draw = random.Random(seed)
    trees: dict[str, list[list[str]]] = {}
    for name in "abc"[: draw.randint(1, 3)]:
        values = draw.randint(1, 6)
        rows, groups = [[f"v{at}"] for at in range(values)], list(range(values))
        for level in range(draw.choice([0, 1, 2])):
            merged = [draw.randint(0, max(groups)) for _ in range(max(groups) + 1)]
            groups = [merged[group] for group in groups]
            for row, group in zip(rows, groups, strict=True):
                row.append(f"l{level + 1}g{group}")
        trees[name] = rows if values == 1 and draw.random() < 0.5 else [[*row, "*"] for row in rows]
    records = [
        {
            **{name: tree[int(len(tree) * draw.random() ** 1.5)][0] for name, tree in trees.items()},
            FIXED: draw.choice(["x", "y"]),
            ILL: draw.choice(["flu", "flu", "gout", "ulcer"]),
        }
        for _ in range(draw.choice([1, 4, 9, 20]))
    ]
    return Small(trees, records, draw.choice([0, 0, 0, 2]), draw.random() < 0.3)


def oracle(it: Small, spec: LossSpec, levels: Sequence[int], gone: set[tuple[str, ...]]) -> list[float]:
    """The loss with the records of these classes suppressed, by the definition."""
    if spec.name in COLUMN_ORACLES:
        each = [COLUMN_ORACLES[spec.name](it, spec, name, levels, gone) for name in it.columns]
        weights = [spec.weights.get(name, 1.0) for name in it.columns]
        top = max(weights)
        scaled = [u * (1.0 if top == 0 else w / top) for u, w in zip(each, weights, strict=True)]
        match spec.aggregate:
            case "sum":
                return [sum(scaled)]
            case "arithmetic_mean":
                return [sum(scaled) / len(scaled)]
            case "geometric_mean":
                return [math.prod(1 + u for u in scaled) ** (1 / len(scaled)) - 1]
            case "max":
                return [max(scaled)]
        return sorted(scaled, reverse=True)
    return [WHOLE_ORACLES[spec.name](it, spec, levels, gone)]


def parted(it: Small, levels: Sequence[int], gone: set[tuple[str, ...]]) -> tuple[list[dict[str, str]], list[Any]]:
    kept = [record for record in it.records if it.key(record, levels) not in gone]
    return kept, [record for record in it.records if it.key(record, levels) in gone]


def loss(it: Small, spec: LossSpec, name: str, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    kept, lost = parted(it, levels, gone)
    level, d = levels[it.columns.index(name)], len(it.trees[name])
    total = sum(spec.g * it.leaves(name, record[name], level) / d for record in kept) + it.unknown
    for record in lost:
        share = it.leaves(name, record[name], level) / d
        total += share + spec.s * (1 - share)
    span = it.n - spec.g * it.n / d
    return 0.0 if span == 0 else max(0.0, (total - spec.g * it.n / d) / span)


def precision(it: Small, spec: LossSpec, name: str, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    kept, lost = parted(it, levels, gone)
    height = len(it.trees[name][0]) - 1
    ratio = levels[it.columns.index(name)] / height if height else 0.0
    if spec.name == "precision_monotonic":
        return ratio
    return (len(kept) * spec.g * ratio + (len(lost) + it.unknown) * spec.s) / it.n


def entropy(it: Small, spec: LossSpec, name: str, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    level = levels[it.columns.index(name)]
    raw = Counter(record[name] for record in it.records)
    labels = Counter(it.label(name, record[name], level) for record in it.records)
    bits = sum(spec.g * a * math.log2(labels[it.label(name, x, level)] / a) for x, a in raw.items())
    if spec.name != "entropy_monotonic":
        among = Counter(it.label(name, record[name], level) for record in parted(it, levels, gone)[1])
        among["not known, and no label either"] += it.unknown
        o = sum(among.values())
        bits += spec.s * sum(c * math.log2(o / c) for c in among.values() if c)
    if spec.name == "normalized_entropy":
        most = sum(a * math.log2(it.n / a) for a in (*raw.values(), it.unknown) if a) * spec.g
        return bits / most if most > 0 else 0.0
    return bits


def steps(it: Small, spec: LossSpec, name: str, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    level = levels[it.columns.index(name)]
    return float(level) if spec.name == "height" else (spec.penalties or {})[name][level]


def sizes(it: Small, levels: Sequence[int], gone: set[tuple[str, ...]]) -> tuple[Counter[tuple[str, ...]], int]:
    kept, lost = parted(it, levels, gone)
    return Counter(it.key(record, levels) for record in kept), len(lost) + it.unknown


def discernibility(it: Small, spec: LossSpec, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    kept, o = sizes(it, levels, gone)
    return float(sum(c * c for c in kept.values()) + it.n * o)


def every_square(it: Small, spec: LossSpec, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    return float(sum(c * c for c in sizes(it, levels, set())[0].values()) + it.unknown**2)


def aecs(it: Small, spec: LossSpec, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    kept, o = sizes(it, levels, gone)
    weighted = spec.s * len(kept) + spec.g * (o > 0)
    return it.n / weighted if weighted else math.inf


def area(it: Small, record: dict[str, str], levels: Sequence[int]) -> int:
    return math.prod(it.leaves(name, record[name], level) for name, level in zip(it.columns, levels, strict=True))


def ambiguity(it: Small, spec: LossSpec, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    kept, lost = parted(it, levels, gone)
    whole = math.prod(it.sizes_of_domains())
    return float(sum(area(it, record, levels) for record in kept) + (len(lost) + it.unknown) * whole)


def divergence(it: Small, spec: LossSpec, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    kept, o = sizes(it, levels, gone)
    names = [*it.columns, *([FIXED] if it.fixed else [])]
    whole = math.prod(it.sizes_of_domains())
    counts = Counter(tuple(record[name] for name in names) for record in it.records)
    found = 0.0
    for values, count in [*counts.items(), *([(None, it.unknown)] if it.unknown else [])]:
        record = None if values is None else dict(zip(names, values, strict=True))
        if record is None or it.key(record, levels) in gone:
            q = o / it.n / whole
        else:
            q = kept[it.key(record, levels)] / it.n / area(it, record, levels)
        found += (count if spec.compat else 1) * count / it.n * math.log2(count / it.n / q)
    return found


def lost_information(it: Small, record: dict[str, str], levels: Sequence[int]) -> float:
    whole = math.log10(math.prod(it.sizes_of_domains()))
    share = area(it, record, levels) / math.prod(it.sizes_of_domains())
    return min(1.0, max(0.0, 1 + math.log10(share) / whole)) if whole > 0 else 0.0


def information(it: Small, spec: LossSpec, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    kept, lost = parted(it, levels, gone)
    o = len(lost) + it.unknown
    return sum(spec.g * lost_information(it, record, levels) for record in kept) + spec.s * o


def payout(it: Small, spec: LossSpec, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    b, cost = spec.publisher_benefit or 0.0, spec.adversary_cost or 0.0
    kept, o = sizes(it, levels, gone)
    found = spec.s * o * b
    for record in parted(it, levels, gone)[0]:
        p = 1 / kept[it.key(record, levels)]
        attack = (spec.publisher_loss or 0.0) * p if (spec.adversary_gain or 0.0) * p - cost > 1e-9 else 0.0
        found += spec.g * (b - (b * (1 - lost_information(it, record, levels)) - attack))
    return found


def misclassified(it: Small, spec: LossSpec, levels: Sequence[int], gone: set[tuple[str, ...]]) -> float:
    kept, _ = parted(it, levels, gone)
    told = 0
    for key in {it.key(record, levels) for record in kept}:
        told += max(Counter(record[ILL] for record in kept if it.key(record, levels) == key).values())
    return (it.n - told) / it.n


COLUMN_ORACLES: dict[str, Any] = {
    "loss": loss,
    "precision": precision,
    "precision_monotonic": precision,
    "entropy": entropy,
    "entropy_monotonic": entropy,
    "normalized_entropy": entropy,
    "height": steps,
    "static": steps,
}
WHOLE_ORACLES: dict[str, Any] = {
    "discernibility": discernibility,
    "discernibility_monotonic": every_square,
    "aecs": aecs,
    "ambiguity": ambiguity,
    "kl_divergence": divergence,
    "entropy_based": information,
    "publisher_payout": payout,
    "classification": misclassified,
}


def random_spec(draw: random.Random, name: str, it: Small) -> LossSpec:
    given: dict[str, Any] = {"name": name}
    if name in COLUMN_ORACLES:
        given["aggregate"] = draw.choice(["geometric_mean", "arithmetic_mean", "sum", "max", "rank", None])
        given["weights"] = {column: draw.choice([0.0, 0.5, 2.0]) for column in it.columns if draw.random() < 0.3}
    if name in ("loss", "precision", "entropy", "entropy_monotonic", "normalized_entropy", "aecs", "entropy_based"):
        given["gs_factor"] = draw.choice([0.0, 0.25, 0.5, 0.75, 1.0])
    if name == "publisher_payout":
        given |= {"gs_factor": draw.choice([0.25, 0.5, 0.8]), "adversary_gain": 10.0, "publisher_benefit": 100.0}
    if name == "kl_divergence":
        given["compat"] = draw.choice([None, "arx"])
    if name == "static":
        given["penalties"] = {column: [draw.random() for _ in rows[0]] for column, rows in it.trees.items()}
    if name == "classification":
        given["response"] = ILL
    return LossSpec(**given)


def at_most(bound: Sequence[float], figure: Sequence[float]) -> bool:
    """Entry by entry; rank vectors are compared in that order, but each entry is bounded too."""
    return all(b <= f + 1e-9 * max(1.0, abs(f)) for b, f in zip(bound, figure, strict=True))


@given(st.integers(0, 2**40))
def test_models_follow_their_definitions_and_bounds_hold(seed: int) -> None:
    draw = random.Random(seed)
    it = small(seed)
    heights = [len(rows[0]) - 1 for rows in it.trees.values()]
    top = [draw.randint(0, height) for height in heights]
    levels = [draw.randint(0, level) for level in top]
    finer = [draw.randint(0, level) for level in levels]
    # What surely goes below the node `top`: whole classes of it, and of others as many as happen to go.
    whole = {key for key in it.classes(top) if draw.random() < 0.3}
    rows = it.rows_of(whole, top)
    gone = {key for key in it.classes(levels) if draw.random() < 0.3}
    gone |= {it.key(record, levels) for record in it.records if it.key(record, top) in whole}
    lost = it.rows_of(gone, levels)
    partial = []
    for key in it.classes(top):
        members = it.rows_of({key}, top)
        sure = int(it.table.rows.counts[members & lost].sum())
        if key not in whole and sure:
            partial.append((np.flatnonzero(members), float(sure)))
    forced = Forced(tuple(top), rows, partial)
    node = np.array([levels], dtype=np.int16)
    o = int(it.table.rows.counts[lost].sum()) + it.unknown
    nothing = np.zeros(len(lost), dtype=np.bool_)
    for name in MODELS:
        spec = random_spec(draw, name, it)
        for budget in (None, o):
            model = quality_model(it.table, spec, budget=budget)
            figure, columns = model.exact(levels, lost)
            expected = oracle(it, spec, levels, gone)
            assert list(figure) == pytest.approx(expected, rel=1e-9, abs=1e-9), spec
            assert len(columns) == (len(it.columns) if name in COLUMN_ORACLES else 0)
            bound = model.bounds(node)
            assert bound.shape == (1, model.width) == (1, len(figure))
            assert at_most(bound[0], figure), (spec, "bounds")
            sharper = model.forced_bounds(node, forced)
            assert at_most(sharper[0], figure), (spec, "forced")
            assert (sharper >= bound).all(), spec
            upward = model.upward_bound(finer)
            assert upward is None or upward <= figure[0] + 1e-9 * max(1.0, abs(figure[0])), (spec, "upward")
            if model.closed_form:
                assert model.exact(levels, nothing)[0] == tuple(model.bounds(node)[0].tolist()), (spec, "closed")
        strict = quality_model(it.table, spec, budget=0)
        if not it.unknown:
            assert at_most(strict.bounds(node)[0], strict.exact(levels, nothing)[0]), (spec, "limit 0")
        own = model.own(it.columns, levels, np.arange(len(lost)))
        assert own.shape[0] == len(lost)
        assert (own[:, 0] >= 0).all()


def test_a_smallest_class_raises_bounds() -> None:
    it = Small({"a": [["u", "*"], ["v", "*"]]}, [{"a": "uuuv"[at % 4], ILL: "flu"} for at in range(8)], 0, False)
    node = np.array([[0]], dtype=np.int16)
    for name, least in (("discernibility", 32.0), ("aecs", 8 / 3)):
        spec = LossSpec(name=name)  # type: ignore[arg-type]
        assert quality_model(it.table, spec).bounds(node)[0, 0] == pytest.approx(least)
        assert quality_model(it.table, spec, least_class=5).bounds(node)[0, 0] > least + 1e-3


def test_a_tie_of_the_majority_penalises_one_half() -> None:
    it = Small({"a": [["u", "*"]]}, [{"a": "u", ILL: ill} for ill in ("flu", "flu", "gout", "gout")], 0, False)
    model = quality_model(it.table, LossSpec(name="classification", response=ILL))
    assert model.exact([0], np.zeros(2, dtype=np.bool_))[0] == (0.5,)


def test_a_journalist_needs_a_population() -> None:
    it = Small({"a": [["u", "*"], ["v", "*"]]}, [{"a": "uuv"[at], ILL: "flu"} for at in range(3)], 0, False)
    spec = LossSpec(name="publisher_payout", attacker="journalist", adversary_cost=100.0)
    with pytest.raises(UnsupportedError, match="journalist needs a population"):
        quality_model(it.table, spec)
    table = replace(it.table, population_counts=lambda levels: np.array([2, 10]))
    # The class of two is two of two: p = 1/2, 300/2 - 100 > 0; the single record is one of ten: no attack pays.
    assert quality_model(table, spec).exact([0], np.zeros(2, dtype=np.bool_))[0] == (300.0,)


@pytest.mark.parametrize("name", ["ambiguity", "kl_divergence", "entropy_based", "publisher_payout"])
def test_a_domain_that_no_double_counts_is_refused_by_what_counts_it(name: Any) -> None:
    """Figures would be no numbers, and a search that compares them would take any vector."""
    spec = HierarchySpec.from_mapping({"redact": {"length": 400, "alphabet": 10}}, column="a")
    hierarchy = spec.build(["1" * 400, "2" * 400], [1, 1], "text")
    rows = Counted(np.array([1, 1]))
    table = TableOfCodes(("a",), (), (hierarchy,), np.array([[0], [1]], dtype=np.int32), rows, 2)
    with pytest.raises(UnsupportedError, match="the domain of 'a' has more than float64 holds"):
        quality_model(table, LossSpec(name=name))
    assert quality_model(table, LossSpec()).exact([400], np.zeros(2, dtype=np.bool_))[0] == (1.0,)


def test_a_score_runs_from_all_suppressed_to_raw() -> None:
    assert normalised_score(2.0, 2.0, 6.0) == 1.0
    assert normalised_score(6.0, 2.0, 6.0) == 0.0
    assert normalised_score(1.0, 1.0, float("inf")) is None


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"name": "los"}, "loss.name must be one of .*did you mean 'loss'"),
        ({"name": "aecs", "aggregate": "sum"}, "loss.aggregate is not a parameter of the quality model aecs"),
        ({"name": "height", "gs_factor": 0.2}, "loss.gs_factor is not a parameter of the quality model height"),
        (
            {"name": "ambiguity", "weights": {"a": 1.0}},
            "loss.weights is not a parameter of the quality model ambiguity",
        ),
        ({"compat": "arx"}, "loss.compat is not a parameter of the quality model loss"),
        ({"name": "kl_divergence", "compat": "r"}, "loss.compat must be one of arx"),
        ({"name": "static"}, "loss.penalties is required"),
        ({"name": "static", "penalties": {"a": []}}, "loss.penalties.a must be a list"),
        ({"name": "static", "penalties": {"a": [0, -1]}}, r"loss.penalties.a\[1\] must be a number >= 0"),
        ({"name": "classification"}, "loss.response is required"),
        ({"name": "publisher_payout", "publisher_loss": -1.0}, "loss.publisher_loss must be a number >= 0"),
        ({"name": "publisher_payout", "attacker": "nobody"}, "loss.attacker must be one of prosecutor, journalist"),
        ({"gs_factor": 2.0}, "loss.gs_factor must be a number >= 0 and <= 1"),
    ],
)
def test_parameters_are_checked(parameters: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        LossSpec(**parameters)


def test_penalties_must_fit_the_columns() -> None:
    it = Small({"a": [["u", "*"], ["v", "*"]]}, [{"a": "u", ILL: "flu"}], 0, False)
    for penalties, told in (
        ({"b": [0.0, 1.0]}, "'b' is not a generalized column"),
        ({"a": [0.0]}, "1 figures for 2 levels"),
    ):
        with pytest.raises(UsageError, match=told):
            quality_model(it.table, LossSpec(name="static", penalties=penalties))
    with pytest.raises(UsageError, match="the column 'other' is not counted here"):
        quality_model(it.table, LossSpec(name="classification", response="other"))
