"""The expectations, one for each guarantee of the catalogues, with the guarantee's parameters as fields."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

from great_expectations.compatibility import pydantic
from great_expectations.expectations.expectation import BatchExpectation, MetaExpectation
from great_expectations.expectations.metrics.metric_provider import MetricConfiguration
from great_expectations.validator.validator import ValidationDependencies

from privpipe.blocks import Catalogue, Guarantee, Verdict
from privpipe.blocks.verdict import plain
from privpipe.errors import UnsupportedError, UsageError
from privpipe.gx.class_table import METRIC, CountedClasses
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.roles import Roles

__all__ = ["EXPECTATIONS", "PrivacyExpectation"]


class PrivacyExpectation(BatchExpectation):
    """Base of all; not an expectation of its own.

    Besides the guarantee's parameters each takes `quasi_identifiers` (required, a list), `sensitive` (every
    sensitive column the suite counts, so that expectations over the same columns make one count), `nulls` and
    `suppression_mark`.
    """

    quasi_identifiers: list[str]
    sensitive: list[str] = []
    nulls: Literal["own_value", "refuse"] = "own_value"
    suppression_mark: str = "*"

    entry: ClassVar[type[Guarantee]]
    metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
    success_keys: ClassVar[tuple[str, ...]] = ("quasi_identifiers", "sensitive", "nulls", "suppression_mark")
    args_keys: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def is_abstract(cls) -> bool:
        """Whether this is the base."""
        return "entry" not in vars(cls)

    def guarantee(self) -> Guarantee:
        """The guarantee with this expectation's parameters."""
        if getattr(self, "items", None) is not None:
            raise UnsupportedError(f"{self.entry.name()}: an expectation counts classes, not sets of items")
        if not isinstance(getattr(self, "base", None), str | None):
            raise UnsupportedError(f"{self.entry.name()}: an expectation compares with its batch, not with a file")
        names = [field.name for field in dataclasses.fields(self.entry)]
        given = {name: getattr(self, name) for name in names if getattr(self, name, None) is not None}
        keys = tuple(self.quasi_identifiers)
        made = self.entry.build(given).over(Roles(quasi_identifiers=keys, sensitive=self.sensitive))
        if made.key_sets(keys) != (keys,):
            raise UnsupportedError(f"{made.name()}: an expectation counts one set of quasi-identifiers, not several")
        return made

    def counted_columns(self) -> list[str]:
        """Columns whose values are counted: the guarantee's own and those shared with the suite."""
        guarantee = self.guarantee()
        household = guarantee.household_column()
        return sorted({*self.sensitive, *guarantee.sensitive_columns(), *([household] if household else [])})

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: dict[str, Any] | None = None
    ) -> ValidationDependencies:
        """One metric, the same for all expectations over the same columns."""
        dependencies = ValidationDependencies(
            result_format=(runtime_configuration or {}).get("result_format", {"result_format": "BASIC"})
        )
        metric = MetricConfiguration(
            metric_name=METRIC,
            metric_domain_kwargs={"batch_id": self.batch_id},
            metric_value_kwargs={
                "quasi_identifiers": list(self.quasi_identifiers),
                "sensitive": self.counted_columns(),
                "nulls": self.nulls,
                "suppression_mark": self.suppression_mark,
                "weight": self.guarantee().weight_column(),
            },
        )
        dependencies.set_metric_configuration(METRIC, metric)
        return dependencies

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        counted: CountedClasses = metrics[METRIC]
        guarantee = self.guarantee()
        judged = counted.judged(guarantee)
        if not judged.released:
            verdict = Verdict(guarantee, None, "fail", guarantee.demanded(), reason="every record is suppressed.")
        else:
            verdict = guarantee.judge(judged.tallies[0], counted.known_to(guarantee))
        row = verdict.to_dict()
        details = {key: row[key] for key in ("outcome", "threshold", "failing_classes", "failing_records", "reason")}
        return {
            "success": verdict.passed,
            "result": {
                "observed_value": plain(verdict.observed),
                "element_count": judged.released + judged.marked,
                "details": {**details, "suppressed_records": judged.marked},
            },
        }


def _expectation(entry: type[Guarantee]) -> type[PrivacyExpectation]:
    """Make the expectation of an entry; the class registers itself under its snake_case name."""
    annotations: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    own = [field for field in dataclasses.fields(entry) if field.name != "quasi_identifiers"]
    for field in own:
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        annotations[field.name] = Any
        if not required:
            fields[field.name] = plain(field.default) if field.default is not dataclasses.MISSING else None

    def checked(cls: type[PrivacyExpectation], values: dict[str, Any]) -> dict[str, Any]:
        given = {field.name: values[field.name] for field in own if values.get(field.name) is not None}
        problems = entry.problems(given)
        if entry.threshold_field is not None and given.get(entry.threshold_field) is None:
            problems[entry.threshold_field] = "is required: an expectation needs a threshold"
        if problems:
            raise ValueError("; ".join(f"{name}: {text}" if name else text for name, text in problems.items()))
        return values

    name = f"Expect{entry.__name__}"
    made: type[PrivacyExpectation] = MetaExpectation(
        name,
        (PrivacyExpectation,),
        {
            "__module__": __name__,
            "__doc__": f"{entry.summary()}\n\nParameters are those of the guarantee `{entry.name()}`.",
            "__annotations__": {"entry": ClassVar[type[Guarantee]], "success_keys": ClassVar[tuple[str, ...]]}
            | annotations,
            "entry": entry,
            "success_keys": (*PrivacyExpectation.success_keys, *(field.name for field in own)),
            "_privpipe_check": pydantic.root_validator(allow_reuse=True, skip_on_failure=True)(checked),
            **fields,
        },
    )
    return made


def _made(*catalogues: Catalogue) -> dict[str, type[PrivacyExpectation]]:
    made: dict[str, type[PrivacyExpectation]] = {}
    for catalogue in catalogues:
        for name in catalogue:
            entry = catalogue[name]
            if not issubclass(entry, Guarantee):
                raise UsageError(f"{name} is in a catalogue of guarantees and is none")
            if entry.reads in ("classes", "weights") and not entry.needs_population:
                made[name] = _expectation(entry)
    return made


EXPECTATIONS = _made(MODELS, MEASURES)
"""Expectation classes by the catalogue name of their guarantee."""
