"""Dagster: an asset that is a release, a check of a finished table, a resource for other assets, and their metadata."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import dagster as dg

from privpipe.errors import PrivpipeError
from privpipe.judging.assessment import check_metadata
from privpipe.scheduled import Ending, Job, run_apart

__all__ = ["PrivpipeResource", "asset_check_metadata", "ending_metadata", "privpipe_asset", "privpipe_asset_check"]


def asset_check_metadata(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The guarantees as a table, and the counts that the public edition shows.

    Parameters
    ----------
    figures : mapping
        `Ending.figures`, or what `Assessment.to_asset_check_metadata` gives. The figure of a guarantee that the public
        edition withholds is left empty.
    """
    found = check_metadata(figures)
    rows = found.pop("guarantees", [])
    if not rows:
        return {}
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in rows[0]])
    table = dg.MetadataValue.table([dg.TableRecord(row) for row in rows], schema=schema)
    warned = {"warnings": dg.MetadataValue.json(found.pop("warnings"))} if "warnings" in found else {}
    return {"guarantees": table, **found, **warned}


def ending_metadata(ending: Ending) -> dict[str, Any]:
    """The run and its word, with the figures."""
    known = {"verdict": ending.word, "run_id": ending.run_id, "policy": ending.name}
    told: dict[str, Any] = {name: text for name, text in known.items() if text}
    for name, place in (("path", ending.path), ("report", ending.report)):
        if place:
            told[name] = dg.MetadataValue.path(place)
    return {**told, **asset_check_metadata(ending.figures)}


class PrivpipeResource(dg.ConfigurableResource[Any]):
    """Releases in separate processes.

    Parameters
    ----------
    engine : str, optional
        For every policy, instead of the policy's own.
    python : str, optional
        The interpreter of another environment that has privpipe.
    """

    engine: str | None = None
    python: str | None = None

    def release(
        self,
        policy: str,
        *,
        target: str | None = None,
        plan: str | None = None,
        report: str | None = None,
        batch: str | None = None,
        context: Any = None,
    ) -> Ending:
        """Release; what comes back is a published release.

        Parameters
        ----------
        policy, target, plan : str
            As `privpipe.release` takes them.
        report : str, optional
            Where the report of the public edition is written, as HTML.
        batch : str, optional
            The key under which the release is published once, as the key of a partition.
        context : AssetExecutionContext or OpExecutionContext, optional
            The steps are written to its log.

        Raises
        ------
        dagster.Failure
            Without retries where the same run would end the same way.
        """
        return self._good(
            context,
            policy=policy,
            target=target,
            plan=plan,
            report=report,
            batch=batch,
            engine=self.engine,
            action="release",
        )

    def judge(self, data: str, policy: str, *, context: Any = None) -> Ending:
        """Judge a finished table; a refusal is returned, for a check to report.

        Raises
        ------
        dagster.Failure
            It could not be judged.
        """
        ending = self._ending(context, action="judge", data=data, policy=policy, engine=self.engine)
        return ending if ending.word == "refused" else _require_good(ending)

    def _good(self, context: Any, **job: Any) -> Ending:
        return _require_good(self._ending(context, **job))

    def _ending(self, context: Any, **job: Any) -> Ending:
        tell = None if context is None else context.log.info
        try:
            return run_apart(Job(**job, keep_out=_folders(context)), python=self.python, tell=tell)
        except PrivpipeError as error:
            return Ending.of_code(error.exit_code, str(error))


def _require_good(ending: Ending) -> Ending:
    if ending.good:
        return ending
    raise dg.Failure(
        description=ending.sentence,
        metadata=ending_metadata(ending),
        allow_retries=ending.worth_another_try,
    )


def _folders(context: Any) -> tuple[tuple[str, str], ...]:
    """Where Dagster keeps logs, events and what assets return: its web server shows them."""
    home = os.environ.get("DAGSTER_HOME")
    found = [("the home of Dagster", home)] if home else []
    instance = getattr(context, "instance", None)
    if instance is not None:
        found.append(("the storage of Dagster", instance.storage_directory()))
    return tuple(found)


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
        Only for breakdowns; a refusal is never retried.
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

    It runs after the asset: anyone who reads the table without Dagster may see it before. Assets downstream wait for a
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
