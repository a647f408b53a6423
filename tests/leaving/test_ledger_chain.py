"""Nothing of a ledger is lost, changed or exchanged without notice, and no kill leaves one that is refused."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.draws import Seed
from privpipe.errors import DataError, PrivpipeError, Refused, SinkError, UsageError
from privpipe.ledger import Ledger
from privpipe.ledger.entry import table_of_rows
from privpipe.ledger.folder import canonical
from privpipe.ledger.repair import entry_rows, examined, repair
from privpipe.sinks.target import LocalTarget

KEY = {"from_env": "PRIVPIPE_LEDGER_KEY"}
KEPT, RACE, ZIP = {"race": 1, "zip": 1}, {"race": 1, "zip": 0}, {"race": 0, "zip": 1}
Document = Callable[..., dict[str, Any]]


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Document:
    """Twelve persons (race x zip) and a policy that releases them at some levels, remembered in one ledger."""
    monkeypatch.setenv("PRIVPIPE_LEDGER_KEY", "k" * 40)
    people = list(product(["Asian", "Black", "White"], ["02138", "02139", "02141", "02142"]))

    def make(levels: dict[str, int] = KEPT, sink: str = "one", *, key: bool = True, **changed: Any) -> dict[str, Any]:
        table = pa.table(
            {
                "name": changed.pop("names", [f"Quokka {at}" for at in range(12)]),
                "race": [race for race, _ in people],
                "zip": [code for _, code in people],
            }
        )
        pq.write_table(table, tmp_path / "people.parquet")
        named = {"key": KEY} if key else {}
        entry = {"ledger": str(tmp_path / "ledger"), **named, "k": 2, **changed}
        return {
            "source": {"path": str(tmp_path / "people.parquet")},
            "columns": {
                "name": {"role": "identifier"},
                "race": {"role": "quasi_identifier", "hierarchy": {"tree": {"Person": ["Asian", "Black", "White"]}}},
                "zip": {
                    "role": "quasi_identifier",
                    "hierarchy": {"tree": {"02130": ["02138", "02139"], "02140": ["02141", "02142"]}},
                },
            },
            "record_id": "name",
            "transform": [{"generalize": {"levels": levels}}],
            "guarantees": [{"k_anonymity": {"k": 2}}, {"complementary_release": entry}],
            "sink": {"path": str(tmp_path / "published" / sink)},
            "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
        }

    return make


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/[0-9]*-*.entry"))


def place(tmp_path: Path, sink: str = "one") -> LocalTarget:
    return LocalTarget(tmp_path / "published" / sink)


def begin_another(document: Document, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "ledger")
    pp.release(document(sink="elsewhere"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 0x20
    path.write_bytes(bytes(data))


def append(path: Path, more: bytes) -> None:
    path.write_bytes(path.read_bytes() + more)


def swap_names(folder: Path) -> None:
    first, second, _ = entries(folder)
    names = first.name, second.name
    second.rename(folder / "aside")
    first.rename(first.with_name(names[1]))
    (folder / "aside").rename(first.with_name(names[0]))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": shutil.rmtree,
    "emptied": lambda folder: [shutil.rmtree(folder), folder.mkdir()],
    "last entry gone": lambda folder: entries(folder)[-1].unlink(),
    "entry in the middle gone": lambda folder: entries(folder)[1].unlink(),
    "all entries gone": lambda folder: shutil.rmtree(entries(folder)[0].parent),
    "head gone": lambda folder: (folder / "ledger.json").unlink(),
    "entry changed": lambda folder: flip(entries(folder)[1], 200),
    "last byte of an entry": lambda folder: flip(entries(folder)[2], -1),
    "entry cut short": lambda folder: entries(folder)[2].write_bytes(entries(folder)[2].read_bytes()[:-9]),
    "entry emptied": lambda folder: entries(folder)[0].write_bytes(b""),
    "head changed": lambda folder: flip(folder / "ledger.json", 30),
    "head emptied": lambda folder: (folder / "ledger.json").write_text("{}"),
    "head with a space more": lambda folder: append(folder / "ledger.json", b" "),
    "names exchanged": swap_names,
    "entry twice": lambda folder: shutil.copy(entries(folder)[0], entries(folder)[0].with_name("00004-again.entry")),
}


@pytest.mark.parametrize("key", [True, False], ids=["persons", "combinations"])
def test_a_damaged_ledger_is_refused_and_says_what_to_do(document: Document, tmp_path: Path, key: bool) -> None:
    ledger, good = tmp_path / "ledger", tmp_path / "good"
    for _ in range(3):
        pp.release(document(key=key))
    published = os.readlink(tmp_path / "published" / "one")
    shutil.copytree(ledger, good)
    for name, damage in DAMAGE.items():
        damage(ledger)
        for _ in range(2):  # and goes on being refused
            with pytest.raises(DataError, match="privpipe ledger"):
                Ledger(ledger, KEY if key else None, (), place(tmp_path)).__enter__()
        if name in ("missing", "last entry gone"):
            with pytest.raises(DataError, match="privpipe ledger"):
                pp.release(document(key=key))
        shutil.rmtree(ledger, ignore_errors=True)
        shutil.copytree(good, ledger)
    assert os.readlink(tmp_path / "published" / "one") == published
    pp.release(document(key=key))


def test_an_exchanged_or_older_ledger_is_refused(document: Document, tmp_path: Path) -> None:
    ledger, old = tmp_path / "ledger", tmp_path / "old"
    pp.release(document())
    shutil.copytree(ledger, old)
    pp.release(document(sink="two"))
    shutil.rmtree(ledger)
    old.rename(ledger)
    with pytest.raises(DataError, match="older than its sink"):
        pp.release(document(sink="two"))
    # The first sink knows of one entry only: a sink that has not seen the second cannot miss it, unless it is named.
    assert examined(ledger, KEY).problems == ()
    pp.release(document(sink="three"))  # another second entry
    with pytest.raises(DataError, match="history is not the one its sink knew"):
        pp.release(document(sink="two"))
    begin_another(document, tmp_path)
    with pytest.raises(DataError, match="another ledger"):
        pp.release(document())


def test_every_sink_of_a_ledger_is_a_witness(document: Document, tmp_path: Path) -> None:
    ledger, old = tmp_path / "ledger", tmp_path / "old"
    pp.release(document(sink="one"))
    pp.release(document(sink="two"))
    shutil.copytree(ledger, old)
    pp.release(document(sink="two"))
    shutil.rmtree(ledger)
    old.rename(ledger)
    with pytest.raises(DataError, match="by another sink"):
        pp.release(document(sink="one"))
    with pytest.raises(DataError, match="two: it is older than its sink.*backup"):
        repair(ledger, KEY)


def test_what_others_could_change_is_refused(document: Document, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    pp.release(document())
    assert {oct(path.stat().st_mode)[-3:] for path in (ledger, *ledger.rglob("*"))} == {"700", "600"}
    assert oct((place(tmp_path).state / "ledger.json").stat().st_mode)[-3:] == "600"
    (entry,) = entries(ledger)
    entry.rename(tmp_path / "aside")
    entry.symlink_to(tmp_path / "aside")
    with pytest.raises(DataError, match="is a link or no plain file"):
        pp.release(document())
    entry.unlink()
    (tmp_path / "aside").rename(entry)
    ledger.rename(tmp_path / "elsewhere")
    ledger.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="is a link"):
        pp.release(document())
    ledger.unlink()
    (tmp_path / "elsewhere").rename(ledger)
    ledger.chmod(0o755)
    pp.release(document())
    assert oct(ledger.stat().st_mode)[-3:] == "700"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_ledger_of_another_user_is_refused(document: Document, tmp_path: Path) -> None:
    pp.release(document())
    os.chown(entries(tmp_path / "ledger")[0], 12345, -1)
    with pytest.raises(DataError, match="belongs to another user"):
        pp.release(document())


def test_a_folder_of_something_else_is_left_alone(document: Document, tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir(mode=0o755)
    (tmp_path / "ledger" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="holds something else"):
        pp.release(document())
    assert oct((tmp_path / "ledger").stat().st_mode)[-3:] == "755"
    assert [path.name for path in (tmp_path / "ledger").iterdir()] == ["thesis.txt"]


def test_a_changed_record_of_the_sink_is_refused_and_mended(document: Document, tmp_path: Path) -> None:
    record = place(tmp_path).state / "ledger.json"
    pp.release(document())
    good = record.read_bytes()
    for at in range(0, len(good), 37):
        flip(record, at)
        with pytest.raises(DataError, match="record of its ledger"):
            pp.release(document())
        record.write_bytes(good)
    told = json.loads(good)
    told["reached"]["number"] = 0  # as someone would who wants an older ledger taken, with the checksum made again
    del told["checksum"]
    told["checksum"] = hashlib.sha256(canonical(told)).hexdigest()
    record.write_bytes(canonical(told))
    with pytest.raises(DataError, match="its seal is broken"):
        pp.release(document())
    record.write_bytes(b"garbage")
    assert "made again from the ledger" in repair(tmp_path / "ledger", KEY, place=("one", place(tmp_path)))[0]
    pp.release(document())


@pytest.mark.deep
def test_no_kill_leaves_a_ledger_that_is_refused(tmp_path: Path) -> None:
    """Every call that touches a file is a place to be killed at, in publishing and in withdrawing."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", KILLED, str(tmp_path)], capture_output=True, timeout=500, check=False
    )
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    kills = json.loads(run.stdout)
    assert kills["publish"] > 20
    assert kills["withdraw"] > 25
    assert kills["unpublished"] > 0
    assert kills["published"] > 0


