"""Notes of a run's verdict on its seed and on what links it to other releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privpipe.errors import UsageError
from privpipe.transforms.base import RowTransformer, Transformer

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["INSECURE", "linking_notes", "require_publishable_seed", "seed_notes", "value_notes"]

INSECURE = (
    "the seed is insecure: whoever guesses it can undo noise, swaps and the order of rows; such a release is for "
    "demonstrations and tests alone"
)


def require_publishable_seed(policy: Policy) -> None:
    """A guessable seed publishes only where the policy says that it may.

    Raises
    ------
    UsageError
    """
    if _is_insecure(policy) and not policy.allow_insecure_seed:
        raise UsageError(
            f"{policy.located('seed')}: the seed is declared insecure, and nothing is published under it; make one "
            "with `privpipe seed` and name it as {from_env: NAME} or {from_file: PATH}, or write "
            "`allow_insecure_seed: true` for a demonstration"
        )


def seed_notes(policy: Policy) -> tuple[str, ...]:
    """That the seed is insecure; a verdict says so first."""
    return (INSECURE,) if _is_insecure(policy) else ()


def linking_notes(policy: Policy, *, frozen: bool) -> tuple[str, ...]:
    """By which columns two releases can be joined: what stages make of them is the same in both.

    Quasi-identifiers are left out, by which whoever knows a person joins anyway.

    Parameters
    ----------
    policy : Policy
    frozen : bool
        Whether the stages follow a plan that was given, under which a value that did not change keeps its draws.
    """
    together = tuple(
        f"{policy.place_of(at)} gives rows of one {within.removesuffix('_id')} one value where theirs were equal: a "
        "value that no other has shows which rows belong together, unless it is coarse; household_k_anonymity judges "
        "what that tells"
        for at, stage in enumerate(policy.transform)
        if isinstance(stage, RowTransformer) and (within := stage.draws_within()) is not None
    )
    keys = policy.roles.quasi_identifiers
    return together + tuple(
        f"{policy.place_of(at)} gives an unchanged record the same result in every release{when}: releases that hold "
        f"{', '.join(map(repr, columns))} can be joined by it"
        for at, stage in enumerate(policy.transform)
        if (when := _linking(stage, frozen=frozen)) is not None
        and (columns := [name for name in stage.masked_columns() if name not in keys])
    )


def value_notes(policy: Policy) -> tuple[str, ...]:
    """Which stages and hierarchies release the value of a single record as a figure or label."""
    stages = tuple((policy.place_of(at), stage.shows_values) for at, stage in enumerate(policy.transform))
    used = policy.hierarchies.items() if policy.transform else ()
    drawn = tuple((f"the hierarchy of {name!r}", spec.shows_values) for name, spec in used)
    return tuple(f"{place} shows values of single records: {what}" for place, what in (*stages, *drawn) if what)


def _linking(stage: Transformer, *, frozen: bool) -> str | None:
    """Under what the stage gives a record the same result again; None: it draws for each release."""
    if stage.links_releases:
        return "" if stage.key_place() is None else " under its key"
    return " under this plan" if frozen else None


def _is_insecure(policy: Policy) -> bool:
    return policy.seed is not None and policy.seed.within == "insecure"
