"""Facts: what is learnt of a whole table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from privpipe.blocks import Facts, FactsRequest, Histogram, Moments


def test_requests_join_without_repetition() -> None:
    joined = FactsRequest(histograms=("a",), moments=("x",)) | FactsRequest(
        histograms=("b", "a"), nulls=("c",), products=True
    )
    assert joined == FactsRequest(histograms=("a", "b"), moments=("x",), nulls=("c",), products=True)
    assert joined
    assert not FactsRequest()


def test_a_histogram_counts_its_nulls() -> None:
    histogram = Histogram(pa.array(["a", "b", None]), np.array([2, 1, 5]))
    assert (len(histogram), histogram.total, histogram.nulls) == (3, 8, 5)
    assert histogram.shares.tolist() == [0.25, 0.125, 0.625]
    assert Histogram(pa.array(["a"]), np.array([2])).nulls == 0
    assert Histogram(pa.array([], pa.string()), np.array([], dtype=np.int64)).nulls == 0


def test_a_histogram_shows_no_value() -> None:
    assert "secret" not in repr(Histogram(pa.array(["secret"]), np.array([1])))


def test_base_and_deviation_by_column() -> None:
    facts = Facts(
        records=4,
        histograms={"illness": Histogram(pa.array(["a", "b"]), np.array([1, 3]))},
        moments={"x": Moments(4, 0, 1.0, 2.5), "y": Moments(1, 3, 1.0, float("nan"))},
    )
    assert facts.base("illness").tolist() == [0.25, 0.75]
    assert (facts.sd("x"), facts.sd("y")) == (2.5, 0.0)
