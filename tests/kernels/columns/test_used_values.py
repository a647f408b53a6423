"""What cells use of a dictionary, in order of their first cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.compiled import load
from privpipe.kernels.columns import codes as used_values
from privpipe.kernels.columns.codes import in_order_of_appearance


@given(st.lists(st.integers(-1, 6), max_size=40))
def test_cells_keep_their_values_and_nothing_else_is_in_the_dictionary(codes: list[int]) -> None:
    cells = np.array(codes, np.int32)
    load()
    for renumbered in (in_order_of_appearance, used_values._renumbered_plain):
        places, used = renumbered(cells, 7)
        assert [-1 if place < 0 else int(used[place]) for place in places] == codes
        assert used.tolist() == list(dict.fromkeys(code for code in codes if code >= 0))


def test_a_code_beyond_the_dictionary_is_refused() -> None:
    with pytest.raises(IndexError, match="a code of 7 in a dictionary of 7 values"):
        in_order_of_appearance(np.array([0, 7], np.int32), 7)
