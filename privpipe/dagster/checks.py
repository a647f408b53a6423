"""A check of an asset: the gate over a finished table."""

from typing import Any

import dagster as dg

from privpipe.dagster.metadata import ending_metadata
from privpipe.dagster.resource import PrivpipeResource

__all__ = ["privpipe_asset_check"]


def privpipe_asset_check(
    asset: Any,
    *,
    data: str,
    policy: str,
    name: str = "privpipe",
    blocking: bool = True,
    resource: PrivpipeResource | None = None,
    **settings: Any,
) -> dg.AssetChecksDefinition:
    """A check that judges a table which an asset wrote, by a policy.

    It runs after the asset: who reads the table without Dagster may see it before. Assets downstream wait for a
    blocking check, and neither a refusal nor a table that could not be judged lets them run.

    Parameters
    ----------
    asset : AssetsDefinition, key or name
    data : str
        The finished table: a file or a folder of files.
    policy : str
    name : str
    blocking : bool
    resource : PrivpipeResource, optional
    settings : see `dagster.asset_check`
    """
    running = resource or PrivpipeResource()

    @dg.asset_check(asset=asset, name=name, blocking=blocking, **settings)
    def judged(context: dg.AssetCheckExecutionContext) -> Any:
        ending = running.judge(data, policy, context=context)
        return dg.AssetCheckResult(
            passed=ending.good,
            severity=dg.AssetCheckSeverity.ERROR,
            description=ending.message,
            metadata=ending_metadata(ending),
        )

    return judged
