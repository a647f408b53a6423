"""Local suppression: blank single cells of rare records, until each record matches k records.

A plan names blanks of combinations by place and columns, without a value; they are applied on any engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Self

import numpy as np
from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.blocks.parameters import check_parameters
from privpipe.draws import Seed
from privpipe.draws.stream import Stream
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.transforms.base import StageContext, StagePlan, Transformer, checked_columns, keyed_digest

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = [
    "Answer",
    "BlankGroup",
    "Blanked",
    "BlanksFound",
    "ByRisk",
    "CellBudget",
    "Combination",
    "Part",
    "SuppressCellsStage",
    "apply_blanks",
    "combinations_digest",
]


BlankGroup = tuple[int, int, int]
"""Some records of a combination: its place, the columns they have blanked as bits (-1: suppressed), how many."""


@dataclass(frozen=True)
class Blanked:
    """Which combinations have which cells blanked.

    Parameters
    ----------
    keys : tuple of str
        Columns that make up a combination; the first `columns` of them may be blanked.
    columns : int
    blank_groups : tuple of BlankGroup
        By place in the sorted distinct table of `keys`; a combination may have several.
    digest : str
        Keyed hash over that table, whose places these are.
    """

    keys: tuple[str, ...]
    columns: int
    blank_groups: tuple[BlankGroup, ...] = field(repr=False)
    digest: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: places, columns as bits and records; no value."""
        return {
            "keys": list(self.keys),
            "columns": list(self.keys[: self.columns]),
            "blanks": [list(blank_group) for blank_group in self.blank_groups],
            "combinations": self.digest,
        }

    @classmethod
    def from_dict(cls, detail: Mapping[str, Any]) -> Self:
        """From a plan's detail."""
        blank_groups = tuple((int(place), int(blanks), int(records)) for place, blanks, records in detail["blanks"])
        return cls(tuple(detail["keys"]), len(detail["columns"]), blank_groups, str(detail["combinations"]))


def combinations_digest(distinct: Any, keys: Sequence[str], key: bytes = b"") -> str:
    """Keyed hash of the distinct combinations and their counts, in their order: equal tables, equal digest."""
    words = _words(distinct.select(list(keys)), keys)
    whole = hashlib.sha256(np.ascontiguousarray(words).astype("<i8").tobytes())
    whole.update(distinct["__count"].to_numpy().astype("<i8").tobytes())
    return keyed_digest(key, whole.hexdigest())


def apply_blanks(
    engine: Primitives,
    table: Any,
    blanked: Blanked,
    stream: Stream,
    context: StageContext,
    *,
    along: Mapping[str, Sequence[str]] | None = None,
) -> Any:
    """The table with the cells of these combinations blanked, and those of other columns along with them.

    Where only some records of a combination are, the first in keyed order are taken.

    Raises
    ------
    DataError
        The plan was made with another table.
    """
    if not blanked.blank_groups:
        return table
    distinct = engine.distinct(table, list(blanked.keys))
    if combinations_digest(distinct, blanked.keys, context.seed_key) != blanked.digest:
        raise DataError(f"{context.place}: the combinations are not those the plan was made with; make a new plan")
    counts = distinct["__count"].to_numpy()
    places = sorted({blank_group[0] for blank_group in blanked.blank_groups})
    words = _words(distinct.select(list(blanked.keys)).take(np.array(places)), blanked.keys)
    shares: dict[int, list[tuple[int, int]]] = {}
    for at, blanks, records in blanked.blank_groups:
        shares.setdefault(at, []).append((blanks, records))
    whole = {at: blank_groups[0][0] for at, blank_groups in shares.items() if blank_groups[0][1] == counts[at]}
    taken = {number: sum(records for _, records in shares[at]) for number, at in enumerate(places) if at not in whole}
    limits: dict[int, Any] = {}
    if taken:
        finder = _FirstRecords(blanked.keys, words, taken, stream)
        found = engine.reduce_rows(table, list(blanked.keys), finder, Facts()) or {}
        limits = {number: found[number] for number in taken}
    steps = [(limits.get(number), whole.get(at), tuple(shares[at])) for number, at in enumerate(places)]
    function = _CellsBlanked(blanked.keys, blanked.columns, words, tuple(steps), stream, dict(along or {}))
    return engine.map_rows(table, function, table.schema)


