"""One number for an observed figure; shares that rest on few records are shown as such."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["FEW", "FEWEST_SHOWN", "leading_figure", "public_figure"]

LEADING = ("loss", "share", "risk", "gain", "figure", "highest", "k", "average")
FEWEST_SHOWN = 5
FEW = "< 5 records"


def leading_figure(observed: Any) -> float | None:
    """The figure that a threshold is compared with, of a figure alone or of several under names; None without one.

    Examples
    --------
    >>> leading_figure(3), leading_figure({"columns": {"a": 0.1}, "loss": 0.2}), leading_figure(None)
    (3.0, 0.2, None)
    """
    if isinstance(observed, Mapping):
        named = [observed[name] for name in LEADING if name in observed]
        found = (leading_figure(value) for value in (*named, *observed.values()) if not isinstance(value, Mapping))
        return next((value for value in found if value is not None), None)
    if isinstance(observed, bool) or not isinstance(observed, int | float):
        return None
    return float(observed)


def public_figure(value: Any, records: int, *, share: bool = True) -> str:
    """A figure in a few characters, a share or count of fewer than 5 records as ``< 5 records``.

    Parameters
    ----------
    value : float, int, mapping, list, str or None
    records : int
        What a share is of.
    share : bool
        Whether figures between 0 and 1 are shares of records.

    Examples
    --------
    >>> public_figure(0.25, 100), public_figure(0.03, 100), public_figure(0.03, 100, share=False)
    ('0.25', '< 5 records', '0.03')
    >>> public_figure({"share": 0.5, "columns": {"age": 0.01}}, 100)
    'share 0.5, columns (age < 5 records)'
    """
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        first = [name for name in LEADING if name in value]
        order = [*first, *(name for name in value if name not in first)]
        return ", ".join(_named(str(name), value[name], records, share) for name in order)
    if isinstance(value, list | tuple):
        return ", ".join(public_figure(item, records, share=share) for item in value)
    if isinstance(value, bool | str):
        return str(value)
    if share and 0 < value < 1 and value * records < FEWEST_SHOWN - 1e-9:
        return FEW
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _named(name: str, value: Any, records: int, share: bool) -> str:
    share = share or name.endswith("share")
    counts = share and isinstance(value, int) and not isinstance(value, bool) and 0 < value < FEWEST_SHOWN
    shown = FEW if counts else public_figure(value, records, share=share)
    return f"{name} ({shown})" if isinstance(value, Mapping) else f"{name} {shown}"
