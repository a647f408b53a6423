"""Great Expectations 1.x: one expectation a guarantee, made from the catalogues.

Importing this room registers them, so do it before a saved suite is loaded::

    import privpipe.gx as ppgx
    suite = ppgx.load_suite("expectations/adult.json")

Results carry aggregates only: what was observed, what was asked, how many classes and records fail.
"""

from __future__ import annotations

import os

# Decided before great_expectations is imported, which reads it once.
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

from privpipe.gx.action import RaiseOnFailure
from privpipe.gx.expectations import EXPECTATIONS, PrivacyExpectation
from privpipe.gx.handle import handle
from privpipe.gx.suites import load_suite, save_suite, suite_of

__all__ = [
    "EXPECTATIONS",
    "PrivacyExpectation",
    "RaiseOnFailure",
    "handle",
    "load_suite",
    "save_suite",
    "suite_of",
]


def __getattr__(name: str) -> type[PrivacyExpectation]:
    for expectation in EXPECTATIONS.values():
        if expectation.__name__ == name:
            return expectation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
