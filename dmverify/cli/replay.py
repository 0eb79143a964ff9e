"""``dmverify replay``: one case, every check, the worst element of each."""

from __future__ import annotations

from dataclasses import dataclass

import click

from dmverify.cli.inputs import Files, inputs_options
from dmverify.cli.output import console, json_option, print_json
from dmverify.cli.pipes import reader_may_leave
from dmverify.cli.records import as_record
from dmverify.conformance.replay import replay
from dmverify.conformance.report.console import show
from dmverify.conformance.report.failures import escape
from dmverify.conformance.tensor_files import name_cases

NO_VERDICT = "the specification against itself: a demonstration, no verdict"


@dataclass(frozen=True)
class Options:
    """Who is asked, what it is judged by, and how the findings are shown."""

    kernel: str
    contract: str | None
    as_json: bool


@click.command()
@click.argument("case_id", metavar="ID")
@click.option("--kernel", default="simulation", show_default=True, help="Kernel to run.")
@click.option("--contract", help="Contract to judge by; the kernel's own one unless given.")
@inputs_options
@json_option
@click.pass_context
@as_record(Options)
def command(ctx: click.Context, case_id: str, inputs: Files, options: Options) -> None:
    """Run the case ID again and show the worst element of every check.

    With the emulator there is no verdict, and the exit code is 5.
    """
    name_cases((), inputs.sources())
    report, is_specification = replay(case_id, options.kernel, contract=options.contract)
    with reader_may_leave():
        if options.as_json:
            print_json(report.to_json())
        else:
            out = console()
            show(report, out)
            for finding in report.findings:
                if finding.worst is not None:
                    out.print(escape(f"{finding.check}: {finding.worst}"), soft_wrap=True)
    if is_specification:
        click.echo(NO_VERDICT, err=True)
    ctx.exit(5 if is_specification else report.exit_code)