@dataclass(frozen=True)
class _FirstRecords:
    """Of some combinations, the ids of their first records in keyed order."""

    keys: tuple[str, ...]
    words: Ints = field(repr=False)
    wanted: Mapping[int, int]
    stream: Stream = field(repr=False)

    def measure(self, rows: RowBlock, facts: Facts) -> dict[int, Ints]:
        numbers = _numbers(_words(rows.batch, self.keys), self.words)
        here = np.flatnonzero(np.isin(numbers, list(self.wanted)))
        ids = rows.record_ids[here]
        found = {}
        for number in np.unique(numbers[here]).tolist():
            own = ids[numbers[here] == number]
            found[number] = own[self.stream.arrange(own)][: self.wanted[number]]
        return found

    def merge(self, left: dict[int, Any], right: dict[int, Any]) -> dict[int, Any]:
        merged = dict(left)
        for number, ids in right.items():
            both = np.concatenate([merged[number], ids]) if number in merged else ids
            merged[number] = both[self.stream.arrange(both)][: self.wanted[number]]
        return merged


@dataclass(frozen=True)
class _CellsBlanked:
    """One block with its cells blanked: a function of each record's combination and id."""

    keys: tuple[str, ...]
    columns: int
    words: Ints = field(repr=False)
    steps: tuple[Any, ...] = field(repr=False)
    stream: Stream = field(repr=False)
    along: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        blanks = self._blanks(rows)
        for at, column in enumerate(self.keys[: self.columns]):
            gone = (blanks >= 0) & (blanks >> at & 1 == 1)
            for name in (column, *self.along.get(column, ())) if gone.any() else ():
                values = rows.column(name)
                rows = rows.replace(name, pc.if_else(pa.array(gone), pa.scalar(None, values.type), values))
        return rows.take(np.flatnonzero(blanks >= 0)) if (blanks < 0).any() else rows

    def _blanks(self, rows: RowBlock) -> Ints:
        numbers = _numbers(_words(rows.batch, self.keys), self.words)
        blanks = np.zeros(len(rows), dtype=np.int64)
        alike = np.array([-2 if whole is None else whole for _, whole, _ in self.steps], dtype=np.int64)
        found = numbers >= 0
        blanks[found] = alike[numbers[found]]
        for number in np.unique(numbers[blanks == -2]).tolist():
            here = np.flatnonzero(numbers == number)
            first, _, shares = self.steps[number]
            blanks[here] = 0
            rank = _ranks(rows.record_ids[here], first)
            start = 0
            for columns, records in shares:
                blanks[here[(rank >= start) & (rank < start + records)]] = columns
                start += records
        return blanks


def _ranks(ids: Ints, first: Ints) -> Ints:
    """Place of each id among the first ones; beyond them: their number."""
    found = _numbers(ids, first)
    return np.where(found >= 0, found, len(first))


def _words(rows: Any, keys: Sequence[str]) -> Ints:
    """128 null-safe bits a combination, shape (n, 2)."""
    from privpipe.kernels.ids.record_ids import content_hash

    return content_hash(rows.select(list(keys)), Seed.public("privpipe/class keys"))


