"""Functions that numba compiles when they are first needed: small inputs never wait for the compiler.

A kernel stays plain Python until it is called; where it `takes` small inputs it runs as such, with the same result.
The first call of any other has numba imported, and every kernel handed to it. What is compiled is kept for later
processes where there is a place to write to, and compiled again where there is none (an archive on the path, a
read-only installation). What an image brings compiled, in the folder `PRIVPIPE_KERNELS`, is taken from there.

Machine code is kept under a separate name, made of what it was compiled from: the source of every kernel, since
kernels hold each other's code. numba's own names are numbers, which another process, or another release of privpipe,
may give to other code at the same moment; and it looks at the file of one kernel alone. Functions have names of their
own too, instead of numbers counted in each process: kept code holds the functions that it calls, and of two functions
of one name in a process, the first is called for both.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import importlib
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["SMALL", "Kernel", "bring", "is_small", "kept_code", "load", "njit", "passed_over", "sources"]

SMALL = 16_384
"""Elements that plain Python goes through in the time that loading numba takes."""
ENOUGH = 100 * SMALL
"""Elements in one thread after which the next are worth the compiler, however small each call."""
_kernels: list[Kernel] = []
_lock = threading.RLock()
_loaded = threading.Event()


class _Inside(threading.local):
    """What one thread is at."""

    plain = False
    spent = 0


_inside = _Inside()


class _Names:
    """Numbers by which numba distinguishes functions of one name; drawn, as forks would count on from their parent."""

    last = 0

    def __next__(self) -> int:
        drawn = self.last = secrets.randbits(64)
        return drawn


class _PassedOver:
    """How many runs have objects passed over, and whether it was for them that the collector began to."""

    runs = 0
    own = False


class Kernel:
    """A function and how numba is to compile it.

    Parameters
    ----------
    function : callable
    small : int
        Elements of all its arrays up to which it runs as plain Python while numba is not loaded.
    plain : callable, optional
        What runs then in its place, with the same result: whole columns at a time, say.
    options : of ``numba.njit``
    """

    def __init__(
        self, function: Callable[..., Any], small: int, plain: Callable[..., Any] | None, options: dict[str, Any]
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.plain, self._small, self._options = function, plain or function, small, options
        self.compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self.compiled is None:
            if _inside.plain:
                return self.plain(*arguments)
            if self._is_small(arguments):
                _inside.plain = True
                try:
                    return self.plain(*arguments)
                finally:
                    _inside.plain = False
            load()
        return self.compiled(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return _found, (self.function.__module__, self.function.__qualname__)

    def hand_over(self, numba: Any) -> None:
        """Make it numba's; nothing is compiled yet."""
        kept = self._options.get("cache", False) and _have_names_drawn()
        try:
            self.compiled = numba.njit(**{**self._options, "cache": kept})(self.function)
        except RuntimeError:  # numba finds no place for what it compiles
            self.compiled = numba.njit(**{**self._options, "cache": False})(self.function)
            return
        if kept and self.compiled is not self.function:  # NUMBA_DISABLE_JIT gives it back
            cache = self.compiled._cache
            own = cache._cache_file
            cache._cache_file = kept_code(str(cache.cache_path), cache._impl.filename_base, own._source_stamp)

    def _is_small(self, arguments: tuple[Any, ...]) -> bool:
        return self._small > 0 and is_small(sum(each.size for each in arguments if hasattr(each, "size")), self._small)


