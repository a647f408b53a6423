"""Keys of persons in a normal form, so that a ledger recognises a person."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

__all__ = ["normalised"]


def normalised(texts: Any, steps: Sequence[str]) -> Any:
    """Texts after the declared steps, in whatever order these are named.

    Unicode is composed first and last (folding case takes characters apart), spaces go before case.

    Parameters
    ----------
    texts : pyarrow.Array or pyarrow.ChunkedArray of string
        A missing value stays missing.
    steps : sequence of {"trim", "casefold", "nfc"}

    Examples
    --------
    >>> import pyarrow as pa
    >>> normalised(pa.array([" Ann", "STRASSE", "stra\\u00dfe", None]), ["casefold", "trim"]).to_pylist()
    ['ann', 'strasse', 'strasse', None]
    >>> normalised(pa.array([" Ann"]), []).to_pylist()
    [' Ann']
    """
    import pyarrow as pa

    if not steps:
        return texts
    if isinstance(texts, pa.ChunkedArray):
        return pa.chunked_array([normalised(chunk, steps) for chunk in texts.chunks], type=pa.string())
    coded = texts.dictionary_encode()
    words = pa.array([_one(text, steps) for text in coded.dictionary.to_pylist()], type=pa.string())
    return words.take(coded.indices)


def _one(text: str, steps: Sequence[str]) -> str:
    if "nfc" in steps:
        text = unicodedata.normalize("NFC", text)
    if "trim" in steps:
        text = text.strip()
    if "casefold" in steps:
        text = text.casefold()
    return unicodedata.normalize("NFC", text) if "nfc" in steps else text
