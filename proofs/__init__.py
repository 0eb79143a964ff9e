"""Machine-checked proofs of the lemmas that the bounds cite. The only place that imports solvers.

``prove()`` runs them; each lemma is proved by z3 and confirmed by a second solver that reads the
goal as SMT-LIB text (cvc5 with integers and reals, bitwuzla with bit-vectors and floats), some by
an exhaustive run as well. Each has a control, the same statement with its constant tightened, which
must be refuted by a model that is replayed in exact arithmetic.

| file | topic |
|---|---|
| ``e4m3`` | the format and its rounding; ``gaps`` has the cast's errors without a solver |
| ``scaling`` | block scales, tiny amax, powers of two |
| ``products`` | products of codes, alignment in the FP8 wgmma |
| ``tensor_core`` | the wgmma as a whole: sums, chains, any order |
| ``sums`` | fp32 rounding, chains and trees of any length |
| ``dominated`` | sums of which one term is most |
| ``softmax`` | scale constant, maxima, rescales, normaliser, LSE |
| ``arguments`` | the argument of ex2 |
| ``delta`` | row sums of dS under each delta |
| ``ledger`` | the residual's ring identities, column sums, centring |
| ``cast`` | the zero-sum chain, cast sets |
| ``window`` | a window's largest exponent and code, for large logits |
| ``zero_sum_tight`` | what a cast's error is within, given its code or its size |
| ``stores`` | BF16 stores, promotion, what must stay finite |
| ``certificates`` | measured functions, exhaustive over 2^32 inputs |

A lemma's ``used_by`` names the code that cites it; tests follow this in both directions.

Trust: z3, cvc5, bitwuzla and Python's integers. Both solvers read the same formula, so a formula
that says something else than it means would pass twice. Against that, models on both sides of each
conclusion are replayed in exact arithmetic that shares no code with the encodings, the encodings of
the cast are compared with the format at every breakpoint, and where the inputs are few a sweep runs
through all of them. Induction steps are checked as steps; that they make a sum is for the reader.
"""

from dmverify.errors import naming_extras

with naming_extras():
    import bitwuzla  # noqa: F401
    import cvc5  # noqa: F401
    import z3  # noqa: F401

from dmverify.proofs import (  # noqa: F401  (importing registers the lemmas)
    arguments,
    cast,
    delta,
    dominated,
    e4m3,
    ledger,
    products,
    scaling,
    softmax,
    stores,
    sums,
    tensor_core,
    window,
    zero_sum_tight,
)  # fmt: skip  # isort: skip
from dmverify.proofs.certificates import CERTIFICATES, Certificate
from dmverify.proofs.export import export
from dmverify.proofs.registry import Goal, Lemma, Outcome, Sweep, all_lemmas, get_lemma
from dmverify.proofs.runner import LemmaResult, known_ids, prove, run_certificate, run_lemma
from dmverify.proofs.table import table
from dmverify.proofs.witness import Witness, load, store

__all__ = [
    "CERTIFICATES",
    "Certificate",
    "Goal",
    "Lemma",
    "LemmaResult",
    "Outcome",
    "Sweep",
    "Witness",
    "all_lemmas",
    "export",
    "get_lemma",
    "known_ids",
    "load",
    "prove",
    "run_certificate",
    "run_lemma",
    "store",
    "table",
]
