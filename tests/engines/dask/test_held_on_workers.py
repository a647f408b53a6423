"""Rows that workers hold are the ones that were judged, or an error: never what a lost worker's tasks give later."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import DataError
from privpipe.models import KAnonymity

distributed = pytest.importorskip("distributed")

ROWS = 40
WORKER = ["-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard"]
POLICY = pp.Policy.from_dict(
    {"columns": {"zip": {"role": "quasi_identifier"}}, "guarantees": [{"k_anonymity": {"k": ROWS}}]}
)


@pytest.fixture
def replaced(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """The current client's only worker; called, it dies and another one comes."""
    command = [sys.executable, *WORKER, "--local-directory", str(tmp_path)]
    workers: list[subprocess.Popen[bytes]] = []
    with distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
    ) as cluster:

        def replace() -> None:
            while workers:
                workers[-1].kill()
                workers.pop().wait()
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            workers.append(subprocess.Popen([*command, cluster.scheduler_address], **quiet))  # type: ignore[call-overload]

        try:
            replace()
            with distributed.Client(cluster.scheduler_address) as client:
                client.wait_for_workers(1, timeout=60)
                yield replace
        finally:
            workers[-1].kill()
            workers.pop().wait()


def frame_of(file: Path) -> Any:
    import dask.dataframe as dd

    pd.DataFrame({"zip": ["081"] * ROWS}).to_csv(file, index=False)
    return dd.read_csv(str(file), dtype={"zip": str})


@pytest.mark.deep
def test_rows_lost_with_a_worker_come_back_as_they_were_or_not_at_all(
    replaced: Callable[[], None], tmp_path: Path
) -> None:
    frame = frame_of(tmp_path / "rows.csv")
    given = POLICY.apply(frame)
    with pp.checked(frame, KAnonymity(k=ROWS), quasi_identifiers=["zip"]) as safe:
        replaced()
        for rows in (given, safe):  # the source is what it was
            assert rows.compute()["zip"].tolist() == ["081"] * ROWS
        pd.DataFrame({"zip": [f"{at:03d}" for at in range(ROWS)]}).to_csv(tmp_path / "rows.csv", index=False)
        for rows in (given, safe):  # the worker still holds them
            assert rows.compute()["zip"].tolist() == ["081"] * ROWS
        replaced()
        for rows in (given, safe):
            with pytest.raises(DataError, match="a worker was lost with rows that were held"):
                rows.compute()
