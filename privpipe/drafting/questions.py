"""The questions that a table leaves open, and the answers of a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from privpipe.drafting.guesses import likeliest_sensitive
from privpipe.drafting.profile import Guess, Profile
from privpipe.roles import Role

__all__ = ["Answers", "Question", "answers_of", "questions"]


ROLES: tuple[Role, ...] = get_args(Role)
SENSITIVE, CLASS_SIZE, PERSON, ROLE_OF = "sensitive", "k", "person", "role "
NOBODY = "none"


@dataclass(frozen=True)
class Answers:
    """What was answered; nothing where no one was asked.

    Parameters
    ----------
    roles : mapping of column to role
    k : int, optional
    person : str, optional
        The column that identifies persons; an empty text: each record is a person.
    """

    roles: Mapping[str, Role] = field(default_factory=dict)
    k: int | None = None
    person: str | None = None

    def heard(self, guesses: Mapping[str, Guess]) -> dict[str, Guess]:
        """The guesses, with what was answered instead."""
        return {
            name: guess
            if name not in self.roles or self.roles[name] == guess.role
            else replace(guess, role=self.roles[name], reason=f"as answered; guessed was {guess.role}", level_of="")
            for name, guess in guesses.items()
        }

    def person_of(self, guessed: str) -> str:
        """The column that identifies persons."""
        return guessed if self.person is None else self.person


@dataclass(frozen=True)
class Question:
    """What a table leaves open.

    Parameters
    ----------
    key : str
    text : str
    default : str
    choices : tuple of str
        What may be answered; of a list of columns, these columns.
    """

    key: str
    text: str
    default: str
    choices: tuple[str, ...] = ()

    def wrong(self, given: str) -> str:
        """Why something is not an answer; nothing where it is one.

        Examples
        --------
        >>> Question("k", "least class size", "5").wrong("five")
        'a whole number of 2 or more'
        """
        if self.key == CLASS_SIZE:
            return "" if given.isdecimal() and int(given) >= 2 else "a whole number of 2 or more"
        if self.key == SENSITIVE:
            unknown = [name for name in _listed(given) if name not in self.choices]
            return f"no column is called {', '.join(map(repr, unknown))}" if unknown else ""
        return "" if given in self.choices else f"one of {', '.join(self.choices)}"


def questions(profiles: Sequence[Profile], guesses: Mapping[str, Guess], k: int, person: str) -> Iterator[Question]:
    """The open questions of a draft, with what it would take without an answer.

    Parameters
    ----------
    k : int
        That would be proposed.
    person : str
        The column that seems to identify persons; nothing where none does.
    """
    names = tuple(profile.name for profile in profiles)
    for name in names:
        if guesses[name].unknown:
            yield Question(f"{ROLE_OF}{name}", f"role of {name!r}: {' | '.join(ROLES)}", guesses[name].role, ROLES)
    found = [name for name in names if guesses[name].role == "sensitive"]
    likeliest = "" if found else likeliest_sensitive(profiles, guesses)
    text = f"sensitive columns, with commas{f'; {likeliest!r} is the likeliest' if likeliest else ''}"
    yield Question(SENSITIVE, text, ", ".join(found) or NOBODY, names)
    yield Question(CLASS_SIZE, "least number of records that are alike (k)", str(k))
    yield Question(
        PERSON, "column that distinguishes persons who have several records", person or NOBODY, (*names, NOBODY)
    )


def answers_of(given: Mapping[str, str], guesses: Mapping[str, Guess], k: int) -> Answers:
    """What was answered, by the keys of the questions."""
    roles: dict[str, Role] = {
        key.removeprefix(ROLE_OF): role for key, role in given.items() if key.startswith(ROLE_OF) and role in ROLES
    }
    if SENSITIVE in given:
        named = _listed(given[SENSITIVE])
        before = [name for name, guess in guesses.items() if roles.get(name, guess.role) == "sensitive"]
        roles |= dict.fromkeys(named, "sensitive")
        roles |= {name: "insensitive" for name in before if name not in named and roles.get(name) != "sensitive"}
    said = int(given[CLASS_SIZE]) if CLASS_SIZE in given else None
    person = given.get(PERSON)
    if person not in (None, NOBODY):
        roles[str(person)] = "identifier"
    return Answers(roles, None if said == k else said, "" if person == NOBODY else person)


def _listed(given: str) -> list[str]:
    return [] if given == NOBODY else [name.strip() for name in given.split(",") if name.strip()]
