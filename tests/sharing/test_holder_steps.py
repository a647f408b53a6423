"""The steps of a holder: all or nothing, once, and nothing of its table anywhere else."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from privpipe.errors import DataError, Refused, SinkError, UsageError
from privpipe.sharing import Budget, Participant, RunDocument, joint_policy
from privpipe.sharing.holder_steps import partial_sum
from tests.gathering import gathered
from tests.sharing.conftest import AGES, NONCE, REGIONS, Run, records

PRIVATE = {
    "writer": None,
    "guarantees": None,
    "epsilon": 1,
    "contribution_bound": 1,
    "measures": {
        "count": {"between": [0, 1000]},
        "cost": {"decimals": 2, "between": [0, 100000], "person": [0, 300]},
    },
}
CANARY = 7_368_514
Runs = Callable[..., Run]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_repeated_step_sends_the_same_shares(run: Runs) -> None:
    made = run()
    assert made.split("north") == 2
    before = files(made.document.folder)
    assert made.split("north") == 0
    lost = made.document.folder / "north-to-west.share"
    lost.unlink()
    made.split("south")
    made.split("west")
    assert made.split("north") == 1
    after = files(made.document.folder)
    assert after["north-to-south.share"] == before["north-to-south.share"]
    assert [made.add_up(name) for name in ("north", "south", "west", "west")] == [True, True, True, False]
    counts = joint_policy(made.document, made.work("north"), "out", key=made.key("north"))
    assert counts.tables is not None


def test_a_missing_holder_is_named_and_nothing_is_sent(run: Runs) -> None:
    made = run()
    with pytest.raises(UsageError, match="not split yet"):
        made.add_up("north")
    made.split("north")
    made.split("west")
    with pytest.raises(DataError, match="the shares from 'south' are missing: all holders"):
        made.add_up("north")
    with pytest.raises(DataError, match="the shares from 'south' are missing"):
        made.add_up("west")
    assert not list(made.document.folder.glob("*.sum"))
    made.split("south")
    made.add_up("north")
    with pytest.raises(DataError, match="partial sums of 'south', 'west' are missing"):
        joint_policy(made.document, made.work("north"), "out", key=made.key("north"))


def test_an_altered_share_is_found(run: Runs) -> None:
    made = run()
    for name in made.tables:
        made.split(name)
    share = made.document.folder / "south-to-north.share"
    whole = share.read_bytes()
    share.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DataError, match="the share from 'south' to 'north' was altered"):
        made.add_up("north")
    share.write_bytes((made.document.folder / "west-to-north.share").read_bytes())
    with pytest.raises(DataError, match="repeated or renamed"):
        made.add_up("north")
    share.write_bytes(whole)
    made.add_up("north")
    sums = made.document.folder / "north.sum"
    sums.write_bytes(sums.read_bytes()[:-8] + bytes(8))
    with pytest.raises(DataError, match="the partial sum from 'north' to 'north' was altered"):
        partial_sum(made.document, "north", made.key("north"))
    with pytest.raises(DataError, match="was altered"):
        made.add_up("north")  # what is there in its name is not its own


def test_files_of_another_run_are_named(run: Runs) -> None:
    old, new = run(), run(nonce=NONCE[::-1])
    for made in (old, new):
        made.keys = old.keys
        made.given["holders"] = old.given["holders"]
        made.write()
        for name in made.tables:
            made.split(name)
    name = "south-to-north.share"
    shutil.copy(old.document.folder / name, new.document.folder / name)
    with pytest.raises(DataError, match="is of another run: its nonce"):
        new.add_up("north")
    changed = run(dimensions={"region": [*REGIONS, "East"], "age": AGES})
    changed.keys, changed.given["holders"] = old.keys, old.given["holders"]
    changed.write()
    changed.split("north")
    changed.split("west")
    shutil.copy(old.document.folder / name, changed.document.folder / name)
    with pytest.raises(DataError, match="another version of the run document"):
        changed.add_up("north")


def test_a_nonce_serves_one_run(run: Runs) -> None:
    made = run()
    made.split("north")
    records(5000, 30, 9).to_parquet(made.folder / "north" / "records.parquet")
    with pytest.raises(UsageError, match="drawn for other data"):
        made.split("north")
    with pytest.raises(UsageError, match="this work folder did not make them: the nonce served"):
        made.participant("north", work=made.folder / "other").split(made.tables["north"])
    made.given.pop("person_id")
    made.write()
    with pytest.raises(UsageError, match="another version of the run document"):
        made.split("north")
    with pytest.raises(UsageError, match="another version of the run document"):
        made.add_up("north")


def test_another_key_is_refused(run: Runs) -> None:
    made = run()
    with pytest.raises(UsageError, match="not that of the holder 'north'"):
        made.participant("north", key=made.key("south"))
    with pytest.raises(UsageError, match="no holder 'nort'; did you mean 'north'"):
        Participant(document=made.document, name="nort", key=made.key("north"), work=made.work("north"))
    made.all_but_the_last()
    for key in (None, made.key("south")):
        with pytest.raises(UsageError, match="written by 'north' alone"):
            joint_policy(made.document, made.work("south"), "out", key=key)
    with pytest.raises(DataError, match="cannot be decrypted"):
        partial_sum(made.document, "south", made.key("south"))


def test_what_does_not_fit_the_document_is_refused(run: Runs) -> None:
    sound = records(0, 20, 0)
    cases = {
        "in 1 of .* records": sound.assign(region=["Moon", *sound["region"][1:]]),
        "in 2 of .* records": sound.assign(age=[None, None, *sound["age"][2:]]),
        "'cost' is not in the table": sound.drop(columns="cost"),
        "outside the bounds": sound.assign(cost=100_000.01),
        "persons of this holder are in several cells": sound.assign(person=0),
    }
    with gathered() as case:
        for match, table in cases.items():
            with case(match):
                made = run({"north": table, "south": sound, "west": sound})
                with pytest.raises(DataError, match=match) as caught:
                    made.split("north")
                assert "Moon" not in str(caught.value)
                assert not made.document.folder.exists()


def test_nothing_of_a_table_is_in_another_folder(run: Runs) -> None:
    """Counts, sums and persons of one holder, in every spelling, before and after each step."""
    odd = pd.DataFrame(
        {"person": [f"canary-{at}" for at in range(37)], "region": "West", "age": "old", "cost": CANARY / 37}
    )
    made = run(
        {"north": records(0, 20, 0), "south": odd, "west": records(1000, 20, 1)},
        measures={"count": {"between": [0, 1000]}, "cost": {"decimals": 0, "between": [0, 10**8]}},
    )
    made.all_but_the_last()
    own = sum(round(each) for each in odd["cost"])
    marks = [b"canary", *(str(own).encode(), own.to_bytes(8, "little"), own.to_bytes(8, "big"))]
    marks += [int(own).to_bytes(4, "little"), f"{own:x}".encode()]
    outside = {name: data for name, data in files(made.folder).items() if not name.startswith("south/")}
    assert len(outside) > 10
    for name, data in outside.items():
        assert not [mark for mark in marks if mark in data], name
    assert [mark for mark in marks if mark in b"".join(files(made.folder / "south").values())]


def test_what_is_kept_is_private(run: Runs) -> None:
    made = run()
    made.all_but_the_last()
    joint_policy(made.document, made.work("north"), "out", key=made.key("north"))
    for path in made.work("north").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_two_processes_at_one_step(run: Runs) -> None:
    made = run()
    made.split("north")
    handle = os.open(made.work("north") / NONCE / "lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(SinkError, match="another run is using this step"):
            made.split("north")
    finally:
        os.close(handle)
    assert made.split("north") == 0


def test_a_damaged_state_stops_the_run(run: Runs) -> None:
    made = run()
    made.split("north")
    state = made.work("north") / NONCE / "kept.bin"
    for wrong in (b"", b"{}", b"[]\n", json.dumps({"run": 1, "data": "", "keys": 3}).encode()):
        state.write_bytes(wrong)
        with pytest.raises(DataError, match="damaged"):
            made.split("north")


def test_noise_is_paid_for_before_it_is_drawn(run: Runs, tmp_path: Path) -> None:
    made = run(**PRIVATE)
    with pytest.raises(UsageError, match="its ledger and its limit"):
        made.split("north")
    budget = Budget(tmp_path / "ledger", Fraction(3, 2))
    assert made.split("north", budget=budget) == 2
    assert made.split("north", budget=budget) == 0  # nothing is drawn or spent again
    again = run(**PRIVATE, nonce=NONCE[::-1])
    with pytest.raises(Refused, match="0.5 of 1.5 is left"):
        again.participant("north").split(made.folder / "north" / "records.parquet", budget=budget)
    assert not again.document.folder.exists()


@pytest.mark.parametrize("colluding", [1, None])
def test_with_noise_contributions_are_bounded(
    run: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, colluding: int | None
) -> None:
    """Of a person in six cells one counts, with a cost of at most 300; every figure gets its part of the noise."""
    drawn: list[tuple[Fraction, int]] = []

    def no_noise(scale: Fraction, among: int, below: object) -> int:
        drawn.append((scale, among))
        return 0

    monkeypatch.setattr("privpipe.sharing.holder_steps.noise_part", no_noise)
    cells = [(region, age) for region in REGIONS for age in AGES]
    table = pd.DataFrame([{"person": 1, "region": r, "age": a, "cost": 500.0} for r, a in cells])
    tables = {"north": table, "south": table.assign(person=2), "west": table.assign(person=3)}
    made = run(tables, **PRIVATE, colluding=colluding)
    for name in made.tables:
        made.split(name, budget=Budget(tmp_path / f"ledger-{name}", Fraction(1)))
    for name in made.tables:
        made.add_up(name)
    policy = joint_policy(made.document, tmp_path / "anyone", "out")
    assert policy.source is not None
    joint = pd.read_parquet(policy.source.path)
    assert (joint["count"].sum(), joint["cost"].sum()) == (3, 3 * 30_000)
    among = 2 if colluding else 1  # of three holders
    assert drawn == ([(Fraction(2), among)] * 6 + [(Fraction(60_000), among)] * 6) * 3


def wide(*values: int) -> pd.DataFrame:
    return pd.DataFrame({"person": range(len(values)), "region": "West", "age": "old", "cost": values})


def test_totals_up_to_the_bound_do_not_wrap(run: Runs) -> None:
    most = 2**62 // (3 * 6) - 1
    made = run(
        {name: wide(most) for name in ("north", "south", "west")},
        measures={"count": {"between": [0, 9]}, "cost": {"between": [-most, most]}},
    )
    made.all_but_the_last()
    policy = joint_policy(made.document, made.work("north"), "out", key=made.key("north"))
    assert policy.source is not None
    assert pd.read_parquet(policy.source.path)["cost"].sum() == 3 * most
    made.given["measures"]["cost"]["between"] = [-most, most + 2]
    with pytest.raises(UsageError, match="could exceed 2\\^62"):
        RunDocument.of(made.given)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("dask", marks=pytest.mark.dask),
        pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.deep]),
    ],
)
def test_another_engine_counts_the_same(run: Runs, name: str) -> None:
    made = run()
    made.split("north", engine=name)
    made.split("south")
    made.split("west")
    for holder in made.tables:
        made.add_up(holder)
    policy = joint_policy(made.document, made.work("north"), "out", key=made.key("north"))
    assert policy.source is not None
    joint = pd.read_parquet(policy.source.path).set_index(["region", "age"]).sort_index()
    expected = pd.concat(made.tables.values()).groupby(["region", "age"])
    assert (joint["count"] == expected["person"].nunique()).all()
    assert (joint["cost"] == (expected["cost"].sum() * 100).round().astype(int)).all()


def test_files_of_text_are_counted_as_others(run: Runs) -> None:
    made = run()
    text = made.folder / "records.csv"
    made.tables["north"].to_csv(text, index=False)
    made.participant("north").split(text)
    made.split("south")
    made.split("west")
    for holder in made.tables:
        made.add_up(holder)
    policy = joint_policy(made.document, made.work("north"), "out", key=made.key("north"))
    assert policy.source is not None
    joint = pd.read_parquet(policy.source.path)
    costs = [cost for table in made.tables.values() for cost in table["cost"]]
    assert joint["cost"].sum() == round(sum(costs) * 100)
