"""Searches of levels compared with a baseline of the run: thirty columns without budget, sixteen with a time limit,
one sweep over a census table, and what a plan of a small table costs next to its search. Prints only.

`--census` is a Parquet file of Census-Income (KDD); CPU seconds are those of the process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from recording import record

import privpipe as pp
from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.embedded import EmbeddedEngine, session
from privpipe.hierarchies import HierarchySpec
from privpipe.models import KAnonymity
from privpipe.roles import Roles
from privpipe.transforms import Generalize, LocalRecoding
from privpipe.transforms.base import StageContext
from privpipe.transforms.recoding import generalize
from privpipe.transforms.recoding.encoded_table import encode, searched_quality
from privpipe.transforms.recoding.node import NodeCheck
from privpipe.transforms.recoding.strategies import searched

CENSUS = Path(__file__).resolve().parents[3] / "shared" / "data" / "census_income_kdd" / "census_income.parquet"
ROWS = 73_489
NINE = (
    "age",
    "education",
    "marital_stat",
    "race",
    "sex",
    "class_of_worker",
    "major_occupation_code",
    "country_of_birth_self",
    "weeks_worked_in_year",
)
SEVEN = (
    "major_industry_code",
    "hispanic_origin",
    "full_or_part_time_employment_stat",
    "tax_filer_stat",
    "citizenship",
    "family_members_under_18",
    "detailed_household_summary_in_household",
)
FOURTEEN = (
    "enroll_in_edu_inst_last_wk",
    "member_of_a_labor_union",
    "reason_for_unemployment",
    "region_of_previous_residence",
    "state_of_previous_residence",
    "detailed_household_and_family_stat",
    "live_in_this_house_1_year_ago",
    "num_persons_worked_for_employer",
    "country_of_birth_father",
    "country_of_birth_mother",
    "own_business_or_self_employed",
    "veterans_benefits",
    "detailed_industry_recode",
    "detailed_occupation_recode",
)
WIDE_ROWS = 100_000
WIDTHS = {"age": [5, 10, 20], "weeks_worked_in_year": [13, 26]}
FEW = ("race", "sex", "citizenship", "family_members_under_18")
K, SHARE = 5, 0.05


def spec_of(column: str) -> HierarchySpec:
    """Intervals of numbers; of categories the frequent ones stay visible longest."""
    if column in WIDTHS:
        return HierarchySpec.from_mapping({"intervals": {"start": 0, "widths": WIDTHS[column]}}, column=column)
    levels = 2 if column in FEW else 3
    return HierarchySpec.from_mapping({"priority": {"levels": levels, "order": "frequency"}}, column=column)


def problem(
    engine: EmbeddedEngine, census: Path, columns: tuple[str, ...], many: int = ROWS
) -> tuple[Any, StageContext]:
    """The scanned columns, and the context of a stage."""
    rows = pq.read_table(census, columns=list(columns)).slice(0, many)
    context = StageContext(
        roles=Roles(quasi_identifiers=list(columns)),
        schema=rows.schema,
        hierarchies={column: spec_of(column) for column in columns},
        guarantees=(KAnonymity(k=K),),
        place="transform[0]",
    )
    return engine.with_record_ids(engine.scan(Source(data=rows)), None, Seed.insecure(1)), context


def cpu_seconds(job: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    made = job()
    return time.process_time() - start, made


def sixteen_columns(engine: EmbeddedEngine, census: Path, seconds: float) -> None:
    """Each search for so long, next to a greedy descent without a limit of time."""
    table, context = problem(engine, census, (*NINE, *SEVEN))
    stage = Generalize(search="top_down", suppress_at_most=SHARE)
    encoded = encode(engine, table, stage, context)
    budget = int(SHARE * encoded.records + 1e-9)
    base: float | None = None
    limited = replace(stage.budget, nodes=10**9, seconds=seconds)
    for name in ("top_down", "genetic", "bottom_up", "optimal"):
        for at, limits in enumerate((stage.budget, replace(limited, seconds=1.0), limited)):
            if at == 0 and name != "top_down":
                continue
            own = replace(stage, search=name, budget=limits)
            check = NodeCheck(encoded, context, searched_quality(encoded, own, context))
            took, outcome = cpu_seconds(lambda: searched(own, check, budget, "transform[0]"))  # noqa: B023
            found = outcome.found
            if found is None:
                print(f"16 columns {name:10} found nothing within {limits.seconds:g} s", flush=True)
                continue
            base = base or found.loss[0]
            allowed = f"{limits.seconds:g} s" if limits.seconds else "no limit"
            print(
                f"16 columns {name:10} {allowed:9} loss {found.loss[0]:.5f} "
                f"({found.loss[0] / base:5.3f} of the descent)   at least {found.lower_bound:.4f}   "
                f"CPU {took:5.1f} s   nodes {outcome.checked:,} of {outcome.lattice.size:.2g}",
                flush=True,
            )


def thirty_columns(engine: EmbeddedEngine, census: Path) -> None:
    """Each search without a budget of its own, next to a greedy descent."""
    table, context = problem(engine, census, (*NINE, *SEVEN, *FOURTEEN), WIDE_ROWS)
    base: tuple[float, float] | None = None
    for name in ("top_down", "genetic", "bottom_up", "optimal"):
        stage = Generalize(search=name, suppress_at_most=SHARE)
        encoded = encode(engine, table, stage, context)
        check = NodeCheck(encoded, context, searched_quality(encoded, stage, context))
        budget = int(SHARE * encoded.records + 1e-9)
        took, outcome = cpu_seconds(lambda: searched(stage, check, budget, "transform[0]"))  # noqa: B023
        found = outcome.found
        if found is None:
            print(f"30 columns {name:10} found nothing", flush=True)
            continue
        base = base or (found.loss[0], took)
        record(f"30 columns, census, {name}", took=took, baseline=base[1], beside="the descent", loss=found.loss[0])
        print(
            f"30 columns {name:10} loss {found.loss[0]:.5f} ({found.loss[0] / base[0]:5.3f} of the descent)   "
            f"at least {found.lower_bound:.4f}   CPU {took:5.1f} s   peak {peak_megabytes():,.0f} MB   "
            f"nodes {outcome.checked:,} of {outcome.allowed:,} allowed, {outcome.lattice.size:.2g} in all",
            flush=True,
        )


def peak_megabytes() -> float:
    """Of this process so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one_sweep(engine: EmbeddedEngine, census: Path) -> None:
    """Local recoding of nine columns, a search next to the sweep."""
    table, context = problem(engine, census, NINE)
    base: tuple[float, float] | None = None
    for method in ("sweep", "search"):
        stage = LocalRecoding(method=method)
        stage.learn(engine, table, context)
        took, plan = cpu_seconds(lambda: stage.learn(engine, table, context))  # noqa: B023
        loss = plan.detail["cell_loss"]
        base = base or (loss, took)
        record(f"local recoding, census, {method}", took=took, baseline=base[1], beside="the sweep", loss=loss)
        print(
            f"{ROWS:,} records, 9 columns {method:7} loss {loss:.4f} ({loss / base[0]:4.2f} of the sweep)   "
            f"CPU {took:5.2f} s ({took / base[1]:4.2f})",
            flush=True,
        )


