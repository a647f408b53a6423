"""Sequential trees learnt on an engine: codebooks from all records, trees from a keyed sample of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.draws import Seed, Stream
from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import StageContext
from privpipe.transforms.numeric_columns import require_summable
from privpipe.transforms.strata import PersonCounts, Strata
from privpipe.transforms.synthesis.codebooks import FOLDED_AWAY, Codebook
from privpipe.transforms.synthesis.copula_model import Folding, is_category, shares_of
from privpipe.transforms.synthesis.drawn_records import SynthesisRule, found_zeros, rule_codes
from privpipe.transforms.synthesis.ranked_values import ranks_of_column
from privpipe.transforms.synthesis.stratum_counts import holders_of_numbers

if TYPE_CHECKING:
    from privpipe.kernels.synthesis.additive_scores import CodeMoments, Score
    from privpipe.kernels.synthesis.trees import CodeTree

__all__ = ["Growing", "learn_trees", "require_columns"]

Sampled = tuple[Ints, Ints, Ints]
"""Order words, ids and codes (then persons) of the records of a stratum that come first in keyed order."""
FEW_CODES = 64


@dataclass(frozen=True)
class Growing:
    """How trees are grown: which columns are drawn given which, from how many records."""

    columns: tuple[str, ...]
    given: tuple[str, ...]
    order: str | tuple[str, ...]
    min_leaf: int
    learn_on: int
    find_zeros: bool
    rules: tuple[SynthesisRule, ...]
    folding: Folding


def learn_trees(
    engine: Primitives, table: Any, strata: Strata, growing: Growing, context: StageContext
) -> list[dict[str, Any]]:
    """The model of each stratum as plain JSON: `codebooks`, `order`, `trees`, `tilts` and `zeros` by column."""
    names = (*growing.given, *growing.columns)
    books = _codebooks(engine, table, names, strata, growing.folding, context.place)
    stream = Stream((Seed(context.seed_key) if context.seed_key else Seed.public("privpipe/synthesis")).key("sample"))
    most = max(growing.learn_on // max(len(strata), 1), 50)
    persons = growing.folding.persons
    sample = _KeyedSample(strata, names, books, stream, most, persons)
    columns = tuple(dict.fromkeys((*strata.by, *names, *persons.columns)))
    found = engine.reduce_rows(table, columns, sample, Facts()) or {}
    models = []
    for number in range(len(strata)):
        empty = np.empty((0, len(names) + len(persons.columns)), np.int64)
        codes = _in_order(*found[number])[2] if number in found else empty
        models.append({"records": strata.records[number], **_model(codes, names, books[number], growing, context)})
    return models


def _codebooks(
    engine: Primitives, table: Any, names: Sequence[str], strata: Strata, folding: Folding, place: str
) -> list[dict[str, Codebook]]:
    from privpipe.kernels.synthesis.value_cells import ValueCells

    books: list[dict[str, Codebook]] = [{} for _ in range(len(strata))]
    for name in names:
        if is_category(table.schema.field(name).type):
            for book, shares in zip(books, shares_of(engine, table, name, strata, folding), strict=True):
                book[name] = Codebook(labels=tuple(shares["labels"]))
            continue
        of_column = ranks_of_column(engine, table, name, strata, place)
        values = [ranks.values for ranks in of_column]
        holders = holders_of_numbers(engine, table, name, strata, values, folding.persons)
        for book, ranks, held in zip(books, of_column, holders, strict=True):
            if len(ranks):
                require_summable(name, float(ranks.values[0]), float(ranks.values[-1]), place)
                cells = ValueCells.of(ranks, folding.bins, folding.min_count, parted=True, persons=held)
                book[name] = Codebook(cells=cells)
            else:
                book[name] = Codebook()
    return books


@dataclass(frozen=True)
class _KeyedSample:
    """Codes of the first records of each stratum, by an order under the run's key."""

    strata: Strata
    names: tuple[str, ...]
    books: list[dict[str, Codebook]] = field(repr=False)
    stream: Stream
    most: int
    persons: PersonCounts

    def measure(self, block: RowBlock, facts: Facts) -> dict[int, Sampled]:
        numbers, words = self.strata.of(block), self.stream.order(block.record_ids)
        found = {}
        for number in np.unique(numbers[numbers >= 0]).tolist():
            here = np.flatnonzero(numbers == number)
            if len(here) > self.most:
                here = here[np.argpartition(words[here], self.most - 1)[: self.most]]
            rows = block.take(here)
            codes = [self.books[number][name].codes(rows.column(name), name) for name in self.names]
            codes += self.persons.codes(rows)
            stacked = np.column_stack(codes) if codes else np.empty((len(here), 0), np.int64)
            found[number] = (words[here], rows.record_ids, stacked)
        return found

    def merge(self, left: dict[int, Sampled], right: dict[int, Sampled]) -> dict[int, Sampled]:
        merged = dict(left)
        for number, theirs in right.items():
            if number in merged:
                both = [np.concatenate(pair) for pair in zip(merged[number], theirs, strict=True)]
                merged[number] = _in_order(both[0], both[1], both[2], self.most)
            else:
                merged[number] = theirs
        return merged


