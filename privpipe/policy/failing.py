"""Read `failing`: where the records of failing classes are kept that stages suppress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privpipe.policy.counting import suppresses
from privpipe.policy.draft import Draft
from privpipe.policy.grammar import FAILING, FAILING_SINK
from privpipe.policy.places import Place, Report
from privpipe.policy.sections import read_keys
from privpipe.policy.specs import FailingSpec, SinkSpec, SourceSpec, located

__all__ = ["check_failing", "read_failing"]

DRAWING = ("sample", "safepub")
"""Stages by which records are left out that are of no failing class."""


def read_failing(report: Report, value: Any, place: Place) -> FailingSpec | None:
    """`failing`."""
    found = read_keys(report, value, place, FAILING)
    sink = read_keys(report, found["sink"], (*place, "sink"), FAILING_SINK) if "sink" in found else {}
    return FailingSpec(**sink) if "path" in sink else None


def check_failing(draft: Draft, report: Report) -> None:
    """Records of failing classes are those that stages suppress, and they lie apart from all that others read."""
    failing = draft.values.get("failing")
    if not isinstance(failing, FailingSpec):
        return
    stages = [stage for _, stage in draft.stages()]
    if any(read.entry is None for read in draft.transform):
        return
    if not any(suppresses(stage) and getattr(stage, "suppress_at_most", None) for stage in stages):
        report.wrong(
            ("failing",),
            "no stage suppresses failing classes, so none would be kept: add `suppress_records: {suppress_at_most: "
            "...}` with the share of the records that may go",
        )
    for read, stage in draft.stages():
        if stage.name() in DRAWING or stage.draws_records(set(draft.columns)):
            report.wrong(
                read.place, f"{read.name} leaves records out that are of no failing class; take `failing:` out"
            )
    place = ("failing", "sink", "path")
    if "://" in failing.path:
        report.wrong(place, "records that are left out lie on a local (or mounted) file system; name a folder there")
        return
    home = Path(located(failing.path, draft.base_dir))
    sink = draft.values.get("sink")
    others = {
        name: located(spec.path, draft.base_dir)
        for name in ("source", "original", "population")
        if isinstance(spec := draft.values.get(name), SourceSpec) and spec.path and "://" not in spec.path
    }
    if isinstance(sink, SinkSpec) and sink.is_folder:
        others["sink"] = sink.target(draft.base_dir)
    if isinstance(records := draft.values.get("records"), str):
        others["records"] = located(records, draft.base_dir)
    for name, path in others.items():
        other = Path(path)
        if home == other or home in other.parents or other in home.parents:
            report.wrong(place, f"overlaps with the path of `{name}:`; name a folder apart from it")
