"""The distribution that classes are compared with, from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.judging import Assessment, JudgingRules, assess, table_facts
from privpipe.models import BasicBetaLikeness, DeltaDisclosure, EnhancedBetaLikeness, TCloseness
from privpipe.roles import Roles
from privpipe.testing import histogram_of

ROWS = {"zip": ["1", "1", "1", "1", "2", "2"], "illness": ["flu", "flu", "cold", None, "flu", "cold"]}
ROLES = Roles(quasi_identifiers=["zip"], sensitive=["illness"])


def judged(engine: Engine, models: list[Any], rows: dict[str, Any] = ROWS, **rules: Any) -> Assessment:
    table = engine.scan(Source(data=pa.table(rows)))
    return assess(engine, table, guarantees=models, roles=ROLES, rules=JudgingRules(**rules))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, dict[str, str]]:
    """One distribution in four forms: flu 5, cold 3, gout 1, unknown 1."""
    texts = {
        "counts.csv": "illness,count\nflu,5\ncold,3\ngout,1\n,1\n",
        "shares.csv": "value;share\nflu;0.5\ncold;0.3\ngout;0.1\n;0.1\n",
        "records.csv": "illness,age\n" + "flu,1\n" * 5 + "cold,2\n" * 3 + "gout,3\n,4\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    values = pa.array(["cold", None, "gout", "flu"])
    pq.write_table(pa.table({"value": values, "count": [6, 2, 2, 10]}), tmp_path / "counts.parquet")
    return {name: {"file": str(tmp_path / name)} for name in (*texts, "counts.parquet")}


def test_classes_are_compared_with_the_file(engine: Engine, files: dict[str, dict[str, str]]) -> None:
    """By hand: class 1 has flu 1/2, cold 1/4, unknown 1/4; class 2 flu and cold one half each."""
    if engine.name == "spark":
        files = {name: files[name] for name in ("shares.csv", "counts.parquet")}
    models = [TCloseness(column="illness", t=0.2, base=base) for base in files.values()]
    found = judged(engine, models)
    for verdict in found.verdicts:
        assert verdict.observed == pytest.approx(0.2, rel=1e-12)
    assert {note for note in found.notes if "file" in note} == {
        f"base distribution of 'illness': the file '{name}'" for name in files
    }


def test_every_model_with_a_base_takes_one(embedded: Engine, files: dict[str, dict[str, str]]) -> None:
    base = files["counts.csv"]
    models = [
        TCloseness(column="illness", t=0.1, base=base),
        TCloseness(column="illness", t=0.1, base="released"),
        TCloseness(column="illness", t=0.1),
        BasicBetaLikeness(column="illness", beta=1.0, base=base),
        EnhancedBetaLikeness(column="illness", beta=2.0, base=base),
        DeltaDisclosure(column="illness", delta=3.0, base=base),
    ]
    found = judged(embedded, models, base={"illness": histogram_of(["flu", "cold", None, None])})
    observed = [verdict.observed for verdict in found.verdicts]
    assert observed == pytest.approx([0.2, 1 / 6, 0.5, 1.5, 1.5, 1.3219280948873622])


def test_the_ordered_distance_counts_the_values_of_the_file(embedded: Engine, tmp_path: Path) -> None:
    (tmp_path / "ages.csv").write_text("value,count\n1,1\n2,0\n3,1\n4,2\n", encoding="utf-8")
    rows = {"zip": ["1", "1"], "illness": [1, 3]}
    model = TCloseness(column="illness", t=1, distance="ordered", base={"file": str(tmp_path / "ages.csv")})
    assert judged(embedded, [model], rows).verdicts[0].observed == pytest.approx((0.25 + 0.5) / 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("illness,count\nflu,1\n", "does not cover"),
        ("illness,count\nflu,1\ncold,1\nflu,2\n,1\n", "names a value twice"),
        ("illness,count\nflu,1\ncold,\n,1\n", "1 values have no count"),
        ("illness,count\nflu,-1\ncold,1\n,1\n", "at least 0"),
        ("illness,count\nflu,0\n", "no value has a count above 0"),
        ("ilness,count\nflu,1\n", "did you mean 'ilness'"),
        ("illness\n", "base distribution of 'illness', base.csv"),
    ],
)
def test_a_file_that_is_not_a_base(embedded: Engine, tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "base.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=says) as caught:
        judged(embedded, [TCloseness(column="illness", t=0.2, base={"file": str(path)})])
    assert "flu" not in str(caught.value)


def test_a_policy_finds_the_file_next_to_itself(tmp_path: Path, files: dict[str, dict[str, str]]) -> None:
    pq.write_table(pa.table(ROWS), tmp_path / "rows.parquet")
    entry = {"t_closeness": {"column": "illness", "t": 0.2, "base": {"file": "shares.csv"}}}
    policy = {
        "version": 1,
        "source": {"path": "rows.parquet"},
        "columns": {"zip": {"role": "quasi_identifier"}, "illness": {"role": "sensitive"}},
        "guarantees": [entry],
        "sink": {"path": "out"},
    }
    released = pp.release(pp.Policy.from_dict(policy, tmp_path))
    assert released.assessment.verdicts[0].observed == pytest.approx(0.2)


def test_suppression_works_for_the_file_it_is_judged_by(tmp_path: Path, files: dict[str, dict[str, str]]) -> None:
    """Class b is distributed as the file says; class a is not."""
    rows = {"zip": list("aabbbbbbbbbb"), "illness": ["flu"] * 7 + ["cold"] * 3 + ["gout", None]}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    entry = {"column": "illness", "t": 0.1, "base": files["counts.parquet"]}
    policy: dict[str, Any] = {
        "version": 1,
        "source": {"path": str(tmp_path / "rows.parquet")},
        "columns": {"zip": {"role": "quasi_identifier"}, "illness": {"role": "sensitive"}},
        "transform": [{"suppress_records": {"suppress_at_most": 0.5}}],
        "guarantees": [{"t_closeness": entry}],
        "sink": {"path": str(tmp_path / "out")},
    }
    released = pp.release(policy)
    assert (released.assessment.records, released.assessment.verdicts[0].observed) == (
        10,
        pytest.approx(0.0, abs=1e-12),
    )
    policy["guarantees"] = [{"t_closeness": entry}, {"basic_beta_likeness": {"column": "illness", "beta": 9.0}}]
    with pytest.raises(UnsupportedError, match="compare 'illness' with 2"):
        pp.release(policy)


def test_an_unknown_key_next_to_the_file_is_an_error() -> None:
    with pytest.raises(UsageError, match="unknown"):
        TCloseness.build({"column": "illness", "t": 0.2, "base": {"file": "a.csv", "files": "b.csv"}})


def test_python_hands_the_distribution_over(embedded: Engine) -> None:
    given: list[Any] = [
        {"flu": 5, "cold": 3, "gout": 1, None: 1},
        {"flu": 0.5, "cold": 0.3, "gout": 0.1, None: 0.1},
        pa.table({"illness": ["flu"] * 5 + ["cold"] * 3 + ["gout", None]}),
        pd.DataFrame({"value": ["flu", "cold", "gout", None], "count": [5, 3, 1, 1]}),
    ]
    models = [TCloseness(column="illness", t=0.2, base=base) for base in given]
    found = judged(embedded, models)
    assert [verdict.observed for verdict in found.verdicts] == pytest.approx([0.2] * 4, rel=1e-12)
    said = json.dumps(found.to_dict()) + repr(models)
    assert "given in Python" in said
    assert "gout" not in said
    for base in (5, None, "others", {"flu": "many"}, {}, ["flu"], {"flu": True}):
        with pytest.raises(UsageError, match="base must be"):
            TCloseness(column="illness", t=0.2, base=base)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="does not cover"):
        judged(embedded, [TCloseness(column="illness", t=0.2, base={"flu": 1})])  # type: ignore[arg-type]


def test_counts_stand_to_each_other_as_the_weights_do() -> None:
    assert table_facts._whole([0.5, 1.5, 0, 2], "counts").tolist() == [5, 15, 0, 20]
    assert table_facts._whole([], "counts").tolist() == []
    for weights in ([1, -1], [1.0, float("nan")], [float("inf")]):
        with pytest.raises(DataError, match="counts must be numbers of at least 0"):
            table_facts._whole(weights, "counts")


def test_a_value_that_has_a_share_keeps_one_however_small() -> None:
    tiny, small, large, none = table_facts._whole([1e-40, 0.25, 0.75, 0.0], "counts").tolist()
    assert (tiny, none) == (1, 0)
    assert large / small == pytest.approx(3, rel=1e-15)
    assert tiny + small + large < table_facts.MOST, "sums of them fit into the integers they are kept in"
