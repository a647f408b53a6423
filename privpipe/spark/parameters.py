"""The fields of a transformer as Params.

Their names, their lines of text, their values, and a getter and setter for each.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.ml.base import Estimator, Model
from pyspark.ml.param import Param, Params
from pyspark.ml.util import MLReadable, MLWritable

from privpipe.blocks.marks import Columns
from privpipe.blocks.parameters import marked, parameters_of
from privpipe.blocks.verdict import plain
from privpipe.errors import UsageError

if TYPE_CHECKING:
    from privpipe.transforms.base import Transformer

__all__ = [
    "Asked",
    "FieldConverter",
    "as_json",
    "asked_of",
    "capital",
    "defaults_of",
    "lower_camel",
    "names_of",
    "with_params",
]


COLUMNS = "inputCols"
"""What Spark ML calls the columns of a stage."""
TAKEN = {name for owner in (Estimator, Model, MLReadable, MLWritable) for name in dir(owner)} | {"uid"}


@dataclass(frozen=True)
class Asked:
    """One Param of a class.

    Parameters
    ----------
    name : str
        Of the Param.
    text : str
        Its line in `explainParams`.
    convert : callable
        Refuses a value, or converts it to JSON.
    alias : str
        Another name of the same Param, or nothing.
    option : str
        The option of `fit` that it gives; empty: it is a parameter of the transformer.
    """

    name: str
    text: str
    convert: Callable[[Any], Any]
    alias: str = ""
    option: str = ""


@dataclass(frozen=True)
class FieldConverter:
    """What a field of a transformer takes, in the words of the catalogue.

    Examples
    --------
    >>> from privpipe.transforms import RankSwap
    >>> FieldConverter(RankSwap, "p", "p")(0.05)
    0.05
    >>> FieldConverter(RankSwap, "columns", "inputCols")("income")
    Traceback (most recent call last):
        ...
    privpipe.errors.UsageError: RankSwap: inputCols: must be a list, also for a single column: ['income']
    """

    owner: type[Transformer]
    field: str
    name: str

    def __call__(self, value: Any) -> Any:
        owner, parameter = self.owner.__name__, parameters_of(self.owner)[self.field]
        if isinstance(value, str) and parameter.shape.many and not (parameter.shape.choices or parameter.shape.text):
            raise UsageError(f"{owner}: {self.name}: must be a list, also for a single column: [{value!r}]")
        value = value.item() if getattr(value, "ndim", None) == 0 else value
        parameter.check(owner, self.name, value)
        found = as_json(owner, self.name, value)
        for key, text in self.owner.problems({self.field: found}).items():
            if key.partition(".")[0] == self.field:
                raise UsageError(f"{owner}: {self.name}{key.removeprefix(self.field)}: {text}")
        return found


def asked_of(transformer: type[Transformer]) -> list[Asked]:
    """The Params of a transformer's own parameters, in the order of its fields."""
    texts, names = transformer.descriptions(), names_of(transformer)
    return [
        Asked(
            names[field],
            texts.get(field, field),
            FieldConverter(transformer, field, names[field]),
            alias=_spelt(field) if names[field] == COLUMNS else "",
        )
        for field in parameters_of(transformer)
    ]


def names_of(transformer: type[Transformer]) -> Mapping[str, str]:
    """The Param of each field; the one that lists the columns has Spark's own name for it.

    Examples
    --------
    >>> from privpipe.transforms import SuppressCells
    >>> names = names_of(SuppressCells)
    >>> names["suppress_at_most"], names["columns"]
    ('suppressAtMost', 'inputCols')
    """
    listing = [name for name in marked(transformer, Columns) if list in parameters_of(transformer)[name].shape.many]
    return {field: COLUMNS if listing[:1] == [field] else _spelt(field) for field in parameters_of(transformer)}


