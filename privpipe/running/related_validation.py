"""Related tables judged together by a policy about them: finished ones, of anybody, and its own sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.base.frames import at_hand
from privpipe.engines.readers.unjudged_content import unjudged_note
from privpipe.errors import DataError, UsageError
from privpipe.judging import Assessment
from privpipe.judging.rules import metadata_notes
from privpipe.relations.counting import RelatedTables
from privpipe.relations.schema import RelatedColumns, Tree
from privpipe.running.related_staging import judged_by_columns, judged_together, related_of
from privpipe.running.run_context import OpenedEngine, RunContext, judging_rules, versions_at_work
from privpipe.running.tables_read import (
    finished_source,
    pinned_tables,
    scanned,
    source_of,
    unjudged_notes,
    without_others,
)
from privpipe.running.verbs import assess
from privpipe.sinks.local import METADATA

if TYPE_CHECKING:
    from privpipe.engines import Engine
    from privpipe.policy import Policy

__all__ = ["assess_related", "validate_related"]


def validate_related(policy: Policy, data: Any, *, engine: Any = None) -> Assessment:
    """Judge finished tables, each and together, by a policy about related tables.

    Parameters
    ----------
    data : mapping of str to path or frame, or path of a folder
        A folder holds a file or a folder for each table, by its name.

    Raises
    ------
    DataError
        A table that is not there, or one too many; tables without the keys by which they are related.
    UsageError
    """
    if policy.related is None:
        raise TypeError("the policy is about one table")
    frames = _found(policy, data)
    first = next(iter(frames.values()))
    sources = {
        name: finished_source(str(frame), own) if isinstance(frame, str | PurePath) else Source(data=frame)
        for (name, frame), own in zip(frames.items(), policy.related.tables.values(), strict=True)
    }
    with OpenedEngine(engine, first if not isinstance(first, str | PurePath) else None, policy) as opened:
        context = RunContext(opened, policy, Seed.from_os())
        tables = {name: scanned(opened, source) for name, source in sources.items()}
        alone = {
            name: _alone(opened, source, policy.related.finished(name), tables[name])
            for name, source in sources.items()
        }
        hidden = _hidden_files(data)
        judged = _judged(context, _related(context, tables, finished=True), alone)
        return judged.noting(unjudged_note({"hidden": hidden})) if hidden else judged


def assess_related(policy: Policy, data: Any, *, engine: Any = None) -> Assessment:
    """Judge related tables as `assess` does: those that are given as finished, the policy's own sources as raw.

    Raises
    ------
    DataError, UsageError
    """
    if data is not None:
        return validate_related(policy, data, engine=engine)
    if policy.related is None:
        raise TypeError("the policy is about one table")
    own = {name: pinned_tables(each) for name, each in policy.related.tables.items()}
    policy = policy.replaced(related=replace(policy.related, tables=own))
    with OpenedEngine(engine, policy, policy) as opened:
        context = RunContext(opened, policy, Seed.from_os())
        tables = {name: without_others(opened, scanned(opened, source_of(each)), each) for name, each in own.items()}
        alone = {name: _alone(opened, None, each, tables[name]) for name, each in own.items()}
        return _judged(context, _related(context, tables, finished=False), alone)


def _judged(context: RunContext, related: RelatedTables, alone: Mapping[str, Assessment]) -> Assessment:
    records = sum(context.engine.count(table) for table in related.tables.values())
    policy = context.policy
    return judged_together(context, related, alone, records, 0).within(
        name=policy.name,
        policy_hash=policy.digest(),
        engine=context.engine.name,
        versions=versions_at_work(context.engine, policy),
        nulls=policy.nulls,
        suppression_mark=policy.suppression_mark,
    )


def _alone(engine: Engine, source: Source | None, own: Policy, table: Any) -> Assessment:
    """One table by its own guarantees; by the roles of its columns where it has none."""
    if own.entries:
        return assess(source, own, engine=engine)
    gate = replace(judging_rules(own).gate, raw=source is None)
    roles = own.roles if source is None else own.released_roles
    judged = judged_by_columns(gate, table.schema.names, roles, engine.count(table))
    return judged if source is None else judged.noting(*unjudged_notes(source), *metadata_notes(source, own.metadata))


def _related(context: RunContext, tables: Mapping[str, Any], *, finished: bool) -> RelatedTables:
    asked = related_of(context)
    for name, table in tables.items():
        for key in asked.keys_of(name):
            if key not in table.schema.names:
                raise DataError(
                    f"table {name!r} has no column {key!r}: without the keys that relate them, finished tables cannot "
                    "be judged together; judge them with their keys, or publish them by `release`"
                    if finished
                    else f"table {name!r} has no column {key!r}, a key of its relations"
                )
    columns = {}
    for name, own in asked.tree.tables.items():
        policy = asked.tables[name]
        released = (policy.released_roles if finished else policy.roles).quasi_identifiers
        columns[name] = RelatedColumns(own.key, tuple(each for each in released if each in tables[name].schema.names))
    return RelatedTables(context.engine, Tree(columns, asked.tree.relations), tables, orphans=asked.orphans)


def _found(policy: Policy, data: Any) -> dict[str, Any]:
    """The tables in the order of the policy."""
    names = list(policy.related.tables) if policy.related is not None else []
    if isinstance(data, str | PurePath):
        given = _in_folder(Path(data))
    elif isinstance(data, Mapping):
        given = {
            name: each if isinstance(each, str | PurePath) else at_hand(each, "validate") for name, each in data.items()
        }
    else:
        raise UsageError(
            f"policy {policy.name!r} is about related tables: give a folder that holds them, or a mapping of names to "
            "frames"
        )
    for name in names:
        if name not in given:
            raise DataError(f"there is no table {name!r}; there are {', '.join(sorted(given)) or 'none'}")
    for name in given:
        if name not in names:
            raise DataError(f"table {name!r} is not in the policy, which knows {', '.join(names)}; leave it out")
    return {name: given[name] for name in names}


def _hidden_files(data: Any) -> int:
    """Files with content that readers of a folder get next to its tables, and that no table holds."""
    if not isinstance(data, str | PurePath):
        return 0
    hidden = [path for path in Path(data).iterdir() if path.name.startswith(".")]
    files = [file for path in hidden for file in (path.rglob("*") if path.is_dir() else (path,))]
    return sum(file.is_file() and file.stat().st_size > 0 for file in files)


def _in_folder(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise DataError("validate: there is no folder that holds a file, or a folder, for each of the related tables")
    found: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        if path.name == METADATA or path.name.startswith("."):
            continue
        name = path.name if path.is_dir() else path.name.partition(".")[0]
        if name in found:
            raise DataError(f"table {name!r} is in the folder twice, as a file and as another file or folder")
        found[name] = path
    return found
