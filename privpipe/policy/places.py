"""Places in a document: where they are written, and what was found wrong there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from privpipe.errors import PolicyError, Problem, UnsupportedError

__all__ = ["Place", "Report", "shown"]

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
    """

    def __init__(self, lines: Mapping[Place, int] | None = None, file: str | None = None) -> None:
        self.lines = lines or {}
        self.file = file
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
        self.warnings.append(str(Problem(shown(place), message, self.file, self.line_of(place))))

    def located(self, place: Place) -> str:
        """A place as an error says it: with the file and the line it is written in, where there are any."""
        line = self.line_of(place)
        if self.file is None:
            return shown(place)
        return f"{self.file}: {shown(place)}" if line is None else f"{self.file}:{line}: {shown(place)}"

    def line_of(self, place: Place) -> int | None:
        """Line of the place, else of the nearest one around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)

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
