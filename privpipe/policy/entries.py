"""Read lists of catalogue entries: every name and parameter comes from the catalogues, none from here."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from privpipe.blocks import Catalogue, Entry, Guarantee
from privpipe.blocks.marks import Columns, FilePath
from privpipe.blocks.parameters import marked, parameters_of
from privpipe.errors import RolesError, UsageError, did_you_mean
from privpipe.policy.places import Place, Report
from privpipe.policy.specs import ColumnSpec, located, roles_of
from privpipe.roles import Roles
from privpipe.transforms.base import Transformer

__all__ = ["Catalogues", "ReadEntry", "filled_in", "read_entries"]

FILE_KEYS = ("file", "from_file")
"""What a mapping calls the path of a file, in whatever parameter."""


@dataclass(frozen=True)
class Catalogues:
    """The catalogues; names are unique over them."""

    transforms: Catalogue
    models: Catalogue
    measures: Catalogue
    table_stages: Catalogue
    cell_guarantees: Catalogue

    @classmethod
    def shipped(cls) -> Catalogues:
        """Those of this package."""
        from privpipe import measures, models, tables, transforms

        return cls(transforms.CATALOGUE, models.CATALOGUE, measures.CATALOGUE, tables.STAGES, tables.CELL_GUARANTEES)

    def of(self, section: str) -> tuple[Catalogue, ...]:
        """The catalogues a section of a policy draws from."""
        if section == "transform":
            return (self.transforms, self.table_stages)
        return (self.models, self.measures, self.cell_guarantees)

    def every(self) -> tuple[Catalogue, ...]:
        """All of them."""
        return (self.transforms, self.table_stages, self.models, self.measures, self.cell_guarantees)


@dataclass(frozen=True)
class ReadEntry:
    """One item of a list: where it is, what it said, the entry if it was sound, and its class if there is one."""

    place: Place
    name: str
    parameters: Mapping[str, Any]
    entry: Entry | None
    kind: type[Entry] | None = None

    @property
    def at(self) -> int:
        """Its position in the list."""
        return int(self.place[1])


def read_entries(report: Report, value: Any, section: str, catalogues: Catalogues, base_dir: Path) -> list[ReadEntry]:
    """The items of `transform`, `guarantees` or `measures`; what is wrong with any is noted."""
    if not isinstance(value, list):
        report.wrong((section,), "must be a list of entries, each `- name: {parameters}`")
        return []
    return [
        _read(report, _found_from(item, base_dir), (section, at), section, catalogues, base_dir)
        for at, item in enumerate(value)
    ]


def filled_in(
    report: Report, items: Sequence[ReadEntry], columns: Mapping[str, ColumnSpec], *, population: bool
) -> list[ReadEntry]:
    """The items with what they leave to the roles of the columns, and to whether a population is given, filled in."""
    try:
        roles = roles_of(columns)
    except RolesError:  # names that differ by case alone, noted already where they are
        return list(items)
    return [_over(report, item, roles, population) for item in items]


def _over(report: Report, item: ReadEntry, roles: Roles, population: bool) -> ReadEntry:
    if not isinstance(item.entry, Guarantee):
        return item
    try:
        return replace(item, entry=item.entry.with_roles(roles).beside(population))
    except UsageError as error:
        report.wrong(item.place, str(error))
        return item


def _found_from(value: Any, base_dir: Path) -> Any:
    """The value with the files it names seen from where the program runs."""
    if isinstance(value, list):
        return [_found_from(item, base_dir) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: located(item, base_dir) if key in FILE_KEYS and isinstance(item, str) else _found_from(item, base_dir)
        for key, item in value.items()
    }


def _with_paths(entry: type[Entry], parameters: Mapping[str, Any], base_dir: Path) -> dict[str, Any]:
    """The parameters with the paths in fields of the entry seen from where the program runs."""
    words = {name: parameters_of(entry)[name].marked(FilePath).words for name in marked(entry, FilePath)}
    return {
        name: _located(value, words[name], base_dir) if name in words else value for name, value in parameters.items()
    }


def _located(value: Any, words: tuple[str, ...], base_dir: Path) -> Any:
    if isinstance(value, list):
        return [_located(each, words, base_dir) for each in value]
    return located(value, base_dir) if isinstance(value, str) and value not in words else value


def _read(report: Report, item: Any, place: Place, section: str, catalogues: Catalogues, base_dir: Path) -> ReadEntry:
    if not isinstance(item, Mapping) or len(item) != 1:
        hint = f", as in `- {item}: {{}}`" if isinstance(item, str) and item.isidentifier() else ""
        several = f"; this one has {len(item)} keys" if isinstance(item, Mapping) and item else ""
        report.wrong(place, f"an entry is a mapping with one key, its name{hint}{several}")
        return ReadEntry(place, "", {}, None)
    [(name, parameters)] = item.items()
    place = (*place, name)
    parameters = {} if parameters is None else parameters
    if not isinstance(parameters, Mapping):
        report.wrong(place, "the parameters of an entry are a mapping, as in {k: 5}")
        return ReadEntry(place, name, {}, None)
    found = _class_of(report, name, place, section, catalogues)
    if found is None:
        return ReadEntry(place, name, parameters, None)
    parameters = _with_paths(found, parameters, base_dir)
    entry = _build(report, found, parameters, place)
    if isinstance(entry, Guarantee):
        entry = entry if _threshold_fits(report, entry, place, section) else None
    return ReadEntry(place, name, parameters, entry, found)


def _class_of(report: Report, name: str, place: Place, section: str, catalogues: Catalogues) -> type[Entry] | None:
    rooms = catalogues.of(section)
    for room in rooms:
        if name in room:
            return _taken(report, room, name, place)
    for room in catalogues.every():
        if name in room:
            stages = any(room is each for each in catalogues.of("transform"))
            where = "`transform:`" if stages else "`guarantees:` or `measures:`"
            report.wrong(place, f"is a {room.kind} and stands under {where}, not under `{section}:`")
            return None
    known = [name for room in rooms for name in room]
    kinds = " or ".join(room.kind for room in rooms)
    near = did_you_mean(name, known) or f"; known: {', '.join(known)}"
    report.wrong(place, f"unknown {kinds}{near}")
    return None


def _taken(report: Report, room: Catalogue, name: str, place: Place) -> type[Entry] | None:
    try:
        return room[name]
    except UsageError as error:  # of a plug-in that is not sound
        report.wrong(place, str(error))
        return None


def _build(report: Report, entry: type[Entry], parameters: Mapping[str, Any], place: Place) -> Entry | None:
    known = [field.name for field in dataclasses.fields(entry)]  # type: ignore[arg-type]
    parameters = entry.unspelt(parameters)
    sound = not issubclass(entry, Transformer) or _columns_fit(report, entry, parameters, place)
    unknown = [name for name in parameters if name not in known]
    _tell_unknown(report, entry, unknown, known, place)
    given = {name: value for name, value in parameters.items() if name in known}
    wrong = entry.problems(given)
    for name, message in wrong.items():
        if not sound and name == _columns_key(entry):
            continue
        where, text = _blamed(name, message, known)
        report.wrong((*place, *where), text)
    if wrong or unknown or not sound:
        return None
    try:
        return entry.made_of(given)
    except UsageError as error:
        report.wrong(place, str(error))
        return None


def _tell_unknown(
    report: Report, entry: type[Entry], unknown: Sequence[str], known: Sequence[str], place: Place
) -> None:
    for name in unknown:
        if issubclass(entry, Transformer) and name == _columns_key(entry):
            continue  # said already
        near = did_you_mean(name, known) or f"; {entry.name()} takes {', '.join(known) or 'none'}"
        report.wrong((*place, name), f"unknown parameter of {entry.name()}{near}")


def _columns_fit(report: Report, stage: type[Transformer], parameters: Mapping[str, Any], place: Place) -> bool:
    """Whether the stage names its columns as its rule asks."""
    own = _columns_key(stage)
    given = parameters.get(own)
    if stage.columns_rule == "none" and own in parameters:
        report.wrong((*place, own), f"{stage.name()} takes no {own}")
        return False
    if stage.columns_rule == "required" and given is None:
        report.wrong((*place, own), f"is required: the stage names its columns, as in `{own}: [income]`")
        return False
    if isinstance(given, str) and not (given == "all" and stage.columns_rule == "optional"):
        report.wrong((*place, own), f"must be a list, also for a single column: [{given}]")
        return False
    return True


def _columns_key(entry: type[Entry]) -> str:
    """The parameter by which a stage names its columns; the usual word where it takes none."""
    return next(iter(marked(entry, Columns)), "columns")


def _blamed(name: str, message: str, known: Sequence[str]) -> tuple[tuple[str | int, ...], str]:
    """The parameter a message is about, and the message without the class it came from.

    Examples
    --------
    >>> _blamed("", "KAnonymity: k must be an integer >= 1, got 0", ["k"])
    (('k',), 'must be an integer >= 1, got 0')
    >>> _blamed("columns.0", "Input should be a valid string", ["columns"])
    (('columns', 0), 'Input should be a valid string')
    """
    if name:
        return tuple(int(part) if part.isdigit() else part for part in name.split(".")), message
    text = re.sub(r"^\w+: ", "", message)
    first, _, rest = text.partition(" ")
    parts = first.rstrip(":").split(".")
    return (tuple(parts), rest) if parts[0] in known else ((), text)


def _threshold_fits(report: Report, entry: Guarantee, place: Place, section: str) -> bool:
    """Guarantees judge and so need their threshold; measures report and must not have one."""
    field = entry.threshold_field
    if section == "measures" and not entry.binds:
        report.wrong((*place, "severity"), "a measure is reported, never judged: leave `severity` out")
        return False
    if section == "guarantees" and not entry.is_gate():
        if field is None:
            report.wrong(place, "only reports and has no threshold: it belongs under `measures:`")
            return False
        report.wrong(
            (*place, field),
            f"a guarantee needs its threshold `{field}`; without one the entry belongs under `measures:`",
        )
        return False
    if section == "measures" and entry.is_gate():
        what = (
            f"a measure is reported, never judged: leave `{field}` out" if field else "it has no form that only reports"
        )
        report.wrong((*place, field) if field else place, f"{what}, or move the entry to `guarantees:`")
        return False
    return True
