"""Functions that numba compiles when they are first needed: small inputs never wait for the compiler.

A kernel stays plain Python until it is called; where it `takes` small inputs it runs as such, with the same result.
The first call of any other has numba imported, and every kernel handed to it. What is compiled is kept for later
processes where there is a place to write to, and compiled anew where there is none (an archive on the path, a
read-only installation).
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["SMALL", "Kernel", "load", "njit"]

SMALL = 16_384
"""Elements that plain Python goes through in the time that loading numba takes."""
_kernels: list[Kernel] = []
_lock = threading.RLock()
_loaded = threading.Event()


class Kernel:
    """A function and how numba is to compile it.

    Parameters
    ----------
    function : callable
    small : int
        Elements of all its arrays up to which it runs as plain Python while numba is not loaded.
    options : of ``numba.njit``
    """

    def __init__(self, function: Callable[..., Any], small: int, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function, self._small, self._options = function, small, options
        self.compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self.compiled is None:
            if not _loaded.is_set() and self._is_small(arguments):
                return self.function(*arguments)
            load()
        return self.compiled(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return _found, (self.function.__module__, self.function.__qualname__)

    def hand_over(self, numba: Any) -> None:
        """Make it numba's; nothing is compiled yet."""
        try:
            self.compiled = numba.njit(**self._options)(self.function)
        except RuntimeError:  # numba finds no place for what it compiles
            self.compiled = numba.njit(**{**self._options, "cache": False})(self.function)

    def _is_small(self, arguments: tuple[Any, ...]) -> bool:
        return self._small > 0 and sum(len(each) for each in arguments if hasattr(each, "__len__")) <= self._small


def njit(*, small: int = 0, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that has numba compile a function once it is needed.

    Parameters
    ----------
    small : int
        Elements of all its arrays up to which it may run as plain Python; 0: never. For functions that mean the same
        there: without unsigned arithmetic that wraps around.
    options : of ``numba.njit``

    Examples
    --------
    >>> import numpy as np
    >>> @njit(small=10, nogil=True)
    ... def added(values):
    ...     total = 0
    ...     for value in values:
    ...         total += value
    ...     return total
    >>> int(added(np.array([1, 2])))
    3
    """

    def decorated(function: Callable[..., Any]) -> Any:
        with _lock:
            kernel = Kernel(function, small, options)
            if _loaded.is_set():
                kernel.hand_over(importlib.import_module("numba"))
                return kernel.compiled
            _kernels.append(kernel)
            return kernel

    return decorated


def load() -> None:
    """Hand every kernel to numba, and put what it made in their places, where kernels call each other."""
    with _lock:
        if _loaded.is_set():
            return
        numba = importlib.import_module("numba")
        for kernel in _kernels:
            kernel.hand_over(numba)
        for kernel in _kernels:
            names = kernel.function.__globals__
            for name, value in list(names.items()):
                if isinstance(value, Kernel):
                    names[name] = value.compiled
        _kernels.clear()
        _loaded.set()


def _found(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
