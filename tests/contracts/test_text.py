"""The file form of a contract: every one survives it, and what is none is refused by its field."""

import json
import os
from dataclasses import replace

import pytest

from dmverify.conformance.contracts import LARGEST, resolve_contract
from dmverify.errors import ContractError, DmverifyError, InputError, UnknownNameError
from dmverify.spec.contracts import (
    ARTICLE,
    BUNDLED,
    CONTRACTS,
    DELTAS,
    DS_CASTS,
    Rows,
    get_contract,
    read_contract,
    says,
    to_table,
    to_text,
)
from dmverify.spec.contracts.named import contracts_of, read_data
from dmverify.spec.recording import contract_text, still_says
from dmverify.toml import DOTS, read_toml
from dmverify.toml import LARGEST as TOML


def defined_modes():
    for base in CONTRACTS:
        for delta in DELTAS:
            for cast in DS_CASTS:
                for normaliser in ("unrounded", "codes"):
                    try:
                        yield get_contract(base, delta=delta, ds_cast=cast, normaliser=normaliser)
                    except ContractError:
                        continue


MODES = tuple(defined_modes())
MINE = 'format = 1\nbase = "article"\np_group = 16\nq_block = "whole"\nsaturate = true\n'


def test_there_are_modes_of_every_contract():
    assert {mode.base for mode in MODES} == set(CONTRACTS)
    assert len(MODES) > 100


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_every_mode_survives_every_form(mode):
    assert read_contract(to_text(mode)) == mode
    assert read_contract(json.dumps(to_table(mode)), form="json") == mode
    assert get_contract(mode.name) == mode
    assert still_says(mode.name, contract_text(mode.name))


def test_a_text_says_what_it_said_whatever_becomes_of_its_base():
    text = to_text(get_contract("upstream")).replace('base = "upstream"', 'base = "article"')
    assert read_contract(text).schedule.p_group == 32


def test_a_file_names_what_differs():
    mine = read_contract(MINE)
    assert mine.name == "article:q_block=whole,saturate=true,p_group=16"
    schedule = Rows(p_group=16, tile=64)
    assert mine == replace(
        ARTICLE, schedule=schedule, q_block=None, saturate=True, summary="like article"
    )
    assert get_contract(mine.name) == replace(mine, summary=ARTICLE.summary)


def test_another_schedule_has_its_own_defaults():
    mine = read_contract('format = 1\nbase = "bf16-flash"\nschedule = "rows"\ntile = 32')
    assert mine.schedule == Rows(p_group=64, tile=32)
    assert mine.name == "bf16-flash:schedule=rows,p_group=64,tile=32,cast=tiles"
    assert get_contract(mine.name).schedule == mine.schedule


