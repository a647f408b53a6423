"""Related tables that are published again: what their tables drew before is remembered by table and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import privpipe as pp
from tests.relations.test_related_release import document, tables_of


def released(folder: Path, rows: int) -> Any:
    """A set whose visits have costs with noise; `rows` of them."""
    tables = tables_of()
    visits = tables["visits"].slice(0, rows)
    costs = pa.array([float(at % 50) for at in range(rows)])
    pq.write_table(tables["patients"], folder / "patients.parquet")
    pq.write_table(visits.append_column("cost", costs), folder / "visits.parquet")
    own = document()["tables"]
    own["visits"]["columns"]["cost"] = {"role": "insensitive"}
    own["visits"]["transform"] = [{"add_noise": {"columns": ["cost"], "variance_ratio": 0.5}}]
    return pp.release(pp.Policy.from_dict(document(tables=own), folder))


def test_noise_that_is_drawn_again_for_a_table_is_noted(tmp_path: Path) -> None:
    first, same, other = (released(tmp_path, rows).assessment.source_notes for rows in (240, 240, 239))
    assert not [note for note in (*first, *same) if "independent noise" in note]
    [note] = [note for note in other if "independent noise" in note]
    assert note.startswith("'visits.cost' was released 2 times with independent noise")
