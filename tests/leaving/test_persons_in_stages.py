"""Every threshold of a stage counts persons: one person in eight rows is one, on every engine, or the stage is refused.

The catalogue is gone through: each transformer with a threshold is run over a table in which one person has eight rows
with a figure that no one else has. That figure is in no released cell, or the policy is refused. A stage that counts
rows is caught: the planted faults show it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import PrivpipeError, UsageError
from privpipe.transforms import CATALOGUE
from privpipe.transforms.strata import PersonCounts

FIGURE, OTHER_FIGURE, LABEL = 7654321.12, 4321987.5, "a rare trade"
K, PERSONS, ROWS = 5, 400, 8
NUMBERS = ("cost", "rent")
COLUMNS: dict[str, dict[str, Any]] = {
    "pid": {"role": "identifier"},
    "home": {"role": "identifier"},
    "town": {"role": "quasi_identifier"},
    "area": {"role": "insensitive"},
    "cost": {"role": "insensitive", "type": "number"},
    "rent": {"role": "insensitive", "type": "number"},
    "trade": {"role": "insensitive"},
}


def visits() -> pd.DataFrame:
    """Four hundred persons of one row each, and one of eight rows, all with the same figures and an area of its own."""
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(
        {
            "pid": [f"p{at}" for at in range(PERSONS)],
            "home": [f"h{at // 2}" for at in range(PERSONS)],
            "town": rng.choice(["aa", "bb"], PERSONS),
            "area": rng.choice(["north", "south"], PERSONS),
            "cost": rng.normal(3000, 400, PERSONS).round(2),
            "rent": rng.normal(600, 60, PERSONS).round(2),
            "trade": rng.choice(["baker", "smith", "tailor"], PERSONS),
        }
    )
    one = {
        "pid": "pX",
        "home": "hX",
        "town": "aa",
        "area": "island",
        "cost": FIGURE,
        "rent": OTHER_FIGURE,
        "trade": LABEL,
    }
    return pd.concat([rows, pd.DataFrame([one] * ROWS)], ignore_index=True).sample(frac=1, random_state=1)


def low(rows: pd.DataFrame) -> pd.DataFrame:
    """The same table with figures far below those of all others."""
    return rows.assign(**{name: -rows[name] for name in NUMBERS})


def grouped(**parameters: Any) -> dict[str, Any]:
    quick = {"refine": "descent"} if parameters.get("method") not in ("univariate", "fixed") else {}
    return {"microaggregate": {"columns": list(NUMBERS), "k": K, **quick, **parameters}}


def drawn(**parameters: Any) -> dict[str, Any]:
    return {"synthesize": {"columns": [*NUMBERS, "trade"], **parameters}}


DOMAINS = {
    "cost": {"low": 0, "high": 8e6},
    "rent": {"low": 0, "high": 8e6},
    "trade": {"levels": ["baker", "smith", "tailor"]},
    "town": {"levels": ["aa", "bb"]},
    "area": {"levels": ["north", "south", "island"]},
}
PRIVATE = {"method": "marginals", "epsilon": 5.0, "delta": 1e-6, "domains": DOMAINS}
AGGREGATES = ("mean", "median", "trimmed_mean", "weighted_mean", "mode", "medoid")
ENTRIES: dict[str, dict[str, Any]] = {
    **{
        f"{code}, {name}": {code: {"columns": ["cost"], "replace": "mean", **at}}
        for code, limit in (("top_code", 1e6), ("bottom_code", -1e6))
        for name, at in {
            "mean": {"at": limit},
            "mean, by town": {"at": limit, "by": ["town"]},
            "mean, at a quantile": {"quantile": 0.985 if code == "top_code" else 0.015},
            "quantile": {"quantile": 0.985 if code == "top_code" else 0.015, "replace": "threshold"},
            "mean, by distance": {"columns": list(NUMBERS), "distance": 0.99999},
        }.items()
    },
    "microaggregate": {"microaggregate": {"columns": list(NUMBERS), "k": K}},
    **{f"microaggregate, {method}": grouped(method=method) for method in ("mdav", "v_mdav", "univariate", "fixed")},
    **{f"microaggregate, {each}": grouped(refine=each) for each in ("none", "descent", "search", "proof")},
    **{
        f"microaggregate, {each}": grouped(aggregate=each, **({"weight": "weight"} if "weighted" in each else {}))
        for each in AGGREGATES
    },
    "microaggregate, trimmed far": grouped(aggregate="trimmed_mean", trim=0.45),
    "microaggregate, gower": {"microaggregate": {"columns": ["cost", "trade"], "k": K, "distance": "gower"}},
    "microaggregate, in blocks": grouped(block=2 * K),
    "microaggregate, in blocks with border passes": grouped(block=50, passes=2, refine="descent"),
    "microaggregate, by town": grouped(by=["town"]),
    "microaggregate, by area": grouped(by=["area"]),
    "microaggregate, by area, merged": grouped(by=["area"], small_strata="merge"),
    "microaggregate, by area, suppressed": grouped(by=["area"], small_strata="suppress"),
    "microaggregate, lists": {"microaggregate": {"columns": [["cost"], ["rent"]], "k": [K, 3]}},
    "microaggregate, ties kept": grouped(method="univariate", keep_ties=True),
    "microaggregate, sensitive": grouped(sensitive={"column": "trade", "l": 2}),
    "fuzzy_microaggregate": {"fuzzy_microaggregate": {"columns": list(NUMBERS), "k": K}},
    "fuzzy_microaggregate, near": {
        "fuzzy_microaggregate": {"columns": list(NUMBERS), "k": K, "fuzziness": 1.01, "neighbours": 2}
    },
    "rank_swap, tails": {"rank_swap": {"columns": list(NUMBERS), "p": 0.1, "top": 0.0197}},
    "cart": drawn(),
    "cart, given": drawn(given=["town", "area"]),
    "cart, by area": drawn(by=["area"]),
    "cart, by area, merged": drawn(by=["area"], small_strata="merge"),
    "cart, small leaves": drawn(min_leaf=2, min_count=2),
    "cart, rare dropped": drawn(rare="drop"),
    "cart, all": {"synthesize": {}},
    "cart, all by area": {"synthesize": {"by": ["area"], "small_strata": "merge"}},
    "copula": drawn(method="copula"),
    "copula, by area": drawn(method="copula", by=["area"]),
    "copula, few cells": drawn(method="copula", bins=2, scores="frequency"),
    "copula, all": {"synthesize": {"method": "copula"}},
    "marginals, record": {"synthesize": PRIVATE},
    "marginals, person": {"synthesize": {**PRIVATE, "unit": "person", "most_records": 2}},
    "add_noise, by area": {"add_noise": {"columns": list(NUMBERS), "variance_ratio": 0.1, "by": ["area"]}},
    "suppress_cells": {"suppress_cells": {"suppress_at_most": 0.5}},
}
COUNTED: Mapping[str, tuple[str, ...]] = {
    "top_code": ("at_least", "quantile", "small_strata"),
    "bottom_code": ("at_least", "quantile", "small_strata"),
    "microaggregate": ("k", "small_strata"),
    "fuzzy_microaggregate": ("k", "small_strata"),
    "synthesize": ("min_count", "min_leaf", "small_strata", "unit"),
    "rank_swap": ("top", "bottom", "small_strata"),
    "record_swap": ("k",),
    "add_noise": ("small_strata",),
    "suppress_cells": ("threshold",),
    "mondrian": ("k",),
}
"""Thresholds that count someone. Those of `record_swap` and `mondrian` are not figures: they have tests below."""
SERVED = ("generalize", "local_recoding", "suppress_records", "safepub")
"""Stages that count as the guarantees do, or are refused with them (`Transformer.serves`)."""
OF_RECORDS = ("hide_results",)
"""Stages for measures that count records whatever `person_id` is: fewer persons than records support a rule."""
WITHOUT = ("pram", "shuffle", "round", "sample", "shift_dates", "drop_identifiers", "pseudonymise")
"""Stages without a threshold: what they release of a value does not depend on how many have it."""


def policy_of(stage: Mapping[str, Any], **changes: Any) -> pp.Policy:
    weights = {"weight": {"role": "insensitive", "type": "number"}} if "weighted_mean" in str(stage) else {}
    # Records that are drawn are of no person.
    over = {} if "pid" not in str(stage) and not draws_all(stage) else {"over": "records"}
    document = {
        "version": 1,
        "name": "visits",
        "person_id": "pid",
        "columns": {**COLUMNS, **weights},
        # A drawn class may be small by its noise alone: that is the guarantee's to refuse, and not what is asked here.
        "transform": [stage, *([{"suppress_records": {"suppress_at_most": 0.2}}] if draws_all(stage) else [])],
        "guarantees": [{"k_anonymity": {"k": K, **over}}],
        **changes,
    }
    return pp.Policy.from_dict(document)


def draws_all(stage: Mapping[str, Any]) -> bool:
    return "synthesize" in stage and "columns" not in stage["synthesize"]


def fate(stage: Mapping[str, Any], *, engine: str = "embedded", **changes: Any) -> str:
    """What became of the person's figures: `kept`, `leaked`, or `refused: ...`."""
    rows = visits().assign(weight=1.0) if "weighted_mean" in str(stage) else visits()
    figures = [FIGURE, OTHER_FIGURE]
    if "bottom_code" in stage:
        rows, figures = low(rows), [-each for each in figures]
    try:
        found = policy_of(stage, **changes).apply(rows, engine=engine)
    except PrivpipeError as error:
        return f"refused: {error}"
    named = stage[next(iter(stage))].get("columns", COLUMNS)
    masked = [name for each in named for name in ([each] if isinstance(each, str) else each)]
    cells = [found[name] for name in masked if name in NUMBERS]
    numbers = np.concatenate([pd.to_numeric(each, errors="coerce").to_numpy(float) for each in cells])
    leaked = any(np.isclose(numbers, figure, rtol=1e-9).any() for figure in figures)
    texts = {text for name in masked if name == "trade" for text in found[name].dropna()}
    return "leaked" if leaked or LABEL in texts else "kept"


