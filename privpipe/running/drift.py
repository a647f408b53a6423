"""How the columns of a source differ from those of the run before: what is refused, and what the record says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from privpipe.engines.base.logical_types import type_name
from privpipe.errors import DataError
from privpipe.running.tables_read import run_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy

__all__ = ["SourceDrift", "is_widened"]

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
        Its engine: another one names types otherwise, so that names alone are compared.
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
            A difference that the policy does not accept; it names each column and what changed.
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
        # A type that the policy declares is its own decision, and what is dropped has none that matters.
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
        """What changed and what was dropped, in sentences for the private record."""
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
        """What the private manifest says of the source: names and types, no value."""
        compared = {"changes": {"since": self.run_id, **self.changes}} if self.before is not None else {}
        return {"schema": self.columns, **compared}


def _name_of(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return type_name(kind).removeprefix("large_")
