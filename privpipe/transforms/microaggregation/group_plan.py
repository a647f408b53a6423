"""What is known about one list of columns before its records are grouped: scales of mixed types, parts of the table,
block trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.errors import DataError
from privpipe.transforms.categories import labelled
from privpipe.transforms.strata import Strata, stratum_keys

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy
    from privpipe.kernels.microaggregation.gower import MixedRecords
    from privpipe.kernels.microaggregation.groups import GroupCondition
    from privpipe.kernels.microaggregation.kd_tree import BlockTree

__all__ = ["PART", "ColumnKind", "Encoding", "GroupPlan", "Part", "SensitiveValues", "missing_cells"]


ColumnKind = Literal["number", "ordinal", "nominal"]
PREFIX_BYTES = 7


@dataclass(frozen=True)
class Encoding:
    """How the columns of one list become numbers.

    Parameters
    ----------
    kinds : mapping of column to {"number", "ordinal", "nominal"}
    order : mapping of column to tuple of str
        Of ordinal columns, from least to greatest.
    weights : mapping of column to float
        Of the distance by Gower.
    hierarchies : mapping of column to Hierarchy
        Of nominal columns that have one; built for the run, in no plan.
    """

    kinds: Mapping[str, ColumnKind]
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict, repr=False)

    def scale(self, rows: RowBlock, column: str, centre: Mapping[str, float], scale: Mapping[str, float]) -> Floats:
        """A number in units of its spread or a rank over levels - 1, NaN where missing, shape (n,)."""
        if self.kinds[column] == "number":
            return np.asarray((rows[column] - centre[column]) / scale[column])
        ranks = self.ranks(rows, column)
        return ranks / max(len(self.order[column]) - 1, 1)

    def ranks(self, rows: RowBlock, column: str) -> Floats:
        """Rank of each value of an ordinal column, from 0; NaN where missing.

        Raises
        ------
        DataError
            Values that the declared order lacks (their number).
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        words = labelled(rows.column(column))
        at = pc.index_in(words, value_set=pa.array(self.order[column], pa.string()))
        strange = pc.sum(pc.and_(at.is_null(), words.is_valid())).as_py() or 0
        if strange:
            raise DataError(f"{strange:,} values of column {column!r} are not in its declared `order`; add them")
        return np.asarray(at.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)

    def codes(self, rows: RowBlock, column: str) -> Floats:
        """Number of each nominal value among those of the block, in the order of the texts; NaN where missing."""
        texts = np.array(labelled(rows.column(column)).to_pylist(), dtype=object)
        known = np.array([text is not None for text in texts], dtype=np.bool_)
        out = np.full(len(texts), np.nan)
        if known.any():
            out[known] = np.unique(texts[known].astype(str), return_inverse=True)[1].reshape(-1)
        return out

    def place(self, rows: RowBlock, column: str) -> Floats:
        """A number in [0, 1) that orders nominal values by their first bytes, so that a block tree can cut them."""
        texts = labelled(rows.column(column)).to_pylist()
        words = [
            int.from_bytes((text or "").encode()[:PREFIX_BYTES].ljust(PREFIX_BYTES, b"\0"), "big") for text in texts
        ]
        return np.array(words, dtype=np.float64) / 256.0**PREFIX_BYTES

    def mixed(self, rows: RowBlock, centre: Mapping[str, float], scale: Mapping[str, float]) -> MixedRecords:
        """The records as the distance by Gower takes them; constant numbers left out."""
        from privpipe.kernels.microaggregation.gower import MixedRecords

        scales = self._scaled(scale)
        nominal = [name for name, kind in self.kinds.items() if kind == "nominal"]
        encoded = [self._nominal(rows, name) for name in nominal]
        n = len(rows)
        columns = [self.scale(rows, name, centre, scale) for name in scales]
        return MixedRecords(
            scales=np.stack(columns) if columns else np.empty((0, n)),
            ranked=np.array([self.kinds[name] == "ordinal" for name in scales], np.bool_),
            scale_weights=self._weights_of(scales),
            codes=np.stack([codes for codes, _ in encoded]) if encoded else np.empty((0, n), np.int64),
            paths=_stacked([paths for _, paths in encoded]),
            heights=np.array([paths.shape[0] for _, paths in encoded], np.int64),
            code_weights=self._weights_of(nominal),
        )

    def _scaled(self, scale: Mapping[str, float]) -> list[str]:
        """Ordinal columns, and numbers that are not constant."""
        return [name for name, kind in self.kinds.items() if kind == "ordinal" or scale.get(name, 0.0) > 0]

    def _weights_of(self, names: Sequence[str]) -> Floats:
        return np.array([self.weights.get(name, 1.0) for name in names], np.float64)

    def _nominal(self, rows: RowBlock, column: str) -> tuple[Ints, Ints]:
        """Code of each value, -1 for none, and the label of each code at each level below the root."""
        hierarchy = self.hierarchies.get(column)
        if hierarchy is None or hierarchy.height < 1:
            codes = np.nan_to_num(self.codes(rows, column), nan=-1.0).astype(np.int64)
            return codes, np.arange(int(codes.max(initial=0)) + 1)[None, :]
        texts = labelled(rows.column(column)).to_pylist()
        known = [at for at, text in enumerate(texts) if text is not None]
        codes = np.full(len(texts), -1, np.int64)
        codes[known] = hierarchy.encode([texts[at] for at in known])
        names = [np.array(hierarchy.texts(level), dtype=object).astype(str) for level in range(hierarchy.height)]
        return codes, np.stack([np.unique(each, return_inverse=True)[1].reshape(-1) for each in names]).astype(np.int64)


