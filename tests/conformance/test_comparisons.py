"""Entries that compare two tables: no pass where there was nothing to compare, and each says how much it compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pytest

from privpipe import measures, models
from privpipe.blocks import FilePair, FilePairMeasure, Guarantee, Verdict
from privpipe.blocks.verdict import Comparison
from privpipe.blocks.way import RECODED_TABLES
from privpipe.engines import Engine
from privpipe.judging.assessment import compares_tables, founded
from privpipe.measures import RecordLinkage, Recovery, ResultPrivacy
from privpipe.models import WholeHouseholds
from privpipe.testing import NOTHING_IN_COMMON, Judging, comparison_problems
from privpipe.testing.stages import keys_of
from tests.gathering import gathered
from tests.tiers import deep, deep_among

EVERY: list[Guarantee] = [
    example
    for room in (models, measures)
    for name in room.CATALOGUE
    for example in room.CATALOGUE[name].examples()  # type: ignore[attr-defined]
    if isinstance(example, Guarantee)
]
COMPARING = [entry for entry in EVERY if compares_tables(entry)]
NOT_JUDGED: Mapping[str, str] = {
    "complementary_release": "next to earlier releases: tests/measures/risk/releases",
    "repeated_noise": "by a ledger that runs keep",
    "unsorted_matching": "by the order of files that were written",
    "minimality_attack": "it runs the stages again",
    "membership_attack": "its last example needs a holdout of its own",
}
"""Entries without a figure over a release by itself."""
BY_RECORD = (Recovery, WholeHouseholds)
"""They join records by their ids and read no label: what labels mean is nothing to them."""


@pytest.fixture(scope="session")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Judging:
    """Releases made once an engine."""
    return Judging(tmp_path_factory.mktemp("comparing"))


def of_classes_alone(entry: Guarantee) -> bool:
    """Whether it is a quality figure of class sizes, to which the original only says how many records there were, or
    about results of the release itself.
    """
    if isinstance(entry, ResultPrivacy):
        return True
    named = vars(entry).get("measure", vars(entry).get("name"))
    return entry.way == RECODED_TABLES and str(named) in ("average_class_size", "c_avg", "discernibility")


def tried(entry: Guarantee) -> list[str]:
    if of_classes_alone(entry):
        return []
    return ["other records"] if isinstance(entry, BY_RECORD) else list(NOTHING_IN_COMMON)


def of_each_kind(entry: Guarantee) -> list[str]:
    kinds = ("labels that mean nothing", "numbers that are missing", "other records")
    return [name for name in tried(entry) if name in kinds] or tried(entry)


def test_the_whole_catalogue_is_gone_over() -> None:
    """A new entry that compares tables raises these numbers; one that leaves is named here."""
    assert len({type(entry) for entry in EVERY}) == len([*models.CATALOGUE, *measures.CATALOGUE]) == 65
    assert len({type(entry) for entry in COMPARING}) == 32
    assert len(COMPARING) == 118
    assert sum(bool(tried(entry)) for entry in COMPARING) == 112


ONE_OF_EACH: Mapping[str, Guarantee] = {entry.name(): entry for entry in reversed(COMPARING) if tried(entry)}


@pytest.mark.parametrize("name", deep_among(["learned_linkage"], sorted(ONE_OF_EACH)))
def test_nothing_in_common_is_never_a_pass(embedded: Engine, name: str) -> None:
    with gathered() as case:
        for entry in (entry for entry in COMPARING if tried(entry) and entry.name() == name):
            with case(repr(entry)):
                found = tried(entry) if entry is ONE_OF_EACH[name] else of_each_kind(entry)
                assert comparison_problems(entry, embedded, releases=found) == []


A_WAY_OF_EACH_KIND = ("k_map", "record_linkage", "recovery")


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        *(("dask", name) for name in sorted(ONE_OF_EACH)),
        *(("spark", name) if name == "k_map" else deep("spark", name) for name in A_WAY_OF_EACH_KIND),
    ],
    indirect=["engine"],
)
def test_nor_on_another_engine(engine: Engine, name: str) -> None:
    entry = ONE_OF_EACH[name]
    assert comparison_problems(entry, engine, releases=of_each_kind(entry)) == []


@dataclass(frozen=True, kw_only=True, repr=False)
class Nought(FilePairMeasure):
    """A planted fault: 0 over nothing, and it says itself that it needs to know of no label what it means."""

    columns: tuple[str, ...] | None = ("town",)
    at_most: float | None = 0.0

    @property
    def reads_values(self) -> bool:
        return False

    def judge_files(self, files: FilePair) -> Verdict:
        alike = sum(a == b for a, b in zip(files.original["town"], files.released["town"], strict=True))
        return Verdict(self, float(alike), "pass" if not alike else "fail", 0.0)


class NoughtOfValues(Nought):
    """The same from an author who says nothing of labels: its way of judging knows how many were explained."""

    reads_values: ClassVar[bool] = True  # type: ignore[assignment]


def test_the_kit_sees_a_figure_over_nothing() -> None:
    assert comparison_problems(Nought())[0].startswith("Nought() passes over labels that mean nothing")
    assert comparison_problems(NoughtOfValues()) == []


def test_who_does_not_state_what_was_compared_does_not_pass() -> None:
    """A way of judging that forgets it; an entry over one table rests on all of its records."""
    silent = Verdict(RecordLinkage(at_most=1.0), {"share": 0.0}, "pass", 1.0)
    assert (founded(silent, 9).outcome, founded(silent, 9).reason) == (
        "error", "record_linkage does not state how much it compared.",
    )  # fmt: skip
    alone = founded(Verdict(models.KAnonymity(k=2), 3, "pass", 2), 9)
    assert (alone.outcome, [each.to_dict() for each in alone.compared]) == (
        "pass", [{"compared": 9, "of": 9, "what": "records judged"}],
    )  # fmt: skip


@pytest.mark.parametrize(("compared", "outcome"), [(0, "error"), (4, "error"), (5, "pass"), (10, "pass")])
def test_half_is_enough(compared: int, outcome: str) -> None:
    rests_on = Comparison(compared, 10, "labels are explained", "declare a hierarchy")
    verdict = founded(Verdict(RecordLinkage(at_most=1.0), 0.0, "pass", 1.0, reason="0.", compared=(rests_on,)), 10)
    assert verdict.outcome == outcome
    assert (f"{compared} of 10 labels are explained" in verdict.reason) == (compared < 10)
    assert ("declare a hierarchy" in verdict.reason) == (compared < 5)


@pytest.mark.parametrize(
    "entry", [entry for entry in ONE_OF_EACH.values() if not NOT_JUDGED.get(entry.name())], ids=repr
)
def test_a_figure_says_what_it_rests_on(embedded: Engine, judging: Judging, entry: Guarantee) -> None:
    with keys_of(entry):
        verdict = judging.first(entry, embedded)[1]
    assert verdict.to_dict()["compared"], entry
    assert all(each.enough for each in verdict.compared)
