"""Published releases, read back whole as their manifest describes them, with the record of their process."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, get_args

from privpipe.border import bordered
from privpipe.engines import Source
from privpipe.engines.stores import POINTER, opened_store, release_of, whole_copy
from privpipe.errors import DataError, EngineError, UsageError, did_you_mean
from privpipe.private_files import scratch_folder
from privpipe.running.plan import READABLE, canonical_json, document_digest
from privpipe.sinks.records import file_hash
from privpipe.sinks.target import METADATA, LocalTarget, sink_faults
from privpipe.transforms.sampling.safepub import process_of

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = ["FetchedRelease", "FrameKind", "fetch", "process_beside", "read_release", "verified_manifest"]


def process_beside(folder: Path) -> tuple[Mapping[str, Any] | None, str]:
    """The process record of a published folder, and why there is none to rely on; the public documents hold it.

    It counts only where plan, manifest and verdict name one another by their hashes and the manifest lists exactly
    the files at hand with theirs: a plan cannot be put next to other data. No one signs it, so anyone who can write the
    folder can write all of it.

    Parameters
    ----------
    folder : Path
        A release of ours; anything else has no record.

    Examples
    --------
    >>> process_beside(Path("nowhere"))
    (None, 'there is no process record next to the data')
    """
    home = folder / METADATA
    if not (home / "plan.json").is_file():
        return None, "there is no process record next to the data"
    try:
        plan, manifest, verdict = (_read(home / f"{name}.json") for name in ("plan", "manifest", "verdict"))
        wrong = _mismatch(folder, plan, manifest, verdict)
        found = None if wrong else process_of(plan["stages"])
    # Whatever is malformed was not written by a release; the reason is reported, never a value.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return None, f"the process record next to the data cannot be read ({type(error).__name__})"
    if wrong:
        return None, f"the process record next to the data is not used: {wrong}"
    return found, ""


def verified_manifest(folder: Path, name: str) -> dict[str, Any]:
    """The public manifest of a folder whose files are those that were judged, by their hashes.

    It is not signed: it reveals damage and truncation, not replacement by an attacker who can write there.

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
        raise DataError(
            f"{name!r} is not a release of privpipe: it has no {METADATA}/manifest.json; give the path of the sink"
        )
    try:
        manifest, verdict = (_read(home / f"{each}.json") for each in ("manifest", "verdict"))
        wrong = _other_files(folder, manifest)
        if not all(isinstance(name, str) for name in manifest["output"]["columns"]):
            wrong = "its columns have no names"
        if not isinstance(manifest["policy"].get("sink") or {}, dict):
            wrong = "its policy is not valid"
        if verdict["run_id"] != manifest["run_id"] or verdict["plan_hash"] != manifest["plan_hash"]:
            wrong = "the verdict is of another run"
        elif verdict["passed"] is not True:
            wrong = "the run did not pass"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        wrong = f"its documents cannot be read ({type(error).__name__})"
        manifest = {}
    if wrong:
        raise DataError(f"the release at {name!r} is not what its manifest states, so nothing of it is read: {wrong}")
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
    there = sorted(path for path in folder.rglob("*") if path.relative_to(folder).parts[0] != METADATA)
    files = [path for path in there if not path.is_dir() or path.is_symlink()]
    names = [path.relative_to(folder).as_posix() for path in files]
    if sorted(names) != sorted(listed) or not all(path.is_file() for path in files):
        return "the files are not those of the manifest"
    if any(file_hash(path) != listed[name] for name, path in zip(names, files, strict=True)):
        return "the files have changed since they were judged"
    return ""


FrameKind = Literal["arrow", "pandas", "polars"]
TRIES = 4
"""A release that was replaced twice while it was copied is gone; the next try copies the newest."""


