"""A source, checked against its policy and the last release, and given record ids."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from privpipe.blocks import FactsRequest
from privpipe.engines import Engine
from privpipe.engines.base.logical_types import is_carried, type_name
from privpipe.errors import DataError, EngineError, UnsupportedError, did_you_mean
from privpipe.hierarchies import HierarchySpec, canonical_text
from privpipe.hierarchies.sources import FromColumns
from privpipe.roles import column_type_of
from privpipe.running.run_context import RunContext, run_columns, scanned, without_others

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy

__all__ = [
    "VALUE_BYTES",
    "SourceDrift",
    "attach",
    "is_bytes",
    "is_widened",
    "require_bytes_unjudged",
    "require_declared",
    "require_file_of_bytes",
    "require_flat",
    "require_no_refused_null",
    "require_room_for_hierarchies",
    "with_columns_read",
]


def is_bytes(kind: object) -> bool:
    """Whether a column's logical type is bytes, which no policy can declare.

    Examples
    --------
    >>> is_bytes("binary"), is_bytes("string")
    (True, False)
    """
    return str(kind) == "binary"


def require_bytes_unjudged(table: Any, policy: Policy) -> None:
    """Refuse columns of bytes that would be judged or transformed: they have no values that people compare.

    Raises
    ------
    UnsupportedError
        It names the columns.
    """
    wrong = [
        name
        for name in _bytes(table)
        if policy.columns[name].role not in ("insensitive", "identifier", "carried", "drop")
    ]
    if wrong:
        raise UnsupportedError(
            f"columns of bytes are neither quasi-identifiers nor sensitive ({', '.join(map(repr, wrong))}): give them "
            "the role insensitive or identifier, or make them text before (base64 or hexadecimal digits)"
        )


def require_file_of_bytes(table: Any, policy: Policy, written: str) -> None:
    """Refuse a sink whose format has no bytes, before anything is learnt.

    Raises
    ------
    UnsupportedError
        It names the columns.
    """
    wrong = [name for name in _bytes(table) if policy.columns[name].role in ("insensitive", "carried")]
    if wrong and written in ("csv", "json"):
        raise UnsupportedError(
            f"{written} holds no bytes ({', '.join(map(repr, wrong))}): publish as `format: parquet`, leave the "
            "columns out as identifiers, or make them text before"
        )


def require_flat(found: pa.Schema, policy: Policy) -> None:
    """Refuse columns that only Parquet files hold, before anything is learnt, where the sink is none of such files.

    Raises
    ------
    UnsupportedError
        It names the columns.
    """
    wrong = [each.name for each in found if each.name in policy.roles.carried and is_carried(each.type)]
    if wrong:
        raise UnsupportedError(
            f"lists, structs, maps and times are carried only into folders of Parquet files "
            f"({', '.join(map(repr, wrong))}): publish as `sink: {{path: ..., format: parquet}}`, or give the columns "
            "the role drop"
        )


def _bytes(table: Any) -> list[str]:
    return [field.name for field in table.schema if is_bytes(field.type)]


def with_columns_read(
    engine: Engine, table: Any, hierarchies: Mapping[str, HierarchySpec], types: Mapping[str, str]
) -> dict[str, HierarchySpec]:
    """The hierarchies, those by `from_columns` with the relations in the table.

    One count of distinct combinations for each, on every engine.

    Parameters
    ----------
    engine : Engine
    table : Table
        The source, with every column.
    hierarchies : mapping of column to HierarchySpec
    types : mapping of column to declared type

    Raises
    ------
    DataError
        A column that the table lacks.
    HierarchyError
        A value goes with several values of a level.
    """
    return {name: _read(engine, table, name, spec, types) for name, spec in hierarchies.items()}


def _read(engine: Engine, table: Any, column: str, spec: HierarchySpec, types: Mapping[str, str]) -> HierarchySpec:
    if not isinstance(spec.builder, FromColumns):
        return spec
    wanted = [column, *spec.builder.columns]
    names = table.schema.names
    for name in wanted:
        if name not in names:
            raise DataError(
                f"hierarchy of column {column!r} (from_columns): {name!r} is not in the data{did_you_mean(name, names)}"
            )
    rows = engine.distinct(table, wanted)
    texts = []
    for name in wanted:
        values = rows.column(name).combine_chunks()
        texts.append(canonical_text(values, types.get(name) or column_type_of(values.type), column=name).to_pylist())
    found: dict[str, list[tuple[str | None, ...]]] = {}
    for value, *beside in zip(*texts, strict=True):
        if value is not None:
            found.setdefault(value, []).append(tuple(beside))
    return replace(spec, builder=spec.builder.read(found, column))


WHOLE = re.compile(r"(u?)int(\d+)$")
DECIMAL = re.compile(r"decimal\d+\((\d+), (-?\d+)\)$")
FLOATS = {"halffloat": 11, "float": 24, "double": 53}
"""Bits of the whole numbers that a type of floats holds exactly."""


def is_widened(before: str, now: str) -> bool:
    """Whether a type holds every value of another one exactly, by their Arrow names.

    Examples
    --------
    >>> is_widened("int32", "int64"), is_widened("uint32", "int64"), is_widened("int32", "double")
    (True, True, True)
    >>> is_widened("decimal128(5, 2)", "decimal128(9, 2)"), is_widened("decimal128(5, 2)", "decimal128(5, 3)")
    (True, False)
    >>> is_widened("int64", "double"), is_widened("int64", "string"), is_widened("null", "string")
    (False, False, True)
    """
    if before == "null":
        return True
    if before in FLOATS or DECIMAL.match(before):
        of_decimals = DECIMAL.match(before), DECIMAL.match(now)
        if of_decimals[0] and of_decimals[1]:
            (digits, scale), (more, finer) = ((int(each[1]), int(each[2])) for each in of_decimals if each)
            return finer >= scale and more - finer >= digits - scale
        return FLOATS.get(before, 99) <= FLOATS.get(now, 0)
    (signed, bits), (signed_now, bits_now) = _whole_numbers(before), _whole_numbers(now)
    return 0 < bits <= bits_now and (signed_now or not signed)


def _whole_numbers(kind: str) -> tuple[bool, int]:
    """Whether a type has negative numbers, and the bits of the whole numbers that it holds; 0: it holds none."""
    if kind in FLOATS:
        return True, FLOATS[kind]
    found = WHOLE.match(kind)
    return (False, 0) if found is None else (not found[1], int(found[2]) - (not found[1]))


@dataclass
class SourceDrift:
    """The columns of a source, and how they differ from those that the last published run of a sink read.

    Parameters
    ----------
    before : mapping of column to type, or None
        What that run read; None: there is none, or its private record cannot be read.
    run_id : str
        That run.
    engine : str
        Its engine: another one names types otherwise, so only names are compared.
    """

    before: Mapping[str, str] | None = None
    run_id: str = ""
    engine: str = ""
    columns: dict[str, str] = field(default_factory=dict, init=False)
    changes: dict[str, Any] = field(default_factory=dict, init=False)
    dropped: list[str] = field(default_factory=list, init=False)

    @classmethod
    def since(cls, home: Path, current: str | None) -> Self:
        """Compared with the run that a sink points at, by its private record below `home`."""
        run_id = "" if current is None else current.rstrip("/").rsplit("/", 1)[-1]
        if run_id in ("", ".", ".."):
            return cls()
        try:
            manifest = json.loads((home / run_id / "manifest.json").read_bytes())
            before = {str(name): str(kind) for name, kind in manifest["input"]["schema"].items()}
            return cls(before, run_id, str(manifest["engine"]))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return cls()  # of a version that kept no schema, or not at hand

    def look(self, stored: pa.Schema, schema: pa.Schema, policy: Policy, engine: str) -> None:
        """Compare the columns of a source.

        Parameters
        ----------
        stored : pyarrow.Schema
            The types in which the source keeps its columns, where it has types.
        schema : pyarrow.Schema
            That of the table which the source was read into.
        engine : str
            Its name: types are compared between runs of one engine.

        Raises
        ------
        DataError
            A difference that the policy does not accept; it names each column and its change.
        """
        kept = {field.name: field.type for field in stored}
        self.columns = {name: _name_of(kept.get(name, schema.field(name).type)) for name in schema.names}
        self.dropped = [name for name in schema.names if name not in run_columns(schema.names, policy)]
        before = self.before
        if before is None:
            return
        differing = {
            name: [before[name], kind]
            for name, kind in self.columns.items()
            if self.engine == engine and before.get(name, kind) != kind
        }
        widened = {name: kinds for name, kinds in differing.items() if is_widened(*kinds)}
        found = {
            "new": [name for name in self.columns if name not in before],
            "missing": [name for name in before if name not in self.columns],
            "widened": widened,
            "changed": {name: kinds for name, kinds in differing.items() if name not in widened},
        }
        self.changes = {name: each for name, each in found.items() if each}
        self._require(policy)

    def _require(self, policy: Policy) -> None:
        wrong = []
        if policy.drift.new == "refuse":
            wrong += [
                f"{name!r} is new: name it under `columns:`, or write `drift: {{new: drop}}`"
                for name in self.changes.get("new", ())
                if name not in policy.columns
            ]
        # A type that the policy declares is a decision of the policy, and the type of a dropped column does not matter.
        kept = {name for name, column in policy.columns.items() if column.type is None and column.role != "drop"}
        judged = {
            what: {name: kinds for name, kinds in self.changes.get(what, {}).items() if name in kept}
            for what in ("widened", "changed")
        }
        if policy.drift.widened == "refuse":
            wrong += [
                f"{name!r} was {old} and is {new}, which is wider: write `drift: {{widened: accept}}`, or declare its "
                f"`type:` under `columns:`"
                for name, (old, new) in judged["widened"].items()
            ]
        wrong += [
            f"{name!r} was {old} and is {new}: give the source its old type again, or declare the `type:` under "
            "`columns:` that it is to be read as"
            for name, (old, new) in judged["changed"].items()
        ]
        if wrong:
            raise DataError(
                f"the source differs from that of run {self.run_id} in {len(wrong)} column(s): {'; '.join(wrong)}"
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """Changes and dropped columns, in sentences for the private record."""
        changes = [f"{what} {', '.join(map(repr, names))}" for what, names in self.changes.items()]
        told = (
            [f"the columns of the source differ from those of run {self.run_id}: {'; '.join(changes)}"]
            if changes
            else []
        )
        if self.dropped:
            told.append(f"columns that the policy does not name were dropped: {', '.join(map(repr, self.dropped))}")
        return tuple(told)

    def to_dict(self) -> dict[str, Any]:
        """What the private manifest states about the source: names and types, no value."""
        compared = {"changes": {"since": self.run_id, **self.changes}} if self.before is not None else {}
        return {"schema": self.columns, **compared}


def _name_of(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return type_name(kind).removeprefix("large_")


VALUE_BYTES = 1000
"""Bytes per distinct value while a hierarchy is built and its labels are put into arrays.

