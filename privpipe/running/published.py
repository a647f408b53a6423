"""The record of the process that stands beside a published release, read back for who judges it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.engines import Source
from privpipe.errors import DataError
from privpipe.running.plan import READABLE, canonical_json, document_digest
from privpipe.sinks.local import METADATA
from privpipe.transforms.sampling.safepub import process_of

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["process_beside", "process_for", "verified_manifest"]


def process_for(policy: Policy, source: Source) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
    """The process record of what is judged, and notes on it; nothing where no guarantee is of a process."""
    if not any(entry.way.of_process for entry in policy.entries):
        return None, ()
    path = str(source.data) if source.is_path else ""
    if not path or "://" in path or not Path(path).is_dir():
        return None, ("a process record is read only from the folder of a published release",)
    found, why = process_beside(Path(path))
    return found, (why,) if why else ()


def process_beside(folder: Path) -> tuple[Mapping[str, Any] | None, str]:
    """The process record of a published folder, and why there is none to rely on; the public documents hold it.

    It counts only where plan, manifest and verdict name one another by their hashes and the manifest lists exactly
    the files at hand with theirs: a plan cannot be laid beside other data. Nobody signs it, so who can write the
    folder can write all of it.

    Parameters
    ----------
    folder : Path
        A release of ours; anything else has no record.

    Examples
    --------
    >>> process_beside(Path("nowhere"))
    (None, 'there is no process record beside the data')
    """
    home = folder / METADATA
    if not (home / "plan.json").is_file():
        return None, "there is no process record beside the data"
    try:
        plan, manifest, verdict = (_read(home / f"{name}.json") for name in ("plan", "manifest", "verdict"))
        wrong = _mismatch(folder, plan, manifest, verdict)
        found = None if wrong else process_of(plan["stages"])
    # Whatever is malformed was not written by a release; the reason is told, never a value.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return None, f"the process record beside the data cannot be read ({type(error).__name__})"
    if wrong:
        return None, f"the process record beside the data is not used: {wrong}"
    return found, ""


def verified_manifest(folder: Path, name: str) -> dict[str, Any]:
    """The public manifest of a folder whose files are those that were judged, by their hashes.

    Nobody signs it: it shows what was damaged or cut off on its way, not what somebody exchanged who can write there.

    Parameters
    ----------
    name : str
        What the release is called in errors.

    Raises
    ------
    DataError
        No release; files that differ, are missing or too many; documents of two runs; a run that did not pass.
    """
    home = folder / METADATA
    if not (home / "manifest.json").is_file():
        raise DataError(f"{name!r} is no release of privpipe: it has no {METADATA}/manifest.json; give the sink's path")
    try:
        manifest, verdict = (_read(home / f"{each}.json") for each in ("manifest", "verdict"))
        wrong = _other_files(folder, manifest)
        if not all(isinstance(name, str) for name in manifest["output"]["columns"]):
            wrong = "its columns have no names"
        if not isinstance(manifest["policy"].get("sink") or {}, dict):
            wrong = "its policy is none"
        if verdict["run_id"] != manifest["run_id"] or verdict["plan_hash"] != manifest["plan_hash"]:
            wrong = "the verdict is of another run"
        elif verdict["passed"] is not True:
            wrong = "the run did not pass"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        wrong = f"its documents cannot be read ({type(error).__name__})"
        manifest = {}
    if wrong:
        raise DataError(f"the release at {name!r} is not what its manifest says, so nothing of it is read: {wrong}")
    return manifest


def _read(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise TypeError("not a document")
    return document


def _mismatch(folder: Path, plan: Any, manifest: Any, verdict: Any) -> str:
    return _other_run(plan, manifest, verdict) or _other_files(folder, manifest)


def _other_run(plan: Any, manifest: Any, verdict: Any) -> str:
    """Why the three documents are not of one run that passed, or nothing."""
    if plan["plan_version"] not in READABLE:
        return "the plan has another version"
    digest = document_digest(plan)
    if canonical_json(manifest["plan"]) != canonical_json(plan) or manifest["plan_hash"] != digest:
        return "the plan is not the one of the manifest"
    if verdict["plan_hash"] != digest or verdict["run_id"] != manifest["run_id"]:
        return "the verdict is of another run"
    if verdict["passed"] is not True:
        return "the run did not pass"
    return ""


def _other_files(folder: Path, manifest: Any) -> str:
    """Why the files are not those that were judged, or nothing."""
    listed = {str(file["name"]): str(file["sha256"]) for file in manifest["output"]["files"]}
    there = sorted(path for path in folder.iterdir() if path.name != METADATA)
    if [path.name for path in there] != sorted(listed) or not all(path.is_file() for path in there):
        return "the files are not those of the manifest"
    if any(_sha256(path) != listed[path.name] for path in there):
        return "the files have changed since they were judged"
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
