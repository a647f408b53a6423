"""The releases of a target: when, under which policies, with which verdict, and who signed them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privpipe.border import bordered
from privpipe.errors import UsageError
from privpipe.policy import Policy
from privpipe.policy.specs import RetentionSpec
from privpipe.record.checks import chain_problems, manifest_fault
from privpipe.record.released import Released, opened_release
from privpipe.running.kept_records import in_order, of_sink, prune_records, published_rows, refused_runs
from privpipe.running.run_documents import chain_entry

__all__ = ["History", "history", "prune"]


@dataclass(frozen=True)
class History:
    """What was released to a target, in the order of publication.

    Parameters
    ----------
    target : str
    releases : tuple of mapping
        Each with `policy_changed` and `officer_policy_changed`, which compare it with the one before; `current`: the
        published one; and `source_changes`: columns of its source that are new, missing, widened or changed since.
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
    """The releases that are in the chain of a target, with runs that were refused where private records are at hand.

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
        return _listed(target, found)


@bordered
def prune(target: str, retention: RetentionSpec | None = None, records: Path | None = None) -> list[str]:
    """Remove private records that are not to be kept; the runs. See `prune_records` for what stays in any case.

    Parameters
    ----------
    target : str
        The path or URL of a sink, or the policy file that names it.
    retention : RetentionSpec, optional
        Default: `retention:` of the policy file.
    records : Path, optional
        Folder of the private records; left out, the one in the sink's work area.

    Raises
    ------
    UsageError
        Nothing shows what to keep, or where the records are, or the chain of releases is broken.
    """
    policy = Policy.load(target) if Path(target).is_file() else None
    retention = retention or (None if policy is None else policy.retention)
    if retention is None:
        raise UsageError("nothing states what to keep: give a policy file with `retention:`, or --keep, or --days")
    with opened_release(target, records) as found:
        listed = _listed(target, found)
        if listed.problems:
            raise UsageError(f"nothing was removed: the chain of releases is broken: {'; '.join(listed.problems)}")
        if found.records is None:
            raise UsageError("the private records are not where the sink keeps them; name their folder (--records)")
        shared = records is not None or (policy is not None and policy.records is not None)
        rows = of_sink(listed.releases, shared=shared, digest=None if policy is None else policy.digest())
        [current] = [str(row["run_id"]) for row in listed.releases if row["current"]]
        return prune_records(found.records, rows, retention, current, policy)


def _listed(target: str, found: Released) -> History:
    manifest = found.parsed("manifest")
    fault = manifest_fault(manifest)
    if manifest is None or fault:
        return History(target, tuple(_compared(refused_runs(found.records), "")), (fault,))
    rows = published_rows(manifest["releases_before"], chain_entry(manifest, found.texts["manifest"]))
    rows = [{**row, "source_changes": _changes(found, row["run_id"])} for row in rows]
    refused = (row for row in refused_runs(found.records) if row["run_id"] not in {each["run_id"] for each in rows})
    every = in_order(rows, refused)
    return History(target, tuple(_compared(every, str(rows[-1]["run_id"]))), tuple(chain_problems(manifest)))


def _changes(found: Released, run_id: str) -> dict[str, Any] | None:
    """How the columns of a run's source differ from those before; None where its private record does not say."""
    said = ((found.private(run_id) or {}).get("input") or {}).get("changes")
    return {name: each for name, each in said.items() if name != "since"} if isinstance(said, dict) else None


def _compared(rows: Any, current: str) -> Iterator[dict[str, Any]]:
    before: Mapping[str, Any] | None = None
    for row in rows:
        changed = {
            f"{name}_changed": before is not None and row[f"{name}_hash"] != before[f"{name}_hash"]
            for name in ("policy", "officer_policy")
        }
        yield {"source_changes": None, **row, **changed, "current": row["run_id"] == current}
        before = row
