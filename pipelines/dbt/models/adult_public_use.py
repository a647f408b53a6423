from privpipe.dbt import release


def model(dbt, session):
    """Published: the stages of the policy, then its gate; what is returned is what was judged."""
    dbt.config(materialized="table")
    return release(dbt, dbt.ref("adult_raw"), "../adult/release.yaml")
