"""The audit over releases against a search through all populations; what it never depends on; planted attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.blocks.release_history import ReleaseRows, TableRows
from privpipe.errors import NoSolutionError
from privpipe.tables.aggregation import COUNT
from privpipe.tables.entries import TableSet
from privpipe.tables.table import Table
from privpipe.tables.table_history import TableHistory, columns_of, remembered, without_cells
from privpipe.tables.union_families import UnionFamily, seen_together
from tests.tiers import deep_beyond

Person = Mapping[str, Any]
LEAST = 3


def table_of(persons: Sequence[Person], by: Sequence[str], name: str = "table", **options: Any) -> Table:
    frame = pd.DataFrame([dict(each) for each in persons])
    found = pp.tables.Aggregate(by=list(by), **{"responses": ["count"], **options}).apply(frame, person_id="person")
    assert isinstance(found, Table)
    return replace(found, name=name, like=None)


def rows_of(persons: Sequence[Person], tables: Sequence[Table]) -> ReleaseRows:
    """What a ledger keeps of them, by the labels of each row."""
    keys = {str(each["person"]) for each in persons}
    names = sorted(keys)
    units = np.array([[int(name.strip("p")), 7] for name in names], dtype=np.int64)
    leaves = np.full((len(persons), len(tables)), -1, dtype=np.int64)
    for at, table in enumerate(tables):
        for row, each in enumerate(persons):
            if all(each[column] == label for column, label in table.cells.only.items()):
                codes = [dimension.codes[str(each[dimension.name])] for dimension in table.cells.dimensions]
                leaves[row, at] = int(np.ravel_multi_index(codes, table.cells.shape))
    columns = tuple(columns_of(tables))
    values = np.array([[each[name] for name in columns] for each in persons], dtype=np.int64)
    values = values.reshape(len(persons), len(columns))
    number = np.array([names.index(str(each["person"])) for each in persons], dtype=np.int64)
    named = {table.name: table for table in tables}
    kept = TableRows(without_cells(named), (), number, leaves, columns, values, np.ones_like(values))
    return ReleaseRows(units, np.zeros_like(units), np.ones(len(units), dtype=np.int64), tables=remembered(kept, named))


def union(releases: Sequence[tuple[Sequence[Person], Sequence[Table]]], *guarantees: Any) -> TableSet:
    """The last release, next to those before it."""
    rows = [rows_of(persons, tables) for persons, tables in releases]
    named = {table.name: table for table in releases[-1][1]}
    history = TableHistory(current=rows[-1], earlier=tuple(rows[:-1]))
    return TableSet(tables=named, guarantees=guarantees, history=history)


def hiding(table: Table, labels: Sequence[Sequence[str]]) -> Table:
    names = [[d.labels[c] for d, c in zip(table.cells.dimensions, row, strict=True)] for row in table.cells.codes]
    return table.hiding(np.array([name in [list(each) for each in labels] for name in names]))


# The definition: sets of persons, and every population that agrees with what was published.


def members(table: Table, persons: Sequence[Person]) -> list[frozenset[str]]:
    found = []
    for row in table.cells.codes:
        labels = [(d.name, d.labels[c]) for d, c in zip(table.cells.dimensions, row, strict=True) if c]
        labels += list(table.cells.only.items())
        found.append(frozenset(str(p["person"]) for p in persons if all(str(p[name]) == at for name, at in labels)))
    return found


def judged_by_definition(releases: Sequence[tuple[Sequence[Person], Sequence[Table]]]) -> tuple[bool, bool]:
    """Whether every small hidden cell keeps 1 and LEAST - 1 possible, and whether no small difference is new."""
    last = len(releases) - 1
    cells = [
        (release, table, group, bool(table.measures[COUNT].hidden[at]))
        for release, (persons, tables) in enumerate(releases)
        for table in tables
        for at, group in enumerate(members(table, persons))
    ]
    everyone = sorted(set().union(*(group for _, _, group, _ in cells)))
    classes: dict[tuple[bool, ...], set[str]] = {}
    for person in everyone:
        classes.setdefault(tuple(person in group for _, _, group, _ in cells), set()).add(person)
    patterns, sizes = list(classes), [len(each) for each in classes.values()]
    known = [
        (sum(n for pattern, n in zip(patterns, sizes, strict=True) if pattern[at]), at)
        for at, (_, _, _, hidden) in enumerate(cells)
        if not hidden
    ]
    before = {group for release, _, group, hidden in cells if release < last and not hidden}
    small = {
        group
        for release, _, group, hidden in cells
        if 0 < len(group) < LEAST and (release == last or (hidden and group not in before))
    }
    # Classes that no published cell holds may be anything; up to `top` shows as much as more would.
    possible: dict[frozenset[str], set[int]] = {group: set() for group in small}
    top = LEAST + 2
    for guess in solutions(patterns, known, top):
        for at, (_, _, group, _) in enumerate(cells):
            if group in small:
                possible[group].add(sum(n for pattern, n in zip(patterns, guess, strict=True) if pattern[at]))
    held = all(min(seen) <= 1 and max(seen) >= LEAST - 1 for seen in possible.values())
    held = held and all(len(seen) > 1 for seen in possible.values())
    sources = [before]
    for table in releases[-1][1]:
        sources.append(
            {group for release, other, group, hidden in cells if release == last and other is table and not hidden}
        )
    every = set().union(*sources)
    apart = not any(
        inner < outer
        and inner
        and len(outer - inner) < LEAST
        and not any({inner, outer} <= source for source in sources)
        for outer in every
        for inner in every
    )
    return held, apart


def solutions(patterns: list[tuple[bool, ...]], known: list[tuple[int, int]], top: int) -> Any:
    """Numbers of persons in each class, from 0 to `top`, with the known sums."""

    def extend(at: int, left: dict[int, int], chosen: list[int]) -> Any:
        if at == len(patterns):
            if not any(left.values()):
                yield tuple(chosen)
            return
        mine = [cell for cell in left if patterns[at][cell]]
        most = min([left[cell] for cell in mine], default=top)
        for number in range(most + 1):
            rest = {cell: value - number if patterns[at][cell] else value for cell, value in left.items()}
            done = [cell for cell in mine if not any(pattern[cell] for pattern in patterns[at + 1 :])]
            if all(rest[cell] == 0 for cell in done):
                yield from extend(at + 1, rest, [*chosen, number])

    yield from extend(0, {cell: total for total, cell in known}, [])


@pytest.mark.parametrize("seed", deep_beyond(8, range(20)))
def test_the_audit_against_every_population(seed: int) -> None:
    draw = np.random.default_rng(seed)
    regions = ["a", "b", "c"][: int(draw.integers(2, 4))]
    persons = [
        {"person": f"p{at}", "region": str(draw.choice(regions)), "sex": str(draw.choice(["f", "m"]))}
        for at in range(int(draw.integers(5, 10)))
    ]
    releases = []
    for release in range(2):
        if release:
            persons = [each for each in persons if draw.random() > 0.15]
            persons = [
                {**each, "region": str(draw.choice(regions))} if draw.random() < 0.1 else each for each in persons
            ]
            persons += [
                {"person": f"p{50 + at}", "region": str(draw.choice(regions)), "sex": "f"}
                for at in range(int(draw.integers(0, 3)))
            ]
        by = [["region"], ["sex"], ["region"]][int(draw.integers(0, 3))]
        table = table_of(persons, by)
        table = table.hiding((draw.random(len(table)) < 0.5) & (table.measures[COUNT].figures.contributors > 0))
        releases.append((list(persons), [table]))
    rule = pp.tables.MinimumFrequency(at_least=LEAST)
    audit = pp.tables.TableAudit(implied=False)
    tables = union(releases, rule, audit)
    held, apart = judged_by_definition(releases)
    assert audit.judge(tables).outcome == ("pass" if held else "fail")
    verdict = pp.tables.Differencing(at_least=LEAST).judge(tables)
    within = small_rests(releases)
    if any((~table.measures[COUNT].hidden & (members_of(table) > 0)).any() for _, each in releases for table in each):
        assert (verdict.outcome == "pass") == (apart and not within)
    else:
        assert verdict.outcome == "error"  # nothing was published that could be compared


def members_of(table: Table) -> Any:
    return table.measures[COUNT].figures.contributors


def small_rests(releases: Sequence[tuple[Sequence[Person], Sequence[Table]]]) -> list[Any]:
    """Differences within the new release, and what published parts of one level leave of their published total."""
    shown: list[set[frozenset[str]]] = [set(), set()]
    for release, (persons, tables) in enumerate(releases):
        for table in tables:
            groups = zip(members(table, persons), table.measures[COUNT].hidden, strict=True)
            own = {group for group, hidden in groups if not hidden and group}
            shown[1] |= own
            if release < len(releases) - 1:
                shown[0] |= own
    found: list[Any] = []
    persons, tables = releases[-1]
    for table in tables:
        every = members(table, persons)
        hidden = table.measures[COUNT].hidden
        groups = {group for group, gone in zip(every, hidden, strict=True) if not gone and group}
        found += [(a, b) for a, b in product(groups, groups) if b < a and len(a - b) < LEAST and not {a, b} <= shown[0]]
        small = [
            every[0] in known
            and sum(part in known for part in every[1:]) >= 2
            and 0 < len(every[0].difference(*(part for part in every[1:] if part in known))) < LEAST
            for known in shown
        ]
        found += ["rest"] if small[1] and not small[0] else []
    return found


def month(counts: Mapping[str, int], start: int = 0) -> list[Person]:
    names = [region for region, number in counts.items() for _ in range(number)]
    return [{"person": f"p{start + at}", "region": region, "sex": "f"} for at, region in enumerate(names)]


def test_differences_of_rounded_figures_are_intervals() -> None:
    persons = month({"a": 12, "b": 14})
    rounding = pp.tables.RoundTable(base=5)
    releases = []
    for each in (persons, [*persons, *month({"a": 1}, start=50)]):
        releases.append((each, [rounding.apply(table_of(each, ["region"]))]))
    lax = pp.tables.MinimumFrequency(at_least=LEAST, protect="exact")
    assert pp.tables.TableAudit().judge(union(releases, lax)).outcome == "pass"
    # 10 and 15: from 8 to 12, and 13 to 17; of up to 9 joiners that masks promise, no one rules out 1 to 4.
    assert pp.tables.TableAudit().judge(union(releases, pp.tables.MinimumFrequency(at_least=4))).outcome == "pass"
    strict = pp.tables.MinimumFrequency(at_least=12)
    assert pp.tables.TableAudit().judge(union(releases, strict)).outcome == "fail"


def test_a_total_that_was_published_shows_what_is_hidden_now() -> None:
    persons = month({"a": 2, "b": 9, "c": 9})
    rule = pp.tables.MinimumFrequency(at_least=LEAST)
    first = hiding(table_of(persons, ["region"]), [["a"], ["b"]])
    second = hiding(table_of(persons, ["region"]), [["a"], ["Total"]])
    alone = union([(persons, [second])], rule)
    assert pp.tables.TableAudit().judge(alone).outcome == "pass"
    assert pp.tables.TableAudit().judge(union([(persons, [first])], rule)).outcome == "pass"
    together = pp.tables.TableAudit().judge(union([(persons, [first]), (persons, [second])], rule))
    assert together.outcome == "fail"
    assert "can be computed from margins" in together.reason


def test_group_rules_know_what_was_published() -> None:
    persons = [{"person": f"p{at}", "region": "a", "sex": "f"} for at in range(5)]
    persons += [{"person": f"p{10 + at}", "region": "b", "sex": "fm"[at % 2]} for at in range(8)]
    asked = pp.tables.GroupDisclosure(columns=["sex"])
    whole = table_of(persons, ["region"])
    parts = hiding(table_of(persons, ["region", "sex"]), [["a", "Total"], ["a", "m"]])
    assert asked.judge(union([(persons, [parts])], asked)).outcome == "pass"
    assert asked.judge(union([(persons, [whole]), (persons, [parts])], asked)).outcome == "fail"


def random_releases(seed: int, *, sums: bool, number: int = 3) -> list[tuple[list[Person], list[Table]]]:
    """Releases of persons with several records, who come, go, move and change what they contribute."""
    draw = np.random.default_rng(seed)
    responses = ["count", {"sum": "cost"}] if sums else ["count"]

    def person(name: int) -> list[Person]:
        region = str(draw.choice(["a", "b", "c"]))
        size = int(draw.integers(1, 3))
        sexes = draw.choice(["f", "m"], size)
        return [
            {"person": f"p{name}", "region": region, "sex": str(sex), "cost": int(draw.choice([0, 1, 5, 40]))}
            for sex in sexes
        ]

    present = {name: person(name) for name in range(int(draw.integers(14, 26)))}
    releases = []
    for release in range(number):
        for name in list(present):
            if release and draw.random() < 0.15:
                del present[name]
            elif release and draw.random() < 0.1:
                present[name] = person(name)
        if release:
            present |= {100 * release + at: person(100 * release + at) for at in range(int(draw.integers(0, 4)))}
        rows = [row for own in present.values() for row in own]
        by, only = [(["region"], {}), (["sex"], {}), (["region", "sex"], {}), (["region"], {"sex": "f"})][
            int(draw.integers(0, 4))
        ]
        tables = [table_of(rows, by, responses=responses, only=only)]
        if draw.random() < 0.4:
            tables.append(table_of(rows, ["sex"], "other", responses=responses))
        hidden = [table.hiding((draw.random(len(table)) < 0.3) & (members_of(table) > 0)) for table in tables]
        releases.append((rows, hidden))
    return releases


@pytest.mark.parametrize("seed", deep_beyond(2, range(6)))
def test_figures_of_all_variables_by_definition(seed: int) -> None:
    releases = random_releases(seed, sums=True)
    tables = union(releases, pp.tables.MinimumFrequency(at_least=LEAST), pp.tables.PPercent(at_least=10))
    for family in seen_together(tables, tables.tables):
        assert isinstance(family, UnionFamily)
        assert not (family.cells.relations @ family.true).any()
        figures = family._figures()
        order = [releases[-1], *releases[:-1]]
        placed = [(rows, table) for rows, own in order for table in own]
        for (rows, table), variables in zip(placed, family.cells.variables, strict=False):
            for cell, variable in enumerate(variables.tolist()):
                labels = [
                    (d.name, d.labels[c])
                    for d, c in zip(table.cells.dimensions, table.cells.codes[cell], strict=True)
                    if c
                ]
                labels += list(table.cells.only.items())
                own: dict[str, int] = {}
                for row in rows:
                    if all(row[name] == label for name, label in labels):
                        own[row["person"]] = own.get(row["person"], 0) + row["cost"]
                assert figures.contributors[variable] == len(own)
                if family.key == COUNT:
                    assert family.true[variable] == len(own)
                else:
                    assert family.true[variable] == sum(own.values())
                    largest = sorted((each for each in own.values() if each), reverse=True)[:3]
                    assert figures.largest[variable].tolist() == [*largest, *[0] * (3 - len(largest))]


@pytest.mark.parametrize("seed", deep_beyond(2, range(6)))
def test_unsafe_differences_of_sums_by_definition(seed: int) -> None:
    """Pairs of cells whose contributions, record by record, are inside one another, by sets."""
    releases = random_releases(seed, sums=True, number=2)
    tables = union(releases, pp.tables.MinimumFrequency(at_least=LEAST))
    sums = next(each for each in seen_together(tables, tables.tables) if each.key == "cost")
    assert isinstance(sums, UnionFamily)
    shown = []
    for rows, own in releases:
        # Equal values of one person are the same contribution, one after the other.
        ranks: dict[tuple[str, int], int] = {}
        named = []
        for row in sorted(rows, key=lambda row: [row["person"], row["region"], row["sex"]]):
            at = ranks[row["person"], row["cost"]] = ranks.get((row["person"], row["cost"]), -1) + 1
            named.append((row, (row["person"], row["cost"], at)))
        for table in own:
            groups = set()
            for cell in np.flatnonzero(~table.measures["cost"].hidden).tolist():
                labels = [
                    (d.name, d.labels[c])
                    for d, c in zip(table.cells.dimensions, table.cells.codes[cell], strict=True)
                    if c
                ]
                labels += list(table.cells.only.items())
                group = frozenset(name for row, name in named if all(row[column] == at for column, at in labels))
                groups.add(group)
            shown.append((rows is releases[0][0], groups))
    before = set().union(*(groups for earlier, groups in shown if earlier))
    sources = [before, *(groups for earlier, groups in shown if not earlier)]
    every = set().union(*sources)
    expected = {
        (len({name for name, *_ in outer}), len({name for name, *_ in inner}), frozenset(outer - inner))
        for outer in every
        for inner in every
        if inner and inner < outer and not any({inner, outer} <= source for source in sources)
        if len({name for name, *_ in outer - inner}) < LEAST
    }
    outer, inner = sums.nested
    failing = sums.implied_failures([pp.tables.MinimumFrequency(at_least=LEAST).rule])
    pairs = failing[len(failing) - len(outer) :]
    found = {(int(sums.sizes[a]), int(sums.sizes[b])) for a, b in zip(outer[pairs], inner[pairs], strict=True)}
    assert found == {(a, b) for a, b, _ in expected}


@pytest.mark.parametrize("seed", deep_beyond(2, range(4)))
def test_earlier_releases_never_make_a_table_safer(seed: int) -> None:
    releases = random_releases(seed, sums=bool(seed % 2))
    rules = (pp.tables.MinimumFrequency(at_least=LEAST), pp.tables.PPercent(at_least=10))[: 1 + seed % 2]
    audit = pp.tables.TableAudit()
    counts = [audit.judge(union(releases[at:], *rules)) for at in range(len(releases))]
    assert all(each.outcome in ("pass", "fail") for each in counts)
    assert not (counts[0].outcome == "pass" and counts[-2].outcome == "fail")
    turned = [releases[1], releases[0], releases[2]]
    assert audit.judge(union(turned, *rules)).outcome == counts[0].outcome
    mixed = [(list(reversed(rows)), own) for rows, own in releases]
    assert audit.judge(union(mixed, *rules)).observed == counts[0].observed


@pytest.mark.parametrize("seed", deep_beyond(2, range(4)))
def test_what_is_hidden_passes_the_audit_of_all_releases(seed: int) -> None:
    releases = random_releases(seed, sums=bool(seed % 2), number=2)
    rules = [pp.tables.MinimumFrequency(at_least=LEAST), pp.tables.TableAudit()]
    rows, plain = releases[0]
    first = union(
        [
            (
                rows,
                [
                    replace(t, measures={k: replace(m, hidden=m.hidden & False) for k, m in t.measures.items()})
                    for t in plain
                ],
            )
        ],
        *rules,
    )
    first = pp.tables.SuppressTable().run(first)
    assert rules[1].judge(first).outcome == "pass"
    releases[0] = (rows, list(first.tables.values()))
    tables = union(releases, *rules)
    try:
        made = pp.tables.SuppressTable().run(tables)
    except NoSolutionError:
        return
    assert rules[1].judge(made).outcome == "pass"
    # The same again: nothing is new, and nothing more is hidden.
    again = union(
        [*releases[:-1], (releases[-1][0], list(made.tables.values())), (releases[-1][0], list(made.tables.values()))],
        *rules,
    )
    assert rules[1].judge(again).outcome == "pass"


def test_one_person_with_many_contributions_is_one_contributor() -> None:
    """Her four visits are the difference of two totals, and other differences are closer."""
    many = [{"person": "p90", "region": "a", "sex": "f", "cost": cost} for cost in (1, 2, 3, 4)]
    rows = [{"person": f"p{at}", "region": "ab"[at % 2], "sex": "m", "cost": 5} for at in range(12)]
    first = [*rows, *many]
    responses = [{"sum": "cost"}]
    rule = pp.tables.MinimumFrequency(at_least=LEAST)
    whole = table_of(first, ["region"], responses=responses)
    rest = table_of(rows, ["region"], responses=responses)
    assert pp.tables.TableAudit().judge(union([(first, [whole]), (rows, [rest])], rule)).outcome == "fail"
    tables = union([(first, [whole]), (rows, [rest])], rule)
    [family] = seen_together(tables, tables.tables)
    assert isinstance(family, UnionFamily)
    assert set(family.sizes[family.nested[0]].tolist()) == {7, 13}
