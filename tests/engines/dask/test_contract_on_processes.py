"""The contract of all engines, on two worker processes: functions, streams and errors pickle."""

from __future__ import annotations

import pytest

from privpipe.engines.dask import DaskEngine

from ..test_contract import *  # noqa: F403

pytestmark = pytest.mark.deep


@pytest.fixture
def engine(cluster: DaskEngine) -> DaskEngine:
    """The engine that the contract's tests ask for."""
    return cluster
