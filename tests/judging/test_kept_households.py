"""Households of the original are counted by how many of their records were released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from privpipe.blocks import Verdict
from privpipe.blocks.size_model import KeptHouseholds
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.judging import JudgingRules, assess
from privpipe.roles import Roles

HOMES = ["a", "a", "b", "b", "b", "c", None, None, "d", "d"]


@dataclass(frozen=True, kw_only=True, repr=False)
class HouseholdsSeen(KeptHouseholds):
    """Households released whole, those released in part, and the records that these lack."""

    def judge_kept(self, whole: int, part: int, missing: int) -> Verdict:
        return Verdict(self, {"whole": whole, "part": part, "missing": missing}, "pass")


@pytest.mark.parametrize(
    ("left_out", "found"),
    [
        ((), {"whole": 4, "part": 0, "missing": 0}),
        ((0, 1, 5), {"whole": 2, "part": 0, "missing": 0}),
        ((0, 2, 3), {"whole": 2, "part": 2, "missing": 3}),
        ((0, 2, 5, 6, 8), {"whole": 0, "part": 3, "missing": 3}),
    ],
)
def test_whole_in_part_or_gone(engine: Engine, left_out: tuple[int, ...], found: dict[str, int]) -> None:
    rows = {"id": list(range(10)), "home": HOMES, "zip": ["1"] * 10}

    def table(places: list[int]) -> Any:
        part = pa.table({name: pa.array([values[at] for at in places]) for name, values in rows.items()})
        return engine.with_record_ids(engine.scan(Source(data=part)), "id", Seed(bytes(16)))

    verdict = assess(
        engine,
        table([at for at in range(10) if at not in left_out]),
        guarantees=(),
        measures=[HouseholdsSeen()],
        roles=Roles(quasi_identifiers=("zip",), identifiers=("id", "home")),
        rules=JudgingRules(household="home"),
        original=table(list(range(10))),
    ).measures[0]
    assert verdict.observed == found
