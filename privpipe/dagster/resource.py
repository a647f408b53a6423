"""The resource: releases and judgements for assets of one's own."""

from __future__ import annotations

import os
from typing import Any

import dagster as dg

from privpipe.dagster.metadata import ending_metadata
from privpipe.errors import PrivpipeError
from privpipe.scheduled import Ending, Job, run_apart

__all__ = ["PrivpipeResource"]


class PrivpipeResource(dg.ConfigurableResource[Any]):
    """Releases in a process of their own.

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
            Its log is told the steps.

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
        """Judge a finished table; a refusal comes back, for a check to tell.

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
