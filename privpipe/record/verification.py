"""Recompute what can be recomputed of a release, and say what does not match."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from privpipe.border import bordered
from privpipe.policy import Policy
from privpipe.policy.officer import OfficerPolicy, pinned_officer
from privpipe.record.checks import (
    Check,
    Verification,
    broken,
    manifest_fault,
    owner_checks,
    public_checks,
    sign_off_checks,
)
from privpipe.record.released import Released, opened_release

__all__ = ["verify"]


@bordered
def verify(
    release: str,
    *,
    policy: Policy | None = None,
    officer: OfficerPolicy | None = None,
    records: Path | None = None,
) -> Verification:
    """What of a release still is as it was published.

    Parameters
    ----------
    release : str
        The path or URL of a release or of a sink.
    policy : Policy, optional
        The one that it was released under; its seed shows what only the owner can check.
    officer : OfficerPolicy, optional
        The one that it was held to; default: that of the policy, else the one that the environment names.
    records : Path, optional
        Folder of the private records; left out, the one in the sink's work area where it can be read.

    Raises
    ------
    UsageError
        Nothing is published there.
    """
    if officer is None:
        officer = policy.officer if policy is not None and policy.officer is not None else pinned_officer()
    with opened_release(release, records) as found:
        manifest = found.parsed("manifest")
        run_id = None if manifest is None else manifest.get("run_id")
        return Verification(release, None if run_id is None else str(run_id), tuple(_checked(found, policy, officer)))


def _checked(found: Released, policy: Policy | None, officer: OfficerPolicy | None) -> Iterator[Check]:
    manifest = found.parsed("manifest")
    fault = manifest_fault(manifest)
    if manifest is None or fault:
        yield broken("manifest", fault)
        return
    every = (
        public_checks(found, manifest),
        sign_off_checks(manifest, officer),
        owner_checks(found, manifest, policy),
    )
    for checks in every:
        try:
            yield from checks
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # Whatever has another shape was not written by a run; the text of the error may quote it.
            yield broken("manifest", f"a document has another shape than a run writes ({type(error).__name__})")
