"""Engines: thin, and each line that keeps an answer right says why."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from privpipe.engines.base import Engine, Format, Source, Written
from privpipe.errors import UsageError, did_you_mean

__all__ = ["ENGINES", "Engine", "Format", "Source", "Written", "engine_for", "open_engine"]

ENGINES: Mapping[str, str] = {
    "embedded": "EmbeddedEngine",
    "dask": "DaskEngine",
    "spark": "SparkEngine",
}


def open_engine(name: str, options: Mapping[str, Any] | None = None) -> Engine:
    """An engine by name; `options` are those of ``engines.<name>`` in a policy.

    Raises
    ------
    UsageError
        An unknown engine or option, or the engine's extra is not installed.
    """
    if name not in ENGINES:
        raise UsageError(f"unknown engine {name!r}{did_you_mean(name, ENGINES)}; one of {', '.join(ENGINES)}")
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
