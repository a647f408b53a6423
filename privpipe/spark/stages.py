"""What every estimator and model of a transformer shares.

Params, fitting, transforming, saving, and frames of rows that are all present.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyspark.ml.base import Estimator, Model
from pyspark.ml.param import Params
from pyspark.ml.util import MLReadable, MLWritable

from privpipe.border import bordered
from privpipe.errors import UnsupportedError, UsageError, did_you_mean
from privpipe.spark.options import option_values, unsavable
from privpipe.spark.persistence import Reader, Writer, learnt_of, text_of

if TYPE_CHECKING:
    from privpipe.spark.parameters import Asked
    from privpipe.transforms.base import Transformer
    from privpipe.transforms.face import FittedStage

__all__ = ["AskedParams", "LearntModel", "SetParams", "StageEstimator", "StageModel", "require_rows_at_hand"]


STREAMING = """{owner}: a streaming DataFrame has no end, and what is learnt or judged is so of all rows. \
Release it batch by batch, by a policy:

    publish = privpipe.spark.release_batches(policy)
    stream.writeStream.foreachBatch(publish).option("checkpointLocation", folder).start()
"""


def require_rows_at_hand(owner: str, frame: Any) -> None:
    """Refuse a streaming DataFrame, and what is not a DataFrame of Spark.

    Raises
    ------
    UnsupportedError
        It is a stream; the message shows `foreachBatch`.
    UsageError

    Examples
    --------
    >>> require_rows_at_hand("RankSwap", [])
    Traceback (most recent call last):
        ...
    privpipe.errors.UsageError: RankSwap: a stage of Spark ML takes a Spark DataFrame, not list; ...
    """
    streams = getattr(frame, "isStreaming", None)
    if streams is None:
        kind = type(frame).__name__
        raise UsageError(
            f"{owner}: a stage of Spark ML takes a Spark DataFrame, not {kind}; `stage.apply` takes other frames"
        )
    if streams:
        raise UnsupportedError(STREAMING.format(owner=owner))


class AskedParams(Params, MLReadable[Any], MLWritable):
    """Params by keyword, checked by name; written and read in the format of Spark ML.

    `asked` are the Params of the class, `defaults` their defaults.
    """

    asked: ClassVar[tuple[Asked, ...]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self._setDefault(**self.defaults)
        self._set_by_name(params)

    def _set_by_name(self, params: Mapping[str, Any]) -> Self:
        known = {name: each.name for each in self.asked for name in (each.name, each.alias) if name}
        given: dict[str, Any] = {}
        for name, value in params.items():
            if name not in known:
                raise UsageError(f"{type(self).__name__}: unknown param {name!r}{did_you_mean(name, known)}")
            if known[name] in given:
                raise UsageError(
                    f"{type(self).__name__}: {name!r} is {known[name]!r} by another name; give one of them"
                )
            given[known[name]] = value
        for name, value in given.items():
            # None states nothing where it is the default, and something where that is another.
            if value is not None or self.defaults.get(name) is not None:
                self.set(self.getParam(name), value)
        return self

    def _options(self) -> dict[str, Any]:
        """The options by their own names."""
        return option_values({each.option: self.getOrDefault(each.name) for each in self.asked if each.option})

    def _require_savable(self) -> None:
        """Refuse to write what no file must hold.

        Raises
        ------
        UsageError
        """
        for each in self.asked:
            why = unsavable(each.option, self.getOrDefault(each.name)) if each.option else ""
            if why:
                raise UsageError(f"{type(self).__name__} is not saved: {each.name}: {why}")

    def _loaded(self) -> Self:
        """The same, once its Params were read."""
        return self

    def write(self) -> Writer:
        """A writer, as in ``write().overwrite().save(path)``; seeds are never written, where they are kept is."""
        return Writer(self, self._require_savable)

    @classmethod
    def read(cls) -> Reader:
        """A reader of what the class has written."""
        return Reader(cls)


class SetParams(AskedParams):
    """Params that can be set."""

    @bordered
    def setParams(self, **params: Any) -> Self:  # noqa: N802 - Spark ML's name
        """Set Params by name.

        Raises
        ------
        UsageError
            An unknown Param, or a value that it does not take.
        """
        return self._set_by_name(params)


class LearntModel(AskedParams, Model):
    """A model whose Params show what it was fitted with: set to something else, they would be wrong."""

    def _hold(self, estimator: Params) -> Self:
        """The model with the identity and the Params of the estimator that fitted it."""
        self._resetUid(estimator.uid)
        estimator._copyValues(self)
        return self._held()

    def _loaded(self) -> Self:
        return self._held()

    def _held(self) -> Self:
        self._fitted_with = {each.name: value for each, value in self.extractParamMap().items()}
        return self

    def _require_fitted(self) -> None:
        """Refuse a model that was not fitted, or whose Params were set since.

        Raises
        ------
        UsageError
        """
        found = {each.name: value for each, value in self.extractParamMap().items()}
        held = getattr(self, "_fitted_with", None)
        if held is None:
            raise UsageError(f"{type(self).__name__}: learnt nothing yet; `fit` of the estimator makes a model")
        for name in sorted({*found, *held}):
            if found.get(name) != held.get(name):
                raise UsageError(f"{type(self).__name__}: {name} was another when it was fitted; fit again")


class StageParams(AskedParams):
    """The Params of a transformer; `named` has the Param of each of its fields."""

    transformer: ClassVar[type[Transformer]]
    named: ClassVar[Mapping[str, str]] = {}

    def _stage(self) -> Transformer:
        """The transformer as the Params describe it.

        Raises
        ------
        UsageError
            A Param is missing, or does not go with another.
        """
        owner = type(self).__name__
        for name in self.named.values():
            if not self.isDefined(name):
                raise UsageError(f"{owner}: {name} is required")
        values = {field: self.getOrDefault(name) for field, name in self.named.items()}
        defaults = {field: self.defaults.get(name, ...) for field, name in self.named.items()}
        # A default that is None is left out, as everywhere: not every type of a field admits it.
        given = {key: value for key, value in values.items() if value is not None or defaults[key] is not None}
        return self.transformer.build(given)


class StageEstimator(StageParams, SetParams, Estimator[Any]):
    """Base of the estimators that represent transformers; `fit` learns and gives a `StageModel`."""

    model_class: ClassVar[type[StageModel]]

    @bordered
    def _fit(self, dataset: Any) -> StageModel:
        require_rows_at_hand(type(self).__name__, dataset)
        model = self.model_class()
        model._learnt = self._stage().fit(dataset, **self._options())
        return model._hold(self)


class StageModel(StageParams, LearntModel):
    """Base of the models that `fit` gives; `transform` is lazy, and what comes out is not judged."""

    _learnt: FittedStage

    @property
    def plan(self) -> Mapping[str, Any]:
        """What was learnt, as plain JSON with its digest; private, for it may reveal much of the frame."""
        self._require_fitted()
        return self._learnt.plan

    @property
    def repeatable(self) -> bool:
        """Whether a seed was given: what a drawn one did cannot be done again once this object is gone."""
        self._require_fitted()
        return self._learnt.repeatable

    @bordered
    def _transform(self, dataset: Any) -> Any:
        self._require_fitted()
        require_rows_at_hand(type(self).__name__, dataset)
        return self._learnt.transform(dataset)

    def _learnt_text(self) -> str:
        """What is written in addition to the Params."""
        self._require_fitted()
        return text_of(self._learnt)

    def _read_learnt(self, text: str, path: str) -> Self:
        """The model with what was written; its Params are set already."""
        self._learnt = learnt_of(text, path, self._options().get("seed"))
        return self
