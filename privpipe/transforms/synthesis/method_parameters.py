"""Which parameters of synthesis go with which method."""

from __future__ import annotations

from typing import Any

from privpipe.errors import UsageError

__all__ = ["check_method"]

CART_ALONE = ("given", "order", "min_leaf", "learn_on", "rules", "zeros")
COPULA_ALONE = ("scores", "levels")
MARGINALS_ALONE = ("epsilon", "delta", "unit", "most_records", "domains")
ALONE = (("cart", CART_ALONE), ("copula", COPULA_ALONE), ("marginals", MARGINALS_ALONE))


def check_method(stage: Any) -> None:
    """Refuse parameters of `Synthesize` that do not go with its method.

    Raises
    ------
    UsageError
    """
    for method, names in ALONE:
        used = [name for name in names if stage.method != method and _differs(stage, name)]
        if used:
            raise UsageError(f"Synthesize: {', '.join(used)} goes with `method: {method}`")
    if stage.method == "marginals":
        _check_private(stage)


def _differs(stage: Any, name: str) -> bool:
    default = type(stage).__dataclass_fields__[name].default
    return bool(getattr(stage, name) != ({} if name in ("domains", "levels") else default))


def _check_private(stage: Any) -> None:
    if stage.epsilon is None or stage.delta is None:
        raise UsageError("Synthesize: method: marginals needs epsilon and delta")
    used = [*(["by"] if stage.by else []), *(["nulls"] if stage.nulls not in (None, "model") else [])]
    if used:
        raise UsageError(f"Synthesize: {', '.join(used)} does not go with `method: marginals`")
    if stage.unit == "record" and stage.most_records != 1:
        raise UsageError("Synthesize: most_records goes with `unit: person`")
