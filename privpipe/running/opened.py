"""The engine that runs over some data: the one handed over, the one named, or the one the data is native to."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from privpipe.engines import Engine, engine_for, open_engine
from privpipe.policy import Policy

__all__ = ["OpenedEngine", "is_path"]


def is_path(data: Any) -> bool:
    """Whether data lies in files; None is the policy's own source.

    Examples
    --------
    >>> is_path("adult.csv"), is_path([])
    (True, False)
    """
    return data is None or isinstance(data, str | PurePath)


class OpenedEngine:
    """The engine asked for: one given stays open, one named is opened and closed."""

    def __init__(self, engine: str | Engine | None, data: Any, policy: Policy) -> None:
        self._given = engine if isinstance(engine, Engine) else None
        name = engine if isinstance(engine, str) else None
        if name is None:
            name = policy.engine if is_path(data) or data is policy else engine_for(data)
        self._name, self._options = name, policy.engines.get(name, {})

    def __enter__(self) -> Engine:
        self._engine = self._given or open_engine(self._name, self._options)
        return self._engine

    def __exit__(self, *details: object) -> None:
        if self._given is None:
            self._engine.close()
