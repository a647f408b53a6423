"""Local recoding as a policy writes it, and how a record finds its combination."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.errors import DataError, UsageError
from privpipe.transforms import LocalRecoding
from privpipe.transforms.local_recoding.local_recoding_stage import KeyPlaces, as_generalize


def test_parameters() -> None:
    assert LocalRecoding.build({"share": 0.1, "gs_factor": 0.25, "suppress_at_most": 0.05}).share == 0.1
    for name, value in (("share", -0.1), ("gs_factor", 1.5), ("suppress_at_most", -0.1), ("columns", [])):
        with pytest.raises(UsageError, match=name):
            LocalRecoding.build({name: value})
    assert as_generalize(LocalRecoding(columns=["age"])).columns == ("age",)


@pytest.mark.parametrize("size", [3, 1 << 20, 1 << 40])
def test_places_of_keys_of_any_width(size: int) -> None:
    """Ten columns of 2^40 codes take seven words."""
    draw = np.random.default_rng(2)
    rows = np.unique(draw.integers(0, size, (200, 10)), axis=0)
    places = KeyPlaces.of(rows, [size] * 10)
    order = draw.permutation(len(rows))
    assert places(rows[order]).tolist() == order.tolist()
    stranger = rows[:1].copy()
    stranger[0, 9] = (stranger[0, 9] + 1) % size
    if (rows == stranger).all(axis=1).any():
        return
    with pytest.raises(DataError, match="1 records are not among the combinations"):
        places(stranger)


def test_a_rest_that_is_suppressed_is_in_no_plan() -> None:
    """Plans and keys of draws that were made without the parameter stay unchanged."""
    assert "rest" not in LocalRecoding(rest="suppress").parameters()
    assert LocalRecoding(rest="suppress") == LocalRecoding()
    assert LocalRecoding(rest="merge").parameters()["rest"] == "merge"
    with pytest.raises(UsageError, match="rest"):
        LocalRecoding.build({"rest": "keep"})
