"""The same figures on every engine, over texts with quotes, blanks, ties and dates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks.file_pair import TableMeasure
from privpipe.draws import RunKey, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from privpipe.judging import JudgingRules, assess
from privpipe.measures import InferenceAttack, LinkabilityAttack, SinglingOutAttack
from privpipe.roles import Roles

ROLES = Roles(quasi_identifiers=["a b", "n", "day"], sensitive=["it's"])


def table(seed: int, n: int = 150) -> pa.Table:
    rng = np.random.default_rng(seed)

    def blanked(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else value for value in values]

    return pa.table(
        {
            "a b": pa.array(blanked(rng.choice(['"u"', "v'", "w\\", ""], n).tolist()), pa.string()),
            "n": pa.array(blanked(rng.integers(0, 40, n).tolist()), pa.int64()),
            "day": pa.array(rng.integers(18000, 18050, n).tolist(), pa.int32()).cast(pa.date32()),
            "it's": pa.array(blanked(rng.choice(["x", "y", "z"], n).tolist()), pa.string()),
        }
    )


def entries(holdout: str) -> list[TableMeasure]:
    known = (("a b", "n"), ("day",))
    return [
        LinkabilityAttack(known=known, holdout=holdout, sample=60, neighbours=2),
        InferenceAttack(column="it's", holdout=holdout, sample=60, guess="both", targets="outliers", outlier_share=0.3),
        SinglingOutAttack(holdout=holdout, attacks=100, size=3),
    ]


def judged(engine: Engine, folder: Path) -> list[Any]:
    if not (folder / "h.parquet").exists():
        pq.write_table(table(3), folder / "h.parquet")
    original, released = (engine.scan(Source(data=table(seed))) for seed in (1, 2))
    rules = JudgingRules(order=RunKey.of(Seed.insecure("criteria"), "", "").attacks())
    found = assess(
        engine,
        released,
        guarantees=(),
        measures=entries(str(folder / "h.parquet")),
        roles=ROLES,
        rules=rules,
        original=original,
    )
    return [verdict.observed for verdict in found.measures]


@pytest.mark.usual
def test_every_engine_gives_the_same_figures(engine: Engine, embedded: Engine, tmp_path: Path) -> None:
    wanted, found = judged(embedded, tmp_path), judged(engine, tmp_path)
    assert found == wanted
    assert [each["attacked"] for each in found] == [60, 45, 100]


def test_a_column_that_a_table_lacks_is_not_a_pass(embedded: Engine, tmp_path: Path) -> None:
    pq.write_table(table(3).drop_columns(["n"]), tmp_path / "h.parquet")
    with pytest.raises(DataError, match="holdout: .*not in the data"):
        judged(embedded, tmp_path)
