"""Whose budget the tables of a policy spend, and that it outlives every release."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from privpipe.errors import UsageError
from privpipe.policy.specs import located
from privpipe.tables.private_tables import PrivateTable

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["require_ledger_apart", "spending_source"]


def require_ledger_apart(policy: Policy) -> None:
    """Refuse a ledger within the sink: what replaces a release would take what was spent with it.

    Raises
    ------
    UsageError
    """
    if policy.tables is None or policy.sink is None or not policy.sink.is_folder or "://" in policy.sink.path:
        return
    target = os.path.realpath(policy.sink.target(policy.base_dir))
    for stage in policy.tables.stages:
        if isinstance(stage, PrivateTable):
            ledger = os.path.realpath(stage.ledger)
            if os.path.commonpath([target, ledger]) == target:
                raise UsageError(
                    "private_table: the ledger lies inside the sink, and would be published and replaced with it; name "
                    "a folder apart from it"
                )


def spending_source(policy: Policy) -> str:
    """By which a ledger knows the source and the contributors of a policy's tables."""
    spec = policy.source
    where = "frames"
    if spec is not None:
        named = (spec.table, spec.database, spec.iceberg)
        path = located(spec.path, policy.base_dir)
        path = path if "://" in path else os.path.realpath(path)  # one budget, by whatever link it is reached
        where = next((repr(each) for each in named if each is not None), path)
    return json.dumps([where, policy.person_id])
