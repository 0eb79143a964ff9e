"""The statistics of the manifest, against plain loops and against the tensors themselves."""

import math

import numpy as np
import pytest

from dmverify.conformance.captures import list_captures, load_capture
from dmverify.conformance.captures.statistics import statistics
from dmverify.conformance.captures.store import read_manifest


def rows(capture, head):
    """(LSE, largest probability) of every row of one head, one row at a time."""
    for b in range(capture.q.shape[0]):
        for i, query in enumerate(capture.q[b, :, head].astype(float)):
            keys = capture.k[b, : i + 1 if capture.causal else None, head].astype(float)
            logits = [capture.softmax_scale * math.fsum(query * key) for key in keys]
            lse = max(logits) + math.log(math.fsum(math.exp(s - max(logits)) for s in logits))
            yield lse, max(math.exp(s - lse) for s in logits)


@pytest.mark.parametrize("name", ["minilm-short/layer0", "chars-step800/layer1"])
def test_sharpness_and_lse_agree_with_plain_loops(name):
    capture = load_capture(name)
    table = read_manifest()["captures"][name]["statistics"]
    every_lse = []
    for head in range(capture.q.shape[2]):
        lse, largest = zip(*rows(capture, head), strict=True)
        assert table["sharpness"][head] == pytest.approx(np.median(largest), rel=1e-3)
        every_lse += lse
    assert table["lse"] == pytest.approx([min(every_lse), max(every_lse)], rel=1e-3)


@pytest.mark.parametrize("name", list_captures())
def test_manifest_describes_the_tensors(name):
    c = load_capture(name)
    tensors = {"q": c.q, "k": c.k, "v": c.v, "do": c.do}
    found = statistics(tensors, causal=c.causal, softmax_scale=c.softmax_scale)
    recorded = read_manifest()["captures"][name]["statistics"]
    assert found.keys() == recorded.keys()
    for key, values in found.items():
        assert values == pytest.approx(recorded[key], rel=2e-3), key


@pytest.mark.parametrize("name", list_captures())
def test_rows_are_attention_rows(name):
    """Constant logits, which lost weights would give, fail this: they have exactly 1 / N."""
    c = load_capture(name)
    table = read_manifest()["captures"][name]["statistics"]
    uniform = 1 / c.k.shape[1]
    assert all(1.5 * uniform < sharp <= 1 for sharp in table["sharpness"])


def test_uniform_rows_have_sharpness_one_over_n_and_lse_log_n():
    q, x = np.zeros((1, 8, 1, 32), np.float32), np.ones((1, 8, 1, 32), np.float32)
    x[0, ::2] = 3
    table = statistics({"q": q, "k": x, "v": x, "do": x}, causal=False, softmax_scale=1.0)
    assert table["sharpness"] == [0.125]
    assert table["lse"] == pytest.approx([math.log(8)] * 2, rel=1e-3)
    assert table["v_offset"] == [2.0]
    assert table["amax"] == [0.0, 3.0, 3.0, 3.0]


def test_the_set_spans_sharp_and_flat_heads_and_large_offsets():
    tables = [entry["statistics"] for entry in read_manifest()["captures"].values()]
    sharpness = [x for table in tables for x in table["sharpness"]]
    assert max(sharpness) > 0.99
    assert min(sharpness) < 0.02
    assert max(x for table in tables for x in table["v_offset"]) > 2
    assert max(table["lse"][1] for table in tables) > 70
