"""A catalogue entry: a frozen dataclass whose fields are its parameters everywhere: policy, Python, CLI, GX. And
catalogues: one line an entry, imported when first asked for; then what plug-ins add.

Unknown keys are refused: Pydantic passes over a key that a nested dataclass does not have; a policy must not.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import json
import re
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from privpipe import plugins
from privpipe.blocks.marks import Mark
from privpipe.blocks.parameters import (
    check_parameters,
    flat_names,
    hint_of,
    is_required,
    marked,
    parameters_of,
    refuse_call,
)
from privpipe.blocks.public_edition import PublicRules
from privpipe.errors import UsageError, did_you_mean

__all__ = ["Catalogue", "Entry", "closed", "read_floats", "read_options", "snake_case", "unknown_keys"]


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, with every object of named properties refusing others."""
    for definition in (schema, *schema.get("$defs", {}).values()):
        if "properties" in definition:
            definition["additionalProperties"] = False
    return schema


def unknown_keys(schema: Mapping[str, Any], value: Any) -> dict[str, str]:
    """What is wrong with the keys at every level below the first, by dotted path.

    Parameters
    ----------
    schema : mapping
        JSON schema of the whole, with its ``$defs``.
    value : Any
        Plain JSON value.

    Examples
    --------
    >>> inner = {"properties": {"nodes": {}}, "additionalProperties": False}
    >>> schema = {"properties": {"budget": {"$ref": "#/$defs/Budget"}}, "$defs": {"Budget": inner}}
    >>> unknown_keys(schema, {"budget": {"node": 3}})
    {'budget.node': "unknown key; did you mean 'nodes'?"}
    """
    return dict(_walk(schema, value, (), schema.get("$defs", {})))


