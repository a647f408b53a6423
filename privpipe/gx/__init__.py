"""Great Expectations 1.x: one expectation per guarantee, made from the catalogues.

Importing this room registers them, so do it before a saved suite is loaded::

    import privpipe.gx as ppgx
    suite = ppgx.load_suite("expectations/adult.json")

Great Expectations passes over an expectation that it does not know and reports success. `protect` has every
process that opens a data context load these; `check` finds suites that have lost some.

Results contain only aggregates: what was observed and required, how many classes and records fail. An expectation
that compares the batch with its original or a population gets the path of that table, never its content::

    ppgx.hold("original", visits)  # or a path
    ppgx.ExpectRecordLinkage(
        quasi_identifiers=["age"], at_most=0.05, original_source={"handle": "original"}, align="position"
    )
"""

from __future__ import annotations

import os

# Decided before great_expectations is imported, which reads it once.
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

from privpipe.blocks.entry import snake_case
from privpipe.errors import UnsupportedError
from privpipe.gx.action import RaiseOnFailure
from privpipe.gx.expectations import EXPECTATIONS, REFUSED, ExpectSafeHarbor, PrivacyExpectation
from privpipe.gx.joint_expectations import JOINT_EXPECTATIONS, JointExpectation
from privpipe.gx.store import ContextFinding, check, protect
from privpipe.gx.suites import TEMPLATES, Initialised, init, load_suite, save_suite, suite_of, suites_of, template
from privpipe.gx.table_expectations import (
    TABLE_EXPECTATIONS,
    ExpectDifferencing,
    ExpectDominance,
    ExpectGroupDisclosure,
    ExpectMinimumFrequency,
    ExpectPPercent,
    ExpectPriorPosterior,
    ExpectTableAudit,
)
from privpipe.gx.tables import handle, hold, let_go

__all__ = [
    "EXPECTATIONS",
    "JOINT_EXPECTATIONS",
    "REFUSED",
    "TABLE_EXPECTATIONS",
    "TEMPLATES",
    "ContextFinding",
    "ExpectDifferencing",
    "ExpectDominance",
    "ExpectGroupDisclosure",
    "ExpectMinimumFrequency",
    "ExpectPPercent",
    "ExpectPriorPosterior",
    "ExpectSafeHarbor",
    "ExpectTableAudit",
    "Initialised",
    "PrivacyExpectation",
    "RaiseOnFailure",
    "check",
    "handle",
    "hold",
    "init",
    "let_go",
    "load_suite",
    "protect",
    "save_suite",
    "suite_of",
    "suites_of",
    "template",
]


def __getattr__(name: str) -> type[PrivacyExpectation | JointExpectation]:
    made: list[type[PrivacyExpectation | JointExpectation]] = [*EXPECTATIONS.values(), *JOINT_EXPECTATIONS.values()]
    for expectation in made:
        if expectation.__name__ == name:
            return expectation
    if (entry := snake_case(name.removeprefix("Expect"))) in REFUSED:
        raise UnsupportedError(f"{entry} is not an expectation: {REFUSED[entry]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    made = (*EXPECTATIONS.values(), *JOINT_EXPECTATIONS.values())
    return sorted({*__all__, *(expectation.__name__ for expectation in made)})
