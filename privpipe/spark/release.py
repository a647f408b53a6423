"""A whole policy as a stage: what it plans over one frame, judged, and applied to that frame or to others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pyspark.ml.base import Estimator

from privpipe.border import bordered
from privpipe.errors import UsageError
from privpipe.spark.parameters import Asked, with_params
from privpipe.spark.stages import AskedParams, LearntModel, SetParams, require_rows_at_hand

if TYPE_CHECKING:
    from privpipe.draws import Seed
    from privpipe.policy import Policy
    from privpipe.running.plan import Plan

__all__ = ["Release", "ReleaseModel"]


def _document(value: Any) -> Any:
    """A policy as the mapping and the folder that can be saved; unchanged, where it holds what no file must."""
    from privpipe.policy import Policy

    if value is None:
        return None
    if isinstance(value, Mapping) and set(value) == {"document", "base_dir"}:
        value = Policy.from_dict(value["document"], value["base_dir"])
    elif isinstance(value, Mapping):
        value = Policy.from_dict(value)
    elif isinstance(value, str | os.PathLike):
        value = Policy.load(value)
    if not isinstance(value, Policy):
        raise UsageError(f"policy must be a Policy, a mapping or the path of a YAML file, not {type(value).__name__}")
    if _why_unsavable(value):
        return value
    return {"document": value.document, "base_dir": str(value.base_dir)}


def _why_unsavable(policy: Policy) -> str:
    seed = policy.seed
    if seed is not None and (seed.within is not None or seed.held is not None):
        return "its seed is in it; name the place where it is kept, as in `seed: {from_env: PRIVPIPE_SEED}`"
    return "" if policy.document else "it was made without a document"


POLICY = (Asked("policy", "a policy: a mapping, the path of a YAML file or a Policy", _document),)


class PolicyParams(AskedParams):
    """The Param of a policy."""

    def _policy(self) -> Policy:
        from privpipe.policy import Policy

        found = self.getOrDefault("policy")
        if found is None:
            raise UsageError(f"{type(self).__name__}: policy is required")
        return found if isinstance(found, Policy) else Policy.from_dict(found["document"], found["base_dir"])

    def _require_savable(self) -> None:
        why = _why_unsavable(self._policy())
        if why:
            raise UsageError(f"{type(self).__name__} is not saved: policy: {why}")


@with_params(POLICY, {"policy": None}, setters=True)
class Release(PolicyParams, SetParams, Estimator[Any]):
    """Run a policy's stages over a frame and judge the result.

    `fit` learns every stage and raises `Refused` where a guarantee does not hold. The model's `transform` follows the
    plan: over the frame that was fitted without another look, over other rows as far as the plan is a function of
    values, and these are judged before they come back. Nothing is written: `source:` and `sink:` are not used.

    Parameters
    ----------
    policy : Policy, mapping or path

    Examples
    --------
    >>> columns = {"age": {"role": "quasi_identifier"}}
    >>> policy = {"columns": columns, "guarantees": [{"k_anonymity": {"k": 5}}]}
    >>> Release(policy=policy).getPolicy()["document"]["guarantees"]
    [{'k_anonymity': {'k': 5}}]
    """

    @bordered
    def _fit(self, dataset: Any) -> ReleaseModel:
        from privpipe.running.run_context import seed_of
        from privpipe.spark.policy_run import run_policy

        require_rows_at_hand(type(self).__name__, dataset)
        policy = self._policy()
        seed = seed_of(policy)
        _, plan = run_policy(policy, seed, dataset)
        return ReleaseModel()._learnt_by(plan, seed)._hold(self)


@with_params(POLICY, {"policy": None}, setters=False)
class ReleaseModel(PolicyParams, LearntModel):
    """What a policy planned over a DataFrame; `transform` gives rows that were judged."""

    _plan: Plan
    _seed: Seed

    def _learnt_by(self, plan: Plan, seed: Seed) -> Self:
        self._plan, self._seed = plan, seed
        return self

    @property
    def plan(self) -> Mapping[str, Any]:
        """The plan of every stage, as plain JSON with its digest; private, for it may reveal much of the frame."""
        self._require_fitted()
        return {**self._plan.to_dict(), "digest": self._plan.digest}

    @bordered
    def _transform(self, dataset: Any) -> Any:
        from privpipe.spark.policy_run import run_policy

        self._require_fitted()
        require_rows_at_hand(type(self).__name__, dataset)
        released, _ = run_policy(self._policy(), self._seed, dataset, self._plan)
        return released

    def _learnt_text(self) -> str:
        """What is written in addition to the Params."""
        self._require_fitted()
        return self._plan.to_json()

    def _read_learnt(self, text: str, path: str) -> None:
        """Take what was written; the Params are set already."""
        from privpipe.running.plan import Plan, require_fitting
        from privpipe.running.run_context import seed_of

        policy = self._policy()
        seed, plan = seed_of(policy), Plan.from_json(text, policy)
        require_fitting(plan, policy, seed)
        self._learnt_by(plan, seed)


for _each in (Release, ReleaseModel):
    # Spark ML writes the module down and looks the class up there when it reads.
    _each.__module__ = "privpipe.spark"
