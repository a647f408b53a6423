"""One function per entry, made from the catalogues: its parameters but the threshold in, what it observes out."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from privpipe.blocks import Guarantee
from privpipe.blocks.guarantee import COMMON_KEYS, CheckOptions
from privpipe.blocks.marks import SensitiveColumn
from privpipe.blocks.parameters import is_required, marked, parameters_of
from privpipe.border import bordered
from privpipe.checks.frame_checks import Check, judge_frame
from privpipe.errors import UsageError, did_you_mean
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS

__all__ = ["Figure", "Figures", "average_risk", "figures", "k_anonymity", "l_diversity", "t_closeness", "uniqueness"]

OPTIONS = tuple(CheckOptions.__annotations__)


@bordered
class Figure:
    """What one entry observes of a frame; called as a function.

    Parameters
    ----------
    kind : type of Guarantee
        One with a form that only reports.
    """

    def __init__(self, kind: type[Guarantee]) -> None:
        self._kind = kind
        self.__name__ = kind.name()
        self.__doc__ = _text(kind)
        self.__signature__ = _signature(kind)

    def __call__(
        self, frame: Any, quasi_identifiers: Sequence[str] | None = None, column: str | None = None, /, **given: Any
    ) -> Any:
        """What the entry observes.

        Parameters
        ----------
        frame : path or frame
        quasi_identifiers : sequence of str, optional
        column : str, optional
            The sensitive column, of an entry that counts one.
        given : parameters of the entry but its threshold, and the options of a check

        Returns
        -------
        A number, or a mapping where the entry reports several.

        Raises
        ------
        UsageError
            A parameter that is wrong or missing, or what the entry compares with.
        """
        return _observed(self._kind, frame, quasi_identifiers, column, given)

    def __repr__(self) -> str:
        return f"<privpipe.observe.{self.__name__}>"


class Figures:
    """The functions by the names of their entries."""

    def names(self) -> tuple[str, ...]:
        """Entries that report without a threshold, also of plug-ins."""
        return tuple(name for room in (MODELS, MEASURES) for name in room if _reports(room[name]))

    def attribute(self, name: str) -> Figure:
        """The function of an entry.

        Raises
        ------
        AttributeError
            There is no such entry, or it needs a threshold.
        """
        for room in (MODELS, MEASURES):
            if name in room and _reports(room[name]):
                return Figure(room[name])  # type: ignore[arg-type]
        raise AttributeError(f"module 'privpipe.observe' has no attribute {name!r}{did_you_mean(name, self.names())}")


figures = Figures()


def _observed(
    kind: type[Any],
    frame: Any,
    quasi_identifiers: Sequence[str] | None,
    column: str | None,
    given: Mapping[str, Any],
) -> Any:
    """See `Figure.__call__`."""
    options = {name: value for name, value in given.items() if name in OPTIONS}
    parameters = {name: value for name, value in given.items() if name not in OPTIONS}
    if quasi_identifiers is not None:
        options["quasi_identifiers"] = quasi_identifiers
    if column is not None:
        names = marked(kind, SensitiveColumn)
        if len(names) != 1:
            raise UsageError(f"{kind.name()} counts {len(names)} sensitive columns; give them by name")
        parameters[names[0]] = [column] if parameters_of(kind)[names[0]].shape.many else column
    known = _parameters(kind)
    for name in parameters:
        if name not in known:
            raise UsageError(f"{kind.name()}: unknown parameter {name!r}{did_you_mean(name, (*known, *OPTIONS))}")
    missing = [name for name, needed in known.items() if needed and name not in parameters]
    if missing:
        raise UsageError(f"{kind.name()}: {', '.join(map(repr, missing))} must be given")
    asked = Check.of(kind(**parameters), options)
    verdict = asked.only(judge_frame(frame, asked))
    if verdict.outcome == "error":
        raise UsageError(f"{kind.name()}: {verdict.reason}")
    return verdict.observed


@bordered
def k_anonymity(frame: Any, quasi_identifiers: Sequence[str] | None = None, /, **options: Unpack[CheckOptions]) -> int:
    """Least number of records that share their quasi-identifiers.

    Parameters
    ----------
    frame : path or frame
        pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark.
    quasi_identifiers : sequence of str, optional
        Columns by which a person could be recognised; or give `roles`.
    **options : see `privpipe.blocks.guarantee.CheckOptions`
        Such as `roles`, `person_id`, `nulls`, `engine`.

    Returns
    -------
    int

    Examples
    --------
    >>> import pandas as pd
    >>> k_anonymity(pd.DataFrame({"zip": ["081", "081", "082"]}), ["zip"])
    1
    """
    found: int = _observed(MODELS["k_anonymity"], frame, quasi_identifiers, None, options)
    return found


@bordered
def l_diversity(
    frame: Any,
    quasi_identifiers: Sequence[str] | None = None,
    column: str | None = None,
    /,
    **options: Unpack[CheckOptions],
) -> int:
    """Least number of distinct values of a sensitive column in a class (distinct l-diversity).

    Parameters
    ----------
    frame : path or frame
        pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark.
    quasi_identifiers : sequence of str, optional
        Columns by which a person could be recognised; or give `roles`.
    column : str, optional
        The sensitive column.
    **options : see `privpipe.blocks.guarantee.CheckOptions`
        Such as `roles`, `person_id`, `nulls`, `engine`.

    Returns
    -------
    int

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"zip": ["081", "081"], "illness": ["flu", "cold"]})
    >>> l_diversity(frame, ["zip"], "illness")
    2
    """
    found: int = _observed(MODELS["distinct_l_diversity"], frame, quasi_identifiers, column, options)
    return found


@bordered
def t_closeness(
    frame: Any,
    quasi_identifiers: Sequence[str] | None = None,
    column: str | None = None,
    /,
    distance: str = "equal",
    **options: Unpack[CheckOptions],
) -> float:
    """Greatest distance of a class's distribution of a sensitive column from that of the whole table, in [0, 1].

    Parameters
    ----------
    frame : path or frame
        pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark.
    quasi_identifiers : sequence of str, optional
        Columns by which a person could be recognised; or give `roles`.
    column : str, optional
        The sensitive column.
    distance : str
        How far apart two distributions are, as the `distance` of `privpipe.models.TCloseness`.
    **options : see `privpipe.blocks.guarantee.CheckOptions`
        Such as `roles`, `person_id`, `nulls`, `engine`.

    Returns
    -------
    float

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"zip": ["081", "082"], "illness": ["flu", "cold"]})
    >>> t_closeness(frame, ["zip"], "illness")
    0.5
    """
    given = {**options, "distance": distance}
    found: float = _observed(MODELS["t_closeness"], frame, quasi_identifiers, column, given)
    return found


@bordered
def uniqueness(frame: Any, quasi_identifiers: Sequence[str] | None = None, /, **options: Unpack[CheckOptions]) -> float:
    """Share of the records that no other record equals on the quasi-identifiers (sample uniqueness), in [0, 1].

    Parameters
    ----------
    frame : path or frame
        pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark.
    quasi_identifiers : sequence of str, optional
        Columns by which a person could be recognised; or give `roles`.
    **options : see `privpipe.blocks.guarantee.CheckOptions`
        Such as `roles`, `person_id`, `nulls`, `engine`.

    Returns
    -------
    float

    Examples
    --------
    >>> import pandas as pd
    >>> uniqueness(pd.DataFrame({"zip": ["081", "081", "082", "082", "083"]}), ["zip"])
    0.2
    """
    found: float = _observed(MODELS["sample_uniqueness"], frame, quasi_identifiers, None, options)
    return found


@bordered
def average_risk(
    frame: Any, quasi_identifiers: Sequence[str] | None = None, /, **options: Unpack[CheckOptions]
) -> float:
    """Mean chance of a correct match, which is classes over records, in (0, 1].

    Parameters
    ----------
    frame : path or frame
        pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark.
    quasi_identifiers : sequence of str, optional
        Columns by which a person could be recognised; or give `roles`.
    **options : see `privpipe.blocks.guarantee.CheckOptions`
        Such as `roles`, `person_id`, `nulls`, `engine`.

    Returns
    -------
    float

    Examples
    --------
    >>> import pandas as pd
    >>> average_risk(pd.DataFrame({"zip": ["081", "081", "082", "082"]}), ["zip"])
    0.5
    """
    found: float = _observed(MODELS["average_risk"], frame, quasi_identifiers, None, options)
    return found


def _reports(kind: Any) -> bool:
    """Whether an entry exists without a threshold."""
    if kind.threshold_field is None:
        return not any(entry.is_gate() and "measures" not in type(entry).__module__ for entry in kind.examples())
    field = next(each for each in dataclasses.fields(kind) if each.name == kind.threshold_field)
    return field.default is None


def _parameters(kind: type[Guarantee]) -> dict[str, bool]:
    """Parameters but the threshold and the quasi-identifiers, and whether each must be given."""
    return {
        each.name: is_required(each)
        for each in dataclasses.fields(kind)
        if each.init and each.name not in (kind.threshold_field, *kind.other_thresholds, *COMMON_KEYS)
    }


def _text(kind: type[Guarantee]) -> str:
    """The docstring of a function: what the entry observes, and its parameters."""
    described, own = kind.descriptions(), _parameters(kind)
    texts = {
        "frame": "path or frame",
        "quasi_identifiers": "columns by which a person could be recognised; or give `roles`",
        **{name: described.get(name, "") for name in own},
        "**options": "see `privpipe.blocks.guarantee.CheckOptions`",
    }
    lines = [f"{name} : {text}" if text else name for name, text in texts.items()]
    source = ["", "Notes", "-----", f"Source: {kind.source}"] if kind.source else []
    return "\n".join([kind.summary(), "", "Parameters", "----------", *lines, *source])


def _signature(kind: type[Guarantee]) -> inspect.Signature:
    place, named = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY
    given = [inspect.Parameter("frame", place), inspect.Parameter("quasi_identifiers", place, default=None)]
    if len(marked(kind, SensitiveColumn)) == 1:
        given.append(inspect.Parameter("column", place, default=None))
    taken = {parameter.name for parameter in given}
    for name, needed in _parameters(kind).items():
        if name not in taken:
            given.append(inspect.Parameter(name, named, default=inspect.Parameter.empty if needed else None))
    return inspect.Signature([*given, inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)])
