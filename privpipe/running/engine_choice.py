"""The engine that runs over some data: the one passed, the one named, or the one the data is native to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import PurePath
from typing import Any

from privpipe.engines import Engine, Source, engine_for, open_engine
from privpipe.engines.base.frames import is_connection
from privpipe.errors import UsageError
from privpipe.policy import Policy

__all__ = ["OpenedEngine", "is_path"]


def is_path(data: Any) -> bool:
    """Whether data is in files, or is given as a `Source`; None is the policy's own source.

    Examples
    --------
    >>> is_path("adult.csv"), is_path([])
    (True, False)
    """
    return data is None or isinstance(data, str | PurePath | Source)


class OpenedEngine:
    """The engine asked for: one given stays open, one named is opened and closed.

    A DuckDB connection represents the embedded engine under its limits: frames and tables are read through it, and the
    work is done in a database of our own, so that nothing of the caller's changes.

    Parameters
    ----------
    engine : str, Engine or DuckDB connection, optional
    data : path or frame
        What says which engine is native, where none is asked for.
    policy : Policy
        Gives the engine of paths, and the options of each.
    holds : bool
        Whether lazy frames are evaluated once for all that reads them, and released at the end. What a caller gets
        back must not be computed from them then.
    """

    def __init__(self, engine: Any, data: Any, policy: Policy, *, holds: bool = True) -> None:
        self._holds = holds
        self._connection = engine if is_connection(engine) else None
        if self._connection is not None:
            self._given, self._name, self._place = None, "embedded", ""
            self._options: Mapping[str, Any] = _limits(engine)
            return
        if not (engine is None or isinstance(engine, str | Engine)):
            raise UsageError(f"engine: give a name, an engine or a DuckDB connection, not {type(engine).__name__}")
        self._given = engine if isinstance(engine, Engine) else None
        name = engine if isinstance(engine, str) else None
        if name is None:
            name = policy.engine if is_path(data) or data is policy else engine_for(data)
        self._name, self._options = name, policy.engines.get(name, {})
        self._place = policy.located(f"engines.{name}") if self._options else ""

    def __enter__(self) -> Engine:
        try:
            self._engine = self._given or open_engine(self._name, self._options)
        except UsageError as error:
            raise UsageError(f"{self._place}: {error}" if self._place else str(error)) from None
        if self._connection is not None:
            from privpipe.engines.embedded.engine import EmbeddedEngine

            if isinstance(self._engine, EmbeddedEngine):
                self._engine.connection = self._connection
        self._holding = self._engine.frames.holding() if self._holds else nullcontext()
        self._holding.__enter__()
        return self._engine

    def __exit__(self, *details: object) -> None:
        try:
            self._holding.__exit__(None, None, None)
        finally:
            if self._given is None:
                self._engine.close()


def _limits(connection: Any) -> dict[str, Any]:
    """The limits of a caller's connection, as options of the embedded engine."""
    query = "SELECT current_setting('threads'), current_setting('memory_limit')"
    threads, memory = connection.cursor().execute(query).fetchone()
    return {"threads": int(threads), "memory_limit": str(memory)}
