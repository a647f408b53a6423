"""`validate`: the gate alone, over a finished table from any author; ``privpipe validate`` is the same."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import PurePath
from typing import Any

from privpipe.blocks.table_name import TableName
from privpipe.border import bordered
from privpipe.engines import Engine
from privpipe.engines.base.frames import at_hand
from privpipe.engines.databases import Database
from privpipe.errors import UsageError, did_you_mean
from privpipe.judging import Assessment
from privpipe.policy import Policy
from privpipe.policy.grammar import SOURCE
from privpipe.running.judged_rows import Align
from privpipe.running.tables_read import finished_source, pinned_tables
from privpipe.running.verbs import assess

__all__ = ["validate"]


@bordered
def validate(
    data: Any,
    policy: Policy | str | PathLike[str] | Mapping[str, Any],
    *,
    original: Any = None,
    align: Align = "record_id",
    format: str | None = None,
    delimiter: str | None = None,
    table: str | None = None,
    engine: str | Engine | None = None,
) -> Assessment:
    """Judge a finished table by a policy, against the original that the policy names.

    Parameters
    ----------
    data : path, frame or mapping
        The table as it is to leave. A mapping names a state of a Delta or Iceberg table: ``{"path": "visits",
        "version": 3}``, ``{"iceberg": "db.visits", "catalog": "lake", "tag": "audited"}``.
    policy : Policy, path or mapping
    original : path, frame or mapping, optional
        The table it was made from. Default: the policy's `original:`.
    align : {"record_id", "position"}
        How records pair with the original.
    format, delimiter : str, optional
        How a file is written; left out, as its name and the policy say.
    table : str, optional
        The table of a database, which `data` names as a policy does: a DuckDB or SQLite file, a URL without a password
        or ``postgresql``.
    engine : str or Engine, optional

    Returns
    -------
    Assessment
        Also when it fails; `raise_if_failed()` raises.

    Raises
    ------
    UsageError, DataError, EngineError

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> policy = pp.Policy(roles=pp.Roles(quasi_identifiers=["zip"]), guarantees=[pp.models.KAnonymity(k=2)])
    >>> pp.validate(pd.DataFrame({"zip": ["08*", "08*", "09*"]}), policy)
    Assessment(failed, 3 records, 1 guarantees, 1 of them failed, 0 measures)
    """
    if data is None:
        raise UsageError("validate: give a finished table, a path or a frame; `assess` judges the policy's own source")
    if not isinstance(policy, Policy):
        policy = Policy.from_dict(policy) if isinstance(policy, Mapping) else Policy.load(policy)
    if policy.tables is not None:
        from privpipe.running.table_validation import validate_tables

        return validate_tables(policy, data, original)
    said = _said(format, delimiter)
    if table is not None:
        data, said = _in_database(data, table, said), {}
    if isinstance(data, str | PurePath):
        data = finished_source(data, policy, **said)
    elif isinstance(data, Database):
        data = finished_source(data, policy)
    elif said:
        raise UsageError(f"validate: {' and '.join(said)} say how a file is written, and a frame was given")
    else:
        data = at_hand(data, "validate")
    policy = pinned_tables(policy)
    if original is None and policy.original is not None:
        original = policy.original.to_source(policy.source_types, policy.base_dir)
    return assess(data, policy, original=original, align=align, engine=engine)


def _in_database(data: Any, table: str, said: Mapping[str, Any]) -> Database:
    if not isinstance(data, str | PurePath):
        raise UsageError("validate: table names one of a database, and a frame was given")
    if said:
        raise UsageError(f"validate: {' and '.join(said)} say how a file is written; a database says it itself")
    return Database(at=str(data), table=TableName.parse(table))


def _said(format: str | None, delimiter: str | None) -> dict[str, Any]:
    formats = SOURCE["format"].choices
    if format is not None and format not in formats:
        raise UsageError(f"format must be one of {', '.join(formats)}, not {format!r}{did_you_mean(format, formats)}")
    said = {"format": format, "delimiter": delimiter}
    return {name: value for name, value in said.items() if value is not None}
