"""Every variant compiles without a GPU, and its report and machine code keep the rules."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from dmverify.kernel import build as module
from dmverify.kernel import sass
from dmverify.kernel.build import MODES, BuildVariant, Edit, build, serialised, source
from dmverify.kernel.errors import BuildError
from dmverify.kernel.launch import most_groups

pytest.importorskip("cuda.bindings", reason="the extra 'gpu' compiles the kernels")

DIMS = (64, 128, 256)
MASKS = (True, False)
FORWARD_MODES = ("matched", "shifted", "associated")
UNROUNDED_MODES = ("matched", "shifted")  # the associated delta needs the sum of the codes
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def variants():
    for d in DIMS:
        for centred in (True, False):
            yield BuildVariant("quantise", d, causal=False, centred=centred)
        for causal in MASKS:
            yield BuildVariant("key", d, causal=causal)
            yield from (BuildVariant("forward", d, causal=causal, mode=m) for m in FORWARD_MODES)
            for mode in UNROUNDED_MODES:
                yield BuildVariant("forward", d, causal=causal, mode=mode, unrounded=True)
            for mode in MODES:
                for zero_sum in (False, True):
                    yield BuildVariant("query", d, causal=causal, mode=mode, zero_sum=zero_sum)
    yield from (BuildVariant("key", 128, causal=causal, split=True) for causal in MASKS)


ALL = tuple(variants())


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """All variants at once: the compiler does not hold the interpreter's lock."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(build, ALL))


def complaints(report):
    """Spills, stack frames and warnings about serialised matrix instructions."""
    found = serialised(report)
    for numbers in SPILL.findall(report):
        if any(int(n) for n in numbers):
            found.append(f"stack, stores, loads: {numbers}")
    return found if SPILL.search(report) else [*found, "no resource report"]


def name(v):
    return f"{v.kernel}-{v.head_dim}-{v.causal}-{v.mode}-{v.zero_sum}-{v.split}" + (
        "-unrounded" * v.unrounded + "-uncentred" * (not v.centred)
    )


@pytest.mark.parametrize("variant", ALL, ids=name)
def test_variant_compiles_without_spills(variant):
    assert complaints(build(variant).report) == []


@pytest.mark.skipif(sass.disassembler() is None, reason="needs cuobjdump")
@pytest.mark.parametrize("variant", ALL, ids=name)
def test_machine_code_keeps_the_rules(variant):
    code = sass.disassemble(build(variant).cubin)
    assert sass.breaches(code, matrix=variant.kernel != "quantise") == []
    if variant.kernel != "quantise":  # whose places are not given back
        assert sass.early_arrivals(code) == []


# The most threads of a CTA, as a cubin says it: attribute 5 of 12 bytes, in three dimensions.
MOST_THREADS = re.compile(rb"\x04\x05\x0c\x00(....)\x01\x00\x00\x00\x01\x00\x00\x00", re.DOTALL)


@pytest.mark.parametrize("variant", [v for v in ALL if v.kernel in ("forward", "query")], ids=name)
def test_a_launch_has_the_threads_that_its_build_is_made_for(variant):
    (threads,) = MOST_THREADS.findall(build(variant).cubin)
    groups = most_groups(variant.kernel, variant.head_dim, variant.mode)
    assert int.from_bytes(threads, "little") == 128 + 128 * groups


@pytest.mark.parametrize(
    "report",
    [
        "0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads",
        "8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
        "(C7510) wgmma serialized\n0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
        "",
    ],
)
def test_a_bad_report_is_noticed(report):
    assert complaints(report)


@pytest.mark.skipif(sass.disassembler() is None, reason="needs cuobjdump")
@pytest.mark.parametrize("kernel", ["forward", "query"])
def test_a_dump_build_frees_no_place_that_it_still_reads(kernel):
    dump = BuildVariant(kernel, 256, dump=True)
    assert sass.early_arrivals(sass.disassemble(build(dump).cubin)) == []


@pytest.mark.skipif(sass.disassembler() is None, reason="needs cuobjdump")
def test_an_arrival_that_does_not_wait_for_its_load_is_noticed():
    hasty = (Edit("delta.cuh", "ring.release(at, bits(header.w));", "ring.release(at);"),)
    code = sass.disassemble(build(BuildVariant("query", 128), edits=hasty).cubin)
    assert sass.early_arrivals(code)


GOOD = """
        /*0010*/                   LDSM.16.M88.4 R8, [R4] ;
        /*0020*/                   QGMMA.64x64x32.F32.E4M3.E4M3 R24, R8, gdesc[UR4], RZ, gsb0 ;
        /*0028*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0030*/                   FFMA R60, R24, R2, R60 ;
        /*0040*/              @P0 BRA 0x20 ;
"""


def test_good_machine_code_has_no_breach():
    assert sass.breaches(sass.parse(GOOD), matrix=True) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FFMA R60", "FFMA.FTZ R60"),
        ("FFMA R60, R24, R2, R60", "HMMA.16816.F32 R60, R24, R2, R60"),
        ("FFMA R60, R24, R2, R60", "STL [R1], R60"),
        ("FFMA R60, R24, R2, R60", "PRMT R9, R24, 0x6420, R2"),
        ("QGMMA.64x64x32", "IMAD.64x64x32"),
        ("DEPBAR.LE gsb0, 0x0", "DEPBAR.LE gsb0, 0x1"),
        ("gsb0, 0x0 ;", "gsb0, 0x1 ;"),
    ],
)
def test_each_breach_is_noticed(old, new):
    assert sass.breaches(sass.parse(GOOD.replace(old, new)), matrix=True)


