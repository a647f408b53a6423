"""What a table says of the release that it holds: no more than the public verdict does."""

from __future__ import annotations

import json
from pathlib import Path

from privpipe.sinks.local import METADATA

__all__ = ["public_properties"]


def public_properties(staged: Path, run_id: str) -> dict[str, str]:
    """``run_id``, ``verdict`` (``passed`` or ``refused``), ``policy_hash`` and ``batch`` of a staged release."""
    verdict, manifest = (
        json.loads((staged / METADATA / f"{name}.json").read_text(encoding="utf-8")) for name in ("verdict", "manifest")
    )
    word = "passed" if verdict["passed"] is True else "refused"
    batch = {} if manifest.get("batch") is None else {"batch": str(manifest["batch"])}
    return {"run_id": run_id, "verdict": word, "policy_hash": str(verdict["policy_hash"]), **batch}
