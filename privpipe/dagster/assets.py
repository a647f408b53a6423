"""An asset that is a release."""

from typing import Any

import dagster as dg

from privpipe.dagster.metadata import ending_metadata
from privpipe.dagster.resource import PrivpipeResource

__all__ = ["privpipe_asset"]

AGAIN = dg.RetryPolicy(max_retries=3, delay=60, backoff=dg.Backoff.EXPONENTIAL)


def privpipe_asset(
    name: str,
    *,
    policy: str,
    target: str | None = None,
    report: str | None = None,
    batches: bool = False,
    resource: PrivpipeResource | None = None,
    retry_policy: dg.RetryPolicy | None = AGAIN,
    **settings: Any,
) -> dg.AssetsDefinition:
    """An asset whose materialization is a published release.

    Parameters
    ----------
    name : str
    policy, target, report : str
        See `PrivpipeResource.release`.
    batches : bool
        Of a partitioned asset (`partitions_def=`): whether the key of the partition is the release's `batch`, so that a
        partition is published once however often it is materialized.
    resource : PrivpipeResource, optional
    retry_policy : dagster.RetryPolicy, optional
        For breakdowns alone; a refusal is never tried again.
    settings : see `dagster.asset`
        As `deps`, `group_name` and `key_prefix`.
    """
    running = resource or PrivpipeResource()

    @dg.asset(name=name, retry_policy=retry_policy, **settings)
    def release(context: dg.AssetExecutionContext) -> Any:
        batch = context.partition_key if batches else None
        ending = running.release(policy, target=target, report=report, batch=batch, context=context)
        return dg.MaterializeResult(metadata=ending_metadata(ending))

    return release
