"""Secrets that determine draws, upper bounds on their strength, and one keyed stream per column of each stage."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privpipe.border import bordered
from privpipe.errors import UsageError, did_you_mean

__all__ = [
    "LEAST_BITS",
    "LEAST_KEY_BYTES",
    "MOST_INTEGER_BITS",
    "SCHEME",
    "SHARED_SCHEME",
    "Draws",
    "RunKey",
    "Seed",
    "Stream",
    "key_id",
    "most_bits",
    "read_key",
    "require_key_place",
    "require_strong",
]


LEAST_BITS = 128
LEAST_DISTINCT = 7  # of 32 random hex digits: one draw in 10^9 has fewer
WORD_BITS = math.log2(7776)  # of a word drawn from a list of 6^5, as passphrases are
ALPHABETS = (
    (re.compile(r"[0-9]+"), 10),
    (re.compile(r"[0-9a-f]+|[0-9A-F]+"), 16),
    (re.compile(r"[a-z]+|[A-Z]+"), 26),
    (re.compile(r"[A-Za-z0-9+/_-]+=*"), 64),
    (re.compile(r"[!-~]+"), 94),
)


def most_bits(secret: bytes) -> float:
    """The most entropy, in bits, that these bytes can have, if drawn at random from the alphabet that they use.

    Text is counted by the smallest of these alphabets that has all its characters: decimal and hexadecimal digits,
    letters of one case, base64, printable ASCII. Words separated by spaces count as drawn from a list of 7,776;
    everything else counts as bytes. A repetition counts once. This is an upper bound: a sentence from a book is weaker
    than it looks, and only a random seed is as strong as its length suggests.

    Examples
    --------
    >>> [round(most_bits(text.encode())) for text in ("20261122", "abc" * 20, "correct horse battery staple")]
    [16, 5, 52]
    """
    try:
        text = secret.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or not all(character.isprintable() or character.isspace() for character in text):
        return 8.0 * _period(secret) if len(set(secret)) >= LEAST_DISTINCT else 0.0
    words = text.split()
    if len(words) > 1:
        return len(set(words)) * WORD_BITS
    if len(set(text)) < LEAST_DISTINCT:
        return math.log2(max(len(set(text)), 2)) * _period(text)
    size = next(size for pattern, size in ALPHABETS if pattern.fullmatch(text))
    return math.log2(size) * _period(text.rstrip("="))


def require_strong(secret: bytes, owner: str = "the seed") -> None:
    """Refuse a secret that cannot have 128 bits of entropy.

    Raises
    ------
    UsageError
        The message names the remedy, never the secret.
    """
    bits = most_bits(secret)
    if bits < LEAST_BITS:
        raise UsageError(
            f"{owner} has at most {bits:.0f} bits and needs {LEAST_BITS}: at least 32 hex digits, 22 base64 characters "
            "or 16 random bytes; `privpipe seed` makes one (for demonstrations and tests: "
            "`seed: {insecure: ...}`)"
        )


def _period(text: str | bytes) -> int:
    """Length of the shortest piece that the whole repeats."""
    doubled: str | bytes = text + text  # type: ignore[operator]
    return doubled.find(text, 1)  # type: ignore[arg-type]


MOST_INTEGER_BITS = 2048
"""Most bits of an integer seed: its text is its decimal digits, which Python writes up to this size in any setting."""


@bordered
@dataclass(frozen=True, repr=False)
class Seed:
    """A secret seed; neither its repr nor an error shows it.

    Parameters
    ----------
    secret : bytes
        At least one byte. For text and integers use `Seed.of`, which refuses secrets that are easily guessed.

    Examples
    --------
    >>> Seed.insecure(42) == Seed.insecure("42") == Seed.insecure(b"42")
    True
    >>> Seed.insecure("spring release")
    Seed(secret)
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or not self.secret:
            raise UsageError("a seed must have at least one byte; give a text or an integer")

    def __repr__(self) -> str:
        return "Seed(secret)"

    @classmethod
    def of(cls, value: str | int | bytes) -> Seed:
        """The seed of a text (its UTF-8 bytes), an integer (in decimal) or raw bytes.

        Raises
        ------
        UsageError
            The value has another type, is empty, or has fewer than 128 bits (see `privpipe.draws.stream`).
        """

        found = cls.insecure(value)
        require_strong(found.secret)
        return found

    @classmethod
    def insecure(cls, value: str | int | bytes) -> Seed:
        """The seed of any text, integer or bytes, even if easily guessed: only for demonstrations and tests.

        Raises
        ------
        UsageError
            The value has another type or is empty.
        """
        if isinstance(value, bool) or not isinstance(value, str | int | bytes):
            raise UsageError(f"a seed is a text or an integer, not {type(value).__name__}")
        if isinstance(value, int) and value.bit_length() > MOST_INTEGER_BITS:
            raise UsageError(
                f"a seed that is an integer has at most {MOST_INTEGER_BITS:,} bits; give it as text or bytes"
            )
        return cls(value if isinstance(value, bytes) else str(value).encode())

    @classmethod
    def public(cls, label: str) -> Seed:
        """A constant that everyone knows: hashes under it are as public as the hashed data."""
        return cls(label.encode())

    @classmethod
    def from_os(cls) -> Seed:
        """A fresh seed of 256 bits from the operating system."""
        return cls(os.urandom(32))

    def commitment(self, salt: str) -> str:
        """A hash that later shows anyone with the seed which seed was used; different salts make hashes unlinkable.

        Parameters
        ----------
        salt : str
            The id of the run; for a plan made outside a run, a separate salt that is stored next to the commitment.

        Examples
        --------
        >>> Seed.insecure(42).commitment("run")[:18]
        'hmac-sha256:eff117'
        """
        return "hmac-sha256:" + self.bound("privpipe/commitment/2", salt).hex()

    def bound(self, purpose: str, *parts: str | int) -> bytes:
        """Thirty-two bytes bound to a purpose and to all of these parts: HMAC-SHA256 of their JSON list.

        Examples
        --------
        >>> seed = Seed.insecure(42)
        >>> seed.bound("a", "b", "cd") == seed.bound("a", "bc", "d")
        False
        """
        message = json.dumps([purpose, *parts], separators=(",", ":"))
        return hmac.new(self.secret, message.encode(), hashlib.sha256).digest()

    def key(self, label: str) -> bytes:
        """Sixteen bytes for one purpose: the start of HMAC-SHA256(seed, "privpipe/draws/1/" + label)."""
        return hmac.new(self.secret, f"privpipe/draws/1/{label}".encode(), hashlib.sha256).digest()[:16]


