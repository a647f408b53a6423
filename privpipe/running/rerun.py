"""The stages of a run once more with other sensitive values, for attacks on searches that are minimal."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.engines import Source
from privpipe.errors import NoSolutionError
from privpipe.judging.class_memory import hashed_rows, places_of
from privpipe.running.run_context import RunContext
from privpipe.running.staging import run_stages

if TYPE_CHECKING:
    from privpipe.blocks import FilePair

__all__ = ["Rerun"]

PLACE = "place of privpipe"


@dataclass(frozen=True)
class Rerun:
    """What comes out of a policy's stages for other values of a column; on the driver's data, for small tables.

    Parameters
    ----------
    context : RunContext
    original : Table
        With record ids.
    source : str
        The original's fingerprint: stages draw as they did for it, so that values alone make a difference.
    """

    context: RunContext
    original: Any
    source: str

    def __call__(self, files: FilePair, column: str, values: Sequence[Any]) -> str:
        """A fingerprint of each record's released quasi-identifiers, suppressed ones included as such."""
        import pyarrow as pa

        engine, policy, seed = self.context.engine, self.context.policy, self.context.seed
        table, ids = self._rows()
        at = places_of(ids, files.ids)
        own = table[column].to_pylist()
        for place, value in zip(at.tolist(), values, strict=True):
            own[place] = value
        names = table.schema.names
        changed = table.set_column(names.index(column), column, pa.array(own, table.schema.field(column).type))
        changed = changed.append_column(PLACE, pa.array(range(changed.num_rows), pa.int64()))
        scanned = engine.scan(Source(data=changed, types=policy.source_types))
        numbered = engine.select(engine.with_record_ids(scanned, PLACE, seed), names)
        try:
            staged = run_stages(self.context, numbered, source=self.source)
        except NoSolutionError:
            return "no solution"
        found, words = hashed_rows(engine, staged.table, list(policy.roles.quasi_identifiers), seed)
        order = np.lexsort((found[:, 1], found[:, 0]))
        return hashlib.sha256(np.ascontiguousarray(np.hstack([found, words])[order]).tobytes()).hexdigest()

    def _rows(self) -> tuple[Any, Any]:
        """All columns of the original with its ids, in the order of the ids."""
        from privpipe.judging.class_memory import gathered_rows

        return gathered_rows(self.context.engine, self.original, list(self.original.schema.names))
