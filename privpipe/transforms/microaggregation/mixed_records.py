"""Records of several types in a block: numbers, ranks and nominal values, on the scales that grouping works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.errors import DataError
from privpipe.transforms.categories import labelled

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy
    from privpipe.kernels.microaggregation.gower import MixedRecords

__all__ = ["ColumnKind", "Encoding", "missing_cells"]

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

    def scale(
        self, rows: RowBlock, column: str, centre: Mapping[str, float], scale: Mapping[str, float]
    ) -> NDArray[np.float64]:
        """A number in units of its spread or a rank over levels - 1, NaN where missing, shape (n,)."""
        if self.kinds[column] == "number":
            return np.asarray((rows[column] - centre[column]) / scale[column])
        ranks = self.ranks(rows, column)
        return ranks / max(len(self.order[column]) - 1, 1)

    def ranks(self, rows: RowBlock, column: str) -> NDArray[np.float64]:
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

    def codes(self, rows: RowBlock, column: str) -> NDArray[np.float64]:
        """Number of each nominal value among those of the block, in the order of the texts; NaN where missing."""
        texts = np.array(labelled(rows.column(column)).to_pylist(), dtype=object)
        known = np.array([text is not None for text in texts], dtype=np.bool_)
        out = np.full(len(texts), np.nan)
        if known.any():
            out[known] = np.unique(texts[known].astype(str), return_inverse=True)[1].reshape(-1)
        return out

    def place(self, rows: RowBlock, column: str) -> NDArray[np.float64]:
        """A number in [0, 1) that orders nominal values by their first bytes: what a block tree may cut."""
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

    def _weights_of(self, names: Sequence[str]) -> NDArray[np.float64]:
        return np.array([self.weights.get(name, 1.0) for name in names], np.float64)

    def _nominal(self, rows: RowBlock, column: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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


def _stacked(paths: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Tables of labels in one array, each from its first place on."""
    levels, values = (max((each.shape[axis] for each in paths), default=1) for axis in (0, 1))
    tables = np.zeros((len(paths), levels, values), np.int64)
    for at, each in enumerate(paths):
        tables[at, : each.shape[0], : each.shape[1]] = each
    return tables


def missing_cells(rows: RowBlock, columns: tuple[str, ...]) -> NDArray[np.bool_]:
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
