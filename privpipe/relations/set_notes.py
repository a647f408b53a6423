"""What a reader of the verdicts on related tables must know of what they leave out."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

from privpipe.blocks.guarantee import short
from privpipe.relations.guarantees import JointGuarantee
from privpipe.relations.schema import Tree

__all__ = ["set_notes"]


def set_notes(
    tree: Tree,
    guarantees: Sequence[JointGuarantee],
    unjudged: Mapping[str, Collection[str]],
    released: Mapping[str, Sequence[str]],
) -> list[str]:
    """Thresholds that protect no one, quasi-identifiers that nothing looks at, and what two tables both tell.

    Parameters
    ----------
    tree : Tree
        With the quasi-identifiers that are released.
    guarantees : sequence of JointGuarantee
    unjudged : mapping of str to collection of str
        Of each table, the quasi-identifiers that no guarantee of the table itself looks at.
    released : mapping of str to sequence of str
        Columns of each table.

    Examples
    --------
    >>> from privpipe.relations.guarantees import JointKAnonymity
    >>> from privpipe.relations.schema import RelatedColumns, Relation
    >>> tree = Tree(
    ...     {"patients": RelatedColumns(("id",), ("town",)), "visits": RelatedColumns((), ("ward",))},
    ...     (Relation("visits", ("id",), "patients"),),
    ... )
    >>> asked = [JointKAnonymity(k=1, knows={"visits": 0})]
    >>> for note in set_notes(tree, asked, {"visits": ["ward"]}, {"patients": ["town"], "visits": ["town", "ward"]}):
    ...     print(note)
    no guarantee looks at the quasi-identifier 'visits.ward'
    joint_k_anonymity with k = 1 protects no one
    column 'town' is in 'patients' and 'visits': where it is one fact, an attacker knows the finer of the two forms
    """
    binding = [each for each in guarantees if each.binds and each.demanded() is not None]
    notes = []
    if not any(columns.quasi_identifiers for columns in tree.tables.values()):
        notes.append("no column is a quasi-identifier: no attacker is taken to know anything of a person")
    for name in tree.children:
        if not any((each.knows or {}).get(name, 1) for each in binding):
            own = tree.tables[name].quasi_identifiers
            notes += [
                f"no guarantee looks at the quasi-identifier '{name}.{column}'"
                for column in own
                if column in unjudged.get(name, ())
            ]
    notes += [
        f"{each.name()} with {each.threshold_field} = {short(each.demanded())} protects no one"
        for each in guarantees
        if each.demanded() == 1  # of all of them: one person, one value, a share or distance of 1
    ]
    keys = {column for table in tree.tables.values() for column in table.key}
    keys |= {column for relation in tree.relations for column in relation.columns}
    for one, other in itertools.combinations(tree.tables, 2):
        notes += [
            f"column {column!r} is in {one!r} and {other!r}: where it is one fact, an attacker knows the finer of the "
            "two forms"
            for column in released[one]
            if column in released[other] and column not in keys
        ]
    return list(dict.fromkeys(notes))