KILLED = r"""
import json, os, shutil, signal, sys
from pathlib import Path
import numpy as np
import pyarrow, pyarrow.parquet
from privpipe.blocks.release_history import ReleaseRows
from privpipe.ledger import Ledger
from privpipe.sinks.target import LocalTarget

base = Path(sys.argv[1])
words = lambda *codes: np.array([[code, code] for code in codes], dtype=np.int64)
rows = ReleaseRows(words(1, 2), words(7, 7), np.ones(2, dtype=np.int64))
EVENTS = {"open", "os.rename", "os.remove", "os.symlink", "os.mkdir", "os.rmdir", "os.chmod", "shutil.rmtree"}
os.fsync = lambda handle: None  # a killed process loses nothing that it wrote, and this is about the order of steps

def release(home, run_id, withdraw):  # the steps of a run that concern sink and ledger
    with LocalTarget(home / "published") as place, Ledger(home / "ledger", None, (), place) as ledger:
        (place.stage(run_id) / "part").write_text("rows")
        ledger.prepare(rows, run_id, str(place.path), place.current())
        try:
            place.publish(run_id)
        except BaseException:
            ledger.settle()
            raise
        if withdraw:
            place.withdraw(run_id)
        ledger.settle()

def forked(work):
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]

def killed_at(step, home, withdraw):
    def work():
        left = [step]
        def hook(event, args):
            changes = event != "open" or (args[2] or 0) & (os.O_WRONLY | os.O_RDWR)
            if event in EVENTS and changes and str(home) in str(args[0]):
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
        sys.addaudithook(hook)
        release(home, "killed", withdraw)
    return os.WIFSIGNALED(forked(work))

def after(home, first):
    def work():
        place = LocalTarget(home / "published")
        now = place.current()
        with place, Ledger(home / "ledger", None, (), place) as ledger:
            known = [entry.run_id for entry in ledger._chain.entries]
            seen = [] if now is None else [now.rsplit("/", 1)[-1]]
            assert set(seen) <= set(known), (seen, known)
            assert known == (["first"] if first else []) + (["killed"] if seen == ["killed"] else []), (seen, known)
        release(home, "next", False)
        with place, Ledger(home / "ledger", None, (), place) as ledger:
            assert [entry.run_id for entry in ledger._chain.entries] == [*known, "next"]
            assert ledger._record.reached.number == len(known) + 1
        (home / seen[0] if seen else home / "nothing").with_suffix(".seen").touch()
    status = forked(work)
    if status:
        sys.exit(f"killed and not accepted: {status}")

(base / "warm").mkdir()
release(base / "warm", "up", True)  # what is imported late, once for every fork
found = {"unpublished": 0, "published": 0}
for kind, first in (("publish", False), ("publish", True), ("withdraw", True)):
    step = 0
    while True:
        home = base / f"{kind}-{first}-{step}"
        home.mkdir()
        if first:
            assert not forked(lambda: release(home, "first", False))
        if not killed_at(step, home, kind == "withdraw"):
            break
        after(home, first)
        found["published" if (home / "killed.seen").exists() else "unpublished"] += 1
        shutil.rmtree(home)
        step += 1
    found[kind] = found.get(kind, 0) + step
print(json.dumps(found))
"""