def test_every_transformer_is_in_the_catalogue_of_thresholds() -> None:
    found = {CATALOGUE.attribute(name).name() for name in CATALOGUE.class_names}
    assert found == {*COUNTED, *SERVED, *WITHOUT, *OF_RECORDS}
    tried = {next(iter(stage)) for stage in ENTRIES.values()}
    assert {*COUNTED} - tried == {"record_swap", "mondrian"}
    assert len(ENTRIES) == 55


TOO_FEW = (
    *(f"{code}, mean{where}" for code in ("top_code", "bottom_code") for where in ("", ", by town", ", by distance")),
    *("microaggregate, by area", "cart, by area", "copula, by area", "add_noise, by area"),
)
"""What would be learnt of one person, and is refused when it is seen."""
UNABLE = {
    "microaggregate, median": "aggregate: median",
    "microaggregate, trimmed_mean": "aggregate: trimmed_mean",
    "microaggregate, trimmed far": "aggregate: trimmed_mean",
    "microaggregate, mode": "aggregate: mode",
    "microaggregate, medoid": "aggregate: medoid",
    "microaggregate, gower": "distance: gower",
    "microaggregate, by area, suppressed": "suppress_records",
    "rank_swap, tails": "top and bottom",
    "marginals, record": "unit: person",
    "suppress_cells": "suppress_records",
}
"""Stages that cannot count persons, and what the error names."""