def _stacked(paths: Sequence[Ints]) -> Ints:
    """Tables of labels in one array, each from its first place on."""
    levels, values = (max((each.shape[axis] for each in paths), default=1) for axis in (0, 1))
    tables = np.zeros((len(paths), levels, values), np.int64)
    for at, each in enumerate(paths):
        tables[at, : each.shape[0], : each.shape[1]] = each
    return tables


def missing_cells(rows: RowBlock, columns: tuple[str, ...]) -> Bools:
    """Which cells hold no value, shape (n, s).

    Examples
    --------
    >>> import pyarrow as pa
    >>> missing_cells(RowBlock(pa.record_batch({"a": [1.0, None], "b": ["x", "y"]})), ("a", "b")).tolist()
    [[False, False], [True, False]]
    """
    import pyarrow.compute as pc

    columns_of: list[Any] = [rows.column(name) for name in columns]
    gaps = [pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False) for column in columns_of]
    return np.stack(gaps, axis=1).astype(np.bool_)


PART = 1 << 32
"""Keys of the blocks of one part lie this far from those of the next."""


@dataclass(frozen=True)
class Part:
    """Records of one stratum that miss the same columns, and the trees of all passes over them.

    Parameters
    ----------
    stratum : int
    missing : tuple of str
        Columns they miss, where records are grouped by that; else none.
    records : int
    trees : tuple of BlockTree
        Of the first grouping, then of each border pass.
    """

    stratum: int
    missing: tuple[str, ...]
    records: int
    trees: tuple[BlockTree, ...]


@dataclass(frozen=True)
class SensitiveValues:
    """A sensitive column's values by hash, with their counts in the whole table, and the rule for each group.

    Parameters
    ----------
    column : str
    keys : tuple of int
        Hashes, ascending.
    counts : tuple of int
    l : int
        Least number of distinct values; 0: any.
    t : float or None
        Largest distance to the whole table's shares; None: any.
    key : bytes
        What keys the hashes; in no plan.
    """

    column: str
    keys: tuple[int, ...]
    counts: tuple[int, ...]
    l: int
    t: float | None
    key: bytes = field(default=b"", repr=False, compare=False)

    def codes(self, rows: RowBlock) -> Ints:
        """Number of each record's value.

        Raises
        ------
        DataError
            Values that the plan does not know (their number).
        """
        found, known = stratum_keys(rows.batch.select([self.column]), self.key), np.array(self.keys, np.int64)
        at = np.minimum(np.searchsorted(known, found), len(known) - 1)
        strange = int((known[at] != found).sum())
        if strange:
            raise DataError(f"{strange:,} values of column {self.column!r} are new to the plan; make a new one")
        return np.asarray(at, np.int64)

    def condition(self, rows: RowBlock) -> GroupCondition:
        """The condition on groups of these records."""
        from privpipe.kernels.microaggregation.groups import GroupCondition

        counts = np.array(self.counts, np.float64)
        return GroupCondition(self.codes(rows), counts / counts.sum(), self.l, np.inf if self.t is None else self.t)


