"""Runs a GitHub workflow as its runners do, as far as the examples need it.

| step | here |
|---|---|
| actions/checkout | a copy of the package |
| actions/setup-python, lines that call pip | nothing: what they install is there |
| actions/cache | kept under its key if the job succeeds, found again by key or prefix |
| actions/upload-artifact, download-artifact | folders of the run |
| OWNER/dmverify | the steps of ``action.yml`` (``runner``) |
| run | a bash script with -e and pipefail |

Jobs come in the order of ``needs``, a matrix is one job after the other. A step after one that
failed runs only with ``if: always()``. Any other step, or expression, is an error of the test.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import yaml

from tests.ci.runner import PATH, run_action

EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
EITHER = re.compile(r"hashFiles\('(.*?)'\) != '' && '(.*?)' \|\| ''")


@dataclass
class Job:
    """What became of one job: its folder, whether it succeeded, what it said and summed up."""

    folder: Path
    code: int = 0
    said: str = ""
    summary: str = ""
    values: dict = field(default_factory=dict)
    saves: list = field(default_factory=list)


class Runners:
    """GitHub, for one repository: it keeps caches from run to run.

    Args:
        action: Path of ``action.yml``.
        package: The folder that a checkout gives.
        folder: Where it works.
    """

    def __init__(self, action, package, folder):
        self.action, self.package, self.folder = action, package, folder
        self.runs = 0

    def run(self, text, *, sha, environment):
        """Runs a workflow; every job by its name, and by the values of its matrix."""
        self.runs += 1
        self._environment = environment
        here = self.folder / f"run-{self.runs}"
        self._artifacts = here / "artifacts"
        done = {}
        jobs = yaml.safe_load(text)["jobs"]
        while left := [name for name in jobs if name not in {key[0] for key in done}]:
            ready = [one for one in left if jobs[one].get("needs", "") not in left]
            for name in ready:
                for values in _matrix(jobs[name]):
                    words = [str(value) for value in values.values()]
                    job = Job(here / "-".join([name, *words]))
                    job.values = {f"matrix.{key}": str(value) for key, value in values.items()}
                    job.values["github.sha"] = sha
                    self._work(job, jobs[name])
                    done[name, *words] = job
            failed = [key[0] for key, job in done.items() if job.code]
            jobs = {k: v for k, v in jobs.items() if v.get("needs", "") not in failed}
        return done

    def _work(self, job, told):
        job.folder.mkdir(parents=True)
        for step in told["steps"]:
            if job.code and step.get("if") != "always()":
                continue
            given = {k: _filled(str(v), job) for k, v in step.get("with", {}).items()}
            if "run" in step:
                self._shell(job, _filled(step["run"], job))
            else:
                self._use(job, step["uses"].partition("@")[0], given)
        for path, kept in job.saves if not job.code else ():
            shutil.copytree(path, kept, dirs_exist_ok=True)

    def _use(self, job, name, given):
        if name == "actions/checkout":
            shutil.copytree(self.package, job.folder / self.package.name, dirs_exist_ok=True)
        elif name == "actions/cache":
            self._cache(job, given)
        elif name == "actions/upload-artifact":
            shutil.copytree(job.folder / given["path"], self._artifacts / given["name"])
        elif name == "actions/download-artifact":
            named = self._artifacts / given.get("name", "")
            shutil.copytree(named, job.folder / given.get("path", ""), dirs_exist_ok=True)
        elif name == "OWNER/dmverify":
            given.pop("install", None)
            code, said, job.summary, _ = run_action(
                self.action, given, cwd=job.folder, environment=self._words(job)
            )
            job.code, job.said = code, job.said + said
        else:
            assert name == "actions/setup-python", name

    def _cache(self, job, given):
        kept = self.folder / "cache"
        kept.mkdir(exist_ok=True)
        names = [given["key"], *given.get("restore-keys", "").split()]
        newest = sorted(kept.iterdir(), key=lambda one: one.stat().st_mtime_ns, reverse=True)
        found = [one for name in names for one in newest if one.name.startswith(name)]
        if found:
            shutil.copytree(found[0], job.folder / given["path"])
        job.saves.append((job.folder / given["path"], kept / given["key"]))

    def _shell(self, job, script):
        kept = [line for line in script.splitlines() if "pip install" not in line]
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "\n".join(kept)],
            env=os.environ | PATH | self._words(job),
            cwd=job.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        job.code = done.returncode
        job.said += done.stdout + done.stderr

    def _words(self, job):
        path = os.pathsep.join([str(job.folder), self._environment.get("PYTHONPATH", "")])
        return self._environment | {"PYTHONPATH": path}


def _matrix(job):
    axes = job.get("strategy", {}).get("matrix", {})
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _filled(text, job):
    def value(match):
        if either := EITHER.fullmatch(match[1]):
            return either[2] if (job.folder / either[1]).exists() else ""
        return job.values[match[1]]

    return EXPRESSION.sub(value, text)
