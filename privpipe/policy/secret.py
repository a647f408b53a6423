"""Secrets of a policy: where one is kept, never what it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privpipe.draws import Seed
from privpipe.draws.stream import require_strong
from privpipe.errors import UsageError
from privpipe.policy.specs import located

__all__ = ["SecretSpec", "secret_given"]


@dataclass(frozen=True, kw_only=True)
class SecretSpec:
    """A seed in an environment variable, in a file, or (with a warning) in the policy itself; or an insecure one.

    `held` is one that was passed in Python. Exactly one of the five is set. The repr shows none of the secret.

    Examples
    --------
    >>> SecretSpec(insecure="2024"), SecretSpec(from_env="PRIVPIPE_SEED")
    (SecretSpec(insecure), SecretSpec(from_env='PRIVPIPE_SEED'))
    """

    from_env: str | None = None
    from_file: str | None = None
    literal: str | int | None = field(default=None, repr=False)
    insecure: str | int | None = field(default=None, repr=False)
    held: Seed | None = field(default=None, repr=False)
    base_dir: Path = field(default=Path(), repr=False, compare=False)

    @property
    def within(self) -> str | None:
        """How the seed is given in the policy itself: ``literal`` or ``insecure``; None: it is kept elsewhere."""
        if self.insecure is not None:
            return "insecure"
        return "literal" if self.literal is not None else None

    @property
    def place(self) -> dict[str, str] | None:
        """Where the secret is kept, as in a document; None: it is here."""
        if self.from_env is not None:
            return {"from_env": self.from_env}
        return None if self.from_file is None else {"from_file": located(self.from_file, self.base_dir)}

    def resolve(self) -> Seed:
        """The secret as a seed: the UTF-8 bytes of its text, without the line end of a file; else the file's bytes.

        Raises
        ------
        UsageError
            The variable is not set or empty, or the file cannot be read; the message names it. Fewer than 128 bits,
            unless it is declared insecure.
        """
        if self.held is not None:
            return self.held
        if self.insecure is not None:
            return Seed.insecure(self.insecure)
        if self.literal is not None:
            return Seed.of(self.literal)
        if self.from_env is not None:
            return _strong(self._of_environment(self.from_env), f"the seed in the environment variable {self.from_env}")
        name = self.from_file or ""
        return _strong(self._of_file(name), f"the seed in the file {located(name, self.base_dir)}")

    def _of_environment(self, name: str) -> bytes:
        text = os.environ.get(name, "")
        if not text:
            raise UsageError(
                f"the environment variable {name} is not set: the policy takes its seed from it; "
                f'set it, as in `export {name}="$(privpipe seed)"`'
            )
        return text.encode()

    def _of_file(self, name: str) -> bytes:
        path = located(name, self.base_dir)
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read the seed file {path}: {type(error).__name__}") from None
        try:
            content.decode("ascii")
        except UnicodeDecodeError:
            pass  # raw bytes, of which the last may look like a line end
        else:
            content = content.rstrip(b"\r\n")
        if not content:
            raise UsageError(f"the seed file {path} is empty")
        return content

    @property
    def whereabouts(self) -> str:
        """Where it comes from, in words; neither the secret nor the name of a file."""
        if self.from_env is not None:
            return "from the environment"
        if self.from_file is not None:
            return "from a file"
        return "held in memory" if self.held is not None else "within the policy"

    def __deepcopy__(self, memo: object) -> SecretSpec:
        return self  # nothing in it changes

    def __copy__(self) -> SecretSpec:
        return self

    def __getstate__(self) -> dict[str, Any]:
        if self.held is not None or self.literal is not None:
            raise UsageError(
                "a policy whose seed was handed over or is in it is not pickled, for the seed would be in it; give "
                'the seed by its place, as in {"from_env": NAME}'
            )
        return self.__dict__

    def __repr__(self) -> str:
        if self.from_env is not None:
            return f"SecretSpec(from_env={self.from_env!r})"
        if self.from_file is not None:
            return f"SecretSpec(from_file={self.from_file!r})"
        return f"SecretSpec({'held' if self.held is not None else self.within})"


def _strong(secret: bytes, owner: str) -> Seed:
    require_strong(secret, owner)
    return Seed(secret)


def secret_given(seed: Seed | str | bytes | Mapping[str, Any] | None) -> SecretSpec | None:
    """A seed as a caller may hand it over in Python; None: one is drawn from the system where one is needed.

    Parameters
    ----------
    seed : Seed, text or bytes of at least 128 bits, or a place such as ``{"from_env": NAME}``
        A mapping is what is under `seed:` in a policy.

    Raises
    ------
    UsageError
        A seed that is too easily guessed, or of another type.
    """
    if seed is None:
        return None
    if isinstance(seed, Seed):
        return SecretSpec(held=seed)
    if isinstance(seed, Mapping):
        return _placed(seed)
    if isinstance(seed, bool) or not isinstance(seed, str | bytes):
        raise UsageError(f"seed: give bytes, text or a Seed, not {type(seed).__name__}; `privpipe seed` makes one")
    return SecretSpec(held=Seed.of(seed))


def _placed(place: Mapping[str, Any]) -> SecretSpec:
    known = ("from_env", "from_file", "insecure")
    if len(place) != 1 or not all(name in known for name in place):
        raise UsageError(f"seed: a mapping has one key of {', '.join(known)}")
    return SecretSpec(**place)
