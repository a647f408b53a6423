"""No table is too small for the database, but where a test says so."""

from __future__ import annotations

import pytest

from privpipe.engines.embedded import session


@pytest.fixture(autouse=True)
def _in_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SMALL_ROWS", 0)
