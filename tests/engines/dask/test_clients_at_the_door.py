"""Clients that cannot serve a call, and frames whose client is gone: named, with what to do."""

from __future__ import annotations

import asyncio

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import UsageError

pytest.importorskip("distributed")

pytestmark = [pytest.mark.dask, pytest.mark.filterwarnings("ignore")]
FRAME = pd.DataFrame({"zip": ["a", "a", "b"] * 10})


def test_an_asynchronous_client_is_refused_and_a_thread_works() -> None:
    import dask.dataframe as dd
    from distributed import Client

    async def judge() -> int:
        async with Client(processes=False, n_workers=1, dashboard_address=None, asynchronous=True):
            frame = dd.from_pandas(FRAME, npartitions=2)
            with pytest.raises(UsageError, match="asynchronous.*to_thread"):
                pp.k_anonymity(frame, ["zip"])
            return await asyncio.to_thread(pp.k_anonymity, frame, ["zip"])

    assert asyncio.run(judge()) == 10


def test_a_persisted_frame_of_a_closed_client_is_refused() -> None:
    import dask.dataframe as dd
    from distributed import Client

    with Client(processes=False, n_workers=1, dashboard_address=None):
        frame = dd.from_pandas(FRAME, npartitions=2).persist()
        assert pp.k_anonymity(frame, ["zip"]) == 10
    with pytest.raises(UsageError, match="its client was closed"):
        pp.k_anonymity(frame, ["zip"])
