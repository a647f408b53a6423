"""What only the owner of a release can recompute: by the policy, the seed and the private record."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from typing import Any

from privpipe.draws import Seed
from privpipe.policy import Policy
from privpipe.record.checks import Check, broken, holds, unchecked
from privpipe.record.released import Released
from privpipe.running.commitments import input_commitment, plan_commitment
from privpipe.running.plan import plan_digest
from privpipe.running.sealing import document_hashes, manifest_checksum, manifest_seal

__all__ = ["owner_checks"]

Document = Mapping[str, Any]


def owner_checks(released: Released, manifest: Document, policy: Policy | None) -> Iterator[Check]:
    """Each check; what is not at hand is said."""
    private = released.private(str(manifest["run_id"]))
    yield _job(manifest, private, policy)
    yield from _record(released, manifest, private)
    yield from _seed(manifest, private, policy)


def _job(manifest: Document, private: Document | None, policy: Policy | None) -> Check:
    if policy is None:
        return unchecked("policy file", "give it (--policy) to compare it with the policy of the release")
    if policy.digest() != manifest["policy_hash"]:
        return broken("policy file", "it is not the policy that was released under")
    queries = policy.queries()
    if not queries:
        return holds("policy file", "it has the hash of the manifest")
    # The public policy, and so its hash, tells of a query only that there is one.
    if private is None:
        return holds("policy file", "it has the hash of the manifest; its query is compared with a private record")
    known = private["input"].get("queries") if isinstance(private.get("input"), Mapping) else None
    if known != queries:
        return broken("policy file", "its query is not the one of the private record")
    return holds("policy file", "it has the hash of the manifest, and the query of the private record")


def _record(released: Released, manifest: Document, private: Document | None) -> Iterator[Check]:
    if private is None:
        yield unchecked("private record", "there is none at hand (--records)")
        return
    if private.get("checksum") != manifest_checksum(private):
        yield broken("private record", "its manifest was changed: the checksum does not fit")
        return
    texts = {name: text.decode("utf-8", "replace") for name, text in released.texts.items()}
    expected, found = private.get("public_documents", {}), document_hashes(texts)
    wrong = sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))
    if wrong:
        yield broken("private record", f"public documents that are not those it knows: {', '.join(wrong)}")
    else:
        yield holds("private record", "the public documents are those that were published")
    follower = _follower(released, str(manifest["run_id"]))
    if follower is not None:
        yield broken("newest release", f"run {follower} was published after the one that stands here")


def _follower(released: Released, run_id: str) -> str | None:
    """A run of the records that followed this one at its sink."""
    home = released.records
    for path in sorted(home.glob("*/manifest.json")) if home is not None else ():
        other = path.parent.name
        if home is not None and any(home.glob(f"{other}.*.pending")):
            continue  # nobody knows yet whether it was published
        previous = (released.private(other) or {}).get("previous") or {}
        if previous.get("run_id") == run_id:
            return other
    return None


def _seed(manifest: Document, private: Document | None, policy: Policy | None) -> Iterator[Check]:
    if policy is None or policy.seed is None:
        yield unchecked("seed", "no policy with a seed is at hand; with it the seal and all commitments are recomputed")
        return
    seed = policy.seed.resolve()
    yield from _sealed(manifest, seed)
    run_id = str(manifest["run_id"])
    if private is None:
        yield unchecked("commitments", "those to the plan and to the source need the private record (--records)")
        return
    committed = {
        "plan": (manifest["private_plan"], plan_commitment(seed, run_id, plan_digest(private["plan"]))),
        "source": (
            manifest["input"]["fingerprint"],
            input_commitment(seed, run_id, str(private["input"]["fingerprint"])),
        ),
    }
    wrong = [name for name, (said, made) in committed.items() if not hmac.compare_digest(str(said), made)]
    if wrong:
        yield broken("commitments", f"to another {' and '.join(wrong)} than the private record holds")
    else:
        yield holds("commitments", "to the plan and the source of the private record")


def _sealed(manifest: Document, seed: Seed) -> Iterator[Check]:
    run_id = str(manifest["run_id"])
    if not hmac.compare_digest(str(manifest["seed_commitment"]), seed.commitment(run_id)):
        yield broken("seed", "the release was made with another seed, or its commitment was changed")
        return
    yield holds("seed", "the release commits to it")
    made = manifest_seal(seed, manifest)
    if hmac.compare_digest(str(manifest["seal"]), made):
        yield holds("seal", "who wrote the manifest had the seed, and nothing was changed since")
    else:
        yield broken("seal", "the manifest was changed, or written without the seed")