@dataclass(frozen=True)
class FetchedRelease:
    """A release that is on this machine.

    Parameters
    ----------
    path : str
        Where it is read.
    run_id : str
    files : tuple of str
        Names of its part files.
    changed : bool
        Whether it was fetched now; False: it was there already.
    """

    path: str
    run_id: str
    files: tuple[str, ...]
    changed: bool

    def to_dict(self) -> dict[str, Any]:
        """What `privpipe fetch --json` prints."""
        return {"path": self.path, "run_id": self.run_id, "files": list(self.files), "changed": self.changed}


@bordered
def fetch(url: str | os.PathLike[str], to: str | os.PathLike[str]) -> FetchedRelease:
    """Copy the published release of a sink to a folder, in one step and only if it is whole.

    The folder is published to as a sink is: a link that is switched once the copy is proved, so that its readers see
    the old release or the new one. Fetching again replaces it, or does nothing where it is the newest.

    Parameters
    ----------
    url : str or path
        A sink, or the folder of a release: ``s3://``, ``gs://``, ``abfs://`` or a local path.
    to : path
        Absent, or fetched before.

    Raises
    ------
    DataError
        No release is there, or its files are not those that its manifest lists by their SHA-256.
    EngineError
        The store cannot be reached.
    SinkError
        The folder holds something else or cannot be written.

    Examples
    --------
    >>> fetch("nowhere", "copy")
    Traceback (most recent call last):
    privpipe.errors.DataError: nothing is at 'nowhere'; check the path
    """
    with scratch_folder("fetch") as scratch:
        folder, manifest = _copied(os.fspath(url), scratch)
        run_id = str(manifest["run_id"])
        files = tuple(sorted(str(file["name"]) for file in manifest["output"]["files"]))
        with LocalTarget(Path(to)) as place:
            path = str(place.path)
            current = place.current()
            if current is not None and PurePath(current).name == run_id:
                return FetchedRelease(path, run_id, files, changed=False)
            if "/" in run_id or run_id in ("", ".", ".."):
                raise DataError(f"the manifest at {os.fspath(url)!r} does not name a run by a valid name")
            with sink_faults(path):
                shutil.copytree(folder, place.stage(run_id), dirs_exist_ok=True, copy_function=shutil.copyfile)
            verified_manifest(place.rows(run_id), os.fspath(url))
            try:
                place.publish(run_id)
            except BaseException:  # whatever stopped it, a link to half a copy must not stay
                place.withdraw(run_id)
                raise
    return FetchedRelease(path, run_id, files, changed=True)


@bordered
def read_release(
    url: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    frame: FrameKind = "arrow",
    table: str | None = None,
) -> Any:
    """The published release of a sink as a table, read by its pointer and only if its files are those that were judged.

    Parameters
    ----------
    url : str or path
        A sink, or the folder of a release: ``s3://``, ``gs://``, ``abfs://`` or a local path.
    columns : sequence of str, optional
        Default: all, in the order of the release.
    frame : {"arrow", "pandas", "polars"}
    table : str, optional
        The one that is read, of a release of several tables of cells.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame or polars.DataFrame
        Columns of CSV and JSON releases are text: those formats keep no types.

    Raises
    ------
    DataError
        There is no release; a file differs from its entry in the manifest; a column that it does not have.
    EngineError
        The store cannot be reached.

    Examples
    --------
    >>> read_release("nowhere")
    Traceback (most recent call last):
    privpipe.errors.DataError: nothing is at 'nowhere'; check the path
    """
    if frame not in get_args(FrameKind):
        raise UsageError(f"frame must be one of {', '.join(get_args(FrameKind))}, got {frame!r}")
    with scratch_folder("fetch") as scratch:
        folder, manifest = _copied(os.fspath(url), scratch)
        found = _table(folder, _of_table(manifest, table), columns)
    if frame == "pandas":
        return found.to_pandas()
    if frame == "polars":
        import polars

        return polars.from_arrow(found)
    return found


