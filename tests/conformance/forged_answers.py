"""Forged recordings, their answers and files: each row changes the valid one of ``forgeries``.

The rows are like those of ``forged_rows``.
"""

import json
import os
import shutil
import struct
from pathlib import Path

from dmverify.conformance.store import ANSWERS, FOOTER, MANIFEST, answer_path
from tests.conformance.forged_rows import CONFORMS, ERROR, FAILS, REFUSED
from tests.conformance.forgeries import (
    BAD,
    answer,
    copy_answer,
    given,
    instead,
    large_answer,
    nan,
    other_seed,
    put,
    raw,
    sparse,
    swap,
    tensors,
    zero,
)

ROWS = [
    # Answers.
    (
        "more bytes than there are",
        put("answers", 1, "bytes", value=10**6),
        REFUSED,
        "('lengths/n15@0', 'article')",
    ),
    ("fewer bytes", put("answers", 1, "bytes", value=10), REFUSED, "('lengths/n15@0', 'article')"),
    ("bytes below zero", put("answers", 1, "bytes", value=-1), REFUSED, "bytes"),
    ("bytes of 60 bits", put("answers", 1, "bytes", value=1 << 60), REFUSED, "bytes"),
    ("another hash", put("answers", 1, "sha256", value="0" * 64), REFUSED, "SHA-256"),
    ("a hash of a path", put("answers", 1, "sha256", value="../../etc"), REFUSED, "sha256"),
    ("an answer with a name", put("answers", 1, "file", value="/etc/passwd"), REFUSED, "`file`"),
    (
        "half an answer",
        lambda p: os.truncate(answer_path(p, BAD), 100),
        REFUSED,
        "size and SHA-256",
    ),
    (
        "a longer answer",
        lambda p: os.truncate(answer_path(p, BAD), 10**6),
        REFUSED,
        "plain file of its size",
    ),
    (
        "4 GiB",
        lambda p: os.truncate(answer_path(p, BAD), 1 << 32),
        REFUSED,
        "plain file of its size",
    ),
    ("4 GiB as promised", large_answer, REFUSED, "its outputs need"),
    *(
        (f"answer {name}", instead(ANSWERS, make), REFUSED, "plain file")
        for name, make in (
            ("FIFO", os.mkfifo),
            ("zero", zero),
            ("folder", Path.mkdir),
            ("gone", lambda _: None),
            ("loop", lambda p: p.symlink_to(p)),
        )
    ),
    ("a link to a copy", copy_answer, FAILS, "o does not conform"),
    ("swapped answers", swap, FAILS, "format does not conform"),
    (
        "a part that is none",
        put("answers", 1, "part", value={"heads": [0], "whole": {}}),
        2,
        "parts of outputs",
    ),
    (
        "a part of no head",
        put("answers", 1, "part", value={"heads": [], "whole": {}}),
        REFUSED,
        "heads",
    ),
    ("a tensor more", tensors(lambda x: x | {"conforms": x["o"]}), ERROR, "unknown: conforms"),
    (
        "a tensor less",
        tensors(lambda x: {n: y for n, y in x.items() if n != "dq"}),
        FAILS,
        "without dq",
    ),
    (
        "without delta",
        tensors(lambda x: {n: y for n, y in x.items() if n != "delta"}),
        CONFORMS,
        "on 2 of 3 cases",
    ),
    ("another shape", tensors(lambda x: x | {"o": x["o"][:, :-1]}), FAILS, "o with shape"),
    ("transposed", tensors(lambda x: x | {"dq": x["dq"].swapaxes(1, 3)}), FAILS, "dq with shape"),
    ("NaN for all", tensors(nan), FAILS, "o does not conform"),
    ("the answer to another seed", tensors(other_seed), FAILS, "o does not conform"),
    ("the inputs as the answer", tensors(given), FAILS, "o does not conform"),
    ("zeros", tensors(lambda x: {n: y * 0 for n, y in x.items()}), FAILS, "o does not conform"),
    ("no safetensors", answer(lambda _: b"conforms"), ERROR, "one safetensors file"),
    ("an empty answer", answer(lambda _: b""), ERROR, "one safetensors file"),
    (
        "a header of 60 bits",
        answer(lambda x: struct.pack("<Q", 1 << 60) + x[8:]),
        ERROR,
        "one safetensors file",
    ),
    (
        "integers",
        answer(raw({"o": {"dtype": "I32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4))),
        ERROR,
        "of type I32",
    ),
    (
        "overlapping tensors",
        answer(
            raw(
                {n: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in ("o", "dq")},
                bytes(4),
            )
        ),
        ERROR,
        "one safetensors file",
    ),
    (
        "a shape of 2^80",
        answer(
            raw(
                {"o": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 4]}},
                bytes(4),
            )
        ),
        ERROR,
        "one safetensors file",
    ),
    (
        "a shape of 2^62 and none",
        answer(raw({"o": {"dtype": "F32", "shape": [1 << 62, 0], "data_offsets": [0, 0]}})),
        ERROR,
        "one safetensors file",
    ),
    # Files in the place of others.
    *(
        (f"{file} {name}", instead(file, make), REFUSED, file)
        for file in (MANIFEST, FOOTER)
        for name, make in (
            ("FIFO", os.mkfifo),
            ("zero", zero),
            ("sparse", sparse),
            ("folder", Path.mkdir),
            ("gone", lambda _: None),
            ("loop", lambda p: p.symlink_to(p)),
        )
    ),
    *(
        (f"footer {name}", lambda p, x=x: (p / FOOTER).write_text(x), REFUSED, FOOTER)
        for name, x in (
            ("list", "[]"),
            ("table", "{}"),
            ("brackets", "[" * 4000),
            ("text", "conforms"),
            ("nothing", ""),
        )
    ),
    (
        "a footer that says more",
        lambda p: (p / FOOTER).write_text(
            json.dumps(json.loads((p / FOOTER).read_text()) | {"ok": True})
        ),
        REFUSED,
        "`ok`",
    ),
    (
        "a footer of a text",
        lambda p: (p / FOOTER).write_text(
            json.dumps(json.loads((p / FOOTER).read_text()) | {"answers": "2"})
        ),
        REFUSED,
        "answers",
    ),
    (
        "a footer of fewer",
        lambda p: (p / FOOTER).write_text(
            json.dumps(json.loads((p / FOOTER).read_text()) | {"answers": 1})
        ),
        REFUSED,
        "promises 1 answers",
    ),
    ("no folder of answers", lambda p: shutil.rmtree(p / ANSWERS), REFUSED, "plain file"),
    (
        "the folder is a FIFO",
        lambda p: (shutil.rmtree(p), os.mkfifo(p)),
        REFUSED,
        "a directory that exists",
    ),
    (
        "the folder is a file",
        lambda p: (shutil.rmtree(p), p.write_text("")),
        REFUSED,
        "a directory that exists",
    ),
]
