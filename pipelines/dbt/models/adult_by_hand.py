from privpipe.dbt import release


def model(dbt, session):
    """Refused: the model fails, and what refers to it is skipped."""
    dbt.config(materialized="table")
    return release(dbt, dbt.ref("adult_raw"), "../refused/release.yaml")
