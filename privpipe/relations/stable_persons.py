"""Persons whom too few others match, and the greatest set of persons that is stable without them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from privpipe.errors import UnsupportedError
from privpipe.relations.counting import Census, Fails, RelatedTables, person_columns
from privpipe.relations.guarantees import JointGuarantee
from privpipe.transforms.suppression.class_keys import KeysDropped

__all__ = ["MOST_SUPPRESSED", "failing_persons", "persons_failing"]

MOST_SUPPRESSED = 20_000_000
"""Persons that may be suppressed: their keys are held by the process that drives the engine."""


def failing_persons(
    related: RelatedTables, guarantees: Sequence[JointGuarantee], census: Census, enough: int | None = None
) -> pa.Table:
    """The keys of the persons that have to go.

    Parameters
    ----------
    enough : int, optional
        The search stops once more than this many have to be removed.

    Raises
    ------
    UnsupportedError
        They are more than are held.
    """
    for guarantee in guarantees:
        related.require_few(census, guarantee.knows)
    root, left, gone = related.tree.root, related, []
    many = 0
    while many < census.persons and (enough is None or many <= enough):
        found = [persons_failing(left, guarantee, census) for guarantee in guarantees]
        lost = pa.concat_tables(found).group_by(found[0].column_names).aggregate([])
        if not lost.num_rows:
            break
        many += lost.num_rows
        if many > MOST_SUPPRESSED:
            raise UnsupportedError(
                f"more than {MOST_SUPPRESSED:,} persons would have to go; generalize or cap rows before"
            )
        gone.append(lost)
        key = related.tree.tables[root].key
        dropped = KeysDropped.of(key, lost.rename_columns(list(key)))
        table = related.engine.map_rows(left.tables[root], dropped, left.tables[root].schema)
        left = left.having({root: table})
    return pa.concat_tables(gone) if gone else pa.table({})


def persons_failing(related: RelatedTables, guarantee: JointGuarantee, census: Census) -> pa.Table:
    """Keys of the persons for whom some knowledge has a group that fails a guarantee."""
    groups, query, facts = related.groups(guarantee.knows, guarantee.row_counts, guarantee.sensitive, census)
    failing = related.engine.keep_classes(groups, query, Fails(guarantee.score, facts))
    persons = person_columns(failing)
    return related.engine.distinct(failing, persons).select(list(persons))
