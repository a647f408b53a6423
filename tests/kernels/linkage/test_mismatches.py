"""Tables of mismatches are never read outside."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.errors import UsageError
from privpipe.kernels.linkage.distance import LinkedFile, largest_codes, linkage_scores, pair_distances
from privpipe.kernels.linkage.nearest_rows import SearchedRows

TABLE = np.array([[False, True], [True, False], [True, True]])


def file(codes: list[int], table: np.ndarray | None = None) -> LinkedFile:
    return LinkedFile(np.zeros((len(codes), 0)), np.array(codes, dtype=np.int64)[:, None], (table,))


def test_codes_without_a_place_are_refused_by_every_loop_that_reads_the_table() -> None:
    asked, fits, beyond = file([0, 1, 2], TABLE), file([0, 1, 1]), file([0, 1, 2])
    assert pair_distances(asked, fits, squared=False)[:, 0].tolist() == [0.0, 1.0, 1.0]
    for read in (
        lambda: pair_distances(asked, beyond, squared=False),
        lambda: linkage_scores(asked, beyond, np.arange(3), squared=False),
        lambda: SearchedRows(beyond).nearest(asked),
        lambda: pair_distances(file([3], TABLE), fits, squared=False),
    ):
        with pytest.raises(UsageError, match="no place for the codes"):
            read()
    assert pair_distances(asked, file([]), squared=False).shape == (3, 0)


def test_no_rows_have_the_largest_code_before_all_others() -> None:
    assert largest_codes(np.zeros((0, 2), dtype=np.int64)).tolist() == [-1, -1]
    assert largest_codes(np.array([[3, 0], [1, 4]])).tolist() == [3, 4]
