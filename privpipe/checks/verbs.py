"""Judge a frame by a policy, or by entries that stand in no document."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Unpack

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.check_face import CheckOptions
from privpipe.blocks.severity import binding
from privpipe.border import bordered
from privpipe.checks.asked import Check
from privpipe.engines import Source
from privpipe.engines.base.frames import at_hand
from privpipe.engines.base.lakes import pinned
from privpipe.errors import UsageError
from privpipe.judging import Assessment
from privpipe.policy import Policy
from privpipe.running.opened import OpenedEngine
from privpipe.running.reading import scanned
from privpipe.running.verbs import assess as assess_by_policy

__all__ = ["assess", "check", "judged_alone"]

OF_POLICIES = ("original", "align", "engine")


@bordered
def assess(
    data: Any,
    policy: Policy | str | PathLike[str] | Mapping[str, Any] | Guarantee | list[Guarantee] | tuple[Guarantee, ...],
    *,
    allow_empty: bool = False,
    **options: Unpack[CheckOptions],
) -> Assessment:
    """Judge a table by a policy's guarantees and measures, or by entries alone.

    Parameters
    ----------
    data : path or frame
        Parquet, CSV, JSON, or a pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark frame. None: the policy's source.
    policy : Policy, path or mapping; or an entry, or a list of them
        All entries share one count.
    allow_empty : bool
        Let a table of suppressed records alone pass.
    options : see `CheckOptions`
        Beside a policy: `original`, `align` and `engine`. Beside entries all of them.

    Returns
    -------
    Assessment
        Also when it fails; `raise_if_failed()` raises.

    Raises
    ------
    UsageError, DataError, EngineError

    Notes
    -----
    By a policy or by `roles`, a column without a role is an error (`undeclared: note` makes it a note), and a table
    that is handed over is judged as finished: a column whose role is `identifier` is a fail, first among the verdicts.
    The policy's own source is raw by nature; its identifiers are noted. Where only `quasi_identifiers` (and
    `sensitive`) are given, the other columns are noted and taken as insensitive. Named index levels are columns.

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> frame = pd.DataFrame({"zip": ["081", "081", "082"]})
    >>> pp.assess(frame, [pp.models.KAnonymity(k=2)], quasi_identifiers=["zip"]).verdicts[0].observed
    1
    >>> policy = {
    ...     "version": 1,
    ...     "columns": {"zip": {"role": "quasi_identifier"}},
    ...     "guarantees": [{"k_anonymity": {"k": 2}}],
    ... }
    >>> pp.assess(frame, policy).passed
    False
    """
    if isinstance(policy, Policy | str | PathLike | Mapping):
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in OF_POLICIES:
                raise UsageError(f"{name}= is for checks by entries; the policy says it itself")
        return assess_by_policy(at_hand(data, "assess"), policy, allow_empty=allow_empty, **given)  # type: ignore[arg-type]
    return _judged(data, Check.of(policy, options), allow_empty=allow_empty)


@bordered
def check(
    frame: Any,
    entries: Policy | str | PathLike[str] | Mapping[str, Any] | Guarantee | list[Guarantee] | tuple[Guarantee, ...],
    **options: Unpack[CheckOptions],
) -> Assessment:
    """Judge a frame as `assess` does, and raise where a guarantee does not hold: for a line in a job.

    Raises
    ------
    Refused
        It carries the assessment.
    UsageError
        Also where no entry has a threshold, or all of them only warn, so that nothing could fail.

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> frame = pd.DataFrame({"zip": ["081", "081", "082", "082"]})
    >>> pp.check(frame, pp.models.KAnonymity(k=2), quasi_identifiers=["zip"]).passed
    True
    """
    if isinstance(entries, Guarantee | list | tuple):
        own = (entries,) if isinstance(entries, Guarantee) else entries
        gates = [entry for entry in own if isinstance(entry, Guarantee) and entry.is_gate()]
        if own and not gates:
            raise UsageError("none of the entries has a threshold, so the check could not fail; give one, as in k=5")
        if gates and not binding(gates):
            raise UsageError("every entry only warns, so the check could not fail; give one of severity fail")
    return assess(frame, entries, **options).raise_if_failed("The frame is not to be used as it is.")


@bordered
def judged_alone(entry: Guarantee, frame: Any, options: Mapping[str, Any]) -> Verdict:
    """See `CheckFace.assess`."""
    judged = _judged(frame, Check.of(entry, options))
    return judged.verdicts[0] if entry.is_gate() else judged.measures[-1]


def _judged(data: Any, asked: Check, *, allow_empty: bool = False) -> Assessment:
    nothing = Policy.of_fields(name="frame", columns={}, guarantees=())
    if data is None:
        raise UsageError("give a frame or a path to judge")
    frame = at_hand(data, "assess")
    with OpenedEngine(asked.given.get("engine"), frame, nothing) as engine:
        source = frame if isinstance(frame, Source) else pinned(Source(data=frame))
        policy = asked.policy(scanned(engine, source).schema.names)
        align = asked.given.get("align", "record_id")
        original = at_hand(asked.given.get("original"), "assess, original=")
        return assess_by_policy(frame, policy, original=original, align=align, engine=engine, allow_empty=allow_empty)
