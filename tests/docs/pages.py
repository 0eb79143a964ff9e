"""Runs the commands of a page and compares what they print with what the page shows, loosely.

In a ``console`` block a line after ``$``, and those after ``>`` that continue it, are a command, in
one shell a page. What follows must be among the lines that it prints, in this order, with other
numbers and spaces perhaps. A shown line may be the beginning of a printed one.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"[-+]?\d[\d,.]*(?:e[-+]?\d+)?")
END = "=== the next command"


def blocks(text, kind):
    """The texts of a page's code blocks of one kind."""
    return [body for name, body in BLOCK.findall(text) if name == kind]


def commands(text):
    """Commands with the lines shown below each, over all console blocks."""
    found = []
    for line in "".join(blocks(text, "console")).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> "):
            command, shown = found.pop()
            found.append((f"{command}\n{line[2:]}", shown))
        elif line.strip():
            found[-1][1].append(line)
    return found


def alike(line):
    """A line without its numbers and its width."""
    return " ".join(NUMBER.sub("#", line).split())


def not_shown(shown, printed):
    """The first shown line that is not printed after those before it, or None."""
    lines = iter(map(alike, printed.splitlines()))
    return next((s for s in shown if not any(p.startswith(alike(s)) for p in lines)), None)


def run(text, folder):
    """What each command of a page prints, run in a folder that holds the examples."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    tools = folder / "bin"
    tools.mkdir()
    for name, words in {"dmverify": ["-m", "dmverify"], "python": []}.items():
        line = shlex.join([sys.executable, *words])
        (tools / name).write_text(f'#!/bin/sh\nexport PYTHONPATH={ROOT}:$PYTHONPATH\n{line} "$@"\n')
        (tools / name).chmod(0o755)
    script = "".join(
        f"{command}\ncode=$?; echo; echo '{END}'; (exit $code)\n" for command, _ in commands(text)
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout.split(END)
