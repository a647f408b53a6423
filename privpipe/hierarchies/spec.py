"""What a policy declares under `hierarchy:` before any data is read, and the description of builders and options."""

from __future__ import annotations

import dataclasses
import inspect
import json
import threading
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, Self, runtime_checkable

from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe import plugins
from privpipe.errors import HierarchyError, PolicyError, PrivpipeError, Problem, UsageError, did_you_mean
from privpipe.hierarchies.canonical import checked_type
from privpipe.hierarchies.dates import Dates
from privpipe.hierarchies.groups import FrequencyGroups, Groups, Priority
from privpipe.hierarchies.growing_intervals import Bands, Log
from privpipe.hierarchies.hierarchy import Hierarchy
from privpipe.hierarchies.intervals import EqualCount, Intervals, Quantiles
from privpipe.hierarchies.levels import Draft
from privpipe.hierarchies.options import Choices, Options, hints_of, whose
from privpipe.hierarchies.redact import Redact
from privpipe.hierarchies.sources import File, FromColumns, Prepared, Rows, Tree

__all__ = [
    "BUILDERS",
    "CLASSES",
    "IN_NUMBERS",
    "IN_TABLES",
    "KEYS",
    "OPTION_KEYS",
    "Builder",
    "DeclaredBuilder",
    "HierarchySpec",
    "builder_parameters",
    "builder_schema",
    "builder_text",
    "builders",
    "option_parameters",
]


class Builder(Protocol):
    """Proposes levels for a column."""

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels over the builder's own domain, or over the distinct values seen (nulls left out)."""
        ...


