"""Suppression of an unchanged table (brute force over random tables is in tests/transforms/search)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.models import AverageRisk, DistinctLDiversity, KAnonymity, SampleUniqueness, TCloseness
from privpipe.roles import Roles
from privpipe.transforms import SuppressRecords

ROLES = Roles(quasi_identifiers=["a", "b"], sensitive=["ill"])


def kept(run: Any, rows: dict[str, list[Any]], *guarantees: Any, limit: float = 1.0, **options: Any) -> Counter[Any]:
    found = run(SuppressRecords(suppress_at_most=limit), rows, roles=ROLES, guarantees=guarantees, **options)
    return Counter(tuple(row.values()) for row in found.rows.to_pylist())


def test_failing_classes_go_whole_and_the_rest_stays(run: Any) -> None:
    rows = {"a": ["x", "x", "y", None, None], "b": [1, 1, 1, 2, 2], "ill": ["u", "v", "u", "u", "u"]}
    assert kept(run, rows, KAnonymity(k=2)) == Counter([("x", 1, "u"), ("x", 1, "v"), (None, 2, "u"), (None, 2, "u")])
    assert kept(run, rows, KAnonymity(k=2), DistinctLDiversity(column="ill", l=2)) == Counter(
        [("x", 1, "u"), ("x", 1, "v")]
    )
    assert kept(run, rows, KAnonymity(k=1), limit=0.0) == Counter(zip(*rows.values(), strict=True))
    assert sum(kept(run, rows).values()) == 5


def test_over_several_sets_all_failing_classes_of_a_round_go_at_once(run: Any) -> None:
    """One set after the other would leave fewer: over b the class of 1 is only too uneven once a's failures went."""
    rows = {
        "a": ["p", "q", "q", "q", "q"],
        "b": ["s", "s", "t", "t", "t"],
        "ill": ["u", "v", "u", "v", "v"],
    }
    sets = (KAnonymity(k=2, quasi_identifiers=("a",)), DistinctLDiversity(column="ill", l=2, quasi_identifiers=("b",)))
    # Round 1: p goes. Round 2: over b, s has one value left and goes. Round 3: all holds.
    assert kept(run, rows, *sets) == Counter([("q", "t", "u"), ("q", "t", "v"), ("q", "t", "v")])


def test_distances_compare_with_the_input_and_not_with_what_is_left(run: Any) -> None:
    rows = {"a": ["x"] * 4 + ["y"] * 4, "b": [1] * 8, "ill": ["u", "u", "v", "v", "u", "u", "u", "u"]}
    found = kept(run, rows, TCloseness(column="ill", t=0.25), base=["ill"])
    assert sum(found.values()) == 8  # u: 6/8; x has 1/2, y has 1: both 1/4 away
    with pytest.raises(NoSolutionError):
        kept(run, rows, TCloseness(column="ill", t=0.2), base=["ill"])


def test_sample_based_models_take_the_smallest_classes(run: Any) -> None:
    rows = {"a": ["x"] * 3 + ["y"] * 2 + ["z", "w"], "b": [1] * 7, "ill": ["u"] * 7}
    assert Counter(a for a, _, _ in kept(run, rows, SampleUniqueness(at_most=0.0)).elements()) == {"x": 3, "y": 2}
    # 4 classes of 7; without z and w 2 of 5; a tie of size goes by the class key: w first, which suffices for 1/2.
    assert Counter(a for a, _, _ in kept(run, rows, AverageRisk(at_most=0.5)).elements()) == {"x": 3, "y": 2, "z": 1}
    both = kept(run, rows, AverageRisk(at_most=0.5), KAnonymity(k=2))
    assert Counter(a for a, _, _ in both.elements()) == {"x": 3, "y": 2}
    with pytest.raises(NoSolutionError, match="cannot be met by suppressing"):
        kept(run, rows, AverageRisk(at_most=0.2))


def test_a_model_over_no_quasi_identifier(run: Any) -> None:
    rows = {"a": ["x", "y"], "b": [1, 2], "ill": ["u", "v"]}
    assert sum(kept(run, rows, KAnonymity(k=2, quasi_identifiers=())).values()) == 2
    assert sum(kept(run, rows, SampleUniqueness(at_most=0.0, quasi_identifiers=())).values()) == 2
    with pytest.raises(NoSolutionError, match="every record"):
        kept(run, rows, KAnonymity(k=3, quasi_identifiers=()))


def test_records_of_nothing_but_marks_are_suppressed_already(run: Any) -> None:
    """Marks in every quasi-identifier alone leave an illness to be judged."""
    rows = {"a": ["*", "x", "x", "*", "*"], "b": ["*", "y", "y", "z", "*"], "ill": ["*", "u", "u", "u", "u"]}
    assert set(kept(run, rows, KAnonymity(k=2))) == {("*", "*", "*"), ("x", "y", "u")}
    both = kept(run, rows, KAnonymity(k=2), SampleUniqueness(at_most=0.0))
    assert set(both) == {("*", "*", "*"), ("x", "y", "u")}


def test_the_limit_names_what_would_do(run: Any) -> None:
    rows = {"a": ["x"] * 6 + ["y"], "b": [1] * 7, "ill": ["u"] * 7}
    with pytest.raises(NoSolutionError, match=r"need 1 of 7 records suppressed, the limit allows 0; .* >= 0.142858"):
        kept(run, rows, KAnonymity(k=2), limit=0.1)
    assert sum(kept(run, rows, KAnonymity(k=2), limit=0.142858).values()) == 6
    with pytest.raises(NoSolutionError, match="every record would have to be suppressed"):
        kept(run, rows, KAnonymity(k=8))


def test_a_base_that_lacks_a_value(run: Any, embedded: Any) -> None:
    from privpipe.blocks import Facts, Histogram
    from privpipe.draws import Draws, Seed
    from privpipe.engines import Source
    from privpipe.transforms.base import StageContext, StagePlan

    table = embedded.scan(Source(data=pa.table({"a": ["x"], "b": [1], "ill": ["u"]})))
    base = Facts(histograms={"ill": Histogram(pa.array(["v"]), pa.array([1]).to_numpy())})
    models = (TCloseness(column="ill", t=1.0), SampleUniqueness(at_most=1.0, quasi_identifiers=("a",)))
    context = StageContext(roles=ROLES, schema=table.schema, guarantees=models, base=base)
    with pytest.raises(DataError, match="'ill' does not cover"):
        SuppressRecords().run(embedded, table, StagePlan(name=""), Draws(Seed.insecure(1), 0, ""), context)


def test_wrong_parameters() -> None:
    for share in (-0.1, 1.1, True, float("nan")):
        with pytest.raises(UsageError, match="suppress_at_most must be"):
            SuppressRecords(suppress_at_most=share)
