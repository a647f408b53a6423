"""File uniqueness is undefined without a unique record, which blocks unless the policy says otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.blocks import ClassBlock
from privpipe.errors import UsageError
from privpipe.measures import FileUniqueness
from privpipe.testing import judged


def test_the_share_of_uniques_that_are_unique_in_the_population() -> None:
    block = ClassBlock(np.array([1, 1, 1, 2, 0]), population=np.array([1, 3, 2, 2, 1]))
    assert judged(FileUniqueness(at_most=0.34), block).passed
    verdict = judged(FileUniqueness(at_most=0.3), block)
    assert (verdict.outcome, verdict.observed) == ("fail", pytest.approx(1 / 3))


def test_no_uniques_is_an_error_unless_said_to_pass() -> None:
    block = ClassBlock(np.array([2, 3]), population=np.array([2, 9]))
    assert judged(FileUniqueness(at_most=1.0), block).outcome == "error"
    verdict = judged(FileUniqueness(at_most=0.0, if_no_uniques="pass"), block)
    assert (verdict.outcome, verdict.observed) == ("pass", None)
    nothing = block.take(np.array([False, False]))
    assert judged(FileUniqueness(at_most=1.0, if_no_uniques="pass"), nothing).outcome == "error"
    with pytest.raises(UsageError, match="if_no_uniques"):
        FileUniqueness(if_no_uniques="skip")  # type: ignore[arg-type]
