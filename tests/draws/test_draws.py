"""Draws belong to the record: fixed values, sane distributions, the same under any partitioning."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtri

from privpipe.draws import Draws, RunKey, Seed, Stream
from privpipe.draws.elementary import natural_log, normal_quantile, unit_interval
from privpipe.errors import UsageError

STREAM = Stream(Seed.insecure(42).key("0/add_noise/income"))
WORDS = [3654610747227798944, 16546884719768635655, 12764976993056393962]
ORDERS = [1309574712702534820, 6212626102535601839, 8560719299069793169]
COUNTERS = [9269641649578446171, 1884589491947960917]
CHILD = "afad31eac53dcd7cb201acc94b7031b1"


def some_ids(count: int, start: int = 0) -> NDArray[np.int64]:
    numbers = np.arange(start, start + count, dtype=np.int64)
    return np.column_stack([numbers * 7919 - 10**12, -numbers])


def test_the_key_is_derived_as_published() -> None:
    message = b'["privpipe/stage/3",3,"rank_swap","income","parameters and figures"]'
    key = hmac.new(b"42", message, hashlib.sha256).digest()
    draws = Draws(Seed.insecure(42), stage=3, transformer="rank_swap", bound="parameters and figures")
    assert draws.of("income").key == key[:16]
    assert draws.key_id("income") == hmac.new(key, b"privpipe/key id/2", hashlib.sha256).hexdigest()[:32]


def test_the_run_key_is_derived_as_published() -> None:
    key = hmac.new(b"42", b'["privpipe/run/2","policy","source"]', hashlib.sha256).digest()
    run = RunKey.of(Seed.insecure(42), "policy", "source")
    assert run.rows("plan").key == hmac.new(key, b"rows/plan", hashlib.sha256).digest()[:16]
    assert run.attacks().key == hmac.new(key, b"attacks", hashlib.sha256).digest()[:16]


def test_values_do_not_change_between_versions() -> None:
    ids = np.array([[1, 2], [-3, 4], [2**63 - 1, -(2**63)]])
    assert STREAM.words(ids).tolist() == WORDS
    assert STREAM.order(ids).tolist() == ORDERS
    assert STREAM.counter(5, 2).tolist() == COUNTERS
    assert STREAM.integers(ids, 1000).tolist() == [(word * 1000) >> 64 for word in WORDS]
    assert STREAM.uniform(ids).tolist() == [((word >> 11) + 0.5) * 2.0**-53 for word in WORDS]
    assert STREAM.child("01").key.hex() == CHILD


def test_an_order_word_is_the_word_labelled_order() -> None:
    ids = some_ids(5)
    label = int.from_bytes(b"order", "little")
    assert (STREAM.order(ids) == STREAM.words(ids, label).view(np.int64)).all()


@given(st.integers(1, 60), st.integers(1, 9), st.randoms(use_true_random=False))
def test_partitions_and_row_order_change_nothing(count: int, parts: int, shuffler: object) -> None:
    ids = some_ids(count)
    shuffled = np.random.default_rng(shuffler.getrandbits(32)).permutation(count)  # type: ignore[attr-defined]
    draws = (
        STREAM.words,
        STREAM.uniform,
        STREAM.normal,
        STREAM.order,
        lambda ids: STREAM.integers(ids, 17),
        lambda ids: STREAM.categorical(ids, [0.2, 0.5, 1.0]),
    )
    for draw in draws:
        whole = draw(ids)
        assert (draw(ids[shuffled]) == whole[shuffled]).all()
        assert (np.concatenate([draw(part) for part in np.array_split(ids, parts)]) == whole).all()


def test_arrange_is_the_same_for_shuffled_rows_and_breaks_equal_words_by_id() -> None:
    ids = some_ids(500)
    shuffled = ids[np.random.default_rng(0).permutation(500)]
    assert (ids[STREAM.arrange(ids)] == shuffled[STREAM.arrange(shuffled)]).all()
    assert sorted(STREAM.arrange(ids).tolist()) == list(range(500))


def test_distributions_are_what_they_are_called() -> None:
    ids = some_ids(200_000)
    u = STREAM.uniform(ids)
    assert 0 < u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1
    counts = np.bincount((u * 64).astype(int), minlength=64)
    assert ((counts - 3125) ** 2 / 3125).sum() < 63 + 6 * math.sqrt(126)
    z = STREAM.normal(ids)
    assert abs(z.mean()) < 5 / math.sqrt(len(z))
    assert abs(z.var() - 1) < 5 * math.sqrt(2 / len(z))
    shares = np.bincount(STREAM.categorical(ids, [0.1, 0.1, 0.7, 1.0]), minlength=4) / len(ids)
    assert shares == pytest.approx([0.1, 0.0, 0.6, 0.3], abs=0.006)
    assert np.bincount(STREAM.integers(ids, 3)) / len(ids) == pytest.approx([1 / 3] * 3, abs=0.006)


def test_words_columns_stages_and_seeds_are_independent() -> None:
    ids = some_ids(50_000)
    u = STREAM.uniform(ids)
    others = [
        STREAM.uniform(ids, word=1),
        STREAM.child("0").uniform(ids),
        Draws(Seed.insecure(42), stage=0, transformer="add_noise").of("age").uniform(ids),
        Draws(Seed.insecure(42), stage=1, transformer="add_noise").of("income").uniform(ids),
        Draws(Seed.insecure(43), stage=0, transformer="add_noise").of("income").uniform(ids),
    ]
    for other in others:
        assert abs(np.corrcoef(u, other)[0, 1]) < 5 / math.sqrt(len(u))


def test_a_counter_is_keyed_by_the_number() -> None:
    whole = STREAM.counter(0, 1000)
    assert (STREAM.counter(400, 100) == whole[400:500]).all()
    assert (STREAM.counter(0, 1000, word=1) != whole).all()
    assert len(STREAM.counter(0, 0)) == 0


def test_no_ids_no_draws() -> None:
    none = np.empty((0, 2), np.int64)
    assert len(STREAM.normal(none)) == len(STREAM.order(none)) == len(STREAM.arrange(none)) == 0


def test_the_ends_of_the_unit_interval_stay_outside() -> None:
    assert unit_interval(np.uint64(0)) == 2.0**-54
    assert unit_interval(np.uint64(2**64 - 1)) == 1 - 2.0**-53


def test_the_normal_quantile_and_the_logarithm_are_accurate() -> None:
    u = np.concatenate([10.0 ** -np.arange(1.0, 17), np.linspace(0.001, 0.999, 999), [1 - 2.0**-53]])
    ours = np.array([normal_quantile(value) for value in u])
    assert ours == pytest.approx(ndtri(u), rel=1e-13, abs=1e-15)
    x = np.concatenate([np.geomspace(1e-300, 1e300, 997), np.linspace(0.7, 1.5, 1001)])
    logs = np.array([natural_log(value) for value in x])
    exact = np.log(x)
    assert (np.abs(logs - exact) <= np.spacing(np.abs(exact))).all()
    assert natural_log(1.0) == 0.0


def test_secrets_stay_out_of_sight() -> None:
    seed = Seed.insecure("correct horse battery staple")
    draws = Draws(seed, stage=0, transformer="rank_swap")
    shown = f"{seed!r} {seed} {draws!r} {draws.of('a')!r} {[draws]}"
    assert "horse" not in shown
    assert draws.of("a").key.hex() not in shown
    assert str(draws.of("a").key) not in shown
    assert "horse" not in seed.commitment("run")


def test_streams_and_draws_travel_to_workers() -> None:
    draws = Draws(Seed.insecure(42), stage=0, transformer="add_noise")
    assert pickle.loads(pickle.dumps(draws)) == draws
    assert pickle.loads(pickle.dumps(draws.of("income"))) == draws.of("income")


def test_a_seed_is_its_text() -> None:
    assert Seed.insecure(7) == Seed.insecure("7") == Seed.insecure(b"7")
    assert Seed.insecure("7") != Seed.insecure("07")
    assert Seed.from_os() != Seed.from_os()
    assert Seed.insecure("7").commitment("run") != Seed.insecure("8").commitment("run")
    assert Seed.insecure("7").commitment("run") != Seed.insecure("7").commitment("other run")


@pytest.mark.parametrize("wrong", ["", b"", True, None, 1.5])
def test_what_is_no_seed_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError):
        Seed.insecure(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "weak", [7, "20261122", "a seed for tests", "s" * 64, "5f" * 32, "9876543210" * 9, b"\x00" * 64]
)
def test_what_is_easily_guessed_is_refused(weak: str | int | bytes) -> None:
    with pytest.raises(UsageError, match=r"privpipe seed"):
        Seed.of(weak)


@given(st.integers(0, 2**64).map(lambda seed: random.Random(seed).randbytes(16)))
def test_128_drawn_bits_are_taken_however_they_are_written(drawn: bytes) -> None:
    for text in (drawn, drawn.hex(), base64.b64encode(drawn).decode(), base64.urlsafe_b64encode(drawn).decode()[:22]):
        if len(set(text)) > 8:
            assert Seed.of(text).secret == (text if isinstance(text, bytes) else text.encode())


def test_wrong_arguments_are_refused() -> None:
    ids = some_ids(3)
    for call in (
        lambda: STREAM.integers(ids, 0),
        lambda: STREAM.integers(ids, 2**63 + 1),
        lambda: STREAM.categorical(ids, []),
        lambda: STREAM.categorical(ids, [0.5, 0.2]),
        lambda: STREAM.words(ids[:, 0]),
        lambda: STREAM.counter(-1, 2),
        lambda: Stream(b"short"),
    ):
        with pytest.raises(UsageError):
            call()


def test_importing_the_package_loads_no_compiler() -> None:
    code = "import sys, privpipe.draws; print(any(name in sys.modules for name in ('numba', 'scipy')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
