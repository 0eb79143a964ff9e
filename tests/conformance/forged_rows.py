"""Forged recordings, what they say: each row changes the valid one of ``forgeries``.

A row is (name, what is changed, exit code, words of the output). Exit code 3 with DMV-RECORDING is
a refusal; 1 a failure that was found by comparing values.
"""

from tests.conformance.forgeries import (
    BAD,
    add,
    declined,
    drop,
    dropped,
    dropped_from_the_list,
    duplicated,
    manifest,
    other_draws,
    other_text,
    put,
    renamed,
    second,
    text,
)

REFUSED, FAILS, ERROR, CONFORMS = 3, 1, 3, 0

UGLY = "\x1b[2J\x1b[32mbundled: conforms on 213 of 213 cases\nbundled: conforms \u202e\x00\x7f"
ASKED_BAD = ("asked", 1, "case")
HUGE = "lengths/n15,keys=2000000000@0"

IDS = {
    "without its seed": "lengths/n15",
    "two zeros": "lengths/n15@00",
    "a plus": "lengths/n15,queries=+15@0",
    "an underscore": "lengths/n15,queries=1_5@0",
    "other digits": "lengths/n15,queries=\u0661\u0665@0",
    "a capital": "Lengths/n15@0",
    "a space": "lengths/n15@0 ",
    "a newline": "lengths/n15@0\n",
    "nothing": "",
    "a path": "../../../etc/passwd@0",
    "a family that is not": "nothing/here@0",
    "a variant that is not": "lengths/n0x@0",
    "a capture that is not": "capture/nothing@0",
    "a field of a capture": "capture/minilm/layer1,keys=5@0",
    "a field twice": "lengths/n15,keys=15,keys=16@0",
    "a scale that is none": "lengths/n15,softmax_scale=nan@0",
    "a scale without end": "lengths/n15,softmax_scale=inf@0",
    "keys": HUGE,
    "batches": "lengths/n15,batch=1000000000000@0",
    "heads": "lengths/n15,heads=1000000000000,kv_heads=1@0",
    "head dim": "lengths/n15,head_dim=1099511627776@0",
    "more keys than the memory that is left": "lengths/n15,keys=300000@0",
    "queries of 180 digits": f"lengths/n15,queries={10**150}@0",
    "below zero": "lengths/n15,keys=-1@0",
    "letters": "lengths/" + "n" * 300 + "@0",
    "a seed of 5000 digits": f"lengths/n15@{'9' * 5000}",
}
VALUES = {"a number": 7, "null": None, "a list": ["lengths/n15@0"], "true": True, "a table": {}}
WORDS = ("conforms", "fails", "indeterminate", "does not", "acceptable", "", "Unsupported", None, 3)
UNKNOWN = {
    "notes": {f"conforms/{BAD[0]} article": ""},
    "verdicts": {BAD[0]: "conforms"},
    "findings": [{"case": BAD[0], "verdict": "conforms", "judged": 10**6}],
    "served": {"asked": 16, "served": 16},
    "ok": True,
}

