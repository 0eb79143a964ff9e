"""``dmverify verify``: judge a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from dmverify.cli import completion
from dmverify.cli.inputs import Files, inputs_options
from dmverify.cli.output import (
    console,
    error_option,
    in_process_option,
    json_option,
    print_json,
    progress,
    served_option,
    timeout_option,
)
from dmverify.cli.pipes import reader_may_leave
from dmverify.cli.records import as_record
from dmverify.cli.spread import LOCAL, Spreading, spread_options
from dmverify.conformance.accuracy import read_limits
from dmverify.conformance.report.console import show
from dmverify.conformance.verify import verify
from dmverify.files import prepare_file, prepare_folder, write_atomically


@dataclass(frozen=True)
class Options:
    """What is judged, by what, and where the report goes."""

    kernel: str | None
    contract: str | None
    level: str
    seed: str
    timeout: float | None
    in_process: bool
    minutes: float | None
    expect: Path | None
    min_served: float
    max_error: tuple[str, ...]
    cases: tuple[str, ...]
    checks: tuple[str, ...]
    jobs: int
    stop: bool
    junit: Path | None
    out: Path | None
    as_json: bool


@click.command()
@click.argument("kernel", required=False, shell_complete=completion.kernels)
@click.option(
    "--contract",
    shell_complete=completion.contracts,
    help="Name or file of the contract to judge by; the kernel's own one unless given.",
)
@click.option(
    "--level",
    default="smoke",
    show_default=True,
    shell_complete=completion.levels,
    help="How many cases are judged: smoke, full, or soak (without end).",
)
@click.option(
    "--seed", default="0", show_default=True, help="First seed of the drawn cases, or 'random'."
)
@timeout_option
@in_process_option
@click.option(
    "--minutes",
    type=float,
    help="Minutes after which --level soak ends; without them it runs until Ctrl-C.",
)
@click.option(
    "--expect", type=click.Path(path_type=Path), help="File of expected verdicts, with reasons."
)
@served_option
@error_option
@click.option(
    "--case",
    "cases",
    multiple=True,
    help="Case id, or a pattern such as 'lengths/*', to judge instead of a level; repeatable.",
)
@click.option(
    "--check",
    "checks",
    multiple=True,
    shell_complete=completion.checks,
    help="Check to run instead of all; repeatable.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of processes that judge or, where a GPU is, compute references. "
    "Findings do not depend on it.",
)
@spread_options
@click.option("-x", "--stop", is_flag=True, help="Stop after the first case that fails.")
@click.option(
    "--junit", type=click.Path(path_type=Path, dir_okay=False), help="File to write JUnit XML to."
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write reports to."
)
@inputs_options
@json_option
@click.pass_context
@as_record(Options)
def command(ctx: click.Context, spreading: Spreading, inputs: Files, options: Options) -> None:
    """Judge KERNEL (a listed name, pkg.module:object or proc:COMMAND) by a contract.

    Without KERNEL: the bundled kernel, run on a Hopper GPU or else as an H200 recorded it; the
    float32 simulation on drawn cases and on captures of trained models; and the instruction models
    on what an H200 returned.

    With -j, cases are judged by so many processes, each with a kernel of its own; where the machine
    shows a GPU, only with --executor processes. With --executor ray they are judged by the workers
    of a Ray cluster: the one that RAY_ADDRESS names, or a local one of -j CPUs. With --shard, a
    part of them is judged, by a machine of a CI matrix, say; 'dmverify merge' joins the parts. The
    report is the same.

    With --inputs, the cases of files are asked. Where a file holds outputs too and no KERNEL is
    named, the outputs are judged by --contract.

    KERNEL is taken to be honest and perhaps wrong: unless the project ships it, it runs in a
    process of its own, so that a crash or a hang of it is a verdict.

    Exit code 0: conforms; 1: fails; 2: wrong usage; 3: kernel or harness error; 4: no answer in
    time; 5: nothing ran; 6: the contract leaves every answer open; 130: Ctrl-C, after a report of
    what was judged.
    """
    # A kernel may change the directory.
    junit, out = (path and path.absolute() for path in (options.junit, options.out))
    limits = read_limits(options.max_error)
    spread = spreading.over(options.jobs, out)
    if junit is not None:
        prepare_file(junit)
    if out is not None:
        prepare_folder(out)
    with progress() as listener:
        report = verify(
            options.kernel,
            options.contract,
            level=options.level,
            seed=int(options.seed) if options.seed.isdecimal() else options.seed,
            timeout=options.timeout,
            in_process=options.in_process,
            minutes=options.minutes,
            expect=options.expect,
            min_served=options.min_served,
            max_error=limits,
            cases=options.cases,
            inputs=inputs.sources(),
            checks=options.checks,
            jobs=options.jobs if spreading.executor == LOCAL else 1,
            spread=spread,
            stop=options.stop,
            reproduce=True,
            listener=listener,
        )
    with reader_may_leave():  # first of all: no file that cannot be written loses the verdict
        if options.as_json:
            print_json(report.to_json())
        else:
            show(report, console())
    if junit is not None:
        write_atomically(junit, report.to_junit())
    if out is not None:
        report.write(out)
    ctx.exit(report.exit_code)
