"""Spends of private tables: they add up exactly, end, and are never forgotten, whatever stops a run."""

from __future__ import annotations

import fcntl
import json
import os
from fractions import Fraction
from pathlib import Path

import pytest

from privpipe.errors import DataError, Refused, SinkError, UsageError
from privpipe.ledger.folder import found_in
from privpipe.private_files import flush_new
from privpipe.tables.private_noise import Spend
from privpipe.tables.private_tables import SpendBook

TENTH = Spend("epsilon", Fraction(1, 10))


def test_spends_add_up_exactly_and_end(tmp_path: Path) -> None:
    book = SpendBook(tmp_path)
    for _ in range(3):
        book.spend("visits", TENTH, Fraction(3, 10))
    with pytest.raises(Refused, match=r"costs epsilon 0\.1, and 0 of 0\.3 is left"):
        book.spend("visits", TENTH, Fraction(3, 10))
    assert book.spent("visits", "epsilon") == Fraction(3, 10)
    book.spend("others", TENTH, Fraction(1, 10))
    # A smaller limit than was spent leaves nothing.
    with pytest.raises(Refused, match=r"0 of 0\.2 is left"):
        book.spend("visits", TENTH, Fraction(1, 5))


def test_units_do_not_add_up(tmp_path: Path) -> None:
    book = SpendBook(tmp_path)
    book.spend("visits", TENTH, Fraction(1))
    with pytest.raises(UsageError, match="in another unit than rho"):
        book.spend("visits", Spend("rho", Fraction(1, 10)), Fraction(1))
    with pytest.raises(UsageError, match="more than 0"):
        book.spend("visits", Spend("epsilon", Fraction(0)), Fraction(1))


@pytest.mark.parametrize("lost", ["first", "last", "changed", "emptied", "head"])
def test_a_damaged_book_draws_nothing(tmp_path: Path, lost: str) -> None:
    book = SpendBook(tmp_path)
    for _ in range(3):
        book.spend("visits", TENTH, Fraction(1))
    first, last = book.folder / "spend-00000001.json", book.folder / "spend-00000003.json"
    if lost == "first":
        first.unlink()
    elif lost == "last":
        last.unlink()
    elif lost == "changed":
        first.write_text(json.dumps({**json.loads(first.read_text()), "amount": "1/1000"}))
    elif lost == "emptied":
        last.write_text("")
    else:
        (book.folder / "head.json").unlink()
    with pytest.raises(DataError, match="are damaged"):
        book.spend("visits", TENTH, Fraction(1))


def test_a_spend_whose_run_was_killed_before_the_head_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = SpendBook(tmp_path)
    book.spend("visits", TENTH, Fraction(1))

    def killed(path: Path, data: bytes) -> None:
        if path.name == "head.json":
            raise KeyboardInterrupt
        flush_new(path, data)

    monkeypatch.setattr("privpipe.tables.private_tables.flush_new", killed)
    with pytest.raises(KeyboardInterrupt):
        book.spend("visits", TENTH, Fraction(1))
    monkeypatch.undo()
    assert book.spent("visits", "epsilon") == Fraction(1, 5)
    book.spend("visits", TENTH, Fraction(1))
    assert book.spent("visits", "epsilon") == Fraction(3, 10)


def test_two_runs_do_not_spend_at_once(tmp_path: Path) -> None:
    book = SpendBook(tmp_path)
    book.spend("visits", TENTH, Fraction(1))
    lock = os.open(book.folder / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(SinkError, match="another run is using the book of spends"):
        book.spend("visits", TENTH, Fraction(1))
    os.close(lock)
    assert book.spent("visits", "epsilon") == Fraction(1, 10)


def test_a_folder_that_cannot_be_written_pays_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("privpipe.tables.private_tables.flush_new", full)
    with pytest.raises(SinkError, match="No space left"):
        SpendBook(tmp_path).spend("visits", TENTH, Fraction(1))


def test_spends_are_private_and_next_to_a_ledger(tmp_path: Path) -> None:
    book = SpendBook(tmp_path / "ledger")
    book.spend("visits", TENTH, Fraction(1))
    assert book.folder.stat().st_mode & 0o077 == 0
    for file in book.folder.iterdir():
        assert file.stat().st_mode & 0o077 == 0
    assert found_in(tmp_path / "ledger") == "nothing"
