"""Rows of one of several related tables by which an intruder finds too few persons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from privpipe.blocks import RowBlock
from privpipe.blocks.requests import GROUP
from privpipe.errors import UnsupportedError, UsageError
from privpipe.relations.counting import Fails, RelatedTables, person_columns
from privpipe.relations.guarantees import JointGuarantee
from privpipe.relations.related_rows import with_person
from privpipe.relations.stable_persons import persons_failing
from privpipe.transforms.suppression.class_keys import KeysDropped

__all__ = ["MOST_DISCLOSIVE", "without_disclosive_rows"]

MOST_DISCLOSIVE = 20_000_000
"""Rows of persons that go at a time: their hashes are held by the process that drives the engine."""


def without_disclosive_rows(related: RelatedTables, name: str, guarantees: Sequence[JointGuarantee]) -> Any:
    """A table without the rows that are known in some group that fails, but of persons who fail without them too.

    Who has lost a row is missing from the groups of that row, so that what is left is counted again.

    Raises
    ------
    UsageError
        No guarantee says that a row of the table is known.
    UnsupportedError
        More rows than one are known, or more go than are held.
    """
    asked = [each for each in guarantees if _known(related, name, each)]
    if not asked:
        raise UsageError(
            f"suppress_rows: no joint guarantee says that a row of {name!r} is known; leave the stage out, or give "
            f"{name!r} a place in `knows`"
        )
    census, left = related.census(), related
    for guarantee in asked:
        left.require_few(census, guarantee.knows)
    while True:
        found = [_disclosive(left, name, guarantee) for guarantee in asked]
        disclosive = pa.concat_tables(found).group_by(found[0].column_names).aggregate([])
        if not disclosive.num_rows:
            return left.tables[name]
        if disclosive.num_rows > MOST_DISCLOSIVE:
            raise UnsupportedError(
                f"suppress_rows: more than {MOST_DISCLOSIVE:,} rows of {name!r} would have to go; generalize before"
            )
        before = left.engine.count(left.tables[name])
        owned, persons = with_person(left, name)
        keys = (*persons, *left.tree.tables[name].quasi_identifiers)
        dropped = KeysDropped.of(keys, disclosive.rename_columns(list(keys)))
        kept = left.engine.map_rows(owned, dropped, owned.schema)
        left = left.having({name: left.engine.select(kept, left.tables[name].schema.names)})
        if left.engine.count(left.tables[name]) >= before:
            raise TypeError("disclosive rows were found and none of them was removed")


def _known(related: RelatedTables, name: str, guarantee: JointGuarantee) -> bool:
    known = related.knowledge(guarantee.knows)[related.tree.children.index(name)]
    if known not in (0, 1):
        raise UnsupportedError(
            f"suppress_rows: {guarantee.name()} says that {known} rows of {name!r} are known, and rows are chosen "
            "where one is; use `suppress_persons` or `generalize_jointly`, or lower `knows`"
        )
    return bool(known)


def _disclosive(related: RelatedTables, name: str, guarantee: JointGuarantee) -> pa.Table:
    """Each person's key with the quasi-identifiers of a row that makes a group of the person fail."""
    at = related.tree.children.index(name) + 1
    census = related.census()
    groups, query, facts = related.groups(guarantee.knows, guarantee.row_counts, guarantee.sensitive, census)
    failing = related.engine.keep_classes(groups, query, Fails(guarantee.score, facts))
    some = related.engine.map_rows(failing, _Some(f"{GROUP}_{at}_size"), failing.schema)
    own = [f"{GROUP}_{at}_0_{place}" for place in range(len(related.tree.tables[name].quasi_identifiers))]
    columns = [*person_columns(failing), *own]
    found = related.engine.distinct(some, columns).select(columns)
    if not found.num_rows:
        return found
    knows = {**dict(zip(related.tree.children, related.knowledge(guarantee.knows), strict=True)), name: 0}
    without = persons_failing(related, replace(guarantee, knows=knows), census)
    if not without.num_rows:
        return found
    return found.filter(~KeysDropped.of(without.column_names, without).holds(found))


@dataclass(frozen=True)
class _Some:
    """The rows in which a number is above 0."""

    column: str

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(rows.column(self.column).to_numpy(zero_copy_only=False) > 0))