def _of_table(manifest: Mapping[str, Any], table: str | None) -> Mapping[str, Any]:
    """The manifest with the columns and the file of only one table, where the release holds tables of cells."""
    output = manifest["output"]
    tables = output.get("tables", {})
    if table is None and len(tables) < 2:
        return manifest
    if table not in tables:
        what = f"the release has no table {table!r}" if table is not None else "the release holds several tables"
        raise UsageError(f"{what}; give table= one of {', '.join(tables) or 'none, for it holds records'}")
    files = [file for file in output["files"] if _name_of_table(PurePath(file["name"])) == table]
    return {**manifest, "output": {**output, "files": files, "columns": tables[table]["columns"]}}


def _name_of_table(file: PurePath) -> str:
    """Related tables are a folder each, tables of cells a file."""
    return file.parts[0] if len(file.parts) > 1 else file.stem


def _copied(url: str, scratch: Path) -> tuple[Path, Mapping[str, Any]]:
    """A proved copy of the release that is published now, and its manifest."""
    problem: Exception | None = None
    for number in range(TRIES):
        folder = scratch / str(number)
        before = _release(url)
        try:
            with _gone(url):
                if "://" in before:
                    whole_copy(opened_store(before), folder)
                else:
                    shutil.copytree(before, folder, copy_function=shutil.copyfile)
            return folder, verified_manifest(folder, url)
        except (DataError, EngineError) as error:
            problem = error
            shutil.rmtree(folder, ignore_errors=True)
            if _release(url) == before:
                break
    assert problem is not None
    raise problem


def _release(url: str) -> str:
    """Where the release is that a sink publishes now; a folder of a release is one itself."""
    if "://" not in url and os.path.isfile(os.path.join(url, POINTER)):
        url = f"file://{os.path.abspath(url)}"  # the sink of a store that is mounted here
    if "://" not in url or url.startswith("file://"):
        path = url.removeprefix("file://")
        if not os.path.isdir(path):
            raise DataError(f"nothing is at {path!r}; check the path")
        if not os.path.isfile(os.path.join(path, POINTER)):
            return os.path.realpath(path)
        found = release_of(opened_store(f"file://{os.path.abspath(path)}"))
        return str(found).removeprefix("file://")
    store = opened_store(url)
    return release_of(store) or store.url


@contextmanager
def _gone(url: str) -> Iterator[None]:
    try:
        yield
    except (OSError, shutil.Error) as error:
        raise EngineError(
            f"{url!r} cannot be read: {getattr(error, 'strerror', None) or 'files are missing'}"
        ) from None


def _table(folder: Path, manifest: Mapping[str, Any], columns: Sequence[str] | None) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [str(name) for name in manifest["output"]["columns"]]
    for name in columns or ():
        if name not in names:
            raise DataError(f"the release has no column {name!r}{did_you_mean(name, names)}")
    wanted = list(columns) if columns is not None else names
    files = sorted(str(file["name"]) for file in manifest["output"]["files"])
    if all(name.endswith(".parquet") for name in files):
        # One file a call: a dataset would leave out names with a leading sign and look for partitions.
        parts = [_chosen(pq.ParquetFile(folder / name).read(columns=wanted), wanted) for name in files]
        return pa.concat_tables(parts)
    return _text_table(folder, manifest, wanted)


def _chosen(table: pa.Table, wanted: list[str]) -> pa.Table:
    if not set(wanted) <= set(table.column_names):
        raise DataError("the files of the release do not have the columns that its manifest names; nothing is read")
    return table.select(wanted)


def _text_table(folder: Path, manifest: Mapping[str, Any], wanted: list[str]) -> pa.Table:
    """Through the engine that writes such files: it distinguishes empty and missing cells."""
    from privpipe.engines import open_engine

    sink = manifest["policy"].get("sink") or {}
    places = {PurePath(file["name"]).parts[0] for file in manifest["output"]["files"]}
    source = Source(
        data=str(folder / places.pop() if "tables" in manifest["output"] and len(places) == 1 else folder),
        format=sink.get("format", "csv"),
        quoted_nulls=False,
        escaped_formulas=sink.get("formula_cells") == "escape",
    )
    engine = open_engine("embedded", {})
    try:
        return _chosen(engine.collect(engine.scan(source)), wanted)
    finally:
        engine.close()
