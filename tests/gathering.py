"""Many cases in one test: each is tried, and all that fail are reported together, each with its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

__all__ = ["gathered"]


@contextmanager
def gathered() -> Iterator[Callable[[object], AbstractContextManager[None]]]:
    """Gives what a case is tried in; fails at the end if a case failed, or if there was none.

    Raises
    ------
    BaseExceptionGroup
        The failures, each with the name of its case.

    Examples
    --------
    >>> with gathered() as case:
    ...     for number in (1, 2, 3):
    ...         with case(number):
    ...             assert number % 2 == 1
    Traceback (most recent call last):
    ...
    ExceptionGroup: 1 of 3 cases failed: 2 (1 sub-exception)
    """
    names: list[str] = []
    failures: dict[str, BaseException] = {}

    @contextmanager
    def case(name: object) -> Iterator[None]:
        names.append(str(name))
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the other cases are tried all the same
            error.add_note(f"in the case {name}")
            failures[str(name)] = error

    yield case
    if not names:
        pytest.fail("there was no case to try")
    if failures:
        head = f"{len(failures)} of {len(names)} cases failed: {', '.join(failures)}"
        raise BaseExceptionGroup(head, list(failures.values()))
