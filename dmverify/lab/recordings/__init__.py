"""Recorded outputs of the bundled kernel on an H200, and their judging without a GPU.

| in data/ | holds |
|---|---|
| answers/ | whole outputs of a few cases, a recording of ``conformance.store`` |
| tails/ | the last 128 queries of some heads of long cases, likewise |
| hashes/ | hashes of inputs and outputs of thousands of cases, a recording without numbers |
| edits.json | steps of the specification written otherwise, which smoke and core have to notice |
| acceptance/ | what each stage of the acceptance said, failed ones too, and the speeds |
| certificate.json | machine code hashes of the builds that gave these bits (``certify``) |
| peers/ | a recording of each kernel that others ship, and the reports on them (``third_party``) |
"""

from dmverify.lab.recordings.digests import Digests, digest_of, load_digests, save_digests
from dmverify.lab.recordings.shipped import DATA, RECORDED, describe, judge_shipped
from dmverify.lab.recordings.tail import tail

__all__ = [
    "DATA",
    "RECORDED",
    "Digests",
    "describe",
    "digest_of",
    "judge_shipped",
    "load_digests",
    "save_digests",
    "tail",
]
