"""The catalogues whose entries a policy may name, and entries that a call names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from privpipe.blocks import Catalogue, Entry
from privpipe.blocks.parameters import written_call
from privpipe.errors import UsageError, did_you_mean

__all__ = ["Catalogues", "is_entry_name", "named_entries", "named_entry"]


@dataclass(frozen=True)
class Catalogues:
    """The catalogues; names are unique over them."""

    transforms: Catalogue
    models: Catalogue
    measures: Catalogue
    table_stages: Catalogue
    cell_guarantees: Catalogue
    set_stages: Catalogue
    joint_guarantees: Catalogue
    sets: bool = False
    """Whether entries are those of related tables."""

    @classmethod
    def shipped(cls) -> Catalogues:
        """Those of this package."""
        from privpipe import measures, models, relations, tables, transforms

        return cls(
            transforms.CATALOGUE,
            models.CATALOGUE,
            measures.CATALOGUE,
            tables.STAGES,
            tables.CELL_GUARANTEES,
            relations.STAGES,
            relations.JOINT_GUARANTEES,
        )

    def of_sets(self) -> Catalogues:
        """The same for the entries on related tables together."""
        return replace(self, sets=True)

    def of(self, section: str) -> tuple[Catalogue, ...]:
        """The catalogues a section of a policy draws from."""
        if self.sets:
            return (self.set_stages if section == "transform" else self.joint_guarantees,)
        if section == "transform":
            return (self.transforms, self.table_stages)
        return (self.models, self.measures, self.cell_guarantees)

    def every(self) -> tuple[Catalogue, ...]:
        """All of them."""
        return (
            *(self.transforms, self.table_stages, self.set_stages),
            *(self.models, self.measures, self.cell_guarantees, self.joint_guarantees),
        )


def is_entry_name(value: Any, section: str) -> bool:
    """Whether a text, or the one key of a mapping, is the name of an entry.

    Parameters
    ----------
    value : Any
    section : {"transform", "guarantees"}
        That of a policy where the entry would stand.

    Examples
    --------
    >>> is_entry_name({"k_anonymity": {"k": 5}}, "guarantees"), is_entry_name("release.yaml", "guarantees")
    (True, False)
    """
    name = value if isinstance(value, str) else next(iter(value), None) if _is_item(value) else None
    # A path is not a name: what is installed need not be looked at for it.
    return isinstance(name, str) and name.isidentifier() and any(name in room for room in _rooms(section))


def named_entry(value: Any, section: str, *, sets: bool = False) -> Any:
    """The entry of a name, or of an item of a policy; any other value unchanged.

    Raises
    ------
    UsageError
        A name that no entry has, a class that was not called, or parameters that are wrong.

    Examples
    --------
    >>> named_entry({"k_anonymity": {"k": 5}}, "guarantees"), named_entry("k_anonymity", "guarantees")
    (KAnonymity(k=5), KAnonymity())
    """
    if isinstance(value, type) and issubclass(value, Entry):
        raise UsageError(f"{value.__name__} is a class: call it, as in {written_call(value)}")
    if not isinstance(value, str) and not _is_item(value):
        return value
    name, parameters = (value, None) if isinstance(value, str) else next(iter(value.items()))
    rooms = _rooms(section, sets=sets)
    for room in rooms:
        if name in room:
            if not isinstance(parameters, Mapping | None):
                raise UsageError(f"{name}: the parameters of an entry are a mapping, as in {{'k': 5}}")
            return room[name].build(parameters or {})
    known = [each for room in rooms for each in room]
    kinds = ", ".join(room.kind for room in rooms)
    near = did_you_mean(str(name), known) or "; `privpipe explain` lists them"
    raise UsageError(f"unknown {kinds} {name!r}{near}")


def named_entries(given: Any, section: str) -> tuple[Any, ...] | None:
    """One entry, or a list of them, with those read that are given by name; None: it is neither.

    Raises
    ------
    UsageError
        As `named_entry`.
    """
    if isinstance(given, str | Mapping | Entry | type):
        return (named_entry(given, section),)
    if not isinstance(given, Sequence):
        return None
    return tuple(named_entry(each, section) for each in given)


def _is_item(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) == 1


def _rooms(section: str, *, sets: bool = False) -> tuple[Any, ...]:
    catalogues = Catalogues.shipped()
    return (catalogues.of_sets() if sets else catalogues).of(section)
