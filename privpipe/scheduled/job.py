"""What a scheduler asks for, as it crosses over to the process that does it: as JSON, by no shell and no option."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

from privpipe.errors import UsageError

__all__ = ["Action", "Job"]

Action = Literal["release", "judge"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A release, or a judgement of a finished table.

    Parameters
    ----------
    action : {"release", "judge"}
    policy : str
        The policy file.
    data : str, optional
        The finished table, of a judgement.
    target, plan, engine : str, optional
        As `privpipe.release` takes them.
    report : str, optional
        Where the report of the public edition is written, as HTML.
    batch : str, optional
        The key under which the release is published once; a repeated job ends well and changes nothing.
    keep_out : tuple of (str, str)
        What a folder is called, and its path: neither release nor record nor report may lie in it.

    Raises
    ------
    UsageError
        A text is empty, no text or holds what no path can hold.

    Examples
    --------
    >>> Job.from_json(Job(policy="release.yaml").to_json()).policy
    'release.yaml'
    >>> Job(policy="")
    Traceback (most recent call last):
    privpipe.errors.UsageError: policy: give a path, not ''
    """

    action: Action = "release"
    policy: str
    data: str | None = None
    target: str | None = None
    plan: str | None = None
    engine: str | None = None
    report: str | None = None
    batch: str | None = None
    keep_out: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.action not in get_args(Action):
            raise UsageError(f"action must be one of {', '.join(get_args(Action))}, not {self.action!r}")
        for name in ("policy", "data", "target", "plan", "engine", "report", "batch"):
            given: Any = getattr(self, name)
            if given is None and (name != "policy"):
                continue
            if isinstance(given, os.PathLike):
                given = os.fspath(given)
                object.__setattr__(self, name, given)
            if not isinstance(given, str):
                raise UsageError(f"{name}: give a path or a name as text, not {type(given).__name__}")
            if not given.strip() or not given.isprintable():
                raise UsageError(f"{name}: give a path, not {given!r}")
        if self.action == "judge" and self.data is None:
            raise UsageError("data: name the finished table to judge")

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The job of such a line.

        Raises
        ------
        UsageError
            It is none.
        """
        try:
            given = json.loads(text)
            given["keep_out"] = tuple((str(what), str(path)) for what, path in given["keep_out"])
            return cls(**given)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"this is no job of a scheduler: {type(error).__name__}") from None
