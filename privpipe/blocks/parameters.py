"""What a field of an entry declares in its annotation: marks, the values its type takes, and the checks of a value.

``k: Annotated[int | None, Ge(1), Doc("least size of a class")] = None`` is type, range, text and default of a
parameter. Marks say what a field names (`SensitiveColumn`, `Weight`, ...): its own name means nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import sys
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from annotated_types import BaseMetadata, Ge, GroupedMetadata, Gt, Le, Lt
from typing_extensions import Doc

from privpipe.blocks.marks import ColumnName, ColumnNames, Columns, Mark
from privpipe.errors import UsageError, did_you_mean
from privpipe.roles import not_text

__all__ = [
    "COMMON_KEYS",
    "Number",
    "Parameter",
    "Shape",
    "check_parameters",
    "flat_metadata",
    "flat_names",
    "hint_of",
    "is_required",
    "marked",
    "parameters_of",
    "refuse_call",
    "require_choice",
    "require_integer",
    "require_number",
    "shape_of",
    "written_call",
]


COMMON_KEYS = ("quasi_identifiers", "severity")
"""Parameters that every guarantee takes."""


def require_integer(owner: str, name: str, value: Any, *, least: int | None = None, most: int | None = None) -> None:
    """Refuse anything but an integer in [least, most]; True is not 1.

    Raises
    ------
    UsageError
    """
    integral = isinstance(value, int) and not isinstance(value, bool)
    if not integral or (least is not None and value < least) or (most is not None and value > most):
        bounds = f" in [{least}, {most}]"
        if least is None or most is None:
            bounds = f" >= {least}" if least is not None else f" <= {most}" if most is not None else ""
        raise UsageError(f"{owner}: {name} must be an integer{bounds}, got {value!r}")


def require_number(
    owner: str,
    name: str,
    value: Any,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> None:
    """Refuse what is not a finite number with least <= value <= most and above < value < below.

    Raises
    ------
    UsageError
    """
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not (least <= value <= most and above < value < below):
        lower = f"> {above}" if above > -math.inf else f">= {least}" if least > -math.inf else ""
        upper = f"< {below}" if below < math.inf else f"<= {most}" if most < math.inf else ""
        bounds = " and ".join(part for part in (lower, upper) if part) or "finite"
        raise UsageError(f"{owner}: {name} must be a number {bounds}, got {value!r}")


def require_choice(owner: str, name: str, value: Any, choices: Collection[str]) -> None:
    """Refuse anything but one of these words.

    Raises
    ------
    UsageError
    """
    if value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise UsageError(f"{owner}: {name} must be one of {', '.join(choices)}, got {value!r}{hint}")


class Number(NamedTuple):
    """An integer or a finite number, and the bounds it must keep."""

    integral: bool
    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    @property
    def bounded(self) -> bool:
        """Whether there is any bound."""
        return self[1:] != Number(self.integral)[1:]

    def bounds(self) -> list[BaseMetadata]:
        """The constraints of these bounds."""
        said = zip((Ge, Le, Gt, Lt), self[1:], strict=True)
        return [make(bound) for make, bound in said if math.isfinite(bound)]

    def require(self, owner: str, name: str, value: Any) -> None:
        """Refuse anything but such a number.

        Raises
        ------
        UsageError
        """
        if not self.integral:
            require_number(owner, name, value, least=self.least, most=self.most, above=self.above, below=self.below)
            return
        least, most = max(self.least, self.above + 1), min(self.most, self.below - 1)
        require_integer(
            owner,
            name,
            value,
            least=None if least == -math.inf else int(least),
            most=None if most == math.inf else int(most),
        )


@dataclass(frozen=True)
class Shape:
    """The values that a type with its constraints accepts; `many` is a list or a mapping, `open` anything else.

    What is neither a number, nor a truth value, nor one of some words is left to the checks of the entry itself.
    """

    optional: bool = False
    choices: tuple[Any, ...] = ()
    number: Number | None = None
    truth: bool = False
    text: bool = False
    items: Shape | None = None
    values: Shape | None = None
    many: tuple[type, ...] = ()
    open: bool = False

    def check(self, owner: str, name: str, value: Any) -> None:
        """Refuse a value that no branch of the type takes.

        Raises
        ------
        UsageError
        """
        if (self.optional and value is None) or (self.text and isinstance(value, str)):
            return
        if self.items is not None and isinstance(value, list | tuple):
            for item in value:
                self.items.check(owner, name, item)
        elif self.values is not None and isinstance(value, Mapping):
            for key, item in value.items():
                self.values.check(owner, f"{name}.{key}", item)
        elif not (self.open or value in self.choices or isinstance(value, self.many)):
            self._refuse_scalar(owner, name, value)

    def _refuse_scalar(self, owner: str, name: str, value: Any) -> None:
        if self.truth:
            if not isinstance(value, bool):
                raise UsageError(f"{owner}: {name} must be true or false, got {value!r}")
        elif self.number is not None:
            self.number.require(owner, name, value)
        elif self.choices and not (self.text or self.many):
            require_choice(owner, name, value, self.choices)
        elif self.values is not None and not (self.choices or self.text):
            raise UsageError(f"{owner}: {name} must be a mapping, got {value!r}")


def shape_of(hint: Any, said: tuple[Any, ...] = ()) -> Shape:
    """The shape of a type, under the constraints around it.

    Raises
    ------
    TypeError
        A constraint that nothing checks, or one that stands on no number.

    Examples
    --------
    >>> shape_of(Annotated[int | None, Ge(1)]).check("KAnonymity", "k", 0)
    Traceback (most recent call last):
        ...
    privpipe.errors.UsageError: KAnonymity: k must be an integer >= 1, got 0
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return shape_of(arguments[0], (*said, *flat_metadata(hint.__metadata__)))
    bounds = [each for each in said if isinstance(each, BaseMetadata)]
    if origin in (types.UnionType, typing.Union):
        return _union([shape_of(branch) for branch in arguments], bounds)
    if hint in (int, float):
        return Shape(number=_number(hint is int, bounds))
    if bounds:
        raise TypeError(
            f"the constraint {bounds[0]!r} is of numbers, and this type has none; check it in __post_init__"
        )
    return _without_number(hint, origin, arguments)


