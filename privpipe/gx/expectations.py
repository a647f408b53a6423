"""The expectations: one for each guarantee of the catalogues that can be one, and one for HIPAA Safe Harbor."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, Literal

from great_expectations.compatibility import pydantic
from great_expectations.core.expectation_validation_result import ExpectationValidationResult
from great_expectations.core.suite_parameters import is_suite_parameter
from great_expectations.expectations.expectation import BatchExpectation, MetaExpectation, render_suite_parameter_string
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.render import LegacyDiagnosticRendererType, LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer
from great_expectations.render.renderer_configuration import RendererConfiguration, RendererValueType
from great_expectations.validator.validator import ValidationDependencies

from privpipe.blocks import Guarantee
from privpipe.blocks.guarantee import COMMON_KEYS
from privpipe.blocks.parameters import parameters_of
from privpipe.blocks.verdict import plain
from privpipe.border import bordered
from privpipe.errors import PrivpipeError, UnsupportedError, UsageError, did_you_mean
from privpipe.gx.batch import METRIC, Asked, OpenBatch, dependencies_on, require_whole
from privpipe.gx.tables import OtherTable
from privpipe.hierarchies import HierarchySpec
from privpipe.judging import Gate
from privpipe.judging.rules import undeclared_rule
from privpipe.judging.ways import WayOfJudging, way_of
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.relations.guarantees import JointGuarantee
from privpipe.roles import Roles

__all__ = [
    "COLUMNS",
    "EXPECTATIONS",
    "MEANT",
    "REFUSED",
    "SETTINGS",
    "ExpectSafeHarbor",
    "Expectations",
    "PrivacyExpectation",
    "Rendered",
    "meaning_of",
    "taken",
    "ways_of",
    "why_refused",
]


MEANT = "privpipe"
"""The key of an expectation's meta under which it is stored."""
SHOWN = {"threat": "guards_against", "formula": "rule", "source": "source"}


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
    said = {key: " ".join(str(getattr(entry, name, "") or "").split()) for name, key in SHOWN.items()}
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
        yield f"{failing:,} of {records:,} records ({failing / records:.2%}) are in {classes}."


def ways_of(entry: type[Guarantee]) -> list[WayOfJudging]:
    """How the entry is judged; it may differ from instance to instance, so its examples are asked."""
    return list(dict.fromkeys(way_of(example) for example in entry.examples()))


def why_refused(ways: Collection[WayOfJudging], threshold: str | None, *, model: bool) -> str:
    """Why there is no expectation of an entry, or nothing.

    Parameters
    ----------
    ways : collection of WayOfJudging
        Those of its examples.
    threshold : str or None
        Name of the threshold.
    model : bool
        Whether it is a privacy model, which judges without one.

    Examples
    --------
    >>> from privpipe.measures import RecordLinkage
    >>> why_refused(ways_of(RecordLinkage), None, model=False)
    'it only reports: it has no threshold by which it could fail'
    >>> why_refused(ways_of(RecordLinkage), "at_most", model=False)
    ''
    """
    if threshold is None and not model:
        return "it only reports: it has no threshold by which it could fail"
    reasons = [way.no_expectation for way in ways]
    return reasons[0] if reasons and all(reasons) else ""


def taken(names: set[str]) -> str:
    """Why parameters of these names make no fields of an expectation, or nothing where there are none."""
    listed = ", ".join(map(repr, sorted(names)))
    return f"every expectation has its own field {listed}" if names else ""


SETTINGS = (
    *("quasi_identifiers", "sensitive", "nulls", "suppression_mark", "original_source", "align", "record_id"),
    *("population_source", "hierarchies", "plan", "seed", "identifiers", "insensitive", "declared", "undeclared"),
    *("judge", "person_id", "household_id", "empty"),
)
"""What every expectation takes in addition to its guarantee's parameters."""
COLUMNS = ("quasi_identifiers", "sensitive", "identifiers", "insensitive", "declared")
"""Settings that are lists of columns."""


