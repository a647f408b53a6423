"""The private records of a sink's runs in the order in which they were published, and which of them are kept."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.errors import SinkError

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.policy.specs import RetentionSpec

__all__ = ["in_order", "of_sink", "prune_records", "published_rows", "refused_runs"]

RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
PRUNED = ".pruned"
TOLD = ("run_id", "created", "name", "verdict", "records", "policy_hash", "officer_policy_hash", "signed_by")
Row = Mapping[str, Any]


def published_rows(before: Iterable[Row], last: Row) -> list[dict[str, Any]]:
    """Releases by the entries of their chain."""
    return [{**{name: entry[name] for name in TOLD}, "published": True} for entry in (*before, last)]


def refused_runs(home: Path | None) -> Iterator[dict[str, Any]]:
    """Runs whose private record is a verdict alone."""
    for path in sorted(home.glob("*/verdict.json")) if home is not None else ():
        if not RUN.fullmatch(path.parent.name) or (path.parent / "manifest.json").exists():
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


def in_order(published: Sequence[Row], refused: Iterable[Row]) -> list[Row]:
    """Releases in the order of their publication, and refused runs where they began.

    Times are whole seconds: of runs in one second the refused ones come first, so that no release is pruned for them.

    Parameters
    ----------
    published : sequence of mapping
        As the chain has them. One that waited for its sign-off was made before others that were published first.
    refused : iterable of mapping

    Examples
    --------
    >>> chain = [{"run_id": "b", "created": "02"}, {"run_id": "a", "created": "01"}]
    >>> [row["run_id"] for row in in_order(chain, [{"run_id": "c", "created": "03"}])]
    ['b', 'a', 'c']
    """
    latest = ""
    timed = [(str(row["created"]), row) for row in refused]
    for row in published:
        latest = max(latest, str(row["created"]))
        timed.append((latest, row))
    return [row for _, row in sorted(timed, key=lambda each: each[0])]


def of_sink(rows: Iterable[Row], *, shared: bool, digest: str | None = None) -> list[Row]:
    """The rows that are runs of one sink for certain.

    Parameters
    ----------
    shared : bool
        Whether other sinks may keep their records there: refused runs then belong to it by the hash of a policy that
        it has published under.
    digest : str, optional
        Hash of the policy at hand.
    """
    rows = list(rows)
    hashes = {str(row["policy_hash"]) for row in rows if row["published"]} | {digest}
    return [row for row in rows if row["published"] or not shared or row["policy_hash"] in hashes]


def prune_records(
    home: Path, rows: Sequence[Row], retention: RetentionSpec, current: str, policy: Policy | None = None
) -> list[str]:
    """Remove the private records of runs that `retention` does not keep; the runs.

    What counts over releases is elsewhere and is not touched: a ledger's entries, the draws of earlier releases, the
    chain. These records stay whatever their age: that of the release that is published, those of runs that are about to
    publish or wait for a sign-off, and the one that the policy's `plan:` names.

    Parameters
    ----------
    rows : sequence of mapping
        Of `of_sink`, in order.
    current : str
        The run whose release is published.

    Raises
    ------
    SinkError
        A record cannot be removed.
    """
    there = [row for row in rows if RUN.fullmatch(str(row["run_id"])) and (home / row["run_id"]).is_dir()]
    if retention.keep is not None:
        old = there[: max(len(there) - retention.keep, 0)]
    else:
        since = datetime.now(UTC) - timedelta(days=retention.days or 0)
        old = [row for row in there if datetime.fromisoformat(str(row["created"])) < since]
    stay = {current, *_planned(home, policy)}
    runs = [str(row["run_id"]) for row in old if row["run_id"] not in stay and not _pending(home, row["run_id"])]
    try:
        for run in runs:  # a part of a record would be taken for that of a refused run
            os.rename(home / run, home / f"{run}{PRUNED}")
        for left in home.glob(f"*{PRUNED}"):
            shutil.rmtree(left)
    except OSError as error:
        raise SinkError(f"a private record in {str(home)!r} cannot be removed: {error.strerror}") from None
    return runs


def _planned(home: Path, policy: Policy | None) -> Collection[str]:
    """The run of whose record a policy takes its plan."""
    if policy is None or policy.plan is None:
        return ()
    folder = Path(os.path.realpath(policy.plan.target(policy.base_dir))).parent
    return (folder.name,) if folder.parent == Path(os.path.realpath(home)) else ()


def _pending(home: Path, run: str) -> bool:
    return any(home.glob(f"{run}.*"))


def _began(run_id: str) -> str:
    """When a run began, by its id.

    Examples
    --------
    >>> _began("20260102T030405Z-1a2b3c4d")
    '2026-01-02T03:04:05+00:00'
    """
    return f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:{run_id[11:13]}:{run_id[13:15]}+00:00"
