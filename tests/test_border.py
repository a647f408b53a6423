"""What leaves a public function when something foreign fails in it."""

from __future__ import annotations

import logging
import pickle
import traceback
from typing import Any, NoReturn

import pandas as pd
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.border import Cause, bordered
from privpipe.errors import DataError, EngineError, InternalError, PrivpipeError

CANARY = "771904"


def raising(error: BaseException) -> Any:
    @bordered
    def public() -> NoReturn:
        raise error

    return public


def left(error: BaseException) -> BaseException:
    with pytest.raises(type(error) if not isinstance(error, Exception) else Exception) as found:
        raising(error)()
    return found.value


def chain_of(error: BaseException) -> str:
    shown = "".join(traceback.format_exception(error))
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and each not in seen:
            seen.append(each)
            shown += f"{each!r}{each}{each.args!r}{vars(each)!r}{getattr(each, '__notes__', '')}"
            waiting += [each.__cause__, each.__context__]
    return shown


def nested(outer: BaseException, *, hidden: bool) -> BaseException:
    """An exception that was raised while others were handled."""
    try:
        try:
            try:
                raise KeyError(CANARY)
            except KeyError as first:
                first.add_note(CANARY)
                raise UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, CANARY) from first
        except UnicodeDecodeError as second:
            outer.add_note(CANARY)
            raise outer from (None if hidden else second)
    except BaseException as raised:  # noqa: BLE001
        return raised


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError(CANARY), InternalError),
        (pa.ArrowInvalid(f"would lose data: {CANARY}"), DataError),
        (OverflowError(CANARY), DataError),
        (ExceptionGroup(CANARY, [ValueError(CANARY)]), InternalError),
        (MemoryError(CANARY), EngineError),
        (OSError(28, CANARY, f"/data/zip={CANARY}"), EngineError),
        (DataError("column 'age': 3 cells"), DataError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value.__name__,
)
def test_no_text_of_a_foreign_exception_leaves(error: BaseException, kind: type[BaseException], hidden: bool) -> None:
    found = left(nested(error, hidden=hidden))
    assert type(found) is kind
    assert CANARY not in chain_of(found)
    assert "KeyError" in chain_of(found)


def test_an_error_of_ours_is_the_same_object() -> None:
    error = DataError("column 'age': 3 cells", column="age")
    assert left(error) is error


def test_the_cause_names_class_and_way_and_can_be_pickled() -> None:
    found = left(ValueError(CANARY))
    cause = pickle.loads(pickle.dumps(found.__cause__))
    assert isinstance(cause, Cause)
    assert (cause.kind, cause.way[-1].rpartition(" ")[2]) == ("ValueError", "public")
    assert str(found) == f"privpipe crashed: {cause}. This is a bug"


def test_a_call_that_does_not_fit_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'quasi'"):
        pp.compare(None, quasi=["zip"])  # type: ignore[call-arg]


def test_only_the_outermost_function_translates() -> None:
    @bordered
    def outer() -> str:
        try:
            raising(KeyError(CANARY))()
        except KeyError:
            return "handled as before"
        return ""

    assert outer() == "handled as before"


def test_what_a_progress_function_raises_is_the_callers() -> None:
    class Stop(Exception):
        pass

    def stop(step: str) -> None:
        raise Stop(step)

    with pytest.raises(Stop):
        pp.transforms.TopCode(columns=["a"], at=1).apply(pd.DataFrame({"a": [1, 2]}), progress=stop)
    with pytest.raises(Stop):
        pp.init(pd.DataFrame({"a": [1, 2] * 20}), progress=stop)


def test_timestamps_that_lose_digits() -> None:
    frame = pa.table({"born": pa.array([915148800000000001, None], pa.timestamp("ns")), "zip": ["a", "b"]})
    shifted = frame.set_column(0, "born", frame["born"].cast(pa.int64()).cast(pa.timestamp("s")))
    for kind in (frame, shifted, frame.to_pandas()):
        assert "91514880" not in outcome(kind)


def outcome(frame: Any) -> str:
    """What an exception shows of a frame whose cells are quasi-identifiers; nothing where there is none."""
    try:
        pp.k_anonymity(frame, ["born", "zip"])
    except PrivpipeError as error:
        return chain_of(error)
    return ""


def test_log_records_with_exc_info_hold_no_value(caplog: pytest.LogCaptureFixture) -> None:
    frame = pd.DataFrame({"zip": [b"\xff", CANARY, 5]})
    with caplog.at_level(logging.DEBUG):
        try:
            pp.k_anonymity(frame, ["zip"])
        except PrivpipeError:
            logging.getLogger("of.a.job").exception("the job failed")
    assert "the job failed" in caplog.text
    assert CANARY not in caplog.text
