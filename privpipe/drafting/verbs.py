"""`init`: the first policy of a table, from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any

from privpipe.border import bordered
from privpipe.drafting.draft import Asked
from privpipe.drafting.making import Drafter
from privpipe.drafting.profiling import profile_table
from privpipe.drafting.purposes import PurposeName, purpose_of
from privpipe.drafting.trying import SECONDS, loaded
from privpipe.errors import SinkError
from privpipe.policy import Policy

__all__ = ["init"]


@bordered
def init(
    data: Any,
    *,
    out: str | PurePath | None = None,
    purpose: PurposeName = "research",
    uses: Sequence[str] = (),
    seconds: float = SECONDS,
    progress: Callable[[str], None] | None = None,
) -> Policy:
    """Draft a policy for a table: roles, hierarchies, thresholds and the method that keeps most of a sample.

    The guesses are a start, not a decision: read every line, and the reasons that stand in the comments of `out`.

    Parameters
    ----------
    data : path or frame
        CSV, Parquet, JSON or Excel; or a pandas, polars, pyarrow or DuckDB frame, which the policy does not name.
    out : path, optional
        Write the policy here, with the reason of every guess.
    purpose : {"internal", "research", "public"}
        Thresholds, the strictest for public use.
    uses : sequence of str
        What the data is for, as in ``regression of income on age``; methods are compared by it.
    seconds : float
        Time for trying methods.
    progress : callable, optional
        Called with the name of each step.

    Raises
    ------
    UsageError, DataError
    SinkError
        `out` cannot be written.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import privpipe as pp
    >>> people = pa.table({"age": [20 + at % 60 for at in range(400)], "sex": ["f", "m"] * 200})
    >>> policy = pp.init(people, purpose="internal")
    >>> policy.roles.quasi_identifiers, policy.apply(people).num_rows
    (('age', 'sex'), 400)
    """
    from privpipe.engines.base.frames import at_hand

    given = str(data) if isinstance(data, str | PurePath) else at_hand(data, "init")
    home = Path(out).absolute().parent if out is not None else Path.cwd()
    asked = Asked(purpose=purpose_of(purpose), uses=tuple(uses))
    text = Drafter(profile_table(given), home, asked).text(seconds=seconds, tell=progress or (lambda step: None))
    if out is not None:
        try:
            Path(out).write_text(text, encoding="utf-8")
        except OSError as error:
            raise SinkError(f"cannot write {str(out)!r}: {error.strerror}") from None
        return Policy.load(str(out))
    return loaded(text, home)
