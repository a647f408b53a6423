"""Hostile tables and what must be said of their column sets, straight from the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.oracle_classes import plain_cell
from privpipe.engines import Engine, Source
from privpipe.judging import assess
from privpipe.measures import AttributeRisk, Distinction, Separation
from privpipe.testing import HostileTable
from privpipe.testing.oracle import unsuppressed_rows

EXAMPLES = [example for entry in (AttributeRisk, Distinction, Separation) for example in entry.examples()]
JUDGED: dict[tuple[str, str], dict[str, Verdict]] = {}


def figures(table: HostileTable, columns: Sequence[str]) -> tuple[Fraction, Fraction | None]:
    """Distinction and separation over the records that are not suppressed, by definition."""
    cells = {name: [plain_cell(value) for value in values] for name, values in table.rows.items()}
    rows = unsuppressed_rows(table)
    sizes = Counter(tuple(cells[name][row] for name in columns) for row in rows).values()
    n = len(rows)
    apart = None if n < 2 else 1 - Fraction(sum(size * (size - 1) for size in sizes), n * (n - 1))
    return Fraction(len(sizes), n) if n else Fraction(-1), apart


def fitted(entry: Any, table: HostileTable) -> Guarantee:
    """The entry with a column that the table has."""
    if entry.columns is None:
        return entry  # type: ignore[no-any-return]
    return replace(entry, columns=table.roles.quasi_identifiers[-1:], quasi_identifiers=None)


def verdict_of(engine: Engine, table: HostileTable, entry: Guarantee) -> Verdict:
    """The verdict or figure of one entry; all entries are judged in one go, once for an engine and table."""
    key = (engine.name, table.name)
    if key not in JUDGED:
        entries = [fitted(example, table) for example in EXAMPLES]
        gates = [example for example in entries if example.is_gate()]
        reported = [example for example in entries if not example.is_gate()]
        handle = engine.scan(Source(data=table.frame()))
        assessment = assess(engine, handle, guarantees=gates, measures=reported, roles=table.roles)
        found = (*assessment.verdicts, *assessment.measures)
        JUDGED[key] = {repr(each): verdict for each, verdict in zip((*gates, *reported), found, strict=True)}
    return JUDGED[key][repr(fitted(entry, table))]


@pytest.fixture
def by_definition() -> Any:
    """The figures of a column set."""
    return figures


@pytest.fixture
def judged_by() -> Any:
    """Judge one entry on an engine."""
    return verdict_of