Columns = list[str] | dict[str, str]
"""Names of columns, or ``{"$PARAMETER": name}`` where each run gives them."""


class PrivacyExpectation(Rendered, BatchExpectation):
    """Base of all; not itself an expectation.

    In addition to the guarantee's parameters each takes `quasi_identifiers` (required, a list), `sensitive` (every
    sensitive column the suite counts, so that expectations over the same columns make one count), `nulls` and
    `suppression_mark`; where they are needed `original_source` and `population_source` (a path, a mapping with `path`
    and how to read it, or ``{"handle": name}`` of `privpipe.gx.hold`; never a table), `align` with `record_id` (how
    records are paired with the original's), `hierarchies` (as in a policy, by column), `plan` (path of a release's own
    plan, for attacks that know it) and `seed` (``{"from_env": name}`` or ``{"from_file": path}``, for attacks that
    sample); and `person_id` and `household_id`, the columns that identify these. What cannot be judged fails with the
    reason.

    `identifiers` and `insensitive` are the roles of the batch's other columns, and `declared` lists those that have a
    role and are not its own. A list of columns may be a parameter of the run, as a threshold may. An identifier in
    the batch fails every expectation that knows of it. Where one of the three is given, and for
    `expect_no_identifiers`, a column (or a named index level) without a role is an error, unless ``undeclared: note``
    is given; else it is named in the result's notes, and ``undeclared: refuse`` makes it an error.

    A batch is judged by itself. Where the batches of an asset are published together, ``judge: whole`` fails one that
    is only a part of it: k records in each of two months show nothing about a person in both, and a class of k that is
    spread over them fails in each. A batch without records is an error, except under ``empty: pass``: then the result
    notes that nothing was judged.
    """

    quasi_identifiers: Columns
    sensitive: Columns = []
    nulls: Literal["own_value", "refuse"] = "own_value"
    suppression_mark: str = "*"
    empty: Literal["refuse", "pass"] = "refuse"
    original_source: Any = None
    align: Literal["record_id", "position"] = "record_id"
    record_id: str | None = None
    population_source: Any = None
    hierarchies: Any = None
    plan: str | None = None
    seed: Any = None
    identifiers: Columns = []
    insensitive: Columns = []
    declared: Columns = []
    undeclared: Literal["refuse", "note"] | None = None
    judge: Literal["batch", "whole"] = "batch"
    person_id: str | None = None
    household_id: str | None = None

    entry: ClassVar[type[Guarantee]]
    metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
    success_keys: ClassVar[tuple[str, ...]] = SETTINGS
    args_keys: ClassVar[tuple[str, ...]] = ()

    def guarantee(self) -> Guarantee:
        """The guarantee with this expectation's parameters.

        Raises
        ------
        UnsupportedError
            With these parameters it reads what an expectation does not have.
        """
        names = [field.name for field in dataclasses.fields(self.entry) if field.name not in COMMON_KEYS]
        given = {name: getattr(self, name) for name in names if getattr(self, name, None) is not None}
        keys = tuple(self.quasi_identifiers)
        made = self.entry.build(given)
        way = way_of(made)
        if why := way.no_expectation:
            raise UnsupportedError(f"{made.name()} is not an expectation with these parameters: {why}")
        if way.takes_keys and made.own_columns() is None:
            made = dataclasses.replace(made, quasi_identifiers=keys)
        return made

    def require_places(self) -> None:
        """Refuse a table where the place of one is wanted.

        Raises
        ------
        UsageError
            `original_source` or `population_source` is a table, which a saved suite would hold with all its records.
        """
        self._other_tables()

    def _other_tables(self) -> tuple[OtherTable | None, OtherTable | None]:
        original, population = (
            None if given is None else OtherTable.read(name, given)
            for name, given in (
                ("original_source", self.original_source),
                ("population_source", self.population_source),
            )
        )
        return original, population

    def asked(self) -> Asked:
        """How the batch is read, and what belongs to it."""
        own = self.guarantee().with_roles(self._roles())
        household = own.household_column()
        counted = {*self.sensitive, *own.sensitive_columns(), *([household] if household else [])}
        original, population = self._other_tables()
        whole = own.way.of_columns or bool(self.identifiers or self.insensitive or self.declared)
        undeclared = undeclared_rule(self.undeclared, whole=whole)
        return Asked(
            roles=self._roles(),
            gate=Gate(
                undeclared=undeclared, metadata=undeclared, declared=tuple(self.declared), whole=False, notes=True
            ),
            counted=tuple(sorted(counted - set(self.quasi_identifiers))),
            nulls=self.nulls,
            mark=self.suppression_mark,
            empty=self.empty,
            original=original,
            align=self.align,
            record_id=self.record_id,
            person=self.person_id,
            household=self.household_id,
            population=population,
            hierarchies=self.hierarchies or {},
            plan=self.plan,
            seed=self.seed,
        )

    def _roles(self) -> Roles:
        return Roles(**{name: getattr(self, name) for name in COLUMNS if name != "declared"})

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: dict[str, Any] | None = None
    ) -> ValidationDependencies:
        """One metric, the same for all expectations of a batch."""
        self.guarantee()  # what is not an expectation is reported before anything is counted
        return dependencies_on(self.batch_id, runtime_configuration)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        batch: OpenBatch = metrics[METRIC]
        guarantee = self.guarantee()
        try:
            if self.judge == "whole":
                require_whole(execution_engine)
            found = batch.judged(guarantee, self.asked())
        except PrivpipeError as error:
            details = {"outcome": "error", "threshold": plain(guarantee.demanded()), "reason": str(error)}
            return {"success": False, "result": {"observed_value": None, "details": details}}
        row = found.verdicts[-1].to_dict()
        details = {key: row[key] for key in ("outcome", "threshold", "failing_classes", "failing_records", "reason")}
        for built_in in found.verdicts[:-1]:
            details |= {"outcome": "fail", "reason": f"{built_in.name}: {built_in.reason} {details['reason']}"}
        return {
            "success": found.passed,
            "result": {
                "observed_value": row["observed"],
                "element_count": found.records + found.suppressed_records,
                "details": {
                    **details,
                    "suppressed_records": found.suppressed_records,
                    "notes": [*found.notes, *found.source_notes],
                },
            },
        }


