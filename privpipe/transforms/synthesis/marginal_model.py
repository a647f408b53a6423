"""Differentially private marginals on an engine: domains fixed beforehand, exact counts, noise, and draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.parameters import check_parameters
from privpipe.draws import Seed, Stream
from privpipe.errors import UsageError
from privpipe.roles import column_type_of
from privpipe.transforms.base import StageContext
from privpipe.transforms.categories import Labels, labelled
from privpipe.transforms.numeric_columns import whole_numbers

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = ["Domain", "MarginalModel", "learn_marginals"]

POINT = 1


@dataclass(frozen=True, kw_only=True)
class Domain:
    """Values that a column can have, known without looking at the data.

    Parameters
    ----------
    levels : tuple of str
        Of a category; any other value counts as missing.
    low, high : int or float
        Of a number; values beyond count as the nearest of them.
    bins : int
        Cells of equal width between them.
    """

    levels: tuple[str, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    bins: Annotated[int, Ge(1)] = 20

    def __post_init__(self) -> None:
        if isinstance(self.levels, str) or not all(isinstance(level, str) for level in self.levels):
            raise UsageError("Synthesize: domains: levels must be a list of texts")
        object.__setattr__(self, "levels", tuple(self.levels))
        check_parameters(self, "Synthesize", "domains.")
        bounded = self.low is not None and self.high is not None
        if bounded == bool(self.levels) or (bounded and not self.low < self.high):  # type: ignore[operator]
            raise UsageError("Synthesize: domains: a column has either levels, or low below high")
        if len(set(self.levels)) != len(self.levels):
            raise UsageError("Synthesize: domains: levels must be distinct")

    def __len__(self) -> int:
        return 1 + (len(self.levels) or self.bins)

    def codes(self, column: Any) -> Ints:
        """Code of each value; 0 is missing."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.levels:
            at = pc.index_in(labelled(column), value_set=pa.array(self.levels, pa.string()))
            return np.asarray(pc.fill_null(at, -1).to_numpy(zero_copy_only=False), np.int64) + 1
        numbers = RowBlock(pa.record_batch([column], names=["x"]))["x"]
        low, width = float(self.low or 0), float(self.high or 0) - float(self.low or 0)
        cells = np.floor(np.nan_to_num((np.clip(numbers, low, low + width) - low) / width * self.bins)).astype(np.int64)
        return np.where(np.isnan(numbers), 0, np.clip(cells, 0, self.bins - 1) + 1)

    def values(self, codes: Ints, uniforms: Floats, found: Any) -> Any:
        """A column of this Arrow type; numbers are drawn evenly from their cell."""
        import pyarrow as pa

        if self.levels:
            return Labels(self.levels).words(codes - 1).cast(found)
        low, width = float(self.low or 0), float(self.high or 0) - float(self.low or 0)
        missing = codes <= 0
        values = low + (np.maximum(codes - 1, 0) + uniforms) * (width / self.bins)
        if pa.types.is_floating(found):
            return pa.array(values, pa.float64(), mask=missing).cast(found)
        scale = 10.0**found.scale if pa.types.is_decimal(found) else 1.0
        units = np.clip(np.rint(values * scale), np.ceil(low * scale), np.floor((low + width) * scale))
        return whole_numbers(np.where(missing, 0, units).astype(np.int64), missing, found)


@dataclass(frozen=True)
class _Counts:
    """Exact counts of every column and every pair."""

    domains: Mapping[str, Domain]

    def measure(self, block: RowBlock, facts: Facts) -> list[Ints]:
        sizes = [len(domain) for domain in self.domains.values()]
        codes = [domain.codes(block.column(name)) for name, domain in self.domains.items()]
        found = [np.bincount(each, minlength=size) for each, size in zip(codes, sizes, strict=True)]
        for i, j in _pairs(len(sizes)):
            joint = np.bincount(codes[i] * sizes[j] + codes[j], minlength=sizes[i] * sizes[j])
            found.append(joint.reshape(sizes[i], sizes[j]))
        return found

    def merge(self, left: list[Ints], right: list[Ints]) -> list[Ints]:
        return [a + b for a, b in zip(left, right, strict=True)]


@dataclass(frozen=True)
class _Capped:
    """The first records of each person, by an order under a key; records without a person are one person's."""

    most: int
    stream: Stream

    def __call__(self, rows: RowBlock, key: int) -> RowBlock:
        return rows.take(self.stream.arrange(rows.record_ids)[: self.most])


@dataclass(frozen=True)
class _PersonKey:
    person: str

    def __call__(self, rows: RowBlock) -> Ints:
        from privpipe.kernels.ids.record_ids import content_hash

        # Two persons of one hash share a cap: fewer records, never more.
        return np.asarray(content_hash(rows.batch.select([self.person]), Seed.public("privpipe/persons"))[:, 0])


def _pairs(d: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(d) for j in range(i + 1, d)]


