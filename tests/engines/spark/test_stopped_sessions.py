"""A frame of a session that was stopped is refused at the door, and no other session is started for it."""

from __future__ import annotations

from typing import Any

import pytest

import privpipe as pp
from privpipe.errors import UsageError

pytestmark = pytest.mark.spark


def test_a_frame_of_a_stopped_session_is_refused(spark_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = spark_engine.session
    frame = spark.createDataFrame([("a",), ("a",)], "zip string")
    with monkeypatch.context() as stopped:
        stopped.setattr(spark.sparkContext, "_jsc", None)  # what `stop()` leaves
        with pytest.raises(UsageError, match="session of the frame was stopped"):
            pp.k_anonymity(frame, ["zip"])
        with pytest.raises(UsageError, match="session of the frame was stopped"):
            pp.transforms.TopCode(columns=["zip"], at=1).apply(frame)
    assert pp.k_anonymity(frame, ["zip"]) == 2
