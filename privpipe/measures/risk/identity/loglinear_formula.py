"""Formulas of log-linear models: ``a + b + a*c``."""

from __future__ import annotations

import re

from privpipe.errors import UsageError

__all__ = ["terms_of", "variables_of"]

TOKEN = re.compile(r"\s*(`[^`]*`|[^\s+*:~`][^+*:~`]*|[+*:~])")


def terms_of(formula: str) -> tuple[tuple[str, ...], ...]:
    """Columns of each term.

    Terms are parted by ``+``; ``a*b`` and ``a:b`` let the joint counts of a and b be as they are, which holds the
    columns' own counts too. A name with a sign in it stands in backquotes; a leading ``~`` may stand.

    Raises
    ------
    UsageError
        A term without a name, or a sign where none can be.

    Examples
    --------
    >>> terms_of("~ sex + age*zip + `a+b`")
    (('sex',), ('age', 'zip'), ('a+b',))
    """
    text = formula.strip().removeprefix("~")
    terms: list[list[str]] = [[]]
    at, wanted = 0, True
    while text[at:].strip():
        found = TOKEN.match(text, at)
        if found is None:
            raise UsageError("formula: a backquote is not closed")
        token, at = found.group(1).strip(), found.end()
        if (token in "+*:~") == wanted or token == "~":
            raise UsageError(
                f"formula: {'a column name' if wanted else 'one of + * :'} must stand where {token!r} does; "
                "terms are parted by +, columns of a term by *"
            )
        if token == "+":
            terms.append([])
        elif token not in "*:":
            terms[-1].append(token.strip("`"))
        wanted = not wanted
    if wanted or any(not name for term in terms for name in term):
        raise UsageError("formula: a column name is missing; write for example a + b + a*c")
    return tuple(tuple(dict.fromkeys(term)) for term in terms)


def variables_of(formula: str) -> tuple[str, ...]:
    """Columns of a formula, each once.

    Examples
    --------
    >>> variables_of("a + b + a*c")
    ('a', 'b', 'c')
    """
    return tuple(dict.fromkeys(name for term in terms_of(formula) for name in term))
