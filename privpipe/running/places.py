"""Where a run writes, how, and the types that its rows keep from their source."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.blocks.table_name import TableName
from privpipe.engines import Engine, Source, Written
from privpipe.engines.base.logical_types import CARRIED, is_carried, logical_type
from privpipe.engines.base.part_files import split_parts
from privpipe.engines.base.return_forms import ReturnForm, kept_types
from privpipe.errors import SinkError, UsageError
from privpipe.private_files import scratch_folder
from privpipe.roles import column_type_of
from privpipe.running.attached_source import is_bytes
from privpipe.running.run_context import RunContext
from privpipe.running.staging import Staged
from privpipe.sinks.catalogue_table import TableTarget
from privpipe.sinks.databases import DatabaseTarget
from privpipe.sinks.delta import DeltaTarget
from privpipe.sinks.iceberg import IcebergTarget
from privpipe.sinks.partition_folders import PartitionedFolder, PartitionedRemote
from privpipe.sinks.remote import RemoteTarget
from privpipe.sinks.remote_delta import RemoteDeltaTarget
from privpipe.sinks.target import LocalTarget, Rows, Target, escapes_formulas, is_remote, sink_faults

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy
    from privpipe.transforms.base import Transformer

__all__ = [
    "changed_columns",
    "clear_workplace",
    "folder_of",
    "keeps_types",
    "place_of",
    "return_form",
    "sink_format",
    "target_of",
    "types_kept",
    "workplace",
    "write_rows",
    "written_source",
]


WHOLE_ROWS = ("sample", "suppress_records", "drop_identifiers")
"""Stages that leave records or columns out and change no cell."""


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


NO_MARKS: Mapping[str, str] = {}


def sink_format(policy: Policy) -> Any:
    """Format of the released files."""
    return policy.sink.file_format if policy.sink else "parquet"


def keeps_types(policy: Policy, place: Target) -> bool:
    """Whether columns are written in the types of the source: in folders of Parquet files, which have no schema yet."""
    return type(place) in (LocalTarget, RemoteTarget) and sink_format(policy) == "parquet"


def target_of(engine: Engine, policy: Policy, target: str | None) -> Target:
    """The place to publish to: `target`, else the policy's sink.

    Raises
    ------
    UsageError
        There is none, or it is a table and the engine has no catalogue.
    """
    if target is None and policy.sink is not None and policy.sink.table is not None:
        return TableTarget(engine.resources.catalogue, policy.sink.table, policy.base_dir)
    return place_of(policy, target)


def place_of(policy: Policy, target: str | None) -> Target:
    """The same where it is not a table of an engine's catalogue."""
    sink = policy.sink
    if target is None and sink is not None and sink.iceberg is not None:
        return IcebergTarget(sink.iceberg, policy.base_dir, sink.mode, sink.schema)
    if target is None and sink is not None and sink.database is not None:
        members = () if policy.related is None else (tuple(policy.related.tables),)
        return DatabaseTarget(sink.database.within(policy.base_dir), policy.base_dir, *members)
    return folder_of(policy, target)


def folder_of(policy: Policy, target: str | None) -> LocalTarget | RemoteTarget:
    """The same where it is a folder, which needs no engine."""
    path = target or (policy.sink.path if policy.sink else "")
    if not path:
        raise UsageError("nowhere to publish to: give a `sink:` in the policy, or --target")
    sink = policy.sink
    is_delta = sink is not None and sink.format == "delta"
    by_partition = sink is not None and sink.mode == "replace_partition"
    if is_remote(path):
        if sink is not None and is_delta:
            return RemoteDeltaTarget(path, sink.mode, sink.schema)
        return PartitionedRemote(path) if by_partition else RemoteTarget(path)
    # A path of the policy starts at the policy file, one of the command line in the user's directory.
    home = Path(path) if target else policy.base_dir / path
    if sink is not None and is_delta:
        return DeltaTarget(home, sink.mode, sink.schema)
    return PartitionedFolder(home) if by_partition else LocalTarget(home)


@contextmanager
def workplace(policy: Policy, purpose: str, target: str | None = None) -> Iterator[LocalTarget]:
    """Where rows are written to be judged and removed, next to the sink as a release would be; gone at the end.

    What a killed run leaves there is removed by the next run, and by `clear_workplace`.
    """
    sink = _local_sink(policy, target)
    with ExitStack() as stack:
        sink = sink or stack.enter_context(scratch_folder(purpose)) / "rows"
        home = next(folder for folder in sink.absolute().parents if folder.is_dir())
        place = stack.enter_context(LocalTarget(home / f"{sink.name}.{purpose}"))
        try:
            yield place
        finally:
            shutil.rmtree(place.state, ignore_errors=True)


def clear_workplace(policy: Policy, purpose: str, target: str | None = None) -> None:
    """Remove the remains of killed runs in places of this purpose; a place in use stays."""
    sink = _local_sink(policy, target)
    if sink is None:
        return
    for home in sink.absolute().parents:
        left = LocalTarget(home / f"{sink.name}.{purpose}")
        if left.state.is_dir() and not left.state.is_symlink():
            with suppress(SinkError), left:
                shutil.rmtree(left.state, ignore_errors=True)


def _local_sink(policy: Policy, target: str | None) -> Path | None:
    spec = policy.sink
    path = target or ("" if spec is None or not spec.is_folder else spec.target(policy.base_dir))
    return Path(path) if path and not is_remote(path) else None


def write_rows(context: RunContext, staged: Staged, place: Rows, marks: Mapping[str, str] = NO_MARKS) -> Written:
    """Write the released rows in their keyed order, in the sink's format.

    Parameters
    ----------
    place : Path or TableName
        An empty folder, or the name of a table to be.
    marks : mapping of text to text, optional
        Properties of such a table.
    """
    if isinstance(place, TableName):
        return Written(context.engine.resources.catalogue.write(staged.table, place, staged.order, marks))
    escape, sink = escapes_formulas(context.policy), context.policy.sink
    written = context.engine.write(
        staged.table, str(place), sink_format(context.policy), staged.order, escape=escape, types=staged.types
    )
    if sink is None or not sink.partition or not isinstance(place, Path):
        return written
    with sink_faults(place):
        return replace(written, files=split_parts(place, sink.partition))


def written_source(policy: Policy, staged: Staged, place: Rows) -> Source:
    """What was written, to be read back in the types of the release."""
    # Bytes have no name among the declared types: only files that keep their own types hold them.
    types: dict[str, str] = {
        field.name: CARRIED if is_carried(staged.types.get(field.name, field.type)) else column_type_of(field.type)
        for field in staged.table.schema
        if not is_bytes(field.type)
    }
    if isinstance(place, Source):
        return replace(place, types=types)
    if not isinstance(place, Path):
        return Source(data=place, types=types)
    return Source(
        data=str(place),
        format=sink_format(policy),
        types=types,
        quoted_nulls=False,
        escaped_formulas=escapes_formulas(policy),
    )
