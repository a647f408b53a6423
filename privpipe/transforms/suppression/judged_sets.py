"""Which guarantees a stage that suppresses works for, by the quasi-identifiers they are judged on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from privpipe.blocks import ClassModel, Guarantee, SizeModel
from privpipe.blocks.way import Over
from privpipe.errors import NoSolutionError, UnsupportedError
from privpipe.roles import Roles
from privpipe.transforms.base import StageContext

__all__ = ["EVERY_WAY", "JudgedSets", "Keys", "judged_columns", "judged_sets", "require_attainable", "unserved"]

Keys = tuple[str, ...]
EVERY_WAY = ("persons", "population", "wildcard", "labels")
"""All ways of counting that a stage may serve in addition to records in classes of its own table."""


@dataclass(frozen=True)
class JudgedSets:
    """Guarantees over classes, by the quasi-identifiers they are judged on.

    Parameters
    ----------
    class_models : mapping of keys to tuple of ClassModel
        Rules that each class must meet by itself.
    size_models : tuple of (keys, SizeModel)
        Rules over all class sizes together, in policy order.
    person : str, optional
        Column that identifies persons, counted instead of records.
    labels : frozenset of keys
        Sets over which a rule reads the loss of labels.
    """

    class_models: Mapping[Keys, tuple[ClassModel, ...]]
    size_models: tuple[tuple[Keys, SizeModel], ...]
    person: str | None = None
    labels: frozenset[Keys] = field(default_factory=frozenset)

    @cached_property
    def keys(self) -> tuple[Keys, ...]:
        """Every set of quasi-identifiers, the class-based ones first."""
        return tuple(dict.fromkeys([*self.class_models, *(keys for keys, _ in self.size_models)]))

    @cached_property
    def columns(self) -> Keys:
        """Every quasi-identifier that is judged."""
        return tuple(dict.fromkeys(column for keys in self.keys for column in keys))

    @cached_property
    def sensitive(self) -> Keys:
        """Every sensitive column whose values are counted."""
        models = [model for group in self.class_models.values() for model in group]
        return tuple(dict.fromkeys(column for model in models for column in model.sensitive_columns()))

    @cached_property
    def compared(self) -> tuple[Keys, ...]:
        """Sets whose classes are compared with those of a population."""
        return tuple(
            keys for keys, models in self.class_models.items() if any(model.needs_population for model in models)
        )

    @cached_property
    def plain(self) -> bool:
        """Whether only records in classes of the table decide: no persons, no population, no loss of labels."""
        return self.person is None and not self.compared and not self.labels

    def hereditary(self, model: ClassModel) -> bool:
        """Whether a class that fails has only failing parts, in the units counted."""
        return model.fails_in_parts(records=self.person is None)

    def convex(self, model: ClassModel) -> bool:
        """Whether passing parts merge to a passing whole, in the units counted."""
        return model.passes_merged(records=self.person is None)


def judged_sets(context: StageContext, *, serves: Collection[str] = ()) -> JudgedSets:
    """The guarantees of a policy that read classes.

    Parameters
    ----------
    context : StageContext
    serves : collection of {"persons", "population", "wildcard", "labels"}
        Ways of counting that the caller serves; see `Transformer.serves`.

    Raises
    ------
    UnsupportedError
        A way of counting that the stage does not serve: never passed over.
    """
    if refused := unserved(context, serves):
        raise UnsupportedError(f"{context.place}: {refused}")
    classes: dict[Keys, tuple[ClassModel, ...]] = {}
    sizes: list[tuple[Keys, SizeModel]] = []
    labels: set[Keys] = set()
    for own, entry in _over_keys(context.roles, context.guarantees):
        if isinstance(entry, ClassModel):
            classes[own] = (*classes.get(own, ()), entry)
            if entry.counted_columns(own):
                labels.add(own)
        else:
            sizes.append((own, entry))
    return JudgedSets(classes, tuple(sizes), context.counted_by, frozenset(labels))


def judged_columns(roles: Roles, guarantees: Iterable[Guarantee]) -> Keys:
    """Every quasi-identifier over which guarantees read classes, those of class-based ones first."""
    found = list(_over_keys(roles, guarantees))
    found.sort(key=lambda each: isinstance(each[1], SizeModel))
    return tuple(dict.fromkeys(column for keys, _ in found for column in keys))


def _over_keys(roles: Roles, guarantees: Iterable[Guarantee]) -> Iterator[tuple[Keys, ClassModel | SizeModel]]:
    """Each set of quasi-identifiers of each guarantee that reads classes, in policy order."""
    for guarantee in guarantees:
        entry = guarantee.with_roles(roles)
        if not isinstance(entry, ClassModel | SizeModel):
            continue
        keys = roles.quasi_identifiers if entry.quasi_identifiers is None else entry.quasi_identifiers
        for own in entry.key_sets(tuple(keys)):
            yield own, entry


def require_attainable(context: StageContext, records: int) -> None:
    """Refuse guarantees that no generalization or suppression can meet with this number of records.

    Raises
    ------
    NoSolutionError
    """
    facts = replace(context.base, unit=_counted(context))
    for guarantee in context.guarantees:
        if never := guarantee.unattainable(records, facts):
            raise NoSolutionError(f"{context.place}: {guarantee!r} {never}")


def _counted(context: StageContext) -> Over:
    if context.counted_by is None:
        return "records"
    return "households" if context.counted_by == context.household else "persons"


def unserved(context: StageContext, served: Collection[str]) -> str:
    """Why suppression and search cannot work for the policy's guarantees, or nothing."""
    instead = "generalize by given `levels:` without suppress_at_most and let the release be judged"
    if not context.guarantees:
        return ""
    if context.nulls == "wildcard" and "wildcard" not in served:
        return f"a stage that suppresses counts classes, and under `nulls: wildcard` there are none; {instead}"
    for guarantee in context.guarantees:
        what = f"cannot suppress or search for {guarantee.name()}"
        if why := _unserved_entry(guarantee, context, served):
            return f"{what}: {why}; {instead}"
    over = [each.counts_over() for each in context.guarantees if isinstance(each, ClassModel | SizeModel)]
    if len({context.unit(each) for each in over}) > 1:
        return (
            "the guarantees count records, persons and households by turns, and a stage that suppresses works for "
            f"those that count alike: give all the same `over`, or {instead}"
        )
    if context.counted_by is not None and "persons" not in served:
        key = "`over: households`" if context.counted_by == context.household else "`person_id`"
        return f"{key} requires {_counted(context)}, this stage counts records; use suppress_records, or {instead}"
    return ""


def _unserved_entry(guarantee: Guarantee, context: StageContext, served: Collection[str]) -> str:
    if guarantee.needs_population:
        if "population" not in served:
            return f"{guarantee.name()} compares with a population, which this stage does not count yet"
        if context.counted_by is not None:
            return f"a population is counted in records, and the policy requires {_counted(context)}"
        if context.population is None:
            return (
                f"{guarantee.name()} compares with a population, and this stage has none: a search needs the raw one, "
                "for one that is `generalized: true` has the levels of a release, not at those to choose from"
            )
    if guarantee.way.searched and not isinstance(guarantee, ClassModel | SizeModel):
        return "classes do not show whether it holds"
    if context.nulls == "wildcard" and guarantee.way.classes_alone and not guarantee.judges_matching:
        return "under `nulls: wildcard` there are no classes to judge it by"
    looks_at_labels = isinstance(guarantee, ClassModel) and guarantee.counted_columns(("",))
    if looks_at_labels and "labels" not in served:
        return "this stage does not know the loss of labels"
    return ""
