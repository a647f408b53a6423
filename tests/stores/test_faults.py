"""Whatever befalls a run on its way to a store, readers see the old release or the new one; the next run cleans up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.object_store import needs_object_store
from tests.store_trials import KINDS, Trials


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    needs_object_store()
    with Trials(tmp_path_factory.mktemp("store")) as found:
        yield found


# Steps of a run, as shares of its requests: while it uploads, and about where the pointer is switched.
STEPS = (0.5, 0.68)


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_readers_see_the_old_release_or_the_new_one(trials: Trials, kind: str) -> None:
    wrong: list[str] = []
    for number, step in enumerate(STEPS):
        wrong += trials.once(kind, int(step * trials.requests), lasting=bool(number % 2))
    assert wrong + trials.after() == []


@pytest.mark.deep
def test_a_first_release_that_is_killed_leaves_nothing_that_is_read(trials: Trials) -> None:
    trials.store.request("DELETE", "/lake/people/_CURRENT")
    assert trials.once("kill", int(0.6 * trials.requests)) == []
    assert trials.after() == []
