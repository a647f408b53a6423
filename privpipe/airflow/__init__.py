"""Airflow: an operator that releases, and a sensor that waits for a release.

::

    from privpipe.airflow import PrivpipeReleaseOperator, PrivpipeSensor

A refused release fails the task for good; a breakdown is retried according to `retries`. What Airflow keeps of a task
(XComs, rendered fields, logs, links) holds the public figures and paths, never a value of the data.
"""

from __future__ import annotations

import importlib
from typing import Any

WIRES = {
    "PrivpipeReleaseOperator": "privpipe.airflow.operators",
    "PrivpipeSensor": "privpipe.airflow.operators",
    "ReportLink": "privpipe.airflow.operators",
}

__all__ = sorted(WIRES)


def __getattr__(name: str) -> Any:
    if name in WIRES:
        return getattr(importlib.import_module(WIRES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
