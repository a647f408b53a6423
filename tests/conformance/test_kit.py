"""The kit itself: it finds what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from privpipe.blocks import Catalogue, ClassBlock, ClassModel, ClassQuery, Facts
from privpipe.errors import DataError
from privpipe.models import DistinctLDiversity, KAnonymity, TCloseness
from privpipe.testing import (
    GAPS,
    HOSTILE_TABLES,
    Case,
    Conformance,
    Expected,
    Gap,
    HostileTable,
    Nonconforming,
    PlainEngine,
    catalogue_problems,
    conformance,
    oracle,
)
from privpipe.testing.class_blocks import block_of, facts_of


class DropsNullKeys(PlainEngine):
    """The trap of a group-by that leaves out missing keys."""

    def classes(self, table: Any, query: ClassQuery) -> Any:
        for block in super().classes(table, query):
            yield block.take(block.sizes > 1)


class Leaks(PlainEngine):
    """An engine whose message quotes a cell."""

    def facts(self, table: Any, request: Any) -> Facts:
        raise DataError("cannot convert 'gout'")


@dataclass(frozen=True, kw_only=True, repr=False)
class OffByOne(KAnonymity):
    """A model that judges wrongly."""

    def scores(self, block: ClassBlock, facts: Facts) -> Any:
        return block.sizes + 1


@dataclass(frozen=True, kw_only=True, repr=False)
class Unexplained(ClassModel):
    """A model that brings no oracle along."""


def test_an_engine_that_loses_classes_is_found() -> None:
    report = conformance(DropsNullKeys(), models=[KAnonymity(k=2)])  # type: ignore[arg-type]
    assert any("nulls_in_keys" in name for name in report.failures)
    assert "observed is" in str(report)


def test_a_wrong_model_is_found() -> None:
    report = conformance(PlainEngine(), models=[OffByOne(k=3)])  # type: ignore[arg-type]
    assert len(report.failures) > 20


def test_a_gap_that_closed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GAPS, ("plain", "k_anonymity ties"), Gap(raises=DataError, why="for a test"))  # type: ignore[arg-type]
    report = conformance(PlainEngine(), models=[KAnonymity(k=2)])  # type: ignore[arg-type]
    assert list(report.failures.values()) == ["conforms, so its gap must go"]


def test_a_known_gap_is_not_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GAPS, ("*", "k_anonymity"), Gap(raises=Nonconforming, why="for a test"))  # type: ignore[arg-type]
    report = conformance(DropsNullKeys(), models=[KAnonymity(k=2)])  # type: ignore[arg-type]
    assert "known gap" in str(report)
    assert set(report.failures.values()) <= {"conforms, so its gap must go"}


def test_a_model_without_an_oracle_is_reported_where_to_put_it() -> None:
    with pytest.raises(LookupError, match="static method `oracle"):
        oracle(Unexplained(), HOSTILE_TABLES["ties"])


def test_a_message_that_quotes_a_cell_is_found() -> None:
    case = Case(TCloseness(column="income", t=0.2, distance="ordered"), HOSTILE_TABLES["sensitive_nulls"])
    leaking = replace(case, table=replace(case.table, rows={**case.table.rows, "illness": ["gout"] * 6}))
    with pytest.raises(Nonconforming, match="cell values"):
        Conformance(Leaks()).check(leaking)  # type: ignore[arg-type]


def test_a_table_that_should_be_refused_and_is_not() -> None:
    table = replace(HOSTILE_TABLES["ties"], refused=DataError)
    with pytest.raises(Nonconforming, match="expected DataError"):
        Conformance(PlainEngine()).check(Case(KAnonymity(k=2), table))  # type: ignore[arg-type]


def test_an_engine_is_opened_by_its_name() -> None:
    assert conformance("embedded", models=[DistinctLDiversity(column="illness", l=2)]).engine == "embedded"


@pytest.mark.parametrize("table", HOSTILE_TABLES.values(), ids=str)
def test_hostile_tables_are_tables(table: HostileTable) -> None:
    assert {len(values) for values in table.rows.values()} == {len(table)}
    assert {"illness", "income"} <= set(table.rows)
    assert table.why
    assert table.frame() is not None
    assert "gout" not in repr(table)


def test_hostile_tables_hold_both_verdicts() -> None:
    """A suite in which nothing fails, or nothing passes, would see nothing."""
    for model in (KAnonymity(k=2), DistinctLDiversity(column="illness", l=3), TCloseness(column="illness", t=0.35)):
        outcomes = [oracle(model, table).outcome for table in HOSTILE_TABLES.values() if table.refused is None]
        assert outcomes.count("pass") >= 3
        assert outcomes.count("fail") >= 3


def test_the_oracle_by_hand() -> None:
    table = HOSTILE_TABLES["value_absent_from_class"]
    assert oracle(KAnonymity(k=3), table) == Expected("fail", 2, 1, 2)
    assert float(oracle(TCloseness(column="illness"), table).observed) == pytest.approx(0.6)


def test_incomplete_entries_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, kw_only=True, repr=False)
    class Bare(KAnonymity):
        m: int = 0
        threat: ClassVar[str] = ""
        __doc__ = "Bare"

    catalogue = Catalogue("privpipe.models", "privacy model", {"KAnonymity": "identity.k_anonymity"})
    monkeypatch.setattr(Catalogue, "of_class", lambda *_: Bare)
    faults = "\n".join(catalogue_problems(catalogue))
    for text in ("no example", "parameter m has no line of text", "`threat` is empty", "not a sentence"):
        assert text in faults


def test_small_blocks_need_every_value() -> None:
    with pytest.raises(ValueError, match="no record"):
        facts_of(block_of(illness=[[0, 1]]))
