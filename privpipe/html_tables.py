"""Plain tables in HTML for notebooks: every text escaped, no script, no style, nothing from outside."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privpipe.errors import escaped

__all__ = ["LONGEST_CELL", "MOST_ROWS", "Table", "cut", "figure", "html_tables", "short_list"]

MOST_ROWS = 50
LONGEST_CELL = 300


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a head; a table without a head names what each row says in its first cell.

    Parameters
    ----------
    title : str
    head : tuple of str
    rows : sequence of sequence
        Texts unchanged, all else as `figure` writes it.

    Examples
    --------
    >>> Table(head=("column", "role"), rows=[("age", "sensitive")]).html()
    '<table><tr><th>column</th><th>role</th></tr><tr><td>age</td><td>sensitive</td></tr></table>'
    """

    title: str = ""
    head: tuple[str, ...] = ()
    rows: Sequence[Sequence[Any]]

    def html(self) -> str:
        """The table; rows beyond `MOST_ROWS` are counted."""
        caption = f"<caption>{_text(self.title)}</caption>" if self.title else ""
        shown = [self._row(row) for row in self.rows[:MOST_ROWS]]
        more = len(self.rows) - len(shown)
        if more:
            width = max(map(len, self.rows))
            shown.append(f'<tr><td colspan="{width}">and {more:,} more</td></tr>')
        head = f"<tr>{''.join(_cell('th', name) for name in self.head)}</tr>" if self.head else ""
        return f"<table>{caption}{head}{''.join(shown)}</table>"

    def _row(self, row: Sequence[Any]) -> str:
        first = "td" if self.head else "th"
        return f"<tr>{''.join(_cell('td' if at else first, value) for at, value in enumerate(row))}</tr>"


def html_tables(title: str, *tables: Table, notes: Sequence[str] = ()) -> str:
    """A title, the tables that have rows, and one line per note.

    Examples
    --------
    >>> html_tables("<b>", notes=["1 & 2"])
    '<div class="tex2jax_ignore mathjax_ignore"><p><b>&lt;b&gt;</b></p><p>1 &amp; 2</p></div>'
    """
    parts = [f"<p><b>{_text(title)}</b></p>"]
    parts += [table.html() for table in tables if table.rows]
    parts += [f"<p>{_text(note)}</p>" for note in notes]
    # Notebooks read formulas between dollar signs; a name may hold them.
    return f'<div class="tex2jax_ignore mathjax_ignore">{"".join(parts)}</div>'


def cut(text: str, most: int = LONGEST_CELL) -> str:
    r"""A text as a page or a terminal may show it, of at most so many characters.

    Examples
    --------
    >>> cut("a\nb"), cut("abcdefgh", 6)
    ('a\\nb', 'abc...')
    """
    safe = escaped(text[: most + 1])
    return safe if len(safe) <= most else f"{safe[: most - 3]}..."


def short_list(names: Sequence[str], most: int = 5, longest: int = 30) -> str:
    """The first of some names, and how many more there are.

    Examples
    --------
    >>> short_list(["age", "zip"]), short_list(["a", "b", "c"], most=2)
    ('age, zip', 'a, b and 1 more')
    """
    shown = ", ".join(cut(str(name), longest) for name in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def figure(value: Any) -> str:
    """A figure in a few characters.

    Examples
    --------
    >>> figure(30162), figure(0.123456789), figure(None), figure({"average": 0.5})
    ('30,162', '0.123457', '-', 'average 0.5')
    """
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {figure(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(figure, value))
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _cell(tag: str, value: Any) -> str:
    return f"<{tag}>{_text(value if isinstance(value, str) else figure(value))}</{tag}>"


def _text(text: str) -> str:
    return html.escape(cut(text), quote=True)
