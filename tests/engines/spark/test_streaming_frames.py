"""A streaming frame is not a table: it is refused with what to do in its place."""

from __future__ import annotations

from typing import Any

import pytest

import privpipe as pp
from privpipe.errors import UnsupportedError
from privpipe.models import KAnonymity
from privpipe.transforms import TopCode

pytestmark = pytest.mark.spark


def test_a_streaming_frame_is_refused_with_the_remedy(spark_engine: Any) -> None:
    stream = spark_engine.session.readStream.format("rate").load()
    with pytest.raises(UnsupportedError, match="foreachBatch"):
        pp.check(stream, KAnonymity(k=5), quasi_identifiers=["value"])
    with pytest.raises(UnsupportedError, match="foreachBatch"):
        TopCode(columns=["value"], at=3).apply(stream)