def _in_order(words: Ints, ids: Ints, codes: Ints, most: int | None = None) -> Sampled:
    order = np.lexsort((ids[:, 1], ids[:, 0], words))[:most]
    return words[order], ids[order], codes[order]


def _model(
    codes: Ints, names: Sequence[str], books: Mapping[str, Codebook], growing: Growing, context: StageContext
) -> dict[str, Any]:
    from privpipe.kernels.synthesis.trees import packed

    columns, persons = {name: codes[:, at] for at, name in enumerate(names)}, codes[:, len(names) :].T
    order = _order(columns, growing, context)
    sequence = [*growing.given, *order]
    moments = _moments({name: columns[name] for name in sequence}, books)
    trees, tilts, zeros = {}, {}, {}
    for name in order:
        before = sequence[: sequence.index(name)]
        known = columns[name] != FOLDED_AWAY
        seen = {each: columns[each][known] for each in (*before, name)}
        theirs = _known_moments(name, columns, moments)
        scores = _scores(name, before, theirs, books)
        tree = _tree(name, seen, [each[known] for each in persons], books, scores, growing)
        trees[name] = tree.to_dict()
        if before and known.any():
            tilts[name] = _tilt(name, seen, before, theirs, tree, books)
        if growing.find_zeros and len(books[name]) <= FEW_CODES:
            few = [each for each in before if len(books[each]) <= FEW_CODES]
            sizes = {each: len(books[each]) for each in (*few, name)}
            zeros[name] = found_zeros({each: columns[each][known] for each in (*few, name)}, name, sizes)
    return {
        "codebooks": {name: books[name].to_dict() for name in names},
        "order": order,
        "trees": trees,
        "features": [[name, table.shape[1], packed(table)] for name, table in moments.tables.items()] if tilts else [],
        "tilts": tilts,
        "zeros": zeros,
        "rules": [rule_codes(rule, books, context.place) for rule in growing.rules],
    }


def _moments(columns: Mapping[str, Ints], books: Mapping[str, Codebook]) -> CodeMoments:
    from privpipe.kernels.synthesis.additive_scores import CodeMoments, features_each

    codes, most = {name: np.maximum(each, 0) for name, each in columns.items()}, features_each(len(columns))
    return CodeMoments.of(codes, {name: books[name].features(each, most) for name, each in codes.items()})


def _known_moments(name: str, columns: Mapping[str, Ints], moments: CodeMoments) -> CodeMoments:
    """Those of the records whose own value has a code."""
    from privpipe.kernels.synthesis.additive_scores import CodeMoments

    away = columns[name] == FOLDED_AWAY
    if not away.any():
        return moments
    left = {each: np.maximum(codes[away], 0) for each, codes in columns.items()}
    return moments.without(CodeMoments.of(left, moments.tables))


def _scores(name: str, before: Sequence[str], moments: CodeMoments, books: Mapping[str, Codebook]) -> list[Score]:
    """Of a column by those before it; with only one it needs none."""
    from privpipe.kernels.synthesis.additive_scores import additive_scores

    return additive_scores(moments, before, name, books[name].is_ordered) if len(before) > 1 else []


def _tilt(
    name: str,
    columns: Mapping[str, Ints],
    before: Sequence[str],
    moments: CodeMoments,
    tree: CodeTree,
    books: Mapping[str, Codebook],
) -> dict[str, Any]:
    from privpipe.kernels.synthesis.leaf_tilts import LeafTilt

    codes = {each: np.maximum(columns[each], 0) for each in (*before, name)}
    return LeafTilt.learnt(tree, codes, before, name, moments, books[name].is_ordered).to_dict()


