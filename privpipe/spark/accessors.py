"""Params on a class, each with its getter and setter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyspark.ml.param import Param, Params

from privpipe.spark.parameters import Asked, capital

__all__ = ["with_params"]

C = TypeVar("C", bound=type[Any])


def with_params(
    asked: Sequence[Asked], defaults: Mapping[str, Any] | None = None, *, setters: bool
) -> Callable[[C], C]:
    """A decorator that gives a class its Params.

    Parameters
    ----------
    asked : sequence of Asked
    defaults : mapping of Param to value, optional
        Of Params that are no options; an option is None by default.
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
