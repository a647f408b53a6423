"""One value against one demand, in the words of an error."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from privpipe.errors import UsageError, did_you_mean

__all__ = ["require_choice", "require_integer", "require_number"]


def require_integer(owner: str, name: str, value: Any, *, least: int | None = None, most: int | None = None) -> None:
    """Refuse what is not an integer in [least, most]; True is not 1.

    Raises
    ------
    UsageError
    """
    integral = isinstance(value, int) and not isinstance(value, bool)
    if not integral or (least is not None and value < least) or (most is not None and value > most):
        bounds = f" in [{least}, {most}]"
        if least is None or most is None:
            bounds = f" >= {least}" if least is not None else f" <= {most}" if most is not None else ""
        raise UsageError(f"{owner}: {name} must be an integer{bounds}, got {value!r}")


def require_number(
    owner: str,
    name: str,
    value: Any,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> None:
    """Refuse what is not a finite number with least <= value <= most and above < value < below.

    Raises
    ------
    UsageError
    """
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not (least <= value <= most and above < value < below):
        lower = f"> {above}" if above > -math.inf else f">= {least}" if least > -math.inf else ""
        upper = f"< {below}" if below < math.inf else f"<= {most}" if most < math.inf else ""
        bounds = " and ".join(part for part in (lower, upper) if part) or "finite"
        raise UsageError(f"{owner}: {name} must be a number {bounds}, got {value!r}")


def require_choice(owner: str, name: str, value: Any, choices: Collection[str]) -> None:
    """Refuse what is none of these words.

    Raises
    ------
    UsageError
    """
    if value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise UsageError(f"{owner}: {name} must be one of {', '.join(choices)}, got {value!r}{hint}")
