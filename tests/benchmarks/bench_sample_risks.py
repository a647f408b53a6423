"""Risks of a sample: individual risk as one class count, log-linear risk, SUDA2, frequencies with blanks.

Each next to the bare class count of the same table in the same run. Prints only. The census and Adult tables are given
as files; without them made ones stand in.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pyarrow as pa
from recording import record

from privpipe.blocks import Guarantee
from privpipe.engines import Engine, Source, open_engine
from privpipe.judging import JudgingRules, assess
from privpipe.measures import IndividualRisk, LoglinearRisk, SpecialUniques
from privpipe.models import KAnonymity
from privpipe.roles import Roles

CENSUS = ("age", "sex", "race", "marital_stat", "education", "region_of_previous_residence")
LEVELS = (90, 2, 5, 7, 8)


def made(rows: int) -> pa.Table:
    """Five quasi-identifiers of 50,400 combinations, and a weight of its own for each record."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"q{at}": rng.integers(0, levels, rows) for at, levels in enumerate(LEVELS)}
    return pa.table(columns | {"weight": 1 + 100 * rng.random(rows)})


def timed(
    engine: Engine, table: Any, roles: Roles, entry: Guarantee, rules: JudgingRules | None = None, base: float = 0.0
) -> float:
    """Judge twice, the second time with everything compiled, and print; with the seconds of a count, next to it."""
    for _ in range(2):
        start = time.perf_counter()
        found = assess(engine, table, guarantees=[], measures=[entry], roles=roles, rules=rules)
        seconds = time.perf_counter() - start
    print(f"{engine.name:9} {seconds:7.2f} s  {entry.name()}: {found.measures[0].reason}", flush=True)
    if base:
        what = f"{entry.name()}, {engine.name}, {found.records:,} rows"
        record(what, took=seconds, baseline=base, beside="counting the classes")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--engines", nargs="+", default=["embedded"])
    parser.add_argument("--census", help="Parquet file of Census-Income (KDD)")
    parser.add_argument("--adult", help="CSV file of Adult, nine columns taken")
    options = parser.parse_args()
    for name in options.engines:
        with open_engine(name) as engine:
            table = engine.scan(Source(data=made(options.rows)))
            roles = Roles(quasi_identifiers=[f"q{at}" for at in range(len(LEVELS))])
            base = timed(engine, table, roles, KAnonymity())
            timed(engine, table, roles, IndividualRisk(weight="weight"), base=base)
            if options.census:
                census(engine, options.census)
            if options.adult:
                adult(engine, options.adult)


def census(engine: Engine, path: str) -> None:
    """Real weights on 299,285 records."""
    table, roles, weight = engine.scan(Source(data=path)), Roles(quasi_identifiers=CENSUS), "instance_weight"
    formulas = (
        "age + sex + race + marital_stat + education",
        "age*marital_stat + sex + race + education*sex",
        "age*marital_stat + age*education + marital_stat*education + sex*marital_stat",
    )
    for entry in (
        KAnonymity(),
        IndividualRisk(weight=weight),
        *(LoglinearRisk(weight=weight, formula=formula) for formula in formulas),
        SpecialUniques(),
    ):
        timed(engine, table, roles, entry)
    timed(engine, table, roles, IndividualRisk(weight=weight), JudgingRules(nulls="wildcard"))


def adult(engine: Engine, path: str) -> None:
    """All sets of nine columns."""
    table = engine.scan(Source(data=path, delimiter=";"))
    roles = Roles(quasi_identifiers=table.schema.names[:9])
    for entry in (KAnonymity(), SpecialUniques(), SpecialUniques(max_size=3)):
        timed(engine, table, roles, entry)


if __name__ == "__main__":
    main()
