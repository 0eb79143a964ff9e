"""CUDA C++ text of one wgmma probe kernel per instruction form.

One block computes one 64 x n tile: D = A B^T + C over k in steps of 32. Operands lie K-major and
without swizzle in shared memory: core matrices of 8 rows by 16 bytes, row blocks first, so that the
leading offset (next 16 bytes of k) is 16 n bytes and the stride offset (next 8 rows) 128 bytes.

Source: PTX ISA 9.0, "Asynchronous Warpgroup Level Matrix Instructions": matrix descriptor, register
fragments.
"""

from __future__ import annotations

from dataclasses import dataclass

from dmverify.errors import InputError


@dataclass(frozen=True)
class Form:
    """One form of the instruction.

    Attributes:
        n: Columns of the tile, a multiple of 8 up to 256.
        a_type: ``e4m3`` or ``e5m2``.
        b_type: ``e4m3`` or ``e5m2``.
        accumulator: ``f32`` or ``f16``.
        a_from: ``smem`` or ``registers``.
        scale_d: 0 makes the first instruction read C as zero.
        scale_a: 1 or -1, the immediate that may negate A.
        scale_b: 1 or -1, the immediate that may negate B.
        commit: ``one`` group for all k steps, one group ``each``, or ``wait`` after each.
        k: Multiple of 32.
    """

    n: int = 64
    a_type: str = "e4m3"
    b_type: str = "e4m3"
    accumulator: str = "f32"
    a_from: str = "smem"
    scale_d: int = 1
    scale_a: int = 1
    scale_b: int = 1
    commit: str = "one"
    k: int = 32

    def __post_init__(self) -> None:
        if self.n % 8 or not 8 <= self.n <= 256 or self.k % 32 or not 32 <= self.k <= 256:
            raise InputError(
                f"n={self.n}, k={self.k}",
                rule="n is a multiple of 8 up to 256, k a multiple of 32 up to 256",
                fix="choose a tile that one wgmma instruction has",
            )

    @property
    def instruction(self) -> str:
        """The PTX mnemonic."""
        types = f"{self.accumulator}.{self.a_type}.{self.b_type}"
        return f"wgmma.mma_async.sync.aligned.m64n{self.n}k32.{types}"

    @property
    def registers(self) -> int:
        """Accumulator registers of one thread."""
        return self.n // 2 if self.accumulator == "f32" else self.n // 4

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of one block."""
        return (64 + self.n) * self.k

    @property
    def name(self) -> str:
        """A short unique name, for files and tables."""
        parts = [f"n{self.n}k{self.k}", self.a_type, self.b_type, self.accumulator, self.a_from]
        flags = {"d0": self.scale_d == 0, "na": self.scale_a < 0, "nb": self.scale_b < 0}
        parts += [flag for flag, on in flags.items() if on]
        return "-".join([*parts, self.commit] if self.k > 32 else parts)


_COMMON = r"""
typedef unsigned char u8; typedef unsigned short u16;
typedef unsigned int u32; typedef unsigned long long u64;
__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ u64 descriptor(const u8* p, int rows) {
  // Address, leading and stride byte offsets in units of 16 bytes; swizzle mode 0.
  return (u64)((shared_address(p) & 0x3FFFF) >> 4) | (u64)rows << 16 | (u64)8 << 32;
}
__device__ void load(u8* to, const u8* from, int rows, int k) {
  for (int i = threadIdx.x; i < rows * k; i += 128) {
    int r = i / k, x = i % k;
    to[(x / 16) * rows * 16 + (r / 8) * 128 + (r % 8) * 16 + x % 16] = from[i];
  }
}
"""

_KERNEL = r"""
extern "C" __global__ void __launch_bounds__(128)
probe(const u8* a, const u8* b, const CTYPE* c, CTYPE* d, int scale_d) {
  extern __shared__ __align__(128) u8 smem[];
  u8* sa = smem; u8* sb = smem + 64 * K;
  a += (u64)blockIdx.x * 64 * K; b += (u64)blockIdx.x * N * K;
  c += (u64)blockIdx.x * 64 * N; d += (u64)blockIdx.x * 64 * N;
  load(sa, a, 64, K); load(sb, b, N, K);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, col = lane % 4 * 2;
  REG r[REGS];
  #pragma unroll
  for (int i = 0; i < REGS; ++i) READ
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  #pragma unroll
  for (int s = 0; s < K / 32; ++s) {
    u64 db = descriptor(sb + s * 32 * N, N);
    A_SETUP
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %SCALE, 0; "
      "INSTRUCTION { REGLIST }, A_TEXT, %DB, p, SA, SB; }"
      : OUTS : A_IN, "l"(db), "r"(s == 0 ? scale_d : 1) : "memory");
    AFTER
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  #pragma unroll
  for (int i = 0; i < REGS; ++i) WRITE
}
"""

_SMEM_A = "u64 da = descriptor(sa + s * 32 * 64, 64);"
_REG_A = r"""u32 ra[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i)
      ra[i] = *(const u32*)(a + (row + 8 * (i % 2)) * K + s * 32 + lane % 4 * 4 + 16 * (i / 2));
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");"""
_COMMIT = 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");'
_WAIT = 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'
_AFTER = {"one": "", "each": _COMMIT, "wait": _COMMIT + _WAIT}
_READ_WRITE = {
    "f32": (
        "r[i] = __uint_as_float(c[(row + 8 * (i / 2 % 2)) * N + i / 4 * 8 + col + i % 2]);",
        "d[(row + 8 * (i / 2 % 2)) * N + i / 4 * 8 + col + i % 2] = __float_as_uint(r[i]);",
    ),
    "f16": (
        "{ const u16* p = c + (row + 8 * (i % 2)) * N + i / 2 * 8 + col;"
        " r[i] = p[0] | (u32)p[1] << 16; }",
        "{ u16* p = d + (row + 8 * (i % 2)) * N + i / 2 * 8 + col;"
        " p[0] = r[i] & 0xFFFF; p[1] = r[i] >> 16; }",
    ),
}


def source(form: Form) -> str:
    """The CUDA C++ text of `form`'s kernel, named ``probe``."""
    regs = form.registers
    in_smem = form.a_from == "smem"
    a_count = 1 if in_smem else 4
    first = regs  # operand number of A
    read, write = _READ_WRITE[form.accumulator]
    constraint = "+f" if form.accumulator == "f32" else "+r"
    a_in = '"l"(da)' if in_smem else ", ".join(f'"r"(ra[{i}])' for i in range(4))
    a_text = f"%{first}" if in_smem else "{" + ", ".join(f"%{first + i}" for i in range(4)) + "}"
    replacements = {
        "REGLIST": ", ".join(f"%{i}" for i in range(regs)),
        "A_SETUP": _SMEM_A if in_smem else _REG_A,
        "A_TEXT": a_text,
        "A_IN": a_in,
        "INSTRUCTION": form.instruction,
        "OUTS": ", ".join(f'"{constraint}"(r[{i}])' for i in range(regs)),
        "%DB": f"%{first + a_count}",
        "%SCALE": f"%{first + a_count + 1}",
        "SA, SB": f"{form.scale_a}, {form.scale_b}",
        "AFTER": _AFTER[form.commit],
        "READ": read,
        "WRITE": write,
        "REGS": str(regs),
        "REG ": "float " if form.accumulator == "f32" else "u32 ",
        "CTYPE": "u32" if form.accumulator == "f32" else "u16",
    }
    text = _KERNEL
    for key, value in replacements.items():
        text = text.replace(key, value)
    return f"#define N {form.n}\n#define K {form.k}\n{_COMMON}{text}"
