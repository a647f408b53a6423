"""Prefect: a task that releases, and one that judges a finished table.

::

    from privpipe.prefect import privpipe_judge, privpipe_release

    @flow
    def nightly():
        privpipe_release("policies/visits.yaml")

A refusal fails the task for good; a breakdown is tried again. What Prefect keeps holds the public figures and paths.
"""

from __future__ import annotations

import importlib
from typing import Any

WIRES = dict.fromkeys(("privpipe_judge", "privpipe_release", "worth_another_try"), "privpipe.prefect.tasks")

__all__ = sorted(WIRES)


def __getattr__(name: str) -> Any:
    if name in WIRES:
        return getattr(importlib.import_module(WIRES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
