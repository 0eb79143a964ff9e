"""From chosen captures to files: tensors first, the manifest last, each replaced atomically."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.numpy import save

from dmverify.conformance.captures.store import FORMAT, MANIFEST, manifest_digest, tensor_hash
from dmverify.errors import InputError
from dmverify.lab.captures.choose import Chosen

LIMIT_BYTES = 3_000_000


def hashes(captures: Iterable[Chosen]) -> dict[str, str]:
    """Return the sha256 of each tensor by its full name."""
    return {
        f"{capture.name}/{tensor}": tensor_hash(bits)
        for capture in captures
        for tensor, bits in capture.bits.items()
    }


def _entry(capture: Chosen) -> dict[str, Any]:
    return {
        "file": capture.file,
        "shape": list(capture.bits["q"].shape),
        "causal": capture.causal,
        "softmax_scale": capture.softmax_scale,
        "heads": list(capture.heads),
        "source": capture.source,
        "sha256": {tensor: tensor_hash(bits) for tensor, bits in capture.bits.items()},
        "statistics": capture.describe(),
    }


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_bytes(content)
    os.replace(partial, path)


def write(captures: Sequence[Chosen], made: Mapping[str, Any], directory: Path) -> int:
    """Write the tensors and the manifest; return the bytes written.

    Args:
        captures: What to write.
        made: What the manifest says about their making.
        directory: Where to write.

    Raises:
        InputError: If they would exceed the limit; nothing is written then.
    """
    contents = {
        file: save(
            {
                f"{capture.name}/{tensor}": bits
                for capture in captures
                if capture.file == file
                for tensor, bits in capture.bits.items()
            }
        )
        for file in sorted({capture.file for capture in captures})
    }
    manifest = {"format": FORMAT, **made, "captures": {c.name: _entry(c) for c in captures}}
    manifest["digest"] = manifest_digest(manifest)
    contents[MANIFEST] = (json.dumps(manifest, indent=1) + "\n").encode()
    total = sum(map(len, contents.values()))
    if total > LIMIT_BYTES:
        raise InputError(
            f"{total} bytes of captures",
            rule=f"captures take at most {LIMIT_BYTES} bytes",
            fix="choose fewer heads, passages or steps",
        )
    for file, content in contents.items():
        _replace(directory / file, content)
    return total
