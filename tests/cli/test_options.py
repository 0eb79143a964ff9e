"""Options: each says what it is, and those that no other test passes reach what they are for."""

from __future__ import annotations

from types import MappingProxyType
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner

from dmverify.cli import cli
from dmverify.cli.lab import VERBS as LAB_VERBS
from dmverify.cli.main import VERBS
from dmverify.conformance.families.tomography.setup import Setup
from dmverify.errors import InputError
from dmverify.lab.bench.shapes import Shape

SIZES = MappingProxyType(
    {"batch": 1, "heads": 6, "kv_heads": 2, "length": 65, "head_dim": 96, "runs": 3, "repeats": 5}
)


def command_of(verb: str) -> click.Command:
    """A verb, or a verb of a verb: ``lab replay``."""
    command: click.Command = cli
    for word in verb.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command


def silent(command: click.Command) -> list[str]:
    """Options that say nothing of themselves."""
    options = (p for p in command.params if isinstance(p, click.Option))
    return [p.opts[0] for p in options if not (p.help or "").endswith(".")]


@pytest.mark.parametrize("verb", [*VERBS, *(f"lab {verb}" for verb in LAB_VERBS)])
def test_every_option_and_verb_has_a_help_text(verb: str) -> None:
    command = command_of(verb)
    assert command.help
    assert silent(command) == []


def test_an_option_without_one_is_found() -> None:
    command = click.Command("x", params=[click.Option(["--a"], help="A."), click.Option(["--b"])])
    assert silent(command) == ["--b"]


def asked(monkeypatch: pytest.MonkeyPatch, *words: str) -> Setup:
    """What ``tomograph`` asks for with these words."""
    seen: list[Setup] = []

    def stop(*_: object, setup: Setup, **__: object) -> None:
        seen.append(setup)
        raise InputError("enough", rule="this test looks at the setup", fix="none")

    monkeypatch.setattr("dmverify.cli.tomograph.tomograph", stop)
    assert CliRunner().invoke(cli, ["tomograph", "simulation", *words]).exit_code == 2
    (setup,) = seen
    return setup


def test_every_option_of_a_tomogram_reaches_its_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [word for n, x in SIZES.items() for word in (f"--{n.replace('_', '-')}", str(x))]
    words += ["--full", "--spread", "0.5", "--seed", "7", "--form", "signs"]
    wanted = Setup(**SIZES, causal=False, spread=0.5, seed=7, form="signs")
    assert asked(monkeypatch, *words) == wanted


def test_a_tomogram_without_options_has_the_defaults_of_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert asked(monkeypatch) == asked(monkeypatch, "--causal") == Setup()


def test_bounds_draws_a_picture_of_each_axis(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="extra 'report' is not installed")
    from dmverify.studies.bounds import sweep

    places, text = sweep.AXES["spread"]
    monkeypatch.setattr("dmverify.cli.bounds.AXES", {"spread": (places[:2], text)})
    words = ["bounds", "article", "--case", "lengths/n1@0", "--plot", str(tmp_path / "new")]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    (path,) = (tmp_path / "new").iterdir()
    assert path.name == "bounds-along-spread.svg"
    assert str(path) in result.stderr
    assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_a_study_writes_all_it_shows(tmp_path) -> None:
    pytest.importorskip("matplotlib", reason="extra 'report' is not installed")
    words = ["study", "worked-row", "--quick", "--out", str(tmp_path / "new")]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert {"worked-row.json", "worked-row.html"} <= {x.name for x in (tmp_path / "new").iterdir()}


def test_the_limit_of_a_proof_reaches_the_solvers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dmverify.proofs", reason="the provers are not installed")
    seen: list[object] = []

    def keep(names: list[str], *, timeout: float | None) -> list[object]:
        seen.append((names, timeout))
        return []

    monkeypatch.setattr("dmverify.cli.prove.prove", keep)
    for words in (["--timeout", "2.5"], []):
        assert CliRunner().invoke(cli, ["prove", "e4m3-grid", *words]).exit_code == 5
    assert seen == [(["e4m3-grid"], 2.5), (["e4m3-grid"], None)]


def test_shapes_and_kernels_to_time_are_those_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def keep(shapes: tuple[Shape, ...], *, kernels: tuple[str, ...]) -> list[object]:
        seen.append((shapes, kernels))
        return []

    monkeypatch.setattr("dmverify.cli.bench.bench", keep)
    words = ["--shape", "1,2,2,64,64", "--shape", "1,4,2,96,128,full", "--kernel", "flash-2"]
    assert CliRunner().invoke(cli, ["bench", *words]).exit_code == 0
    assert seen == [((Shape(1, 2, 2, 64, 64), Shape(1, 4, 2, 96, 128, False)), ("flash-2",))]


def test_the_seed_of_a_list_is_that_of_its_cases(tmp_path) -> None:
    path = tmp_path / "cases"
    assert CliRunner().invoke(cli, ["gen", str(path), "--seed", "41"]).exit_code == 0
    drawn = [line for line in path.read_text().splitlines() if "gaussian/" in line]
    assert drawn
    assert all("@41" in line for line in drawn)


CASE = ("--case", "lengths/n1@0")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        *(
            ((*verb, *CASE, *option), "--inputs FILE")
            for verb in (("verify", "simulation"), ("bounds",), ("expect",), ("gen", "x.jsonl"))
            for option in (("--causal",), ("--full",), ("--softmax-scale", "0.5"))
        ),
        (("expect", *CASE, "--spread", "8"), "leave out --spread"),
        (("expect", *CASE, "--shape", "1,1,64,32", "--kv-heads", "1"), "--shape, --kv-heads"),
        (("expect", "--inputs", "x.npz", "--spread", "1"), "leave out --spread"),
        (("expect", "--seed", "-1"), "--seed"),
        (("gen", "x.jsonl", "--seed", "-1"), "--seed"),
        (("lab", "soundness", "--seed", "-1", "--out", "x.json"), "--seed"),
        (("lab", "ask", "x", "--peers", "torch-maths"), "did you mean torch-math"),
        (("tomograph", "simulation", "--seed", "-1"), "--seed"),
    ],
)
def test_an_option_that_would_say_nothing_is_refused(words, named) -> None:
    result = CliRunner().invoke(cli, list(words))
    assert result.exit_code == 2, result.output
    assert named in result.output


def test_a_list_that_cannot_be_written_is_wrong_usage(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(cli, ["gen", str(tmp_path / "file" / "x.jsonl"), *CASE])
    assert result.exit_code == 2
    assert "fix: " in result.output
