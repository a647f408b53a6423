"""Engines: thin, and each line that keeps an answer right shows why."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from privpipe import plugins
from privpipe.engines.base import Engine, Format, Source, Written
from privpipe.errors import UsageError, did_you_mean

__all__ = [
    "ENGINES",
    "Engine",
    "Format",
    "Source",
    "Written",
    "engine_fault",
    "engine_for",
    "engine_names",
    "open_engine",
]

ENGINES: Mapping[str, str] = {
    "embedded": "EmbeddedEngine",
    "dask": "DaskEngine",
    "spark": "SparkEngine",
}
"""Those of this package; plug-ins bring others."""
PLUG_INS = "privpipe.engines"


def engine_names() -> tuple[str, ...]:
    """Names of the available engines: those built in, then those of valid plug-ins."""
    return (*ENGINES, *plugins.names(PLUG_INS))


def engine_fault(name: str) -> str:
    """Why there is no engine of that name, or empty; only opening a built-in one checks for its packages."""
    if name in ENGINES:
        return ""
    for each in plugins.found():
        if (each.group, each.name) == (PLUG_INS, name):
            return plugins.fault(each)
    known = engine_names()
    return f"unknown engine {name!r}{did_you_mean(name, known)}; one of {', '.join(known)}"


def open_engine(name: str, options: Mapping[str, Any] | None = None) -> Engine:
    """An engine by name; `options` are those of ``engines.<name>`` in a policy.

    Raises
    ------
    UsageError
        An unknown engine or option, the engine's extra is not installed, or the plug-in that brings it is not sound.
    """
    if wrong := engine_fault(name):
        raise UsageError(wrong)
    if name not in ENGINES:
        plugged: type[Engine] = plugins.load(PLUG_INS, name)
        return plugged.open(dict(options or {}))
    try:
        module = importlib.import_module(f"privpipe.engines.{name}")
    except ImportError as error:
        raise UsageError(
            f"the {name} engine needs {error.name or 'a package'}, which is not installed: "
            f"pip install 'privpipe[{name}]'"
        ) from error
    return getattr(module, ENGINES[name]).open(dict(options or {}))


def engine_for(data: Any) -> str:
    """Name of the engine a frame is native to; paths and local frames are the embedded engine's.

    Examples
    --------
    >>> engine_for("data/adult.parquet")
    'embedded'
    """
    root = type(data).__module__.partition(".")[0]
    return {"pyspark": "spark", "dask": "dask", "dask_expr": "dask"}.get(root, "embedded")
