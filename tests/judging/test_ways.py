"""Every entry is judged in one way, every way says what it does not serve, and a plug-in registers nothing."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from privpipe import measures, models
from privpipe.blocks import ClassModel, Facts, FilePair, FilePairMeasure, Guarantee, SizeModel, Tally, Verdict
from privpipe.blocks import way as ways
from privpipe.blocks.way import PAIRS, Way
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import UnsupportedError, UsageError
from privpipe.gx.expectations import why_refused
from privpipe.judging import JudgingRules, assess
from privpipe.judging.assessment import all_suppressed, founded, not_judged
from privpipe.judging.judging import refused_in_persons, refused_under_wildcard
from privpipe.judging.ways import WAYS, way_of
from privpipe.models import KAnonymity, KmAnonymity
from privpipe.roles import Roles

ENTRIES: list[Any] = [
    example for room in (models, measures) for name in room.CATALOGUE for example in room.CATALOGUE[name].examples()
]
ROLES = Roles(quasi_identifiers=("zip",), sensitive=("illness",))
TABLE = pa.table({"zip": ["a", "a", "b"], "illness": ["flu", "cold", "flu"]})


@dataclass(frozen=True, kw_only=True, repr=False)
class PairsSeen(Guarantee):
    """Pairs of records, counted block by block."""

    way: ClassVar[Way] = PAIRS

    def measure(self, block: Any, facts: Facts) -> Tally:
        return Tally(observed=len(block.released))

    def merge(self, left: Tally, right: Tally) -> Tally:
        return Tally(observed=left.observed + right.observed)

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        return Verdict(self, observed.observed, "pass")


@dataclass(frozen=True, kw_only=True, repr=False)
class OtherClasses(ClassModel):
    """A model of someone else."""

    threshold_field: ClassVar[str | None] = "k"
    k: int | None = None

    def scores(self, block: Any, facts: Facts) -> Any:
        return block.sizes


@dataclass(frozen=True, kw_only=True, repr=False)
class OtherSizes(SizeModel):
    """A rule on sizes of someone else."""

    threshold_field: ClassVar[str | None] = "at_most"
    at_most: float | None = None

    def figure_of(self, sizes: Any, counts: Any) -> float:
        return float(counts.sum())


@dataclass(frozen=True, kw_only=True, repr=False)
class OtherFiles(FilePairMeasure):
    """An attack of someone else."""

    at_most: float | None = None

    def judge_files(self, files: FilePair) -> Verdict:
        return Verdict(self, len(files), "pass")


FIRST: dict[Way, Guarantee] = {PAIRS: PairsSeen()}
for each in ENTRIES:
    if not (each.judges_matching or each.needs_population):
        FIRST.setdefault(each.way, each)


def test_every_entry_has_a_way_and_every_way_an_entry() -> None:
    declared = {getattr(ways, name) for name in ways.__all__ if isinstance(getattr(ways, name), Way)}
    assert set(WAYS) == declared
    used = {way_of(entry).way for entry in ENTRIES}
    assert declared - used == {PAIRS}  # entries of other distributions measure pairs block by block
    assert len({way.name for way in WAYS}) == len(WAYS)


def test_an_entry_keeps_its_way_where_it_is_sent() -> None:
    for entry in ENTRIES:
        assert way_of(pickle.loads(pickle.dumps(entry))) is way_of(entry)


BY_RECORDS = "counts records; with `person_id` it is not served: leave one of the two out"
NO_CLASSES = "needs classes, and under `nulls: wildcard` there are none"
REFUSALS = {
    "households": ("", NO_CLASSES, ""),
    "kept households": ("", "", ""),
    "classes": ("", NO_CLASSES, ""),
    "process": (BY_RECORDS, NO_CLASSES, "the record of the process that is next to a published release"),
    "weights": (BY_RECORDS, "", ""),
    "facts": (BY_RECORDS, NO_CLASSES, ""),
    "columns": ("", "", ""),
    "distinct": (BY_RECORDS, NO_CLASSES, ""),
    "positions": ("", "", "the order of the rows in the files that were written"),
    "items": (BY_RECORDS, "of items has no meaning under `nulls: wildcard`", ""),
    "pairs": ("", "", ""),
    "files": ("", "", ""),
    "beside": ("", "", ""),
    "releases": ("", NO_CLASSES, "together with earlier releases, by a ledger that a run keeps"),
    "whole": ("", "", ""),
    "tables": (BY_RECORDS, "", ""),
    "joined classes": ("", "", ""),
}
"""What each way says to persons, to wildcards, and to Great Expectations; nothing where it serves them."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_each_way_refuses_what_it_does_not_serve(way: Way) -> None:
    entry = FIRST.get(way) or next(each for each in ENTRIES if each.way == way)
    found = (
        refused_in_persons(entry),
        refused_under_wildcard(entry),
        why_refused([way_of(entry)], "at_most", model=False),
    )
    for told, wanted in zip(found, REFUSALS[way.name], strict=True):
        assert wanted in told
        assert bool(told) == bool(wanted)


