"""Categories of one or several columns as texts, their numbers, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privpipe.blocks.arrays import Ints
from privpipe.errors import DataError
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NOTHING", "Labels", "combined", "escaped", "in_value_order", "labelled", "split", "typed"]

NOTHING = "\\0"
"""A missing value as a separate category; no escaped text reads like it."""


def labelled(column: pa.Array) -> pa.Array:
    """Values as text that `typed` casts back to their type; missing ones null."""
    from privpipe.hierarchies import canonical_text

    return canonical_text(column, column_type_of(column.type))


def typed(words: pa.Array, found: pa.DataType) -> pa.Array:
    """The values of a type that `labelled` gave these texts.

    Examples
    --------
    >>> import pyarrow as pa
    >>> typed(pa.array(["2024-05-01T10:00:00"]), pa.timestamp("us", "UTC")).type
    TimestampType(timestamp[us, tz=UTC])
    """
    import pyarrow as pa

    if pa.types.is_timestamp(found) and found.tz is not None:
        words = words.cast(pa.timestamp(found.unit))  # the texts are UTC and do not say so
    return words.cast(found)


def in_value_order(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows sorted by these columns' values, nulls last."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = {
        name: table[name].cast(pa.int8()) if pa.types.is_boolean(table[name].type) else table[name] for name in columns
    }
    return table.take(pc.sort_indices(pa.table(keys), [(name, "ascending") for name in columns]))


def escaped(text: str) -> str:
    r"""A label as written in a combination: backslash and bar take a backslash before them.

    Examples
    --------
    >>> escaped("a|b")
    'a\\|b'
    """
    return text.replace("\\", "\\\\").replace("|", "\\|")


def combined(columns: Sequence[pa.Array], own_value: bool) -> pa.Array:
    """Labels of several columns as one text per record, with bars between; null where any is missing.

    Parameters
    ----------
    own_value : bool
        A missing value is the category `NOTHING` instead.

    Examples
    --------
    >>> import pyarrow as pa
    >>> combined([pa.array(["a", "b|c", None])], own_value=False).to_pylist()
    ['a', 'b\\\\|c', None]
    >>> combined([pa.array(["a", None]), pa.array(["x", "y"])], own_value=True).to_pylist()
    ['a|x', '\\\\0|y']
    """
    import pyarrow.compute as pc

    words = []
    for column in columns:
        safe = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), "|", "\\|")
        words.append(pc.fill_null(safe, NOTHING) if own_value else safe)
    return words[0] if len(words) == 1 else pc.binary_join_element_wise(*words, "|")


def split(words: pa.Array, width: int) -> list[pa.Array]:
    """The columns that `combined` made one text of.

    Examples
    --------
    >>> import pyarrow as pa
    >>> [column.to_pylist() for column in split(combined([pa.array(["a|", None]), pa.array(["x", "y"])], True), 2)]
    [['a|', None], ['x', 'y']]
    """
    import pyarrow as pa

    encoded = words.dictionary_encode()
    parts = [_parts(text, width) for text in encoded.dictionary.to_pylist()]
    return [pa.array([part[at] for part in parts], pa.string()).take(encoded.indices) for at in range(width)]


def _parts(text: str | None, width: int) -> list[str | None]:
    if text is None:
        return [None] * width
    found = re.findall(r"((?:[^\\|]|\\.)*)(?:\||$)", text, flags=re.DOTALL)[:width]
    return [None if part == NOTHING else re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in found]


@dataclass(frozen=True)
class Labels:
    """Categories in order; the position of a text is its code."""

    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(self.texts))

    @classmethod
    def counted(cls, words: pa.Array, counts: Ints) -> tuple[Self, Ints]:
        """The categories among these words in the order they first come, with their counts; nulls left out.

        Examples
        --------
        >>> import pyarrow as pa
        >>> labels, counts = Labels.counted(pa.array(["b", None, "a", "b"]), np.array([1, 9, 2, 4]))
        >>> labels.texts, counts.tolist()
        (('b', 'a'), [5, 2])
        """
        found: dict[str, int] = {}
        for word, count in zip(words.to_pylist(), counts.tolist(), strict=True):
            if word is not None:
                found[word] = found.get(word, 0) + count
        return cls(tuple(found)), np.array(list(found.values()), np.int64)

    def codes(self, words: pa.Array, named: str) -> Ints:
        """Code of each word, -1 for null.

        Raises
        ------
        DataError
            Words that are none of the categories (their count).
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        at = pc.index_in(words, value_set=pa.array(self.texts, pa.string()))
        strange = pc.sum(pc.and_(at.is_null(), words.is_valid())).as_py() or 0
        if strange:
            raise DataError(
                f"{strange:,} cells of {named} hold categories that the plan does not know; make a new plan"
            )
        return np.asarray(pc.fill_null(at, -1).to_numpy(zero_copy_only=False), np.int64)

    def words(self, codes: Ints) -> Any:
        """Texts of these codes, null for -1."""
        import pyarrow as pa

        return pa.array(self.texts, pa.string()).take(pa.array(codes, mask=codes < 0))
