"""A run of records, as one Arrow record batch with the records' hidden ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ID_COLUMNS", "RowBlock"]

ID_COLUMNS = ("__privpipe_id_hi", "__privpipe_id_lo")
"""The two hidden signed 64-bit columns that carry a record's id from scan to publish."""


class RowBlock:
    """Records of one Arrow batch.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        The columns; the hidden id columns are taken out when they are there.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = RowBlock(pa.record_batch({"income": [1.0, None]}))
    >>> rows["income"].tolist()
    [1.0, nan]
    >>> rows.replace("income", np.array([2.0, np.nan])).column("income").to_pylist()
    [2.0, None]
    """

    __slots__ = ("_ids", "batch")

    def __init__(self, batch: pa.RecordBatch, record_ids: NDArray[np.int64] | None = None) -> None:
        names = batch.schema.names
        if record_ids is None and ID_COLUMNS[0] in names:
            words = [batch.column(name).to_numpy(zero_copy_only=False) for name in ID_COLUMNS]
            record_ids = np.column_stack(words).astype(np.int64, copy=False)
        self._ids = record_ids
        self.batch = batch.select([name for name in names if name not in ID_COLUMNS])

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the visible columns."""
        return self.batch.schema

    @property
    def record_ids(self) -> NDArray[np.int64]:
        """Ids, shape (n, 2): signed words hi, lo."""
        if self._ids is None:
            raise LookupError("these rows carry no record ids; the runner attaches them before the first stage")
        return self._ids

    def column(self, name: str) -> pa.Array:
        """One column as Arrow."""
        return self.batch.column(name)

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """One numeric column as float64, NaN where there is no value (dates: days; timestamps: microseconds)."""
        return _as_floats(self.batch.column(name))

    def replace(self, name: str, values: NDArray[Any] | pa.Array) -> RowBlock:
        """The same rows with one column's values exchanged; NaN becomes null."""
        import pyarrow as pa

        array = pa.array(values, from_pandas=True) if isinstance(values, np.ndarray) else values
        at = self.batch.schema.get_field_index(name)
        columns = [array if i == at else column for i, column in enumerate(self.batch.columns)]
        return RowBlock(pa.record_batch(columns, names=self.batch.schema.names), self._ids)

    def drop(self, names: Iterable[str]) -> RowBlock:
        """The same rows without some columns."""
        left = [name for name in self.batch.schema.names if name not in set(names)]
        return RowBlock(self.batch.select(left), self._ids)

    def with_batch(self, batch: pa.RecordBatch) -> RowBlock:
        """The same records with other columns."""
        return RowBlock(batch, self._ids)

    def take(self, positions: NDArray[Any]) -> RowBlock:
        """Rows at these positions, in this order."""
        import pyarrow as pa

        ids = None if self._ids is None else self._ids[positions]
        return RowBlock(self.batch.take(pa.array(positions)), ids)

    def to_batch(self) -> pa.RecordBatch:
        """The batch with the hidden id columns appended when the rows have ids."""
        import pyarrow as pa

        if self._ids is None:
            return self.batch
        columns = [*self.batch.columns, pa.array(self._ids[:, 0]), pa.array(self._ids[:, 1])]
        return pa.record_batch(columns, names=[*self.batch.schema.names, *ID_COLUMNS])


def _as_floats(column: pa.Array) -> NDArray[np.float64]:
    import pyarrow as pa

    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_date64(column.type) or pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    if not pa.types.is_float64(column.type):
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
