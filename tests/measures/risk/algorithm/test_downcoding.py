"""Downcoding: guesses one level finer, next to what the prior expects of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.measures import Downcoding

TREE = HierarchySpec.from_mapping(
    {"tree": {"Europe": ["Bonn", "Graz", "Wien"], "Asia": ["Pune", "Kobe"]}, "add_root": True}, column="town"
)
SEX = HierarchySpec.from_mapping({"tree": {"any": ["f", "m"]}}, column="sex")
HIERARCHIES = {"town": TREE, "sex": SEX}


def tables(towns: list[tuple[str, str, str]]) -> tuple[pa.Table, pa.Table]:
    names, sexes, released = zip(*towns, strict=True)
    return pa.table({"town": names, "sex": sexes}), pa.table({"town": released, "sex": sexes})


ROWS = [
    *[("Bonn", "f", "Europe")] * 7, ("Graz", "f", "Europe"),
    *[("Bonn", "f", "Bonn")] * 3, ("Graz", "f", "Graz"), *[("Wien", "m", "Wien")] * 4,
    *[("Pune", "m", "Asia")] * 3, ("Kobe", "m", "Asia"),
]  # fmt: skip


def test_guesses_by_cells_published_finer(engine: Engine, judged_pair: Any) -> None:
    original, released = tables(ROWS)
    measure = Downcoding(columns=("town", "sex"), at_most=0.05, k=2)
    verdict = judged_pair(engine, measure, original, released, hierarchies=HIERARCHIES)
    # Europe, f: Bonn has 3 of 4; 7 of 8 are right. Asia: nothing finer, so 1/2 each, 4 cells with ties shared.
    assert verdict.observed["right"] == pytest.approx((7 + 2) / 12)
    assert verdict.observed["expected"] == pytest.approx((0.75 * 8 + 0.5 * 4) / 12)
    assert verdict.observed["gain"] == pytest.approx(1 / 12)
    assert (verdict.outcome, verdict.observed["cells"]) == ("fail", 12)
    assert verdict.observed["conditioned"] > verdict.observed["expected"]


def test_guesses_by_a_table_of_raw_values(embedded: Engine, judged_pair: Any, tmp_path: Path) -> None:
    original, released = tables(ROWS)
    prior = [("Bonn", "f"), ("Graz", "f"), ("Graz", "f"), ("Bonn", "m"), ("Pune", "m"), ("Pune", "m"), ("Kobe", "m")]
    pq.write_table(pa.table({"town": [t for t, _ in prior], "sex": [s for _, s in prior]}), tmp_path / "prior.parquet")
    measure = Downcoding(columns=("town", "sex"), at_most=1.0, prior=str(tmp_path / "prior.parquet"))
    found = judged_pair(embedded, measure, original, released, hierarchies=HIERARCHIES).observed
    # Europe, f: Graz has 2 of 3 and is one of 8; Asia, m: Pune has 2 of 3 and is 3 of 4.
    assert found["right"] == pytest.approx((1 + 3) / 12)
    assert found["expected"] == pytest.approx(2 / 3)
    pq.write_table(pa.table({"town": ["Bonn"]}), tmp_path / "narrow.parquet")
    narrow = Downcoding(columns=("town", "sex"), prior=str(tmp_path / "narrow.parquet"))
    with pytest.raises(DataError, match="the other table"):
        judged_pair(embedded, narrow, original, released, hierarchies=HIERARCHIES)


def test_only_classes_that_could_be_split_say_more(embedded: Engine, judged_pair: Any) -> None:
    rows = [*[("f", "any")] * 9, ("m", "any")]
    original, released = (pa.table({"sex": list(side)}) for side in zip(*rows, strict=True))
    for k, wanted in ((6, 0.5), (1, 0.5)):
        found = judged_pair(embedded, Downcoding(k=k), original, released, hierarchies={"sex": SEX}).observed
        assert found["conditioned"] == pytest.approx(wanted)
        assert found["right"] == pytest.approx(0.5)  # nothing tells which of the two
    assert np.isfinite(found["gain"])


def test_nothing_generalised_is_an_error(embedded: Engine, judged_pair: Any) -> None:
    original, _ = tables(ROWS)
    verdict = judged_pair(embedded, Downcoding(at_most=1.0), original, original, hierarchies=HIERARCHIES)
    assert (verdict.outcome, verdict.observed) == ("error", None)
    for wrong in ({"k": 0}, {"at_most": -1}, {"prior": ""}, {"columns": "town"}):
        with pytest.raises(UsageError):
            Downcoding(**wrong)


def test_a_label_beside_represents_all_its_values(embedded: Engine, judged_pair: Any, tmp_path: Path) -> None:
    """The towns of women and men count alike where the sex was released as `any`; so do the sexes of all of Europe."""
    original = pa.table({"town": ["Bonn", "Graz"], "sex": ["f", "m"]})
    released = pa.table({"town": ["Europe"] * 2, "sex": ["any"] * 2})
    prior = [*[("Bonn", "f")] * 3, ("Graz", "m"), *[("Pune", "m")] * 9]
    pq.write_table(pa.table({"town": [t for t, _ in prior], "sex": [s for _, s in prior]}), tmp_path / "prior.parquet")
    measure = Downcoding(columns=("town", "sex"), prior=str(tmp_path / "prior.parquet"))
    found = judged_pair(embedded, measure, original, released, hierarchies=HIERARCHIES).observed
    # Of Europe's four Bonn has three, and f has three; either guess is right for one record of two.
    assert (found["right"], found["expected"]) == (0.5, 0.75)