@pytest.mark.parametrize("name", ENTRIES)
def test_the_figures_of_one_person_are_in_no_cell(name: str) -> None:
    wanted = "refused" if name in TOO_FEW or name in UNABLE else "kept"
    assert fate(ENTRIES[name]).split(":")[0] == wanted


@pytest.mark.parametrize("name", ["top_code, mean", "microaggregate, mdav", "cart", "copula", "fuzzy_microaggregate"])
def test_households_count_where_a_guarantee_counts_them(name: str) -> None:
    over = {"household_id": "home", "person_id": None, "guarantees": [{"k_anonymity": {"k": K, "over": "households"}}]}
    changes = {key: value for key, value in over.items() if value is not None}
    stage = ENTRIES[name]
    rows = visits().assign(pid=lambda found: [f"p{at}" for at in range(len(found))])
    document = {"version": 1, "name": "homes", "columns": COLUMNS, "transform": [stage], **changes}
    try:
        found = pp.Policy.from_dict(document).apply(rows)
    except PrivpipeError as error:
        assert "at_least" in str(error)  # noqa: PT017 - either is right, and said which
        return
    assert not np.isclose(found["cost"], FIGURE, rtol=1e-9).any()


@pytest.mark.parametrize(("name", "said"), UNABLE.items())
def test_a_stage_that_cannot_count_persons_is_refused_when_the_policy_is_read(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=rf"transform\[0\].*{said}"):
        policy_of(ENTRIES[name])


