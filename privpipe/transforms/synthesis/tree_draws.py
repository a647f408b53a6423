"""Records drawn column by column from trees, each by its id: the same for any partitioning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.errors import UsageError
from privpipe.transforms.synthesis.codebooks import Codebook
from privpipe.transforms.synthesis.sound_trees import require_sound_trees
from privpipe.transforms.synthesis.tree_rules import allowed_codes

if TYPE_CHECKING:
    from privpipe.draws import Draws, Stream
    from privpipe.kernels.synthesis.leaf_tilts import Tilting
    from privpipe.kernels.synthesis.trees import CodeTree

__all__ = ["TreeModel"]

Ints = NDArray[np.int64]
POINT, FALLBACK, FIRST_AGAIN = 1, 2, 3
SECOND, COIN = 11, 12
AGAIN = 8
"""How often a record that breaks a rule is drawn anew from its leaf before it is drawn from all that it may have."""


@dataclass(frozen=True)
class TreeModel:
    """Draws the columns of records, each by its id, its stratum and the columns that are given."""

    columns: tuple[str, ...]
    given: tuple[str, ...]
    strata: tuple[_StratumTrees, ...] = field(repr=False)
    schema: Any
    draws: Draws = field(repr=False)

    @classmethod
    def of(cls, detail: Mapping[str, Any], schema: Any, draws: Draws) -> TreeModel:
        """From a plan."""
        columns, given = tuple(detail["columns"]), tuple(detail["given"])
        strata = tuple(_StratumTrees.of(model, columns, given) for model in detail["models"])
        return cls(columns, given, strata, schema, draws)

    def drawn(self, ids: Ints, strata: Ints, rows: RowBlock | None = None) -> dict[str, Any]:
        """Arrow columns by name."""
        import pyarrow as pa

        parts: dict[str, list[Any]] = {name: [] for name in self.columns}
        orders = []
        for number in np.unique(strata).tolist():
            here = np.flatnonzero(strata == number)
            orders.append(here)
            model = self.strata[number]
            part = rows.take(here) if rows is not None and self.given else None
            known = {name: part.column(name) for name in self.given} if part is not None else {}
            codes = model.codes(ids[here], known, self.draws)
            for name in self.columns:
                points = self.draws.of(name).uniform(ids[here], word=POINT)
                parts[name].append(model.books[name].values(codes[name], points, self.schema.field(name).type))
        if not orders:
            return {name: pa.array([], self.schema.field(name).type) for name in parts}
        back = pa.array(np.argsort(np.concatenate(orders)))
        return {name: pa.concat_arrays(arrays).take(back) for name, arrays in parts.items()}


@dataclass(frozen=True)
class _StratumTrees:
    books: Mapping[str, Codebook]
    trees: Mapping[str, CodeTree]
    tilts: Mapping[str, Tilting]
    order: tuple[str, ...]
    constraints: Mapping[str, Any]

    @classmethod
    def of(cls, model: Mapping[str, Any], columns: tuple[str, ...], given: tuple[str, ...]) -> _StratumTrees:
        from privpipe.kernels.synthesis.trees import CodeTree

        books = {name: Codebook.from_dict(each) for name, each in model["codebooks"].items()}
        trees = {name: CodeTree.from_dict(each) for name, each in model["trees"].items()}
        require_sound_trees(model, columns, given, books, trees)
        tilts = _tilts(model, books, trees)
        return cls(books, trees, tilts, tuple(model["order"]), {"zeros": model["zeros"], "rules": model["rules"]})

    def codes(self, ids: Ints, given: Mapping[str, Any], draws: Draws) -> dict[str, Ints]:
        """Codes of each column, drawn in its turn."""
        found = {name: np.maximum(self.books[name].codes(column, name), 0) for name, column in given.items()}
        for name in self.order:
            stream, tree = draws.of(name), self.trees[name]
            leaves = tree.leaves(found, len(ids))
            codes = tree.drawn(leaves, stream.uniform(ids))
            if name in self.tilts:
                codes = self._tilted(name, codes, leaves, ids, found, stream)
            if len(tree.codes):
                codes = self._kept_within(name, codes, leaves, ids, found, stream)
            found[name] = np.maximum(codes, 0)
        return found

    def _tilted(
        self, name: str, codes: Ints, leaves: Ints, ids: Ints, found: Mapping[str, Ints], stream: Stream
    ) -> Ints:
        tree = self.trees[name]
        mixed = np.flatnonzero(np.diff(tree.offsets)[leaves] > 1)
        second = tree.drawn(leaves[mixed], stream.uniform(ids[mixed], word=SECOND))
        apart = second != codes[mixed]
        here, second = mixed[apart], second[apart]
        earlier = {each: found[each][here] for each in self.tilts[name].added}
        coins = stream.uniform(ids[here], word=COIN)
        codes[here] = self.tilts[name].taken(leaves[here], earlier, codes[here], second, coins)
        return codes

    def _kept_within(
        self, name: str, codes: Ints, leaves: Ints, ids: Ints, found: Mapping[str, Ints], stream: Stream
    ) -> Ints:
        size, tree = len(self.books[name]), self.trees[name]
        allowed = allowed_codes(name, size, found, self.constraints, len(ids))
        if allowed is None:
            return codes
        bad = np.flatnonzero(~allowed[np.arange(len(ids)), codes])
        for word in range(FIRST_AGAIN, FIRST_AGAIN + AGAIN):
            if not len(bad):
                return codes
            codes[bad] = tree.drawn(leaves[bad], stream.uniform(ids[bad], word=word))
            bad = bad[~allowed[bad, codes[bad]]]
        if len(bad):
            # Its leaf has nothing for it: by the shares of all records among what it may have.
            counts = np.diff(np.concatenate([[0], tree.ends]))
            shares = np.bincount(tree.codes, weights=counts, minlength=size)
            weights = np.where(allowed[bad], shares, 0.0)
            weights = np.where(weights.sum(1, keepdims=True) > 0, weights, allowed[bad])
            running = np.cumsum(weights, axis=1)
            u = stream.uniform(ids[bad], word=FALLBACK)
            codes[bad] = (running <= (u * running[:, -1])[:, None]).sum(axis=1)
        return codes


def _tilts(
    model: Mapping[str, Any], books: Mapping[str, Codebook], trees: Mapping[str, CodeTree]
) -> dict[str, Tilting]:
    """Of each column that has one; a plan of before there were any has none, and draws the same records as ever."""
    from privpipe.kernels.synthesis.leaf_tilts import LeafTilt, Tilting
    from privpipe.kernels.synthesis.trees import unpacked

    tilts, order, found = model.get("tilts", {}), model["order"], {}
    tables = {name: unpacked(text).reshape(-1, width) for name, width, text in model.get("features", ())}
    held, wanted = ({name: len(each) for name, each in known.items()} for known in (tables, books))
    if tilts and (held != wanted or not set(tilts) <= set(order)):
        raise UsageError("the plan holds features or weights of other columns than its trees: make a new plan")
    given = [name for name in tables if name not in order]
    for name, data in tilts.items():
        before = [*given, *order[: order.index(name)]]
        tilt = LeafTilt.from_dict(data)
        found[name] = Tilting.of(tilt, trees[name], tables, before, name, books[name].is_ordered)
    return found
