"""Log-linear risk gives the reference figures, also where the reference program stops, and reads formulas.

Source: reference/sdcmicro.json, modRisk with method default (sdcMicro 5.8.1; expected values of `about`).
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from privpipe.blocks import Verdict
from privpipe.engines import Engine, Source
from privpipe.errors import UsageError
from privpipe.judging import JudgingRules, assess
from privpipe.measures import LoglinearRisk
from privpipe.measures.risk.identity.loglinear_risk import terms_of
from privpipe.roles import Roles


def judged(engine: Engine, rows: pa.Table, measure: LoglinearRisk, **rules: Any) -> Verdict:
    roles = Roles(quasi_identifiers=tuple(name for name in rows.schema.names if name != measure.weight))
    gates, measures = ([measure], []) if measure.is_gate() else ([], [measure])
    table = engine.scan(Source(data=rows))
    found = assess(engine, table, guarantees=gates, measures=measures, roles=roles, rules=JudgingRules(**rules))
    return (*found.verdicts, *found.measures)[0]


def test_figures_of_the_reference(embedded: Engine, sdcmicro: Any, casc: Any) -> None:
    cases = [case for case in sdcmicro if case["fn"] == "modRisk" and case["method"] == "default"]
    assert len(cases) >= 4
    for case in cases:
        bound = None if case["bound"] == "inf" else case["bound"]
        wanted = case["expected"]
        for figure, per_cell in (("tau1", "gr1"), ("tau2", "gr2")):
            measure = LoglinearRisk(weight=case["weight"], formula=case["formula"], bound=bound, figure=figure)
            found = judged(
                embedded, casc(case["data"]).select([*measure.own_columns(), case["weight"]]), measure
            ).observed
            assert found["cells"] == wanted["n_nonempty"], case["id"]
            if per_cell in wanted:
                assert found["per_cell"] == pytest.approx(wanted[per_cell], rel=1e-8), case["id"]
                assert found[figure] == pytest.approx(wanted[f"{figure}_sum_over_sample_uniques"], rel=1e-9)
                assert found["sample_uniques"] == wanted["sample_uniques"]
                assert found["share"] == pytest.approx(found[figure] / wanted["sample_uniques"])


def test_figures_of_the_weighted_variants(embedded: Engine, sdcmicro: Any, casc: Any) -> None:
    """modRisk with methods CE and PML; its glm stops at a relative 1e-8 of the deviance, ours at 1e-10 of each cell."""
    cases = [case for case in sdcmicro if case["fn"] == "modRisk" and case["method"] in ("CE", "PML")]
    assert len(cases) >= 3
    for case in cases:
        bound = None if case["bound"] == "inf" else case["bound"]
        for figure, per_cell in (("tau1", "gr1"), ("tau2", "gr2")):
            measure = LoglinearRisk(
                weight=case["weight"],
                formula=case["formula"],
                bound=bound,
                figure=figure,
                method=case["method"].lower(),
            )
            rows = casc(case["data"]).select([*measure.own_columns(), case["weight"]])
            found = judged(embedded, rows, measure).observed
            assert found["cells"] == case["expected"]["n_nonempty"], case["id"]
            assert found["per_cell"] == pytest.approx(case["expected"][per_cell], rel=1e-6), case["id"]


def test_equal_weights_change_nothing_but_the_offset_of_empty_cells(embedded: Engine) -> None:
    rows = ROWS.set_column(2, "w", pa.array([4.0] * 6))
    plain, pml, ce = (
        judged(embedded, rows, LoglinearRisk(weight="w", formula="a + b", method=method)).observed["tau1"]
        for method in ("default", "pml", "ce")
    )
    assert pml == pytest.approx(plain)
    assert ce != pytest.approx(plain)
    full = [judged(embedded, rows, LoglinearRisk(weight="w", formula="a*b", method=each)) for each in ("default", "ce")]
    assert full[0].observed["tau1"] == pytest.approx(full[1].observed["tau1"])


ROWS = pa.table({"a": list("xxxyyz"), "b": list("ppqpqq"), "w": [2.0, 2.0, 4.0, 8.0, 1.0, 1.0]})


def test_it_is_the_definition_on_a_small_table(embedded: Engine) -> None:
    # Main effects: lambda = n_a n_b / n; sample uniques are (x,q) (y,p) (y,q) (z,q).
    v = [0.75 * 1.5, 0.875 * 1.0, 0.0, 0.0]
    found = judged(embedded, ROWS, LoglinearRisk(weight="w", formula="a + b", at_most=0.6))
    assert found.observed["tau1"] == pytest.approx(sum(math.exp(-each) for each in v))
    assert found.observed["tau2"] == pytest.approx(2 + sum((1 - math.exp(-each)) / each for each in v[:2]))
    assert (found.outcome, found.observed["sample_uniques"], found.observed["cells"]) == ("fail", 4, 5)
    assert "estimated" in found.reason
    # With the pair every cell is its own mean.
    full = judged(embedded, ROWS, LoglinearRisk(weight="w", formula="a*b"))
    assert full.observed["tau1"] == pytest.approx(math.exp(-0.75) + math.exp(-0.875) + 2)


def test_undefined_figures_block(embedded: Engine) -> None:
    twice = pa.concat_tables([ROWS, ROWS])
    gate = LoglinearRisk(weight="w", formula="a + b", at_most=1.0)
    assert judged(embedded, twice, gate).outcome == "error"
    assert judged(embedded, twice, LoglinearRisk(weight="w", formula="a", at_most=0, if_no_uniques="pass")).passed
    wrong = ROWS.set_column(2, "w", pa.array([1.0, 1.0, 0.0, -1.0, 1.0, 1.0]))
    found = judged(embedded, wrong, gate)
    assert (found.outcome, "2 of 6 records" in found.reason) == ("error", True)
    ring = pa.table({name: ["p", "q", "r", "r"] for name in "abc"} | {"w": [2.0] * 4})
    found = judged(embedded, ring, LoglinearRisk(weight="w", formula="a*b + b*c + a*c", at_most=1.0, max_cells=26))
    assert (found.outcome, "27 cells" in found.reason) == ("error", True)
    assert judged(embedded, ring, LoglinearRisk(weight="w", formula="a*b + b*c + a*c", at_most=1.0)).passed
    with pytest.raises(UsageError, match="wildcard"):
        judged(embedded, ROWS, gate, nulls="wildcard")


def test_suppressed_records_are_in_no_cell_and_a_missing_value_is_a_level(embedded: Engine) -> None:
    rows = pa.table({"a": ["x", None, "*", "y"], "b": ["p", "p", "*", "*"], "w": [2.0, 2.0, None, 2.0]})
    found = judged(embedded, rows, LoglinearRisk(weight="w", formula="a + b"))
    assert (found.observed["sample_uniques"], found.observed["cells"]) == (3, 3)
    # A mark in the formula's columns alone is a value like any other.
    assert judged(embedded, rows, LoglinearRisk(weight="w", formula="b")).observed["cells"] == 2


def test_formulas() -> None:
    assert terms_of("~sex*age + `net income` : sex+c") == (("sex", "age"), ("net income", "sex"), ("c",))
    for wrong in ("", "~", "a +", "+ a", "a b*", "a ** b", "a + * b", "`a", "``", "a ~ b"):
        with pytest.raises(UsageError, match="formula"):
            terms_of(wrong)
    wrongs: list[dict[str, Any]] = [
        {"weight": ""},
        {"weight": "a"},
        {"formula": 3},
        {"at_most": 2},
        {"figure": "tau"},
        {"bound": 0},
        {"method": "PSE"},
        {"max_cells": 0},
        {"if_no_uniques": "skip"},
        {"quasi_identifiers": ["a"]},
    ]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            LoglinearRisk(**({"weight": "w", "formula": "a + b"} | wrong))
