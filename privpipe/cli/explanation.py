"""``privpipe.explain``: what the command shows, in Python."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from privpipe.blocks import Entry
from privpipe.blocks.entry import snake_case
from privpipe.border import bordered
from privpipe.cli.explain import described, explained_lines, listed_lines, summaries
from privpipe.errors import UsageError

__all__ = ["Explanation", "explain"]


class Explanation:
    """What is known of an entry; a notebook shows it as text.

    Parameters
    ----------
    document : mapping
        As ``privpipe explain --json`` prints it.
    text : str
    """

    def __init__(self, document: Mapping[str, Any], text: str) -> None:
        self.document = document
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


@bordered
def explain(entry: Any = None) -> Explanation:
    """Explain an entry, a hierarchy builder or a section of a policy, as the command ``privpipe explain`` does.

    Parameters
    ----------
    entry : str, Entry, type of Entry, or function of `privpipe.observe`, optional
        A name as in a policy or of a class, the class, or an object of it. Left out: every name with a line on it.

    Returns
    -------
    Explanation
        `text` and `document`; printed, it is the text.

    Raises
    ------
    UsageError
        Nothing has the name; the nearest one is offered.

    Examples
    --------
    >>> import privpipe as pp
    >>> print(pp.explain("KAnonymity").text.splitlines()[0])
    k_anonymity - privacy model (identity)
    >>> pp.explain(pp.KAnonymity(k=5)).document == pp.explain("k_anonymity").document
    True
    """
    if entry is None:
        return Explanation(summaries(), "\n".join(listed_lines()))
    document = described(_name_of(entry))
    return Explanation(document, "\n".join(explained_lines(document)))


def _name_of(entry: Any) -> str:
    if isinstance(entry, str):
        return snake_case(entry) if entry[:1].isupper() else entry
    kind = entry if isinstance(entry, type) else type(entry)
    if issubclass(kind, Entry):
        return kind.name()
    if callable(entry) and hasattr(entry, "__name__"):
        return str(entry.__name__)
    raise UsageError("give a name, as in explain('k_anonymity'), an entry or its class")
