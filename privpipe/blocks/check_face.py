"""An entry as a check of one data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from privpipe.draws import Seed
from privpipe.roles import EmptyRule, NullRule, Roles
from privpipe.wired import room_above

if TYPE_CHECKING:
    from privpipe.blocks.verdict import Verdict

__all__ = ["CheckFace", "CheckOptions"]


class CheckOptions(TypedDict, total=False):
    """What a check of a frame takes by name; each may be left out or None.

    Parameters
    ----------
    quasi_identifiers, sensitive : sequence of str
        Roles of columns; a column that an entry names as its own needs none.
    roles : Roles
        All roles at once, instead of the two: then a column, or a named index level, without a role is an error, and
        an identifier a fail of `no_identifiers`.
    undeclared : {"refuse", "note"}
        Whether a column without a role is an error, or a note. Default: an error where `roles` are given.
    original : path or frame
        The table the frame was made from: base distributions, and the other half of pair measures.
    align : {"record_id", "position"}
        How pairs with the original are formed.
    population : path or frame
        The table of all persons a record could be of, generalized as the frame is.
    record_id, person_id, household_id : str
    nulls : {"own_value", "wildcard", "refuse"}
    mark : str
        The suppression mark; default ``*``.
    empty : {"refuse", "pass"}
        Whether a frame without records is an error, or passes with a note, as an empty batch of a stream may; what it
        observes is None.
    hierarchies : mapping of column to Hierarchy, builder mapping or path of a CSV file
    seed : Seed, text or bytes of at least 128 bits, or ``{"from_env": NAME}``
        Fixes which records an attack samples.
    engine : str, Engine or DuckDB connection
    """

    quasi_identifiers: Sequence[str] | None
    sensitive: Sequence[str] | None
    roles: Roles | None
    undeclared: Literal["refuse", "note"] | None
    original: Any
    align: Literal["record_id", "position"] | None
    population: Any
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None
    empty: EmptyRule | None
    hierarchies: Mapping[str, Any] | None
    seed: Seed | str | bytes | Mapping[str, Any] | None
    engine: Any


class CheckFace:
    """The public method of every guarantee and measure; the rooms above run it."""

    def assess(self, frame: Any, **options: Unpack[CheckOptions]) -> Verdict:
        """Judge one frame by this entry alone.

        Parameters
        ----------
        frame : path, or pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark frame
            A finished table.
        options : see `CheckOptions`

        Returns
        -------
        Verdict
            Also when it fails; that of `no_identifiers` where the frame holds an identifier. Of an entry without a
            threshold: what it observed.

        Raises
        ------
        UsageError, DataError

        Examples
        --------
        >>> import pandas as pd
        >>> from privpipe.models import KAnonymity
        >>> frame = pd.DataFrame({"zip": ["081", "081", "082"]})
        >>> verdict = KAnonymity(k=2).assess(frame, quasi_identifiers=["zip"])
        >>> verdict.outcome, verdict.observed, verdict.failing_records
        ('fail', 1, 1)
        """
        verdict: Verdict = room_above("checks").judged_alone(self, frame, options)
        return verdict
