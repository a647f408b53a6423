"""What ``privpipe plan --cost`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privpipe.cli.console import print_json, put, say

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["show_cost"]


def show_cost(policy: Policy, *, engine: str | None, rows: int | None, json: bool) -> None:
    """Predict the cost of a release and print it."""
    from privpipe.running.cost.verb import plan_cost

    cost = plan_cost(policy, engine=engine, rows=rows)
    document = cost.to_dict()
    if json:
        print_json(document)
        return
    put(
        f"{cost.engine}: {cost.rows:,} rows, {cost.columns} columns, some {document['combinations']:,} combinations of "
        "quasi-identifiers"
    )
    for name, amount, terms in cost.rows_shown():
        put(f"  {name:<9} {amount:>9}{f'  ({terms})' if terms else ''}")
    if cost.seconds is not None:
        put(f"at the least {cost.seconds:,.0f} s on {cost.workers} processors that are busy all the time")
    for line in cost.unknown:
        put(f"not in it: {line}")
    say("PREDICTED, nothing was run: the figures come from a model and an estimate of distinct values (docs/scale.md)")
