"""One table of people as a Spark frame, and a seed that a variable of the environment keeps."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from privpipe.engines import Engine

SECRET = "5b1de2a1c6b9d1d9a1a7b5cdd4f0b8f24be3a51d7c5e6ef1"
CANARY = "Zyzzyva"


@pytest.fixture(scope="session")
def canary() -> str:
    """An illness that no saved folder may show."""
    return CANARY


@pytest.fixture(scope="module", autouse=True)
def secret() -> Iterator[str]:
    """The seed itself."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PRIVPIPE_TEST_SEED", SECRET)
        environment.setenv("PRIVPIPE_TEST_KEY", "k" * 40)
        yield SECRET


@pytest.fixture(scope="module")
def seed(secret: str) -> dict[str, str]:
    """Where the seed is kept."""
    return {"from_env": "PRIVPIPE_TEST_SEED"}


@pytest.fixture(scope="session")
def session(spark_engine: Engine) -> Any:
    """The session of all tests of Spark."""
    return spark_engine.session  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def people(session: Any) -> Any:
    """Sixty records: age, zip, income, illness."""
    draw = random.Random(7)
    rows = [
        (
            draw.randint(18, 59),
            draw.choice(["081", "082", "171"]),
            round(draw.lognormvariate(3, 1), 1),
            draw.choice(["flu", "cold", CANARY]),
        )
        for _ in range(60)
    ]
    return session.createDataFrame(rows, "age long, zip string, income double, illness string").repartition(2)