def _tree(
    name: str,
    columns: Mapping[str, Ints],
    persons: Sequence[Ints],
    books: Mapping[str, Codebook],
    scores: Sequence[Score],
    growing: Growing,
) -> CodeTree:
    """Of a column given the others; each leaf has `min_leaf` records, or persons where these are distinguished."""
    from privpipe.kernels.synthesis.trees import CodeTree, category_order

    target, book = columns[name], books[name]
    if not len(target):
        return CodeTree.grown(target, None, {}, {}, growing.min_leaf)
    outputs = book.outputs(target) if book.is_ordered else None
    told = np.eye(len(book))[target] if outputs is None else outputs[:, :1]
    before = [each for each in columns if each != name]
    predictors = {each: np.maximum(columns[each], 0) for each in before}
    orders = {
        each: np.arange(len(books[each]))
        if books[each].is_ordered
        else category_order(predictors[each], len(books[each]), told)
        for each in before
    }
    return CodeTree.grown(target, outputs, predictors, orders, growing.min_leaf, scores, persons=persons)


def _order(columns: Mapping[str, Ints], growing: Growing, context: StageContext) -> list[str]:
    """Named columns first; then by entropy, by gain, or as in the table."""
    if growing.order == "table":
        return _obeying(list(growing.columns), growing, context)
    coarse = {name: _coarse(np.maximum(codes, 0)) for name, codes in columns.items()}
    if growing.order == "gain":
        return _obeying(_by_gain(coarse, growing), growing, context)
    named = [*growing.order] if isinstance(growing.order, tuple) else []
    rest = _by_entropy({name: coarse[name] for name in growing.columns if name not in named})
    return _obeying([*named, *rest], growing, context)


def _by_entropy(coarse: Mapping[str, Ints]) -> list[str]:
    """Lowest first: a column with few values is drawn by few columns, one with many may depend on all of them."""
    from privpipe.kernels.synthesis.trees import entropy

    return sorted(coarse, key=lambda name: round(entropy(np.bincount(coarse[name])), 9))


def _by_gain(coarse: Mapping[str, Ints], growing: Growing) -> list[str]:
    """Next the one of whose entropy those before it explain most; first the one that explains most of the others."""
    from privpipe.kernels.synthesis.trees import mutual_information

    names, placed, rest = list(coarse), list[str](), list(growing.columns)
    shared = mutual_information(list(coarse.values()))
    before = [names.index(name) for name in growing.given]
    while rest:
        gains = [
            float(shared[names.index(name), before].sum() if before else shared[:, names.index(name)].sum())
            for name in rest
        ]
        best = rest[int(np.argmax(np.round(gains, 9)))]
        placed.append(best)
        before.append(names.index(best))
        rest.remove(best)
    return placed


def _obeying(order: list[str], growing: Growing, context: StageContext) -> list[str]:
    """The order, with a column moved behind those that a rule decides it by."""
    needs: dict[str, set[str]] = {name: set() for name in order}
    for rule in growing.rules:
        for name in rule.then:
            needs.setdefault(name, set()).update(set(rule.when) & set(order))
    found: list[str] = []
    while len(found) < len(order):
        free = [name for name in order if name not in found and needs[name] <= set(found)]
        if not free:
            raise UsageError(f"{context.place}: rules: they decide columns by each other in a circle")
        found.append(free[0])
    if isinstance(growing.order, tuple) and tuple(found[: len(growing.order)]) != growing.order:
        raise UsageError(f"{context.place}: order: a column comes before one that `rules` decide it by")
    return found


def _coarse(codes: Ints) -> Ints:
    """At most about twenty groups of neighbouring codes, equally frequent."""
    if not len(codes) or codes.max() < 20:
        return codes
    counts = np.bincount(codes)
    return np.asarray(((np.cumsum(counts) - counts) * 20 // len(codes))[codes])


def require_columns(growing: Growing, context: StageContext) -> None:
    """Refuse an order or rules of columns that are not drawn.

    Raises
    ------
    UsageError
    DataError
    """
    drawn = set(growing.columns)
    strange = [name for name in (growing.order if isinstance(growing.order, tuple) else ()) if name not in drawn]
    strange += [name for rule in growing.rules for name in rule.then if name not in drawn]
    strange += [name for rule in growing.rules for name in rule.when if name not in {*drawn, *growing.given}]
    if strange:
        raise UsageError(f"{context.place}: {', '.join(map(repr, dict.fromkeys(strange)))} is not drawn by the stage")
    lacking = [name for name in growing.given if name not in context.schema.names]
    if lacking:
        raise DataError(f"{context.place}: column {lacking[0]!r} is not in the table")
