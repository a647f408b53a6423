"""Tables of table formats, and releases in stores, are read as they are when a run begins, however often scanned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privpipe.blocks.marks import FilePath
from privpipe.blocks.parameters import marked, parameters_of
from privpipe.engines import Source
from privpipe.engines.base.lakes import pinned
from privpipe.errors import PrivpipeError
from privpipe.models.attribute.base_distribution import BaseFile
from privpipe.policy.specs import SourceSpec

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["pinned_tables", "versions_read"]

PARTS = ("source", "original", "population")


def pinned_tables(policy: Policy) -> Policy:
    """The policy with the versions that its Delta and Iceberg tables have now, and the releases; its digest stays."""
    found = {part: _pinned(spec, policy) for part in PARTS if (spec := getattr(policy, part)) is not None}
    changed: dict[str, Any] = {part: spec for part, spec in found.items() if spec is not getattr(policy, part)}
    beside = {path: version for path in _paths_beside(policy).values() if (version := _version(path)) is not None}
    if beside and not policy.versions:
        changed["versions"] = beside
    return policy.replaced(**changed) if changed else policy


def _paths_beside(policy: Policy) -> dict[str, str]:
    """By place, the paths of tables that entries name: base distributions, earlier releases, holdouts."""
    found = {}
    for section in ("guarantees", "measures"):
        for at, entry in enumerate(getattr(policy, section)):
            place = f"{section}[{at}].{entry.name()}"
            base = entry.base_distribution() if entry.needs_base else None
            if isinstance(base, BaseFile):
                found[f"{place}.base"] = base.file
            for name in marked(type(entry), FilePath):
                value = getattr(entry, name)
                for number, path in enumerate(value if isinstance(value, tuple) else ()):
                    found[f"{place}.{name}[{number}]"] = path
                if isinstance(value, str) and value not in parameters_of(type(entry))[name].marked(FilePath).words:
                    found[f"{place}.{name}"] = value
    return found


def _version(path: str) -> int | None:
    """The version that a Delta table has now; None of what is none, or is read by what is not installed."""
    try:
        return pinned(Source(data=path)).version
    except PrivpipeError:
        return None  # told by the scan


def _pinned(spec: SourceSpec, policy: Policy) -> SourceSpec:
    before = spec.to_source({}, policy.base_dir)
    if before.is_path and spec.format == "delta" and "://" in str(before.data) and policy.engine == "spark":
        return spec  # which its session alone may reach
    try:
        after = pinned(before)
    except PrivpipeError:
        return spec  # told by the scan, where this part is read at all
    if after is before:
        return spec
    if spec.iceberg is not None:
        return replace(spec, iceberg=after.data)
    if after.resolved_format != "delta":
        return replace(spec, path=str(after.data), format=after.format)
    return replace(spec, format="delta", version=after.version, timestamp=after.timestamp)


def versions_read(policy: Policy) -> dict[str, Any]:
    """The version of a Delta table or the snapshot of an Iceberg table that each part of a run was read at."""
    found = {}
    for part in PARTS:
        spec = getattr(policy, part)
        if spec is not None and spec.version is not None:
            found[part] = {"version": spec.version}
        elif spec is not None and spec.iceberg is not None:
            found[part] = {"snapshot": spec.iceberg.snapshot}
    for place, path in _paths_beside(policy).items():
        if path in policy.versions:
            found[place] = {"version": policy.versions[path]}
    return found
