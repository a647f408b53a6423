r"""Text cells that spreadsheet programs run as formulas, and the apostrophe that prevents it.

The escape can be undone: a text of any number of apostrophes before a sign gets one more, so that what is read back is
what was written, and classes of labels stay what they were.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["escaped_cells", "formula_cells", "restored_cells"]

SIGNS: Final = r"=+\-@\t\r"
_FORMULA: Final = f"^[{SIGNS}]"
_WRITTEN: Final = f"^('*[{SIGNS}])"
_READ: Final = f"^'('*[{SIGNS}])"


def formula_cells(cells: pa.Array) -> pa.Array:
    r"""Which texts a spreadsheet takes for a formula; false for null.

    Examples
    --------
    >>> formula_cells(pa.array(["=1+1", "-5", "+x", "@a", "\t=1", "a=1", "", None])).to_pylist()
    [True, True, True, True, True, False, False, False]
    """
    return pc.fill_null(pc.match_substring_regex(cells, _FORMULA), False)


def escaped_cells(cells: pa.Array) -> pa.Array:
    """Texts with an apostrophe before what would be a formula.

    Examples
    --------
    >>> escaped_cells(pa.array(["-5", "'-5", "5", None])).to_pylist()
    ["'-5", "''-5", '5', None]
    """
    return pc.replace_substring_regex(cells, _WRITTEN, r"'\1", max_replacements=1)


def restored_cells(cells: pa.Array) -> pa.Array:
    """What `escaped_cells` was given.

    Examples
    --------
    >>> restored_cells(pa.array(["'-5", "''-5", "5", "'a", None])).to_pylist()
    ['-5', "'-5", '5', "'a", None]
    """
    return pc.replace_substring_regex(cells, _READ, r"\1", max_replacements=1)
