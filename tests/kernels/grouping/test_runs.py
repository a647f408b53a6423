"""Runs of equal words, against itertools."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.compiled import load
from privpipe.kernels.grouping import word_groups as module


@given(st.lists(st.integers(-3, 3) | st.sampled_from([-0.0, 0.0, 1.5]), max_size=30))
def test_each_run_has_its_start_and_its_length(values: list[float]) -> None:
    load()
    for words in (np.sort(np.array(values, np.float64)), np.sort(np.array(values, np.float64).astype(np.int64))):
        lengths = [len(list(group)) for _, group in itertools.groupby(words.tolist())]
        for found in (module.runs(words), module._runs_plain(words)):
            starts, sizes = found
            assert sizes.tolist() == lengths
            assert starts.tolist() == list(itertools.accumulate(lengths, initial=0))[:-1]