Scaled from 9 GB for 10M distinct texts; not measured at other sizes.
"""
LEAST_RECORDS = 500_000
"""No hierarchy over fewer values is worth a look."""


def require_room_for_hierarchies(engine: Engine, table: Any, policy: Policy) -> None:
    """Refuse a table in which a column with a hierarchy has more distinct values than memory can hold labels for.

    Only an engine that knows its memory, and estimates distinct values, can decide.

    Raises
    ------
    EngineError
        With the column, the memory it would need and what to change.
    """
    memory = engine.resources.memory
    if memory is None or not any(stage.searches for stage in policy.transform):
        return
    columns = [name for name in policy.hierarchies if name in table.schema.names]
    records = engine.count(table)
    if not columns or records < LEAST_RECORDS or records * VALUE_BYTES <= memory:
        return
    for name, values in engine.estimated_distinct(table, columns).items():
        needed = min(values, records) * VALUE_BYTES
        if needed > memory:
            raise EngineError(
                f"column {name!r} has some {min(values, records):,} distinct values: its hierarchy would take some "
                f"{needed / 1e9:.1f} GB of memory, and the limit is {memory / 1e9:.1f} GB. Nothing was read further. "
                f"Give {name!r} the role identifier, or shorten its values before the release (the first digits of a "
                f"code, the year of a date), or raise `memory_limit` under `engines.embedded` to "
                f"{int(1.5 * needed / 1e9) + 1}GB"
            )


def attach(context: RunContext, source: Any, *, planned: bool = False, drift: SourceDrift | None = None) -> Any:
    """The source as a table of the engine, checked against the policy's columns, with record ids.

    Raises
    ------
    DataError
        A column that the policy does not declare, or declares and the data lacks; an empty table, unless the policy
        lets one pass or a plan is at hand (`planned`); a missing value where the policy refuses them; a difference
        from the run before (`drift`) that the policy does not accept.
    EngineError
        A column with more values than memory has room for their labels.
    """
    engine, policy = context.engine, context.policy
    table = _scanned(engine, source, policy)
    if drift is not None:
        drift.look(engine.frames.schema(source), table.schema, policy, engine.name)
    table = without_others(engine, table, policy)
    require_declared(table, policy)
    require_bytes_unjudged(table, policy)
    if policy.empty != "pass" and not planned and engine.count(table) == 0:
        remedy = (
            "leave the table out of `tables:`" if policy.outer else "where a batch may be empty, write `empty: pass`"
        )
        raise DataError(f"{policy.located('source')}: the source has no records: there is nothing to judge; {remedy}")
    require_no_refused_null(engine, table, policy)
    require_room_for_hierarchies(engine, table, policy)
    return engine.with_record_ids(table, policy.record_id, context.seed)


def _scanned(engine: Engine, source: Any, policy: Policy) -> Any:
    """As `scanned`; an error about a declared column states where the policy declares it."""
    try:
        return scanned(engine, source)
    except DataError as error:
        if error.column in policy.columns:
            error.args = (f"{policy.located(f'columns.{error.column}')}: {error}",)
        raise


def require_no_refused_null(engine: Engine, table: Any, policy: Policy) -> None:
    """`nulls: refuse` concerns the source: a stage may give a missing value a label that no judge can recognise.

    Raises
    ------
    DataError
        A column in which missing values are refused has some (their number).
    """
    whole = policy.roles.quasi_identifiers if policy.nulls == "refuse" else ()
    refused = tuple(n for n, column in policy.columns.items() if n in whole or column.nulls == "refuse")
    nulls = engine.facts(table, FactsRequest(nulls=refused)).nulls if refused else {}
    for column, count in nulls.items():
        if count:
            values = "value" if count == 1 else "values"
            raise DataError(
                f"{policy.located(f'columns.{column}')}: {column!r} has {count:,} missing {values} and the policy says "
                "`nulls: refuse`; complete or leave out those records, or write `nulls: own_value` or `nulls: wildcard`"
            )


def require_declared(table: Any, policy: Policy) -> None:
    """Nothing is released by accident: every column has a role and every role has its column."""
    present, declared = list(table.schema.names), list(policy.columns)
    missing = [name for name in declared if name not in present]
    if missing:
        hint = "; is the delimiter right?" if len(present) == 1 and len(declared) > 1 else ""
        lines = [
            f"{policy.located(f'columns.{name}')}: the data has no column {name!r}{did_you_mean(name, present)}"
            for name in missing
        ]
        raise DataError("\n".join(lines) + hint)
    extra = [name for name in present if name not in declared]
    if extra:
        shown = ", ".join(f"{name!r}{did_you_mean(name, [])}" for name in extra)
        raise DataError(
            f"{policy.located('columns')}: {len(extra)} column(s) of the data have no role: {shown}; give each a "
            "role under `columns:`, take it out of the data (a named index level is a column), or write "
            '`"*": drop` there to leave out columns that the policy does not name; nothing is released by accident'
        )
