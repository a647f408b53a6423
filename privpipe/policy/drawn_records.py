"""Whether the rows of a release are drawn from a model: such rows are of no person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from privpipe.policy.specs import ColumnSpec

if TYPE_CHECKING:
    from privpipe.transforms.base import Transformer

__all__ = ["drawing_stage"]


def drawing_stage(stages: Iterable[Transformer], columns: Mapping[str, ColumnSpec]) -> Transformer | None:
    """The stage that replaces all rows by new ones; None where every row stays one of the source.

    Examples
    --------
    >>> from privpipe.transforms import Synthesize
    >>> columns = {"age": ColumnSpec(role="quasi_identifier"), "name": ColumnSpec(role="identifier")}
    >>> drawing_stage([Synthesize()], columns), drawing_stage([], columns)
    (Synthesize(), None)
    """
    made = tuple(stages)
    kept = {name for stage in made if stage.taxon == "identifiers" for name in stage.masked_columns()}
    released = [
        name for name, each in columns.items() if each.role != "drop" and (each.role != "identifier" or name in kept)
    ]
    for stage in made:
        if stage.draws_records(released):
            return stage
        released += stage.made_columns()
    return None
