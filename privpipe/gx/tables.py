"""Tables that an expectation reads: handles on data of any engine, and the original or population of a batch."""

from __future__ import annotations

import itertools
import json
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, get_args

import pandas as pd

from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.engines.base.frames import at_hand
from privpipe.engines.lakes import is_lake, lake_said, pinned
from privpipe.errors import DataError, PolicyError, PrivpipeError, UsageError, did_you_mean
from privpipe.policy.grammar import SOURCE
from privpipe.policy.plain_values import Report
from privpipe.policy.sections import read_source
from privpipe.policy.specs import SourceSpec
from privpipe.roles import ColumnType, column_type_of

__all__ = [
    "COLUMN",
    "UNTYPED",
    "OtherTable",
    "handle",
    "held",
    "held_under",
    "hold",
    "let_go",
    "read_seed",
    "read_stages",
]


COLUMN = "__privpipe_handle__"
_numbers = itertools.count()
_held: dict[str, Any] = {}
_named: dict[str, Any] = {}


@bordered
def handle(data: Any) -> pd.DataFrame:
    """A one-row frame that represents a Dask frame, a path, a polars frame: anything an engine scans.

    The data stays where it is and is counted by its own engine; it is held as long as the frame lives. A table of a
    table format is read at the version that it has when the handle is made.

    Parameters
    ----------
    data : path, frame or mapping
        A mapping names a Delta or Iceberg table and one of its states, ``{"path": "visits", "version": 3}`` or
        ``{"iceberg": "db.visits", "catalog": "lake", "tag": "audited"}``.

    Examples
    --------
    >>> frame = handle("published/adult")
    >>> held(frame)
    'published/adult'
    """
    if isinstance(data, Mapping):
        data = lake_said(data, "handle")
    elif isinstance(data, str | PurePath):
        data = _at_version(data)
    token = f"handle-{next(_numbers)}"
    frame = pd.DataFrame({COLUMN: [token]})
    _held[token] = data
    weakref.finalize(frame, _held.pop, token, None)
    # The batch keeps its own frame; the data must live as long as either.
    frame.attrs["privpipe"] = _Keeper(token, data)
    return frame


def held(frame: pd.DataFrame) -> Any:
    """The data a handle represents; the frame itself when it is none.

    Raises
    ------
    DataError
        A handle of another process.
    """
    if list(frame.columns) != [COLUMN]:
        return frame
    token = str(frame[COLUMN].iloc[0])
    if token in _held:
        return _held[token]
    keeper = frame.attrs.get("privpipe")
    if isinstance(keeper, _Keeper):
        return keeper.data
    raise DataError("this handle was made in another process; make it again with privpipe.gx.tables(data)")


@bordered
def hold(name: str, data: Any) -> None:
    """Keep data under a name, by which expectations of this process find it: ``original_source={"handle": name}``.

    A suite saved with the name holds no record; who loads it in another process holds the data there again.

    Parameters
    ----------
    name : str
    data : path, frame or mapping
        Anything that `handle` takes; it stays where it is until `let_go`, or until other data takes the name.

    Examples
    --------
    >>> hold("census", "census.parquet")
    >>> held_under("census")
    'census.parquet'
    >>> let_go("census")
    """
    if not isinstance(name, str) or not name:
        raise UsageError("a handle needs a name")
    _named[name] = lake_said(data, "hold") if isinstance(data, Mapping) else data


@bordered
def let_go(name: str) -> None:
    """Forget what is held under a name; does nothing if there is none."""
    _named.pop(name, None)


def held_under(name: str) -> Any:
    """The data held under a name.

    Raises
    ------
    DataError
        None is, in this process.
    """
    if name not in _named:
        raise DataError(f"no data is held under {name!r} in this process; call privpipe.gx.hold({name!r}, data) first")
    return _named[name]


def _at_version(path: str | PurePath) -> Any:
    """The path, or the table of a table format that it is now."""
    try:
        source = Source(data=str(path))
        return pinned(source) if is_lake(source) else path
    except PrivpipeError:  # reported where the batch is read
        return path


class _Keeper:
    """Keeps the data alive in the frame's attributes; copies of a frame share it."""

    def __init__(self, token: str, data: Any) -> None:
        self.token = token
        self.data = data

    def __deepcopy__(self, memo: dict[int, Any]) -> _Keeper:
        return self

    def __repr__(self) -> str:
        return f"_Keeper({self.token})"


UNTYPED = ("csv", "json", "excel")
OF_HANDLE = {"handle", "types"}


