"""The folder that is carried to a GPU holds what the acceptance builds there."""

from dmverify.conformance.kernels.certify import FLAG_SETS, all_variants
from dmverify.lab.acceptance import flag_sets, precompile
from dmverify.lab.acceptance.seeded import SEEDED


def test_rounds_name_every_build():
    default, dump, flags, faults, ways = map(precompile.jobs, precompile.ROUNDS)
    assert {job[0] for job in default} == set(all_variants())
    assert all(job[0].dump for job in dump)
    assert {(job[1], job[2]) for job in flags} == {
        (s.compiler, s.flags) for name, s in FLAG_SETS.items() if name != "nvrtc-other"
    }
    assert {job[3] for job in faults} == set(SEEDED.values())
    assert len(ways) == len(set(ways))
    assert len({job[2:] for job in ways}) == 4  # release and written share their builds


def test_a_compiler_that_is_not_here_is_told_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("DMVERIFY_CACHE", str(tmp_path))
    assert not flag_sets._at_hand(FLAG_SETS["nvrtc-other"])
    assert flag_sets._at_hand(FLAG_SETS["default"])