@runtime_checkable
class DeclaredBuilder(Builder, Protocol):
    """A builder that a policy can ask for by its parameters; what a plug-in brings."""

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From what stands under its name; UsageError where that is wrong."""
        ...


FROM_PARAMETERS: Final[dict[str, type[DeclaredBuilder]]] = {
    "intervals": Intervals,
    "bands": Bands,
    "quantiles": Quantiles,
    "equal_count": EqualCount,
    "log": Log,
    "frequency_groups": FrequencyGroups,
    "groups": Groups,
    "from_columns": FromColumns,
    "dates": Dates,
    "redact": Redact,
    "priority": Priority,
    "rows": Rows,
}
CLASSES: Final[dict[str, type[Builder]]] = {"file": File, **FROM_PARAMETERS, "tree": Tree}
BUILDERS: Final = tuple(CLASSES)
IN_TABLES: Final = (File, Rows, Tree, Prepared)
"""Builders that list every value, whatever the data holds."""
IN_NUMBERS: Final = (Intervals, Bands, Quantiles, EqualCount, Log)
"""Builders of intervals of numbers, whose labels `interval_ends` reads."""
# Keys next to the builder, and the builders they make sense for.
OPTION_KEYS: Final = {
    "min_level": BUILDERS,
    "max_level": BUILDERS,
    "unknown": BUILDERS,
    "level_names": BUILDERS,
    "null_label": BUILDERS,
    "root": ("file", "rows", "tree"),
    "add_root": ("file", "rows", "tree"),
    "delimiter": ("file",),
    "header": ("file",),
}
KEYS: Final = (*BUILDERS, *OPTION_KEYS)
"""What may stand under `hierarchy:` without a plug-in; none of these is a name for one."""
PLUG_INS: Final = "privpipe.hierarchies"


def builders() -> tuple[str, ...]:
    """Names of the builders at hand: those built in, then those of sound plug-ins."""
    return (*BUILDERS, *plugins.names(PLUG_INS))


HELD_BUILDS, HELD_FILES = 8, 64
HELD_VALUES, HELD_BYTES = 10_000, 1 << 20


class _Builds:
    """The last hierarchies that were built, by what they were built of; they stay in this process."""

    def __init__(self, most: int = HELD_BUILDS) -> None:
        self._most = most
        self._found: dict[Any, Hierarchy] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return _Builds, (self._most,)

    def of(self, key: Any, build: Callable[[], Hierarchy], read: Callable[[], bytes | None]) -> Hierarchy:
        """The hierarchy over some values, built unless it is held.

        Parameters
        ----------
        key : hashable
        build : callable
        read : callable
            The content of the declaration's file, which another run may have changed.
        """
        content = read()
        found = self._found.get((key, content))
        if found is None:
            found = build()
            if read() == content and len(content or b"") <= HELD_BYTES:
                with self._lock:
                    while len(self._found) >= self._most:
                        self._found.pop(next(iter(self._found)))
                    self._found[key, content] = found
        return found


_OF_FILES = _Builds(HELD_FILES)
"""Hierarchies of files before they cover any data: the policies of one process name the same files again and again."""


@dataclass(frozen=True, kw_only=True)
class HierarchySpec:
    """A declared hierarchy: one builder and the options next to it.

    Parameters
    ----------
    builder : Builder
        Checked at birth.
    options : Options
        Column, rules and level limits.
    text : str
        The mapping it came from, as JSON in its own order; empty for a hierarchy made in Python.

    Examples
    --------
    >>> spec = HierarchySpec.from_mapping({"intervals": {"widths": [10, 50]}}, ".", column="age")
    >>> hierarchy = spec.build(["17", "20", None], [3, 2, 1], "integer")
    >>> hierarchy.released(1), hierarchy.domain_size, hierarchy.height
    (['10-19', '20-29', None], 3.0, 3)
    """

    builder: Builder
    options: Options
    text: str = field(default="", repr=False)
    _builds: _Builds = field(default_factory=_Builds, init=False, repr=False, compare=False)

    @classmethod
    def from_mapping(cls, mapping: object, base_dir: str | PathLike[str] = ".", *, column: str = "") -> Self:
        """From the mapping under `hierarchy:`.

        Parameters
        ----------
        mapping : mapping
            One builder (of `builders`: built in, or a plug-in's), and
            `min_level`, `max_level`, `unknown`, `level_names`, `null_label`; with file and tree `root`, `add_root`;
            with file `delimiter`, `header`.
        base_dir : str or PathLike
            Where relative paths start.
        column : str
            Named in errors.

        Raises
        ------
        PolicyError
            A `UsageError` that carries every problem with its path below `hierarchy:`.
        """
        if not isinstance(mapping, Mapping):
            raise PolicyError([Problem(path="", message=f"must be a mapping with one of {', '.join(builders())}")])
        chosen = [key for key in mapping if key in BUILDERS or (key not in KEYS and plugins.has(PLUG_INS, key))]
        problems = _key_problems(mapping, chosen)
        given = {key: mapping[key] for key in mapping if key in {each.name for each in fields(Options)}}
        options, builder = Options(column=column), None
        try:
            options = Options(**{**given, "column": column})
        except UsageError as error:
            problems.append(_problem(str(error)))
        if len(chosen) == 1:
            try:
                builder = _builder(chosen[0], mapping, Path(base_dir))
            except UsageError as error:
                problems.append(Problem(path=chosen[0], message=str(error)))
        if problems or builder is None:
            raise PolicyError(problems)
        return cls(builder=builder, options=options, text=json.dumps(_plain(mapping)))

    @property
    def shows_values(self) -> str:
        """What of its labels is the value of a single record, in a sentence; nothing: none is."""
        return str(getattr(self.builder, "shows_values", ""))

    @classmethod
    def from_hierarchy(cls, hierarchy: Hierarchy, *, column: str = "") -> Self:
        """From a hierarchy made in Python; its options stay, the column is the policy's."""
        table = Prepared(
            table=hierarchy,
            shown=hierarchy.source,
            level_names=hierarchy.level_names,
            data_dependent=hierarchy.data_dependent,
        )
        # A root that was added on reading is in the levels already.
        options = replace(hierarchy.options, column=column or hierarchy.column, add_root=False)
        return cls(builder=table, options=options)

    @property
    def plugged(self) -> str | None:
        """Name of its builder, where a plug-in brings that."""
        return next((name for name in self.to_dict() if name not in KEYS), None)

    @property
    def column(self) -> str:
        """The column it belongs to."""
        return self.options.column

    def to_dict(self) -> dict[str, Any]:
        """The mapping it came from; empty for a hierarchy made in Python."""
        given: dict[str, Any] = json.loads(self.text) if self.text else {}
        return given

    def to_document(self) -> dict[str, Any]:
        """The mapping that declares it, also of a hierarchy made in Python: then with every row.

        Examples
        --------
        >>> hierarchy = Hierarchy.from_rows([["flu", "common", "*"], ["gout", "rare", "*"]])
        >>> HierarchySpec.from_hierarchy(hierarchy).to_document()
        {'rows': [['flu', 'common', '*'], ['gout', 'rare', '*']]}
        """
        if not isinstance(self.builder, Prepared):
            return self.to_dict()
        usual = Options(column=self.options.column)
        options = {
            each.name: value
            for each in fields(Options)
            if each.name not in ("column", "level_names")
            and (value := getattr(self.options, each.name)) != getattr(usual, each.name)
        }
        names = self.options.level_names
        return {
            "rows": [list(row) for row in self.builder.rows()],
            **options,
            **({"level_names": list(names)} if names else {}),
        }

    def recorded(self) -> dict[str, Any]:
        """What a plan contains of it: the mapping it came from, with the number of listed values instead of these.

        Of a plug-in's parameters, which may be values or hold some, only that they were given.

        Examples
        --------
        >>> HierarchySpec.from_mapping({"priority": {"levels": 2, "order": ["a", "b"]}, "min_level": 1}).recorded()
        {'priority': {'levels': 2, 'order': '2 values'}, 'min_level': 1}
        >>> HierarchySpec.from_mapping({"tree": {"all": ["a", "b"]}}).recorded()
        {'tree': 'in place'}
        """
        found = self.to_dict()
        for name in BUILDERS:
            given = found.get(name)
            if name == "tree" and isinstance(given, dict) and list(given) != ["file"]:
                found[name] = "in place"
            elif name == "rows" and isinstance(given, list):
                found[name] = f"{len(given):,} rows"
            elif isinstance(given, dict) and isinstance(given.get("order"), list):
                found[name] = {**given, "order": f"{len(given['order']):,} values"}
        if self.plugged is not None:
            found[self.plugged] = "in place"
        return found or {"prepared": self.builder.shown if isinstance(self.builder, Prepared) else ""}

    def check_type(self, type: str | None) -> None:
        """Raise an error if the builder's parameters do not fit the column's type, before any data is read.

        Raises
        ------
        UsageError
            As `build` would.
        """
        if not isinstance(self.builder, IN_TABLES):
            self.builder.draft((), (), checked_type(type), self.column)

    def build(
        self,
        values: Sequence[str | None],
        counts: Sequence[int] | None = None,
        type: str | None = None,
    ) -> Hierarchy:
        """The hierarchy of a column, made to hold the values seen in it.

        Parameters
        ----------
        values : sequence of str or None
            Distinct values of the column as canonical text of its type (`canonical_text`); None is null.
        counts : sequence of int or None
            Records of each. Needed by builders that go by frequency; None elsewhere: one each.
        type : str or None
            The column's type; None: not declared.

        Raises
        ------
        UsageError
            When the builder cannot serve a column of this type.
        HierarchyError
            When the hierarchy is ill-formed, or values are outside of it under ``unknown: refuse``.
        """
        kind = checked_type(type)
        if len(values) > HELD_VALUES or not isinstance(self.builder, tuple(CLASSES.values())):
            return self._built(values, counts, kind)
        key = (kind, tuple(values), None if counts is None else tuple(counts))
        return self._builds.of(key, lambda: self._built(values, counts, kind), self._file_content)

    def _file_content(self) -> bytes | None:
        path = getattr(self.builder, "path", None)
        try:
            return None if path is None else Path(path).read_bytes()
        except OSError:  # the builder reports it
            return None

    def _built(self, values: Sequence[str | None], counts: Sequence[int] | None, kind: str | None) -> Hierarchy:
        if isinstance(self.builder, File):
            key = (self.builder, self.options, kind)
            return _OF_FILES.of(key, lambda: self._drafted((), (), kind), self._file_content).cover(values, counts)
        return self._drafted(values, counts, kind).cover(values, counts)

    def _drafted(self, values: Sequence[str | None], counts: Sequence[int] | None, kind: str | None) -> Hierarchy:
        places = [place for place, value in enumerate(values) if value is not None]
        seen = [value for value in values if value is not None]
        weights = None if counts is None else [int(counts[place]) for place in places]
        draft = self.builder.draft(seen, weights, kind, self.column)
        if draft.outside and self.options.unknown == "refuse":
            records = len(draft.outside) if weights is None else sum(weights[place] for place in draft.outside)
            raise HierarchyError(
                f"{whose(self.column, draft.source)}: outside range: {len(draft.outside):,} distinct values "
                f"({records:,} records): {draft.outside_why}; or set `unknown: root` or `unknown: suppress`",
                kind="outside_range",
            )
        return Hierarchy.from_draft(draft, self.options)


def _builder(name: str, mapping: Mapping[str, Any], base_dir: Path) -> Builder:
    if name == "file":
        beside = {key: mapping[key] for key in ("delimiter", "header") if key in mapping}
        return File.from_parameters(mapping[name], base_dir, **beside)
    if name == "tree":
        return Tree.from_parameters(mapping[name], base_dir)
    if name in FROM_PARAMETERS:
        return FROM_PARAMETERS[name].from_parameters(mapping[name])
    return _plugged(name, mapping[name])


def _plugged(name: str, given: object) -> Builder:
    kind: type[DeclaredBuilder] = plugins.load(PLUG_INS, name)
    try:
        return kind.from_parameters(given)
    except PrivpipeError:
        raise
    except Exception as error:
        raise UsageError(
            f"the plug-in's {kind.__qualname__} takes no such parameters ({type(error).__name__})"
        ) from error


def _key_problems(mapping: Mapping[str, Any], chosen: Sequence[str]) -> list[Problem]:
    unknown = [key for key in mapping if key not in KEYS and key not in chosen]
    problems = [
        Problem(path=str(key), message=f"unknown key {key!r}{did_you_mean(str(key), (*builders(), *OPTION_KEYS))}")
        for key in unknown
    ]
    if len(chosen) > 1:
        problems.append(Problem(path="", message=f"give one builder, not {' and '.join(chosen)}"))
    if not chosen:
        problems.append(Problem(path="", message=f"a builder is missing: one of {', '.join(builders())}"))
    if len(chosen) == 1:
        problems += [
            Problem(path=key, message=f"{key!r} belongs to {' and '.join(owners)}, not to {chosen[0]}")
            for key, owners in OPTION_KEYS.items()
            if key in mapping and chosen[0] not in owners and owners != BUILDERS
        ]
    return problems


def _problem(message: str) -> Problem:
    """Options name their key before the first colon."""
    key, _, rest = message.partition(": ")
    return Problem(path=key, message=rest) if key in OPTION_KEYS else Problem(path="", message=message)


def _plain(node: Any) -> Any:
    """A document in types that JSON knows."""
    if isinstance(node, Mapping):
        return {str(key): _plain(child) for key, child in node.items()}
    if isinstance(node, list | tuple):
        return [_plain(item) for item in node]
    return node if node is None or isinstance(node, bool | int | float | str) else str(node)


WITHOUT_KEYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "file": {"type": "string", "minLength": 1},
    "rows": {"type": "array", "minItems": 1, "items": {"type": "array", "items": {"type": "string"}}},
    "tree": {"type": "object", "minProperties": 1},
}
"""Builders whose value is not a mapping of parameters."""
SCALAR: Final = {"type": ["string", "number", "boolean"]}


