"""One set of checks an engine and a worker: all models of a table are judged in one go, once."""

from __future__ import annotations

import pytest

from privpipe.engines import Engine
from privpipe.testing import Conformance, PlainEngine

CHECKS: dict[str, Conformance] = {}


@pytest.fixture
def checks(engine: Engine) -> Conformance:
    """The checks on each engine in turn."""
    if engine.name not in CHECKS:
        CHECKS[engine.name] = Conformance(engine)
    return CHECKS[engine.name]


@pytest.fixture(scope="session")
def plain_checks() -> Conformance:
    """The checks on the engine of dictionaries, which tells a model's fault from an engine's."""
    return Conformance(PlainEngine())  # type: ignore[arg-type]
