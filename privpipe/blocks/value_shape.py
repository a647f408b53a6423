"""Which values the type of a field takes, read off the type and its constraints."""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import BaseMetadata, Ge, GroupedMetadata, Gt, Le, Lt

from privpipe.blocks.require import require_choice, require_integer, require_number
from privpipe.errors import UsageError

__all__ = ["Number", "Shape", "flat_metadata", "shape_of"]


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
        """The constraints that say it."""
        said = zip((Ge, Le, Gt, Lt), self[1:], strict=True)
        return [make(bound) for make, bound in said if math.isfinite(bound)]

    def require(self, owner: str, name: str, value: Any) -> None:
        """Refuse what is no such number.

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
    """What values a type with its constraints takes; `many` is a list or a mapping, `open` anything else.

    What is no number, no truth value and none of some words alone is left to the checks of the entry itself.
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
    """The shape of a type, under the constraints that stand around it.

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
    """What one of two shapes takes, numbers left aside."""
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
    """Whether elements are worth a look: lists of values hold what columns hold, a missing or a strange number too."""
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
    """What an annotation says, one by one."""
    return [part for each in metadata for part in (each if isinstance(each, GroupedMetadata) else (each,))]