def builder_text(name: str) -> tuple[str, str]:
    """First line of a builder's docstring, and the prose below it.

    Examples
    --------
    >>> builder_text("rows")
    ('`rows`: a list a raw value, then its labels from finest to coarsest.', '')
    """
    blocks = inspect.cleandoc(CLASSES[name].__doc__ or "").split("\n\n")
    prose = []
    for block in blocks[1:]:
        lines = block.splitlines()
        if len(lines) > 1 and set(lines[1]) == {"-"}:
            break
        prose.append(" ".join(lines))
    return blocks[0].replace("``", "`"), "\n".join(prose).replace("``", "`")


def builder_parameters(name: str) -> list[dict[str, Any]]:
    """Name, JSON schema, text and default of each parameter of a built-in builder.

    Examples
    --------
    >>> [each["name"] for each in builder_parameters("equal_count")], builder_parameters("rows")
    (['sizes', 'labels'], [])
    """
    return [] if name in WITHOUT_KEYS else list(_parameters(CLASSES[name]))


def option_parameters() -> list[dict[str, Any]]:
    """The same of the keys next to a builder.

    Examples
    --------
    >>> [each["name"] for each in option_parameters()][:2]
    ['min_level', 'max_level']
    """
    found = {each["name"]: each for kind in (Options, File) for each in _parameters(kind)}
    return [found[name] for name in OPTION_KEYS]


