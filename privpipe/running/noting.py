"""Notes on what a finished table discloses of its original, wherever their records can be paired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privpipe.draws import RunKey, Seed
from privpipe.errors import DataError, UnsupportedError
from privpipe.judging.recovering import recovery_notes
from privpipe.running.aligning import Align, aligned
from privpipe.running.reading import read_as_source

if TYPE_CHECKING:
    from privpipe.engines import Engine, Source
    from privpipe.judging import JudgingRules
    from privpipe.policy import Policy
    from privpipe.roles import Roles

__all__ = ["notes_beside_original"]


def notes_beside_original(
    engine: Engine, finished: Source, original: Any, policy: Policy, align: Align, roles: Roles, rules: JudgingRules
) -> tuple[str, ...]:
    """Sentences on released columns that predict transformed ones; none where records cannot be paired.

    No guarantee asked for these pairs, so that tables which do not fit together are no error, and no seed is needed:
    the records that a large table is sampled by are fixed by a constant.
    """
    seed = Seed.public("privpipe/recovery")
    try:
        released, first = aligned(engine, finished, read_as_source(original, policy), policy, align, seed)
    except (DataError, UnsupportedError):
        return ()
    return recovery_notes(engine, released, first, roles, rules, RunKey.of(seed, "", "").attacks())
