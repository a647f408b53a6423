"""How a job ended: the word, the exit code, and what may be shown of it where a scheduler keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from privpipe.errors import (
    DataError,
    EngineError,
    NoSolutionError,
    NotWithdrawn,
    PrivpipeError,
    Refused,
    SignOffMissing,
    UsageError,
)

__all__ = ["KILLED", "Ending", "Word"]

Word = Literal[
    "published", "passed", "crash", "usage", "data", "engine", "refused", "no_solution", "unsigned", "not_withdrawn"
]
WORDS: Mapping[int, Word] = {
    1: "crash",
    UsageError.exit_code: "usage",
    DataError.exit_code: "data",
    EngineError.exit_code: "engine",
    Refused.exit_code: "refused",
    NoSolutionError.exit_code: "no_solution",
    SignOffMissing.exit_code: "unsigned",
    NotWithdrawn.exit_code: "not_withdrawn",
}
ERRORS: Mapping[str, type[PrivpipeError]] = {
    "usage": UsageError,
    "data": DataError,
    "engine": EngineError,
    "refused": Refused,
    "no_solution": NoSolutionError,
    "unsigned": SignOffMissing,
    "not_withdrawn": NotWithdrawn,
}
KILLED = 143
"""The exit code of a process that SIGTERM ended."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The end of a job.

    Parameters
    ----------
    code : int
        The exit code, as of the command line; above 128 or below 0 a signal ended the process.
    word : str
        What it means.
    message : str
        For a log: names and counts, never a value of the data.
    run_id, name, path, report : str
        The run, the policy's name, where the release and its report are read; empty where there is none.
    figures : mapping
        Of the public edition of the verdict alone.

    Examples
    --------
    >>> Ending.of_code(5).word, Ending.of_code(5).worth_another_try
    ('refused', False)
    >>> [Ending.of_code(code).worth_another_try for code in (1, 2, 3, 4, 6, 7, 8, -9, 137, 143)]
    [False, False, False, True, False, False, False, True, True, True]
    """

    code: int
    word: Word
    message: str = ""
    run_id: str = ""
    name: str = ""
    path: str = ""
    report: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_code(cls, code: int, message: str = "") -> Self:
        """What an exit code other than 0 means; a signal counts as a breakdown."""
        killed = code < 0 or code > 128
        word: Word = "engine" if killed else WORDS.get(code, "crash")
        said = f"the process of the release was ended by a signal (exit code {code})" if killed else f"exit code {code}"
        if code == NotWithdrawn.exit_code:
            end = "readers may see a release that could not be withdrawn: look at the sink before another run"
        else:
            end = "nothing was published by it"
        return cls(code=code or 1, word=word, message=message or f"{said}; {end}")

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The ending that `to_dict` wrote."""
        return cls(**document)

    @property
    def good(self) -> bool:
        """Whether a release was published, or a table passed."""
        return self.code == 0 and self.word in ("published", "passed")

    @property
    def worth_another_try(self) -> bool:
        """Whether the same job may end otherwise: only where an engine or the machine broke down."""
        return self.word == "engine"

    @property
    def sentence(self) -> str:
        """The message behind its word, which it may begin with already.

        Examples
        --------
        >>> Ending.of_code(5, "refused: k_anonymity").sentence, Ending.of_code(3, "no column 'age'").sentence
        ('refused: k_anonymity', "data: no column 'age'")
        """
        start = f"{self.word}: "
        return self.message if self.message.startswith(start) else start + self.message

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, for where schedulers keep what tasks return."""
        return {**asdict(self), "figures": dict(self.figures)}

    def error(self) -> PrivpipeError:
        """The error that a bad ending stands for; it carries no assessment."""
        return ERRORS.get(self.word, PrivpipeError)(self.message)
