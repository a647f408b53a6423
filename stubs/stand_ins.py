"""Stand-ins for the libraries that the package imports, so that its classes can be read where none is installed."""

from __future__ import annotations

import sys
from abc import ABCMeta
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["take_their_place"]

KEPT = {"privpipe", "stubs", "annotated_types", "typing_extensions"}
"""Packages that are imported as they are: what an annotation says is written in the last two."""


class _Kind(ABCMeta):
    """What a stand-in does: anything asked of it is another one, and as a number it is zero."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name != "__fields__":  # of models of pydantic
            raise AttributeError(name)
        return _stand_in(name)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        # A class of the package that derives from one is made as any other.
        return super().__call__(*arguments, **named) if cls.__module__.startswith("privpipe") else cls

    def __int__(cls) -> int:
        return 0

    def __float__(cls) -> float:
        return 0.0

    __index__ = __int__

    def __iter__(cls) -> Any:
        return iter(())

    def _itself(cls, *others: Any) -> Any:
        return cls

    __getitem__ = __or__ = __ror__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _itself
    __truediv__ = __rtruediv__ = __floordiv__ = __pow__ = __rpow__ = __lshift__ = __rshift__ = __and__ = _itself
    __invert__ = __neg__ = _itself


class _StandIn(metaclass=_Kind):
    """Base of all."""


class _Library(ModuleType):
    """A module whose every name is a stand-in, the same each time."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = _stand_in(name)
        setattr(self, name, found)
        return found


class _Finder:
    """Finds every module that is neither kept nor of the standard library."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        root = name.partition(".")[0]
        if root in KEPT or root in sys.stdlib_module_names:
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Library(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run."""


def take_their_place() -> None:
    """Have this process import a stand-in for every library, whether or not it is installed."""
    sys.meta_path.insert(0, _Finder())


def _stand_in(name: str) -> Any:
    return _Kind(name, (_StandIn,), {"__module__": __name__})
