"""The tables beside a batch: its original and its population, named in a suite and never written into it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from privpipe.draws import Seed
from privpipe.engines import Engine, Format, Source
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.gx.handle import held_under
from privpipe.roles import ColumnType, column_type_of

__all__ = ["OtherTable", "read_seed", "read_stages"]


@dataclass(frozen=True, kw_only=True)
class OtherTable:
    """Where an original or a population lies.

    Parameters
    ----------
    path : str, optional
        Files; a relative path starts at the working directory.
    handle : str, optional
        Instead: the name under which `privpipe.gx.hold` keeps a frame in this process.
    format, delimiter, header, columns, null_values
        As under `source:` in a policy.
    types : mapping of column to type, optional
        Default: CSV columns are typed as those of the batch, all others as they are.

    Examples
    --------
    >>> OtherTable.read("original_source", {"path": "census.csv", "delimiter": ";"}).delimiter
    ';'
    """

    path: str | None = None
    handle: str | None = None
    format: Format | None = None
    delimiter: str = ","
    header: bool = True
    columns: tuple[str, ...] = ()
    null_values: tuple[str, ...] = ("",)
    types: Mapping[str, ColumnType] = field(default_factory=dict)

    @classmethod
    def read(cls, owner: str, given: Any) -> OtherTable:
        """From a path, or a mapping of these parameters.

        Raises
        ------
        UsageError
            Anything else, a table itself above all: a suite holds no record.
        """
        if isinstance(given, str) and given:
            return cls(path=given)
        if not isinstance(given, Mapping):
            raise UsageError(
                f"{owner} must be a path, or a mapping with `path` or `handle`, not {type(given).__name__}; keep a "
                "frame with privpipe.gx.hold(name, frame) and write {handle: name}"
            )
        known = [each.name for each in fields(cls)]
        for name in given:
            if name not in known:
                raise UsageError(f"{owner}: unknown key {name!r}{did_you_mean(str(name), known)}")
        if wrong := _mismatch(given):
            raise UsageError(f"{owner}: {wrong}")
        read: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in given.items()}
        return cls(**read)

    def scanned(self, engine: Engine, beside: Any) -> Any:
        """Its table, typed as the batch is where it has no types of its own."""
        source = self.source()
        table = engine.scan(source)
        if not source.is_path or source.resolved_format != "csv":
            return table
        types = {
            name: kind
            for name in table.schema.names
            if name in beside.schema.names and (kind := column_type_of(beside.schema.field(name).type)) != "text"
        }
        return engine.scan(self.source(types)) if types and not self.types else table

    def source(self, types: Mapping[str, str] | None = None) -> Source:
        """The source, with declared types."""
        if self.handle is not None:
            return Source(data=held_under(self.handle), types=types or self.types)
        return Source(
            data=self.path,
            format=self.format,
            delimiter=self.delimiter,
            header=self.header,
            columns=self.columns,
            null_values=self.null_values,
            types=types or self.types,
        )


def _mismatch(given: Mapping[str, Any]) -> str:
    """What is wrong with the values of a mapping; none of them is shown."""
    if (given.get("path") is None) == (given.get("handle") is None):
        return "give `path` or `handle`, one of the two"
    for name in ("path", "handle", "delimiter"):
        if name in given and not (isinstance(given[name], str) and given[name]):
            return f"{name} must be text"
    for name in ("columns", "null_values"):
        if not _are_texts(given.get(name, [])):
            return f"{name} must be a list of texts"
    if not isinstance(given.get("header", True), bool):
        return "header must be true or false"
    if given.get("format") is not None and given["format"] not in get_args(Format):
        return f"format must be one of {', '.join(get_args(Format))}"
    if not _are_types(given.get("types", {})):
        return f"types must give columns one of {', '.join(get_args(ColumnType))}"
    return ""


def _are_texts(given: Any) -> bool:
    return isinstance(given, list | tuple) and all(isinstance(item, str) for item in given)


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
    except (OSError, ValueError, KeyError, TypeError) as error:
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
