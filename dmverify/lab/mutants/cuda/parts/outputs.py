"""Faults of what F stores and of single instructions."""

from __future__ import annotations

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.cuda.fault import CudaFault, edit

forward = edit("forward.cu")
query = edit("query.cu")
arith = edit("arith.cuh")

NATURAL = "mul(add(m, lg2(l)), from_bits(0x3F317218u))"
SHIFT = "mul(q_shift[(i64)bh * q_blocks * 128 + rows[h]], scale)"
LSE_AT = "lse[(i64)bh * nq + rows[h]] ="
STORED = "out[at + 4 * j] = to_bf16x2(x, y);"
REAL = "bool real = rows[h] < nq;"
DQ_STORED = "to_bf16x2(mul(me.dq[4 * j + 2 * h], scale), mul(me.dq[4 * j + 2 * h + 1], scale))"
INVERSE = "float inverse = dead ? 0.0f : rcp(lh);"
FIRST_SCORES = "issue_rows(me.s, me.q, base + AT_K);"
NEXT_SCORES = "issue_rows(s, q, base + AT_K + next * SLOT_K);"
# S by mma.sync: the fragments of A are those of wgmma, B is read from the same image.
MMA_SYNC = """INLINE void mma_rows(float (&acc)[32], RowsOperand& a, u32 image) {
  const u32 g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int k = 0; k < D / 32; ++k) {
      const u32 b0 = load_shared(image + rows_chunk(8 * j + g, 2 * k) + 4 * t);
      const u32 b1 = load_shared(image + rows_chunk(8 * j + g, 2 * k + 1) + 4 * t);
      if (k == 0) acc[4 * j] = acc[4 * j + 1] = acc[4 * j + 2] = acc[4 * j + 3] = 0.0f;
      asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, "
                   "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                   : "+f"(acc[4 * j]), "+f"(acc[4 * j + 1]), "+f"(acc[4 * j + 2]),
                     "+f"(acc[4 * j + 3])
                   : "r"(a.fragment[4 * k]), "r"(a.fragment[4 * k + 1]), "r"(a.fragment[4 * k + 2]),
                     "r"(a.fragment[4 * k + 3]), "r"(b0), "r"(b1));
    }
}
"""

LSE = (
    CudaFault(
        "lse-base-2", "LSE", "forward", "LSE is a base-2 logarithm", "lse",
        (forward(NATURAL, "add(m, lg2(l))"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "lse-natural-log", "LSE", "forward",
        "the logarithm of the row sum is natural where base 2 is due", "lse",
        (forward(NATURAL, NATURAL.replace("lg2(l)", "mul(lg2(l), from_bits(0x3F317218u))")),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "lse-offset-missing", "LSE", "forward", "the offset 2^8 of P stays in LSE", "lse",
        (forward(NATURAL, NATURAL.replace("add(m,", "add(sub(m, OFFSET),")),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "lse-mean-missing", "LSE", "forward",
        "what centring took off the logits is not given back", "lse",
        (forward(SHIFT, "0.0f"),), (on.K_OFFSET,),
    ),
    CudaFault(
        "lse-head-stride", "LSE", "forward",
        "LSE is stored with the strides of (position, head)", "lse",
        (forward(LSE_AT, "lse[((i64)b * nq + rows[h]) * heads + head] ="),), (on.GROUPED,),
    ),
    CudaFault(
        "lse-block-index", "LSE", "forward", "LSE is stored one block of 64 rows late", "lse",
        (forward(LSE_AT, "lse[(i64)bh * nq + (rows[h] + BLOCK) % nq] ="),), (on.GAUSSIAN,),
    ),
)  # fmt: skip

STORES = (
    CudaFault(
        "last-row-lost", "geometry", "forward", "the last row of O and LSE is not written", "o",
        (forward(REAL, "bool real = rows[h] < nq - 1;"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "dq-tail-unwritten", "memory", "query",
        "the last row of dQ keeps what its memory held", "dq",
        (query("if (end_row + 8 * h < nq) {", "if (end_row + 8 * h < nq - 1) {"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "store-toward-zero", "special values", "forward", "O is rounded to BF16 toward zero", "o",
        (forward(STORED, "out[at + 4 * j] = to_bf16x2(from_bits(bits(x) & 0xFFFF0000u), "
                 "from_bits(bits(y) & 0xFFFF0000u));"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "negative-zero-lost", "special values", "query", "-0 is stored as +0 in dQ", "bits",
        (query(DQ_STORED, "to_bf16x2(add(mul(me.dq[4 * j + 2 * h], scale), 0.0f), "
               "add(mul(me.dq[4 * j + 2 * h + 1], scale), 0.0f))"),),
        (on.NEGATIVE_ZEROS,),
        hidden="-0 and +0 are equal numbers",
    ),
    CudaFault(
        "denormals-flushed", "special values", "query",
        "dQ below 2^-126 is stored as 0", "dq",
        (query(DQ_STORED, "to_bf16x2(flushed(me.dq[4 * j + 2 * h], scale), "
               "flushed(me.dq[4 * j + 2 * h + 1], scale))"),
         query("// The two sweeps over the keys.", 'BINARY(flushed, "mul.rn.ftz.f32")')),
        (on.TINY_DO,),
    ),
)  # fmt: skip

INSTRUCTIONS = (
    CudaFault(
        "wide-accumulator", "instruction", "forward",
        "scores come from mma.sync instead of wgmma", "bits",
        (
            forward("struct RowState {", f"{MMA_SYNC}struct RowState {{"),
            forward(FIRST_SCORES, "mma_rows(me.s, me.q, base + AT_K);"),
            forward(NEXT_SCORES, "mma_rows(s, q, base + AT_K + next * SLOT_K);"),
        ),
        (on.GAUSSIAN, on.POSITIVE),
    ),
    CudaFault(
        "reciprocal-one-ulp", "instruction", "forward, query", "1 / l is one ulp too large", "bits",
        (
            forward(INVERSE, "float inverse = dead ? 0.0f : from_bits(bits(rcp(lh)) + 1);"),
            query("rcp(stat.y) : 0.0f;", "from_bits(bits(rcp(stat.y)) + 1) : 0.0f;"),
        ),
        (on.GAUSSIAN,),
        hidden="2^-23 of O, of which BF16 keeps 2^-8; l is only known up to its order of summation",
    ),
    CudaFault(
        "reciprocal-approximate", "instruction", "forward, query",
        "1 / l is rcp.approx", "bits",
        (arith('UNARY(rcp, "rcp.rn.f32")', 'UNARY(rcp, "rcp.approx.ftz.f32")'),),
        (on.GAUSSIAN, on.WIDE),
        hidden="at most one ulp of float32; l is only known up to its order of summation",
    ),
    CudaFault(
        "fused-apart", "instruction", "all",
        "every fma is a product that is rounded, and a sum", "bits",
        (arith('asm("fma.rn.f32 %0, %1, %2, %3;"',
               'asm("{\\n\\t.reg .f32 p;\\n\\tmul.rn.f32 p, %1, %2;\\n\\t'
               'add.rn.f32 %0, p, %3;\\n\\t}"'),),
        (on.GAUSSIAN,),
        hidden="one more rounding of float32 an operation, below those of E4M3 and BF16",
    ),
)  # fmt: skip

ROWS = (*LSE, *STORES, *INSTRUCTIONS)
"""Faults of this part."""
