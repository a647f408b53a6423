"""What a report says of signatures: who must sign a run that waits, or who signed one that was published."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privpipe.reporting.run_documents import RunDocuments

__all__ = ["sign_off_of", "waiting_sign_off"]

COLUMNS = ("name", "role", "time", "decision", "signature")
DECIDED = {"approve": "approved", "reject": "rejected"}


def sign_off_of(run: RunDocuments, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What is known of the signatures of a run, with every key.

    Parameters
    ----------
    given : mapping, optional
        Instead of what the documents of the run say.

    Examples
    --------
    >>> from privpipe.reporting.run_documents import RunDocuments
    >>> made = {"name": "Ada", "decision": "approve", "signed_at": "2026-01-02T03:04:05+00:00", "signature": "c2ln"}
    >>> told = sign_off_of(RunDocuments("a", {}, {"sign_off": {"signatures": [made]}}))
    >>> told["state"], told["signed"][0]["decision"]
    ('signed', 'approved')
    """
    found = given if given is not None else _told(run)
    return {
        "state": str(found.get("state") or ""),
        "required": [str(role) for role in found.get("required") or ()],
        "persons": int(found.get("persons") or 0),
        "valid_days": int(found.get("valid_days") or 0),
        "commands": [str(line) for line in found.get("commands") or ()],
        "signed": [{name: str(each.get(name) or "") for name in COLUMNS} for each in found.get("signed") or ()],
    }


def waiting_sign_off(request: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """For whom a run waits, how long an approval holds, and the commands to sign and to go on.

    Parameters
    ----------
    request : mapping
        What is to be signed, beside a run that waits.
    folder : str
        Where it waits.
    """
    asked, run_id = request["asked"], str(request["statement"]["run_id"])
    return {
        "state": "waiting",
        "required": list(asked["by"]),
        "persons": 1 + bool(asked["two_persons"]),
        "valid_days": asked["valid_days"],
        "commands": [
            f"privpipe sign {shlex.quote(os.path.abspath(folder))} --as NAME --decision approve",
            f"privpipe release POLICY --continue {shlex.quote(run_id)}",
        ],
    }


def _told(run: RunDocuments) -> Mapping[str, Any]:
    """As the request of a run that waits has it, else its manifest."""
    if run.request:
        return waiting_sign_off(run.request, run.path)
    signatures = (run.manifest.get("sign_off") or {}).get("signatures") or ()
    signed = [
        {
            "name": each["name"],
            "time": each["signed_at"],
            "decision": DECIDED.get(each["decision"], each["decision"]),
            "signature": each["signature"],
        }
        for each in signatures
    ]
    return {"state": "signed", "signed": signed} if signed else {}
