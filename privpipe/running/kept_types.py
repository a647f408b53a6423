"""The types that a table keeps from its source, by what its stages did to its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privpipe.engines.base.logical_types import logical_type
from privpipe.engines.base.return_forms import ReturnForm, kept_types

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.running.staging import Staged
    from privpipe.transforms.base import Transformer

WHOLE_ROWS = ("sample", "suppress_records", "drop_identifiers")
"""Stages that leave records or columns out and change no cell."""

__all__ = ["changed_columns", "return_form", "types_kept"]


def changed_columns(stages: Sequence[Transformer], names: Sequence[str], *, exchanged: bool = True) -> set[str]:
    """Columns that may hold other values than those of the source.

    Parameters
    ----------
    names : sequence of str
        Columns of the finished table.
    exchanged : bool
        False: columns whose values are only exchanged between records are left out.

    Examples
    --------
    >>> from privpipe.transforms import RankSwap, TopCode
    >>> stages = [TopCode(columns=["age"], at=80), RankSwap(columns=["pay"], p=0.1)]
    >>> sorted(changed_columns(stages, ["age", "pay"])), changed_columns(stages, ["age", "pay"], exchanged=False)
    (['age', 'pay'], {'age'})
    """
    changed: set[str] = set()
    for stage in stages:
        if stage.draws_records(names):
            return set(names)
        if exchanged or not stage.permutes:
            changed.update((*stage.masked_columns(), *stage.named_columns(), *stage.made_columns()))
    return changed


def types_kept(found: pa.Schema, schema: pa.Schema, stages: Sequence[Transformer]) -> Mapping[str, pa.DataType]:
    """Types of a source that the columns of a finished table keep, see `kept_types`."""
    return kept_types(found, schema, changed_columns(stages, schema.names, exchanged=False))


def return_form(found: pa.Schema, staged: Staged, stages: Sequence[Transformer], **said: Any) -> ReturnForm:
    """How a staged table is returned as a frame; `found` is the schema of its source."""
    return ReturnForm(
        types=types_kept(found, staged.table.schema, stages),
        untouched=_untouched(found, staged, stages),
        labels=ReturnForm.labels_of(staged.source),
        **said,
    )


def _untouched(found: pa.Schema, staged: Staged, stages: Sequence[Transformer]) -> frozenset[str]:
    """Columns that no stage changed: of the quasi-identifiers none, where a stage recodes them without naming them."""
    released = staged.table.schema
    if any(stage.parameters().get("mark") for stage in stages):  # it blanks whole rows
        return frozenset()
    changed = changed_columns(stages, released.names)
    if any(not stage.masked_columns() and stage.name() not in WHOLE_ROWS for stage in stages):
        changed |= set(staged.roles.quasi_identifiers)
    logical = {each.name: logical_type(each.type, each.name, carried=True) for each in found}
    return frozenset(each.name for each in released if each.name not in changed and logical.get(each.name) == each.type)
