"""The estimators, one a transformer: its parameters and the options of a stage as those of the constructor."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any

from privpipe.sklearn.estimator import StageEstimator
from privpipe.transforms import CATALOGUE
from privpipe.transforms.base import Transformer
from privpipe.transforms.face import StageOptions

__all__ = ["estimator_of", "names"]

LEFT_OUT = ("engine", "progress", "empty", "quasi_identifiers", "sensitive")
MODULE = "privpipe.sklearn"


def names() -> tuple[str, ...]:
    """Names of the classes."""
    return tuple(CATALOGUE[name].__name__ for name in CATALOGUE)


def estimator_of(name: str) -> type[StageEstimator] | None:
    """The estimator of a transformer by the name of its class; None: there is none."""
    for entry in CATALOGUE:
        kind: Any = CATALOGUE[entry]
        if kind.__name__ == name:
            return _made(kind)
    return None


@functools.cache
def _made(kind: Any) -> type[StageEstimator]:
    fields = {each.name: _default(each) for each in dataclasses.fields(kind) if each.init}
    options = {(f"policy_{name}" if name in fields else name): name for name in _options()}
    defaults = {**fields, **dict.fromkeys(options)}
    body = {
        "__init__": _constructor(defaults),
        "__doc__": _text(kind, defaults),
        "__module__": MODULE,
        "_kind": kind,
        "_fields": tuple(fields),
        "_options": options,
    }
    return type(kind.__name__, (StageEstimator,), body)


def _options() -> tuple[str, ...]:
    return tuple(name for name in StageOptions.__annotations__ if name not in LEFT_OUT)


def _default(each: dataclasses.Field[Any]) -> Any:
    if each.default_factory is not dataclasses.MISSING:
        return None
    return None if each.default is dataclasses.MISSING else each.default


def _constructor(defaults: Mapping[str, Any]) -> Any:
    """An `__init__` that keeps what it is given, as scikit-learn asks, with a signature to read it off."""

    def construct(self: Any, **given: Any) -> None:
        for name in given:
            if name not in defaults:
                raise TypeError(f"{type(self).__name__} got an unexpected keyword argument {name!r}")
        for name, default in defaults.items():
            setattr(self, name, given.get(name, default))

    named = inspect.Parameter.KEYWORD_ONLY
    taken = [inspect.Parameter(name, named, default=default) for name, default in defaults.items()]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    construct.__signature__ = inspect.Signature([own, *taken])  # type: ignore[attr-defined]
    return construct


def _text(kind: type[Transformer], defaults: Mapping[str, Any]) -> str:
    described = kind.descriptions()
    lines = [f"    {name} : {described.get(name, 'see `privpipe.transforms.face.StageOptions`')}" for name in defaults]
    return "\n".join([kind.summary(), "", "    Parameters", "    ----------", *lines, "    "])
