"""A transformer as a stage over data frames: apply, fit, fit_transform, and the fitted stage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from privpipe.blocks import Guarantee
from privpipe.draws import Seed
from privpipe.roles import EmptyRule, NullRule, Roles
from privpipe.wired import room_above

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FittedStage", "StageFace", "StageOptions"]

F = TypeVar("F")


class StageOptions(TypedDict, total=False):
    """What `apply`, `fit` and `fit_transform` take by name; each may be left out or None.

    Parameters
    ----------
    quasi_identifiers, sensitive : sequence of str
        Roles of columns, instead of `roles`.
    roles : Roles or mapping of columns to roles
        Needed where a stage uses them: `generalize` without columns means all quasi-identifiers. A column without
        a role is insensitive and passes through untouched.
    hierarchies : mapping of column to Hierarchy, builder mapping or path of a CSV file
    guarantees : sequence of Guarantee
        What a search works for; each an object, or as in a policy, ``{"k_anonymity": {"k": 5}}``.
    seed : Seed, text or bytes of at least 128 bits, or ``{"from_env": NAME}``
        None: drawn from the system; then the result is not repeatable.
    record_id : str
        A unique column that identifies a record for draws; default: its content.
    person_id : str
        Column that distinguishes persons, where they are counted instead of records.
    household_id : str
        Column that distinguishes households, for `over: households`, `same_within` and `whole`.
    nulls : {"own_value", "wildcard", "refuse"}
        How a missing quasi-identifier matches.
    mark : str
        The suppression mark; default ``*``.
    empty : {"refuse", "pass"}
        Of `apply`: whether a frame without records is an error, or comes back with the released columns.
    engine : str, Engine or DuckDB connection
        Default: the one the frame is native to.
    progress : callable
        Called with the name of each step.
    """

    quasi_identifiers: Sequence[str] | None
    sensitive: Sequence[str] | None
    roles: Roles | Mapping[str, Any] | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Guarantee | Sequence[Guarantee] | Sequence[Guarantee | str | Mapping[str, Any]]
    seed: Seed | str | bytes | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None
    empty: EmptyRule | None
    engine: Any
    progress: Callable[[str], None] | None


class FittedStage(ABC):
    """A stage with the plan it learnt from one frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from privpipe.transforms import TopCode
    >>> fitted = TopCode(columns=["age"], at=80).fit(pd.DataFrame({"age": [30, 95, 81]}))
    >>> fitted.transform(pd.DataFrame({"age": [99, 20]}))["age"].tolist()
    [80, 20]
    """

    @property
    @abstractmethod
    def stage(self) -> Any:
        """The transformer."""

    @property
    @abstractmethod
    def plan(self) -> Mapping[str, Any]:
        """What it learnt, as plain JSON with its digest; private, because it may reveal much of the frame."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns of the result, in order."""

    @property
    @abstractmethod
    def repeatable(self) -> bool:
        """Whether the seed was given: a drawn one is forgotten with this object, and with it the draws."""

    @overload
    def transform(self, frame: str | PurePath) -> pa.Table: ...

    @overload
    def transform(self, frame: F) -> F: ...

    @abstractmethod
    def transform(self, frame: Any) -> Any:
        """The stage over a frame, by this plan; the same kind of frame comes back, not judged.

        Raises
        ------
        DataError
            The frame is not the fitted one, and the plan refers to records of the latter; or it
            holds values that the plan does not know (their number, by column).
        """

    @abstractmethod
    def save(self, path: str | PathLike[str]) -> None:
        """Write stage and plan to a JSON file that only its owner can read; never the seed.

        Raises
        ------
        UsageError
            The file cannot be written.
        """

    @staticmethod
    def load(path: str | PathLike[str], *, seed: Any = None, engine: Any = None) -> FittedStage:
        """Read a saved stage.

        Parameters
        ----------
        path : path
        seed : Seed, text, bytes or mapping, optional
            The one it was fitted with, where one was given then.
        engine : str, Engine or DuckDB connection, optional

        Raises
        ------
        UsageError
            No saved stage, a damaged one, or another seed.
        """
        loaded: FittedStage = room_above("stages").load(path, seed=seed, engine=engine)
        return loaded


class StageFace:
    """The public methods of every transformer; the rooms above run them."""

    @overload
    def apply(self, frame: str | PurePath, **options: Unpack[StageOptions]) -> pa.Table: ...

    @overload
    def apply(self, frame: F, **options: Unpack[StageOptions]) -> F: ...

    def apply(self, frame: Any, **options: Unpack[StageOptions]) -> Any:
        """Learn from a frame and run over it; the result is **not judged**, which is what a policy is for.

        A stage by itself has no policy: its draws depend only on the seed and the stage. Use one seed for one released
        table; two tables that are masked alike under one seed can be joined by their common values.

        Parameters
        ----------
        frame : path, or pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark frame
            Never changed in place.
        options : see `StageOptions`
            `quasi_identifiers`, `sensitive`, `roles`, `hierarchies`, `guarantees`, `seed`, `record_id`, `person_id`,
            `household_id`, `nulls`, `mark`, `engine`, `progress`.

        Returns
        -------
        frame
            Of the same kind, with the same columns in the same order unless the stage removes or adds some; lazy
            where the frame is and the plan is known. Rows of a local frame keep their place, and a pandas index its
            labels.

        Raises
        ------
        UsageError, DataError, NoSolutionError

        Examples
        --------
        >>> import pandas as pd
        >>> from privpipe.transforms import TopCode
        >>> pd.DataFrame({"age": [30, 95], "zip": ["a", "b"]}).pipe(TopCode(columns=["age"], at=80).apply)
           age zip
        0   30   a
        1   80   b
        """
        return room_above("stages").apply(self, frame, options)

    def fit(self, frame: Any, **options: Unpack[StageOptions]) -> FittedStage:
        """Learn the plan from a frame, for other frames too; raises what `apply` does.

        Parameters
        ----------
        frame : as of `apply`
        options : see `StageOptions`
            As of `apply`, but `empty`.

        Returns
        -------
        FittedStage
        """
        fitted: FittedStage = room_above("stages").fit(self, frame, options)
        return fitted

    fit_transform = apply
    """The name that pipelines of other libraries call."""
    transform = apply
    """A stage that was not fitted learns from the frame it runs over."""
    __call__ = apply
    """So that ``frame.pipe(stage)`` works."""