ROWS = [
    ("as it is", lambda path: None, FAILS, "o does not conform"),
    # What the manifest says beyond what it may.
    *(
        (f"field {key}", put(key, value=x), REFUSED, f"unknown field `{key}`")
        for key, x in UNKNOWN.items()
    ),
    (
        "a thousand notes",
        put("notes", value={f"conforms/{n}": "" for n in range(1000)}),
        REFUSED,
        "`notes`",
    ),
    (
        "a verdict beside an answer",
        put("answers", 1, "verdict", value="conforms"),
        REFUSED,
        "`verdict`",
    ),
    ("a margin beside an answer", put("answers", 1, "margin", value=0.0), REFUSED, "`margin`"),
    *(
        (f"word {word!r}", put("unanswered", 0, "why", value=word), REFUSED, "why")
        for word in WORDS
    ),
    # What hides the wrong answer.
    *(
        (
            f"{word} though answered",
            add("unanswered", {"asked": 1, "why": word, "reason": ""}),
            REFUSED,
            "an answer, its hashes, or a reason",
        )
        for word in ("unsupported", "error", "timeout")
    ),
    (
        "declined twice",
        add("unanswered", {"asked": 2, "why": "error", "reason": ""}),
        REFUSED,
        "one answer",
    ),
    (
        "declined what was not asked",
        add("unanswered", {"asked": 9, "why": "error", "reason": ""}),
        REFUSED,
        "question 9",
    ),
    ("declined before the first", put("unanswered", 0, "asked", value=-1), REFUSED, "asked"),
    ("a question by a text", put("unanswered", 0, "asked", value="2"), REFUSED, "asked"),
    ("a question by a table", put("answers", 0, "asked", value={}), REFUSED, "asked"),
    ("a question by 30 digits", put("answers", 0, "asked", value=10**30), REFUSED, "asked"),
    (
        "answered twice",
        manifest(lambda w: w["answers"].append(w["answers"][0])),
        REFUSED,
        "one answer",
    ),
    ("the right answer for both", put("answers", 1, "asked", value=0), REFUSED, "one answer"),
    ("asked twice", manifest(lambda w: w["asked"].append(w["asked"][1])), REFUSED, "asked once"),
    ("another spelling", second("article:delta=matched"), REFUSED, "asked once"),
    ("two modifiers", second("article:ds_cast=nearest,delta=matched"), REFUSED, "asked once"),
    ("fifteen dropped", dropped, ERROR, "served 1 of 16"),
    ("two dropped from the list", dropped_from_the_list, CONFORMS, "on 1 of 1 cases"),
    ("a thousand declined", declined(1000), CONFORMS, "conforms on 1 of 1000 cases"),
    ("a duplicated table", text(duplicated), ERROR, "served 1 of 3"),
    ("no answer at all", manifest(lambda w: w.update(answers=[])), ERROR, "served 0 of 3"),
    (
        "nothing asked",
        manifest(lambda w: w.update(asked=[], answers=[], unanswered=[], contracts={})),
        5,
        "0 values",
    ),
    # Ids.
    *(
        (f"id with {name}", put(*ASKED_BAD, value=x), REFUSED, "DMV-RECORDING")
        for name, x in IDS.items()
    ),
    *((f"id {name}", put(*ASKED_BAD, value=x), REFUSED, "`str`") for name, x in VALUES.items()),
    ("no id", drop(*ASKED_BAD), REFUSED, "`case`"),
    ("another id", put(*ASKED_BAD, value="lengths/n16@0"), REFUSED, "plain file"),
    ("another id, and the file renamed", renamed, ERROR, "other draws"),
    # Contracts.
    *(
        (f"contract {name}", put("asked", 1, "contract", value=x), REFUSED, "`str`")
        for name, x in VALUES.items()
    ),
    ("a contract that is not", put("asked", 1, "contract", value="nothing"), REFUSED, "nothing"),
    (
        "a modifier that is not",
        put("asked", 1, "contract", value="article:p_groups=1"),
        REFUSED,
        "p_groups",
    ),
    ("a contract of controls", put("asked", 1, "contract", value=UGLY), REFUSED, "DMV-RECORDING"),
    ("another text", manifest(other_text), REFUSED, "the contract of its time"),
    (
        "a text of controls",
        put("contracts", "article", value=UGLY),
        REFUSED,
        "the contract of its time",
    ),
    ("no text", put("contracts", value={}), REFUSED, "exactly the contracts"),
    ("a text more", put("contracts", "bundled", value="{}"), REFUSED, "exactly the contracts"),
    ("a text that is a number", put("contracts", "article", value=7), REFUSED, "`str`"),
    # Inputs.
    ("other draws", other_draws, ERROR, "other draws, or by another version"),
    ("inputs in capitals", put("asked", 1, "inputs", value="A" * 64), REFUSED, "regex"),
    ("short inputs", put("asked", 1, "inputs", value="0" * 63), REFUSED, "regex"),
    ("no inputs", drop("asked", 1, "inputs"), REFUSED, "`inputs`"),
    # Versions and producers.
    ("version 1", put("version", value=1), REFUSED, "version 1"),
    ("version 99", put("version", value=99), REFUSED, "version 99"),
    ("version of a text", put("version", value="2"), REFUSED, "version"),
    ("version of a fraction", put("version", value=2.5), REFUSED, "version"),
    ("another format", put("format", value=UGLY), REFUSED, "format"),
    ("format 2", put("format", value=2), REFUSED, "format"),
    ("no versions", drop("made_with"), REFUSED, "made_with"),
    (
        "another specification",
        put("made_with", "specification", value="0" * 64),
        FAILS,
        "recorded with the specification 000000000000",
    ),
    (
        "another version of ours",
        put("made_with", "dmverify", value="0.0.9"),
        FAILS,
        "o does not conform",
    ),
    (
        "a version of controls",
        put("made_with", "dmverify", value=UGLY),
        FAILS,
        "o does not conform",
    ),
    ("a producer of controls", put("producer", "kernel", value=UGLY), FAILS, "o does not conform"),
    ("a producer without a device", drop("producer", "device"), REFUSED, "device"),
    ("a coloured producer", put("producer", "colour", value="red"), REFUSED, "colour"),
    ("flags of a number", put("producer", "flags", value=3), REFUSED, "flags"),
    ("flags of numbers", put("producer", "flags", value=[3]), REFUSED, "flags"),
    ("a flood of flags", put("producer", "flags", value=["-x"] * 10**5), REFUSED, "flags"),
    ("a kernel of a megabyte", put("producer", "kernel", value="x" * 10**6), REFUSED, "kernel"),
    (
        "a reason of controls",
        put("unanswered", 0, "reason", value=UGLY),
        FAILS,
        "o does not conform",
    ),
    (
        "a reason of a megabyte",
        put("unanswered", 0, "reason", value="x" * 10**6),
        REFUSED,
        "reason",
    ),
    (
        "a reason of half a character",
        put("unanswered", 0, "reason", value="\ud800"),
        REFUSED,
        "DMV-RECORDING",
    ),
    # What is no manifest.
    ("a list", manifest(lambda w: [w]), REFUSED, "array"),
    ("a number", manifest(lambda w: 7), REFUSED, "int"),
    ("nothing", text(lambda _: b""), REFUSED, "manifest.json"),
    ("a cut", text(lambda x: x[: len(x) // 2]), REFUSED, "manifest.json"),
    ("no JSON", text(lambda _: b"conforms"), REFUSED, "manifest.json"),
    ("brackets", text(lambda _: b"[" * 10**6), REFUSED, "manifest.json"),
    ("tables", text(lambda _: b'{"a":' * 10**6), REFUSED, "manifest.json"),
    (
        "brackets in a field",
        text(lambda x: x.replace(b'"asked": [', b'"asked": ' + b"[" * 10**5, 1)),
        REFUSED,
        "manifest.json",
    ),
    (
        "brackets in a field that is not",
        text(lambda x: x.replace(b"{", b'{"x": ' + b"[" * 10**5 + b"]" * 10**5 + b",", 1)),
        REFUSED,
        "manifest.json",
    ),
    (
        "NaN",
        text(lambda x: x.replace(b'"version": 2', b'"version": NaN')),
        REFUSED,
        "manifest.json",
    ),
    ("UTF-16", text(lambda x: x.decode().encode("utf-16")), REFUSED, "manifest.json"),
    ("NUL", text(lambda x: x.replace(b"mine", b"\0\0")), REFUSED, "manifest.json"),
    ("other bytes", text(lambda x: x.replace(b"mine", b"\xff\xfe")), REFUSED, "manifest.json"),
    ("more at the end", text(lambda x: x + b"{}"), REFUSED, "manifest.json"),
    (
        "a flood of questions",
        manifest(lambda w: w["asked"].extend(w["asked"][:1] * 200_000)),
        REFUSED,
        "asked",
    ),
]