def learn_marginals(
    engine: Primitives,
    table: Any,
    columns: Sequence[str],
    declared: Mapping[str, Domain],
    privacy: tuple[float, float, Literal["record", "person"], int],
    context: StageContext,
) -> dict[str, Any]:
    """The model as plain JSON (`models`, `domains`), and its privacy cost (`privacy`), which may be public.

    Raises
    ------
    UsageError
        A column has no domain that is known without the data; the unit is a person and none is declared.
    """
    from privpipe.kernels.synthesis import noisy_marginals
    from privpipe.kernels.synthesis.noisy_marginals import fitted, measured

    epsilon, delta, unit, most = privacy
    domains = {name: _domain(name, declared, context) for name in columns}
    if not domains:
        raise UsageError(f"{context.place}: method: marginals has no column to draw")
    if unit == "person":
        if context.person is None:
            raise UsageError(f"{context.place}: unit: person needs the policy's `person_id`")
        key = Seed(context.seed_key) if context.seed_key else Seed.public("privpipe/synthesis")
        capped = _Capped(most, Stream(key.key("persons")))
        table = engine.map_groups(table, _PersonKey(context.person), capped, table.schema)
    counted = _Counts(domains)
    sizes = [len(domain) for domain in domains.values()]
    nothing = [np.zeros(size, np.int64) for size in sizes]
    nothing += [np.zeros((sizes[i], sizes[j]), np.int64) for i, j in _pairs(len(sizes))]
    counts = engine.reduce_rows(table, tuple(columns), counted, Facts()) or nothing
    rho = noisy_marginals.rho_within(epsilon, delta)
    pairs = dict(zip(_pairs(len(sizes)), counts[len(sizes) :], strict=True))
    found = measured(counts[: len(sizes)], pairs, rho, most, noisy_marginals.discrete_gaussian, noisy_marginals.chosen)
    model = fitted(found)
    steps = [
        {"column": columns[column], "given": columns[parent] if parent >= 0 else None, "shares": shares.tolist()}
        for column, parent, shares in model["steps"]
    ]
    spent = found["spent"]
    return {
        "models": [{"records": model["total"], "steps": steps}],
        "domains": {name: _stated(domain) for name, domain in domains.items()},
        "privacy": {
            "epsilon": epsilon,
            "delta": delta,
            "unit": unit,
            "records_of_a_unit": most,
            "neighbours": "one unit more or less",
            "rho": rho,
            "rho_spent": spent,
            "delta_at_epsilon": noisy_marginals.delta_of(spent, epsilon),
            "mechanisms": "discrete Gaussian; exponential mechanism",
        },
    }


def _stated(domain: Domain) -> dict[str, Any]:
    return (
        {"levels": list(domain.levels)}
        if domain.levels
        else {"low": domain.low, "high": domain.high, "bins": domain.bins}
    )


def _domain(name: str, declared: Mapping[str, Domain], context: StageContext) -> Domain:
    found = context.schema.field(name).type
    kind = column_type_of(found)
    if name in declared:
        domain = declared[name]
        if bool(domain.levels) != (kind in ("text", "boolean")):
            wanted = "levels" if kind in ("text", "boolean") else "low and high"
            raise UsageError(f"{context.place}: domains: column {name!r} is {kind} and needs {wanted}")
        return domain
    if kind == "boolean":
        return Domain(levels=("false", "true"))
    raise UsageError(
        f"{context.place}: column {name!r} has no domain: the data must not decide it. Write "
        f"`domains: {{{name}: {'{levels: [...]}' if kind == 'text' else '{low: ..., high: ...}'}}}` from what is "
        "known without them"
    )


@dataclass(frozen=True)
class MarginalModel:
    """Draws records along the tree, each column given its parent; a function only of the noisy figures."""

    domains: Mapping[str, Domain]
    steps: Sequence[Mapping[str, Any]] = field(repr=False)
    schema: Any
    draws: Draws = field(repr=False)

    @classmethod
    def of(cls, detail: Mapping[str, Any], schema: Any, draws: Draws) -> MarginalModel:
        """From a plan."""
        domains = {name: Domain(**each) for name, each in detail["domains"].items()}
        return cls(domains, detail["models"][0]["steps"], schema, draws)

    def drawn(self, ids: Ints, strata: Ints, rows: RowBlock | None = None) -> dict[str, Any]:
        """Arrow columns by name."""
        codes: dict[str, Ints] = {}
        made = {}
        for step in self.steps:
            name, stream = step["column"], self.draws.of(step["column"])
            running = np.cumsum(np.array(step["shares"]), axis=1)
            row = np.zeros(len(ids), np.int64) if step["given"] is None else codes[step["given"]]
            u = stream.uniform(ids)
            found = np.zeros(len(ids), np.int64)
            for at in np.unique(row).tolist():
                here = row == at
                ends = running[at][:-1] / running[at][-1]
                found[here] = np.searchsorted(ends, u[here], side="right")
            codes[name] = found
            made[name] = self.domains[name].values(found, stream.uniform(ids, word=POINT), self.schema.field(name).type)
        return made
