"""Lists of texts, which no flat format carries, as text: a JSON array, the same bytes on every engine."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["is_text_list", "json_of_lists"]

ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord(sign): "\\" + name for sign, name in zip('"\\\n\r\t\b\f', '"\\nrtbf', strict=True)
}
"""As Jackson writes them, which Spark uses."""


def is_text_list(kind: pa.DataType) -> bool:
    """Whether a source type is a list of texts; lists that are all empty have items of no type.

    Examples
    --------
    >>> is_text_list(pa.list_(pa.string())), is_text_list(pa.list_(pa.int64()))
    (True, False)
    """
    if not (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)):
        return False
    held = kind.value_type
    return bool(pt.is_null(held) or pt.is_string(held) or pt.is_large_string(held) or pt.is_string_view(held))


def json_of_lists(lists: pa.Array) -> pa.Array:
    """Each list as the text of a JSON array; null stays null.

    Examples
    --------
    >>> json_of_lists(pa.array([["milk", 'a "b"', None], [], None])).to_pylist()
    ['["milk","a \\\\"b\\\\"",null]', '[]', None]
    """
    return pa.array([None if items is None else _json(items) for items in lists.to_pylist()], pa.string())


def _json(items: list[str | None]) -> str:
    return "[" + ",".join("null" if item is None else f'"{item.translate(ESCAPES)}"' for item in items) + "]"