def _union(shapes: list[Shape], bounds: list[BaseMetadata]) -> Shape:
    numbers = [shape.number for shape in shapes if shape.number is not None]
    if bounds and any(not (shape.optional or shape.number) for shape in shapes):
        raise TypeError(f"the constraint {bounds[0]!r} stands on a union; write it on the branch of the numbers")
    bounds = [*bounds, *(bound for number in numbers for bound in number.bounds())]
    number = _number(all(number.integral for number in numbers), bounds) if numbers else None
    return replace(functools.reduce(_either, shapes, Shape()), number=number)


def _either(left: Shape, right: Shape) -> Shape:
    """What either of two shapes accepts, except numbers."""
    return Shape(
        optional=left.optional or right.optional,
        choices=(*left.choices, *right.choices),
        truth=left.truth or right.truth,
        text=left.text or right.text,
        items=right.items if left.items is None else left.items,
        values=right.values if left.values is None else left.values,
        many=(*left.many, *right.many),
        open=left.open or right.open,
    )


def _without_number(hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Shape:
    if hint is None or hint is types.NoneType:
        return Shape(optional=True)
    if origin is Literal:
        return Shape(choices=arguments)
    if hint in (bool, str):
        return Shape(truth=hint is bool, text=hint is str)
    if not isinstance(origin, type) or not issubclass(origin, Mapping | Sequence):
        return Shape(open=True)
    mapping = issubclass(origin, Mapping)
    parts = arguments[1:] if mapping else [part for part in arguments if part is not Ellipsis]
    inner = next((shape for part in parts if _says_something(shape := shape_of(part))), None)
    if mapping:
        return Shape(values=inner, many=(Mapping,))
    return Shape(items=inner, many=(list, tuple))


def _says_something(shape: Shape) -> bool:
    """Whether elements are checked: lists of data values may hold anything, also missing or unusual numbers."""
    bounded = shape.number is not None and shape.number.bounded
    return bounded or bool(shape.choices) or shape.items is not None or shape.values is not None


def _number(integral: bool, bounds: Iterable[Any]) -> Number:
    found: dict[str, float] = {}
    for bound in bounds:
        match bound:
            case Ge():
                found["least"] = bound.ge  # type: ignore[assignment]
            case Le():
                found["most"] = bound.le  # type: ignore[assignment]
            case Gt():
                found["above"] = bound.gt  # type: ignore[assignment]
            case Lt():
                found["below"] = bound.lt  # type: ignore[assignment]
            case _:
                raise TypeError(f"the constraint {bound!r} is none that is checked; check it in __post_init__")
    return Number(integral, **found)


def flat_metadata(metadata: Iterable[Any]) -> list[Any]:
    """The parts of an annotation, one by one."""
    return [part for each in metadata for part in (each if isinstance(each, GroupedMetadata) else (each,))]


M = TypeVar("M", bound=Mark)


@dataclass(frozen=True)
class Parameter:
    """A field of an entry: its line of text, the values it takes, and its marks."""

    name: str
    text: str
    shape: Shape
    marks: tuple[Mark, ...] = ()

    def check(self, owner: str, name: str, value: Any) -> None:
        """Refuse a value that the type, a constraint or a mark does not take.

        Raises
        ------
        UsageError
        """
        names = list(flat_names(value)) if self.shape.many else [value]
        names_columns = any(isinstance(mark, ColumnName | ColumnNames) for mark in self.marks)
        if names_columns and value is not None and (wrong := not_text(names)):
            raise UsageError(f"{owner}: {name}: {wrong}")
        self.shape.check(owner, name, value)
        if value is None and self.shape.optional:
            return
        if any(isinstance(mark, ColumnName) for mark in self.marks) and not all(names):
            raise UsageError(f"{owner}: {name} must be a column name")

    def marked(self, mark: type[M]) -> M:
        """Its mark of a kind that it carries."""
        return next(each for each in self.marks if isinstance(each, mark))


def parameters_of(owner: Any) -> Mapping[str, Parameter]:
    """The parameters of a class by name, in the order of its fields.

    Raises
    ------
    TypeError
        A constraint that the checker does not know, or one on a type without numbers.
    """
    return _parameters_of(owner)


def marked(owner: Any, mark: type[Mark]) -> tuple[str, ...]:
    """Names of the fields of a class that carry a mark, in the order of the fields."""
    kind: Any = mark
    return _marked(owner, kind)


def check_parameters(entry: Any, owner: str = "", place: str = "") -> None:
    """Check the fields of a dataclass against their annotations.

    Parameters
    ----------
    entry : dataclass instance
    owner, place : str
        Who is named in the error (left out: the class), and what stands before the names of the fields.

    Raises
    ------
    UsageError
    """
    for name, parameter in parameters_of(type(entry)).items():
        parameter.check(owner or type(entry).__name__, f"{place}{name}", getattr(entry, name))


def flat_names(value: Any) -> Iterator[Any]:
    """What a field that names columns holds: lists of lists flattened, keys of mappings.

    Examples
    --------
    >>> list(flat_names((["age"], ["income", "hours"], {"zip": 2}, "sex")))
    ['age', 'income', 'hours', 'zip', 'sex']
    """
    if isinstance(value, Mapping):
        yield from value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from flat_names(part)
    else:
        yield value


@functools.cache
def _parameters_of(owner: Any) -> Mapping[str, Parameter]:
    return {field.name: _parameter(owner, field.name) for field in dataclasses.fields(owner)}


@functools.cache
def _marked(owner: Any, mark: Any) -> tuple[str, ...]:
    return tuple(
        name for name, each in parameters_of(owner).items() if any(isinstance(found, mark) for found in each.marks)
    )


def _parameter(owner: type, name: str) -> Parameter:
    hint = hint_of(owner, name)
    said = flat_metadata(hint.__metadata__) if typing.get_origin(hint) is Annotated else []
    texts = [each.documentation for each in said if isinstance(each, Doc)]
    try:
        shape = shape_of(hint)
    except TypeError as error:
        raise TypeError(f"{owner.__name__}.{name}: {error}") from None
    marks = tuple(each for each in said if isinstance(each, Mark))
    return Parameter(name, " ".join(texts), shape, marks)


def hint_of(owner: type, name: str) -> Any:
    """The annotation of a field, wherever the class or one above declares it."""
    for base in owner.__mro__:
        said = inspect.get_annotations(base).get(name)
        if isinstance(said, str):
            # As typing.get_type_hints does, but field by field: the class has others that only type checkers resolve.
            return eval(said, dict(vars(base)), vars(sys.modules[base.__module__]))
        if said is not None:
            return said
    return Any


def refuse_call(entry: type[Any], given: Sequence[Any], named: Iterable[str], then: str) -> None:
    """Refuse arguments by place, and names that the entry does not have, with the call as it should be.

    Parameters
    ----------
    entry : type of Entry
    given : sequence
        Arguments by their places.
    named : iterable of str
        Names of the others.
    then : str
        What takes a frame after the entry is made.

    Raises
    ------
    UsageError
    """
    if any(hasattr(value, "columns") or hasattr(value, "__array__") for value in given):
        after = f"{written_call(entry)}{then}"
        raise UsageError(f"{entry.__name__} is made of its parameters, and takes a frame afterwards: {after}")
    if given:
        raise UsageError(f"{entry.__name__} takes its parameters by name: {written_call(entry, given)}")
    known = [each.name for each in dataclasses.fields(entry)]
    for name in named:
        if name not in known:
            near = did_you_mean(name, known) or f"; it takes {', '.join(known) or 'none'}"
            raise UsageError(f"{entry.__name__}: unknown parameter {name!r}{near}")


def written_call(entry: type[Any], given: Sequence[Any] = ()) -> str:
    """The call that makes an entry, with positional arguments under their names; of texts only names of columns.

    Examples
    --------
    >>> from privpipe.models import DistinctLDiversity, KAnonymity
    >>> written_call(KAnonymity, [5]), written_call(DistinctLDiversity, ["illness"])
    ('KAnonymity(k=5)', "DistinctLDiversity(column='illness', l=...)")
    """
    threshold = getattr(entry, "threshold_field", None)
    about = [name for name in marked(entry, Columns) if name not in COMMON_KEYS]
    first = [*about, threshold]
    fields = [each for each in dataclasses.fields(entry) if each.init]
    fields.sort(key=lambda each: (not is_required(each), each.name not in first, each.name in COMMON_KEYS))
    shown = [
        f"{each.name}={_written_argument(entry, each.name, given[at : at + 1])}"
        for at, each in enumerate(fields)
        if at < len(given) or is_required(each) or each.name == threshold
    ]
    return f"{entry.__name__}({', '.join(shown)})"


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether a field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _written_argument(entry: type[Any], name: str, given: Sequence[Any]) -> str:
    declared = parameters_of(entry)[name]
    names = any(isinstance(mark, ColumnName | ColumnNames) for mark in declared.marks)
    listed = names and list in declared.shape.many
    for value in given:
        if isinstance(value, bool | int | float):
            return str(value)
        if names and isinstance(value, str):
            return repr([value] if listed else value)
        if names and isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value):
            return repr(list(value))
    return "[...]" if listed else "..."
