"""Synthetic records drawn from learnt models, each by its id: from a copula, or column by column from trees under the
rules of the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.errors import DataError, UsageError
from privpipe.transforms.categories import Labels, typed
from privpipe.transforms.strata import Strata
from privpipe.transforms.synthesis.codebooks import Codebook
from privpipe.transforms.synthesis.copula_model import PRESENT

if TYPE_CHECKING:
    from privpipe.draws import Draws, Stream
    from privpipe.kernels.synthesis.leaf_tilts import Tilting
    from privpipe.kernels.synthesis.trees import CodeTree

__all__ = [
    "CopulaModel",
    "Drawn",
    "Redrawn",
    "SynthesisRule",
    "TreeModel",
    "allowed_codes",
    "found_zeros",
    "require_sound_trees",
    "rule_codes",
]


EXPECTED = 10
"""Records that chance would give a combination that no record has, for it to count as impossible."""


@dataclass(frozen=True, kw_only=True)
class SynthesisRule:
    """Records with one of these values in each column of `when` have one of these in each column of `then`.

    Parameters
    ----------
    when, then : mapping of column to tuple of str or None
        Values as text; None is a missing one. Numbers only if enough records hold them.
    """

    when: dict[str, tuple[str | None, ...]]
    then: dict[str, tuple[str | None, ...]]

    def __post_init__(self) -> None:
        for side in ("when", "then"):
            given = getattr(self, side)
            if not given or not all(given.values()):
                raise UsageError(f"Synthesize: rules: `{side}` must name a column with its values")
            object.__setattr__(self, side, {name: tuple(values) for name, values in given.items()})
        both = sorted(set(self.when) & set(self.then))
        if both:
            raise UsageError(f"Synthesize: rules: {', '.join(map(repr, both))} is in both `when` and `then`")


def rule_codes(rule: SynthesisRule, books: Mapping[str, Codebook], place: str) -> dict[str, Any]:
    """The rule over codes.

    Raises
    ------
    DataError
        Of the values of a column in `then` none is ever released.
    """
    found: dict[str, Any] = {}
    for side, given in (("when", rule.when), ("then", rule.then)):
        coded = {name: [books[name].code(value) for value in values] for name, values in given.items()}
        found[side] = {name: sorted(code for code in codes if code is not None) for name, codes in coded.items()}
    for name, codes in found["then"].items():
        if not codes:
            raise DataError(
                f"{place}: rules: none of the {len(rule.then[name])} values that `then` gives for {name!r} is held by "
                "enough records to be released"
            )
    return found


def found_zeros(columns: Mapping[str, Ints], target: str, sizes: Mapping[str, int]) -> dict[str, list[list[int]]]:
    """By predictor, pairs (its code, the target's) that no record has and chance would give at least ten.

    Examples
    --------
    >>> sex, ill = np.repeat([1, 2], 100), np.repeat([1, 2, 1], [50, 50, 100])
    >>> found_zeros({"sex": sex, "ill": ill}, "ill", {"sex": 3, "ill": 3})
    {'sex': [[2, 2]]}
    """
    n = len(columns[target])
    if not n:
        return {}
    found = {}
    theirs = np.bincount(columns[target], minlength=sizes[target])
    for name, codes in columns.items():
        if name == target:
            continue
        codes = np.maximum(codes, 0)
        counts = np.bincount(codes * sizes[target] + columns[target], minlength=sizes[name] * sizes[target])
        ours = np.bincount(codes, minlength=sizes[name])
        empty = (counts.reshape(sizes[name], sizes[target]) == 0) & (np.outer(ours, theirs) >= EXPECTED * n)
        pairs = np.argwhere(empty).tolist()
        if pairs:
            found[name] = pairs
    return found


def allowed_codes(name: str, size: int, drawn: Mapping[str, Ints], model: Mapping[str, Any], n: int) -> Bools | None:
    """Which codes of a column each record may have, shape (n, size); None: all. Rules take precedence over findings."""
    rules, zeros = [rule for rule in model["rules"] if name in rule["then"]], model["zeros"].get(name, {})
    if not rules and not zeros:
        return None
    ruled = np.ones((n, size), np.bool_)
    for rule in rules:
        here = np.ones(n, np.bool_)
        for column, codes in rule["when"].items():
            here &= np.isin(drawn[column], codes)
        within = np.zeros(size, np.bool_)
        within[rule["then"][name]] = True
        ruled[here] &= within
    found = ruled.copy()
    for column, pairs in zeros.items():
        first, second = np.array(pairs, np.int64).T
        table = np.ones((int(max(first.max(), drawn[column].max(initial=0))) + 1, size), np.bool_)
        table[first, second] = False
        found &= table[np.maximum(drawn[column], 0)]
    none_left = ~found.any(axis=1)
    found[none_left] = ruled[none_left]
    return found


def require_sound_trees(
    model: Mapping[str, Any],
    columns: Sequence[str],
    given: Sequence[str],
    books: Mapping[str, Codebook],
    trees: Mapping[str, CodeTree],
) -> None:
    """Refuse a model that would be looked up outside of its arrays, or that draws other columns than it says.

    Raises
    ------
    UsageError
    """
    order = list(model["order"])
    records = model["records"]
    whole = (
        isinstance(records, int)
        and records >= 0
        and len(set(order)) == len(order)
        and set(order) == set(trees) == set(columns)
        and set(books) == {*columns, *given}
        and all(book.is_sound() for book in books.values())
        and set(model["zeros"]) <= set(order)
    )
    if not whole:
        raise _unfit("codebooks")
    sizes = {name: len(book) for name, book in books.items()}
    for at, name in enumerate(order):
        before = {each: sizes[each] for each in (*given, *order[:at])}
        if not trees[name].fits(before, sizes[name]):
            raise _unfit("trees")
        for column, pairs in model["zeros"].get(name, {}).items():
            if column not in before or not all(
                len(pair) == 2 and _within(pair[:1], before[column]) and _within(pair[1:], sizes[name])
                for pair in pairs
            ):
                raise _unfit("zeros")
    for rule in model["rules"]:
        for side in (rule["when"], rule["then"]):
            if not all(name in sizes and _within(codes, sizes[name]) for name, codes in side.items()):
                raise _unfit("rules")
        for name in rule["then"]:
            earlier = {*given, *order[: order.index(name)]} if name in order else set()
            if not rule["then"][name] or not set(rule["when"]) <= earlier:
                raise _unfit("rules")


def _within(codes: Any, size: int) -> bool:
    return isinstance(codes, list) and all(type(code) is int and 0 <= code < size for code in codes)


def _unfit(what: str) -> UsageError:
    return UsageError(f"the plan holds {what} that do not fit each other: make a new plan")


POINT, FALLBACK, FIRST_AGAIN = 1, 2, 3
SECOND, COIN = 11, 12
AGAIN = 8
"""How often a record that breaks a rule is drawn again from its leaf before it is drawn from all that it may have."""


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
        return _in_order(parts, orders, self.schema)


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
            # Its leaf has no allowed code: by the shares of all records among the allowed ones.
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
    """For each column that has one; plans of earlier versions have none, and draw the same records as before."""
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


NUMBER = "number"


class _Model(Protocol):
    def drawn(self, ids: Ints, strata: Ints, rows: RowBlock | None = None) -> dict[str, Any]:
        """Arrow columns by name, for records with these ids in these strata."""


@dataclass(frozen=True)
class CopulaModel:
    """Draws the columns of records, each by its id and stratum."""

    detail: Mapping[str, Any] = field(repr=False)
    schema: Any
    draws: Draws = field(repr=False)

    def drawn(self, ids: Ints, strata: Ints, rows: RowBlock | None = None) -> dict[str, Any]:
        """Arrow columns by name."""

        parts: dict[str, list[Any]] = {name: [] for name in self.detail["columns"]}
        orders = []
        for number in np.unique(strata).tolist():
            here = np.flatnonzero(strata == number)
            orders.append(here)
            for name, array in self._stratum(ids[here], self.detail["models"][number]).items():
                parts[name].append(array)
        return _in_order(parts, orders, self.schema)

    def _stratum(self, ids: Ints, model: Mapping[str, Any]) -> dict[str, Any]:
        from privpipe.kernels.synthesis.copula import uniforms_of

        normals = [self.draws.of(name).normal(ids, word=int(what != PRESENT)) for name, what in model["latent"]]
        uniforms = dict(zip(map(tuple, model["latent"]), uniforms_of(normals, model["factor"]), strict=True))
        found = {}
        for name, marginal in model["columns"].items():
            gaps = uniforms.get((name, "missing"))
            if gaps is None:
                gaps = self.draws.of(name).uniform(ids, word=2)
            found[name] = _values(
                uniforms[name, PRESENT], gaps < marginal["missing"], marginal, self.schema.field(name)
            )
        return found


@dataclass(frozen=True)
class Drawn:
    """A function of record numbers: the records of the model."""

    by: tuple[str, ...]
    combinations: Sequence[Mapping[str, Any]] = field(repr=False)
    ends: tuple[int, ...]
    model: _Model
    schema: Any

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa

        t = np.asarray(rows.column(NUMBER).to_numpy(zero_copy_only=False), np.int64)
        places = np.searchsorted(np.array(self.ends, np.int64), t, side="right")
        combinations, schema = self.combinations, self.schema
        strata = np.array([each["stratum"] for each in combinations], np.int64)[places]
        # A record is drawn only by its number: the same under any partitioning.
        columns = self.model.drawn(np.column_stack([t, np.zeros(len(t), np.int64)]), strata)
        for at, name in enumerate(self.by):
            words = pa.array([each["values"][at] for each in combinations], pa.string()).take(pa.array(places))
            columns[name] = typed(words, schema.field(name).type)
        batch = pa.record_batch([columns[name] for name in schema.names], schema=schema)
        return RowBlock(batch, rows.record_ids)


@dataclass(frozen=True)
class Redrawn:
    """A function of records: some of their columns drawn again, by the record's id."""

    strata: Strata
    model: _Model

    def __call__(self, rows: RowBlock) -> RowBlock:
        rows, numbers = self.strata.kept(rows)
        for name, column in self.model.drawn(rows.record_ids, numbers, rows).items():
            rows = rows.replace(name, column)
        return rows


def _values(u: Floats, missing: Bools, marginal: Mapping[str, Any], column: Any) -> Any:
    """The marginal's values at u."""
    import pyarrow as pa

    from privpipe.kernels.synthesis.copula import inverse_shares, within_share

    if "labels" in marginal:
        labels = Labels(marginal["labels"])
        if not labels.texts:
            return pa.nulls(len(u), column.type)
        codes = np.where(missing, -1, inverse_shares(u, marginal["shares"]))
        return labels.words(codes).cast(column.type)
    if not marginal["shares"]:
        return pa.nulls(len(u), column.type)
    book = Codebook.from_dict(marginal)
    codes = inverse_shares(u, marginal["shares"])
    points = within_share(u, codes, marginal["shares"])
    return book.values(np.where(missing, 0, codes + 1), points, column.type)


def _in_order(parts: Mapping[str, list[Any]], orders: list[NDArray[np.intp]], schema: Any) -> dict[str, Any]:
    """Columns made part by part, in the order of the records; `orders` shows which these were."""
    import pyarrow as pa

    if not orders:
        return {name: pa.array([], schema.field(name).type) for name in parts}
    back = pa.array(np.argsort(np.concatenate(orders)))
    return {name: pa.concat_arrays(arrays).take(back) for name, arrays in parts.items()}
