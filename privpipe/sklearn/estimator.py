"""The estimators of scikit-learn, one a transformer, with the parameters of each."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from privpipe.blocks.marks import Columns
from privpipe.blocks.parameters import marked
from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.errors import DataError, UsageError
from privpipe.roles import not_text
from privpipe.transforms import CATALOGUE
from privpipe.transforms.base import Transformer
from privpipe.transforms.face import FittedStage, StageOptions

__all__ = ["InputError", "NotFitted", "StageEstimator", "estimator_of", "names"]


WITHOUT_VALUES = (
    *("X has ", "X does not ", "The feature names", "Complex data", "Found array with ", "Expected 2D", "Sparse data"),
)
"""How the complaints of scikit-learn begin that quote no value in their first line."""


class InputError(DataError, ValueError):
    """A table that scikit-learn does not take; a ValueError, as it asks."""


class NotFitted(UsageError, NotFittedError):
    """An estimator that learnt from no table yet."""


@bordered
class StageEstimator(TransformerMixin, BaseEstimator):
    """Base of all; not itself an estimator.

    Takes pandas and polars frames and numpy arrays, and returns the same kind; rows keep their place. Without `columns`
    a stage that names them takes every numeric column. `fit_transform` is the stage's own result; `transform` of other
    rows follows the plan where that is a function of values, and is refused where it concerns only the rows fitted.

    Attributes
    ----------
    fitted_stage_ : FittedStage
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Of a frame.
    """

    _kind: ClassVar[type[Transformer]]
    _fields: ClassVar[tuple[str, ...]]
    _options: ClassVar[Mapping[str, str]]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the plan from a table; `y` is not looked at.

        Raises
        ------
        UsageError, DataError
        """
        frame = self._framed(X, reset=True)
        self.fitted_stage_: FittedStage = self._stage(frame).fit(frame, **self._asked())
        return self

    def transform(self, X: Any) -> Any:
        """The stage over a table, by the plan that was learnt."""
        self._require_fitted()
        frame = self._framed(X, reset=False)
        return self._returned(self.fitted_stage_.transform(frame), X)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn from a table and run over it.

        Raises
        ------
        UsageError
            Rows would go, and `y` would no longer be aligned with those that stay.
        """
        frame = self.fit(X)._framed(X, reset=False)
        out = self.fitted_stage_.transform(frame)
        if y is not None and len(out) != len(frame):
            raise UsageError(
                f"{type(self).__name__}: {len(frame) - len(out):,} of {len(frame):,} rows would go and leave y next "
                "to other rows; run the stage over X and y together, before the pipeline"
            )
        return self._returned(out, X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns that come out."""
        self._require_fitted()
        if input_features is not None:
            names = getattr(self, "feature_names_in_", None)
            if names is not None and list(input_features) != list(names):
                raise InputError("input_features is not equal to feature_names_in_")
            if len(input_features) != self.n_features_in_:
                raise InputError(
                    f"input_features should have length equal to number of features ({self.n_features_in_})"
                )
            if names is None:
                own = dict(zip(_numbered(self.n_features_in_), input_features, strict=True))
                return np.asarray([own.get(name, name) for name in self.fitted_stage_.columns], dtype=object)
        return np.asarray(self.fitted_stage_.columns, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.non_deterministic = self._kind.needs_draws and self.seed is None
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _require_fitted(self) -> None:
        try:
            check_is_fitted(self)
        except NotFittedError:
            raise NotFitted(f"{type(self).__name__} learnt from no table yet: fit() it first") from None

    def _framed(self, X: Any, *, reset: bool) -> Any:
        """The table as a frame whose columns have names, its features counted as scikit-learn does."""
        if hasattr(X, "columns"):
            if wrong := not_text(X.columns):
                raise DataError(wrong)
            _validated(self, X, reset=reset, skip_check_array=True)
            return X
        array = _validated(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
        import pandas as pd

        return pd.DataFrame(dict(zip(_numbered(array.shape[1]), array.T, strict=True)))

    def _stage(self, frame: Any) -> Transformer:
        """The transformer with these parameters.

        Raises
        ------
        UsageError
        """
        given = {name: getattr(self, name) for name in self._fields}
        given = {name: value for name, value in given.items() if value is not None}
        own = next(iter(marked(self._kind, Columns)), None)
        if own is not None and self._kind.columns_rule == "required" and own not in given:
            given[own] = _numeric(frame)
        try:
            return self._kind(**given)
        except TypeError as error:
            missing = str(error).partition("argument")[2].lstrip("s: ")
            raise UsageError(f"{type(self).__name__}: {missing or 'a parameter'} must be given") from None

    def _asked(self) -> dict[str, Any]:
        asked = {option: getattr(self, name) for name, option in self._options.items()}
        if isinstance(asked["seed"], str | bytes):
            raise UsageError(
                f"{type(self).__name__}: the parameters of an estimator are printed; give the seed as "
                'privpipe.Seed.of(...), which shows nothing, or by its place, as in {"from_env": NAME}'
            )
        return asked

    def _returned(self, out: Any, X: Any) -> Any:
        if hasattr(X, "columns"):
            return out
        numeric = all(kind.kind in "biuf" for kind in out.dtypes)
        return out.to_numpy(dtype=None if numeric else object)

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = self.__copy__()
        made.__dict__.update({name: copy.deepcopy(value, memo) for name, value in self.__dict__.items()})
        return made

    def __getstate__(self) -> Any:
        if isinstance(getattr(self, "seed", None), Seed):
            raise UsageError(
                f"{type(self).__name__}: an estimator with a seed is not pickled, for the seed would be in it; give "
                'it by its place, as in {"from_env": NAME}'
            )
        return super().__getstate__()


def _validated(estimator: StageEstimator, X: Any, **how: Any) -> Any:
    """What scikit-learn makes of a table; of its complaints the words that quote no value.

    Raises
    ------
    InputError
    """
    try:
        found = validate_data(estimator, X, **how)
        return found.astype(np.float64) if getattr(found, "dtype", np.dtype(int)).hasobject else found
    except (TypeError, ValueError) as error:
        lines = str(error).splitlines() if str(error).startswith(WITHOUT_VALUES) else []
        name = type(estimator).__name__
        if lines and not lines[0].startswith("The feature names"):  # which lists names of columns
            lines = [lines[0], *(line for line in lines[1:] if line.startswith("Reshape your data"))]
        said = "\n".join(lines)
        raise InputError(said or f"{name}: this is not a table of numbers ({type(error).__name__})") from None


def _numbered(count: int) -> list[str]:
    return [f"x{at}" for at in range(count)]


def _numeric(frame: Any) -> list[str]:
    import pyarrow as pa

    from privpipe.engines.base.frames import arrow_of

    schema = arrow_of(frame[:0] if len(frame) else frame).schema
    names = [field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)]
    if not names:
        raise UsageError("no column is numeric; name the columns of the stage")
    return names


LEFT_OUT = ("engine", "progress", "empty", "quasi_identifiers", "sensitive")
MODULE = "privpipe.sklearn"


def names() -> tuple[str, ...]:
    """Names of the classes."""
    return tuple(CATALOGUE[name].__name__ for name in CATALOGUE)


def estimator_of(name: str) -> type[StageEstimator] | None:
    """The estimator of a transformer by the name of its class; None: there is none."""
    for entry in CATALOGUE:
        kind: Any = CATALOGUE[entry]
        if kind.__name__ == name:
            return _made(kind)
    return None


@functools.cache
def _made(kind: Any) -> type[StageEstimator]:
    fields = {each.name: _default(each) for each in dataclasses.fields(kind) if each.init}
    options = {(f"policy_{name}" if name in fields else name): name for name in _options()}
    defaults = {**fields, **dict.fromkeys(options)}
    body = {
        "__init__": _constructor(defaults),
        "__doc__": _text(kind, defaults),
        "__module__": MODULE,
        "_kind": kind,
        "_fields": tuple(fields),
        "_options": options,
    }
    return type(kind.__name__, (StageEstimator,), body)


def _options() -> tuple[str, ...]:
    return tuple(name for name in StageOptions.__annotations__ if name not in LEFT_OUT)


def _default(each: dataclasses.Field[Any]) -> Any:
    if each.default_factory is not dataclasses.MISSING:
        return None
    return None if each.default is dataclasses.MISSING else each.default


def _constructor(defaults: Mapping[str, Any]) -> Any:
    """An `__init__` that keeps what it is given, as scikit-learn asks, with a signature to read it off."""

    def construct(self: Any, **given: Any) -> None:
        for name in given:
            if name not in defaults:
                raise TypeError(f"{type(self).__name__} got an unexpected keyword argument {name!r}")
        for name, default in defaults.items():
            setattr(self, name, given.get(name, default))

    named = inspect.Parameter.KEYWORD_ONLY
    taken = [inspect.Parameter(name, named, default=default) for name, default in defaults.items()]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    construct.__signature__ = inspect.Signature([own, *taken])  # type: ignore[attr-defined]
    return construct


def _text(kind: type[Transformer], defaults: Mapping[str, Any]) -> str:
    described = kind.descriptions()
    lines = [f"    {name} : {described.get(name, 'see `privpipe.transforms.face.StageOptions`')}" for name in defaults]
    return "\n".join([kind.summary(), "", "    Parameters", "    ----------", *lines, "    "])