def test_a_policy_without_a_ledger_says_that_it_is_not_remembered(document: Document, tmp_path: Path) -> None:
    pp.release(document())
    policy = document()
    del policy["guarantees"][1]
    notes = pp.release(policy).assessment.notes
    assert any("this release is not" in note for note in notes)
    pp.release(document())  # and goes on


def test_a_table_is_judged_next_to_a_ledger_without_beginning_one(document: Document, tmp_path: Path) -> None:
    policy = document()
    policy["columns"]["name"]["role"] = "insensitive"
    table = pq.read_table(tmp_path / "people.parquet")
    pp.assess(table, policy, original=table)
    assert not (tmp_path / "ledger").exists()
    pp.release(document())
    before = {path: path.read_bytes() for path in (tmp_path / "ledger").rglob("*") if path.is_file()}
    assert not pp.assess(table, policy, original=table).passed
    assert before == {path: path.read_bytes() for path in (tmp_path / "ledger").rglob("*") if path.is_file()}
    shutil.rmtree(tmp_path / "ledger")
    with pytest.raises(DataError, match="missing"):
        pp.assess(table, policy, original=table)


def first_version(ledger: Path, key: bytes = b"k" * 40) -> None:
    """Write a ledger back as version 1 wrote it."""
    with Ledger(ledger, KEY if key else None) as opened:
        kept, head = opened.releases(), opened._chain.head
        runs = [(entry.run_id, entry.target) for entry in opened._chain.entries]
    shutil.rmtree(ledger)
    ledger.mkdir(mode=0o700)
    secret = Seed(key + bytes.fromhex(head.salt))
    commitment = "hmac-sha256:" + hmac.new(secret.secret, b"privpipe/commitment/1", hashlib.sha256).hexdigest()
    told = {"version": 1, "salt": head.salt, "persons": bool(key), "commitment": commitment}
    (ledger / "ledger.json").write_text(json.dumps(told, sort_keys=True))
    for number, (rows, (run_id, target)) in enumerate(zip(kept, runs, strict=True), 1):
        header = json.dumps({"run_id": run_id, "target": target, "before": None}, sort_keys=True)
        pq.write_table(
            table_of_rows(rows).replace_schema_metadata({"privpipe": header}),
            ledger / f"{number:05}-{run_id}.parquet",
        )


