"""The runner: stage, judge, publish, judge again; and the four functions of the Python interface."""

from __future__ import annotations

import importlib
from typing import Any

_WIRES = {
    "Plan": "privpipe.running.plan",
    "Policy": "privpipe.policy",
    "ReleaseResult": "privpipe.running.release_result",
    "apply_policy": "privpipe.running.frames",
    "release_frame": "privpipe.running.frames",
}

__all__ = ["Plan", "Policy", "ReleaseResult", "apply_policy", "release_frame"]


def __getattr__(name: str) -> Any:
    if name in _WIRES:
        return getattr(importlib.import_module(_WIRES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
