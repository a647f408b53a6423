"""What a notebook shows of a hierarchy is what its description says."""

from __future__ import annotations

import re

from privpipe.hierarchies import Hierarchy, HierarchySpec


def shown(hierarchy: Hierarchy) -> dict[str, str]:
    """Heading and the rows of two cells of the page."""
    page = hierarchy._repr_html_()
    [heading] = re.findall(r"<b>(.*?)</b>", page)
    return {"heading": heading, **dict(re.findall(r"<tr><th>([^<]*)</th><td>([^<]*)</td></tr>", page))}


def test_a_page_shows_the_column_and_what_the_data_decided() -> None:
    spec = HierarchySpec.from_mapping({"redact": {}, "unknown": "root"}, column="town")
    built = spec.build(["ab", "c"], [1, 1], "text")
    found = shown(built)
    assert (found["heading"], found["made of"], found["depends on the data"]) == ("Hierarchy of town", "redact", "yes")
    assert (found["leaf of nulls"], found["levels in use"]) == ("no", "0 to 2")
    assert built.digest().startswith(found["digest"])
    assert "values outside, found" not in found
    covered = shown(built.cover(["ab", "zzz", "zz", None]))
    assert (covered["values outside, found"], covered["leaf of nulls"]) == ("2", "yes")


def test_a_page_of_no_column_and_no_rule_leaves_these_out() -> None:
    found = shown(Hierarchy.from_rows([["a", "*"], ["b", "*"]]))
    assert (found["heading"], found["depends on the data"]) == ("Hierarchy", "no")
    assert "None" not in found.values()
