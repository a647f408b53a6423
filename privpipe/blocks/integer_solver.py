"""Which solver of integer programs pulp is to use."""

from __future__ import annotations

import importlib.metadata

__all__ = ["solver_name"]

LOUD = [1, 16]


def solver_name() -> str:
    """HiGHS where it is installed and silent (below 1.16), else the CBC that comes with pulp.

    Examples
    --------
    >>> solver_name() in ("highs", "cbc")
    True
    """
    try:
        release = [int(part) for part in importlib.metadata.version("highspy").split(".")[:2]]
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return "cbc"
    # From 1.16 on its constructor writes a banner to stdout, where the documents of commands go.
    return "highs" if release < LOUD else "cbc"
