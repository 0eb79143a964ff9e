"""An example of each verb, which its help shows; in this order they are one session in a folder.

A test parses all of them and runs those that need neither a GPU nor minutes.
"""

from __future__ import annotations

from types import MappingProxyType

import click

EXAMPLES = MappingProxyType(
    {
        "verify": "dmverify verify simulation --case 'lengths/n17@0' --out report",
        "list": "dmverify list kernels",
        "contract check": "dmverify contract check article:delta=stale",
        "contract fields": "dmverify contract fields",
        "contract guess": "dmverify contract guess simulation",
        "bounds": "dmverify bounds article --case gaussian/spread-1,queries=64,keys=64@0",
        "expect": "dmverify expect article --shape 1,2,256,64",
        "replay": "dmverify replay lengths/n17@0 --kernel simulation --contract article",
        "gen": "dmverify gen cases.jsonl --case lengths/n17@0 --contract bundled",
        "run": "dmverify run emulator recording --cases cases.jsonl",
        "check": "dmverify check recording --cases cases.jsonl --out checked",
        "merge": "dmverify merge part-0 part-1 --out whole",
        "compare": "dmverify compare report whole --fail-if-worse 10%",
        "html": "dmverify html report --to report.html",
        "github": "dmverify github report --baseline whole",
        "record": "dmverify record recorded --parts smoke -j 2",
        "bench": "dmverify bench --shape 1,16,16,8192,128 --json",
        "study": "dmverify study bounds --quick",
        "faults": "dmverify faults v-scale-inverse",
        "prove": "dmverify prove --ties",
        "attack": "dmverify attack simulation --contract article:delta=stale --maximise dq "
        "--against operands --evaluations 100000 --out worst.safetensors",
        "tomograph": "dmverify tomograph simulation --contract article --length 256",
        "lab replay": "dmverify lab replay --parts smoke,core -j 2",
        "lab edits": "dmverify lab edits --parts core",
        "lab false-positives": "dmverify lab false-positives --per 100 --shard 0/16 --out 0.json",
        "lab attacked": "dmverify lab attacked corpus --kernels simulation --out attacked.json",
        "lab plain": "dmverify lab plain --out plain.json",
        "lab kills": "dmverify lab kills --kills 100 --seed 0 --out kills.json",
        "lab spread-loss": "dmverify lab spread-loss simulation --cases 5000 -j 2 --out loss.json",
        "lab spread-load": "dmverify lab spread-load simulation --out load.json",
        "lab spread-time": "dmverify lab spread-time simulation --cases 1000 -j 2 --out time.json",
        "lab power": "dmverify lab power",
        "lab signatures": "dmverify lab signatures measure",
        "lab coverage": "dmverify lab coverage > rows.csv",
        "lab captures": "dmverify lab captures --check",
        "lab extremes": "dmverify lab extremes --cases 100 --out extremes.json",
        "lab soundness": "dmverify lab soundness --per 10 --shard 0/4 --out 0.json",
        "lab refuter": "dmverify lab refuter --rounds 100 --workers 2 --out refuter.json",
        "lab proof-objects": "dmverify lab proof-objects",
        "lab sabotage": "dmverify lab sabotage",
        "lab theory": "dmverify lab theory",
        "lab mathematics": "dmverify lab mathematics",
        "lab compile-faults": "dmverify lab compile-faults",
        "lab run-faults": "dmverify lab run-faults answers",
        "lab ask": "dmverify lab ask answers --peers torch-math",
        "lab judge": "dmverify lab judge answers --reports reports",
        "lab acceptance": "dmverify lab acceptance accepted --seconds 600",
        "lab precompile": "dmverify lab precompile",
        "lab small": "dmverify lab small release 128",
        "lab probe": "dmverify lab probe recorded",
        "lab probe-fit": "dmverify lab probe-fit",
        "lab probe-verify": "dmverify lab probe-verify 8 arithmetic",
        "lab wgmma-speed": "dmverify lab wgmma-speed",
    }
)


def with_example(command: click.Command, path: str) -> click.Command:
    """The command, whose help ends with its example; of a plain group, each of its commands.

    Args:
        command: What a verb is.
        path: The verb's words.
    """
    if path in EXAMPLES:
        command.epilog = f"\b\nExample:\n  {EXAMPLES[path]}"
    elif isinstance(command, click.Group):
        for name, one in command.commands.items():
            with_example(one, f"{path} {name}")
    return command
