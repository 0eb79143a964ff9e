"""Faults of what F stores and of single instructions."""

from __future__ import annotations

from dmverify.lab.mutants.cuda.mutation import CudaMutation, edit

forward = edit("forward.cu")
query = edit("query.cu")
arith = edit("arith.cuh")

NATURAL = "mul(add(end.m, lg2(end.l)), from_bits(0x3F317218u))"
SHIFT = "mul(p.q_shift[padded], p.scale)"
LSE_AT = "p.lse[(i64)end_bh * p.nq + row] ="
STORED = "p.out[at + 4 * j] = to_bf16x2(x, y);"
REAL = "bool real = row < p.nq;"
DQ_STORED = "to_bf16x2(mul(me.dq[4 * j + 2 * h], p.scale), mul(me.dq[4 * j + 2 * h + 1], p.scale))"
INVERSE = "const float inverse = dead ? 0.0f : rcp(lh);"
SCORES = "issue_rows(s, q, base + AT_K + at.slot * SLOT_K);"
CONSUMER = "// One consumer warpgroup: 64 queries."
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

LSE = {
    "lse-base-2": CudaMutation((forward(NATURAL, "add(end.m, lg2(end.l))"),)),
    "lse-natural-log": CudaMutation(
        (
            forward(
                NATURAL, NATURAL.replace("lg2(end.l)", "mul(lg2(end.l), from_bits(0x3F317218u))")
            ),
        )
    ),
    "lse-offset-missing": CudaMutation(
        (forward(NATURAL, NATURAL.replace("add(end.m,", "add(sub(end.m, OFFSET),")),)
    ),
    "lse-mean-missing": CudaMutation((forward(SHIFT, "0.0f"),)),
    "lse-head-stride": CudaMutation(
        (forward(LSE_AT, "p.lse[((i64)b * p.nq + row) * p.heads + head] ="),)
    ),
    "lse-block-index": CudaMutation(
        (forward(LSE_AT, "p.lse[(i64)end_bh * p.nq + (row + BLOCK) % p.nq] ="),)
    ),
}

STORES = {
    "last-row-lost": CudaMutation((forward(REAL, "bool real = row < p.nq - 1;"),)),
    "dq-tail-unwritten": CudaMutation(
        (query("if (end_row + 8 * h < p.nq) {", "if (end_row + 8 * h < p.nq - 1) {"),)
    ),
    "store-toward-zero": CudaMutation(
        (
            forward(
                STORED,
                "p.out[at + 4 * j] = to_bf16x2(from_bits(bits(x) & 0xFFFF0000u), "
                "from_bits(bits(y) & 0xFFFF0000u));",
            ),
        )
    ),
    "negative-zero-lost": CudaMutation(
        (
            query(
                DQ_STORED,
                "to_bf16x2(add(mul(me.dq[4 * j + 2 * h], p.scale), 0.0f), "
                "add(mul(me.dq[4 * j + 2 * h + 1], p.scale), 0.0f))",
            ),
        )
    ),
    "denormals-flushed": CudaMutation(
        (
            query(
                DQ_STORED,
                "to_bf16x2(flushed(me.dq[4 * j + 2 * h], p.scale), "
                "flushed(me.dq[4 * j + 2 * h + 1], p.scale))",
            ),
            query(
                "// Sweep 2 over the keys: dS, its codes, dQ, records.",
                'BINARY(flushed, "mul.rn.ftz.f32")',
            ),
        )
    ),
}

INSTRUCTIONS = {
    "wide-accumulator": CudaMutation(
        (
            forward(CONSUMER, f"{MMA_SYNC}{CONSUMER}"),
            forward(SCORES, SCORES.replace("issue_rows", "mma_rows")),
        )
    ),
    "reciprocal-one-ulp": CudaMutation(
        (
            forward(INVERSE, "const float inverse = dead ? 0.0f : from_bits(bits(rcp(lh)) + 1);"),
            query("rcp(stat.y) : 0.0f;", "from_bits(bits(rcp(stat.y)) + 1) : 0.0f;"),
        )
    ),
    "reciprocal-approximate": CudaMutation(
        (arith('UNARY(rcp, "rcp.rn.f32")', 'UNARY(rcp, "rcp.approx.ftz.f32")'),)
    ),
    "fused-apart": CudaMutation(
        (
            arith(
                'asm("fma.rn.f32 %0, %1, %2, %3;"',
                'asm("{\\n\\t.reg .f32 p;\\n\\tmul.rn.f32 p, %1, %2;\\n\\t'
                'add.rn.f32 %0, p, %3;\\n\\t}"',
            ),
        )
    ),
}

MUTATIONS = {**LSE, **STORES, **INSTRUCTIONS}
"""By the mutant's id."""
