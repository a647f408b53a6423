"""The errors of privpipe: one tree, one exit code a branch.

::

    PrivpipeError                     1  a bug of ours, when raised bare
    ├── UsageError                    2  what can be known without the data
    │   ├── PolicyError                  the policy document; carries every problem found
    │   ├── RolesError                   roles that contradict each other
    │   └── UnsupportedError             a combination an engine or method does not serve
    ├── DataError                     3  what only the data shows
    │   └── HierarchyError               an ill-formed or incomplete hierarchy
    ├── EngineError                   4  an engine or the file system broke down
    │   ├── SinkError                    the target could not be written or is being written by another run
    │   └── InternalError             1  an error that was not foreseen: a bug of ours; another try is of no use
    ├── Refused                       5  a guarantee does not hold; carries the assessment
    │   └── ColumnsLost                  every guarantee holds, and a column lost more than the policy allows
    ├── NoSolutionError               6  nothing within the limits meets the guarantees
    ├── SignOffMissing                7  a release that needs a signature has none
    └── NotWithdrawn                  8  a release that went wrong could not be taken back; a person has to see to it

No message ever holds a cell value of the data: a log is a release too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = [
    "ColumnsLost",
    "DataError",
    "EngineError",
    "HierarchyError",
    "InternalError",
    "NoSolutionError",
    "NotWithdrawn",
    "PolicyError",
    "PrivpipeError",
    "Problem",
    "Refused",
    "RolesError",
    "SignOffMissing",
    "SinkError",
    "UnsupportedError",
    "UsageError",
    "did_you_mean",
    "escaped",
]


def escaped(text: str, *, keep: str = "") -> str:
    r"""A text that is safe to show in a terminal, a log or a page: characters that are not printable are escaped.

    A name can hold what moves the cursor, turns the direction of reading or ends a line, and so make a line say
    what no one said.

    Parameters
    ----------
    keep : str
        Characters to leave unchanged, such as line ends between our own lines.

    Examples
    --------
    >>> escaped("a\x1b[31m\u202eb\nc"), escaped("größe 年"), escaped("a\nb", keep="\n") == "a\nb"
    ('a\\x1b[31m\\u202eb\\nc', 'größe 年', True)
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode() for sign in text
    )


class PrivpipeError(Exception):
    """Root of the tree; `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 1


class UsageError(PrivpipeError):
    """Wrong whatever the data is: policy, arguments, parameters, combinations."""

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a policy document.

    Parameters
    ----------
    path : str
        Place in the document, as in ``guarantees[0].k_anonymity.k``.
    message : str
        What is wrong and what to do.
    file : str or None
        The document's name, when it came from a file.
    line : int or None
        1-based line in that file.
    """

    path: str
    message: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = f"{self.file or 'policy'}:{self.line}" if self.line is not None else self.file or "policy"
        return escaped(f"{place}: {self.path or '(top level)'}: {self.message}")


class PolicyError(UsageError):
    """Every problem of a policy document at once, each with its path and line."""

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        if isinstance(problems, str):
            problems = [Problem(path="", message=problems)]
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class RolesError(UsageError):
    """Roles that contradict each other or the columns they name."""


class UnsupportedError(UsageError):
    """A combination that this engine or method does not support; the message names one that does."""


class DataError(PrivpipeError):
    """Errors that only the data shows: columns, nulls, types, an empty input; `column`: the one concerned."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, *, column: str = "") -> None:
        self.column = column
        super().__init__(message)


class HierarchyError(DataError):
    """An ill-formed or incomplete hierarchy; `kind` names the rule it broke."""

    def __init__(self, message: str, *, kind: str = "") -> None:
        self.kind = kind
        super().__init__(message)


class EngineError(PrivpipeError):
    """An engine or the file system failed; there is no verdict."""

    exit_code: ClassVar[int] = 4


class SinkError(EngineError):
    """The target cannot be written, or another run is writing it."""


class InternalError(EngineError):
    """An unforeseen error, which is a bug in privpipe; the message has its class and place, never its text."""

    exit_code: ClassVar[int] = 1


class Refused(PrivpipeError):
    """A guarantee does not hold; nothing was published. `assessment` shows which and by how much.

    `record` is the folder of the run's private record, where one was kept.
    """

    exit_code: ClassVar[int] = 5

    def __init__(self, message: str, assessment: Any = None, record: str = "") -> None:
        self.assessment = assessment
        self.record = record
        super().__init__(message)


class ColumnsLost(Refused):
    """A column lost all its information, or more than `utility:` of the policy allows; nothing was published."""


class NotWithdrawn(PrivpipeError):
    """Readers see, or may see, a release that was not judged as published and could not be withdrawn.

    Another run does not repair it, and one that appends would publish the same rows again.
    """

    exit_code: ClassVar[int] = 8


class NoSolutionError(PrivpipeError):
    """No transformation within the limits meets the guarantees; the message shows what would be attainable."""

    exit_code: ClassVar[int] = 6


class SignOffMissing(PrivpipeError):
    """An officer's policy requires signatures that are missing or not valid.

    `waiting` is the folder in which the staged run waits, where it was staged just now; `assessment` is of that run.
    """

    exit_code: ClassVar[int] = 7

    def __init__(self, message: str, assessment: Any = None, waiting: str = "") -> None:
        self.assessment = assessment
        self.waiting = waiting
        super().__init__(message)


MOST_CANDIDATES, LONGEST_MISTAKE = 1_000, 200
"""Names that are compared letter by letter, and letters of one that is sought."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest known name as the end of a sentence, or nothing.

    Examples
    --------
    >>> did_you_mean("k_anonimity", ["k_anonymity", "t_closeness"])
    "; did you mean 'k_anonymity'?"
    >>> did_you_mean("zzz", ["k_anonymity"])
    ''
    """
    candidates = list(known)
    folded = {candidate.casefold(): candidate for candidate in candidates}
    if name.casefold() in folded:
        return f"; did you mean {folded[name.casefold()]!r}?"
    if len(candidates) > MOST_CANDIDATES or len(name) > LONGEST_MISTAKE:
        return ""  # it would take minutes to be friendly
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
