"""The plain values of a policy, where each is in its file, and what is reported of it there."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from privpipe.blocks import Entry
from privpipe.blocks.verdict import plain
from privpipe.draws.stream import MOST_INTEGER_BITS
from privpipe.errors import PolicyError, Problem, UnsupportedError
from privpipe.hierarchies import Hierarchy, HierarchySpec

__all__ = ["Place", "Report", "decoded", "from_python", "from_yaml", "shown", "written"]


Place = tuple[str | int, ...]
MOST_PROBLEMS = 1_000


def shown(place: Place) -> str:
    """A place as a person writes it.

    Examples
    --------
    >>> shown(("guarantees", 0, "k_anonymity", "k")), shown(())
    ('guarantees[0].k_anonymity.k', '')
    """
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


class Report:
    """Collects everything wrong with a document, so that it is reported at once.

    Parameters
    ----------
    lines : mapping of Place to int
        1-based lines; empty for a document that came from Python.
    file : str or None
        The document's name.
    outer : Place
        Where a part of a document is in the whole.
    """

    def __init__(self, lines: Mapping[Place, int] | None = None, file: str | None = None, outer: Place = ()) -> None:
        self.lines = lines or {}
        self.file = file
        self.outer = outer
        self.warnings: list[str] = []
        self._problems: list[Problem] = []
        self._unsupported = 0

    def wrong(self, place: Place, message: str) -> None:
        """Note a problem.

        Raises
        ------
        PolicyError
            It is one too many: no one reads so long a list, and what is still to be checked may be as long.
        """
        if len(self._problems) == MOST_PROBLEMS:
            last = Problem("", f"more than {MOST_PROBLEMS:,} problems; the rest is not checked", self.file)
            raise PolicyError([*self._problems, last])
        self._problems.append(Problem(shown(place), message, self.file, self.line_of(place)))

    def unsupported(self, place: Place, message: str) -> None:
        """Note a combination that is well-formed but not served."""
        self._unsupported += 1
        self.wrong(place, message)

    def warn(self, place: Place, message: str) -> None:
        """Note something legal that is seldom meant."""
        whole = shown((*self.outer, *place))
        self.warnings.append(str(Problem(whole, message, self.file, self.line_of(place))))

    def located(self, place: Place) -> str:
        """A place as shown in an error: with its file and line, if there are any."""
        line, whole = self.line_of(place), shown((*self.outer, *place))
        if self.file is None:
            return whole
        return f"{self.file}: {whole}" if line is None else f"{self.file}:{line}: {whole}"

    def line_of(self, place: Place) -> int | None:
        """Line of the place, else of the nearest one around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)

    @property
    def is_wrong(self) -> bool:
        """Whether a problem was noted."""
        return bool(self._problems)

    @contextlib.contextmanager
    def within(self, place: Place) -> Iterator[Report]:
        """A report on a part of the document; what it finds wrong, or is raised for it, is noted here in its place."""
        depth = len(place)
        lines = {each[depth:]: line for each, line in self.lines.items() if each[:depth] == place}
        inner = Report(lines, self.file, (*self.outer, *place))
        try:
            yield inner
        except (PolicyError, UnsupportedError):
            self._unsupported += inner._unsupported
        for problem in inner._problems:
            where = f"{shown(place)}.{problem.path}" if problem.path else shown(place)
            line = self.line_of(place) if problem.line is None else problem.line
            self._problems.append(dataclasses.replace(problem, path=where, line=line))
        self.warnings += inner.warnings

    def raise_if_wrong(self) -> None:
        """Raise what was found, in the order of the lines.

        Raises
        ------
        PolicyError
            Any problem; the error carries them all.
        UnsupportedError
            Only combinations that are not supported.
        """
        if self._problems:
            self._raise()

    def _raise(self) -> NoReturn:
        problems = sorted(self._problems, key=lambda problem: problem.line or 0)
        if self._unsupported == len(problems):
            raise UnsupportedError("\n".join(map(str, problems)))
        raise PolicyError(problems)


CORE = "tag:yaml.org,2002:"
MERGE = f"{CORE}merge"
NUMBERS = (f"{CORE}int", f"{CORE}float")
LONGEST_NUMBER = 2_100
NULLS = ("", "~", "null", "Null", "NULL")
MOST_VALUES = 100_000  # aliases of aliases grow a short text without bound
MOST_NODES = 120_000  # keys and values as they are written; a larger hierarchy or list is in a file
_HALVES = re.compile("[\ud800-\udfff]")
DEEPEST = 50  # what reads a document follows it down


