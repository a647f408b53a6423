"""The second source of a policy: the population that some guarantees compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privpipe.engines import Engine
from privpipe.engines.readers.files import elsewhere
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.policy.conditions import KEEPS_KEYS, suppresses
from privpipe.roles import column_type_of
from privpipe.running.tables_read import scanned

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["compared_columns", "finished_population", "population_beside", "raw_population", "require_there"]


def compared_columns(policy: Policy) -> tuple[str, ...]:
    """Quasi-identifiers over which some entry compares with the population; empty when none does."""
    asking = [entry for entry in policy.entries if entry.needs_population]
    found: dict[str, None] = {}
    for entry in asking:
        own = entry.quasi_identifiers
        found.update(dict.fromkeys(policy.roles.quasi_identifiers if own is None else own))
    return tuple(found)


def _needed_columns(policy: Policy) -> tuple[str, ...]:
    """Compared columns, and those by which stages recode a raw population."""
    found = dict.fromkeys(compared_columns(policy))
    if policy.population is not None and not policy.population.generalized:
        for stage in policy.transform:
            own = stage.population_columns(policy.roles, policy.hierarchies, policy.binding)
            found.update(dict.fromkeys(own))
    return tuple(found)


def require_there(engine: Engine, policy: Policy) -> None:
    """Refuse a population whose file cannot be read, also where nothing reads it; one elsewhere is not asked for.

    Raises
    ------
    DataError
        Nothing there, or no table.
    """
    if policy.population is None:
        return
    source = policy.population.to_source({}, policy.base_dir)
    if source.is_path and not elsewhere(str(source.data)):
        scanned(engine, source)


def population_beside(engine: Engine, policy: Policy, table: Any) -> Any:
    """The population's needed columns in the types of a table; None where nothing compares with it.

    Raises
    ------
    DataError
        A column that the population lacks, or that does not convert.
    """
    asking = any(entry.needs_population for entry in policy.entries)
    if policy.population is None or not asking:
        require_there(engine, policy)
        return None
    columns = _needed_columns(policy)
    found = engine.scan(policy.population.to_source({}, policy.base_dir)).schema.names
    for name in columns:
        if name not in found:
            raise DataError(f"column {name!r} is not in the population{did_you_mean(name, found)}")
    # Typed as the table is: a CSV file of numbers would be text, and never match.
    types = {name: column_type_of(table.schema.field(name).type) for name in columns if name in table.schema.names}
    population = engine.scan(policy.population.to_source(types, policy.base_dir))
    return engine.select(population, columns) if columns else population


def raw_population(engine: Engine, policy: Policy, table: Any) -> Any:
    """The population that stages look at in addition to the source.

    None where it is generalized already, and where no stage suppresses for a guarantee that compares with it or makes
    labels that cover it.

    Raises
    ------
    DataError
        A column that the population lacks, or that does not convert.
    """
    require_there(engine, policy)
    asking = any(guarantee.needs_population for guarantee in policy.binding)
    counting = any(suppresses(stage) for stage in policy.transform)
    covering = any(
        stage.population_columns(policy.roles, policy.hierarchies, policy.binding) for stage in policy.transform
    )
    generalized = policy.population is not None and policy.population.generalized
    wanted = (asking and counting) or covering
    return population_beside(engine, policy, table) if wanted and not generalized else None


def finished_population(engine: Engine, policy: Policy, table: Any, *, finished: bool) -> Any:
    """The population to judge a table by that no run of ours has just made.

    Raises
    ------
    UsageError
        The table is finished and the population raw: how the table was generalized is not known here.
    """
    raw = policy.population is not None and not policy.population.generalized
    if finished and raw and any(stage.name() not in KEEPS_KEYS for stage in policy.transform):
        asking = [entry.name() for entry in policy.entries if entry.needs_population]
        if asking:
            raise UsageError(
                f"{asking[0]}: the population holds raw values and the judged table is finished; how it was "
                "generalized is not known here: give a population generalized alike and write `generalized: true`"
            )
    return population_beside(engine, policy, table)