def test_a_first_version_is_sealed_when_asked_and_refused_until_then(document: Document, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    pp.release(document(RACE))
    pp.release(document(KEPT))
    first_version(ledger)
    (place(tmp_path).state / "ledger.json").unlink()
    (ledger / "pending-torn.parquet").write_bytes(b"PAR1")
    for _ in range(2):
        with pytest.raises(DataError, match="seal it with `privpipe ledger repair`"):
            pp.release(document())
    assert "2 entries of version 1 were sealed" in repair(ledger, KEY)[0]
    assert examined(ledger, KEY).problems == ()
    with pytest.raises(Refused):  # and what it remembered still refuses
        pp.release(document(ZIP))
    pp.release(document(KEPT))
    assert len(entries(ledger)) == 3
    assert len(list((ledger / "version-1").iterdir())) == 3


def test_a_lost_head_is_made_again_where_a_sink_agrees(document: Document, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    pp.release(document(RACE))
    pp.release(document(KEPT))
    for harm in (lambda: (ledger / "ledger.json").unlink(), lambda: flip(ledger / "ledger.json", 50)):
        harm()
        with pytest.raises(DataError):
            pp.release(document())
        assert repair(ledger, KEY, place=("one", place(tmp_path)))[0] == "ledger.json was made again from 2 entries"
        assert examined(ledger, KEY).problems == ()
    (ledger / "ledger.json").unlink()
    entries(ledger)[-1].unlink()
    with pytest.raises(DataError, match="cannot be mended"):
        repair(ledger, KEY)
    assert "1 entries" in repair(ledger, KEY, accept_loss=True)[-1]
    with pytest.raises(Refused):  # what is left still counts
        pp.release(document(ZIP))


@pytest.mark.parametrize(
    "damage", ["missing", "emptied", "last entry gone", "entry in the middle gone", "entry changed"]
)
def test_a_declared_loss_is_noted_for_good(document: Document, tmp_path: Path, damage: str) -> None:
    ledger = tmp_path / "ledger"
    for sink in ("one", "two", "one"):
        pp.release(document(RACE, sink))
    DAMAGE[damage](ledger)
    with pytest.raises(DataError, match="cannot be mended.*--accept-loss"):
        repair(ledger, KEY, place=("one", place(tmp_path)))
    repair(ledger, KEY, place=("one", place(tmp_path)), accept_loss=True)
    gone = damage in ("missing", "emptied")
    with pytest.raises(UsageError, match="nothing is lost"):
        repair(ledger, KEY, place=("one", place(tmp_path)), accept_loss=True)
    if not gone:
        with pytest.raises(Refused):
            pp.release(document(ZIP))
    for _ in range(2):
        notes = pp.release(document(KEPT)).assessment.notes
        assert any("lost history" in note for note in notes)
    if not gone:
        pp.release(document(KEPT, "two"))  # the other sink knew the old one, whose loss is declared


def test_a_pending_entry_that_is_torn_is_dropped_by_repair_alone(document: Document, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    pp.release(document())
    (entries(ledger)[0].parent / "pending-x.entry").write_bytes(b"torn")
    with pytest.raises(DataError, match="pending-x"):
        pp.release(document())
    assert repair(ledger, KEY, place=("one", place(tmp_path))) == ["1 torn pending entries were dropped"]
    pp.release(document())


def test_keys_of_persons_are_compared_after_the_declared_steps(document: Document, tmp_path: Path) -> None:
    steps = ["casefold", "trim", "nfc"]
    names = [f"Ana\u0308 {at}" for at in range(12)]
    pp.release(document(RACE, normalise=steps, names=names))
    other = [f" AN\u00c4 {at}" if at % 2 else f"an\u00e4 {at}" for at in range(12)]
    with pytest.raises(Refused) as refused:
        pp.release(document(ZIP, normalise=steps[::-1], names=other))
    assert refused.value.assessment.verdicts[1].observed["k"] == 1
    assert refused.value.assessment.source_notes == ()
    with pytest.raises(UsageError, match="begun with normalise"):
        pp.release(document(RACE, names=names))


def test_a_release_of_strangers_is_noted_and_one_without_keys_refused(document: Document) -> None:
    first = pp.release(document(RACE)).assessment
    assert first.source_notes == ()
    strangers = pp.release(document(ZIP, names=[f"bilby {at}" for at in range(12)])).assessment
    assert any("0 of 12 persons are known to the ledger" in note for note in strangers.source_notes)
    again = pp.release(document(KEPT)).assessment
    assert again.source_notes == ()
    for name in (None, ""):
        policy = document(KEPT, names=[name, *(f"Quokka {at}" for at in range(1, 12))])
        policy["person_id"] = policy.pop("record_id")
        with pytest.raises(DataError, match="1 released records have no 'name'|missing"):
            pp.release(policy)


def test_persons_are_recognised_in_another_spelling(document: Document) -> None:
    """Case, spaces and Unicode form are spelling, as long as no two persons of a release become one by it."""
    pp.release(document(RACE, names=[f"Ana\u0308 \ufb01 {at}" for at in range(12)]))
    other = [f" AN\u00c4 FI {at}" if at % 2 else f"an\u00e4 fi {at}" for at in range(12)]
    with pytest.raises(Refused) as refused:
        pp.release(document(ZIP, names=other))
    assert refused.value.assessment.verdicts[1].observed["k"] == 1
    assert refused.value.assessment.source_notes == ()


def test_persons_whom_spelling_alone_distinguishes_stay_two(document: Document) -> None:
    names = [f"{'Ann' if at % 2 else 'ann'} {at // 2}" for at in range(12)]
    pp.release(document(RACE, names=names))
    others = [f"ANN {at}" if at < 6 else f"numbat {at}" for at in range(12)]
    one = pp.release(document(KEPT, names=others))
    assert any("0 of 12 persons are known" in note for note in one.assessment.source_notes)
    assert pp.release(document(KEPT, names=names)).assessment.source_notes == ()


@pytest.mark.parametrize("seed", range(6))
def test_no_damage_to_any_byte_crashes_or_passes(document: Document, tmp_path: Path, seed: int) -> None:
    """A small share of the mutants of a longer run: flipped, cut, doubled and foreign bytes."""
    ledger, good = tmp_path / "ledger", tmp_path / "good"
    pp.release(document(RACE))
    pp.release(document(KEPT))
    shutil.copytree(ledger, good)
    draw = random.Random(seed)
    sink = place(tmp_path)
    for _ in range(40):
        mutate(ledger, draw)
        for look in (
            lambda: examined(ledger, KEY),
            lambda: entry_rows(ledger, KEY, proved=True),
            lambda: Ledger(ledger, KEY, (), sink).__enter__().__exit__(),
        ):
            assert look_at(look)
        with contextlib.suppress(DataError):  # nothing is proved there: what reads is shown, and said to be unproved
            entry_rows(ledger, None, proved=False)
        shutil.rmtree(ledger)
        shutil.copytree(good, ledger)


def look_at(look: Callable[[], Any]) -> bool:
    """Whether the damage was noticed."""
    try:
        found = look()
    except PrivpipeError as error:
        return error.exit_code in (2, 3)
    if found is None:  # it was opened
        return False
    return bool(found[0].problems if isinstance(found, tuple) else found.problems)


def mutate(ledger: Path, draw: random.Random) -> None:
    files = [ledger / "ledger.json", *entries(ledger)]
    path = draw.choice(files)
    data = bytearray(path.read_bytes())
    at = draw.randrange(len(data))
    kind = draw.randrange(5)
    if kind == 0:
        data[at] ^= 1 << draw.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at:at] = draw.randbytes(draw.randrange(1, 30))
    elif kind == 3:
        data = bytearray(draw.choice([b"", b"[" * 100_000, b"{}", b"null", b'{"version":1}', draw.randbytes(200)]))
    else:
        del data[at : at + draw.randrange(1, 60)]
    path.write_bytes(bytes(data))


def test_two_runs_at_once_do_not_meet(document: Document, tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger", None), pytest.raises(SinkError, match="another run is using the ledger"):
        document()
        Ledger(tmp_path / "ledger", None).__enter__()
    with Ledger(tmp_path / "ledger", None), pytest.raises(SinkError, match="another run"):
        examined(tmp_path / "ledger", None)


def test_combinations_of_other_columns_are_refused(document: Document, tmp_path: Path) -> None:
    """They are no one whom the ledger remembers, so that whatever they split would pass."""
    pp.release(document(RACE, key=False))
    narrow = document(ZIP, key=False, quasi_identifiers=["zip"])
    with pytest.raises(UsageError, match="follows combinations of 'race', 'zip'"):
        pp.release(narrow)
    pp.release(document(KEPT, key=False))


def test_a_ledger_over_no_quasi_identifier_remembers_one_class(document: Document) -> None:
    policy = document(KEPT, quasi_identifiers=[])
    for _ in range(2):
        assert pp.release(policy).assessment.verdicts[1].observed["k"] == 12
