"""Signatures in a manifest, and the officer's policy that says whose count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from privpipe.errors import SignOffMissing, UsageError
from privpipe.policy.officer import OfficerPolicy
from privpipe.record.checks import Check, broken, holds, unchecked
from privpipe.running.approval import approvals, statement_of
from privpipe.signing import read_signature, statement_digest

__all__ = ["sign_off_checks"]

Document = Mapping[str, Any]


def sign_off_checks(manifest: Document, officer: OfficerPolicy | None) -> Iterator[Check]:
    """Each check; whom to trust says the officer's policy alone."""
    yield from _officer(manifest, officer)
    block = manifest["sign_off"]
    if block is None:
        if officer is not None and officer.sign_off is not None:
            yield broken("sign-off", "the officer's policy asks for one, and the release has none")
        return
    if manifest["officer_policy"] is None:
        yield broken("sign-off", "there is one, and no officer's policy that asks for it")
        return
    statement = block["statement"]
    if statement != statement_of(manifest, str(statement.get("target"))):
        yield broken("sign-off", "what was signed is not this release")
        return
    try:
        yield from _signatures(block, statement_digest(statement), officer)
    except UsageError as error:  # the library is missing, or what was signed has another shape
        yield unchecked("sign-off", str(error))


def _officer(manifest: Document, officer: OfficerPolicy | None) -> Iterator[Check]:
    said = manifest["officer_policy"]
    if officer is None:
        if said is not None:
            yield unchecked(
                "officer's policy", "give it (--officer-policy): it says what was asked, and whose keys count"
            )
        return
    if said is None:
        yield broken("officer's policy", "the release was held to none")
    elif said["hash"] != officer.hash:
        yield broken("officer's policy", "it is not the one that the release was held to")
    else:
        yield holds("officer's policy", "it is the one that the release was held to")


def _signatures(block: Document, digest: str, officer: OfficerPolicy | None) -> Iterator[Check]:
    found = [read_signature(each) for each in block["signatures"]]
    for each in found:
        name = f"signature of {each.name}"
        if each.statement != digest or not each.holds:
            yield broken(name, "it is not of this release, was changed, or was made with another key")
        else:
            yield holds(name, f"{each.decision}, {each.signed_at:%Y-%m-%d}, by the key {each.key.fingerprint}")
    if officer is None or officer.sign_off is None:
        yield unchecked("sign-off", "whether these persons may sign says the officer's policy (--officer-policy)")
        return
    checked = datetime.fromisoformat(block["checked_at"])
    if checked > datetime.now(UTC) + timedelta(minutes=5):
        yield broken("sign-off", "it was checked in the future")
        return
    try:
        valid = approvals(officer.sign_off, digest, block["signatures"], checked)
    except SignOffMissing as missing:
        yield broken("sign-off", str(missing))
        return
    now = datetime.now(UTC)
    ended = [each.name for each in valid if not each.valid_at(now, officer.sign_off.valid_days)]
    since = f"; expired since: {', '.join(ended)}" if ended else ""
    yield holds("sign-off", f"approved by {', '.join(each.name for each in valid)} when it was published{since}")
