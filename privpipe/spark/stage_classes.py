"""The classes of Spark ML for the transformers, made from the catalogue when first used."""

from __future__ import annotations

import functools
from typing import Any

from privpipe.spark.options import stage_options
from privpipe.spark.parameters import Asked, asked_of, defaults_of, names_of, with_params
from privpipe.spark.stages import StageEstimator, StageModel
from privpipe.transforms import CATALOGUE
from privpipe.transforms.base import Transformer

__all__ = ["made", "made_names", "model_of"]


ROOM = "privpipe.spark"
"""Where Spark ML looks a class up again when it reads what was saved."""
MODEL = "Model"


def made(name: str) -> Any:
    """The estimator of a transformer's CamelCase name, or the model of that name with ``Model`` behind it.

    Raises
    ------
    AttributeError
        There is no such transformer.

    Examples
    --------
    >>> made("RankSwapModel").__name__, made("RankSwap").__module__
    ('RankSwapModel', 'privpipe.spark')
    """
    try:
        kind: Any = _transformer(name)
        return _estimator_of(kind)
    except AttributeError:
        if not name.endswith(MODEL) or name == MODEL:
            raise AttributeError(f"module {ROOM!r} has no attribute {name!r}") from None
    try:
        return model_of(_transformer(name.removesuffix(MODEL)))
    except AttributeError:
        raise AttributeError(f"module {ROOM!r} has no attribute {name!r}") from None


def made_names() -> list[str]:
    """The names that `made` accepts."""
    stages = [name for name in CATALOGUE.attributes() if name != "CATALOGUE"]
    return [*stages, *(name + MODEL for name in stages)]


def model_of(transformer: type[Transformer]) -> type[StageModel]:
    """The class of the models of a transformer: its parameters can be read there, and no longer be set."""
    kind: Any = transformer
    found: type[StageModel] = _model_of(kind)
    return found


@functools.cache
def _model_of(transformer: Any) -> type[StageModel]:
    text = f"What `{transformer.__name__}` learnt from a DataFrame; `transform` is lazy and judges nothing."
    found: type[StageModel] = _class(transformer, StageModel, transformer.__name__ + MODEL, text, setters=False)
    return found


@functools.cache
def _estimator_of(transformer: Any) -> type[StageEstimator]:
    text = transformer.summary() + "\n\n    Parameters\n    ----------\n    "
    lines = [f"{each.name} : {each.text}" for each in _asked(transformer)]
    found: type[StageEstimator] = _class(
        transformer, StageEstimator, transformer.__name__, text + "\n    ".join(lines), setters=True
    )
    found.model_class = model_of(transformer)
    return found


def _transformer(name: str) -> type[Transformer]:
    if not name[:1].isupper() or name == "CATALOGUE":
        raise AttributeError(name)
    found: type[Transformer] = CATALOGUE.attribute(name)  # type: ignore[assignment]
    return found


def _asked(transformer: type[Transformer]) -> list[Asked]:
    own = asked_of(transformer)
    return [*own, *stage_options(transformer.__name__, {each.name for each in own})]


def _class(transformer: type[Transformer], base: type[Any], name: str, text: str, *, setters: bool) -> type[Any]:
    named = {"transformer": transformer, "named": names_of(transformer)}
    found = type(name, (base,), {"__module__": ROOM, "__qualname__": name, "__doc__": text, **named})
    return with_params(_asked(transformer), defaults_of(transformer), setters=setters)(found)
