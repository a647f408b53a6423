"""Rules that a page must meet to be read by everyone: an own reader, so that no tool must be fetched."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

__all__ = ["Page", "contrast", "faults_of", "read"]

VOID = {"meta", "br", "link", "img", "input", "hr", "col", "wbr"}
SECTIONING = {"header", "main", "nav", "section", "footer"}
WHITE = "#fff"


@dataclass
class Page(HTMLParser):
    """What a page holds."""

    lang: str = ""
    ids: set[str] = field(default_factory=set)
    twice: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    open: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    referred: set[str] = field(default_factory=set)
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._table: dict[str, int] | None = None
        self._text: list[list[str]] = []

    @property
    def text(self) -> str:
        """All that is read, its blanks made one."""
        return " ".join("".join(self.parts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            (self.twice.append(given["id"]) if given["id"] in self.ids else self.ids.add(given["id"]))
        self.referred |= set(given.get("aria-labelledby", "").split())
        self._check(tag, given)
        if tag not in VOID and not (
            tag in ("rect", "circle", "line", "polygon") and self.get_starttag_text().endswith("/>")
        ):  # type: ignore[union-attr]
            self.open.append((tag, given))
            self._text.append([])
        if tag in ("td", "th", "p", "li", "dt", "dd", "br", "h1", "h2", "h3", "strong", "caption"):
            self.parts.append(" ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._check(tag, {name: value or "" for name, value in attrs})

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1][0] in ("style", "title", "desc"):
            if self.open[-1][0] == "title" and not any(tag == "svg" for tag, _ in self.open):
                self.title += data
            return
        self.parts.append(data)
        for each in self._text:
            each.append(data)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1][0] != tag:
            self.faults.append(f"</{tag}> closes {self.open[-1][0] if self.open else 'nothing'}")
            return
        _, given = self.open.pop()
        said = "".join(self._text.pop()).strip()
        if tag in ("td", "th", "p", "li", "dt", "dd", "h1", "h2", "h3", "strong", "caption"):
            self.parts.append(" ")
        if tag == "a":
            self.links.append((given.get("href", ""), said))
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append((int(tag[1]), said))
        if tag in ("th", "caption", "button", "summary") and not said:
            self.faults.append(f"<{tag}> is empty")
        if tag == "tr" and self._table is not None:
            if self._table["row"] != self._table.setdefault("columns", self._table["row"]):
                self.faults.append("rows of a table have different numbers of cells")
            self._table["row"] = 0
        if tag == "table":
            self._table = None

    def _check(self, tag: str, given: dict[str, str]) -> None:
        if tag == "html":
            self.lang = given.get("lang", "")
        if tag == "table":
            self._table = {"row": 0}
        if tag in ("td", "th") and self._table is not None:
            self._table["row"] += int(given.get("colspan", "1"))
            if tag == "th" and given.get("scope") not in ("col", "row"):
                self.faults.append("<th> without a scope")
        told = given.get("role") == "img" and given.get("aria-label")
        if tag == "svg" and not told and given.get("aria-hidden") != "true":
            self.faults.append("an image without an alternative text")
        if tag == "img" and "alt" not in given:
            self.faults.append("an image without an alternative text")
        if given.get("tabindex", "0") != "0":
            self.faults.append("an order of the keyboard of its own")
        if given.get("tabindex") == "0" and not given.get("aria-labelledby"):
            self.faults.append("something that takes the keyboard and has no name")
        if any(name.startswith("on") for name in given):
            self.faults.append("a handler of events")


def read(page: str) -> Page:
    """A page, read."""
    found = Page()
    found.feed(page)
    found.close()
    return found


def faults_of(page: str) -> list[str]:
    """What keeps some people from reading a page."""
    found = read(page)
    faults = list(found.faults)
    if not found.lang:
        faults.append("no language")
    if not found.title.strip():
        faults.append("no title")
    faults += [f"id {name!r} stands twice" for name in found.twice]
    faults += [f"nothing is called {name!r}" for name in found.referred - found.ids]
    faults += [
        f"a link leads nowhere: {href}" for href, _ in found.links if href[:1] != "#" or href[1:] not in found.ids
    ]
    faults += [f"a link without words: {href}" for href, said in found.links if not said]
    levels = [level for level, _ in found.headings]
    if levels.count(1) != 1 or levels[:1] != [1]:
        faults.append("not one first heading")
    faults += [f"a heading jumps from {a} to {b}" for a, b in pairwise(levels) if b > a + 1]
    faults += [f"an empty heading of level {level}" for level, said in found.headings if not said]
    if found.open:
        faults.append(f"not closed: {found.open}")
    return faults + _colours(page)


def _colours(page: str) -> list[str]:
    """Text against its ground at 4.5 to 1, and what is drawn against white at 3 to 1 where it alone tells."""
    style = page[page.index("<style>") : page.index("</style>")]
    faults = []
    for rule, body in re.findall(r"([^{}]+)\{([^{}]*)\}", style):
        colour = re.search(r"(?<![-\w])color: (#\w+)", body)
        ground = re.search(r"background: (#\w+)", body)
        if colour and contrast(colour[1], ground[1] if ground else WHITE) < 4.5:
            faults.append(f"too little contrast of {rule.strip()}")
    for kind in ("after", "chosen", "other"):
        fill = re.search(rf"\.{kind} {{ fill: (#\w+)", style)
        if fill is None or contrast(fill[1], WHITE) < 3:
            faults.append(f"too little contrast of the marks of {kind}")
    stroke = re.search(r"\.before {[^}]*stroke: (#\w+)", style)
    if stroke is None or contrast(stroke[1], WHITE) < 3:
        faults.append("too little contrast of the bars before")
    return faults


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two colours by WCAG 2.2."""
    lights = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lights[0] + 0.05) / (lights[1] + 0.05)


def _luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(each * 2 for each in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
