"""The distinct combinations of some columns of a table, by values that can be named, ordered and averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.hierarchies import canonical_text
from privpipe.hierarchies.interval_levels import interval_ends
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CountedColumn", "CountedTable"]

INFINITE = Decimal("Infinity")


@dataclass(frozen=True)
class CountedColumn:
    """A column of a table of combinations by its distinct texts, ordered where they are numbers or intervals."""

    codes: Ints = field(repr=False)
    texts: list[str] = field(repr=False)
    numbers: Floats | None = field(repr=False)
    typed: bool

    @property
    def shown(self) -> Bools:
        return np.asarray(self.codes >= 0)


class CountedTable:
    """The distinct combinations of some columns with their records. In memory only.

    Parameters
    ----------
    table : pyarrow.Table
        With the records of each row in ``__count``.
    blanks : sequence of str or None
        Texts of cells without a value.
    """

    def __init__(self, table: pa.Table, blanks: Sequence[str | None]) -> None:
        self._table, self._blanks = table, set(blanks) - {None}
        self._columns: dict[str, CountedColumn] = {}

    @cached_property
    def counts(self) -> Ints:
        """Records of each row, shape (n,)."""
        return np.asarray(self._table["__count"].to_numpy(), dtype=np.int64)

    @cached_property
    def records(self) -> int:
        """Records of all rows."""
        return int(self.counts.sum())

    def parts(self, rows: Ints, counts: Ints, blank: Mapping[str, Bools]) -> CountedTable:
        """Some rows with other counts, where cells of some columns are blank: shapes (p,)."""
        part = CountedTable(self._table, ())
        part.counts = counts
        for name in self._table.column_names:
            if name == "__count":
                continue
            own = self.column(name)
            codes = own.codes[rows]
            codes = np.where(blank[name], -1, codes) if name in blank else codes
            part._columns[name] = replace(own, codes=codes)
        return part

    def column(self, name: str) -> CountedColumn:
        """A column; -1 is the code of a cell without a value."""
        if name not in self._columns:
            self._columns[name] = self._read(name)
        return self._columns[name]

    def shown(self, names: Sequence[str]) -> Bools:
        """Rows with a value in each of the columns, shape (n,)."""
        shown = np.ones(len(self.counts), dtype=np.bool_)
        for name in names:
            shown &= self.column(name).shown
        return shown

    def place(self, name: str, value: Any) -> int:
        """The code of a value in a column; -2 where no row has it."""
        import pyarrow as pa

        array, column = pa.array([value]), self.column(name)
        text = canonical_text(array, column_type_of(array.type))[0].as_py()
        return column.texts.index(text) if text in column.texts else -2

    def matching(self, items: Mapping[str, Any]) -> Bools:
        """Rows with these values, shape (n,)."""
        found = np.ones(len(self.counts), dtype=np.bool_)
        for name, value in items.items():
            found &= self.column(name).codes == self.place(name, value)
        return found

    def total(self, rows: Bools) -> int:
        """Records of some rows."""
        return int(self.counts[rows].sum())

    def _read(self, name: str) -> CountedColumn:
        import pyarrow.compute as pc

        values = self._table[name].combine_chunks()
        kind = column_type_of(values.type)
        coded = canonical_text(values, kind, column=name).dictionary_encode()
        texts: list[str] = coded.dictionary.to_pylist()
        codes = np.asarray(pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
        typed = kind in ("integer", "number", "decimal", "date", "timestamp")
        ends = [_ends(text, kind) for text in texts]
        known = [pair for pair, text in zip(ends, texts, strict=True) if text not in self._blanks]
        ordered = bool(known) and all(pair is not None for pair in known)
        order = sorted(
            range(len(texts)), key=lambda at: (*((ends[at] or (INFINITE, INFINITE)) if ordered else ()), texts[at])
        )
        place = np.full(len(texts) + 1, -1, dtype=np.int64)  # the last one for cells without a value
        kept = [at for at in order if texts[at] not in self._blanks]
        place[kept] = np.arange(len(kept))
        numbers = np.array([_middle(*ends[at]) for at in kept]) if ordered else None  # type: ignore[misc]
        return CountedColumn(place[codes], [texts[at] for at in kept], numbers, typed)


def _ends(text: str, kind: str) -> tuple[Decimal, Decimal] | None:
    """The interval of a number, a date or a label of numbers; a date counts in microseconds."""
    if kind in ("date", "timestamp"):
        moment = Decimal(int(np.datetime64(text.replace("Z", "").replace(" ", "T"), "us").astype(np.int64)))
        return moment, moment
    found = interval_ends(text)
    low, high, _ = (text, text, True) if found is None else found
    try:
        ends = -INFINITE if low is None else Decimal(low), INFINITE if high is None else Decimal(high)
    except InvalidOperation:
        return None
    return None if any(end.is_nan() for end in ends) or (found is None and ends[0].is_infinite()) else ends


def _middle(low: Decimal, high: Decimal) -> float:
    """Of an interval that is open on one side the end that is known."""
    if low.is_infinite() or high.is_infinite():
        return float(high if low.is_infinite() else low)
    return float(low + (high - low) / 2)
