"""Which solver of integer programs a policy's entries call."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

from privpipe.kernels.integer_programs import NAME, PACKAGE

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["solver_at_work"]


def solver_at_work(policy: Policy) -> dict[str, str] | None:
    """Its name and the version of the package that brings it; None where no entry solves integer programs."""
    if not any(entry.solves_programs() for entry in (*policy.transform, *policy.entries)):
        return None
    return {"name": NAME, "package": PACKAGE, "version": importlib.metadata.version(PACKAGE)}
