"""The page of mathematics beside the closed forms, with its constants taken from the table.

    dmverify lab mathematics      # writes dmverify/spec/bounds/README.md

A test compares the file with what this writes, so that the page cannot say another number than the
bounds use.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from dmverify import spec
from dmverify.spec.constants import CONSTANTS, DEFINITION, EVALUATION, STEPS, constant

PAGE = Path(spec.__file__).parent / "bounds" / "README.md"

TEXT = """\
# How far a conforming kernel may be

A contract fixes the numerics of a kernel and leaves some orders open. This page says what then
bounds its outputs. Every number on it comes from the table of constants; the lemma or certificate
behind each is at the end, and `dmverify prove` checks them.

`U` = {U} is the relative error of an fp32 rounding, `RN8` rounds to E4M3, a hat is a number after
its cast: code times scale.

## Three strengths

1. **Bits.** Where every order is stated there is one answer.
2. **Enclosure.** The contract's steps run in intervals whose ends are fp32 numbers. An interval
   holds every number that a conforming kernel can have at that place, by induction over the steps:
   - *a rounded operation*: rounding is monotone, so the rounded ends enclose the rounded results;
   - *a sum or dot in any order*: (n - 1) U sum |x| and n U sum |x y| around the exact value;
   - *a cast*: all codes from RN8(lo) to RN8(hi). Usually that is one code. Where it is two, code
     times scale still lies within |x| / {1/E4M3_RELATIVE} (or {E4M3_ABSOLUTE} of a scale) of x,
     even if the scale is uncertain too;
   - *a carry* of the zero-sum cast: an interval, but never more than such an error;
   - *the mean of the keys*: BF16 inputs mostly add exactly, and an input that is no multiple of
     2^(e-23) is rounded at most once in binade e, whatever the order;
   - *a softmax with the row's maximum*: a logit minus the maximum is at most 0, and 0 for a key
     above all others; the sum is at least exp(0); P_j = f_j / (f_j + the others' f) rises with
     its own logit and falls with the others, whatever the reference was;
   - *dK and dV without windows*: one sum over the queries of all heads of a group, in any order.
   Infinity, NaN and division by an interval around 0 open an element: anything is allowed there.
3. **Closed form.** A formula in the norms of the operands; it holds for every input, and is loose.

## The tensor core without an order

One instruction truncates its products and its accumulator to multiples of q = 2^(E-13), E the
largest exponent among them, and its sum to 14 bits. Let N+ and N- be the sums of the positive and
of the negative products of a chain of L instructions, and B the larger. Truncation never raises a
magnitude, so each partial result stays between -N- and N+. Hence in any order

    |D - sum p|  <=  sum of alignment losses  +  (L - 1) q  +  L {ORDER_FREE} B

with E = max(largest e_i, floor(log2 B)). A product within {ALIGN_SLACK_BITS} of E loses nothing;
another at most min(|p|, q - 2^(e-6)). In S and dP this enters every logit, which is why the form in
which no order is known is 40 to 300 times looser than the one that fixes the order of the channels.

## How large logits may be

| contract, order | bounded for logits up to | then |
|---|---|---|
| article, upstream | overflow of S | keys far below the maximum have P = 0 exactly |
| bundled, channels | 4 * 10^8 | the kernel itself gives NaN: a reference rounds by 64 or more |
| bundled, no order | 300 | the tensor core's error of a logit reaches whole units: all is open |

Measured on Gaussian and offset keys, 70 tokens. What article leaves open at any size is a scale
that may be subnormal, where its codes may be NaN: a group of P whose largest e is near 2^-118, a
tile of dS that may be all zero but for roundings (shifted, where dP is constant).

## Row sums of dS

    R = sum_j dS_ij        A = sum P dP        B = sum P        (exact sums of the kernel's numbers)

- **matched**: R = (A - delta) + delta (1 - B) + elem, so |R| <= n U G + G |1 - B| + 4 U G with
  G = |dO| |V|. A row of 512 keys attains 98 % of it: one key holds all of P but 2^-24 for each
  other key, whose dP has the other sign; a kernel that adds in order loses all of them twice.
  Where one key holds most of a row the others bound the error: an addition errs by at most what is
  added, so a one-hot row costs a few U G whatever n is.
- **renormalized**: delta = A' / B' cancels B, and no term with 1 - B is left.
- **shifted**: the same of dP - d0. Where d0 is the dP of a key with P >= B / 2, all terms shrink
  with sum P |dP - d0|, and with it they vanish on one-hot rows.
- **stale, consistent, associated** read O: the codes of P move it by up to 1/{1/E4M3_RELATIVE} of
  |dO| |V|, for stale the codes of dO by as much again, the BF16 store by {BF16_RELATIVE}. A row of
  512 keys attains 84 % of the stale bound: P just below a tie that rounds down, dO on one that
  rounds up.

|1 - B| never depends on |LSE| here. The contracts save a reference and l, so the backward takes
the same exponential of the same difference (base e), or one that differs by
ln 2 U (distances to the references) + 3 ex2 errors of {EX2:.3g} each, weighted by P. Since
sum P log2(1 / P) <= log2 n, sharp rows are no worse. A kernel that saves the logarithm instead
rounds it, and |1 - B| grows by ln 2 U |LSE|, which uniform rows attain within a factor of two.

After the cast: plain rounding may add 1/{1/E4M3_RELATIVE} of the row's magnitudes. The zero-sum
cast leaves one error a chain, at most {CARRY} code units: sum q = sum x - c_n + the roundings of
the additions. Given its last code q in [2^e, 2^(e+1)), |c_n| <= 2^e / 16, and never more than
the sizes of its chain. It bounds a tile's part of the sum by its four last carries; it does not
make it zero, and |q - x| doubles.

## Outputs

With V, K, Q, dO the largest magnitudes, relative errors compound:

| output | terms |
|---|---|
| O | V times: logits, argument, exponential, sum, quotient, codes of P, accumulation, store |
| LSE | logits, argument, exponential, sum, logarithm, mean of the keys, store |
| delta | from rows: P, dP, sums; from O: dO_1 times the error of O, the dot, the codes of dO |
| dQ | scale K times: a row's P, dP, delta, elem, cast of dS, accumulation; store |
| dK | scale Q times the queries times the same for one element; store |
| dV | dO times the queries times: P, cast of P, accumulation; store |

Against the original inputs every operand's cast is one more term: |x^ - x| <= |x| /
{1/E4M3_RELATIVE} or {E4M3_ABSOLUTE} of its scale, and by x^, whose norms are what is measured,
|x^| / {1/E4M3_OF_CODE}. Centring changes no probability; the LSE gets its part back. A logit error
e moves P by a factor of exp(2 e): at |S| = 50 the operands' casts alone exceed any useful bound,
which is a fact about FP8 and not about the proof.

## Other formats, scales and stores

What a cast, a scale or a store is decides a few numbers of the terms above and no term's form:

| a contract has | then |
|---|---|
| a format of p bits after the point | h / (1 + h) for {E4M3_RELATIVE}, h = 2^-(p + 1); \
half its smallest number for {E4M3_ABSOLUTE}; its largest for {E4M3_MAX} |
| INT8 | nothing relative, half a unit of its block's scale for each element |
| BF16 operands | no error of a cast, and no `grad` |
| V's scales by channel, scales of heads or of the call | \
the same: a block's largest is at most the tensor's |
| scales of 1 | half a subnormal code as it is; what is beyond 448 is known by its size alone |
| P codes f times e | half a subnormal over f in units of the row's largest P, \
whose e is 1, for every key of the row; 1 / f rounds once more |
| dS codes f times dS | 1 / f for the tile's scale; where they saturate, at most the size of dS |
| a store of p bits, or float32 | half its unit, or nothing; where it saturates, at most the size |
| a forward pass alone | O and LSE |

`rounding.py` holds these numbers as data; formats of one byte are looked at gap by gap
(`tests/bounds/test_formats.py`). Without a form are an online softmax, since tiles and running
maxima are not stated and P has no one basis, and blocks along what a dot sums over, where dS has
two codes; `dmverify bounds` says so by field.

## Where a bound is loose

| bound | by | because |
|---|---|---|
| dQ, dK, dV closed | 10^2 to 10^5 | one sign for all keys; every query may attend to one key |
| enclosures, no order | 40 (O, dV), 80 (dQ), 300 (dK) | the tensor core, through the exponential |
| enclosures, channels fixed | 1.0 to 1.1 | codes that may flip near a tie |
| row sum after the zero-sum cast, ledger | 2 to 3 | one sign for the four carries of a tile |
| the same where V is constant | 110 | one sign for all roundings of n terms that should cancel |
| shifted dS near 0, article | open | a tile's amax may be 0 or subnormal |

Bound over the largest observed error, medians over ten families: `dmverify study bounds`.

## Constants

| name | value | stated by | meaning |
|---|---|---|---|
"""

LARGEST = 1000  # numerators and denominators from here are shown by powers or digits
_FIELD = re.compile(r"\{(1/)?([A-Z0-9_]+)(?::([^}]+))?\}")


def page() -> str:
    """The page as markdown."""
    rows = [
        f"| `{row.name}` | {shown(row.value)} | {_source(row.source)} | {_cell(row.meaning)} |"
        for row in CONSTANTS.values()
    ]
    return _FIELD.sub(_filled, TEXT) + "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def shown(value: Fraction) -> str:
    """A small fraction as it is, a dyadic number by its power of two, another one in decimals."""
    low = value.denominator
    if low < LARGEST and value.numerator < LARGEST:
        return str(value)
    if low & (low - 1):
        return f"{float(value):.6g}"
    whole, rest = divmod(value, 1)
    if whole and rest:
        return f"{whole} + {shown(rest)}"
    top = value.numerator
    twos = (top & -top).bit_length() - 1
    odd, power = top >> twos, twos - (low.bit_length() - 1)
    return f"{odd} * 2^{power}" if odd > 1 else f"2^{power}"


def _source(source: str) -> str:
    return source if source in (DEFINITION, STEPS, EVALUATION) else f"`{source}`"


def _filled(match: re.Match[str]) -> str:
    inverse, name, style = match.groups()
    value = 1 / constant(name) if inverse else constant(name)
    return format(float(value), style) if style else shown(value)
