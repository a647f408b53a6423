"""What a saved expectation says of itself to whoever reads the suite: its threshold, its meaning and its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privpipe.blocks import Guarantee
from privpipe.blocks.verdict import plain

__all__ = ["MEANT", "meaning_of"]

MEANT = "privpipe"
"""The key of an expectation's meta under which it stands."""
TOLD = {"threat": "guards_against", "formula": "rule", "source": "source"}


def meaning_of(entry: type[Guarantee], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Threshold, what it means in a sentence, against what it guards, its rule and its source, as `explain` has them.

    Parameters
    ----------
    entry : type of Guarantee
    parameters : mapping
        Of the expectation; a threshold may be a parameter of the run.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> found = meaning_of(KAnonymity, {"k": 5})
    >>> found["threshold"], found["means"] == KAnonymity.summary()
    ({'k': 5}, True)
    """
    given = [name for name in entry.other_thresholds if parameters.get(name) is not None]
    field = given[0] if given else entry.threshold_field
    asked = {} if field is None else {"threshold": {field: plain(parameters.get(field))}}
    said = {key: " ".join(str(getattr(entry, name, "") or "").split()) for name, key in TOLD.items()}
    return {**asked, "means": entry.summary(), **{key: text for key, text in said.items() if text}}
