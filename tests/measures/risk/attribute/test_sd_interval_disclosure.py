"""Interval disclosure by standard deviation gives the worked and the reference shares.

Sources: reference/torra.json (slides), reference/sdcmicro.json (dRisk of sdcMicro 5.8.1: sd of the released file,
joint).
"""

from __future__ import annotations

import statistics
from typing import Any, Literal

import pyarrow as pa
import pytest

from privpipe.engines import Engine
from privpipe.measures import RiskyCells, SdIntervalDisclosure

from .test_rank_interval_disclosure import worked_tables


def test_the_worked_table(engine: Engine, torra: dict[str, Any], judged_pair: Any) -> None:
    original, released = worked_tables(torra)
    wanted = torra["worked_examples"]["interval_disclosure_on_the_same_table"]["sd_of_original_n_minus_1"]
    for name, figures in wanted.items():
        verdict = judged_pair(engine, SdIntervalDisclosure(percent=float(name[1:])), original, released)
        assert list(verdict.observed["columns"].values()) == pytest.approx(figures["per_column"])
        assert verdict.observed["all"] == pytest.approx(figures.get("joint", 0.0))


def test_figures_of_the_reference_tool(embedded: Engine, sdcmicro: Any, casc: Any, judged_pair: Any) -> None:
    cases = [case for case in sdcmicro if case["fn"] == "dRisk/dUtility/IL"]
    assert cases
    for case in cases:
        original, released = casc(case["data"]), casc(case["masked"])
        for name, share in case["expected"].items():
            if name.startswith("dRisk_k"):
                percent = 100 * float(name.removeprefix("dRisk_k"))
                measure = SdIntervalDisclosure(percent=percent, joint="all", sd="released")
                assert judged_pair(embedded, measure, original, released).observed["share"] == pytest.approx(share)


def test_risky_cells_of_the_reference_tool(embedded: Engine, sdcmicro: Any, casc: Any) -> None:
    from privpipe.engines import Source
    from privpipe.judging import assess
    from privpipe.roles import Roles

    for case in (case for case in sdcmicro if case["fn"] == "riskyCells"):
        table = casc(case["data"]).select(case["keys"])
        measure = RiskyCells(threshold=case["threshold"], max_dim=case["maxDim"])
        found = assess(
            embedded,
            embedded.scan(Source(data=table)),
            guarantees=[],
            measures=[measure],
            roles=Roles(quasi_identifiers=tuple(case["keys"])),
        )
        cells = found.measures[0].observed["cells"]
        wanted = case["expected"]["table"]
        dims = [wanted[f"dim{at}"] for at in range(1, case["maxDim"] + 1)]
        for *columns, count in zip(*dims, wanted["unsafe_cells"], strict=True):
            assert cells["+".join(name for name in columns if name)] == int(count)


def test_a_constant_column_is_disclosed_where_equal(embedded: Engine, judged_pair: Any) -> None:
    original, released = pa.table({"a": [5.0, 5.0, 5.0]}), pa.table({"a": [5.0, 5.1, None]})
    verdict = judged_pair(embedded, SdIntervalDisclosure(percent=500, at_most=0.4), original, released)
    assert (verdict.outcome, verdict.observed["share"]) == ("fail", 0.5)
    assert "1 of them without a value" in verdict.reason


@pytest.mark.parametrize("sd", ["original", "released"])
@pytest.mark.parametrize("records", [1, 2, 3, 5])
def test_shares_are_those_of_the_definition(
    embedded: Engine, judged_pair: Any, sd: Literal["original", "released"], records: int
) -> None:
    """The deviation is over whoever is in the table, with divisor n - 1; of a single record there is none."""
    x, y = [0.0, 4.0, 9.0, 10.0, 30.0][:records], [0.0, 5.0, 7.0, 16.0, 29.0][:records]
    spread = statistics.stdev(x if sd == "original" else y) if records > 1 else 0.0
    for percent in (0, 10, 17, 18, 20, 25, 28, 29, 30, 40, 44, 45, 80):
        measure = SdIntervalDisclosure(percent=percent, sd=sd)
        found = judged_pair(embedded, measure, pa.table({"a": x}), pa.table({"a": y}))
        wanted = sum(abs(a - b) <= percent / 100 * spread for a, b in zip(x, y, strict=True)) / records
        assert found.observed["share"] == wanted, percent


def test_suppressed_originals_belong_to_the_deviation(embedded: Engine, judged_pair: Any) -> None:
    x, y = pa.table({"a": [100.0, 1.0, 2.0, 3.0]}), pa.table({"a": [100.0, 5.0, 6.0, 7.0]})
    found = judged_pair(embedded, SdIntervalDisclosure(percent=10), x, y, left_out=1)
    # The three that are left are within 4 of their values: less than a tenth of the deviation over all four, 49.
    assert found.observed["share"] == 1.0