def _expectation(entry: type[Guarantee]) -> type[PrivacyExpectation]:
    """Make the expectation of an entry; the class registers itself under its snake_case name."""
    annotations: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    own = [field for field in dataclasses.fields(entry) if field.name not in COMMON_KEYS]
    for field in own:
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        annotations[field.name] = Any
        if not required:
            fields[field.name] = plain(field.default) if field.default is not dataclasses.MISSING else None

    def checked(cls: type[PrivacyExpectation], values: dict[str, Any]) -> dict[str, Any]:
        given = {field.name: values[field.name] for field in own if values.get(field.name) is not None}
        later = {name for name, value in given.items() if is_suite_parameter(value)}
        problems = {
            name: text
            for name, text in entry.problems({name: each for name, each in given.items() if name not in later}).items()
            if name not in later
        }
        if entry.threshold_field is not None and not {entry.threshold_field, *entry.other_thresholds} & set(given):
            problems[entry.threshold_field] = "is required: an expectation needs a threshold"
        problems |= _problems_of_settings(values)
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


def _problems_of_settings(values: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with what an expectation says in addition to its guarantee; no value of a table is shown."""
    found: dict[str, str] = {}
    for name in COLUMNS:
        if isinstance(values.get(name), Mapping) and not is_suite_parameter(values[name]):
            found[name] = 'must be a list of columns, or {"$PARAMETER": name}'
    for name in ("original_source", "population_source"):
        try:
            if values.get(name) is not None:
                OtherTable.read(name, values[name])
        except UsageError as error:
            found[""] = str(error)
    seed = values.get("seed")
    if seed is not None and not _is_place_of_seed(seed):
        found["seed"] = "write {from_env: NAME} or {from_file: PATH}; a suite holds no secret"
    hierarchies = values.get("hierarchies")
    if hierarchies is not None and not isinstance(hierarchies, Mapping):
        found["hierarchies"] = "must be a mapping of columns to hierarchies"
    elif hierarchies:
        try:
            for column, given in hierarchies.items():
                HierarchySpec.from_mapping(given, column=column)
        except UsageError as error:
            found["hierarchies"] = str(error)
    return found


def _is_place_of_seed(given: Any) -> bool:
    return (
        isinstance(given, Mapping)
        and len(given) == 1
        and all(name in ("from_env", "from_file") and isinstance(each, str) and each for name, each in given.items())
    )


class Expectations(dict[str, type[PrivacyExpectation]]):
    """Expectation classes by the catalogue name of their guarantee."""

    def __missing__(self, name: str) -> type[PrivacyExpectation]:
        """Refuse a name with the reason.

        Raises
        ------
        UnsupportedError
            An entry of a catalogue that cannot be an expectation.
        UsageError
            No entry.
        """
        if name in REFUSED:
            raise UnsupportedError(f"{name} is not an expectation: {REFUSED[name]}")
        raise UsageError(f"no entry of a catalogue is called {name!r}{did_you_mean(name, self)}")


def _made() -> tuple[Expectations, dict[str, str]]:
    made, refused = Expectations(), {}
    for catalogue in (MODELS, MEASURES):
        for name in catalogue:
            entry = catalogue[name]
            if not issubclass(entry, Guarantee):
                raise UsageError(f"{name} is in a catalogue of guarantees but is not a guarantee")
            why = _refusal(entry, catalogue is MODELS, built_in=name in catalogue.built_in)
            if why:
                refused[name] = why
            else:
                made[name] = _expectation(entry)
    return made, refused


def _refusal(entry: type[Guarantee], model: bool, *, built_in: bool) -> str:
    own = {field.name for field in dataclasses.fields(entry)} - set(COMMON_KEYS)
    try:
        ways = ways_of(entry)
    except Exception as error:
        if built_in:
            raise
        return f"the plug-in that brings it makes no examples ({type(error).__name__})"
    return why_refused(ways, entry.threshold_field, model=model) or taken(own & set(PrivacyExpectation.__fields__))


EXPECTATIONS, REFUSED = _made()
"""Expectation classes by the catalogue name of their guarantee, and why the other entries have none."""


@bordered
class ExpectSafeHarbor(BatchExpectation):
    """No column looks like one of the 18 kinds of identifiers of 45 CFR 164.514(b)(2); observed = such columns.

    It searches the names of columns and their distinct values (`privpipe.reporting.safe_harbor`). A PASS does not show
    that the batch conforms: free text may name people in forms that no pattern finds.

    Parameters
    ----------
    vouched : list of str, optional
        Columns that a person looked at and vouches for, such as ``zip`` after only its first three digits were left.
    """

    vouched: list[str] | dict[str, str] = []

    metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
    success_keys: ClassVar[tuple[str, ...]] = ("vouched",)
    args_keys: ClassVar[tuple[str, ...]] = ()

    @property
    def awaited(self) -> list[str]:
        """Names of the parameters that each run must give."""
        return [self.vouched["$PARAMETER"]] if isinstance(self.vouched, dict) else []

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        batch: OpenBatch = metrics[METRIC]
        try:
            found = [each for each in batch.safe_harbor() if each.column not in self.vouched]
        except PrivpipeError as error:
            details = {"outcome": "error", "threshold": 0, "reason": str(error)}
            return {"success": False, "result": {"observed_value": None, "details": details}}
        columns = sorted({each.column for each in found})
        reason = "; ".join(f"column {each.column!r} seems to hold {each}" for each in found)
        details = {"outcome": "fail" if found else "pass", "threshold": 0, "reason": reason}
        return {"success": not found, "result": {"observed_value": len(columns), "details": details}}