@pytest.mark.skipif(sass.disassembler() is None, reason="needs cuobjdump")
@pytest.mark.parametrize("kernel", ["quantise", "forward", "query", "key"])
def test_flags_leave_the_arithmetic_alone(kernel):
    variant = BuildVariant(kernel, 64)
    plain, fast = (
        sass.arithmetic(sass.disassemble(build(variant, flags=flags).cubin))
        for flags in ((), ("-use_fast_math",))
    )
    assert plain == fast


LIMIT = "return last - tile * BLOCK;"  # in tasks.cuh, which the quantiser does not include
FURTHER = (Edit("tasks.cuh", LIMIT, "return last - tile * BLOCK + 1;"),)


@pytest.mark.parametrize(("kernel", "same"), [("quantise", True), ("forward", False)])
def test_an_edit_changes_the_code_of_the_kernels_that_include_its_file(kernel, same):
    variant = BuildVariant(kernel, 64)
    plain, other = build(variant), build(variant, edits=FURTHER)
    assert (plain.cubin == other.cubin) == (plain.digest == other.digest) == same


def test_edits_apply_in_order():
    twice = (*FURTHER, Edit("tasks.cuh", "BLOCK + 1;", "BLOCK + 2;"))
    assert "return last - tile * BLOCK + 2;" in source("query", edits=twice)
    assert LIMIT in source("query")  # and leave the files alone


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (Edit("tasks.cuh", "no such text", ""), "got 0 times .* exactly once in tasks.cuh"),
        (Edit("tasks.cuh", "tile", ""), "exactly once in tasks.cuh"),
        (Edit("tasks.cu", LIMIT, ""), "names a source file"),
        (Edit("build.py", "import", ""), "names a source file"),
        (Edit("../kernel/tasks.cuh", LIMIT, ""), "names a source file"),
    ],
)
@pytest.mark.parametrize("kernel", ["quantise", "query"])
def test_an_edit_that_fits_nowhere_is_refused(edit, rule, kernel):
    with pytest.raises(BuildError, match=rule):
        source(kernel, edits=(edit,))


def test_another_nvrtc_serves_from_the_cache_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("DMVERIFY_CACHE", str(tmp_path))
    variant = BuildVariant("quantise", 64)
    with pytest.raises(BuildError, match="carry the cache here"):
        build(variant, compiler="nvrtc-other")
    with monkeypatch.context() as other:
        other.setitem(module.VERSIONS, "nvrtc", lambda: module.OTHER_NVRTC)
        left = build(variant)
    found = build(variant, compiler="nvrtc-other")
    assert (found.digest, found.cubin, found.compiler) == (left.digest, left.cubin, "nvrtc 13.2")


def test_an_empty_log_is_not_written_into_shared_bytes(monkeypatch):
    """NVRTC ends even an empty log with a zero; bytes of length 1 are one object everywhere."""
    from cuda.bindings import nvrtc

    seen = []
    monkeypatch.setattr(nvrtc, "nvrtcGetProgramLogSize", lambda _: (0, 1))
    monkeypatch.setattr(nvrtc, "nvrtcGetProgramLog", lambda _, buffer: seen.append(buffer) or (0,))
    module.compile_nvrtc("__global__ void empty() {}", ())
    assert [len(buffer) > 1 for buffer in seen] == [True]


def test_headers_are_expanded_once():
    assert source("query").count("constexpr int D = HEAD_DIM;") == 1
    assert "#include" not in source("query")


@pytest.mark.parametrize("choice", [("keys", 64), ("key", 96), ("query", 64, True, "exact")])
def test_a_variant_that_no_text_serves_is_refused(choice):
    with pytest.raises(BuildError, match="is one of"):
        BuildVariant(*choice)


def test_unknown_compiler_and_bad_text_are_refused():
    with pytest.raises(BuildError, match="nvrtc"):
        build(BuildVariant("key", 64), compiler="gcc")
    with pytest.raises(BuildError, match="compiles"):
        build(BuildVariant("key", 64, split=True))  # one piece a window: a static assertion


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    target = tmp_path / "stored"
    module.write_atomic(target, b"old")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(module.os, "fdopen", full)
    with pytest.raises(OSError, match="no space"):
        module.write_atomic(target, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["stored"]
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("kernel", "choice"), [("quantise", {"centred": False}), ("forward", {"unrounded": True})]
)
def test_a_numerical_choice_changes_the_machine_code(kernel, choice):
    plain, other = (build(BuildVariant(kernel, 64, **c)).cubin for c in ({}, choice))
    assert sass.arithmetic(sass.disassemble(plain)) != sass.arithmetic(sass.disassemble(other))


def test_a_serialised_build_is_refused_unless_it_is_edited(monkeypatch, tmp_path):
    monkeypatch.setenv("DMVERIFY_CACHE", str(tmp_path))
    note = "ptxas info : (C7511) Potential Performance Loss: wgmma.mma_async are serialized"
    monkeypatch.setitem(module.COMPILERS, "nvrtc", lambda text, flags: (b"cubin", note))
    edit = Edit("key.cu", "constexpr int CHUNKS", "constexpr  int CHUNKS")
    for _ in range(2):  # compiled, and from the cache
        with pytest.raises(BuildError, match="C7511"):
            build(BuildVariant("key", 64))
    assert build(BuildVariant("key", 64), flags=("-G",)).report == note
    assert build(BuildVariant("forward", 64, dump=True)).report == note
    assert build(BuildVariant("forward", 64), edits=(edit,)).report == note