def njit(
    *, small: int = 0, plain: Callable[..., Any] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that has numba compile a function once it is needed.

    Parameters
    ----------
    small : int
        Elements of all its arrays up to which it may run as plain Python; 0: never. For functions that mean the same
        there: without unsigned arithmetic of scalars that wraps around, which numpy warns of.
    plain : callable, optional
        What runs for small inputs in its place.
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
            kernel = Kernel(function, small, plain, options)
            if _loaded.is_set():
                kernel.hand_over(importlib.import_module("numba"))
                return kernel.compiled
            _kernels.append(kernel)
            return kernel

    return decorated


def is_small(size: int, most: int = SMALL) -> bool:
    """Whether so many elements had better be gone through without the compiler; counted against `ENOUGH`.

    Examples
    --------
    >>> is_small(10**9)
    False
    """
    if _loaded.is_set() or size > most or _inside.spent > ENOUGH:
        return False
    _inside.spent += size
    return True


def load() -> None:
    """Hand every kernel to numba, and put what it made in their places, where kernels call each other."""
    with _lock:
        if _loaded.is_set():
            return
        brought, kept = os.environ.get("PRIVPIPE_KERNELS"), os.environ.get("NUMBA_CACHE_DIR")
        if brought and kept:
            bring(Path(brought), Path(kept))
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
        if _PassedOver.own:
            gc.freeze()


@contextlib.contextmanager
def passed_over() -> Iterator[None]:
    """Let the garbage collector pass over what is there now, and numba once it is loaded, for as long as this lasts.

    Libraries bring several 100,000 objects that live as long as the process. The collector goes through all of them
    several times a run, while every thread waits for the interpreter. Where the caller has frozen objects already,
    nothing is done.

    Examples
    --------
    >>> with passed_over():
    ...     gc.get_freeze_count() > 0
    True
    >>> gc.get_freeze_count()
    0
    """
    with _lock:
        if not _PassedOver.runs and not gc.get_freeze_count():
            gc.freeze()
            _PassedOver.own = True
        _PassedOver.runs += 1
    try:
        yield
    finally:
        with _lock:
            _PassedOver.runs -= 1
            if not _PassedOver.runs and _PassedOver.own:
                gc.unfreeze()
                _PassedOver.own = False


def bring(brought: Path, kept: Path) -> None:
    """Put what was compiled ahead of time where numba looks, which takes no folder that it cannot write to.

    What is there already stays; where nothing can be written, kernels are compiled as without a cache.

    Parameters
    ----------
    brought : Path
        May be read-only.
    kept : Path
        The folder `NUMBA_CACHE_DIR`.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = Path(folder, "made", "kernels_1")
    ...     made.mkdir(parents=True)
    ...     Path(made, "f.nbi").touch()
    ...     bring(made.parent, Path(folder, "kept"))
    ...     Path(folder, "kept", "kernels_1", "f.nbi").exists()
    True
    """
    # An index comes after what it names, and whole: another process may read it at once.
    files = sorted(brought.rglob("*.nb[ci]"), key=lambda file: (file.suffix, file))
    with contextlib.suppress(OSError):
        for file in files:
            place = kept / file.relative_to(brought)
            if place.exists():
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".brought-") as copy:
                shutil.copyfile(file, copy.name)
                with contextlib.suppress(FileExistsError):
                    os.link(copy.name, place)


@functools.cache
def sources() -> str:
    """A digest of every file of privpipe that may hold a kernel, or of the archive that holds them."""
    package, digest = Path(__file__).parent, hashlib.sha256()
    archive = next((place for place in package.parents if place.is_file()), None)
    files = [Path(__file__), *(package / "draws").rglob("*.py"), *(package / "kernels").rglob("*.py")]
    for file in sorted(files) if archive is None else [archive]:
        digest.update(f"{file.name if archive else file.relative_to(package)} {file.stat().st_size}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def kept_code(folder: str, base: str, stamp: Any) -> Any:
    """The files in which numba keeps what it compiled of one kernel: code first, then the index that names it.

    Parameters
    ----------
    folder, base : str
        Where they are, and how their names begin.
    stamp : tuple
        What numba knows of the kernel's file.
    """
    return _kept_code_class()(folder, base, (stamp, sources()))


@functools.cache
def _kept_code_class() -> Any:
    caching = importlib.import_module("numba.core.caching")

    class KeptCode(caching.IndexDataCacheFile):  # type: ignore[misc, name-defined]
        def _load_index(self) -> Any:
            try:
                return super()._load_index()
            except (ImportError, AttributeError):  # it names a class of another release, which is gone
                return {}

        def save(self, key: Any, data: Any) -> None:
            made = hashlib.sha256(repr(self._source_stamp).encode()).hexdigest()[:12]
            name = f"{Path(self._index_path).stem}.{made}-{hashlib.sha256(repr(key).encode()).hexdigest()[:12]}.nbc"
            with contextlib.suppress(OSError):  # a full disk: the next process compiles it again
                self._save_data(name, data)
                self._save_index({**self._load_index(), key: name})
                self._leave_older(made)

        def _leave_older(self, made: str) -> None:
            start = f"{Path(self._index_path).stem}."
            for file in Path(self._cache_path).iterdir():
                if file.suffix == ".nbc" and file.name.startswith(start) and not file.name.startswith(start + made):
                    file.unlink(missing_ok=True)

    return KeptCode


@functools.cache
def _have_names_drawn() -> bool:
    """Have numba draw what distinguishes its functions; where it does not, code that is kept may call another one."""
    identity = importlib.import_module("numba.core.bytecode").FunctionIdentity
    identity._unique_ids = names = _Names()
    return bool(identity.from_function(_found).unique_id == names.last)


def _found(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
