"""Three ends of a release under Dagster: published, refused, broken down; and a table of another job, checked.

`dagster asset materialize -f pipelines/dagster/definitions.py --select adult_public_use+`. Settings come from the
environment: PRIVPIPE_PUBLISHED (where releases go) and PRIVPIPE_RETRY_SECONDS.
"""

import os
from pathlib import Path

import dagster as dg

from privpipe.dagster import privpipe_asset, privpipe_asset_check

PIPELINES = Path(__file__).resolve().parents[1]
PUBLISHED = Path(os.environ.get("PRIVPIPE_PUBLISHED", PIPELINES / "dagster" / "published"))
AGAIN = dg.RetryPolicy(max_retries=2, delay=float(os.environ.get("PRIVPIPE_RETRY_SECONDS", "300")))
ADULT = str(PIPELINES / "adult" / "release.yaml")

adult_public_use = privpipe_asset(
    "adult_public_use",
    policy=ADULT,
    target=str(PUBLISHED / "adult"),
    report=str(PUBLISHED / "reports" / "adult.html"),
    retry_policy=AGAIN,
)
adult_is_safe = privpipe_asset_check(adult_public_use, data=str(PUBLISHED / "adult"), policy=ADULT)


@dg.asset(deps=[adult_public_use])
def adult_announced(context: dg.AssetExecutionContext) -> None:
    """What comes after the release; a failed check keeps it from running."""
    context.log.info("the release is out")


adult_by_hand = privpipe_asset(
    "adult_by_hand",
    policy=str(PIPELINES / "refused" / "release.yaml"),
    target=str(PUBLISHED / "adult-by-hand"),
    retry_policy=AGAIN,
)
adult_nowhere = privpipe_asset(
    "adult_nowhere",
    policy=ADULT,
    target=str(PIPELINES / "README.md" / "published"),  # below a file: no file system allows it
    retry_policy=AGAIN,
)


@dg.asset
def adult_raw() -> None:
    """The table as another job left it: no one protected it."""


raw_is_safe = privpipe_asset_check(adult_raw, data=str(PIPELINES / "adult" / "data" / "adult.csv"), policy=ADULT)


@dg.asset(deps=[adult_raw])
def raw_announced(context: dg.AssetExecutionContext) -> None:
    """Never runs: the check of what it depends on fails."""
    context.log.info("the raw table is out")


defs = dg.Definitions(
    assets=[adult_public_use, adult_announced, adult_by_hand, adult_nowhere, adult_raw, raw_announced],
    asset_checks=[adult_is_safe, raw_is_safe],
)