def decoded(raw: bytes, file: str, what: str) -> str:
    """The text of a file.

    Raises
    ------
    PolicyError
        Not UTF-8; the line is that of the first byte which is not.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise PolicyError([Problem("", f"the {what} file is not UTF-8 text", file, line)]) from None


def from_yaml(text: str, file: str | None) -> tuple[Any, Report]:
    """The document of a YAML text, and a report that knows its lines.

    Aliases are followed and merge keys resolved; keys given twice, tags, non-finite numbers and texts that no column
    or path can be called are noted.

    Raises
    ------
    PolicyError
        The text is not YAML, holds several documents, is nested too deeply, or refers to itself.

    Examples
    --------
    >>> document, report = from_yaml("a: [1, x]\\nb: {c: true}", "release.yaml")
    >>> document, report.lines[("b", "c")]
    ({'a': [1, 'x'], 'b': {'c': True}}, 2)
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _Counted
    try:
        node = yaml.compose(text)
    except _TooLarge as error:
        raise PolicyError([Problem("", TOO_LARGE, file, error.line)]) from None
    except YAMLError as error:
        raise PolicyError([_syntax(error, file, text)]) from None
    except RecursionError:
        raise PolicyError([Problem("", TOO_DEEP, file, _deep_line(text))]) from None
    except (ValueError, OverflowError):  # an escape beyond Unicode
        problem = "not valid YAML: an escape that represents no character"
        raise PolicyError([Problem("", problem, file, _deep_line(text, math.inf))]) from None
    tree = _Tree(yaml, Report({}, file))
    document = tree.value(node, ()) if node is not None else None
    return document, tree.report


TOO_LARGE = f"more than {MOST_NODES:,} keys and values; put large hierarchies into files"


class _TooLarge(Exception):
    def __init__(self, line: int) -> None:
        self.line = line
        super().__init__(TOO_LARGE)


class _Counted(Composer):
    """Gives up where a text holds too many nodes, before the rest of it is read."""

    nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise _TooLarge(int(self.parser.peek_event().start_mark.line) + 1)
        return super().compose_node(parent, index)


TOO_DEEP = f"nested too deeply: {DEEPEST} levels are read"


def _deep_line(text: str, deepest: float = DEEPEST) -> int:
    """Where a text is first nested too deeply, or cannot be read on; the scanner does not recurse."""
    depth, line = 0, 0
    with contextlib.suppress(YAMLError, ValueError, OverflowError):
        for token in YAML(typ="safe", pure=True).scan(text):
            kind, line = type(token).__name__, int(token.start_mark.line)
            depth += ("Start" in kind) - ("End" in kind)
            if depth > deepest + 1:  # the stream itself is one
                break
    return line + 1


def _syntax(error: YAMLError, file: str | None, text: str) -> Problem:
    """The parser's message without its excerpt of the text, which may hold a secret."""
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        odd = f"the control character U+{ord(text[error.position]):04X} cannot be in a text file"
        return Problem("", f"not valid YAML: {odd}", file, line)
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) if isinstance(error, MarkedYAMLError) else None
    context = getattr(error, "context", None)
    message = f"not valid YAML: {what or 'it cannot be read'}{f' ({context})' if context else ''}"
    if what and "\\t" in what:
        message += "; indent with blanks, not with tabs"
    return Problem("", message, file, mark.line + 1 if mark else None)