@dataclass(frozen=True)
class GroupPlan:
    """The plan of one list of columns.

    Parameters
    ----------
    columns : tuple of str
    k : int
    kinds : mapping of column to {"number", "ordinal", "nominal"}
    centre, scale : tuple of mappings of column to float, one a stratum
        Mean, and deviation or range, of each number; a number of scale 0 takes no part and is left unchanged.
    block : int or None
        Most records of a block; None: one block.
    neighbours : int
        Nearest records that descent looks at.
    search : bool
        Blocks are searched after the descent.
    by_pattern : bool
        Records are grouped within their pattern of nulls.
    prove : bool
        Small blocks choose among all groups that column generation finds.
    parts : tuple of Part
    sensitive : SensitiveValues, optional
    """

    columns: tuple[str, ...]
    k: int
    kinds: Mapping[str, ColumnKind]
    centre: tuple[Mapping[str, float], ...]
    scale: tuple[Mapping[str, float], ...]
    block: int | None
    neighbours: int
    search: bool
    by_pattern: bool
    prove: bool = False
    parts: tuple[Part, ...] = ()
    sensitive: SensitiveValues | None = None

    def is_scaled(self, kinds: Mapping[str, ColumnKind], strata: int) -> bool:
        """Whether each number has its mean and scale in every stratum, which a plan read from JSON may lack."""
        numbers = {name for name, kind in kinds.items() if kind == "number"}
        figures = [float(figure) for each in (*self.centre, *self.scale) for figure in each.values()]
        return (
            dict(self.kinds) == dict(kinds)
            and len(self.centre) == len(self.scale) == strata
            and all(set(each) == numbers for each in (*self.centre, *self.scale))
            and bool(np.isfinite(figures).all())
            and all(spread >= 0 for each in self.scale for spread in each.values())
        )

    def varying(self, stratum: int) -> tuple[str, ...]:
        """Columns that take part in a stratum: all but numbers without spread."""
        spread = self.scale[stratum]
        return tuple(name for name in self.columns if self.kinds[name] != "number" or spread[name] > 0)

    @property
    def cells(self) -> int | None:
        """In how many cells descent looks for neighbours; None: in all."""
        from privpipe.kernels.microaggregation.blocks import CELLS_IN_LARGE, NEAR

        return None if self.neighbours >= NEAR else CELLS_IN_LARGE

    @property
    def passes(self) -> int:
        """Groupings of the records: the first, and each over the borders of the one before."""
        return max((len(part.trees) for part in self.parts), default=1)

    def points(self, rows: RowBlock, stratum: int, encoding: Encoding) -> Floats:
        """Varying columns on their scale, shape (n, s); a missing value is placed at the mean."""
        columns = [
            encoding.place(rows, name)
            if self.kinds[name] == "nominal"
            else encoding.scale(rows, name, self.centre[stratum], self.scale[stratum])
            for name in self.varying(stratum)
        ]
        return np.nan_to_num(np.stack(columns, axis=1), nan=0.0) if columns else np.empty((len(rows), 0))

    def parts_of(self, rows: RowBlock, strata: Strata) -> Iterator[tuple[int, Ints]]:
        """Parts that occur, each with the places of its records.

        Raises
        ------
        DataError
            Records that are in no part of the plan.
        """
        numbers = strata.of(rows)
        gaps = missing_cells(rows, self.columns) if self.by_pattern else None
        left = len(rows)
        for at, part in enumerate(self.parts):
            here = numbers == part.stratum
            if gaps is not None:
                here &= (gaps == np.isin(self.columns, part.missing)).all(axis=1)
            places = np.flatnonzero(here)
            left -= len(places)
            if len(places):
                yield at, places
        if left:
            raise DataError(
                f"{left:,} records miss values of {', '.join(map(repr, self.columns))} in a way that the plan does "
                "not know; make a new plan for this table"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "columns": list(self.columns),
            "k": self.k,
            "kinds": dict(self.kinds),
            "centre": [dict(each) for each in self.centre],
            "scale": [dict(each) for each in self.scale],
            "constant": sorted(set(self.columns).difference(*map(self.varying, range(len(self.scale))))),
            "block": self.block,
            "neighbours": self.neighbours,
            "search": self.search,
            "prove": self.prove,
            "by_pattern": self.by_pattern,
            "parts": [
                {
                    "stratum": part.stratum,
                    "missing": list(part.missing),
                    "records": part.records,
                    "trees": [tree.to_dict() for tree in part.trees],
                }
                for part in self.parts
            ],
            "sensitive": asdict(self.sensitive, dict_factory=_told) if self.sensitive else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], key: bytes = b"") -> Self:
        """From the JSON of a plan, whose hashes are under `key`."""
        from privpipe.kernels.microaggregation.kd_tree import BlockTree

        parts = tuple(
            Part(
                int(each["stratum"]),
                tuple(each["missing"]),
                int(each["records"]),
                tuple(BlockTree.from_dict(tree) for tree in each["trees"]),
            )
            for each in data["parts"]
        )
        bound = data["sensitive"]
        return cls(
            columns=tuple(data["columns"]),
            k=int(data["k"]),
            kinds=data["kinds"],
            centre=tuple(data["centre"]),
            scale=tuple(data["scale"]),
            block=data["block"],
            neighbours=int(data["neighbours"]),
            search=bool(data["search"]),
            by_pattern=bool(data["by_pattern"]),
            prove=bool(data.get("prove")),  # plans made before have none
            parts=parts,
            sensitive=bound
            and SensitiveValues(
                bound["column"], tuple(bound["keys"]), tuple(bound["counts"]), int(bound["l"]), bound["t"], key
            ),
        )


def _told(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """All but the key."""
    return {name: value for name, value in fields if name != "key"}
