"""Which responses a policy's guarantees judge, and the figures of single contributors that they call unsafe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from privpipe.blocks.arrays import Bools
from privpipe.errors import UsageError
from privpipe.tables.entries import CellGuarantee, TableSet
from privpipe.tables.guarantees import MinimumFrequency, PrimaryRule
from privpipe.tables.responses import Response

__all__ = ["hidden_statistics", "require_judged", "unjudged", "unjudged_text"]


def unjudged(name: str, responses: Sequence[Response], guarantees: Iterable[CellGuarantee]) -> list[Response]:
    """Responses of a table that could be the value of one person, and that no binding guarantee judges."""
    rules = [each for each in guarantees if isinstance(each, MinimumFrequency) and each.binds and each.holding is None]
    spoken = [rule.response for rule in rules if rule.tables is None or name in rule.tables]
    return [
        response
        for response in responses
        if (response.ordered or response.spread)
        and not any(of in (None, response.name) or (response.ordered and of in response.columns) for of in spoken)
    ]


def unjudged_text(response: Response) -> str:
    """What to do about it."""
    return (
        f"no binding minimum_frequency judges {response.name!r}, which could be the value of one person; add "
        "`- minimum_frequency: {at_least: 10}`"
    )


def require_judged(tables: TableSet) -> None:
    """Refuse figures of single contributors, and variances, that no binding guarantee judges.

    Raises
    ------
    UsageError
    """
    for name, table in tables.tables.items():
        if table.process is not None:  # differential_privacy judges it, and nothing else may
            continue
        for response in unjudged(name, table.responses, tables.guarantees):
            raise UsageError(f"table {name!r}: {unjudged_text(response)}")


def hidden_statistics(tables: TableSet, names: Iterable[str]) -> TableSet:
    """The tables with extremes, quantiles and modes hidden where a guarantee calls them unsafe."""
    changed = {}
    for name in names:
        table = tables.tables[name]
        found: dict[str, Bools] = {}
        for guarantee in tables.guarantees:
            if isinstance(guarantee, PrimaryRule) and name in tables.chosen(guarantee.tables):
                for response, unsafe in guarantee.statistics(table):
                    found[response] = found.get(response, unsafe) | unsafe
        if found:
            changed[name] = table.hiding_statistics(found)
    return tables.having(changed) if changed else tables
