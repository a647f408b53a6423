"""Stages on a Dask frame, without a policy: each is a step of a chain of `pipe`, and a check stands at its end.

    export PRIVPIPE_SEED="$(privpipe seed)"
    python pipelines/dask_stages/job.py --target /tmp/adult-stages

What a stage must learn is computed; the frame itself stays lazy until it is judged and written.
Ends with privpipe's exit codes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import dask.dataframe as dd

import privpipe as pp
from privpipe.errors import PrivpipeError
from privpipe.models import KAnonymity
from privpipe.transforms import Generalize, RankSwap, TopCode

ADULT = Path(__file__).resolve().parents[1] / "adult"
COLUMNS = ["age", "sex", "education", "hours_per_week", "income"]
SEED = {"from_env": "PRIVPIPE_SEED"}
ROLES = pp.Roles(quasi_identifiers=["age", "sex", "education"], insensitive=["hours_per_week", "income"])
HIERARCHIES = {name: ADULT / "hierarchies" / f"{name}.csv" for name in ROLES.quasi_identifiers}


def main() -> int:
    parser = argparse.ArgumentParser(description="Protect the Adult table on Dask, stage by stage.")
    parser.add_argument("--target", required=True, help="folder for the Parquet files")
    options = parser.parse_args()
    try:
        people = dd.read_csv(ADULT / "data" / "adult.csv", sep=";", blocksize="1MB")[COLUMNS]
        released = (
            people.pipe(TopCode(columns=["hours_per_week"], at=80).apply, seed=SEED)
            .pipe(RankSwap(columns=["hours_per_week"], p=0.05).apply, seed=SEED)
            .pipe(
                Generalize(search="optimal", suppress_at_most=0.05).apply,
                roles=ROLES,
                hierarchies=HIERARCHIES,
                guarantees=[KAnonymity(k=5)],
                seed=SEED,
            )
        )
        judged = pp.check(released, [KAnonymity(k=5)], roles=ROLES)
        released.to_parquet(options.target, write_index=False)
    except PrivpipeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"{judged.records:,} records in {options.target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
