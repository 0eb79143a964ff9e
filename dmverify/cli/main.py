"""The ``dmverify`` command: verbs loaded when they are called, and errors as one line.

| exit code | meaning |
|---|---|
| 0 | conforms, or the verb did what it was asked |
| 1 | fails: a kernel does not conform, a lemma is not proved |
| 2 | wrong usage: an argument, a name, an input that a rule forbids |
| 3 | kernel or harness error; a broken recording; a missing dependency |
| 4 | a kernel gave no answer in time |
| 5 | nothing ran |
| 6 | the contract leaves every answer open |
| 130 | Ctrl-C |
| 141 | whoever read the results left, and they were no verdict |

Results go to stdout, progress and errors to stderr. An unexpected exception would make Python exit
with 1, which means "does not conform" here, so it is caught and exits with 3.
"""

from __future__ import annotations

import io
import sys
import traceback
from types import MappingProxyType

import click

from dmverify.cli.pipes import close_results
from dmverify.cli.verbs import Verbs
from dmverify.conformance.words import printable
from dmverify.errors import DmverifyError, naming_extras
from dmverify.memory import give_back_long_arrays

INTERNAL_EXIT = 3
INTERRUPTED_EXIT, BROKEN_PIPE_EXIT = 130, 141  # 128 and the signal, as shells say it

# Verb: the module of dmverify.cli that holds it, and its line in the help.
VERBS = MappingProxyType(
    {
        "verify": ("verify", "Judge a kernel by a contract."),
        "list": ("list", "Show what there is: contracts, kernels, checks, families, ..."),
        "contract": ("contract", "Read a contract's file, or guess which one a kernel keeps."),
        "bounds": ("bounds", "Show how far a conforming kernel may be, term by term."),
        "expect": ("expect", "Estimate how wrong a conforming kernel will be, typically."),
        "replay": ("replay", "Run one case and show the worst element of every check."),
        "gen": ("gen", "First step: write a list of cases."),
        "run": ("run", "Second step: run a kernel on cases, write a recording."),
        "check": ("check", "Third step: judge a recording, on any machine."),
        "merge": ("merge", "Join the shards of a run into its report."),
        "compare": ("compare", "Say what became worse from one report to the next."),
        "html": ("html", "Write a report as one HTML page."),
        "github": ("github", "Show a report in GitHub Actions."),
        "record": ("record", "Record the bundled kernel on this Hopper GPU."),
        "bench": ("bench", "Time the bundled kernel and its peers on this GPU."),
        "study": ("study", "Run an experiment and show its tables."),
        "faults": ("faults", "Try every seeded fault against our checks and public rules."),
        "prove": ("prove", "Prove the lemmas and refute their controls."),
        "attack": ("attack", "Search for the inputs on which a kernel is worst."),
        "tomograph": ("tomograph", "Read a kernel's delta off its gradients."),
        "lab": ("lab", "Make the evidence about this project anew; see 'dmverify lab -h'."),
    }
)


class Main(Verbs):
    """The verbs, and what each kind of error exits with."""

    def invoke(self, ctx: click.Context) -> object:
        """Runs a verb; deliberate errors become one line and their exit code."""
        try:
            with naming_extras():
                return super().invoke(ctx)
        except DmverifyError as error:
            _say(str(error))
            ctx.exit(error.exit_code)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, click.Abort):
            _say("[DMV-INTERRUPTED] stopped before the end, so there is no verdict")
            ctx.exit(INTERRUPTED_EXIT)
        except BrokenPipeError:
            close_results()
            ctx.exit(BROKEN_PIPE_EXIT)
        except OSError as error:  # a folder that is not there, a disk that is full
            where = f"{error.filename}: " if error.filename else ""
            _say(
                f"[DMV-FILE] got {where}{error.strerror or error}; rule: what is named can be read "
                "and written; fix: name another path, or make room"
            )
            ctx.exit(INTERNAL_EXIT)
        except MemoryError:
            _say(
                "[DMV-MEMORY] got a case that needs more memory than there is; rule: a case fits "
                "the memory; fix: take smaller lengths, fewer heads, or a larger machine"
            )
            ctx.exit(INTERNAL_EXIT)
        except BaseException as error:  # sys.exit(0) of a kernel is no pass either
            if ctx.params.get("debug"):
                click.echo(traceback.format_exc(), err=True)
            _say(
                f"[DMV-INTERNAL] {type(error).__name__}: {error}; this is a fault of dmverify; "
                "run 'dmverify --debug ...' for the traceback"
            )
            ctx.exit(INTERNAL_EXIT)


@click.group(
    cls=Main,
    package="dmverify.cli",
    table=VERBS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")
@click.version_option(package_name="dmverify")
def cli(debug: bool) -> None:
    """Block-scaled FP8 attention on Hopper: exact specification, bounds, conformance."""


def main() -> None:
    """Entry point of the installed script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a kernel's message may hold any character
            stream.reconfigure(errors="backslashreplace")
    give_back_long_arrays()
    try:
        cli(prog_name="dmverify")
    except SystemExit:
        raise
    except BaseException:  # nothing is left to say it with
        sys.exit(INTERNAL_EXIT)


def _say(line: str) -> None:
    click.echo(printable(" ".join(line.splitlines())), err=True)
