"""Cells that no flat type holds (lists, structs, maps, times of day) as texts, and back: so they are carried."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.base.text_lists import is_text_list, json_of_lists

__all__ = ["CARRIED", "carried_cells", "carried_text", "is_carried"]

CARRIED: Final = "carried"
"""Among declared types: nothing looks into the column's values, and what has no logical type is carried as text."""
_CARRIED = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_map, pt.is_time, pt.is_duration)


def is_carried(kind: pa.DataType) -> bool:
    """Whether columns of a type are carried as texts: no column of the seven declared types holds them.

    Examples
    --------
    >>> is_carried(pa.list_(pa.int8())), is_carried(pa.time64("us")), is_carried(pa.int8())
    (True, True, False)
    """
    if pt.is_struct(kind):
        return not any(pt.is_union(each.type) for each in kind)
    return any(test(kind) for test in _CARRIED)


def carried_text(cells: pa.Array) -> pa.Array:
    """Each cell as JSON, the same bytes on every engine; null stays null.

    Examples
    --------
    >>> carried_text(pa.array([{"n": [1, None]}, None])).to_pylist()
    ['{"n":[1,null]}', None]
    """
    if is_text_list(cells.type):
        return json_of_lists(cells)
    plain = cells
    for kind in _steps(cells.type):
        plain = plain.cast(kind)
    found = (None if cell is None else _json(cell) for cell in plain.to_pylist())
    return pa.array(list(found), pa.string())


def carried_cells(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """What `carried_text` made, in the type that it had.

    Examples
    --------
    >>> kind = pa.list_(pa.time64("us"))
    >>> cells = pa.array([[1, None], None], kind)
    >>> carried_cells(carried_text(cells), kind).equals(cells)
    True
    """
    exact, plain = _steps(kind)
    read = _reader(plain)
    cells = pa.array([None if text is None else read(json.loads(text)) for text in texts.to_pylist()], plain)
    return cells.cast(exact).cast(kind)


def _json(cell: Any) -> str:
    return json.dumps(cell, ensure_ascii=False, separators=(",", ":"), default=_text)


def _text(held: bytes | Decimal) -> str:
    return held.decode("latin-1") if isinstance(held, bytes) else str(held)


def _steps(kind: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    """The types by which cells become what JSON holds: units and zones that engines share, then numbers."""
    return _mapped(kind, _shared), _mapped(kind, _plain)


def _mapped(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    if pt.is_map(kind):
        return pa.map_(_mapped(kind.key_type, leaf), _mapped(kind.item_type, leaf))
    if pt.is_struct(kind):
        return pa.struct([each.with_type(_mapped(each.type, leaf)) for each in kind])
    if pt.is_fixed_size_list(kind):
        return pa.list_(_mapped(kind.value_type, leaf), kind.list_size)
    if pt.is_large_list(kind):
        return pa.large_list(_mapped(kind.value_type, leaf))
    return pa.list_(_mapped(kind.value_type, leaf)) if pt.is_list(kind) else leaf(kind)


def _shared(kind: pa.DataType) -> pa.DataType:
    if pt.is_dictionary(kind):
        return _shared(kind.value_type)
    unit = "ns" if getattr(kind, "unit", "") == "ns" else "us"
    if pt.is_timestamp(kind):
        return pa.timestamp(unit, "UTC" if kind.tz else None)
    if pt.is_time(kind):
        return pa.time64(unit)
    if pt.is_duration(kind):
        return pa.duration(unit)
    return pa.date32() if pt.is_date(kind) else kind


def _plain(kind: pa.DataType) -> pa.DataType:
    kind = _shared(kind)
    if pt.is_date(kind):
        return pa.int32()
    if pt.is_temporal(kind):
        return pa.int64()
    return pa.float64() if pt.is_floating(kind) else kind


def _reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """From what JSON holds to what Arrow takes for a type: pairs of maps, bytes and decimals."""
    if pt.is_map(kind):
        key, item = _reader(kind.key_type), _reader(kind.item_type)
        return lambda pairs: None if pairs is None else [(key(left), item(right)) for left, right in pairs]
    if pt.is_struct(kind):
        fields = {each.name: _reader(each.type) for each in kind}
        return lambda held: None if held is None else {name: read(held.get(name)) for name, read in fields.items()}
    if pt.is_nested(kind):
        each = _reader(kind.value_type)
        return lambda items: None if items is None else [each(item) for item in items]
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return lambda text: None if text is None else text.encode("latin-1")
    if pt.is_decimal(kind):
        return lambda text: None if text is None else Decimal(text)
    return lambda value: value
