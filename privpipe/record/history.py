"""The releases of a target: when, under which policies, with which verdict, signed by whom."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privpipe.border import bordered
from privpipe.record.public_checks import chain_problems, manifest_fault
from privpipe.record.released import Released, opened_release
from privpipe.running.release_chain import chain_entry

__all__ = ["History", "history"]

TOLD = ("run_id", "created", "name", "verdict", "records", "policy_hash", "officer_policy_hash", "signed_by")


@dataclass(frozen=True)
class History:
    """What was released to a target, oldest first.

    Parameters
    ----------
    target : str
    releases : tuple of mapping
        Each with `policy_changed` and `officer_policy_changed`, which compare it with the one before.
    problems : tuple of str
        What of the chain does not fit.
    """

    target: str
    releases: tuple[Mapping[str, Any], ...]
    problems: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The document of `privpipe history --json`."""
        return {"target": self.target, "releases": list(self.releases), "problems": list(self.problems)}


@bordered
def history(target: str, records: Path | None = None) -> History:
    """The releases that stand in the chain of a target, with runs that were refused where private records are at hand.

    Parameters
    ----------
    target : str
        The path or URL of a sink.
    records : Path, optional
        Folder of the private records; left out, the one in the sink's work area where it can be read.

    Raises
    ------
    UsageError
        Nothing is published there.
    """
    with opened_release(target, records) as found:
        manifest = found.parsed("manifest")
        fault = manifest_fault(manifest)
        if manifest is None or fault:
            return History(target, tuple(_compared(_refused(found))), (fault,))
        rows = [_published(entry) for entry in manifest["releases_before"]]
        rows.append(_published(chain_entry(manifest, found.texts["manifest"])))
        # Within a second the chain's own order stands.
        every = sorted([*rows, *_refused(found)], key=lambda row: str(row["created"]))
        return History(target, tuple(_compared(every)), tuple(chain_problems(manifest)))


def _published(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: entry[name] for name in TOLD}, "published": True}


def _refused(found: Released) -> Iterator[dict[str, Any]]:
    """Runs whose private record is a verdict alone."""
    home = found.records
    for path in sorted(home.glob("*/verdict.json")) if home is not None else ():
        if (path.parent / "manifest.json").exists():
            continue
        try:
            verdict = json.loads(path.read_bytes())
            yield {
                "run_id": str(verdict["run_id"]),
                "created": _began(str(verdict["run_id"])),
                "name": str(verdict["name"]),
                "verdict": "refused",
                "records": int(verdict["records"]),
                "policy_hash": str(verdict["policy_hash"]),
                "officer_policy_hash": verdict.get("officer_policy_hash"),
                "signed_by": [],
                "published": False,
            }
        except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
            continue  # not of a run


def _began(run_id: str) -> str:
    """When a run began, by its id.

    Examples
    --------
    >>> _began("20260102T030405Z-1a2b3c4d")
    '2026-01-02T03:04:05+00:00'
    """
    return f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:{run_id[11:13]}:{run_id[13:15]}+00:00"


def _compared(rows: Any) -> Iterator[dict[str, Any]]:
    before: Mapping[str, Any] | None = None
    for row in rows:
        changed = {
            f"{name}_changed": before is not None and row[f"{name}_hash"] != before[f"{name}_hash"]
            for name in ("policy", "officer_policy")
        }
        yield {**row, **changed}
        before = row