def builder_schema(name: str) -> dict[str, Any]:
    """The JSON schema of the parameters of a built-in builder.

    Examples
    --------
    >>> schema = builder_schema("log")
    >>> schema["properties"]["per_decade"]["maximum"], schema["additionalProperties"]
    (9, False)
    """
    about = {"description": builder_text(name)[0]}
    if name in WITHOUT_KEYS:
        return {**about, **WITHOUT_KEYS[name]}
    parameters = builder_parameters(name)
    required = [each["name"] for each in parameters if each["required"]]
    return {
        **about,
        "type": "object",
        "properties": {each["name"]: {**each["schema"], "description": each["about"]} for each in parameters},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _parameters(owner: Any) -> Iterator[dict[str, Any]]:
    short_forms = getattr(owner, "short_forms", {})
    for item in dataclasses.fields(owner):
        hint = hints_of(owner)[item.name]
        said = hint.__metadata__ if typing.get_origin(hint) is Annotated else ()
        text = " ".join(each.documentation for each in said if isinstance(each, Doc))
        if not text:
            continue
        schema = _schema(hint)
        if item.name in short_forms:
            schema["items"] = {"anyOf": [schema["items"], short_forms[item.name]]}
        found = {"name": item.name, "schema": schema, "about": text, "required": item.default is dataclasses.MISSING}
        if not found["required"] and item.default is not None and item.default != ():
            found["default"] = item.default
            found["schema"] = {**schema, "default": item.default}
        yield found


def _schema(hint: Any, said: tuple[Any, ...] = ()) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _schema(arguments[0], (*said, *hint.__metadata__))
    if origin in (types.UnionType, typing.Union):
        branches = [_schema(branch, said) for branch in arguments if branch is not types.NoneType]
        return branches[0] if len(branches) == 1 else {"anyOf": branches}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        items = SCALAR if arguments[0] is str else _schema(arguments[0], said)
        fixed = {} if arguments[-1] is Ellipsis else {"maxItems": len(arguments)}
        return {"type": "array", "items": items, "minItems": len(arguments) if fixed else 1, **fixed}
    for each in said:
        if isinstance(each, Choices):
            return {"enum": list(each.words)}
    bounds: dict[str, Any] = {}
    for each in said:
        bounds |= {"minimum": each.ge} if isinstance(each, Ge) else {"maximum": each.le} if isinstance(each, Le) else {}
    # An exact number may be written as a text: 1e-30 is not a double.
    kinds = {int: "integer", Decimal: ["number", "string"], bool: "boolean", str: "string"}
    return {"type": kinds[hint], **bounds}
