"""Random tables with missing values, equal-looking texts and the suppression mark, against the oracle."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.engines import Engine
from privpipe.testing import Case, Conformance, HostileTable
from tests.tiers import at_most

KEYS = st.sampled_from(["a", "b", "A", "a ", "", "*", "null", None])
NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 0.5, float("nan"), None])
ILLNESSES = st.sampled_from(["flu", "cold", "Flu", "", None])
INCOMES = st.integers(-3, 3)


@st.composite
def tables(draw: st.DrawFn) -> HostileTable:
    """Two or three quasi-identifiers, one of them a number at times."""
    count = draw(st.integers(1, 25))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    rows = {"zip": column(KEYS), "town": column(KEYS)}
    types = {"zip": "string", "town": "string", "illness": "string"}
    if draw(st.booleans()):
        rows["age"], types["age"] = column(NUMBERS), "double"
    rows |= {"illness": column(ILLNESSES), "income": column(INCOMES)}
    return HostileTable(name="random", why="chance", rows=rows, types=types)


@settings(max_examples=at_most(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables())
def test_the_embedded_engine_gives_the_oracle_verdict(embedded: Engine, table: HostileTable) -> None:
    checks = Conformance(embedded)
    for model in checks.models:
        checks.check(Case(model, table))
