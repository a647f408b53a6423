"""Three ends of a release under Prefect: published, refused, broken down.

`python pipelines/prefect/flows.py adult_public_use`. Settings come from the environment: PRIVPIPE_PUBLISHED (where
releases go) and PRIVPIPE_RETRY_SECONDS.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from prefect import flow

from privpipe.prefect import privpipe_judge, privpipe_release

PIPELINES = Path(__file__).resolve().parents[1]
PUBLISHED = Path(os.environ.get("PRIVPIPE_PUBLISHED", PIPELINES / "prefect" / "published"))
ADULT = str(PIPELINES / "adult" / "release.yaml")
release = privpipe_release.with_options(
    retries=2, retry_delay_seconds=float(os.environ.get("PRIVPIPE_RETRY_SECONDS", "300"))
)


@flow
def adult_public_use() -> str:
    """Publish, judge what was published once more, and say where it is."""
    published = release(ADULT, target=str(PUBLISHED / "adult"), report=str(PUBLISHED / "reports" / "adult.html"))
    judged = privpipe_judge(published["path"], ADULT)
    return f"{judged['figures']['records']} records at {published['path']}"


@flow
def adult_by_hand() -> None:
    """Refused: one try."""
    release(str(PIPELINES / "refused" / "release.yaml"), target=str(PUBLISHED / "adult-by-hand"))


@flow
def adult_nowhere() -> None:
    """Published below a file, which no file system allows: a breakdown, tried again."""
    release(ADULT, target=str(PIPELINES / "README.md" / "published"))


if __name__ == "__main__":
    print({"adult_by_hand": adult_by_hand, "adult_nowhere": adult_nowhere}.get(sys.argv[1], adult_public_use)())
