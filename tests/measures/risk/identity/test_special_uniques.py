"""SUDA2 and DIS scores give the reference figures, and say what they cannot tell.

Source: reference/sdcmicro.json, suda2 (sdcMicro 5.8.1; its DIS scores keep single precision).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import DistinctBlock, Verdict
from privpipe.engines import Engine, Source
from privpipe.errors import UsageError
from privpipe.judging import JudgingRules, assess
from privpipe.kernels.uniqueness.special_uniques import minimal_uniques, size_weights
from privpipe.measures import SpecialUniques
from privpipe.measures.risk.identity.risky_combinations import without_blanks_apart
from privpipe.roles import Roles


def judged(engine: Engine, rows: pa.Table, measure: SpecialUniques, **rules: Any) -> Verdict:
    roles = Roles(quasi_identifiers=tuple(rows.schema.names))
    gates, measures = ([measure], []) if measure.is_gate() else ([], [measure])
    table = engine.scan(Source(data=rows))
    found = assess(engine, table, guarantees=gates, measures=measures, roles=roles, rules=JudgingRules(**rules))
    return (*found.verdicts, *found.measures)[0]


def rows_of(case: dict[str, Any], casc: Any) -> pa.Table:
    keys = case["keys"]
    table = (pa.table(case["inline"]) if "inline" in case else casc(case["data"])).select(keys)
    if "na_rule" not in case:
        return table
    columns = {name: table[name].to_pylist() for name in keys}
    for j, name in enumerate(keys, 1):
        columns[name] = [None if (31 * i + 17 * j) % 41 == 0 else value for i, value in enumerate(columns[name], 1)]
    return pa.table(columns)


def row_scores(rows: pa.Table, weighted: bool) -> list[float]:
    """Score of every record, in the order of the rows."""
    counted = rows.append_column("__count", pa.array(np.ones(rows.num_rows, dtype=np.int64)))
    apart = DistinctBlock.from_table(counted, rows.schema.names)
    codes = np.where(apart.blanks, -1, apart.codes)
    block, _ = without_blanks_apart(apart)
    scores = minimal_uniques(block.codes, block.counts).scores(size_weights(len(rows.schema), weighted))
    of = {tuple(code): score for code, score in zip(block.codes.tolist(), scores.tolist(), strict=True)}
    return [of[tuple(code)] for code in codes.tolist()]


def test_figures_of_the_reference(embedded: Engine, sdcmicro: Any, casc: Any) -> None:
    cases = [case for case in sdcmicro if case["fn"] == "suda2"]
    assert len(cases) >= 6
    for case in cases:
        rows, wanted = rows_of(case, casc), case["expected"]
        score = "original" if case.get("original_scores", True) else "weighted"
        measure = SpecialUniques(score=score, dis_fraction=case.get("DisFraction", 0.01))
        for nulls in ("own_value", "wildcard"):
            found = judged(embedded, rows, measure, nulls=nulls).observed
            assert found["score_sum"] == pytest.approx(wanted["score_sum"], rel=1e-12), case["id"]
            for name in ("score_max", "dis_sum", "dis_max"):
                if name in wanted:
                    assert found[name] == pytest.approx(wanted[name], rel=1e-5), (case["id"], name)
            if "n_pos" in wanted:
                assert found["share"] * rows.num_rows == pytest.approx(wanted["n_pos"])
                assert found["dis_mean"] * rows.num_rows == pytest.approx(wanted["dis_sum"], rel=1e-5)
            for key, percent in wanted.get("attribute_contributions", {}).items():
                assert 100 * found["contributions"][key] == pytest.approx(percent)
        if "score" in wanted:
            assert row_scores(rows, score == "weighted") == pytest.approx(wanted["score"])


def test_what_is_judged_and_said(embedded: Engine) -> None:
    rows = pa.table({"a": ["x", "x", "x", "y", "y"], "b": [1, 1, 2, 1, 1], "c": [1, 1, 1, 1, 2]})
    # Row 3 is alone on b=2 (score 2); row 4 on a=y and c=1 (1); row 5 on c=2 (2).
    found = judged(embedded, rows, SpecialUniques(at_most=0.5))
    assert found.observed["share"] == pytest.approx(0.6)
    assert (found.outcome, found.failing_records, found.observed["score_sum"]) == ("fail", 3, 5.0)
    single = judged(embedded, rows, SpecialUniques(at_most=0.5, max_size=1))
    assert (single.outcome, single.observed["share"]) == ("pass", pytest.approx(0.4))
    assert "at most 1 columns" in single.reason
    no_pairs = judged(embedded, rows.slice(1), SpecialUniques(at_most=0.5, figure="dis_max"))
    assert (no_pairs.outcome, no_pairs.observed["dis_max"]) == ("fail", 1.0)
    assert "no pairs" in no_pairs.reason
    none = judged(embedded, rows.take([0, 0, 1]), SpecialUniques(at_most=0.0))
    assert (none.outcome, none.observed["contributions"]) == ("pass", {"a": None, "b": None, "c": None})
    assert judged(embedded, rows.slice(0, 1), SpecialUniques(at_most=0.0)).outcome == "fail"


def test_suppressed_records_and_wildcard_texts_take_no_part(embedded: Engine) -> None:
    rows = pa.table({"a": ["x", "x", "*", "?"], "b": ["1", "2", "*", "2"]})
    own = judged(embedded, rows, SpecialUniques())
    assert own.observed["share"] == 1.0
    blank = judged(embedded, rows, SpecialUniques(), nulls="wildcard", wildcard="?")
    assert blank.observed["share"] == pytest.approx(2 / 3)
    assert (own.observed["score_sum"], blank.observed["score_sum"]) == (3.0, 2.0)
    assert judged(embedded, rows.slice(2, 1), SpecialUniques()).observed is None


def test_ill_formed_parameters_are_refused(embedded: Engine) -> None:
    wrongs: list[dict[str, Any]] = [
        {"columns": []},
        {"max_size": 0},
        {"at_most": -1},
        {"figure": "mean"},
        {"dis_fraction": 1},
        {"score": "x"},
        {"columns": ["a"], "quasi_identifiers": ["b"]},
        {"columns": [f"c{at}" for at in range(15)]},
        {"columns": [f"c{at}" for at in range(63)], "max_size": 2},
    ]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            SpecialUniques(**wrong)
    wide = pa.table({f"c{at}": [1, 2] for at in range(15)})
    with pytest.raises(UsageError, match="max_size"):
        judged(embedded, wide, SpecialUniques())
    assert judged(embedded, wide, SpecialUniques(max_size=2)).observed["share"] == 1.0
