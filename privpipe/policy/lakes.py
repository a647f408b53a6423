"""Read what a source says of a table format: an Iceberg table by its name, the version of a Delta table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privpipe.engines.base.lakes import IcebergName
from privpipe.errors import UsageError
from privpipe.policy.grammar import LAKES
from privpipe.policy.places import Place, Report
from privpipe.policy.specs import SourceSpec

__all__ = ["OF_ICEBERG", "check_delta", "read_iceberg"]

OF_ICEBERG = ("catalog", "snapshot", "branch", "tag")
OF_DELTA = ("version", "timestamp")


def read_iceberg(report: Report, found: Mapping[str, Any], place: Place) -> SourceSpec | None:
    """A source that is an Iceberg table, which has no files to describe."""
    for key in found:
        if key in ("path", "table"):
            report.wrong((*place, "iceberg"), f"stands beside `{key}:`; a table has one place: leave one of them out")
        elif key not in ("iceberg", "generalized", *OF_ICEBERG):
            report.wrong((*place, key), "is for files; an Iceberg table says its own columns and types")
    try:
        name = IcebergName(name=found["iceberg"], **{key: found[key] for key in OF_ICEBERG if key in found})
    except UsageError as error:
        report.wrong((*place, "iceberg"), str(error))
        return None
    return SourceSpec(iceberg=name, generalized=found.get("generalized", False))


def check_delta(report: Report, found: dict[str, Any], place: Place) -> None:
    """Keys of table formats beside a path; a version says that it is a Delta table."""
    for name in OF_ICEBERG:
        if found.pop(name, None) not in (None, LAKES[name].default):
            report.wrong((*place, name), "is for an Iceberg table, which `iceberg:` names in place of `path:`")
    said = [name for name in OF_DELTA if name in found]
    if not said:
        return
    if found.setdefault("format", "delta") != "delta":
        report.wrong((*place, said[0]), f"is for Delta tables; the format here is {found['format']}")
    if len(said) > 1:
        report.wrong((*place, "timestamp"), "stands beside `version:`; leave one of them out")
    if found.get("version", 0) < 0:
        report.wrong((*place, "version"), f"must be 0 or more, got {found['version']}")