def defaults_of(transformer: type[Transformer]) -> dict[str, Any]:
    """The defaults of a transformer's parameters, by Param, as JSON; required ones are left out."""
    names, missing = names_of(transformer), dataclasses.MISSING
    found: dict[str, Any] = {}
    for field in dataclasses.fields(transformer):
        if field.default is not missing:
            found[names[field.name]] = plain(field.default)
        elif field.default_factory is not missing:
            found[names[field.name]] = plain(field.default_factory())
    return found


def lower_camel(name: str) -> str:
    """The spelling of Spark ML.

    Examples
    --------
    >>> lower_camel("suppress_at_most"), lower_camel("p")
    ('suppressAtMost', 'p')
    """
    first, *others = name.split("_")
    return first + "".join(map(capital, others))


def capital(name: str) -> str:
    """A name with its first letter large, the others unchanged.

    Examples
    --------
    >>> capital("inputCols")
    'InputCols'
    """
    return name[:1].upper() + name[1:]


def as_json(owner: str, name: str, value: Any) -> Any:
    """A value as Spark ML can save it.

    Raises
    ------
    UsageError
        It cannot be represented in JSON.
    """
    found = plain(value)
    try:
        json.dumps(found)
    except (TypeError, ValueError):
        raise UsageError(f"{owner}: {name} must be plain text, numbers, lists and mappings") from None
    return found


def _spelt(field: str) -> str:
    """The lowerCamel name of a field; ``stage`` precedes one that Spark's classes have themselves."""
    name = lower_camel(field)
    return f"stage{capital(name)}" if name in TAKEN else name


C = TypeVar("C", bound=type[Any])


def with_params(
    asked: Sequence[Asked], defaults: Mapping[str, Any] | None = None, *, setters: bool
) -> Callable[[C], C]:
    """A decorator that gives a class its Params.

    Parameters
    ----------
    asked : sequence of Asked
    defaults : mapping of Param to value, optional
        Of Params that are not options; an option is None by default.
    setters : bool
        Whether they can be set, as in an estimator.
    """
    found = {**(defaults or {}), **{each.name: None for each in asked if each.option}}

    def given(owner: C) -> C:
        for each in asked:
            for name, value in _attributes(each, setters=setters).items():
                setattr(owner, name, value)
        owner.asked, owner.defaults = tuple(asked), found
        if setters:
            owner.__signature__ = _signature(asked, found)
        return owner

    return given


def _attributes(asked: Asked, *, setters: bool) -> Mapping[str, Any]:
    # The dummy parent is Spark's own idiom: each object copies the Params of its class.
    found: dict[str, Any] = {asked.name: Param(Params._dummy(), asked.name, asked.text, asked.convert)}
    for name in (asked.name, *([asked.alias] if asked.alias else [])):
        found[f"get{capital(name)}"] = _getter(asked)
        if setters:
            found[f"set{capital(name)}"] = _setter(asked)
    if asked.alias:
        # A property is none of `params`: one value under two names, and never two that differ.
        found[asked.alias] = property(lambda self: getattr(self, asked.name), doc=f"As `{asked.name}`.")
    return found


def _getter(asked: Asked) -> Callable[[Any], Any]:
    def get(self: Any) -> Any:
        return self.getOrDefault(asked.name)

    get.__doc__ = f"The value of `{asked.name}`: {asked.text}."
    return get


def _setter(asked: Asked) -> Callable[[Any, Any], Any]:
    def put(self: Any, value: Any) -> Any:
        self.set(self.getParam(asked.name), value)
        return self

    put.__doc__ = f"Set `{asked.name}`: {asked.text}."
    return put


def _signature(asked: Sequence[Asked], defaults: Mapping[str, Any]) -> inspect.Signature:
    kind = inspect.Parameter.KEYWORD_ONLY
    empty = inspect.Parameter.empty
    return inspect.Signature(
        [inspect.Parameter(each.name, kind, default=defaults.get(each.name, empty)) for each in asked]
    )
