"""A valid recording of a wrong kernel, and changes that a forger makes to it.

The recording answers ``GOOD`` rightly and ``BAD`` wrongly, and declines ``LEFT``; as it is, it
fails. ``forged_rows`` and ``forged_answers`` say what each change has to end in.
"""

import json
import os
import shutil
import struct
from dataclasses import replace

import numpy as np

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.questions import examine
from dmverify.conformance.store import ANSWERS, FOOTER, MANIFEST, answer_path, save, seal
from dmverify.conformance.tensors import encode
from dmverify.spec.recording import Provenance, Recording, Unanswered

GOOD, BAD = ("lengths/n2@0", "article"), ("lengths/n15@0", "article")
LEFT = "lengths/n1@0", "article"


def base(folder):
    """The valid recording."""
    answers = {key: Simulation().backward(generate(key[0], contract=key[1])) for key in (GOOD, BAD)}
    answers[BAD] = replace(answers[BAD], o=answers[BAD].o * 2)
    why = {LEFT: Unanswered("unsupported", "no single query")}
    return save(Recording(Provenance("mine"), examine((GOOD, BAD, LEFT)), answers, why), folder)


def write_manifest(path, text):
    (path / MANIFEST).write_bytes(text)
    footer = json.loads((path / FOOTER).read_text())
    try:
        footer["answers"] = len(json.loads(text)["answers"])
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    (path / FOOTER).write_text(json.dumps(footer | {"manifest_sha256": seal(text).sha256}))


def manifest(change):
    """A careful forger: the footer fits the changed manifest."""

    def forge(path):
        whole = json.loads((path / MANIFEST).read_text())
        changed = change(whole)
        write_manifest(path, json.dumps(whole if changed is None else changed).encode())

    return forge


def text(change):
    """The same for what is no JSON."""
    return lambda path: write_manifest(path, change((path / MANIFEST).read_bytes()))


def put(*place, value):
    """Sets one value, by its place."""

    def change(whole):
        *way, last = place
        for step in way:
            whole = whole[step]
        whole[last] = value

    return manifest(change)


def drop(*place):
    def change(whole):
        *way, last = place
        for step in way:
            whole = whole[step]
        del whole[last]

    return manifest(change)


def add(place, row):
    return manifest(lambda whole: whole[place].append(row))


def answer(content):
    """Another content of the wrong answer's file, under its right hash."""

    def forge(path):
        file = answer_path(path, BAD)
        found = content(file.read_bytes())
        file.write_bytes(found)
        row = {"bytes": len(found), "sha256": seal(found).sha256}
        manifest(lambda whole: whole["answers"][1].update(row))(path)

    return forge


def tensors(change):
    """The same, by its tensors."""

    def content(_):
        found = Simulation().backward(generate(BAD[0], contract=BAD[1]))
        return encode(change(dict(found.items())).items())

    return answer(content)


def raw(header, data=b""):
    """A safetensors file by its header."""
    said = json.dumps(header).encode()
    return lambda _: struct.pack("<Q", len(said)) + said + data


def instead(name, make):
    """Something else in the place of a file."""

    def forge(path):
        file = answer_path(path, BAD) if name == ANSWERS else path / name
        shutil.rmtree(file) if file.is_dir() else file.unlink()
        make(file)

    return forge


def sparse(path):
    """A file of 4 GiB that takes no room."""
    path.touch()
    os.truncate(path, 1 << 32)


def zero(path):
    path.symlink_to("/dev/zero")


def copy_answer(path):
    file = answer_path(path, BAD)
    shutil.copy(file, path / "copy")
    file.unlink()
    file.symlink_to(path / "copy")


def large_answer(path):
    instead(ANSWERS, sparse)(path)
    manifest(lambda whole: whole["answers"][1].update(bytes=1 << 32))(path)


def swap(path):
    """The answers of two questions change places, with their hashes."""
    one, other = answer_path(path, GOOD), answer_path(path, BAD)
    contents = one.read_bytes(), other.read_bytes()
    other.write_bytes(contents[0])
    one.write_bytes(contents[1])

    def change(whole):
        rows = whole["answers"]
        for row, content in zip(rows, reversed(contents), strict=True):
            row.update(bytes=len(content), sha256=seal(content).sha256)

    manifest(change)(path)


def dropped(path):
    """Fifteen more questions, without a word about them."""

    def change(whole):
        whole["answers"] = [row for row in whole["answers"] if row["asked"] == 0]
        whole["unanswered"] = []
        row = whole["asked"][0]
        whole["asked"] += [row | {"case": f"lengths/n2@{seed}"} for seed in range(1, 14)]

    manifest(change)(path)


def dropped_from_the_list(path):
    """Nothing is left of two questions."""

    def change(whole):
        whole["asked"], whole["unanswered"] = whole["asked"][:1], []
        whole["answers"] = whole["answers"][:1]

    manifest(change)(path)


def declined(count):
    """The wrong answer goes, and so many questions are declined."""

    def change(whole):
        row = whole["asked"][0]
        whole["answers"] = whole["answers"][:1]
        whole["asked"] = [row] + [row | {"case": f"lengths/n2@{n}"} for n in range(1, count)]
        why = {"why": "unsupported", "reason": "too hard"}
        whole["unanswered"] = [{"asked": n, **why} for n in range(1, count)]

    return manifest(change)


def second(contract):
    """A right answer beside the wrong one, under another spelling of the contract."""

    def forge(path):
        key = BAD[0], contract
        content = encode(Simulation().backward(generate(BAD[0], contract=BAD[1])).items())
        answer_path(path, key).write_bytes(content)

        def change(whole):
            whole["asked"].append(whole["asked"][1] | {"contract": contract})
            row = {"bytes": len(content), "sha256": seal(content).sha256}
            whole["answers"].append({"asked": 3, **row})
            whole["contracts"][contract] = whole["contracts"]["article"]

        manifest(change)(path)

    return forge


def other_text(whole):
    said = json.loads(whole["contracts"]["article"])
    whole["contracts"]["article"] = json.dumps(said | {"p_group": 32})


def other_draws(path):
    manifest(lambda whole: whole["asked"][1].update(inputs="0" * 64))(path)


def renamed(path):
    """The wrong answer is said to be one to another case of the same shapes."""
    other = "lengths/n15@1", "article"
    answer_path(path, BAD).rename(answer_path(path, other))
    manifest(lambda whole: whole["asked"][1].update(case=other[0]))(path)


def nan(found):
    return {name: np.full_like(x, np.nan) for name, x in found.items()}


def other_seed(_):
    found = Simulation().backward(generate("lengths/n15@1", contract="article"))
    return dict(found.items())


def given(_):
    case = generate(BAD[0], contract=BAD[1])
    found = dict(Simulation().backward(case).items())
    return found | {"o": case.inputs.q, "dq": case.inputs.q, "dk": case.inputs.k}


def duplicated(content):
    """A second table of answers, of which one reader may see the first and another the last."""
    right = json.dumps(json.loads(content)["answers"][:1]).encode()
    return content.replace(b'"asked": [', b'"answers": ' + right + b', "asked": [', 1)
