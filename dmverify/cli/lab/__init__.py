"""``dmverify lab VERB``: the programs that gather evidence about this project itself."""

from __future__ import annotations

from types import MappingProxyType

import click

from dmverify.cli.verbs import Verbs

# Verb: the module and command of this package that hold it, and its line in the help.
VERBS = MappingProxyType(
    {
        "replay": ("recordings:replay", "Compute what an H200 answered, compare hashes."),
        "edits": ("recordings:edits", "Edit the specification; a recording must notice."),
        "false-positives": ("searches:false_positives", "Judge correct kernels on many cases."),
        "kills": ("searches:kills", "Kill runs at random times; each must go on."),
        "spread-loss": ("spread:loss", "Kill workers of a run over Ray, and the run."),
        "spread-load": ("spread:load", "Simulate a run over thousands of workers."),
        "spread-time": ("spread:timing", "Time 1,000 cases: a loop, pytest, -j, Ray."),
        "power": ("tables:power", "Measure which planted errors each check notices."),
        "signatures": ("tables:signatures", "Write or measure the signatures of likely causes."),
        "coverage": ("tables:coverage", "Search rows of cases that meet every combination."),
        "captures": ("tables:captures", "Make the captures of trained models again."),
        "extremes": ("bounds:extremes", "Search inputs at the edge of premises for a violation."),
        "soundness": ("bounds:soundness", "Search ordinary inputs for a violated bound."),
        "refuter": ("bounds:refuter", "Climb towards a violated bound."),
        "proof-objects": ("proofs:proof_objects", "Find the proofs that need no solver to check."),
        "sabotage": ("proofs:sabotage", "Edit bounds and theorems; the proofs must notice."),
        "theory": ("proofs:theory", "Write the derivation's pages from the proofs."),
        "mathematics": ("bounds:mathematics", "Write the page of the bounds' mathematics."),
        "plain": ("mutants:plain", "Ask which faults N(0, 1) of the same size misses."),
        "compile-faults": ("mutants:compile_faults", "Compile the faulty CUDA kernels."),
        "run-faults": ("mutants:run_faults", "Run them on this Hopper GPU, unjudged."),
        "ask": ("third_party:ask", "Ask kernels that others ship, on this Hopper GPU."),
        "judge": ("third_party:judge", "Judge what they answered, write reports."),
        "attacked": ("attacked:attacked", "Ask other kernels what attacks found."),
        "acceptance": ("acceptance:acceptance", "Accept a build of the kernel on this GPU."),
        "precompile": ("acceptance:precompile", "Fill the build cache for the acceptance."),
        "small": ("acceptance:small", "Small launches, for compute-sanitizer."),
        "probe": ("probes:probe", "Record what this GPU's instructions return."),
        "probe-fit": ("probes:fit", "Derive the tables of MUFU from this GPU."),
        "probe-verify": ("probes:verify", "Compare the models with this GPU's instructions."),
        "wgmma-speed": ("probes:wgmma_speed", "Time the model of the tensor core."),
    }
)


@click.group(cls=Verbs, package=__name__, table=VERBS)
def command() -> None:
    """Evidence about this project: searches, recordings and tables, made anew."""