def test_what_is_refused_is_never_passed_over(embedded: Engine) -> None:
    table = embedded.scan(Source(data=TABLE))
    for entry in (entry for entry in FIRST.values() if REFUSALS[entry.way.name][0]):
        with pytest.raises(UnsupportedError, match="person_id"):
            assess(embedded, table, guarantees=[entry], roles=ROLES, rules=JudgingRules(person="illness"))
    for entry in (entry for entry in FIRST.values() if REFUSALS[entry.way.name][1]):
        with pytest.raises(UsageError, match="wildcard"):
            assess(embedded, table, guarantees=[entry], roles=ROLES, rules=JudgingRules(nulls="wildcard"))


def test_a_population_is_never_counted_in_persons() -> None:
    asking = [entry for entry in ENTRIES if entry.needs_population]
    assert asking
    assert all("of a population" in refused_in_persons(entry) for entry in asking)


def test_entries_of_others_are_judged_by_the_way_of_their_base_class(embedded: Engine) -> None:
    table = embedded.with_record_ids(embedded.scan(Source(data=TABLE)), None, Seed(bytes(16)))
    entries = [OtherFiles(), PairsSeen(), OtherSizes(), OtherClasses()]
    found = assess(embedded, table, guarantees=(), measures=entries, roles=ROLES, original=table)
    assert [verdict.observed for verdict in found.measures] == [3, 3, 2.0, 1]
    without = assess(embedded, table, guarantees=(), measures=entries, roles=ROLES)
    assert [verdict.outcome for verdict in without.measures] == ["error", "error", "pass", "pass"]


def test_a_way_that_no_one_judges_in_is_an_error(embedded: Engine) -> None:
    class Divined(KAnonymity):
        way: ClassVar[Way] = Way(name="tea leaves")

    with pytest.raises(UsageError, match="tea leaves"):
        assess(embedded, embedded.scan(Source(data=TABLE)), guarantees=[Divined(k=1)], roles=ROLES)


def test_an_entry_that_lacks_what_its_way_takes_is_reported(embedded: Engine) -> None:
    class Nowhere(KAnonymity):
        way: ClassVar[Way] = ways.POSITIONS

    with pytest.raises(TypeError, match="is not a PositionMeasure"):
        assess(embedded, embedded.scan(Source(data=TABLE)), guarantees=[Nowhere(k=1)], roles=ROLES)


def test_the_quasi_identifiers_that_each_way_looks_at() -> None:
    declared = ("age", "zip")
    assert way_of(KAnonymity(k=2)).columns_used_by(KAnonymity(k=2), declared) == declared
    items = KmAnonymity(k=2, m=2, items="basket")
    assert way_of(items).columns_used_by(items, declared) == ("basket",)
    named = {entry.way.name: way_of(entry).columns_used_by(entry, declared) for entry in FIRST.values()}
    assert named["process"] == named["columns"] == ()
    assert named["pairs"] == declared


def test_verdicts_that_no_entry_makes() -> None:
    model = KAnonymity(k=5)
    assert (not_judged(model, "why.").outcome, not_judged(model, "why.").threshold) == ("error", 5)
    assert all_suppressed(model).outcome == "fail"
    assert all_suppressed(model, allowed=True).outcome == "pass"
    assert all_suppressed(model).reason == "every record is suppressed."
    assert founded(Verdict(model, 4, "fail"), 9).outcome == "fail"
    undefined = founded(Verdict(model, float("nan"), "pass"), 9)
    assert (undefined.outcome, undefined.observed) == ("error", None)
