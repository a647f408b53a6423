"""Which solver of integer programs a policy's entries call."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

from privpipe.blocks.integer_solver import solver_name

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["solver_at_work"]

PACKAGES = {"highs": "highspy", "cbc": "pulp"}
"""The distributions that bring them."""


def solver_at_work(policy: Policy) -> dict[str, str] | None:
    """Its name and the version of the package that brings it; None where no entry solves integer programs."""
    if not any(entry.solves_programs() for entry in (*policy.transform, *policy.entries)):
        return None
    name = solver_name()
    return {"name": name, "package": PACKAGES[name], "version": importlib.metadata.version(PACKAGES[name])}
