"""A gate as a stage: the frame goes on when every guarantee holds, else the pipeline ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.ml.base import Estimator

from privpipe.border import bordered
from privpipe.errors import UsageError
from privpipe.spark.options import gate_options
from privpipe.spark.parameters import with_params
from privpipe.spark.stages import AskedParams, LearntModel, SetParams, require_rows_at_hand

if TYPE_CHECKING:
    from privpipe.judging import Assessment

__all__ = ["ReleaseGate", "ReleaseGateModel"]


class GateParams(AskedParams):
    """The Params of a gate, and the judging by them."""

    def _judge(self, dataset: Any) -> Assessment:
        """The assessment of a frame that passes.

        Raises
        ------
        Refused
            A guarantee does not hold.
        UsageError
            No guarantee is asked for.
        """
        from privpipe.judging.rules import undeclared_rule
        from privpipe.running.frame_policies import hierarchy_specs, policy_around
        from privpipe.running.verbs import assess

        require_rows_at_hand(type(self).__name__, dataset)
        options = self._options()
        if not options.get("guarantees"):
            raise UsageError(f"{type(self).__name__}: guarantees is required: without any, every table would pass")
        options["hierarchies"] = hierarchy_specs(options.get("hierarchies"))
        options["suppression_mark"] = options.pop("mark", None)
        options["undeclared"] = undeclared_rule(options.get("undeclared"), whole="roles" in options)
        if "roles" in options:
            options["guarantees"] = [each.with_roles(options["roles"]) for each in options["guarantees"]]
        return assess(dataset, policy_around(dataset.columns, **options)).raise_if_failed()


@with_params(gate_options("ReleaseGate"), setters=True)
class ReleaseGate(GateParams, SetParams, Estimator[Any]):
    """Let a frame through when every guarantee holds.

    `fit` judges the frame and raises `Refused` where one does not hold, so that a pipeline ends there. The model
    judges each frame that it is given, too, and returns the rows that it judged, held in a checkpoint.

    Parameters
    ----------
    guarantees : list of models
        As ``[KAnonymity(k=5)]`` or ``[{"k_anonymity": {"k": 5}}]``.
    roles : Roles or mapping of lists
        A column without a role is an error then, and an identifier a fail.
    undeclared : {"refuse", "note"}, optional
        ``note``: a column without a role passes.
    hierarchies : mapping of column to builder mapping, path or Hierarchy, optional
    empty : {"refuse", "pass"}, optional
        ``pass``: a frame without records passes, as an empty batch of a stream may.
    personId, householdId, nulls, mark : optional
        As the options of a transformer.

    Examples
    --------
    >>> gate = ReleaseGate(guarantees=[{"k_anonymity": {"k": 5}}], roles={"quasi_identifiers": ["age"]})
    >>> gate.getGuarantees()
    [{'k_anonymity': {'k': 5}}]
    """

    @bordered
    def _fit(self, dataset: Any) -> ReleaseGateModel:
        self._judge(dataset)
        return ReleaseGateModel()._hold(self)


@with_params(gate_options("ReleaseGateModel"), setters=False)
class ReleaseGateModel(GateParams, LearntModel):
    """A gate that let a frame through; `transform` judges and gives the frame back, its rows held."""

    @bordered
    def _transform(self, dataset: Any) -> Any:
        from privpipe.checks.frame_checks import held_frame

        self._require_fitted()
        require_rows_at_hand(type(self).__name__, dataset)
        _, held = held_frame(dataset)
        with held.unless_refused():
            self._judge(held.rows)
        return held.rows


for _each in (ReleaseGate, ReleaseGateModel):
    # Spark ML writes the module down and looks the class up there when it reads.
    _each.__module__ = "privpipe.spark"
