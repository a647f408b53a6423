"""No value of the data in any output but the release: canaries in the data, a search through everything said."""

from __future__ import annotations

import copy
import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import PrivpipeError
from privpipe.sinks.target import METADATA

Change = Callable[[dict[str, Any]], None]
Silence = Callable[[str], None]


@pytest.fixture
def everything_logged() -> Iterator[io.StringIO]:
    """All loggers at DEBUG, into one text."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    root = logging.getLogger()
    before = root.level
    quiet = ("py4j", "numba", "fsspec", "distributed", "asyncio")
    levels = {name: logging.getLogger(name).level for name in quiet}
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    for name in quiet[1:2]:
        logging.getLogger(name).setLevel(logging.INFO)
    yield heard
    root.removeHandler(handler)
    root.setLevel(before)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.usual
def test_a_published_run_says_no_value(
    engine: Engine,
    document: dict[str, Any],
    everything_logged: io.StringIO,
    capfd: pytest.CaptureFixture[str],
    assert_silent: Silence,
) -> None:
    result = pp.release(document, engine=engine)
    home = Path(result.path) / METADATA
    for name in ("verdict.json", "manifest.json", "plan.json"):
        assert_silent((home / name).read_text(encoding="utf-8"))
    assert_silent(repr(result) + str(result.assessment) + repr(result.plan))
    assert_silent(everything_logged.getvalue())
    assert_silent("".join(capfd.readouterr()))


@pytest.mark.usual
def test_a_refused_run_says_no_value(
    engine: Engine,
    raw_document: dict[str, Any],
    everything_logged: io.StringIO,
    capfd: pytest.CaptureFixture[str],
    assert_silent: Silence,
) -> None:
    with pytest.raises(pp.errors.Refused) as caught:
        pp.release(raw_document, engine=engine)
    assert_silent(str(caught.value) + repr(caught.value) + json.dumps(caught.value.assessment.to_dict()))
    target = Path(raw_document["sink"]["path"])
    for file in (target.parent / f".{target.name}.privpipe" / "records").glob("*/*.json"):
        assert_silent(file.read_text(encoding="utf-8"))
    assert_silent(everything_logged.getvalue())
    assert_silent("".join(capfd.readouterr()))


def _wrong_type(document: dict[str, Any]) -> None:
    document["columns"]["town"]["type"] = "integer"
    del document["columns"]["town"]["hierarchy"]


def _unknown_value(document: dict[str, Any]) -> None:
    tree = {"tree": {"North": ["Ashford", "Barrow"], "South": ["Crewe"]}}
    document["columns"]["town"]["hierarchy"] = tree


def _outside(document: dict[str, Any]) -> None:
    document["columns"]["age"]["hierarchy"] = {"intervals": {"start": 40, "widths": [5, 20]}}


def _impossible(document: dict[str, Any]) -> None:
    document["guarantees"][0]["k_anonymity"]["k"] = 401


def _text_order(document: dict[str, Any]) -> None:
    document["guarantees"][2] = {
        "t_closeness": {"column": "illness", "t": 0.2, "distance": "ordered", "order": ["flu", "cold"]}
    }


def _duplicate_record_id(document: dict[str, Any]) -> None:
    document["record_id"] = "town"


@pytest.mark.parametrize(
    "change", [_wrong_type, _unknown_value, _outside, _impossible, _text_order, _duplicate_record_id]
)
def test_an_error_says_no_value(
    change: Change, engine: Engine, document: dict[str, Any], everything_logged: io.StringIO, assert_silent: Silence
) -> None:
    wrong = copy.deepcopy(document)
    change(wrong)
    with pytest.raises(PrivpipeError) as caught:
        pp.release(wrong, engine=engine)
    assert caught.value.exit_code in (2, 3, 5, 6)
    error: BaseException | None = caught.value
    while error is not None:
        assert_silent(str(error) + repr(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert_silent(everything_logged.getvalue())
    assert not Path(document["sink"]["path"]).exists()


def test_the_seed_is_in_no_output(document: Mapping[str, Any], everything_logged: io.StringIO) -> None:
    result = pp.release(document)
    said = repr(result) + json.dumps(dict(result.manifest)) + result.plan.to_json() + everything_logged.getvalue()
    assert document["seed"]["insecure"] not in said
    assert result.manifest["seed_commitment"] in said
