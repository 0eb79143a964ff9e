"""Runs the command line in a child with a limit on memory and processor time.

What hangs or fills the memory is a result like any other. The limits are those of the child alone;
the alarm ends a child that waits for ever, and is far beyond what any command needs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

MEMORY = 1 << 30  # bytes beyond what the imports have taken
SECONDS = 60  # of processor time
ALARM = 86400  # seconds of waiting: a loaded machine reaches it as little as an idle one

SERVER = """
import json, os, resource, signal, sys
from click.testing import CliRunner
from dmverify.cli import cli
import dmverify.conformance.load, dmverify.conformance.verify, dmverify.conformance.three_steps
import dmverify.conformance.kernels.simulation, dmverify.conformance.expectations
memory, seconds, alarm = map(int, sys.argv[1:])

def run(words, pipe):
    size = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.alarm(alarm)
    found = CliRunner().invoke(cli, words, prog_name="dmverify")
    peak = resource.getrusage(resource.RUSAGE_SELF)
    said = {"code": found.exit_code, "out": found.stdout, "err": found.stderr,
            "seconds": peak.ru_utime + peak.ru_stime, "bytes": peak.ru_maxrss * 1024}
    with os.fdopen(pipe, "w", encoding="utf-8", errors="surrogatepass") as file:
        json.dump(said, file)

for line in sys.stdin:
    given, taken = os.pipe()
    if not (child := os.fork()):
        try:
            run(json.loads(line), taken)
        finally:
            os._exit(0)
    os.close(taken)
    with os.fdopen(given) as file:
        said = file.read()
    status = os.waitpid(child, 0)[1]
    print(said or json.dumps({"code": None, "status": status, "out": "", "err": ""}), flush=True)
"""


class Limited:
    """Calls of the command line, each in a child of its own."""

    def __init__(self):
        path = [str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER, *map(str, (MEMORY, SECONDS, ALARM))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        )

    def call(self, *words):
        self._server.stdin.write(json.dumps([str(word) for word in words]) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def close(self):
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait()