def small_tables(runs: int) -> None:
    """What a plan and its application cost next to the search, and in the database alone."""
    within, in_place = [0.0], session.SMALL_ROWS

    def timed(*given: Any) -> Any:
        took, outcome = cpu_seconds(lambda: searched(*given))
        within[0] += took
        return outcome

    generalize.searched = timed  # type: ignore[assignment]
    for rows in (30, 1000):
        rng = np.random.default_rng(rows)
        frame = pd.DataFrame(
            {"age": rng.integers(20, 70, rows), "zip": rng.integers(10000, 10020, rows).astype(str), "ill": "flu"}
        )
        policy = {
            "version": 1,
            "columns": {
                "age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 0, "widths": [5, 10, 20]}}},
                "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
                "ill": {"role": "insensitive"},
            },
            "transform": [{"generalize": {"suppress_at_most": 0.1}}],
            "guarantees": [{"k_anonymity": {"k": 3}}],
        }
        base: float | None = None
        for name, small in (("database", 0), ("in place", in_place)):
            session.SMALL_ROWS, beside, applied = small, [], []
            for _ in range(runs + 1):
                within[0] = 0.0
                took, plan = cpu_seconds(lambda: pp.plan(frame, policy))  # noqa: B023
                beside.append(took - within[0])
                applied.append(cpu_seconds(lambda: pp.transform(frame, plan))[0])  # noqa: B023
            least = min(beside[1:])
            base = base or least
            record(
                f"plan next to its search, {rows:,} rows, {name}", took=least, baseline=base, beside="in the database"
            )
            print(
                f"{rows:>5,} records, {name}: plan next to its search {least:.4f} CPU s ({least / base:4.2f})   "
                f"transform {min(applied[1:]):.4f}",
                flush=True,
            )
            session.SMALL_ROWS = in_place
    generalize.searched = searched


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--census", type=Path, default=CENSUS)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--parts", nargs="*", default=["small", "sweep", "wide", "sixteen"])
    asked = parser.parse_args()
    if "small" in asked.parts:
        small_tables(asked.runs)
    with EmbeddedEngine.open({"threads": 1}) as engine:
        if "sweep" in asked.parts:
            one_sweep(engine, asked.census)
        if "wide" in asked.parts:
            thirty_columns(engine, asked.census)
        if "sixteen" in asked.parts:
            sixteen_columns(engine, asked.census, asked.seconds)


if __name__ == "__main__":
    main()
