"""The officer's policy that the environment names, and whether a run is approved by its rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from privpipe.blocks import Guarantee
from privpipe.draws import Seed
from privpipe.errors import PolicyError, Problem, SignOffMissing, UsageError
from privpipe.policy.officer import PINNED, HeldJob, SignOffRule, pinned_officer, require_tighter
from privpipe.policy.plain_values import Place
from privpipe.running.run_documents import core_digest
from privpipe.signing import Signature, read_signature, same_person
from privpipe.tables.entries import CellGuarantee

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["approvals", "statement_of", "target_mark", "under_officer"]


Asked = TypeVar("Asked", bound=Guarantee | CellGuarantee)
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
        guarantees=list(_placed(policy, policy.guarantees)),
        stages=[(("transform", at, stage.name()), stage) for at, stage in enumerate(policy.transform)],
        roles=policy.roles,
        values={name: getattr(policy, name) for name in COMPARED},
        file=policy.file,
        lines=policy.lines,
        cells=None if policy.tables is None else list(_placed(policy, policy.tables.guarantees)),
    )
    require_tighter(job, pinned)
    return policy.replaced(officer=pinned)


def _placed(policy: Policy, guarantees: Sequence[Asked]) -> Iterator[tuple[Place, Asked]]:
    """Guarantees with their places in the document; the policy has some of them in another order."""
    said: Sequence[object] = policy.document.get("guarantees", ())
    left = [(at, next(iter(item))) for at, item in enumerate(said) if isinstance(item, Mapping) and item]
    for guarantee in guarantees:
        found = next(((at, name) for at, name in left if name == guarantee.name()), None)
        if found is not None:
            left.remove(found)
        place: Place = ("guarantees",) if found is None else ("guarantees", *found)
        yield place, guarantee


def target_mark(seed: Seed, run_id: str, target: str) -> str:
    """Binds an approval to the place it was requested for, without naming it in public."""
    return "hmac-sha256:" + seed.bound("privpipe/target/1", run_id, target).hex()


def statement_of(manifest: Mapping[str, Any], target: str) -> dict[str, Any]:
    """What an approval is of: this run, these policies, these bytes, this verdict.

    Parameters
    ----------
    manifest : mapping
        The public one; signatures in it do not count.
    target : str
        Of `target_mark`.
    """
    return {
        "run_id": manifest["run_id"],
        "name": manifest["name"],
        "policy_hash": manifest["policy_hash"],
        "officer_policy_hash": manifest["officer_policy"]["hash"],
        "verdict_sha256": manifest["documents"]["verdict"],
        "plan_sha256": manifest["documents"]["plan"],
        "manifest": core_digest(manifest),
        "files": [dict(file) for file in manifest["output"]["files"]],
        "target": target,
    }


def approvals(rule: SignOffRule, statement: str, documents: Iterable[Any], moment: datetime) -> tuple[Signature, ...]:
    """The signatures that approve a run, one per person.

    Parameters
    ----------
    rule : SignOffRule
        Of the officer's policy: no other names and keys count.
    statement : str
        Hash of what must have been signed.
    documents : iterable of mapping
    moment : datetime
        When they must be valid.

    Raises
    ------
    SignOffMissing
        Too few approve, or an officer requests changes or rejects; it states the outcome of each signature.
    UsageError
        The cryptography library is missing.
    """
    latest: dict[bytes, Signature] = {}
    said: list[str] = []
    for document in documents:
        try:
            found = read_signature(document)
        except UsageError:
            said.append("one is damaged")
            continue
        wrong = _wrong(rule, statement, found)
        if wrong:
            said.append(f"that of {found.name!r} {wrong}")
        elif found.key.raw not in latest or latest[found.key.raw].signed_at <= found.signed_at:
            latest[found.key.raw] = found
    for found in latest.values():
        if found.decision != "approve":
            asked = "rejects it" if found.decision == "reject" else "asks for changes"
            raise SignOffMissing(
                f"{found.name} {asked}; nothing was published. Stage the release again when it is corrected"
            )
    valid = [each for each in latest.values() if each.valid_at(moment, rule.valid_days)]
    said += [
        f"that of {each.name!r} {_out_of_time(each, rule, moment)}" for each in latest.values() if each not in valid
    ]
    needed = 1 + rule.two_persons
    if len(valid) < needed:
        names = ", ".join(signer.name for signer in rule.by)
        told = f" Signatures that do not count: {'; '.join(said)}." if said else ""
        raise SignOffMissing(f"{needed} of {names} must approve, and {len(valid)} did; nothing was published.{told}")
    return tuple(sorted(valid, key=lambda each: each.signed_at))


def _wrong(rule: SignOffRule, statement: str, found: Signature) -> str:
    signer = next(
        (each for each in rule.by if each.key == found.key and same_person(each.name) == same_person(found.name)), None
    )
    if signer is None:
        return "is foreign: the officer's policy does not name this person with this key"
    if not found.holds:
        return "does not hold: it was changed, or made with another key"
    if found.statement != statement:
        return "is of another run, other bytes, another verdict or another policy"
    return ""


def _out_of_time(found: Signature, rule: SignOffRule, moment: datetime) -> str:
    end = found.ends(rule.valid_days)
    return f"expired at {end:%Y-%m-%d %H:%M} UTC" if moment >= end else "is dated in the future"
