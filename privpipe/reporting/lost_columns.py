"""The table of what each column lost, for people: from a run, or from its private verdict document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privpipe.reporting.figures import public_figure

__all__ = ["LOST_HEAD", "alarm_lines", "lost_rows", "lost_text"]

LOST_HEAD = ("column", "role", "what was done", "labels", "changed", "blanked", "loss", "measured by", "alarm")


def alarm_lines(document: Mapping[str, Any]) -> list[str]:
    """The alarms of a document, a line each.

    Examples
    --------
    >>> alarm_lines({"alarms": ["`town` has one label left of 7"]})
    ['ALARM: `town` has one label left of 7']
    """
    return [f"ALARM: {alarm}" for alarm in document.get("alarms") or ()]


def lost_rows(table: Mapping[str, Any], *, exact: bool = True) -> list[tuple[str, ...]]:
    """A row of cells a column, under `LOST_HEAD`.

    Parameters
    ----------
    table : mapping
        `column_loss` of a private verdict document.
    exact : bool
        Whether shares of fewer than 5 records are shown as they are.

    Examples
    --------
    >>> town = {"column": "town", "role": "sensitive", "done": ["pram"], "labels_before": 7, "labels_after": 6}
    >>> table = {"records": 100, "columns": [{**town, "changed": 0.25, "blanked": 0.01, "loss": 0.5}]}
    >>> lost_rows(table, exact=False)
    [('town', 'sensitive', 'pram', '7 -> 6', '25 %', '< 5 records', '0.5', '', '')]
    """
    records = int(table.get("records") or 0)
    return [
        (
            str(row["column"]),
            str(row["role"]),
            ", ".join(row.get("done") or ()) or "-",
            _labels(row),
            _share(row.get("changed"), records, exact),
            _share(row.get("blanked"), records, exact),
            "-" if row.get("loss") is None else f"{row['loss']:.3g}",
            str(row.get("measured_by") or ""),
            str(row.get("alarm") or "").upper(),
        )
        for row in table.get("columns") or ()
    ]


def lost_text(table: Mapping[str, Any]) -> str:
    """What the figures rest on, in a sentence."""
    if table.get("withheld"):
        return "A model of the policy forbids counts of the source: nothing is compared with it."
    if table.get("records") is None:
        return "Released records cannot be paired with those of the source: labels alone are compared."
    of = "all" if table.get("whole", True) else "a sample"
    return (
        f"Shares and losses are of {of} of the released records beside their originals ({table['records']:,}). "
        "A loss is 0 where all is kept and 1 where nothing is."
    )


def _labels(row: Mapping[str, Any]) -> str:
    before, after = row.get("labels_before"), row.get("labels_after")
    if after is None:
        return "-"
    return f"{after:,}" if before is None else f"{before:,} -> {after:,}"


def _share(value: float | None, records: int, exact: bool) -> str:
    if value is None:
        return "-"
    shown = public_figure(value, records)
    return f"{100 * value:.3g} %" if exact or not shown.startswith("<") else shown