def test_a_contract_of_another_base_is_told_from_the_nearest():
    mine = replace(BUNDLED, base="mine", delta="stale")
    assert mine.name == "bundled:delta=stale"
    assert read_contract(to_text(mine)) == replace(mine, base="bundled")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("p_group = 17", "p_group"),
        ('p_group = "64"', "p_group"),
        ("p_group = 64.0", "p_group"),
        ("p_group = true", "p_group"),
        ('p_group = "whole"', "p_group"),
        ("p_group = 256", "p_group"),
        ("p_group = -1", "p_group"),
        ("p_group = 99999999999999999999", "p_group"),
        ("tile = 0", "tile"),
        ('q_block = "none"', "q_block"),
        ("window = 64", "window"),
        ('p = "bf16"', "p="),
        ('schedule = "columns"', "schedule"),
        ("schedule = 7", "schedule"),
        ("schedule = {kind = 'rows'}", "schedule"),
        ('schedule = "windows"\np_group = 64', "p_group"),
        ("saturate = 1", "saturate"),
        ('saturate = "true"', "saturate"),
        ('delta = "fresh"', "delta"),
        ("delta = 3", "delta"),
        ("delta = []", "delta"),
        ("delta = {}", "delta"),
        ("delta = 1979-05-27", "delta"),
        ("operand_rule = 5", "operand_rule"),
        ('operand_rule = "amx"', "scale rule"),
        ('schedule = "online"', "centre_k"),
        ('schedule = "online"\noperands = "whole"\ncentre_k = "none"', "q_block"),
        ('store = "call-exponent"', "store"),
        ('row_sum = "quad"', "row_sum"),
        ('delta = "associated"', "normaliser"),
        ('scale_span = "call"', "scale_span"),
        ('operand_rule = "amax-clamped"', "centre_k"),
        ("summary = 5", "summary"),
        ('colour = "red"', "colour"),
        ("pgroup = 16", "p_group"),
        ('name = "mine"', "name"),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(change, named):
    with pytest.raises((ContractError, UnknownNameError), match=named) as caught:
        read_contract(f'format = 1\nbase = "article"\n{change}\n')
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "format = 1",
        'base = "article"',
        'format = 2\nbase = "article"',
        'format = true\nbase = "article"',
        'format = 1.0\nbase = "article"',
        'format = "1"\nbase = "article"',
        'format = 1\nbase = "artikel"',
        'format = 1\nbase = ""',
        "format = 1\nbase = 7",
        'format = 1\nbase = "article',
        'format = 1\nbase = "article"\np_group = 16\np_group = 32',
        'format = 1\nbase = "article:colour=red"',
        "\x00",
        "[" * 5000,
        "a." * 5000 + "b = 1",
        "a." * DOTS + "b = 1",
        "a." * (DOTS + 1) + "b = 1",
        'format = 1\nbase = "article"\n#' + "x" * LARGEST,
    ],
)
def test_what_is_no_contract_is_refused(text):
    with pytest.raises((ContractError, UnknownNameError)):
        read_contract(text)


# A reader that leaves quoted text out would count no dots in the second one.
LONG_KEYS = ("{} = 1", 'c = ["""\n\'""", {{ {} = 1 }}, \'\']', "[{}]")


@pytest.mark.parametrize("form", LONG_KEYS)
def test_the_parts_of_a_key_are_counted_before_it_is_parsed(form):
    assert read_toml(form.format("a." * DOTS + "b"))
    with pytest.raises(ValueError, match="dots"):
        read_toml(form.format("a." * (DOTS + 1) + "b"))


def test_the_text_is_measured_before_it_is_parsed():
    assert read_toml("#" * TOML) == {}
    with pytest.raises(ValueError, match="at most"):
        read_toml("#" * (TOML + 1))


@pytest.mark.parametrize("summary", ["\x1b[31mred", "two\nlines", "x" * 401, "\x7f", "\u202e"])
def test_a_summary_is_a_line_that_can_be_shown(summary):
    text = json.dumps({"format": 1, "base": "article", "summary": summary})
    with pytest.raises(ContractError, match="summary"):
        read_contract(text, form="json")


def test_a_field_stands_once_in_json_too():
    with pytest.raises(ContractError, match="twice"):
        read_contract('{"format": 1, "base": "article", "tile": 32, "tile": 64}', form="json")


@pytest.mark.parametrize("text", ["null", "[]", "5", '"article"', "{", "[" * 100_000, "NaN"])
def test_json_that_is_no_contract_is_refused(text):
    with pytest.raises(ContractError):
        read_contract(text, form="json")