FAULTS = {
    "top_code, mean": ("coding.tail_coding",),
    "bottom_code, mean, by town": ("coding.tail_coding",),
    "top_code, quantile": ("coding.tail_coding",),
    "top_code, mean, by distance": ("coding.tail_thresholds",),
    "microaggregate, mdav": ("microaggregation.microaggregate", "microaggregation.group_learning"),
    "microaggregate, by area": ("strata", "microaggregation.microaggregate", "microaggregation.group_learning"),
    "fuzzy_microaggregate": ("microaggregation.microaggregate", "microaggregation.group_learning"),
    "cart": ("synthesis.synthesize",),
    "copula": ("synthesis.synthesize",),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_stage_that_counts_rows_is_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for module in FAULTS[name]:
        planted = importlib.import_module(f"privpipe.transforms.{module}")
        monkeypatch.setattr(planted, "units_of", lambda context: ())
    assert fate(ENTRIES[name]) == "leaked"


ENGINES = ["dask", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "name", ["top_code, quantile", "microaggregate, in blocks", "fuzzy_microaggregate", "cart, given", "copula"]
)
def test_every_engine_gives_the_same_rows(name: str, engine: str) -> None:
    seed = {"seed": {"insecure": 7}, "allow_insecure_seed": True}
    first, second = (
        policy_of(ENTRIES[name], **seed).apply(visits(), engine=each).sort_values([*NUMBERS, "town", "area"])
        for each in ("embedded", engine)
    )
    assert fate(ENTRIES[name], engine=engine).startswith(("kept", "refused"))
    pd.testing.assert_frame_equal(first.reset_index(drop=True), second.reset_index(drop=True), check_dtype=False)


def test_a_record_without_a_person_is_refused() -> None:
    rows = visits()
    rows.loc[rows.index[3], "pid"] = None
    with pytest.raises(PrivpipeError, match="person"):
        policy_of(grouped()).apply(rows)


def test_parts_of_mondrian_are_of_k_persons() -> None:
    rng = np.random.default_rng(1)
    one = pd.DataFrame({"pid": ["pX"] * 8, "age": [97] * 8, "row": range(8)})
    rest = pd.DataFrame({"pid": [f"p{at}" for at in range(200)], "age": rng.integers(20, 60, 200)})
    rows = pd.concat([one, rest.assign(row=range(8, 208))], ignore_index=True)
    hierarchy = {"intervals": {"start": 0, "widths": [10, 50, 100]}}
    columns = {
        "pid": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "hierarchy": hierarchy},
        "row": {"role": "insensitive"},
    }
    document = {
        "columns": columns,
        "person_id": "pid",
        "transform": [{"mondrian": {"k": K}}],
        "guarantees": [{"k_anonymity": {"k": 2}}],
    }
    with pytest.raises(UsageError, match="k counts as the guarantees do"):
        pp.Policy.from_dict({**document, "guarantees": [{"k_anonymity": {"k": 2, "over": "records"}}]})
    found = pp.Policy.from_dict(document).apply(rows)
    persons = found.merge(rows[["row", "pid"]], on="row").groupby("age")["pid"].nunique()
    assert persons.min() >= K


def test_households_at_risk_are_reported_by_persons() -> None:
    """Eight rows of one person who is alone in the area are not eight equal persons."""
    from privpipe.transforms import RecordSwap

    rows = visits().assign(kind=lambda found: np.where(found["pid"] == "pX", "rare", "plain"))
    rows.loc[rows["pid"] == "pX", "area"] = "north"
    stage = RecordSwap(areas=["area"], risk_variables=["kind"], k=K, rate=0.0)
    rows = rows.assign(area=rows.groupby("home")["area"].transform("first"))
    by_records = stage.fit(rows, household_id="home").plan["stages"][0]["detail"]["at_high_risk"]
    by_persons = stage.fit(rows, household_id="home", person_id="pid").plan["stages"][0]["detail"]["at_high_risk"]
    assert (by_records, by_persons) == ([0], [1])


def test_persons_count_up_to_what_is_enough() -> None:
    """The sketch is the number of different persons, cut off, however the rows are dealt out."""
    rng = np.random.default_rng(5)
    counts = PersonCounts(("pid",), 4)
    for size in (0, 1, 3, 9, 40):
        who = rng.integers(0, 6, size)
        parts = np.array_split(who, 3)
        found = counts.of((parts[0],), np.arange(len(parts[0])))
        for part in parts[1:]:
            found = counts.merged(found, counts.of((part,), np.arange(len(part))))
        assert counts.number(found) == min(len(set(who.tolist())), 4)
