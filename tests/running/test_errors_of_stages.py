"""An error of a stage says where the policy has that stage, also where an engine applies it when a later one reads."""

from __future__ import annotations

import datetime
from pathlib import Path

import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines.base import Engine
from privpipe.errors import DataError, NoSolutionError, PrivpipeError

POLICY = """\
version: 1
name: stays
source: {path: data.parquet}
columns:
  born: {role: quasi_identifier, type: date}
  paid: {role: quasi_identifier, type: number}
  sex: {role: quasi_identifier, hierarchy: {redact: {keep: left}}}
  illness: {role: sensitive}
transform:
STAGES
guarantees:
  - k_anonymity: {k: 2, quasi_identifiers: [sex]}
  - distinct_l_diversity: {column: illness, l: 1, quasi_identifiers: [sex]}
  - record_linkage: {columns: [paid], at_most: 1.0}
sink: {path: published}
seed: {from_file: key}
"""
SHIFT = "  - shift_dates: {columns: [born], days: 400, key: {from_file: key}}"
SWAP = "  - rank_swap: {columns: [paid], p: 0.1}"
NOISE = "  - add_noise: {columns: [paid], relative_sd: 0.1}"
LEVELS = "  - generalize: {search: optimal, suppress_at_most: 0.0}"


def policy(place: Path, stages: list[str], *, born: int = 2000, paid: float = 1.0) -> Path:
    """A policy and its source; `born` is the year of all, `paid` the first record's amount."""
    rows = pd.DataFrame(
        {
            "born": [datetime.date(born, 1, 1)] * 20,
            "paid": [paid, *(float(at) for at in range(19))],
            "sex": ["m", "f"] * 10,
            "illness": ["gout", "flu"] * 10,
        }
    )
    rows.to_parquet(place / "data.parquet")
    (place / "key").write_text("7d1c9a3e5b8f2046d1e7c3a95f80b264")
    (place / "release.yaml").write_text(POLICY.replace("STAGES", "\n".join(stages)))
    return place / "release.yaml"


def told(file: Path, engine: Engine, kind: type[PrivpipeError]) -> str:
    with pytest.raises(kind) as caught:
        pp.release(pp.Policy.load(file), engine=engine)
    assert not (file.parent / "published").exists()
    return str(caught.value)


@pytest.mark.parametrize("after", [[], [SWAP], [SWAP, NOISE]], ids=len)
@pytest.mark.usual
def test_of_a_stage_that_fails_while_rows_are_read(engine: Engine, tmp_path: Path, after: list[str]) -> None:
    said = told(policy(tmp_path, [SHIFT, *after], born=1), engine, DataError)
    assert said.startswith(f"{tmp_path / 'release.yaml'}:10: transform[0].shift_dates: shifting carries ")
    assert "'born'" in said


@pytest.mark.parametrize("before", [[], [SHIFT]], ids=len)
def test_of_a_stage_that_fails_while_it_is_planned(engine: Engine, tmp_path: Path, before: list[str]) -> None:
    said = told(policy(tmp_path, [*before, NOISE], paid=float("inf")), engine, DataError)
    assert said.startswith(f"{tmp_path / 'release.yaml'}:{10 + len(before)}: transform[{len(before)}].add_noise: ")
    assert "'paid'" in said


def test_of_a_search_without_a_solution(engine: Engine, tmp_path: Path) -> None:
    file = policy(tmp_path, [SWAP, LEVELS])
    file.write_text(file.read_text().replace("k: 2,", "k: 21,"))
    said = told(file, engine, NoSolutionError)
    assert said.startswith(f"{file}:11: transform[1].generalize: ")


def test_without_a_file_it_is_the_place_alone(embedded: Engine, tmp_path: Path) -> None:
    loaded = pp.Policy.load(policy(tmp_path, [SHIFT], born=1))
    again = pp.Policy.from_dict(dict(loaded.document), tmp_path)
    with pytest.raises(DataError, match=r"^transform\[0\].shift_dates: shifting carries "):
        pp.release(again, engine=embedded)
