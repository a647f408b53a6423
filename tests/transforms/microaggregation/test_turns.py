"""Threads take turns, and run side by side out of turn."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from privpipe.transforms.microaggregation import record_groups
from privpipe.transforms.microaggregation.record_groups import in_turn, out_of_turn


def test_one_thread_at_a_time_is_in_turn() -> None:
    inside, most = [], []

    def work(number: int) -> None:
        with in_turn():
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(400)))
    assert set(most) == {1}


def test_two_threads_meet_out_of_turn() -> None:
    both = threading.Barrier(2, timeout=60)

    def work(_: int) -> int:
        with in_turn(), out_of_turn():
            return both.wait()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(work, range(2))) == [0, 1]


def test_an_error_ends_the_turn() -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="inside"), in_turn(), out_of_turn():
            raise ValueError("inside")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_has_turns_of_its_own() -> None:
    with in_turn():
        child = os.fork()
        if child == 0:
            os._exit(0 if record_groups._turn.acquire(timeout=30) else 1)
        assert os.waitpid(child, 0)[1] == 0
