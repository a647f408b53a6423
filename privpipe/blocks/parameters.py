"""What a field of an entry says of itself in its annotation, and the one checker that holds values to it.

``k: Annotated[int | None, Ge(1), Doc("least size of a class")] = None`` is type, range, text and default of a
parameter. Marks say what a field names (`SensitiveColumn`, `Weight`, ...): its own name means nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from typing_extensions import Doc

from privpipe.blocks.marks import ColumnName, ColumnNames, Mark
from privpipe.blocks.value_shape import Shape, flat_metadata, shape_of
from privpipe.errors import UsageError
from privpipe.roles import not_text

__all__ = ["Parameter", "check_parameters", "flat_names", "hint_of", "marked", "parameters_of"]

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
    """Hold the fields of a dataclass to what their annotations say.

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
