"""The border of the public functions: no foreign exception leaves one, and no text that could quote a cell value.

A log is a release too, and the texts of pyarrow, pandas, DuckDB, Spark and of Python itself quote what they fail at.
An exception of ours passes unchanged. Of any other one only the class and the way through the code are left, as the
`Cause` of an exception of ours; so are all that an exception was raised from or while handling.
"""

from __future__ import annotations

import functools
import inspect
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import Any, TypeVar

from privpipe.errors import DataError, EngineError, InternalError, PrivpipeError

__all__ = ["Cause", "bordered", "callers_own", "cleaned", "ours_of", "reading"]

T = TypeVar("T", bound=Callable[..., Any])
DATA_LIBRARIES = frozenset(
    ("_duckdb", "dateutil", "decimal", "deltalake", "duckdb", "fastavro", "ibis", "pandas", "polars", "pyarrow", "pytz")
)
"""Libraries that read and compute the caller's tables: what they refuse is in most cases in the data."""
ENGINE_LIBRARIES = frozenset(["dask", "distributed", "py4j", "pyspark"])
OF_VALUES = (OverflowError, UnicodeError)
CALLERS = "__privpipe_callers_own__"
WITHHELD = "its text may quote a value, and is left out"
LONGEST = 20
"""Exceptions of one chain that are kept."""
_inside: ContextVar[bool] = ContextVar("privpipe_inside", default=False)


class Cause(Exception):
    """A foreign exception without its text: its class and the place in our code.

    Attributes
    ----------
    kind : str
        Its class.
    place : str
        Module, line and function of the last frame in our code, else of the last one.
    way : tuple of str
        All frames, outermost first.
    """

    kind: str = ""
    place: str = ""
    way: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: BaseException) -> Cause:
        """What may be shown of an exception.

        Examples
        --------
        >>> Cause.of(ValueError("a cell value"))
        Cause('ValueError at an unknown place')
        """
        way = tuple(
            f"{frame.f_globals.get('__name__', '?')}:{line} in {frame.f_code.co_name}"
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_globals.get("__name__") != __name__
        )
        ours = [step for step in way if step.startswith("privpipe.")]
        place = (ours or way or ("an unknown place",))[-1]
        made = cls(f"{type(error).__name__} at {place}")
        made.kind, made.place, made.way = type(error).__name__, place, way
        return made


def bordered(target: T) -> T:
    """A public function, or a class with its public methods, whose exceptions are ours and quote no value.

    What passes: exceptions of ours; the end of a process (`KeyboardInterrupt`, `SystemExit`, `GeneratorExit`); what a
    caller's progress function raised; the TypeError of a call whose arguments do not fit the signature.

    Examples
    --------
    >>> @bordered
    ... def parsed(text):
    ...     return int(text)
    >>> parsed("915148800000000001x")
    Traceback (most recent call last):
        ...
    privpipe.errors.InternalError: privpipe crashed: ValueError at ...
    """
    if isinstance(target, type):
        for name, member in list(vars(target).items()):
            if name.startswith("_") and name != "__call__":
                continue
            if isinstance(member, classmethod | staticmethod):
                setattr(target, name, type(member)(_wrapped(member.__func__)))
            elif isinstance(member, FunctionType):
                setattr(target, name, _wrapped(member))
        target.__bordered__ = True  # type: ignore[attr-defined]
        return target
    return _wrapped(target)  # type: ignore[return-value]


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(function, "__bordered__") or inspect.isgeneratorfunction(function):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _inside.get():
            return function(*args, **kwargs)
        if "progress" in kwargs:
            kwargs["progress"] = callers_own(kwargs["progress"])
        token = _inside.set(True)
        try:
            return function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 the one place where foreign exceptions become ours
            left = _leaving(error)
        finally:
            _inside.reset(token)
        try:
            raise left
        finally:
            del left  # no cycle of frame and exception, which would keep the tables of the frames alive

    call.__bordered__ = True  # type: ignore[attr-defined]
    return call


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Read what the caller passed: any foreign exception is blamed on the input, including the code that it contains.

    Raises
    ------
    DataError

    Examples
    --------
    >>> with reading("the frame"):
    ...     raise KeyError("a cell value")
    Traceback (most recent call last):
        ...
    privpipe.errors.DataError: the frame cannot be read: KeyError (its text may quote a value, and is left out)
    """
    try:
        yield
    except (PrivpipeError, MemoryError):
        raise
    except Exception as error:
        if getattr(error, "errno", None) is not None or _library(error) in ENGINE_LIBRARIES:
            raise
        kind = type(error).__name__
        raise DataError(f"{what} cannot be read: {kind} ({WITHHELD})") from error


def callers_own(function: Any) -> Any:
    """A caller's function, whose exceptions reach the caller unchanged; anything else is returned unchanged."""
    if not callable(function):
        return function

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            setattr(error, CALLERS, True)
            raise

    return call