@pytest.mark.parametrize(
    "name",
    [
        "article:colour=red",
        "article:base=upstream",
        "article:summary=x",
        "article:p_group=0x40",
        "article:p_group=\uff16\uff14",
        "article:p_group=64 ",
        "article:p_group=" + "6" * 10_000,
        "article:saturate=True",
        "article:q_block=None",
        "article:window=64",
        "article:schedule=Rows",
    ],
)
def test_names_that_are_none(name):
    with pytest.raises((ContractError, UnknownNameError)) as caught:
        get_contract(name)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (contract_text("article"), True),
        (contract_text("article").replace('"format": 1, ', ""), False),
        (contract_text("article").replace('"centre_k": "mean"', '"centre_k": null'), False),
        (contract_text("article").replace('"store": "bf16", ', ""), True),  # it came later
        (contract_text("article").replace('"schedule": "rows"', '"schedule": "online"'), False),
        (contract_text("article").replace('"operand_rule": "amax", ', ""), False),
        (contract_text("article").replace('"tile": 64', '"tile": 32'), False),
        (contract_text("article").replace('"saturate": false', '"saturate": 0'), False),
        (contract_text("article").replace('"format": 1', '"format": 2'), False),
        (contract_text("article").replace('"name": "article"', '"name": "upstream"'), False),
        (contract_text("article").replace("{", '{"colour": "red", ', 1), False),
        ("", False),
        ("[]", False),
        ("[" * 100_000, False),
    ],
)
def test_what_a_recording_says_of_its_contract(text, same):
    assert says(text, ARTICLE) is same


def test_a_file_is_read_by_its_path(tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "mine.JSON").write_text(json.dumps(to_table(read_contract(MINE))))
    assert resolve_contract(str(tmp_path / "mine.toml")) == read_contract(MINE)
    assert resolve_contract(str(tmp_path / "mine.JSON")).name == read_contract(MINE).name
    assert resolve_contract(read_contract(MINE)) == read_contract(MINE)
    assert resolve_contract("upstream") == get_contract("upstream")


def hostile_files(folder):
    """Files that are no contract, and how."""
    good = MINE.encode()
    contents = {
        "huge.toml": good + b"#" * LARGEST,
        "dots.toml": b"a" + b".a" * 32_000 + b" = 1\n",  # 4 GB and 11 s to a plain reader
        "cut.toml": good[: len(good) - 3],
        "cut.json": json.dumps(to_table(ARTICLE)).encode()[:-5],
        "latin.toml": MINE.replace("article", "artíclé").encode("latin-1"),
        "wide.toml": MINE.encode("utf-16"),
        "bom.toml": b"\xef\xbb\xbf" + good,
        "zeros.toml": bytes(100),
        "types.toml": good.replace(b"16", b'"16"'),
        "field.toml": good + b"colour = 1\n",
        "other.json": good,
        "other.toml": json.dumps(to_table(ARTICLE)).encode(),
        "mine.txt": good,
        "noending": good,
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        yield name
    os.mkfifo(folder / "pipe.toml")
    yield "pipe.toml"
    (folder / "folder.toml").mkdir()
    yield "folder.toml"
    (folder / "loop.toml").symlink_to(folder / "loop.toml")
    yield "loop.toml"
    (folder / "endless.toml").symlink_to("/dev/zero")
    yield "endless.toml"
    with open(folder / "hole.toml", "wb") as file:
        file.truncate(1 << 40)
    yield "hole.toml"
    yield "absent.toml"


def test_hostile_files_are_refused_with_a_typed_error(tmp_path):
    names = [*hostile_files(tmp_path)]
    assert len(names) == 20
    for name in names:
        with pytest.raises(DmverifyError) as caught:
            resolve_contract(str(tmp_path / name))
        assert isinstance(caught.value, (InputError, ContractError, UnknownNameError)), name
        assert caught.value.exit_code == 2, name
        assert name in str(caught.value), name


@pytest.mark.parametrize("what", [None, 5, b"article", "", "mine", "mine:delta=stale", "article "])
def test_what_names_no_contract(what):
    with pytest.raises((InputError, UnknownNameError)):
        resolve_contract(what)


def test_a_named_contract_that_is_wrong_is_named_by_its_file():
    texts = read_data()
    assert contracts_of(texts) == CONTRACTS
    with pytest.raises(ContractError, match=r"p_group=5.* in contracts/data/wrong\.toml"):
        contracts_of({**texts, "wrong": 'format = 1\nbase = "article"\np_group = 5'})
