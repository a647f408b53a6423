"""What a table says of the release that it holds: no more than the public verdict does."""

from __future__ import annotations

import json
from pathlib import Path

from privpipe.sinks.local import METADATA

__all__ = ["public_properties"]


def public_properties(staged: Path, run_id: str) -> dict[str, str]:
    """``run_id``, ``verdict`` (``passed`` or ``refused``) and ``policy_hash`` of a staged release."""
    verdict = json.loads((staged / METADATA / "verdict.json").read_text(encoding="utf-8"))
    word = "passed" if verdict["passed"] is True else "refused"
    return {"run_id": run_id, "verdict": word, "policy_hash": str(verdict["policy_hash"])}