def _numbers(words: Ints, known: Ints) -> Ints:
    """Place of each pair of words among known ones; -1 where it is none of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.index_in(_binary(pa, words), value_set=_binary(pa, known)).fill_null(-1)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def _binary(pa: Any, words: Ints) -> Any:
    data = pa.py_buffer(np.ascontiguousarray(words, dtype=np.int64))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(words), [None, data])


@dataclass(frozen=True)
class BlanksFound:
    """Blanks, their cost, and bounds of the least cost.

    Parameters
    ----------
    blank_groups : tuple of BlankGroup
        By place in the cell table.
    bound : float
        No blanks cost less.
    optimal : bool
        Whether the bound closed.
    status : str
        How the search ended.
    solved : int
        Integer programs that were solved.
    """

    blank_groups: tuple[BlankGroup, ...]
    bound: float = 0.0
    optimal: bool = False
    status: str = "heuristic"
    solved: int = 0


@dataclass(frozen=True)
class Answer:
    """What a program over a part of the table said: parcels of the whole table, or None where nothing better is."""

    blank_groups: list[BlankGroup] | None
    proved: bool
    by_clock: bool


class Part(Protocol):
    """Solves a part of a table with the rest unchanged."""

    def __call__(self, free: Ints, blank_groups: Sequence[BlankGroup], seconds: float) -> Answer:
        """Better parcels, where only those of the free combinations may change."""
        ...


@dataclass(frozen=True, kw_only=True)
class CellBudget:
    """How long `method: optimal` looks on.

    `neighbourhoods` counts the small problems that are solved one after the other; `seconds`, where given, ends the
    search by the clock, so that it cannot be repeated exactly, which the plan says.
    """

    neighbourhoods: Annotated[int, Ge(0)] = 60
    seconds: Annotated[float | None, Gt(0)] = None

    def __post_init__(self) -> None:
        check_parameters(self, "SuppressCells", "budget.")


@dataclass(frozen=True, kw_only=True)
class Combination:
    """Subsets of the columns over which each record is like `k` records: all of a size, or one that is named."""

    columns: Annotated[int, Ge(1)] | tuple[str, ...]
    k: Annotated[int, Ge(2)]

    def __post_init__(self) -> None:
        if isinstance(self.columns, list | tuple):
            object.__setattr__(self, "columns", checked_columns("SuppressCells", self.columns))
        check_parameters(self, "SuppressCells", "combinations.")


@dataclass(frozen=True, kw_only=True)
class ByRisk:
    """Cells that are blanked in records whose individual risk exceeds a threshold.

    `columns` are blanked in these records; `weight` is the column of sampling weights, without which the risk is one
    over the records alike.
    """

    threshold: Annotated[float, Ge(0), Le(1)]
    columns: tuple[str, ...]
    weight: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", checked_columns("SuppressCells", self.columns))
        check_parameters(self, "SuppressCells", "by_risk.")


@dataclass(frozen=True, kw_only=True, repr=False)
class SuppressCellsStage(Transformer):
    """What `SuppressCells` does to rows once its plan is known."""

    taxon = "non-perturbative"
    columns_rule = "optional"
    searches = True
    suppresses = True
    serves = ("wildcard",)
    spelt = {"with": "along"}
    preserves = "truth: every value that stays is the record's own"
    reveals = "that a record with a blank was rare, and in which columns (minimality)"
    source = "Templ, Kowarik, Meindl, J. Statistical Software 67(4), 2015; Meyerson, Williams, PODS 2004 (NP-hardness)"
    formula = "least sum of w_j over blanked cells such that every record matches >= k records"
    choose = (
        "Generalize first, so that few records are rare. own_value protects against readers who take blanks as blanks "
        "and costs about twice the cells; under wildcard look at how many records fail by own_value before you release."
    )

    columns: Annotated[
        tuple[str, ...] | None, Columns(), Doc("columns whose cells may be blanked; default: all quasi-identifiers")
    ] = None
    k: Annotated[
        int | None, Ge(2), Doc("records that each must be like, itself included; default: that of the guarantees")
    ] = None
    method: Annotated[Literal["greedy", "optimal"], Doc("greedy, or optimal: integer programs on top of it")] = "greedy"
    weights: Annotated[dict[str, Annotated[float, Gt(0)]], Doc("cost of a blank in a column; 1 where not named")] = (
        field(default_factory=dict)
    )
    order: Annotated[tuple[str, ...] | None, Doc("instead of weights: all columns, first the one to keep longest")] = (
        None
    )
    by: Annotated[
        tuple[str, ...], ColumnNames(), Doc("columns that part the table into strata, each treated by itself")
    ] = ()
    combinations: Annotated[
        tuple[Combination, ...],
        Doc("subsets of columns with their own k: [{columns: 3, k: 10}, {columns: [a, b], k: 5}]"),
    ] = ()
    by_risk: Annotated[
        ByRisk | None,
        Doc("blank `columns` of records whose individual risk exceeds `threshold`: {threshold, columns, weight}"),
    ] = None
    alone_at_most: Annotated[
        float,
        Ge(0),
        Le(1),
        Doc("under `nulls: wildcard`, share of the records that may stay complete and equal no other complete one"),
    ] = 0.01
    along: Annotated[
        dict[str, tuple[str, ...]],
        ColumnNames(),
        Doc("columns blanked wherever the stage blanks a cell: {zip: [town]}"),
    ] = field(default_factory=dict)
    suppress_at_most: Annotated[
        float, Ge(0), Le(1), Doc("share of the records that may be suppressed where no blanks help")
    ] = 0.0
    budget: Annotated[CellBudget, Doc("limit of method optimal: {neighbourhoods, seconds}")] = CellBudget()

    def __post_init__(self) -> None:
        owner = "SuppressCells"
        if isinstance(self.combinations, list | tuple):
            object.__setattr__(self, "combinations", tuple(_combination(each) for each in self.combinations))
        super().__post_init__()
        for name in ("columns", "order", "by"):
            given = getattr(self, name)
            if given is not None and given != ():
                object.__setattr__(self, name, checked_columns(owner, given))
        object.__setattr__(self, "by", tuple(self.by))
        if self.order is not None and self.weights:
            raise UsageError(f"{owner}: give weights or an order, not both")
        if self.method == "optimal" and (self.combinations or self.by_risk):
            raise UsageError(f"{owner}: combinations and by_risk go with method greedy")
        along = {name: checked_columns(owner, names) for name, names in self.along.items()}
        object.__setattr__(self, "along", along)
        self._check_names(owner)

    def _check_names(self, owner: str) -> None:
        if self.columns is None:
            return
        blanked = {"by_risk": self.by_risk.columns if self.by_risk else ()}
        for name in ("weights", "order", "along", "by_risk"):
            for column in blanked.get(name, getattr(self, name)) or ():
                if column not in self.columns:
                    raise UsageError(
                        f"{owner}: {name} names {column!r}, not among columns{did_you_mean(column, self.columns)}"
                    )
        if both := set(self.by) & set(self.columns):
            raise UsageError(f"{owner}: by names {sorted(both)[0]!r}, whose cells are to be blanked")

    def masked_columns(self) -> tuple[str, ...]:
        return ()

    def solves_programs(self) -> bool:
        return self.method == "optimal"

    def stated_parameters(self) -> dict[str, Any]:
        stated = {**self.parameters(), "budget": asdict(self.budget)}
        if self.combinations:
            stated["combinations"] = [asdict(each) for each in self.combinations]
        return stated | ({} if self.by_risk is None else {"by_risk": asdict(self.by_risk)})

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        blanked = Blanked.from_dict(plan.detail)
        self._check_along(blanked.keys, context)
        return apply_blanks(engine, table, blanked, draws.of("cells"), context, along=self.along)

    def _check_along(self, keys: tuple[str, ...], context: StageContext) -> None:
        for name, beside in self.along.items():
            if name not in keys:
                raise UsageError(f"{context.place}: along names {name!r}, whose cells are not blanked")
            for column in beside:
                if column in keys:
                    raise UsageError(
                        f"{context.place}: {column!r} cannot be blanked along, for records must match in it; name it "
                        "under `columns:`"
                    )
                if column not in context.schema.names:
                    raise UsageError(
                        f"{context.place}: along names {column!r}{did_you_mean(column, context.schema.names)}"
                    )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(k=2),
            cls(k=3, weights={}),
            cls(suppress_at_most=1.0),
            cls(combinations=(Combination(columns=1, k=3),), suppress_at_most=1.0),
        ]


def _combination(given: Any) -> Any:
    """A combination, also from a mapping; anything else is refused with the other parameters."""
    if not isinstance(given, Mapping):
        return given
    try:
        return Combination(**given)
    except TypeError:
        raise UsageError("SuppressCells: combinations are mappings of `columns` and `k`") from None