def _leaving(error: BaseException) -> BaseException:
    """The exception that a public function raises instead of this one."""
    if getattr(error, CALLERS, False):
        return error
    own_frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
    if isinstance(error, PrivpipeError) or not isinstance(error, Exception):
        return cleaned(error)
    if isinstance(error, TypeError) and own_frames is None:
        return TypeError(*error.args)  # of the call itself: it names an argument
    return ours_of(error)


def ours_of(error: Exception) -> PrivpipeError:
    """The privpipe exception that reports a foreign one by class and place, without its text.

    Examples
    --------
    >>> ours_of(MemoryError())
    EngineError('memory ran out in this process; set `memory_limit` under `engines.embedded`, or give it more')
    >>> ours_of(OSError(28, "", "/home/a/part-0.csv"))
    EngineError('No space left on device (part-0.csv)')
    """
    if isinstance(error, PrivpipeError):
        cleaned(error)
        return error
    cause = cleaned(error)
    found = _reported(error, str(cause))
    found.__cause__ = cause
    return found


def _reported(error: Exception, told: str) -> PrivpipeError:
    if isinstance(error, MemoryError):
        return EngineError(
            "memory ran out in this process; set `memory_limit` under `engines.embedded`, or give it more"
        )
    if isinstance(error, OSError) and error.errno is not None:
        return EngineError(f"{os.strerror(error.errno)}{_file_of(error)}")
    roots = {_library(error), _innermost(error)}
    if roots & ENGINE_LIBRARIES:
        return EngineError(f"the engine failed: {told}")
    if roots & DATA_LIBRARIES or isinstance(error, OF_VALUES):
        return DataError(f"the data cannot be read or computed as they are: {told} ({WITHHELD})")
    return InternalError(f"privpipe crashed: {told}. This is a bug")


def _file_of(error: OSError) -> str:
    """Only the last part of a path, which names no person, unless it could be a value of a partition column."""
    name = os.path.basename(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else ""
    return f" ({name})" if name and "=" not in name else ""


def _library(error: BaseException) -> str:
    """The library that defines its class."""
    return type(error).__module__.partition(".")[0]


def _innermost(error: BaseException) -> str:
    """The library whose code raised it."""
    last = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        last = str(frame.f_globals.get("__name__", ""))
    return last.partition(".")[0]


def cleaned(error: BaseException, known: dict[int, BaseException] | None = None) -> BaseException:
    """The exception if it may be shown, else its `Cause`; the same for its chain, without notes."""
    known = {} if known is None else known
    if id(error) in known:
        return known[id(error)]
    stays = isinstance(error, PrivpipeError | Cause) or not isinstance(error, Exception)
    kept = error if stays else Cause.of(error)
    known[id(error)] = kept
    before = (error.__cause__, error.__context__) if len(known) < LONGEST else (None, None)
    cause, context = (None if each is None else cleaned(each, known) for each in before)
    suppressed = error.__suppress_context__
    kept.__cause__, kept.__context__, kept.__suppress_context__ = cause, context, suppressed
    if hasattr(kept, "__notes__"):
        del kept.__notes__
    return kept
