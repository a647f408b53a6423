"""What is known of one list of columns before its records are grouped: scales, parts of the table, block trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.errors import DataError
from privpipe.transforms.microaggregation.mixed_records import ColumnKind, Encoding, missing_cells
from privpipe.transforms.strata import Strata, stratum_keys

if TYPE_CHECKING:
    from privpipe.kernels.microaggregation.group_condition import GroupCondition
    from privpipe.kernels.microaggregation.kd_tree import BlockTree

__all__ = ["PART", "GroupPlan", "Part", "SensitiveValues"]

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
    """A sensitive column's values by hash, with their counts in the whole table, and what each group must meet.

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

    def codes(self, rows: RowBlock) -> NDArray[np.int64]:
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
        from privpipe.kernels.microaggregation.group_condition import GroupCondition

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
        Mean, and deviation or range, of each number; a number of scale 0 takes no part and is left as it is.
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

    def points(self, rows: RowBlock, stratum: int, encoding: Encoding) -> NDArray[np.float64]:
        """Varying columns on their scale, shape (n, s); a missing value stands at the mean."""
        columns = [
            encoding.place(rows, name)
            if self.kinds[name] == "nominal"
            else encoding.scale(rows, name, self.centre[stratum], self.scale[stratum])
            for name in self.varying(stratum)
        ]
        return np.nan_to_num(np.stack(columns, axis=1), nan=0.0) if columns else np.empty((len(rows), 0))

    def parts_of(self, rows: RowBlock, strata: Strata) -> Iterator[tuple[int, NDArray[np.int64]]]:
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