class _Tree:
    """Turns the nodes of one text into values and remembers their lines."""

    def __init__(self, yaml: YAML, report: Report) -> None:
        self.yaml = yaml
        self.report = report
        self.lines: dict[Place, int] = {}
        report.lines = self.lines
        self.merging = 0
        self.open: set[int] = set()
        self.values = 0

    def value(self, node: Node, place: Place, line: int | None = None) -> Any:
        """The value of a node; `line` is that of its key, where it has one."""
        here = self.note(place, line or node.start_mark.line + 1)
        self.values += 1
        if id(node) in self.open or self.values > MOST_VALUES:
            raise PolicyError(
                [Problem("", "aliases that refer to themselves or grow too large", self.report.file, here)]
            )
        if len(self.open) >= DEEPEST:
            raise PolicyError([Problem("", TOO_DEEP, self.report.file, here)])
        self.open.add(id(node))
        try:
            if not self.plainly_tagged(node):
                self.report.wrong(place, _tag_problem(node.tag))
                return None
            if isinstance(node, MappingNode):
                return self.mapping(node, place)
            if isinstance(node, SequenceNode):
                return [self.value(item, (*place, at)) for at, item in enumerate(node.value)]
            return self.scalar(node, place)
        finally:
            self.open.discard(id(node))

    def note(self, place: Place, line: int) -> int:
        """Keep the line of a place; what is merged into a mapping does not move what is written in it."""
        if not self.merging or place not in self.lines:
            self.lines[place] = line
        return line

    def plainly_tagged(self, node: Node) -> bool:
        """Whether a node is tagged as what it is, or not at all."""
        if isinstance(node, ScalarNode):
            return bool(node.tag != f"{CORE}null" or node.value in NULLS)
        return bool(node.tag == f"{CORE}{'map' if isinstance(node, MappingNode) else 'seq'}")

    def mapping(self, node: MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key, item in node.value:
            line = key.start_mark.line + 1
            if key.tag == MERGE:
                continue
            if not isinstance(key, ScalarNode):
                self.note(place, line)
                self.report.wrong(place, "a key must be text, not a list or mapping")
                continue
            name = str(key.value)  # as written, so that a column may be called 2020
            self.note((*place, name), line)
            if tagged := "" if str(key.tag).startswith(CORE) else _tag_problem(key.tag):
                self.report.wrong((*place, name), tagged)
            if wrong := _text_problem(name):
                self.report.wrong(place, f"a key {wrong}")
                continue
            if name in first:
                self.report.wrong((*place, name), f"this key is given twice, first in line {first[name]}")
                continue
            first[name] = line
            found[name] = self.value(item, (*place, name), line)
        for name, merged in self.merged(node, place).items():
            found.setdefault(name, merged)
        return found

    def merged(self, node: MappingNode, place: Place) -> dict[str, Any]:
        """What `<<:` adds: explicit keys and earlier mappings win."""
        found: dict[str, Any] = {}
        for key, item in node.value:
            if key.tag != MERGE:
                continue
            parts = item.value if isinstance(item, SequenceNode) else [item]
            for part in parts:
                if not isinstance(part, MappingNode):
                    self.report.wrong(place, "`<<` takes a mapping or a list of mappings")
                    continue
                self.merging += 1
                for name, merged in self.value(part, place).items():
                    found.setdefault(name, merged)
                self.merging -= 1
        return found

    def scalar(self, node: Node, place: Place) -> Any:
        if len(node.value) > LONGEST_NUMBER and str(node.tag) in NUMBERS:
            # The parts of a sexagesimal, or decimal digits, cost the square of their number.
            self.report.wrong(place, f"is a number of more than {LONGEST_NUMBER:,} characters; put a text in quotes")
            return None
        try:
            value = self.yaml.constructor.construct_object(node)
        except (YAMLError, ValueError, LookupError, ArithmeticError, TypeError, AttributeError):
            # What the text of a tagged or half-recognised value fails on is the library's affair.
            self.report.wrong(place, _tag_problem(node.tag))
            return None
        return _scalar(value, place, self.report)


def _tag_problem(tag: object) -> str:
    return f"a value of the kind {tag} cannot be in a policy; use text or a number"


def from_python(value: Any, place: Place, report: Report) -> Any:
    """A Python document as plain values: tuples are lists, paths and dates text.

    Raises
    ------
    PolicyError
        Nested too deeply, or into itself.

    Examples
    --------
    >>> from_python({"columns": ("age", "zip")}, (), Report())
    {'columns': ['age', 'zip']}
    """
    if len(place) > DEEPEST:
        raise PolicyError([Problem("", TOO_DEEP, report.file)])
    if isinstance(value, Entry | Hierarchy | HierarchySpec):
        value = written(value)
    if isinstance(value, Mapping):
        found = {}
        for key, item in value.items():
            if not isinstance(key, str):
                report.wrong(place, f"a key must be text, not {type(key).__name__}")
            elif wrong := _text_problem(key):
                report.wrong(place, f"a key {wrong}")
            else:
                found[key] = from_python(item, (*place, key), report)
        return found
    if isinstance(value, list | tuple):
        return [from_python(item, (*place, at), report) for at, item in enumerate(value)]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    return _scalar(value, place, report)


def written(value: Entry | Hierarchy | HierarchySpec) -> dict[str, Any]:
    """An object as a document has it: an entry under its name, without what it leaves at its default.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> written(KAnonymity(k=5))
    {'k_anonymity': {'k': 5}}
    """
    if isinstance(value, Hierarchy):
        value = HierarchySpec.from_hierarchy(value)
    if isinstance(value, HierarchySpec):
        return value.to_document()
    return {value.name(): _given(value)}


def _given(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that are not at their default, options within likewise."""
    found = {}
    for each in dataclasses.fields(value):
        if not each.init:
            continue
        held = getattr(value, each.name)
        default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
        if default is dataclasses.MISSING or held != default or type(held) is not type(default):
            found[each.name] = _given(held) if dataclasses.is_dataclass(held) else plain(held)
    return found


def _scalar(value: Any, place: Place, report: Report) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        report.wrong(place, "must be a finite number")
        return None
    if isinstance(value, str) and (wrong := _text_problem(value)):
        report.wrong(place, wrong)
        return None
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        if place[:1] != ("seed",):
            report.wrong(place, "is a whole number beyond 64 bits")
            return None
        if value.bit_length() > MOST_INTEGER_BITS:
            report.wrong(place, f"is a whole number beyond {MOST_INTEGER_BITS:,} bits; write it as text, in quotes")
            return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    report.wrong(place, f"must be text, a number, a list or a mapping, not {type(value).__name__}")
    return None


def _text_problem(text: str) -> str:
    """What keeps a text from being a name, a path or a value anywhere, or nothing.

    Examples
    --------
    >>> _text_problem("a" + chr(0)), _text_problem(chr(0xD800)), _text_problem("age")
    ('holds the character NUL', 'holds half of a surrogate pair, which is not a character', '')
    """
    if "\0" in text:
        return "holds the character NUL"
    return "holds half of a surrogate pair, which is not a character" if _HALVES.search(text) else ""