LEAST_KEY_BYTES = 32
PLACES = ("from_env", "from_file")


def require_key_place(owner: str, place: object) -> None:
    """Refuse anything but ``{from_env: NAME}`` or ``{from_file: PATH}``; a key in the policy text is not secret.

    Raises
    ------
    UsageError
    """
    if not isinstance(place, Mapping) or len(place) != 1:
        raise UsageError(f"{owner}: key must be {{from_env: NAME}} or {{from_file: PATH}}, never the key itself")
    (where,) = place
    if where not in PLACES:
        raise UsageError(f"{owner}: key has no place {where!r}{did_you_mean(str(where), PLACES)}")


def read_key(owner: str, place: Mapping[str, str]) -> bytes:
    """The key's bytes: UTF-8 of the variable, or the file's content without its line end.

    Raises
    ------
    UsageError
        Not set, unreadable, or shorter than 32 bytes (the message gives the length, never the key).
    """
    ((where, name),) = place.items()
    if where == "from_env":
        key = os.environ.get(name, "").encode()
        if not key:
            raise UsageError(f"{owner}: the environment variable {name} is not set: the key is taken from it")
    else:
        try:
            key = Path(name).read_bytes().rstrip(b"\r\n")
        except OSError as error:
            raise UsageError(f"{owner}: cannot read the key file {name!r}: {error.strerror}") from None
    if len(key) < LEAST_KEY_BYTES:
        raise UsageError(f"{owner}: the key of {name} has {len(key)} bytes; it needs at least {LEAST_KEY_BYTES}")
    return key


def key_id(key: bytes) -> str:
    """The part of a key that plans and logs may show: 8 hex digits of HMAC(key, "id").

    Examples
    --------
    >>> len(key_id(b"x" * 32))
    8
    """
    return hmac.new(key, b"id", hashlib.sha256).hexdigest()[:8]


SCHEME = "privpipe/stage/3"
SHARED_SCHEME = "privpipe/stage/2"
ORDER = int.from_bytes(b"order", "little")  # far above any word number in use


