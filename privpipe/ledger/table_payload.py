"""What an entry of a ledger holds of a release of tables, as bytes."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from privpipe.blocks.release_history import TableRows

__all__ = ["packed_tables", "unpacked_tables"]


def packed_tables(rows: TableRows) -> bytes:
    """Definitions, cells and rows in one archive of arrays, none of which is pickled."""
    arrays: dict[str, Any] = {
        "definitions": np.frombuffer(json.dumps([dict(each) for each in rows.definitions]).encode(), dtype=np.uint8),
        "columns": np.frombuffer(json.dumps(list(rows.columns)).encode(), dtype=np.uint8),
        "persons": rows.persons,
        "leaves": rows.leaves,
        "values": rows.values,
        "present": rows.present,
    }
    for at, cells in enumerate(rows.cells):
        arrays.update({f"cells/{at}/{name}": array for name, array in cells.items()})
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def unpacked_tables(data: bytes) -> TableRows:
    """The same from its bytes.

    Raises
    ------
    ValueError, KeyError, OSError
        They are no such archive.
    """
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    definitions = tuple(json.loads(arrays["definitions"].tobytes()))
    cells = tuple(
        {
            name.split("/", 2)[2]: array
            for name, array in arrays.items()
            if name.startswith("cells/") and name.split("/", 2)[1] == str(at)
        }
        for at in range(len(definitions))
    )
    return TableRows(
        definitions=definitions,
        cells=cells,
        persons=arrays["persons"],
        leaves=arrays["leaves"],
        columns=tuple(json.loads(arrays["columns"].tobytes())),
        values=arrays["values"],
        present=arrays["present"],
    )
