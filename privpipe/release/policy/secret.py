"""Secrets of a policy: where one is kept, never what it is."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from privpipe.draws import Seed
from privpipe.errors import UsageError
from privpipe.release.policy.specs import located

__all__ = ["SecretSpec"]


@dataclass(frozen=True, kw_only=True)
class SecretSpec:
    """A secret in an environment variable, in a file, or (with a warning) in the policy itself.

    Exactly one of the three is set. The repr shows none of the secret.

    Examples
    --------
    >>> SecretSpec(literal="2024"), SecretSpec(from_env="PRIVPIPE_SEED")
    (SecretSpec(literal), SecretSpec(from_env='PRIVPIPE_SEED'))
    """

    from_env: str | None = None
    from_file: str | None = None
    literal: str | int | None = field(default=None, repr=False)
    base_dir: Path = field(default=Path(), repr=False, compare=False)

    def resolve(self) -> Seed:
        """The secret as a seed: the UTF-8 bytes of its text, without the line end of a file.

        Raises
        ------
        UsageError
            The variable is not set or empty, or the file cannot be read; the message names it.
        """
        if self.from_env is not None:
            text = os.environ.get(self.from_env, "")
            if not text:
                raise UsageError(
                    f"the environment variable {self.from_env} is not set: the policy takes its seed from it; "
                    f"set it, as in `export {self.from_env}=$(openssl rand -hex 32)`"
                )
            return Seed.of(text)
        if self.from_file is not None:
            return Seed.of(self._read(self.from_file))
        return Seed.of(self.literal if self.literal is not None else "")

    def _read(self, name: str) -> str:
        path = located(name, self.base_dir)
        try:
            text = Path(path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the seed file {path}: {type(error).__name__}") from None
        if not text:
            raise UsageError(f"the seed file {path} is empty")
        return text

    def __repr__(self) -> str:
        if self.from_env is not None:
            return f"SecretSpec(from_env={self.from_env!r})"
        return f"SecretSpec(from_file={self.from_file!r})" if self.from_file is not None else "SecretSpec(literal)"