def _walk(
    schema: Mapping[str, Any], value: Any, path: tuple[str, ...], definitions: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    if "$ref" in schema:
        schema = definitions.get(schema["$ref"].rsplit("/", 1)[-1], {})
    if "anyOf" in schema:
        schema = _branch_of_mappings(schema["anyOf"])
        yield from _walk(schema, value, path, definitions) if schema else ()
        return
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _walk(schema.get("items", {}), item, (*path, str(at)), definitions)
    elif isinstance(value, Mapping) and "properties" in schema:
        for key, item in value.items():
            if key in schema["properties"]:
                yield from _walk(schema["properties"][key], item, (*path, key), definitions)
            elif path:
                near = did_you_mean(key, schema["properties"]) or f"; known: {', '.join(schema['properties'])}"
                yield ".".join((*path, key)), f"unknown key{near}"


def _branch_of_mappings(branches: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The one branch of a union that names properties; with several, any of them may be meant, and none is taken."""
    named = [branch for branch in branches if "$ref" in branch or "properties" in branch]
    return named[0] if len(named) == 1 else {}


EXACT = 2**53
"""The greatest whole number up to which every one is a float; a greater one stays as given."""


def read_options(entry: Any) -> None:
    """Put the options that a caller gave as mappings in their place as what the fields declare.

    Raises
    ------
    UsageError
        A key that the option does not have, or one that is missing.
    """
    owner: Any = type(entry)
    for name, kind in _kinds(owner).items():
        given = getattr(entry, name)
        if isinstance(given, Mapping):
            object.__setattr__(entry, name, _read(kind, given, f"{owner.__name__}: {name}"))
    for name, kind in _kinds_of_values(owner).items():
        given, place = getattr(entry, name), f"{owner.__name__}: {name}"
        if not isinstance(given, Mapping):
            raise UsageError(f"{place} must be a mapping of names to {kind.__name__}, not {type(given).__name__}")
        read = {key: _read(kind, each, f"{place}.{key}") for key, each in given.items() if isinstance(each, Mapping)}
        strange = [key for key, each in given.items() if key not in read and not isinstance(each, kind)]
        if strange:
            raise UsageError(f"{place}.{strange[0]} must be a mapping or a {kind.__name__}")
        if read:
            object.__setattr__(entry, name, {**given, **read})


def read_floats(entry: Any) -> None:
    """Put a whole number as the float that a policy would read: draws are bound to how parameters are spelled."""
    owner: Any = type(entry)
    for name in _floats(owner):
        given = getattr(entry, name)
        if isinstance(given, int) and not isinstance(given, bool) and abs(given) <= EXACT:
            object.__setattr__(entry, name, float(given))


def _read(kind: Any, given: Mapping[str, Any], place: str) -> Any:
    known = {field.name: field for field in dataclasses.fields(kind)}
    for key in given:
        if key not in known:
            raise UsageError(f"{place}: unknown key {key!r}{did_you_mean(key, known)}; known: {', '.join(known)}")
    missing = [key for key, field in known.items() if key not in given and is_required(field)]
    if missing:
        raise UsageError(f"{place}: {', '.join(map(repr, missing))} must be given")
    return kind(**{key: _frozen(value) for key, value in given.items()})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@functools.cache
def _kinds(owner: Any) -> Mapping[str, Any]:
    """The fields that hold one dataclass or nothing, with that class; of others the entry reads mappings itself."""
    found = {}
    for field in dataclasses.fields(owner):
        kinds = [each for each in _branches(hint_of(owner, field.name)) if each not in (None, types.NoneType)]
        if len(kinds) == 1 and isinstance(kinds[0], type) and dataclasses.is_dataclass(kinds[0]):
            found[field.name] = kinds[0]
    return found


@functools.cache
def _kinds_of_values(owner: Any) -> Mapping[str, Any]:
    """The fields that hold a mapping of names to one dataclass, with that class."""
    found = {}
    for field in dataclasses.fields(owner):
        for each in _branches(hint_of(owner, field.name)):
            if typing.get_origin(each) is dict and dataclasses.is_dataclass(kind := typing.get_args(each)[1]):
                found[field.name] = kind
    return found


@functools.cache
def _floats(owner: Any) -> tuple[str, ...]:
    """The fields that hold a float and no integer."""
    kinds = {field.name: list(_branches(hint_of(owner, field.name))) for field in dataclasses.fields(owner)}
    return tuple(name for name, found in kinds.items() if float in found and int not in found)


def _branches(hint: Any) -> Iterator[Any]:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        yield from _branches(typing.get_args(hint)[0])
    elif origin in (types.UnionType, typing.Union):
        for each in typing.get_args(hint):
            yield from _branches(each)
    else:
        yield hint


def snake_case(name: str) -> str:
    """The catalogue's spelling of a class name.

    Examples
    --------
    >>> [snake_case(name) for name in ("KAnonymity", "RecursiveCLDiversity", "TCloseness", "EstimatedKMap")]
    ['k_anonymity', 'recursive_cl_diversity', 't_closeness', 'estimated_k_map']
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class Entry:
    """Base of models, transformers and measures; subclasses are frozen, keyword-only dataclasses.

    A field's annotation declares everything about a parameter (`privpipe.blocks.parameters`): its type, its range, a
    line of text for `explain`, the JSON schema and the site's pages, and what it names; it is checked at construction.
    `threat` describes against what the entry guards, `formula` what it computes and `choose` how to pick its
    parameters: the text of ``privpipe explain``. One that `forbids_counts` of the source lets no public document reveal
    how many records came in or were suppressed.
    """

    source: ClassVar[str] = ""
    threat: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    choose: ClassVar[str] = ""
    forbids_counts: ClassVar[bool] = False
    withheld: ClassVar[tuple[str, ...]] = ()
    """Parameters that no public document shows."""
    spelt: ClassVar[Mapping[str, str]] = {}
    """Words of Python that a policy may write for a field."""
    over_frame: ClassVar[str] = ""
    """How an instance is used with a frame, for the error of a call that gives one to the class."""

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Refuse parameters by place, and unknown ones.

        Raises
        ------
        UsageError
            With the call as it should be.
        """
        refuse_call(cls, given, named, cls.over_frame)
        return super().__new__(cls)

    def __init_subclass__(cls, **given: Any) -> None:
        """Have the docstring name the source where it does not do so itself."""
        super().__init_subclass__(**given)
        if cls.__doc__ and cls.source and "Source: " not in cls.__doc__:
            cls.__doc__ = _with_source(cls.__doc__, cls.source)

    def __post_init__(self) -> None:
        """Hold the parameters to their annotations; a subclass with its own checks calls this first.

        Raises
        ------
        UsageError
            A value of another type, or out of its range.
        """
        read_options(self)
        check_parameters(self)
        read_floats(self)

    @classmethod
    def name(cls) -> str:
        """The snake_case name by which a policy calls the entry."""
        return snake_case(cls.__name__)

    @classmethod
    def summary(cls) -> str:
        """First line of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    @classmethod
    def descriptions(cls) -> dict[str, str]:
        """A line on every parameter that has one."""
        return {name: each.text for name, each in parameters_of(cls).items() if each.text}

    def marked(self, mark: type[Mark]) -> tuple[Any, ...]:
        """Values of the fields with a mark, except those left out."""
        values = (getattr(self, name) for name in marked(type(self), mark))
        return tuple(value for value in values if value is not None)

    def columns_marked(self, mark: type[Mark]) -> tuple[str, ...]:
        """Names of columns in the fields with a mark: lists of lists flattened, keys of mappings."""
        return tuple(flat_names(self.marked(mark)))

    def parameters(self) -> dict[str, Any]:
        """Parameters by name, defaults included; None and the empty list only where they are not the default."""
        values = ((field, getattr(self, field.name)) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return {
            field.name: value
            for field, value in values
            if not ((value is None or value == ()) and value == field.default)
        }

    @classmethod
    def build(cls, parameters: Mapping[str, Any]) -> Self:
        """The entry from a policy's mapping.

        Raises
        ------
        UsageError
            An unknown, missing or ill-typed parameter, or a value out of range.
        """
        problems = cls.problems(parameters)
        if problems:
            raise UsageError(f"{cls.name()}: " + "; ".join(f"{key}: {text}" for key, text in problems.items()))
        return cls.made_of(parameters)

    @classmethod
    def made_of(cls, parameters: Mapping[str, Any]) -> Self:
        """The entry from parameters in which `problems` found none."""
        given = cls.unspelt(parameters)
        return _validator(cls).validate_json(_as_json(given), strict=True)  # type: ignore[no-any-return, arg-type]

    @classmethod
    def unspelt(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters by the names of the fields; a field that is given twice keeps the policy's word too."""
        return {
            cls.spelt[name] if name in cls.spelt and cls.spelt[name] not in parameters else name: value
            for name, value in parameters.items()
        }

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> dict[str, str]:
        """What is wrong with these parameters, by parameter; empty when `build` will take them."""
        from pydantic import ValidationError

        parameters = cls.unspelt(parameters)
        known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        found = {
            key: f"unknown parameter of {cls.name()}{did_you_mean(key, known)}"
            for key in parameters
            if key not in known
        }
        if found:
            return found
        try:
            _validator(cls).validate_json(_as_json(parameters), strict=True)  # type: ignore[arg-type]
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                place = [part for part in detail["loc"] if not _is_union_branch(part)]
                found.setdefault(".".join(map(str, place)), _message(detail))
        except UsageError as error:
            found[""] = str(error)
        if any(isinstance(value, Mapping | list) for value in parameters.values()):
            found = unknown_keys(_schema(cls), parameters) | found  # type: ignore[arg-type]
        return found

    def packages(self) -> dict[str, str]:
        """Packages beyond the core that it needs with these parameters, each with the extra that brings it."""
        return {}

    def solves_programs(self) -> bool:
        """Whether with these parameters it hands integer programs to a solver."""
        return False

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """JSON schema of the parameters."""
        schema: dict[str, Any] = {"properties": {}, **_adapter(cls).json_schema()}  # type: ignore[arg-type]
        for name, text in cls.descriptions().items():
            if name in schema.get("properties", {}):
                schema["properties"][name].setdefault("description", text)
        for word, name in cls.spelt.items():
            schema["properties"][word] = schema["properties"][name]
        return closed(schema)

    @classmethod
    def examples(cls) -> list[Self]:
        """Instances for the tests common to all entries: passing, failing and edge parameters."""
        raise LookupError(f"{cls.__name__} declares no examples")

    def discloses_source(self, rules: PublicRules) -> bool:
        """Whether its figure may rest on more than the policy and the released table: then it is not public."""
        return True

    @classmethod
    def counts_records(cls) -> bool:
        """Whether its figures are numbers or shares of records."""
        return "measures.risk." in cls.__module__

    def __repr__(self) -> str:
        shown = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            made = field.default_factory
            default = field.default if made is dataclasses.MISSING else made()
            if field.repr and value != default:
                shown.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _with_source(text: str, source: str) -> str:
    """A docstring, without its indentation, whose notes end with the source.

    Examples
    --------
    >>> print(_with_source("One line.\\n\\n    Examples\\n    --------", "A book"))
    One line.
    <BLANKLINE>
    Notes
    -----
    Source: A book.
    <BLANKLINE>
    Examples
    --------
    """
    before, examples, after = inspect.cleandoc(text).partition("\nExamples\n")
    notes = "" if "\nNotes\n" in before else "Notes\n-----\n"
    said = textwrap.fill(f"Source: {source}.", 116)
    return f"{before.rstrip()}\n\n{notes}{said}\n{examples}{after}"


@functools.cache
def _schema(cls: Any) -> Any:
    """For looking at alone."""
    return cls.json_schema()


@functools.cache
def _adapter(cls: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


@functools.cache
def _validator(cls: Any) -> Any:
    """Reads types alone: ranges are refused by the entry itself, in the same words, no matter who builds it."""
    from pydantic_core import SchemaValidator

    return SchemaValidator(_without_bounds(_adapter(cls).core_schema))


def _without_bounds(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(map(_without_bounds, schema))
    if not isinstance(schema, dict):
        return schema
    bounds = ("ge", "gt", "le", "lt") if schema.get("type") in ("int", "float") else ()
    return {key: _without_bounds(value) for key, value in schema.items() if key not in bounds}


def _as_json(parameters: Mapping[str, Any]) -> str:
    try:
        return json.dumps(parameters)
    except TypeError as error:
        raise UsageError(f"parameters must be plain text, numbers, lists and mappings: {error}") from None


def _is_union_branch(part: object) -> bool:
    return isinstance(part, str) and not part.isidentifier()


def _message(detail: Mapping[str, Any]) -> str:
    if detail["type"] == "missing":
        return "is required"
    if detail["type"] == "unexpected_keyword_argument":
        return "unknown parameter"
    wanted = KINDS.get(detail["type"])
    return f"must be {wanted}, not {_kind_of(detail['input'])}" if wanted else str(detail["msg"])


KINDS = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
}
"""What pydantic asks for, in the words of the policy reader."""


def _kind_of(value: object) -> str:
    """What a value of a policy is; never the value, which may be a key.

    Examples
    --------
    >>> _kind_of("five"), _kind_of(None), _kind_of([1]), _kind_of(True)
    ('a text', 'nothing', 'a list', 'true or false')
    """
    kinds = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", type(None): "nothing"}
    return kinds.get(type(value), "a mapping" if isinstance(value, Mapping) else "a list")


class Catalogue(Mapping[str, type[Entry]]):
    """Entries of one room by snake_case name: those built in, in order, then those of plug-ins.

    A name that is built in is found without a look at what is installed. What iterates leaves out plug-ins that are not
    sound; asking for one by its name shows what is wrong with it.

    Parameters
    ----------
    package : str
        The room, as in ``privpipe.models``; also the group of its plug-ins.
    kind : str
        What the room calls an entry, for error messages.
    lines : mapping of class name to module path inside the room
    other_names : mapping of a second name of an entry to its own
        The name in the literature, if any; entries are listed only by their own names.
    """

    def __init__(
        self, package: str, kind: str, lines: Mapping[str, str], other_names: Mapping[str, str] | None = None
    ) -> None:
        self.package = package
        self.other_names = dict(other_names or {})
        self.kind = kind
        self._classes = dict(lines)
        self._names = {snake_case(name): name for name in lines}

    def __getitem__(self, name: str) -> type[Entry]:
        name = self.other_names.get(name, name)
        if name in self._names:
            return self.of_class(self._names[name])
        if name in self:
            brought: type[Entry] = plugins.load(self.package, name)
            return brought
        raise UsageError(f"unknown {self.kind} {name!r}{did_you_mean(name, self)}")

    def __contains__(self, name: object) -> bool:
        return name in self._names or name in self.other_names or plugins.has(self.package, name)

    def of_class(self, name: str) -> type[Entry]:
        """The built-in class of that CamelCase name."""
        module = importlib.import_module(f"{self.package}.{self._classes[name]}")
        entry: type[Entry] = getattr(module, name)
        return entry

    def __iter__(self) -> Iterator[str]:
        yield from self._names
        yield from plugins.names(self.package)

    def __len__(self) -> int:
        return len(self._names) + len(plugins.names(self.package))

    @property
    def built_in(self) -> tuple[str, ...]:
        """Names of only the entries of this package."""
        return tuple(self._names)

    @property
    def taken(self) -> tuple[str, ...]:
        """Names that no plug-in may have: of entries of this package, and their second names."""
        return (*self._names, *self.other_names)

    @property
    def class_names(self) -> tuple[str, ...]:
        """CamelCase names of the built-in entries, in catalogue order."""
        return tuple(self._classes)

    def module_of(self, name: str) -> str:
        """Dotted path inside the room of a built-in entry, of which the first part is its group; else of its module."""
        return self._classes[self._names[name]] if name in self._names else self[name].__module__

    def attribute(self, name: str) -> type[Entry]:
        """The class of that CamelCase name, as an attribute of the room.

        Raises
        ------
        AttributeError
            There is none.
        UsageError
            A plug-in brings it and is not sound.
        """
        if name in self._classes:
            return self.of_class(name)
        # Python asks modules for its own names, of which none is a class: no reason to look at what is installed.
        called = snake_case(name) if name[:1].isupper() else ""
        if called and called not in self._names and plugins.has(self.package, called):
            entry = self[called]
            if entry.__name__ == name:
                return entry
        raise AttributeError(f"module {self.package!r} has no attribute {name!r}")

    def attributes(self) -> list[str]:
        """What the room has to offer by name: its catalogue and the class of each entry, also of plug-ins."""
        plugged = (each.class_name for each in plugins.found() if each.group == self.package)
        return sorted({"CATALOGUE", *self._classes, *plugged})
