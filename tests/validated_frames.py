"""Frames given to Great Expectations as its users do: as a batch, with a suite, before a checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["batch_of", "gate", "passing", "quiet_context", "validated", "whole_frames"]


def quiet_context() -> Any:
    """A context in memory, without bars."""
    gx = pytest.importorskip("great_expectations")
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return context


def whole_frames(context: Any, *, spark: bool = False) -> Any:
    """A definition of batches, each a whole frame."""
    add = context.data_sources.add_spark if spark else context.data_sources.add_pandas
    return add("source").add_dataframe_asset("asset").add_batch_definition_whole_dataframe("all")


def batch_of(frame: Any, *, spark: bool = False) -> Any:
    """A frame that expectations and suites are validated against."""
    return whole_frames(quiet_context(), spark=spark).get_batch({"dataframe": frame})


def definition(suite: Any, context: Any, *, spark: bool = False) -> Any:
    """What is validated: a suite over whole frames."""
    import great_expectations as gx

    data, added = whole_frames(context, spark=spark), context.suites.add_or_update(suite)
    return context.validation_definitions.add(gx.ValidationDefinition(name="gate", data=data, suite=added))


def validated(suite: Any, frame: Any, context: Any = None, *, spark: bool = False) -> Any:
    """The whole result of a suite over a frame."""
    run = definition(suite, context or quiet_context(), spark=spark).run
    return run(batch_parameters={"dataframe": frame}, result_format="COMPLETE")


def gate(suite: Any, context: Any = None, *, expects: Any = None) -> Any:
    """A checkpoint that raises where the suite does not hold."""
    import great_expectations as gx

    import privpipe.gx as ppgx

    context = context or quiet_context()
    action = ppgx.RaiseOnFailure(name="gate", expects=expects)
    checkpoint = gx.Checkpoint(name="gate", validation_definitions=[definition(suite, context)], actions=[action])
    return context.checkpoints.add(checkpoint)


def passing(checkpoint: Any, frame: Any, **parameters: Any) -> Any:
    """What a checkpoint gives back for a frame; it raises where it is a gate and the frame fails."""
    return checkpoint.run(batch_parameters={"dataframe": frame}, expectation_parameters=parameters)
