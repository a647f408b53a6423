"""The risk of every record of a policy's source, in a file that is not a release."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from privpipe.engines import open_engine
from privpipe.errors import UsageError
from privpipe.judging.record_risks import record_risks
from privpipe.running.judged_rows import source_of
from privpipe.running.run_context import judging_rules
from privpipe.running.tables_read import scanned, without_others

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy

__all__ = ["write_record_risks"]

FORMATS = (".csv", ".parquet")


def write_record_risks(policy: Policy, path: str, *, engine: str | None = None) -> int:
    """Write one line per record: its id and its risks, for those who may see the source.

    Parameters
    ----------
    policy : Policy
        With a `record_id`, and an entry with figures of single records.
    path : str
        A new file, CSV or Parquet by its name, outside the release; readable by its owner alone.
    engine : str, optional
        Default: the policy's.

    Returns
    -------
    int
        Records written.

    Raises
    ------
    UsageError
        No `record_id`, a file that exists, of another format, or within the release.
    """
    if policy.record_id is None:
        raise UsageError("single records are shown by their `record_id`, and the policy names none")
    target = Path(path).absolute()
    if target.suffix not in FORMATS:
        raise UsageError(f"--show-records takes a file named {' or '.join(FORMATS)}, got {target.name!r}")
    sink = Path(policy.sink.target(policy.base_dir)).absolute() if policy.sink and policy.sink.is_folder else None
    if sink is not None and (sink in target.parents or sink == target or sink.resolve() in target.resolve().parents):
        raise UsageError("--show-records: the risks of single records must not lie in the release; name another place")
    if target.exists():
        raise UsageError(f"--show-records: {target.name!r} exists already; nothing was overwritten")
    name = engine or policy.engine
    with open_engine(name, policy.engines.get(name, {})) as running:
        table = without_others(running, scanned(running, source_of(policy)), policy)
        entries = policy.entries
        found = record_risks(running, table, entries, policy.roles, judging_rules(policy), policy.record_id)
    _write(found, target)
    return int(found.num_rows)


def _write(found: pa.Table, target: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        if target.suffix == ".csv":
            pyarrow.csv.write_csv(found, file)
        else:
            pyarrow.parquet.write_table(found, file)
