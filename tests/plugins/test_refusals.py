"""What is not sound is refused by name, with whose it is and what to do, and is in no list."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from typer.testing import CliRunner

from privpipe import hierarchies, models, plugins, transforms
from privpipe.cli import app
from privpipe.engines import Engine, engine_names, open_engine
from privpipe.errors import PolicyError, UsageError
from privpipe.policy import Policy, json_schema

MODEL = """
    from dataclasses import dataclass
    from privpipe.models import KAnonymity

    @dataclass(frozen=True, kw_only=True, repr=False)
    class {name}(KAnonymity):
        \"\"\"A model.\"\"\"
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Lay out a distribution as an installer does, with a module of its own."""
    monkeypatch.syspath_prepend(tmp_path)

    def laid_out(name: str, points: str, module: str = "", contract: str = "1") -> None:
        info = tmp_path / f"{name}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n", encoding="utf-8")
        declared = f"[privpipe.contract]\n{contract} = privpipe.plugins\n" if contract else ""
        (info / "entry_points.txt").write_text(declared + dedent(points), encoding="utf-8")
        (tmp_path / f"{name}_code.py").write_text(dedent(module), encoding="utf-8")
        forget()

    yield laid_out
    monkeypatch.undo()
    for module in tmp_path.glob("*_code.py"):
        sys.modules.pop(module.stem, None)
    forget()


def forget() -> None:
    plugins.found.cache_clear()
    plugins._loaded.cache_clear()


def refused(name: str, section: str = "guarantees") -> str:
    """The error of a policy that names it."""
    document = {"columns": {"age": {"role": "quasi_identifier"}}, "guarantees": [{"k_anonymity": {"k": 2}}]}
    document = {**document, section: [{name: {}}]}
    with pytest.raises(PolicyError) as raised:
        Policy.from_dict(document)
    return str(raised.value)


def test_a_sound_one_is_taken(install: Install) -> None:
    install("fine", "[privpipe.models]\nfine_rule = fine_code:FineRule\n", MODEL.format(name="FineRule"))
    assert models.CATALOGUE["fine_rule"](k=3).name() == "fine_rule"  # type: ignore[call-arg]
    assert "fine_rule" in list(models.CATALOGUE)
    assert models.FineRule is models.CATALOGUE["fine_rule"]
    assert plugins.versions_of([models.FineRule(k=3), models.KAnonymity(k=3)]) == {"fine": "1.5"}


def test_what_is_built_in_costs_no_look_at_what_is_installed(install: Install, embedded: Engine) -> None:
    install("broken", "[privpipe.models]\nodd = broken_code:Odd\n", "raise SystemError")
    spec = hierarchies.HierarchySpec.from_mapping({"redact": {}})
    assert (
        plugins.versions_of([embedded, models.KAnonymity(k=3), transforms.Round(columns=["age"], base=5), spec.builder])
        == {}
    )
    assert plugins.found.cache_info().currsize == 0


def test_a_built_in_name_stays_what_it_is(install: Install) -> None:
    points = "[privpipe.models]\nk_anonymity = taker_code:KAnonymity\n[privpipe.engines]\ndask = taker_code:Dask\n"
    install("taker", points, MODEL.format(name="KAnonymity"))
    assert models.KAnonymity.__module__.startswith("privpipe.")
    assert list(models.CATALOGUE).count("k_anonymity") == 1
    with pytest.raises(UsageError, match=r"'k_anonymity'.*of taker 1.5.*built into privpipe.*uninstall taker"):
        plugins.load("privpipe.models", "k_anonymity")
    done = CliRunner().invoke(app, ["plugins"])
    assert done.exit_code == 2
    assert "built into privpipe" in done.output


def test_a_name_of_another_catalogue_is_taken_too(install: Install) -> None:
    install("taker", "[privpipe.models]\ngeneralize = taker_code:Generalize\n", MODEL.format(name="Generalize"))
    assert "built into privpipe" in refused("generalize")
    assert "generalize" not in list(models.CATALOGUE)
    assert transforms.CATALOGUE["generalize"].__module__.startswith("privpipe.")


def test_a_name_that_one_distribution_declares_twice_means_nothing(install: Install) -> None:
    point = "our_rule = one_code:OurRule\n"
    install("one", f"[privpipe.models]\n{point}{point}", MODEL.format(name="OurRule"))
    assert "of one 1.5 and another entry point of it bear one name" in refused("our_rule")
    assert "our_rule" not in list(models.CATALOGUE)


def test_two_distributions_cannot_share_a_name(install: Install) -> None:
    install("one", "[privpipe.models]\nour_rule = one_code:OurRule\n", MODEL.format(name="OurRule"))
    install("two", "[privpipe.measures]\nour_rule = two_code:OurRule\n", MODEL.format(name="OurRule"))
    told = refused("our_rule")
    assert "of one 1.5" in told
    assert "of two 1.5" in told
    assert "uninstall all but one" in told
    assert "our_rule" not in list(models.CATALOGUE)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("import a_package_that_is_not_there", "ModuleNotFoundError: No module named 'a_package_that_is_not_there'"),
        ("raise SystemExit(0)", "SystemExit"),
        ("", "AttributeError"),
        ("class Odd: pass", "must be a class derived from privpipe.blocks:Guarantee"),
        ("Odd = 5", "must be a class derived from privpipe.blocks:Guarantee"),
        (
            MODEL.format(name="Odd") + "        @classmethod\n        def name(cls): return 'even'\n",
            "calls itself 'even'",
        ),
    ],
)
def test_what_does_not_load_or_is_not_a_model(install: Install, module: str, why: str) -> None:
    install("broken", "[privpipe.models]\nodd = broken_code:Odd\n", module)
    told = refused("odd")
    assert "plug-in 'odd' (entry point of privpipe.models) of broken 1.5" in told
    assert why in told
    assert "odd" not in list(models.CATALOGUE)
    assert "odd" not in json_schema()["$defs"]["one_table"]["properties"]["guarantees"]["items"]["properties"]
    done = CliRunner().invoke(app, ["plugins", "--json"])
    assert (done.exit_code, '"state": "broken"' in done.stdout) == (2, True)


@pytest.mark.parametrize(
    ("contract", "why"), [("2", "made for contract 2"), ("", "does not declare which plug-in contract")]
)
def test_what_is_made_for_another_contract(install: Install, contract: str, why: str) -> None:
    install("late", "[privpipe.models]\nlate_rule = late_code:LateRule\n", "raise SystemError", contract)
    assert why in refused("late_rule")


def test_what_is_wrong_with_an_engine_or_a_builder(install: Install) -> None:
    install("rest", "[privpipe.engines]\nsteam = rest_code:Steam\n[privpipe.hierarchies]\nvine = rest_code:Vine\n")
    with pytest.raises(UsageError, match=r"'steam' \(entry point of privpipe.engines\) of rest 1.5 does not load"):
        open_engine("steam")
    with pytest.raises(UsageError, match=r"'vine' \(entry point of privpipe.hierarchies\) of rest 1.5 does not load"):
        hierarchies.HierarchySpec.from_mapping({"vine": {}})
    assert "steam" not in engine_names()
    assert "vine" not in hierarchies.builders()


def test_an_option_is_not_a_name_for_a_builder(install: Install) -> None:
    install("rest", "[privpipe.hierarchies]\nmin_level = rest_code:Least\n")
    (found,) = plugins.found()
    assert "built into privpipe" in plugins.fault(found)


def test_a_builder_that_chokes_on_a_policy_is_an_error_of_the_policy(install: Install) -> None:
    module = """
    class Vine:
        @classmethod
        def from_parameters(cls, given):
            return given["leaves"]

        def draft(self, values, counts, kind, column): ...
    """
    install("rest", "[privpipe.hierarchies]\nvine = rest_code:Vine\n", module)
    with pytest.raises(UsageError, match=r"vine: the plug-in's Vine takes no such parameters \(KeyError\)"):
        hierarchies.HierarchySpec.from_mapping({"vine": {"4711": 1}})
