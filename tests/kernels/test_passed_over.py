"""What a run found is passed over by the garbage collector until the run ends, and by no more than that."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pandas as pd
import pytest

import privpipe as pp
from privpipe.compiled import passed_over
from privpipe.errors import UsageError


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    assert not gc.get_freeze_count()


class _Ring:
    def __init__(self) -> None:
        self.itself = self


def test_objects_of_before_wait_for_the_end_and_those_of_the_run_do_not() -> None:
    before = weakref.ref(_Ring())
    with passed_over():
        during = weakref.ref(_Ring())
        gc.collect()
        assert before() is not None
        assert during() is None
    gc.collect()
    assert before() is None


def test_runs_beside_each_other_and_in_each_other_end_with_the_last() -> None:
    first, second = passed_over(), passed_over()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_freeze_count()
    second.__exit__(None, None, None)
    assert not gc.get_freeze_count()


def test_what_the_caller_froze_stays_frozen() -> None:
    gc.freeze()
    with passed_over():
        assert gc.get_freeze_count()
    assert gc.get_freeze_count()
    gc.unfreeze()


def test_a_run_that_fails_leaves_nothing_frozen() -> None:
    with pytest.raises(ValueError, match="mine"), passed_over():
        raise ValueError("mine")
    frame = pd.DataFrame({"zip": ["1", "1", "2", "2"]})
    policy = {"version": 1, "name": "zips", "columns": {"zip": {"role": "quasi_identifier"}}}
    kept = {**policy, "guarantees": [{"k_anonymity": {"k": 2}}]}
    assert pp.assess(frame, kept).passed
    with pytest.raises(UsageError):
        pp.assess(frame, {**policy, "guarantees": [{"distinct_l_diversity": {"column": "none", "l": 2}}]})


def test_numba_is_passed_over_where_it_is_loaded_in_a_run() -> None:
    code = (
        "import gc\n"
        "from privpipe.compiled import load, passed_over\n"
        "load_alone = gc.get_freeze_count()\n"
        "with passed_over():\n"
        "    before = gc.get_freeze_count()\n"
        "    load()\n"
        "    print(load_alone, gc.get_freeze_count() > 2 * before > 0)\n"
        "print(gc.get_freeze_count())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert found.stdout.split() == ["0", "True", "0"]
