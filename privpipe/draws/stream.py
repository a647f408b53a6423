"""Draws of one stage, one stream per column, as functions of the key and the record's id; and the key of one run."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privpipe.draws.seed import Seed
from privpipe.errors import UsageError

__all__ = ["SCHEME", "SHARED_SCHEME", "Draws", "RunKey", "Stream"]


SCHEME = "privpipe/stage/3"
SHARED_SCHEME = "privpipe/stage/2"
ORDER = int.from_bytes(b"order", "little")  # far above any word number in use


@dataclass(frozen=True, repr=False)
class Stream:
    """Draws under one key; pickles to workers, and its repr hides the key.

    Word j of a record is SipHash-2-4 under the key of the record id's two words followed by j, each 8 bytes
    little-endian. Source: Aumasson, Bernstein, Indocrypt 2012.

    Every method takes `ids`, int64 of shape (n, 2): the record ids' signed words, first and second; and draws
    one value per record. Draws of one record with different `word` are independent. No ids, no draws.

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
        """The key as two little-endian words, for kernels that draw on their own."""
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
        """Standard normal by the inverse distribution function: one word a draw, no rejection."""
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
            To be compared as signed integers, which every engine has.
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
        """Words keyed by a number instead of a record: of ranks or steps start .. start + count - 1.

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
        Of one run, of one frozen plan, or the seed itself for a stage that is applied without a policy
        (see `privpipe.running.stage_run.DrawRoot`).
    stage : int
        Position in the policy's `transform` list, from 0, implicit stages left out.
    transformer : str
        The transformer's name in the catalogue.
    bound : str
        Digest of all else the draws are bound to: the stage's parameters, the learnt figures that shape its output
        and, unless a draw is bound to the value it masks, the source. Stages that differ in any share no draw.
    scheme : str
        How K is derived. `SHARED_SCHEME` is that of plans of version 1, whose root is the seed: all policies that
        begin with the same stage shared its draws.

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
        """The stream of one column, so that one more column leaves the draws of the others alone.

        What is drawn for a whole stage rather than for a column takes the empty name.
        """
        return Stream(self._key(column)[:16])

    def key_id(self, column: str) -> str:
        """A name of K that does not disclose it: 32 hex digits of HMAC-SHA256(K, "privpipe/key id/2").

        Two stages have the same name for a column exactly if they draw the same for it.
        """
        return hmac.new(self._key(column), b"privpipe/key id/2", hashlib.sha256).hexdigest()[:32]

    def _key(self, column: str) -> bytes:
        return self.root.bound(self.scheme, self.stage, self.transformer, column, self.bound)


def _checked(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    array = np.ascontiguousarray(ids, dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise UsageError(f"record ids have shape (n, 2), got {array.shape}")
    array = array.view()
    array.flags.writeable = False  # one compiled version for arrays that may and may not be written
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
        """The order in which released rows are written, and what else there is to a layout.

        Parameters
        ----------
        plan : str
            Digest of the plans of the stages, so that what policy and source do not contain (a hierarchy's file, a
            frozen plan, a key) parts two releases as well.
        """
        return self._stream(f"rows/{plan}")

    def attacks(self) -> Stream:
        """The order of records by which the attacked ones are sampled: the same for every measure and setting."""
        return self._stream("attacks")

    def _stream(self, purpose: str) -> Stream:
        return Stream(hmac.new(self.key, purpose.encode(), hashlib.sha256).digest()[:16])
