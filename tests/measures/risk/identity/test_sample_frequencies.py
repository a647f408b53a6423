"""Frequencies with blanks, record by record from the definition, and as published."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.kernels.local_suppression.wildcard_matching import sample_frequencies
from privpipe.kernels.uniqueness.frequency_models import individual_risk
from tests.tiers import at_most

Rows = list[tuple[Any, ...]]


def by_record(rows: Rows, weights: list[float], alpha: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """f and F of every record, by the kernel."""
    codes = np.full((len(rows), len(rows[0])), -1, dtype=np.int64)
    for at, column in enumerate(zip(*rows, strict=True)):
        levels = sorted({value for value in column if value is not None}, key=str)
        codes[:, at] = [-1 if value is None else levels.index(value) for value in column]
    patterns, owner = np.unique(codes, axis=0, return_inverse=True)
    owner = owner.ravel()
    counts = np.bincount(owner, minlength=len(patterns)).astype(np.int64)
    found = sample_frequencies(patterns, counts, np.bincount(owner, weights=weights, minlength=len(patterns)))
    return found.counts(alpha)[owner], found.weighted(alpha)[owner]


def by_definition(rows: Rows, weights: list[float], alpha: float) -> tuple[list[float], list[float]]:
    counts, sums = [], []
    for row in rows:
        f = total = 0.0
        for other, weight in zip(rows, weights, strict=True):
            matches = all(a is None or b is None or a == b for a, b in zip(row, other, strict=True))
            same = row == other or all(value is None for value in row)
            share = (1.0 if same or None not in other else alpha) if matches else 0.0
            f, total = f + share, total + share * weight
        counts.append(f)
        sums.append(total)
    return counts, sums


@settings(max_examples=at_most(40))
@given(
    st.integers(1, 3).flatmap(lambda m: st.lists(st.tuples(*[st.sampled_from([None, 0, 1])] * m), min_size=1)),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_it_is_the_definition(rows: Rows, alpha: float) -> None:
    weights = [1.0 + (at % 5) for at in range(len(rows))]
    found = by_record(rows, weights, alpha)
    for mine, wanted in zip(found, by_definition(rows, weights, alpha), strict=True):
        assert mine == pytest.approx(wanted)


def test_the_worked_example(casc: Any) -> None:
    """Section 6 of the risk specification: francdat with five blank cells."""
    rows = franc(casc, "(3,Key3),(4,Key1),(4,Key2),(5,Key4),(6,Key1)")
    wanted = {
        1.0: [3, 2, 4, 3, 3, 2, 2, 3],
        0.5: [2.5, 1.5, 4, 2.5, 2, 1.5, 1.5, 2.5],
        0.0: [2, 1, 4, 2, 1, 1, 1, 2],
    }
    for alpha, counts in wanted.items():
        assert by_record(rows, [1.0] * 8, alpha)[0].tolist() == counts


def test_figures_of_the_reference(sdcmicro: Any, casc: Any) -> None:
    """Source: reference/sdcmicro.json, freqCalc+indivRisk (sdcMicro 5.8.1; expected values of `about`)."""
    cases = [case for case in sdcmicro if case["fn"] == "freqCalc+indivRisk"]
    assert len(cases) >= 7
    for case in cases:
        keys = [case["keys"]] if isinstance(case["keys"], str) else case["keys"]
        table = pa.table(case["inline"]) if "inline" in case else casc(case["data"])
        columns = [table[name].to_pylist() for name in keys]
        blank(columns, keys, (case.get("na_rule") or "").partition(": ")[2])
        weights = table[case["weight"]].to_pylist()
        f, population = by_record(list(zip(*columns, strict=True)), weights, case["alpha"])
        wanted = case["expected"]
        for name, found in (("fk", f), ("Fk", population)):
            if name in wanted:
                assert found == pytest.approx(wanted[name], rel=1e-12), case["id"]
            if f"{name}_sum" in wanted:
                assert found.sum() == pytest.approx(wanted[f"{name}_sum"])
        assert (int((f == 1).sum()), int((f == 2).sum())) == (wanted["n1"], wanted["n2"])
        for name, approximate in (("risk_exact", False), ("risk_approx", True)):
            risks = individual_risk(f, population, approximate=approximate)
            if name in wanted:
                assert risks == pytest.approx(wanted[name], rel=1e-9), (case["id"], name)
            if f"{name}_sum" in wanted:
                assert risks.sum() == pytest.approx(wanted[f"{name}_sum"], rel=1e-9)
                assert risks.max() == pytest.approx(wanted[f"{name}_max"], rel=1e-9)
        if "fk_sha256" in wanted:
            text = ",".join(str(int(each)) for each in f)
            assert hashlib.sha256(text.encode()).hexdigest() == wanted["fk_sha256"]
            assert {str(k): int((f < int(k)).sum()) for k in wanted["n_fk_lt"]} == wanted["n_fk_lt"]


def franc(casc: Any, blanks: str) -> Rows:
    keys = ["Key1", "Key2", "Key3", "Key4"]
    columns = [casc("francdat.csv")[name].to_pylist() for name in keys]
    blank(columns, keys, blanks)
    return list(zip(*columns, strict=True))


def blank(columns: list[list[Any]], keys: list[str], cells: str) -> None:
    """Empty the cells of a list like ``(3,Key3),(4,Key1)``."""
    for cell in filter(None, cells.strip("()").split("),(")):
        row, key = cell.split(",")
        columns[keys.index(key)][int(row) - 1] = None
