"""Functions that numba compiles when they are first needed: small inputs never wait for the compiler.

A kernel stays plain Python until it is called; where it `takes` small inputs it runs as such, with the same result.
The first call of any other kernel imports numba and passes every kernel to it. A kernel that also works on whole
columns in numpy, and that has no cached code yet, is compiled only once the numpy version has taken longer than
compiling may take: this halves the wait in the first run of a clone. Compiled code is cached for later processes (see
`places`; `privpipe warm` fills them ahead of time); where nothing can be cached, one warning says so.
A wheel for one platform contains compiled code in the package (`make wheels`), which is read and never written.

Machine code is cached under a digest of what it was compiled from: the source of every kernel, since kernels contain
each other's code. numba itself looks at the path, time and size of one kernel's file, so it would compile again in
another installation and miss a change in a kernel that is called. Functions are also distinguished by random names
instead of numbers counted in each process: cached code contains the functions that it calls, and where two functions
in a process have the same name, the first is called for both.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import importlib
import os
import pickle
import re
import secrets
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["SMALL", "KeptCode", "Kernel", "is_small", "load", "njit", "passed_over", "places", "sources"]

SMALL = 16_384
"""Elements that plain Python processes in the time that loading numba takes."""
ENOUGH = 100 * SMALL
"""After this many elements in one thread the compiler pays off, however small each call is."""
LESS_THAN_COMPILING = 0.5
"""Seconds that one kernel may take on whole columns before it is compiled; compiling one takes 0.3 to 3."""
DIGEST_BYTES = 32
"""Length of the digest at the head of a file of compiled code: loading a damaged file could crash the process."""
BROUGHT = Path(__file__).absolute().parent / "machine_code"
"""Compiled code in a wheel, for any processor of its platform."""
KEPT_FOLDERS = 4
"""Most folders of compiled code in one place, one per version of the sources."""
_kernels: list[Kernel] = []
_lock = threading.RLock()
_loaded = threading.Event()


class _Inside(threading.local):
    """What one thread is doing."""

    plain = False
    spent = 0


_inside = _Inside()


class _Names:
    """Numbers by which numba distinguishes functions of one name; random, since forks would continue one counter."""

    last = 0

    def __next__(self) -> int:
        drawn = self.last = secrets.randbits(64)
        return drawn


class _Loaded:
    """Whether all kernels have been passed to numba."""

    at_once = False


class _PassedOver:
    """How many contexts of `passed_over` are open, and whether one of them froze the objects."""

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
        What runs instead in that case, with the same result: for example on whole columns.
    options : of ``numba.njit``
    """

    def __init__(
        self, function: Callable[..., Any], small: int, plain: Callable[..., Any] | None, options: dict[str, Any]
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.plain, self._small, self._options = function, plain or function, small, options
        self.compiled: Any = None
        self._waits, self._seconds = True, 0.0

    def __call__(self, *arguments: Any) -> Any:
        if _inside.plain:
            return self.plain(*arguments)
        if self._waits:
            if self._is_better_plain(arguments):
                _inside.plain, begun = True, time.thread_time()
                try:
                    return self.plain(*arguments)
                finally:
                    _inside.plain = False
                    self._seconds += time.thread_time() - begun
            load(at_once=False)
            self._waits = False
        return self.compiled(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return _found, (self.function.__module__, self.function.__qualname__)

    def hand_over(self, numba: Any) -> None:
        """Pass it to numba; nothing is compiled yet, and kernels that can work on whole columns may still wait."""
        kept = self._options.get("cache", False) and _have_names_drawn()
        self.compiled = numba.njit(**{**self._options, "cache": False})(self.function)
        if kept and self.compiled is not self.function:  # NUMBA_DISABLE_JIT gives it back
            self.compiled._cache = KeptCode(self.function)
        self._seconds = 0.0
        self._waits = self.plain is not self.function and not _Loaded.at_once and _name_of(self.function) not in _kept()

    def wait_no_longer(self) -> None:
        """Compile it at the next call, whatever the size."""
        self._waits = False

    def _is_better_plain(self, arguments: tuple[Any, ...]) -> bool:
        if self._small == 0:
            return False
        size = sum(each.size for each in arguments if hasattr(each, "size"))
        if _loaded.is_set():
            return size <= ENOUGH and self._seconds < LESS_THAN_COMPILING
        return is_small(size, self._small)


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
        What runs for small inputs instead.
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
            _kernels.append(kernel)
            return kernel

    return decorated


def is_small(size: int, most: int = SMALL) -> bool:
    """Whether `size` elements are processed faster without the compiler; counted towards `ENOUGH`.

    Examples
    --------
    >>> is_small(10**9)
    False
    """
    if _loaded.is_set() or size > most or _inside.spent > ENOUGH:
        return False
    _inside.spent += size
    return True


def load(*, at_once: bool = True) -> None:
    """Pass every kernel to numba.

    Parameters
    ----------
    at_once : bool
        Whether all of them, including those defined later, are compiled when they are called, or some wait.
    """
    with _lock:
        if at_once and not _Loaded.at_once:
            _Loaded.at_once = True
            for kernel in _kernels if _loaded.is_set() else ():
                kernel.wait_no_longer()
        if _loaded.is_set():
            return
        numba = importlib.import_module("numba")
        _have_kernels_known()
        for kernel in _kernels:
            kernel.hand_over(numba)
        _loaded.set()
        if _PassedOver.own:
            gc.freeze()


@contextlib.contextmanager
def passed_over() -> Iterator[None]:
    """Make the garbage collector ignore all existing objects, and numba's once it is loaded, within this context.

    Libraries create several 100,000 objects that live as long as the process. The collector goes through all of them
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


def places() -> list[Path]:
    """The folders where compiled code is searched for, in this order; it is written to the first that can be written.

    Those of `PRIVPIPE_KERNELS`, separated as in `PATH`; else one next to the sources, and the user's cache.

    Examples
    --------
    >>> all(place.is_absolute() for place in places())
    True
    """
    named = [Path(each).absolute() for each in os.environ.get("PRIVPIPE_KERNELS", "").split(os.pathsep) if each]
    if named:
        return named
    package = Path(__file__).absolute().parent
    packaged = [package / "__pycache__" / "kernels"] if package.is_dir() else []
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [*packaged, Path(cache).absolute() / "privpipe" / "kernels"]


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


class KeptCode:
    """The cached code of one kernel, in one file per signature and processor.

    A file's folder is named by the sources and the versions of numba and Python, never by the path or the time of a
    file: what was compiled in one installation is found in another. Files are written whole, so a process reads one
    or none. Code for any processor of the platform is used where there is none for this processor.

    Parameters
    ----------
    function : callable
    """

    cache_path = ""  # read by numba's statistics

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = _name_of(function)
        own = function.__module__.startswith("privpipe.")
        self._source = b"" if own else Path(function.__code__.co_filename).read_bytes()
        self._keeps = function.__closure__ is None

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled code of a signature, or None."""
        target.refresh()
        processor = target.codegen().magic_tuple()
        for made_for in (processor, (processor[0], "generic", "")):
            name = self._file(signature, made_for)
            for place in (*places(), BROUGHT) if name else ():
                found = _read(place / _folder() / name)
                if found is not None:
                    rebuild = importlib.import_module("numba.core.compiler").CompileResult._rebuild
                    return rebuild(target, *found)
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Save it to the first place that can be written to; where there is none, one warning says so."""
        name = self._file(signature, compiled.codegen.magic_tuple())
        if not name or compiled.library.has_dynamic_globals or any(not each.can_cache for each in compiled.lifted):
            return
        data = importlib.import_module("numba.core.serialize").dumps(compiled._reduce())
        if not any(_written(place, name, data) for place in places()):
            _warn_once()

    def enable(self) -> None:
        """Part of numba's protocol: it is always enabled."""

    def disable(self) -> None:
        """Part of numba's protocol: it is always enabled."""

    def flush(self) -> None:
        """Part of numba's protocol: code of other sources is in other folders."""

    def _file(self, signature: Any, processor: Any) -> str:
        """The name of the file; empty for code that another process would not find."""
        key = repr((signature, processor))
        if not self._keeps or " at 0x" in key:
            return ""
        return f"{self._name}.{hashlib.sha256(key.encode() + self._source).hexdigest()[:20]}.nbc"


def _have_kernels_known() -> None:
    """Make numba see the compiled form of a kernel where compiled code calls it."""
    types = importlib.import_module("numba.core.types")
    typeof = importlib.import_module("numba.extending").typeof_impl
    typeof.register(Kernel)(lambda kernel, _: types.Dispatcher(kernel.compiled))


def _name_of(function: Callable[..., Any]) -> str:
    """Module, name and line of a kernel."""
    return f"{function.__module__.removeprefix('privpipe.')}.{function.__qualname__}-{function.__code__.co_firstlineno}"


@functools.cache
def _kept() -> frozenset[str]:
    """The kernels that had cached code when they were passed to numba."""
    folders = [place / _folder() for place in (*places(), BROUGHT)]
    files = [file.name for folder in folders if folder.is_dir() for file in folder.iterdir()]
    return frozenset(name.rsplit(".", 2)[0] for name in files)


@functools.cache
def _folder() -> str:
    numba = importlib.import_module("numba")
    return f"{sources()[:20]}-numba{numba.__version__}-{sys.implementation.cache_tag}"


def _sealed(data: bytes) -> bytes:
    return hashlib.sha256(data).digest() + data


def _read(file: Path) -> Any:
    try:
        found = file.read_bytes()
        data = found[DIGEST_BYTES:]
        return pickle.loads(data) if found == _sealed(data) else None  # None for a truncated or damaged file
    except (OSError, ImportError, AttributeError):  # no file, or one that refers to names of another release
        return None


def _written(place: Path, name: str, data: bytes) -> bool:
    folder = place / _folder()
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _remove_older(place)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", delete=False) as file:
            written = Path(file.name)
            try:
                file.write(_sealed(data))
                file.close()
                written.chmod(0o644)
                written.replace(folder / name)
            except OSError:
                written.unlink(missing_ok=True)
                raise
    except OSError:
        return False
    return True


def _remove_older(place: Path) -> None:
    """Remove folders of other sources, except the latest ones, which another installation may use."""
    folders = [each for each in place.iterdir() if each.is_dir() and re.match(r"[0-9a-f]{20}-numba", each.name)]
    for folder in sorted(folders, key=lambda each: each.stat().st_mtime, reverse=True)[KEPT_FOLDERS:]:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        f"compiled kernels cannot be kept in {' or '.join(map(str, places()))}: every process compiles them again, "
        "which takes seconds to a minute; name a folder that can be written to in PRIVPIPE_KERNELS, or fill one with "
        "`privpipe warm FOLDER` and name that",
        RuntimeWarning,
        stacklevel=2,
    )


@functools.cache
def _have_names_drawn() -> bool:
    """Make numba draw the numbers of its functions at random; otherwise cached code may call the wrong function."""
    identity = importlib.import_module("numba.core.bytecode").FunctionIdentity
    identity._unique_ids = names = _Names()
    return bool(identity.from_function(_found).unique_id == names.last)


def _found(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
