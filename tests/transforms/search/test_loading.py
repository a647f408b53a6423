"""Compiled code loads while an engine counts, once."""

from __future__ import annotations

import sys
import threading

import pytest

from privpipe.transforms.recoding import encoded_table


@pytest.mark.parametrize("loaded", [True, False])
def test_work_is_done_whether_or_not_something_is_loaded(monkeypatch: pytest.MonkeyPatch, loaded: bool) -> None:
    calls: list[str] = []
    monkeypatch.setattr(encoded_table, "INITIALISED", "sys" if loaded else "a module of no such name")
    monkeypatch.setattr(encoded_table, "_load", lambda: calls.append(threading.current_thread().name))
    assert encoded_table.beside_loading(lambda: 7) == 7
    assert [name.startswith("privpipe") for name in calls] == ([] if loaded else [True])


def test_an_error_of_either_side_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_table, "INITIALISED", "a module of no such name")
    with pytest.raises(ZeroDivisionError):
        encoded_table.beside_loading(lambda: 1 / 0)

    def broken() -> None:
        raise ImportError("no compiler")

    monkeypatch.setattr(encoded_table, "_load", broken)
    with pytest.raises(ImportError, match="no compiler"):
        encoded_table.beside_loading(lambda: 7)


def test_what_shows_that_all_is_loaded_is_a_module_of_the_compiler() -> None:
    """Else every search would load it again next to its work."""
    encoded_table._load()
    assert encoded_table.INITIALISED in sys.modules
