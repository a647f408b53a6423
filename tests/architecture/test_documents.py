"""Documents describe what is there: the index lists every decision, and files that documents name exist."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "docs" / "decisions"
DECISIONS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
NAMED = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
DOCUMENTS = [
    *(PROJECT / name for name in NAMED if (PROJECT / name).exists()),
    *sorted((PROJECT / "docs").rglob("*.md")),
]
# A file of the project within a code span: below one of its folders, or a document at its root.
FILE = re.compile(
    r"(?<![\w/.])((?:privpipe|tests|docs|pipelines|docker|expectations)/[\w/.-]*[\w/]|[A-Z]{2,}\.md)(?![\w*])"
)


def test_the_index_lists_every_decision_once() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(\d{4})\]\(([^)]+)\) \| (.+) \|$", text, re.MULTILINE)
    titles = [re.match(r"# (\d{4})\. (.+)", path.read_text(encoding="utf-8")) for path in DECISIONS]
    assert listed == [(title[1], path.name, title[2]) for path, title in zip(DECISIONS, titles, strict=True) if title]
    assert len(DECISIONS) == len({number for number, _, _ in listed}) > 1


MADE = re.compile(r"(\.\./)*((transforms|models|measures|tables|project)/\w+|catalogue|reference/(python|errors))\.md")
"""Pages that are made while the site is built; its strict build holds links to them."""
EXAMPLE = re.compile(r"^`[\w./]+`[^\n]*\n(?=\n```)", re.MULTILINE)
"""The head of a worked example: a file to be made."""


def test_files_that_documents_name_exist() -> None:
    missing = []
    for path in DOCUMENTS:
        text = EXAMPLE.sub("", path.read_text(encoding="utf-8"))
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        spans = [name for span in re.findall(r"`([^`]+)`", prose) for name in FILE.findall(span)]
        links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", prose)
        lost = [name for name in spans if not (PROJECT / name).exists()]
        lost += [name for name in links if not (path.parent / name).exists() and not MADE.fullmatch(name)]
        missing += [f"{path.relative_to(PROJECT)}: {name}" for name in lost]
    assert missing == []


def test_the_architecture_stays_one_page() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 90
    assert len(text.split()) < 1000


def test_the_architecture_names_every_room() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    package = PROJECT / "privpipe"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    rooms |= {path.stem for path in package.glob("*.py") if not path.stem.startswith("_")}
    table = "\n".join(line for line in text.splitlines() if line.startswith("| `"))
    assert {room for room in rooms if f"`{room}`" not in table} == set()
