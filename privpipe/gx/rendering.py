"""How Data Docs and suites describe a privacy expectation.

They show its meaning, what was required, what was observed, and why it failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from great_expectations.core.expectation_validation_result import ExpectationValidationResult
from great_expectations.core.suite_parameters import is_suite_parameter
from great_expectations.expectations.expectation import render_suite_parameter_string
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.render import LegacyDiagnosticRendererType, LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer
from great_expectations.render.renderer_configuration import RendererConfiguration, RendererValueType

from privpipe.blocks import Guarantee
from privpipe.blocks.parameters import parameters_of
from privpipe.blocks.verdict import plain
from privpipe.relations.guarantees import JointGuarantee

__all__ = ["MEANT", "Rendered", "meaning_of"]


MEANT = "privpipe"
"""The key of an expectation's meta under which it is stored."""
TOLD = {"threat": "guards_against", "formula": "rule", "source": "source"}


def meaning_of(entry: type[Guarantee | JointGuarantee], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Threshold, what it means in a sentence, against what it guards, its rule and its source, as `explain` has them.

    Parameters
    ----------
    entry : type of Guarantee or JointGuarantee
    parameters : mapping
        Of the expectation; a threshold may be a parameter of the run.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> found = meaning_of(KAnonymity, {"k": 5})
    >>> found["threshold"], found["means"] == KAnonymity.summary()
    ({'k': 5}, True)
    """
    given = [name for name in getattr(entry, "other_thresholds", ()) if parameters.get(name) is not None]
    field = given[0] if given else entry.threshold_field
    asked = {} if field is None else {"threshold": {field: plain(parameters.get(field))}}
    said = {key: " ".join(str(getattr(entry, name, "") or "").split()) for name, key in TOLD.items()}
    return {**asked, "means": entry.summary(), **{key: text for key, text in said.items() if text}}


_OVER = "quasi_identifiers"


class Rendered:
    """What all expectations of guarantees share: the entry, parameters of a run, and the renderers."""

    entry: ClassVar[type[Guarantee]]

    @classmethod
    def is_abstract(cls) -> bool:
        """Whether this is the base."""
        return "entry" not in vars(cls)

    @property
    def awaited(self) -> list[str]:
        """Names of the parameters that each run must give."""
        given = [value for value in vars(self).values() if is_suite_parameter(value)]
        return sorted({str(value["$PARAMETER"]) for value in given})

    @classmethod
    def _prescriptive_template(cls, renderer_configuration: RendererConfiguration) -> RendererConfiguration:
        asked = _asked(renderer_configuration.kwargs, cls.entry)
        for position, (_, text) in enumerate(asked):
            renderer_configuration.add_param(name=f"v{position}", param_type=RendererValueType.STRING, value=text)
        renderer_configuration.template_str = _template(cls.entry, asked)
        return renderer_configuration

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    @render_suite_parameter_string
    def _prescriptive_renderer(
        cls,
        configuration: ExpectationConfiguration | None = None,
        result: ExpectationValidationResult | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> list[RenderedStringTemplateContent]:
        stated = configuration or (result.expectation_config if result is not None else None)
        asked = _asked(stated.kwargs if stated is not None else {}, cls.entry)
        template = {
            "template": _template(cls.entry, asked),
            "params": {f"v{position}": text for position, (_, text) in enumerate(asked)},
            "styling": (runtime_configuration or {}).get("styling") or {},
        }
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.OBSERVED_VALUE)
    def _diagnostic_observed_value_renderer(
        cls,
        configuration: ExpectationConfiguration | None = None,
        result: ExpectationValidationResult | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> str:
        observed = (result.result if result is not None else {}).get("observed_value")
        return "--" if observed is None else f"{observed:,.4g}" if isinstance(observed, float) else f"{observed}"

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_STATEMENT)
    def _diagnostic_unexpected_statement_renderer(
        cls,
        configuration: ExpectationConfiguration | None = None,
        result: ExpectationValidationResult | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> list[RenderedStringTemplateContent]:
        if result is None or result.success:
            return []
        guarded = " ".join(cls.entry.threat.split())
        threat = [f"It guards against this: {guarded}"] if guarded and (result.result or {}).get("details") else []
        text = " ".join([*_why(result.result, result.exception_info or {}), *threat])
        template = {
            "template": "$why",
            "params": {"why": text},
            "tag": "strong",
            "styling": {"classes": ["text-danger"]},
        }
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]


def _asked(kwargs: Mapping[str, Any], entry: type[Guarantee]) -> list[tuple[str, str]]:
    """The guarantee's own parameters and the columns it is over, as texts."""
    own = [name for name in parameters_of(entry) if kwargs.get(name) is not None and name != _OVER]
    shown = [(name, _text(kwargs[name])) for name in own]
    columns = kwargs.get(_OVER)
    return [*shown, (_OVER, _text(columns))] if columns else shown


def _template(entry: type[Guarantee], asked: list[tuple[str, str]]) -> str:
    terms = [f"{name} = $v{position}" for position, (name, _) in enumerate(asked) if name != _OVER]
    over = [f" over $v{position}" for position, (name, _) in enumerate(asked) if name == _OVER]
    return f"{entry.name()}{' with ' if terms else ''}{', '.join(terms)}{''.join(over)}: {entry.summary()}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping) and "$PARAMETER" in value:
        return f"parameter {value['$PARAMETER']}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _why(result: Mapping[str, Any], exception: Mapping[str, Any]) -> Iterator[str]:
    """Reason, counts and share, a sentence each."""
    details = result.get("details") or {}
    if not details:
        raised = [each for each in (exception, *exception.values()) if isinstance(each, Mapping)]
        yield next((str(each["exception_message"]) for each in raised if each.get("exception_message")), "Not judged.")
        return
    yield str(details.get("reason") or "The guarantee does not hold.")
    failing, records = details.get("failing_records"), result.get("element_count")
    if failing and records:
        classes = f"{details.get('failing_classes') or 0:,} failing classes"
        yield f"{failing:,} of {records:,} records ({failing / records:.2%}) lie in {classes}."
