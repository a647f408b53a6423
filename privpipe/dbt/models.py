"""Python models of dbt-duckdb whose table was judged, and the path of the dbt package."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.border import bordered
from privpipe.errors import ColumnsLost, Refused, UsageError

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["gate", "package", "release"]


def package() -> str:
    """The folder of the dbt package, for ``packages: [{local: ...}]``.

    Examples
    --------
    >>> (Path(package()) / "dbt_project.yml").exists()
    True
    """
    return str(Path(__file__).resolve().parent / "package")


END = "The model was not built; the table of an earlier run is untouched."


@bordered
def release(dbt: Any, frame: Any, policy: str | os.PathLike[str]) -> Any:
    """The stages of a policy over a relation, then the gate.

    Parameters
    ----------
    dbt : object
        The first argument of the model.
    frame : DuckDBPyRelation
        As ``dbt.ref(...)`` gives it.
    policy : path
        A relative one starts where dbt was started. `source:` and `sink:` of it are not used.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    Refused
        A guarantee does not hold. The message shows what the public edition would.
    UsageError
        The model is incremental: what is added would be judged without what is there.
    PrivpipeError
    """
    return _public(lambda: _released(_whole(dbt, frame), _policy(policy)))


@bordered
def gate(dbt: Any, frame: Any, policy: str | os.PathLike[str]) -> Any:
    """The gate of a policy over a relation, which comes back as it was judged; parameters as of `release`."""
    return _public(lambda: _judged(_whole(dbt, frame), _policy(policy)))


def _public(work: Callable[[], Any]) -> Any:
    """The work, whose refusal shows what the public edition would: dbt logs it."""
    try:
        return work()
    except ColumnsLost:
        raise ColumnsLost(f"refused: a column lost more than the policy allows. {END}") from None


def _policy(policy: str | os.PathLike[str]) -> Policy:
    from privpipe.policy import Policy

    loaded: Policy = Policy.load(policy)
    return loaded


def _whole(dbt: Any, frame: Any) -> Any:
    """The relation as rows in memory, read once: what is judged is what dbt writes.

    Raises
    ------
    UsageError
    """
    if getattr(dbt, "is_incremental", False):
        raise UsageError(
            "an incremental model adds rows to a table that was judged without them; let the model be "
            "materialized as a table"
        )
    read = getattr(frame, "to_arrow_table", None)
    if read is None:
        raise UsageError(f"give what dbt.ref(...) returns on DuckDB, not {type(frame).__name__}")
    return read()


def _released(rows: Any, policy: Policy) -> Any:
    try:
        return policy.apply(rows)
    except Refused as refused:
        raise _told(refused, policy) from None


def _judged(rows: Any, policy: Policy) -> Any:
    from privpipe.running.verbs import validate

    try:
        validate(rows, policy).raise_if_failed(END)
    except Refused as refused:
        raise _told(refused, policy) from None
    return rows


def _told(refused: Refused, policy: Policy) -> Refused:
    """The refusal with the figures that the public edition shows."""
    from privpipe.scheduled.work import public_figures, refusal

    if refused.assessment is None or refused.assessment.holds:
        return refused
    return Refused(f"refused: {refusal(public_figures(refused.assessment, policy))}. {END}")
