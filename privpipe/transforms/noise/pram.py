"""Post-randomisation (PRAM): categories change at random by a known matrix that keeps their shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from privpipe.blocks import Primitives, RowBlock
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.blocks.parameters import check_parameters
from privpipe.errors import DataError, UsageError
from privpipe.roles import column_type_of
from privpipe.transforms.base import RowTransformer, StageContext, StagePlan, checked_columns, varies_within
from privpipe.transforms.categories import Labels, combined, escaped, in_value_order, labelled, split, typed
from privpipe.transforms.numeric_columns import counted_nulls, refuse_nulls
from privpipe.transforms.shared_draws import SameWithin, refuse_apart
from privpipe.transforms.strata import SmallStrata, Strata, checked_by, require_present

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = ["Pram", "TransitionMatrix"]

ROW_SUM = 1e-12
SHARES_KEPT = 1e-9


@dataclass(frozen=True, kw_only=True)
class TransitionMatrix:
    """An own matrix of transitions.

    Parameters
    ----------
    labels : tuple of str
        Categories, in the order of rows and columns; of a joint stage, labels with ``|`` between.
    rows : tuple of tuples of float
        ``rows[k][l]`` is the probability that category k is released as l; each row sums to 1.
    """

    labels: tuple[str, ...]
    rows: tuple[tuple[Annotated[float, Ge(0), Le(1)], ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows))
        check_parameters(self, "Pram", "matrix.")
        m = len(self.labels)
        if not m or len(set(self.labels)) != m or len(self.rows) != m or any(len(row) != m for row in self.rows):
            raise UsageError("Pram: matrix needs distinct labels, and as many rows and columns as labels")
        for row in self.rows:
            if abs(sum(row) - 1.0) > ROW_SUM:
                raise UsageError("Pram: each of matrix.rows must sum to 1")


@dataclass(frozen=True, kw_only=True, repr=False)
class Pram(RowTransformer):
    """Exchange each category at random, with known probabilities, for another that occurs in its column.

    P has the given diagonal and spreads the rest of each row; the invariant matrix R = P Q keeps the shares t of
    the categories, t R = t, exactly; A = alpha R + (1 - alpha) I. The plan holds A, with which analysts correct
    tables, and the realised diagonal, which is smaller than that of P.

    Parameters
    ----------
    columns : tuple of str
        Text, booleans, whole numbers or dates; each by itself unless `joint`.
    diagonal : float or (float, float)
        Probability to stay in P, in (0, 1]; a pair: drawn for each category between the two (publicly, from the
        name of the column and the number of the category).
    alpha : float
        In [0, 1]; 0 changes nothing.
    matrix : TransitionMatrix, optional
        Own P, over at least the categories that occur.
    invariant : bool
        False: P itself, cut to the categories that occur.
    spread : {"even", "adjacent"}
        Over all other categories, or over the neighbours in the order of the values.
    joint : bool
        The combinations of the columns are the categories, so no combination arises that does not occur.
    forbid : tuple of tuples of str
        Categories (with `joint`: combinations) that no record may have in the release. One that occurs cannot be kept
        out by an invariant matrix.
    nulls : {"keep", "refuse", "own_value"}
        own_value: a missing value is a category like others.
    by : tuple of str
        Strata; each has its own matrix.
    small_strata : {"refuse", "suppress", "merge"}
    same_within : {"household_id", "person_id"}, optional
        Rows of one household (or person) draw alike for equal values; the plan states in how many a column differs.

    Examples
    --------
    >>> Pram(columns=["region"], diagonal=0.7)
    Pram(columns=('region',), diagonal=0.7)
    """

    taxon = "perturbative"
    needs_draws = True
    preserves = "expected counts of the categories, when invariant; nulls"
    reveals = "the probability that a category seen is the true one"
    source = "Gouweleeuw, Kooiman, Willenborg, de Wolf, J. Official Statistics 14(4), 1998"

    columns: Annotated[tuple[str, ...], Columns(), Doc("categorical columns to randomise")]
    diagonal: Annotated[
        Annotated[float, Gt(0), Le(1)] | tuple[Annotated[float, Gt(0), Le(1)], Annotated[float, Gt(0), Le(1)]],
        Doc("probability to stay, in (0, 1], or [lo, hi] drawn per category"),
    ] = 0.8
    alpha: Annotated[
        float, Ge(0), Le(1), Doc("share of the matrix compared with leaving everything unchanged, in [0, 1]")
    ] = 1.0
    matrix: Annotated[TransitionMatrix | None, Doc("own matrix: {labels: [...], rows: [[...], ...]}")] = None
    invariant: Annotated[bool, Doc("keep the expected counts of the categories")] = True
    spread: Annotated[Literal["even", "adjacent"], Doc("even over all other categories, or adjacent ones only")] = (
        "even"
    )
    joint: Annotated[bool, Doc("randomise the combinations of the columns as one")] = False
    forbid: Annotated[tuple[tuple[str, ...], ...], Doc("categories or combinations that no released record has")] = ()
    nulls: Annotated[
        Literal["keep", "refuse", "own_value"],
        Doc("keep leaves missing values; refuse makes them an error; own_value makes them a category"),
    ] = "keep"
    by: Annotated[tuple[str, ...], ColumnNames(), Doc("columns whose combinations have a matrix each")] = ()
    small_strata: Annotated[SmallStrata, Doc("strata without records enough: refuse, suppress or merge")] = "refuse"
    same_within: Annotated[
        SameWithin | None, Doc("whose rows draw alike: household_id or person_id; left out, each record for itself")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", checked_columns("Pram", self.columns))
        object.__setattr__(self, "by", checked_by("Pram", self.by, self.columns, self.small_strata))
        object.__setattr__(self, "diagonal", _diagonal(self.diagonal))
        object.__setattr__(self, "forbid", _forbidden(self.forbid, len(self.columns) if self.joint else 1))
        if self.matrix is not None and not self.joint and len(self.columns) > 1:
            raise UsageError("Pram: matrix requires one column, or with joint")
        refuse_apart("Pram", self.same_within, {"by": self.by, "joint": self.joint and len(self.columns) > 1})
        if self.small_strata == "suppress":
            object.__setattr__(self, "suppresses", True)

    def groups(self) -> list[tuple[str, ...]]:
        """Columns that are randomised together."""
        return [self.columns] if self.joint else [(column,) for column in self.columns]

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        strata = Strata.learn(engine, table, self.by, self.columns, context, small=self.small_strata)
        self._require_categories(context)
        for column in self.columns if self.nulls == "refuse" else ():
            refuse_nulls(column, sum(strata.records) - sum(strata.known[column]), context)
        matrices, warnings = [], []
        for group in self.groups():
            found = list(self._matrices(engine, table, group, strata, context))
            matrices.append({"columns": list(group), "strata": found})
            single = sum(len(each["labels"]) == 1 for each in found)
            if single:
                warnings.append(f"{', '.join(map(repr, group))}: only one category, unchanged, in {single} strata")
        known = {column: sum(counts) for column, counts in strata.known.items()}
        detail: dict[str, Any] = {
            "strata": strata.to_dict(),
            "matrices": matrices,
            "nulls": {column: sum(strata.records) - count for column, count in known.items()},
            "warnings": warnings,
        }
        detail |= varies_within(self, engine, table, context)
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def _require_categories(self, context: StageContext) -> None:
        for column in self.columns:
            kind = column_type_of(context.schema.field(column).type)
            if kind in ("number", "decimal"):
                raise DataError(
                    f"{context.place}: column {column!r} holds {kind}s, which are not categories; add_noise and "
                    "rank_swap serve it, or generalize it first"
                )

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        require_present((*self.by, *self.columns), context)
        self._require_categories(context)
        nulls = counted_nulls(engine, table, self.columns, self.nulls, context)
        return replace(plan, detail={**plan.detail, "nulls": nulls})

    def draws_within(self) -> SameWithin | None:
        return self.same_within

    def draws_by_value(self) -> bool:
        return True

    def shaping(self, plan: StagePlan) -> Mapping[str, Any]:
        kept = [
            [{name: each[name] for name in ("labels", "matrix")} for each in group["strata"]]
            for group in plan.detail["matrices"]
        ]
        return {"strata": Strata.from_dict(plan.detail["strata"]).assignment(), "matrices": kept}

    def apply_block(self, rows: RowBlock, plan: StagePlan, draws: Draws) -> RowBlock:
        from privpipe.kernels.ids.value_draws import value_uniforms
        from privpipe.kernels.noise.pram import draw_categories

        rows, numbers = Strata.from_dict(plan.detail["strata"], plan.seed_key).kept(rows)
        for group in plan.detail["matrices"]:
            names = tuple(group["columns"])
            # One stream per column: one more column does not change the draws of the others.
            uniforms = value_uniforms(draws.of("/".join(names)), rows, names)
            words = combined([labelled(rows.column(name)) for name in names], self.nulls == "own_value")
            released = words
            for number, each in enumerate(group["strata"]):
                here = np.flatnonzero(numbers == number)
                if not len(here):
                    continue
                labels = Labels(each["labels"])
                codes = labels.codes(words.take(here), ", ".join(map(repr, names)))
                if labels.texts:
                    drawn = draw_categories(codes, uniforms[here], np.array(each["matrix"]))
                    released = _put(released, here, labels.words(drawn))
            for name, array in zip(names, split(released, len(names)), strict=True):
                rows = rows.replace(name, typed(array, rows.schema.field(name).type))
        return rows

    def _matrices(
        self, engine: Primitives, table: Any, group: tuple[str, ...], strata: Strata, context: StageContext
    ) -> Iterator[dict[str, Any]]:
        """Labels and matrix of each stratum, in its order."""
        distinct = in_value_order(engine.distinct(table, (*strata.by, *group)).combine_chunks(), group)
        words = combined([labelled(distinct[name].combine_chunks()) for name in group], self.nulls == "own_value")
        places = strata.of(RowBlock(distinct.select(list(strata.by)).to_batches()[0])) if strata.by else None
        counts = distinct["__count"].to_numpy().astype(np.int64)
        for number in range(len(strata)):
            here = np.ones(len(words), np.bool_) if places is None else places == number
            labels, totals = Labels.counted(words.filter(here), counts[here])
            yield self._matrix(group, labels, totals, context)

    def _matrix(self, group: tuple[str, ...], labels: Labels, counts: Ints, context: StageContext) -> dict[str, Any]:
        from privpipe.kernels.noise.pram import diagonal_matrix, posterior, transition_matrix

        named = ", ".join(map(repr, group))
        m = len(labels.texts)
        forbidden = np.isin(np.array(labels.texts, object), ["|".join(map(escaped, each)) for each in self.forbid])
        if forbidden.any() and self.invariant:
            raise DataError(
                f"{context.place}: {int(forbidden.sum()):,} forbidden categories of {named} occur in "
                f"{int(counts[forbidden].sum()):,} records; an invariant matrix keeps their share, so say "
                "`invariant: false`, or correct the records first"
            )
        shares = counts / counts.sum() if m else np.empty(0)
        if self.matrix is None:
            own = diagonal_matrix(self._stay(group, m), self.spread, forbidden)
            made = transition_matrix(own, shares, invariant=self.invariant, alpha=self.alpha) if m else np.empty((0, 0))
        else:
            made = self._own(self.matrix, labels, shares, named, context)
        self._require_sound(made, shares, named, context)
        return {
            "labels": list(labels.texts),
            "records": int(counts.sum()),
            "matrix": made.tolist(),
            "diagonal": np.diag(made).tolist(),
            "posterior": posterior(made, shares) if m else None,
        }

    def _stay(self, group: tuple[str, ...], m: int) -> Floats:
        if not isinstance(self.diagonal, tuple):
            return np.full(m, float(self.diagonal))
        import hashlib

        from privpipe.draws import Stream

        low, high = self.diagonal
        public = Stream(hashlib.sha256(f"privpipe/pram/{'/'.join(group)}".encode()).digest()[:16])
        shares = (public.counter(0, m) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return np.asarray(low + (high - low) * shares)

    def _own(
        self,
        given: TransitionMatrix,
        labels: Labels,
        shares: Floats,
        named: str,
        context: StageContext,
    ) -> Floats:
        from privpipe.kernels.noise.pram import transition_matrix

        texts = [label if self.joint else escaped(label) for label in given.labels]
        place = {text: at for at, text in enumerate(texts)}
        lacking = sum(text not in place for text in labels.texts)
        if lacking:
            raise DataError(f"{context.place}: {lacking:,} categories of {named} have no row in `matrix`; add them")
        at = np.array([place[text] for text in labels.texts], np.int64)
        whole = np.zeros(len(texts))
        whole[at] = shares
        made = transition_matrix(np.array(given.rows), whole, invariant=self.invariant, alpha=self.alpha)
        return np.asarray(made[np.ix_(at, at)])

    def _require_sound(self, made: Floats, shares: Floats, named: str, context: StageContext) -> None:
        rows = np.abs(made.sum(axis=1) - 1.0).max(initial=0.0) <= ROW_SUM and (made >= 0).all()
        kept = not self.invariant or np.abs(shares @ made - shares).sum() <= SHARES_KEPT
        if not (rows and kept):
            raise DataError(f"{context.place}: the matrix of {named} came out unsound; give another diagonal or alpha")

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("illness",), diagonal=0.8),
            cls(columns=("illness", "zip"), diagonal=(0.5, 0.9), joint=True, nulls="own_value"),
            cls(columns=("illness",), alpha=0.5, invariant=False, spread="adjacent", by=("zip",)),
        ]


def _put(words: Any, places: Ints, values: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    mask = np.zeros(len(words), np.bool_)
    mask[places] = True
    return pc.replace_with_mask(words, pa.array(mask), values)


def _diagonal(diagonal: Any) -> float | tuple[float, float]:
    if not isinstance(diagonal, list | tuple):
        return diagonal  # type: ignore[no-any-return]
    if len(diagonal) != 2:
        raise UsageError("Pram: diagonal must be a number or [lo, hi]")
    if diagonal[0] > diagonal[1]:
        raise UsageError("Pram: diagonal must be [lo, hi] with lo at most hi")
    return diagonal[0], diagonal[1]


def _forbidden(forbid: Any, width: int) -> tuple[tuple[str, ...], ...]:
    if not isinstance(forbid, list | tuple):
        raise UsageError("Pram: forbid must be a list of categories, each a list of labels")
    found = tuple((each,) if isinstance(each, str) else tuple(each) for each in forbid)
    if any(len(each) != width or not all(isinstance(label, str) for label in each) for each in found):
        raise UsageError(f"Pram: each category in forbid needs {width} label(s), one a column")
    return found