@dataclass(frozen=True, kw_only=True)
class OtherTable:
    """Where an original or a population is.

    Parameters
    ----------
    described : SourceSpec, optional
        A table by the keys of `source:` in a policy; a relative path starts at the working directory.
    handle : str, optional
        Instead: the name under which `privpipe.gx.hold` keeps a frame in this process.
    types : mapping of column to type, optional
        Default: CSV columns are typed as those of the batch, all others unchanged.
    said : str
        What the suite states about it, which distinguishes it from others.

    Examples
    --------
    >>> OtherTable.read("original_source", {"path": "census.csv", "delimiter": ";"}).described.delimiter
    ';'
    """

    described: SourceSpec | None = field(default=None, repr=False)
    handle: str | None = None
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    said: str = ""

    @classmethod
    def read(cls, owner: str, given: Any) -> OtherTable:
        """From a path, or a mapping of the keys of `source:`, or of `handle`; with them `types`.

        Raises
        ------
        UsageError
            Anything else, a table itself above all: a suite holds no record.
        """
        if isinstance(given, str) and given:
            given = {"path": given}
        if not isinstance(given, Mapping):
            raise UsageError(
                f"{owner} must be a path, or a mapping with `path` or `handle`, not {type(given).__name__}; keep a "
                "frame with privpipe.gx.hold(name, frame) and write {handle: name}"
            )
        known = [*SOURCE, "handle", "types"]
        for name in given:
            if name not in known:
                raise UsageError(f"{owner}: unknown key {name!r}{did_you_mean(str(name), known)}")
        if wrong := _mismatch(given):
            raise UsageError(f"{owner}: {wrong}")
        said = json.dumps(given, sort_keys=True, default=list)
        types = given.get("types") or {}
        if given.get("handle") is not None:
            return cls(handle=given["handle"], types=types, said=said)
        return cls(described=_described(owner, given), types=types, said=said)

    def scanned(self, engine: Engine, beside: Any) -> Any:
        """Its table, typed as the batch is where it has no types itself."""
        source = self.source()
        table = engine.scan(source)
        if not source.is_path or source.resolved_format not in UNTYPED:
            return table
        types = {
            name: kind
            for name in table.schema.names
            if name in beside.schema.names and (kind := column_type_of(beside.schema.field(name).type)) != "text"
        }
        return engine.scan(self.source(types)) if types and not self.types else table

    def source(self, types: Mapping[str, str] | None = None) -> Source:
        """The source, with declared types."""
        if self.described is None:
            held = at_hand(held_under(self.handle or ""), "hold")
            given = types or self.types
            return replace(held, types=given) if isinstance(held, Source) else Source(data=held, types=given)
        return self.described.to_source(types or self.types, Path())

    def now(self) -> OtherTable:
        """The same table at the version that it has now, where it is one of a table format."""
        source = self.source()
        found = pinned(source)
        if found is source or self.described is None:
            return self
        if self.described.iceberg is not None:
            return replace(self, described=replace(self.described, iceberg=found.data))
        return replace(self, described=replace(self.described, format="delta", version=found.version, timestamp=None))


def _described(owner: str, given: Mapping[str, Any]) -> SourceSpec:
    """The source of a mapping, read as a policy's is."""
    keys = {name: list(item) if isinstance(item, tuple) else item for name, item in given.items() if name != "types"}
    report = Report()
    found = read_source(report, keys, (owner,))
    try:
        report.raise_if_wrong()
    except PolicyError as error:
        raise UsageError("; ".join(f"{problem.path}: {problem.message}" for problem in error.problems)) from None
    if found is None:  # what is missing was reported
        raise UsageError(f"{owner}: give `path`, `database`, `iceberg`, `table` or `handle`")
    return found


def _mismatch(given: Mapping[str, Any]) -> str:
    """What is wrong with the values of a mapping that no policy has; none of them is shown."""
    places = [name for name in ("path", "database", "iceberg", "handle") if given.get(name) is not None]
    if (
        (not places and given.get("table") is None)
        or len(places) > 1
        or ("handle" in places and set(given) - OF_HANDLE)
    ):
        return "give `path` or `handle`, one of the two (or `database`, `iceberg`, or `table` of a Spark session)"
    if "handle" in given and not (isinstance(given["handle"], str) and given["handle"]):
        return "handle must be text"
    if not _are_types(given.get("types", {})):
        return f"types must give columns one of {', '.join(get_args(ColumnType))}"
    return ""


def _are_types(given: Any) -> bool:
    return isinstance(given, Mapping) and all(kind in get_args(ColumnType) for kind in given.values())


def read_stages(path: str | None) -> tuple[Mapping[str, Any], ...]:
    """The stages of a release's own plan (``plan.json`` of its private record), for attacks that know it.

    Raises
    ------
    DataError
        There is no plan under that path, or only its public edition.
    """
    if path is None:
        return ()
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        stages = tuple({name: stage[name] for name in ("name", "parameters", "detail")} for stage in document["stages"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{Path(path).name!r} is not the plan of a release: {type(error).__name__}") from None
    if document.get("edition") == "public":
        raise DataError(
            f"{Path(path).name!r} is the public edition of a plan, which holds no learnt figure: an attack that knows "
            "the plan takes the one of the release's private record"
        )
    return stages


def read_seed(given: Mapping[str, str] | None) -> Seed:
    """The seed that fixes which records an attack samples; without one, a fresh one.

    Raises
    ------
    UsageError
        The environment variable or the file has none, or one of fewer than 128 bits.
    """
    if given is None:
        return Seed.from_os()
    if "from_env" in given:
        text = os.environ.get(given["from_env"], "")
    else:
        try:
            text = Path(given["from_file"]).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the seed file: {type(error).__name__}") from None
    if not text:
        raise UsageError("there is no seed in the environment variable or file that `seed` names")
    return Seed.of(text)
