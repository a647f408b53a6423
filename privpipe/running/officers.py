"""Every release is held to the officer's policy that the environment names, whatever the job says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from privpipe.blocks import Guarantee
from privpipe.errors import PolicyError, Problem
from privpipe.policy.officer import PINNED, pinned_officer
from privpipe.policy.places import Place
from privpipe.policy.tightening import HeldJob, require_tighter

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["under_officer"]

COMPARED = ("nulls", "undeclared", "metadata", "seed", "allow_insecure_seed", "person_id")
"""Keys of the top level that a job is compared by."""


def under_officer(policy: Policy) -> Policy:
    """The policy, held to the officer's policy of the environment where there is one.

    Raises
    ------
    PolicyError
        The job falls below it, or names another one.
    """
    pinned = pinned_officer()
    if pinned is None:
        return policy
    if policy.officer is not None and policy.officer.hash != pinned.hash:
        line = policy.lines.get("policy")
        what = f"names {policy.officer.file}, and every release here is held to {pinned.file} ({PINNED}); name that one"
        raise PolicyError([Problem("policy", what, policy.file, line)])
    job = HeldJob(
        guarantees=list(_placed(policy)),
        stages=[(("transform", at, stage.name()), stage) for at, stage in enumerate(policy.transform)],
        roles=policy.roles,
        values={name: getattr(policy, name) for name in COMPARED},
        file=policy.file,
        lines=policy.lines,
    )
    require_tighter(job, pinned)
    return policy.replaced(officer=pinned)


def _placed(policy: Policy) -> Iterator[tuple[Place, Guarantee]]:
    """Guarantees with their places in the document; the policy has some of them in another order."""
    said: Sequence[object] = policy.document.get("guarantees", ())
    left = [(at, next(iter(item))) for at, item in enumerate(said) if isinstance(item, Mapping) and item]
    for guarantee in policy.guarantees:
        found = next(((at, name) for at, name in left if name == guarantee.name()), None)
        if found is not None:
            left.remove(found)
        yield (("guarantees", *found) if found is not None else ("guarantees",)), guarantee