@dataclass(frozen=True, repr=False)
class Stream:
    """Draws under one key; pickles to workers, and its repr hides the key.

    Word j of a record is SipHash-2-4 under the key of the record id's two words followed by j, each 8 bytes
    little-endian. Source: Aumasson, Bernstein, Indocrypt 2012.

    Every method takes `ids`, int64 of shape (n, 2): the record ids' signed words, first and second; and draws
    one value per record. Draws of one record with different `word` are independent. Without ids there are no draws.

    Parameters
    ----------
    key : bytes
        Sixteen bytes, from `Seed.key` or `Draws.of`.

    Examples
    --------
    >>> stream = Draws(Seed.insecure(42), stage=0, transformer="add_noise").of("income")
    >>> ids = np.array([[1, 2], [3, 4], [1, 2]])
    >>> stream.uniform(ids).round(4).tolist()
    [0.3319, 0.0887, 0.3319]
    >>> stream.normal(ids).round(4).tolist()
    [-0.4346, -1.349, -0.4346]
    """

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != 16:
            raise UsageError(f"a stream's key has 16 bytes, not {len(self.key)}")

    def __repr__(self) -> str:
        return "Stream(secret)"

    @property
    def key_words(self) -> tuple[np.uint64, np.uint64]:
        """The key as two little-endian words, for kernels that make their draws themselves."""
        from privpipe.draws.siphash import key_words

        return key_words(self.key)

    def words(self, ids: NDArray[np.int64], word: int = 0) -> NDArray[np.uint64]:
        """Word number `word` of each record, uint64, shape (n,)."""
        from privpipe.draws.siphash import record_words

        return np.asarray(record_words(*self.key_words, _checked(ids), np.uint64(word)))

    def uniform(self, ids: NDArray[np.int64], word: int = 0) -> NDArray[np.float64]:
        """Uniform in (0, 1), both ends excluded, on a grid of 2^-53."""
        from privpipe.draws.elementary import record_uniforms

        return np.asarray(record_uniforms(*self.key_words, _checked(ids), np.uint64(word)))

    def normal(self, ids: NDArray[np.int64], word: int = 0) -> NDArray[np.float64]:
        """Standard normal by the inverse distribution function: one word per draw, no rejection."""
        from privpipe.draws.elementary import record_normals

        return np.asarray(record_normals(*self.key_words, _checked(ids), np.uint64(word)))

    def integers(self, ids: NDArray[np.int64], bound: int, word: int = 0) -> NDArray[np.int64]:
        """Uniform in 0 .. bound - 1, with a bias below bound / 2^64.

        Parameters
        ----------
        bound : int
            In 1 .. 2^63.
        """
        from privpipe.draws.siphash import below_bound

        if not 1 <= bound <= 2**63:
            raise UsageError(f"integers are drawn below a bound in 1 .. 2^63, got {bound}")
        return np.asarray(below_bound(self.words(ids, word), np.uint64(bound)))

    def categorical(self, ids: NDArray[np.int64], cumulative: ArrayLike, word: int = 0) -> NDArray[np.int64]:
        """The first index whose cumulative probability exceeds the record's uniform.

        Parameters
        ----------
        cumulative : array_like of float, shape (m,)
            Ascending, m >= 1; the last is 1 up to rounding and is taken as 1.

        Examples
        --------
        >>> Stream(bytes(16)).categorical(np.array([[0, 0], [0, 1], [0, 2]]), [0.0, 1.0]).tolist()
        [1, 1, 1]
        """
        steps = np.asarray(cumulative, dtype=np.float64)
        if steps.ndim != 1 or not len(steps) or not np.all(np.diff(steps, prepend=0.0) >= 0):
            raise UsageError("cumulative probabilities must ascend from 0, at least one of them")
        return np.searchsorted(steps[:-1], self.uniform(ids, word), side="right").astype(np.int64)

    def order(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The keyed order of each record, which breaks all ties: its word labelled "order".

        Returns
        -------
        ndarray of int64, shape (n,)
            Compared as signed integers, which every engine has.
        """
        return self.words(ids, ORDER).view(np.int64)

    def arrange(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of the records in keyed order; equal order words (one in 2^64) go by record id.

        Examples
        --------
        >>> stream, ids = Stream(bytes(16)), np.array([[5, 0], [7, 0], [6, 0]])
        >>> bool((ids[stream.arrange(ids)] == ids[::-1][stream.arrange(ids[::-1])]).all())
        True
        """
        ids = _checked(ids)
        words = self.order(ids)
        positions = np.argsort(words)
        words = words[positions]
        if (words[1:] == words[:-1]).any():
            positions = np.lexsort((ids[:, 1], ids[:, 0], self.order(ids)))
        return positions

    def counter(self, start: int, count: int, word: int = 0) -> NDArray[np.uint64]:
        """Words keyed by a number instead of a record: for ranks or steps start .. start + count - 1.

        The message is two words long, a record's three, so the two never meet.
        """
        from privpipe.draws.siphash import counter_words

        if start < 0 or count < 0:
            raise UsageError(f"a counter runs over numbers from 0, got start {start} and count {count}")
        return np.asarray(counter_words(*self.key_words, np.uint64(start), count, np.uint64(word)))

    def child(self, path: str) -> Stream:
        """The stream of one part of the stage, such as a block: keyed by this key and the part's path."""
        return Stream(hmac.new(self.key, f"block/{path}".encode(), hashlib.sha256).digest()[:16])


@dataclass(frozen=True, repr=False)
class Draws:
    """The draws of one stage.

    The key K of a column is HMAC-SHA256(root, [scheme, stage, transformer, column, bound]).

    Parameters
    ----------
    root : Seed
        Root of one run or of one frozen plan, or the seed itself for a stage that is applied without a policy
        (see `privpipe.running.stage_run.DrawRoot`).
    stage : int
        Position in the policy's `transform` list, from 0, implicit stages left out.
    transformer : str
        The transformer's name in the catalogue.
    bound : str
        Digest of everything else that the draws are bound to: the stage's parameters, the learnt figures that shape its
        output and, unless a draw is bound to the value it masks, the source. Stages that differ in any of these share
        no draw.
    scheme : str
        How K is derived. `SHARED_SCHEME` is that of plans of version 1, whose root is the seed: all policies that
        began with the same stage shared its draws.

    Examples
    --------
    >>> draws = Draws(Seed.insecure(42), stage=0, transformer="add_noise")
    >>> draws.of("income") == draws.of("age")
    False
    >>> draws
    Draws(stage=0, transformer='add_noise')
    """

    root: Seed = field(repr=False)
    stage: int
    transformer: str
    bound: str = field(default="", repr=False)
    scheme: str = field(default=SCHEME, repr=False)

    def __repr__(self) -> str:
        return f"Draws(stage={self.stage}, transformer={self.transformer!r})"

    def of(self, column: str) -> Stream:
        """The stream of one column, so that one more column does not change the draws of the others.

        Draws for a whole stage rather than for a column take the empty name.
        """
        return Stream(self._key(column)[:16])

    def key_id(self, column: str) -> str:
        """A name of K that does not disclose it: 32 hex digits of HMAC-SHA256(K, "privpipe/key id/2").

        Two stages have the same name for a column exactly if they make the same draws for it.
        """
        return hmac.new(self._key(column), b"privpipe/key id/2", hashlib.sha256).hexdigest()[:32]

    def _key(self, column: str) -> bytes:
        return self.root.bound(self.scheme, self.stage, self.transformer, column, self.bound)


def _checked(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    array = np.ascontiguousarray(ids, dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise UsageError(f"record ids have shape (n, 2), got {array.shape}")
    array = array.view()
    array.flags.writeable = False  # one compiled version for writable and read-only arrays
    return array


@dataclass(frozen=True, repr=False)
class RunKey:
    """R = HMAC-SHA256(seed, ["privpipe/run/2", policy digest, source fingerprint]).

    The same source, policy and seed give the same orders on every engine; anything else gives independent ones.

    Parameters
    ----------
    key : bytes
        Thirty-two bytes. Use `RunKey.of`.

    Examples
    --------
    >>> one = RunKey.of(Seed.insecure(42), "policy", "source")
    >>> one.rows() == RunKey.of(Seed.insecure(42), "policy", "another source").rows(), one
    (False, RunKey(secret))
    """

    key: bytes = field(repr=False)

    def __repr__(self) -> str:
        return "RunKey(secret)"

    @classmethod
    def of(cls, seed: Seed, policy_digest: str, source: str) -> RunKey:
        """The key of a policy's run over a source.

        Parameters
        ----------
        seed : Seed
        policy_digest : str
            As `Policy.digest` gives it.
        source : str
            The keyed fingerprint of the source.
        """
        return cls(seed.bound("privpipe/run/2", policy_digest, source))

    def rows(self, plan: str = "") -> Stream:
        """The order in which released rows are written, and the rest of the layout.

        Parameters
        ----------
        plan : str
            Digest of the plans of the stages, so that anything outside policy and source (a hierarchy's file, a
            frozen plan, a key) also gives two releases different orders.
        """
        return self._stream(f"rows/{plan}")

    def attacks(self) -> Stream:
        """The order of records by which attacked records are sampled: the same for every measure and setting."""
        return self._stream("attacks")

    def _stream(self, purpose: str) -> Stream:
        return Stream(hmac.new(self.key, purpose.encode(), hashlib.sha256).digest()[:16])
