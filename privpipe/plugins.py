"""Plug-ins: entries, hierarchy builders and engines that other installed distributions bring along.

A distribution declares each as an entry point, under the name by which a policy calls it, and says for which contract
of privpipe it is made::

    [project.entry-points."privpipe.models"]
    tame_classes = "tame.models:TameClasses"

    [project.entry-points."privpipe.contract"]
    1 = "privpipe.plugins"

What is built in is found without a look at what is installed. Only a name that is not, or a request for a list,
has the metadata of distributions read; and only what is used or listed is imported. Lists leave out what is not sound;
anyone who asks for it by its name learns what is wrong.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from privpipe.errors import UsageError, escaped

__all__ = ["CONTRACT", "GROUPS", "Group", "PlugIn", "fault", "found", "has", "load", "names", "versions_of"]

CONTRACT = "1"
"""Version of what entries, builders and engines may rely on; raised by a change that breaks one."""
CONTRACTS = "privpipe.contract"
LONGEST = 200
OURS = ("privpipe", "abc", "builtins", "typing")
"""Packages of classes that no plug-in brings."""


@dataclass(frozen=True)
class Group:
    """One kind of plug-in.

    Parameters
    ----------
    kind : str
        What it is called in messages.
    base : str
        Reference to the class it must be derived from.
    built_in : tuple of str
        References to the names that are taken: those of all groups that share its names.
    """

    kind: str
    base: str
    built_in: tuple[str, ...]


_CATALOGUES = tuple(f"privpipe.{room}:CATALOGUE.taken" for room in ("models", "transforms", "measures"))
GROUPS: Mapping[str, Group] = {
    "privpipe.models": Group("privacy model", "privpipe.blocks:Guarantee", _CATALOGUES),
    "privpipe.transforms": Group("transformer", "privpipe.transforms.base:Transformer", _CATALOGUES),
    "privpipe.measures": Group("measure", "privpipe.blocks:Guarantee", _CATALOGUES),
    "privpipe.hierarchies": Group(
        "hierarchy builder", "privpipe.hierarchies.spec:DeclaredBuilder", ("privpipe.hierarchies.spec:KEYS",)
    ),
    "privpipe.engines": Group("engine", "privpipe.engines:Engine", ("privpipe.engines:ENGINES",)),
}


@dataclass(frozen=True)
class PlugIn:
    """An entry point of one of our groups.

    Parameters
    ----------
    group, name, value : str
        As declared; `value` is the reference ``module:Class``.
    distribution, version : str
        Who brings it.
    contracts : frozenset of str
        For which contracts the distribution says it is made.
    """

    group: str
    name: str
    value: str
    distribution: str
    version: str
    contracts: frozenset[str] = field(default=frozenset(), repr=False)

    def __str__(self) -> str:
        return escaped(f"plug-in {self.name!r} (entry point of {self.group}) of {self.distribution} {self.version}")

    @property
    def class_name(self) -> str:
        """The last name of the reference; no import is needed to know it."""
        return self.value.partition("[")[0].rpartition(":")[2].rpartition(".")[2].strip()


@functools.cache
def found() -> tuple[PlugIn, ...]:
    """Every plug-in of this environment, sound or not, by group, name and distribution."""
    from importlib.metadata import entry_points

    points = entry_points()
    contracts: dict[str, set[str]] = {}
    for point in points.select(group=CONTRACTS):
        contracts.setdefault(_owner(point)[0], set()).add(point.name)
    declared = [
        PlugIn(group, point.name, point.value, *_owner(point), frozenset(contracts.get(_owner(point)[0], ())))
        for group in GROUPS
        for point in points.select(group=group)
    ]
    order = list(GROUPS)
    return tuple(sorted(declared, key=lambda each: (order.index(each.group), each.name, each.distribution)))


def has(group: str, name: object) -> bool:
    """Whether a plug-in of the group has the name, sound or not."""
    return any(each.group == group and each.name == name for each in found())


def names(group: str) -> tuple[str, ...]:
    """Names of the sound plug-ins of a group, which are imported for it."""
    return tuple(each.name for each in found() if each.group == group and not fault(each))


def load(group: str, name: str) -> Any:
    """What a plug-in brings.

    Raises
    ------
    UsageError
        There is no such plug-in, or it is not sound; names distribution, group and entry point, and what to do.
    """
    for each in found():
        if (each.group, each.name) == (group, name):
            if wrong := fault(each):
                raise UsageError(wrong) from _loaded(each)[2]
            return _loaded(each)[0]
    raise UsageError(f"no installed distribution has {name!r} under {group}; `privpipe plugins` lists what there is")


def fault(plug_in: PlugIn) -> str:
    """What is wrong with a plug-in and what to do; empty where it is sound."""
    return _fault_of_name(plug_in) or _fault_of_contract(plug_in) or _loaded(plug_in)[1]


def versions_of(things: Iterable[object]) -> dict[str, str]:
    """Distributions, with their versions, that brought the classes of these things.

    Examples
    --------
    >>> versions_of([1, "text"])
    {}
    """
    classes = {owner for thing in things for owner in type(thing).__mro__}
    foreign = {(_root(owner.__module__), owner.__name__) for owner in classes if _root(owner.__module__) not in OURS}
    brought = [each for each in found() if (_root(each.value), each.class_name) in foreign] if foreign else []
    return dict(sorted({each.distribution: each.version for each in brought}.items()))


def _root(reference: str) -> str:
    return reference.partition(":")[0].partition(".")[0].strip()


def _owner(point: Any) -> tuple[str, str]:
    # Metadata without a name or version is that of a damaged installation.
    meta = point.dist.metadata if point.dist is not None else {}
    return str(meta.get("Name") or "an unknown distribution"), str(meta.get("Version") or "of unknown version")


def _fault_of_name(plug_in: PlugIn) -> str:
    group = GROUPS[plug_in.group]
    if not plug_in.name.isidentifier():
        return f"{plug_in} bears no name a policy could use; letters, digits and _ are those of one"
    if any(plug_in.name in _referred(taken) for taken in group.built_in):
        return (
            f"{plug_in} bears a name that is built into privpipe, which no plug-in may replace; uninstall "
            f"{plug_in.distribution}, or install a version of it that calls its {group.kind} otherwise"
        )
    rivals = [
        each
        for each in found()
        if each != plug_in and each.name == plug_in.name and GROUPS[each.group].built_in == group.built_in
    ]
    if rivals or found().count(plug_in) > 1:
        others = " and ".join(map(str, rivals)) or "another entry point of it"
        return f"{plug_in} and {others} bear one name, so it means nothing; uninstall all but one of them"
    return ""


def _fault_of_contract(plug_in: PlugIn) -> str:
    if CONTRACT in plug_in.contracts:
        return ""
    made = " and ".join(sorted(plug_in.contracts))
    if made:
        return (
            f"{plug_in} is made for contract {escaped(made)} of plug-ins, and this privpipe keeps contract {CONTRACT}; "
            f"install versions of {plug_in.distribution} and privpipe that fit together"
        )
    return (
        f"{plug_in} does not declare which plug-in contract it is made for; its authors declare "
        f'`{CONTRACT} = "privpipe.plugins"` under the entry points of {CONTRACTS}'
    )


@functools.cache
def _loaded(plug_in: PlugIn) -> tuple[Any, str, BaseException | None]:
    """What it brings, or what is wrong and why."""
    try:
        brought = _referred(plug_in.value.partition("[")[0].strip())
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a foreign module raises is the finding
        lines = str(error).strip().splitlines() or [""]
        why = escaped(f"{type(error).__name__}: {lines[0][:LONGEST]}")
        return None, f"{plug_in} does not load: {plug_in.value}: {why}; reinstall it or what it needs", error
    return brought, _fault_of_class(plug_in, brought), None


def _fault_of_class(plug_in: PlugIn, brought: Any) -> str:
    group = GROUPS[plug_in.group]
    base = _referred(group.base)
    if not (isinstance(brought, type) and issubclass(brought, base)):
        return f"{plug_in} is not a {group.kind}: {plug_in.value} must be a class derived from {group.base}"
    called = getattr(brought, "name", plug_in.name)
    called = called() if callable(called) else called
    if called != plug_in.name:
        return f"{plug_in} brings a {group.kind} that calls itself {called!r}; the two names must be one"
    try:
        getattr(brought, "json_schema", dict)()
    except Exception as error:  # noqa: BLE001 - one schema that cannot be made would spoil that of all policies
        return f"{plug_in} brings a {group.kind} whose parameters make no JSON schema ({type(error).__name__})"
    return ""


def _referred(reference: str) -> Any:
    """The object of ``module:attribute``, the form of entry points."""
    module, _, attribute = reference.partition(":")
    return operator.attrgetter(attribute.strip())(importlib.import_module(module.strip()))
