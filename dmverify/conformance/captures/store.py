"""The captures on disk: two safetensors files of BF16 bits (U16) and one manifest with hashes.

| in the manifest | meaning |
|---|---|
| captures | each one's file, shape (B, N, H, D), causal, softmax scale, heads, sha256 of tensors |
| the rest | what made them: versions, text, weights, losses, checks, how heads were chosen |
| digest | sha256 of everything else in the manifest, so an edited manifest is noticed too |

Nothing is returned that does not match its hash. Not covered: deliberate forgery; whoever edits the
tensors and recomputes all hashes has made other captures, and version control will say so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from dmverify.errors import RecordingError, unknown_name

DATA = Path(__file__).parent / "data"
MANIFEST = "manifest.json"
TENSORS = ("q", "k", "v", "do")
FORMAT = 1
_FIX = "restore the files of the captures from version control or reinstall dmverify"


@dataclass(frozen=True, eq=False)
class Capture:
    """One attention call of a trained model, as a BF16 operator would see it.

    Attributes:
        name: For instance ``minilm/layer3``.
        q: Queries (B, N, H, D), float32 arrays whose values are BF16 numbers; so are k, v, do.
        k: Keys.
        v: Values.
        do: Gradient of the loss with respect to the attention output.
        causal: Whether later keys are hidden.
        softmax_scale: Factor on the logits, before the softmax.
        source: Model, layer, heads and step, in words.
    """

    name: str
    q: NDArray[np.float32]
    k: NDArray[np.float32]
    v: NDArray[np.float32]
    do: NDArray[np.float32]
    causal: bool
    softmax_scale: float
    source: str


def tensor_hash(bits: NDArray[np.uint16]) -> str:
    """Return the sha256 of a tensor's bits in little-endian order."""
    return hashlib.sha256(bits.astype("<u2", copy=False).tobytes()).hexdigest()


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Return the sha256 of the manifest without its own digest, in canonical JSON."""
    body = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def read_manifest(directory: Path = DATA) -> dict[str, Any]:
    """Return the manifest.

    Raises:
        RecordingError: If it is missing, truncated, edited or of another format.
    """
    path = directory / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordingError(
            f"{path.name}: {error}", rule="a manifest is readable JSON", fix=_FIX
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise RecordingError(
            f"{path.name}", rule=f"this release reads manifests of format {FORMAT}", fix=_FIX
        )
    if manifest.get("digest") != manifest_digest(manifest):
        raise RecordingError(
            f"{path.name}", rule="a manifest's content matches its digest", fix=_FIX
        )
    return manifest


def list_captures(*, directory: Path = DATA) -> tuple[str, ...]:
    """Return the names of all captures, in the manifest's order."""
    return tuple(read_manifest(directory)["captures"])


def _entry(name: str, directory: Path) -> dict[str, Any]:
    captures: dict[str, dict[str, Any]] = read_manifest(directory)["captures"]
    if name not in captures:
        raise unknown_name("capture", str(name), captures, rule="a capture of the manifest")
    return captures[name]


def _read_bits(path: Path, keys: list[str]) -> list[NDArray[np.uint16]]:
    try:
        with safe_open(path, framework="numpy") as file:
            return [file.get_tensor(key) for key in keys]
    except (OSError, SafetensorError) as error:
        raise RecordingError(
            f"{path.name}: {error}",
            rule="a capture's file is a whole safetensors file with every tensor of the manifest",
            fix=_FIX,
        ) from error


def load_capture(name: str, *, directory: Path = DATA) -> Capture:
    """Load one capture and check every tensor against its hash.

    Args:
        name: One of ``list_captures()``.
        directory: Where the manifest and the tensors are.

    Raises:
        UnknownNameError: If there is no capture of this name.
        RecordingError: If a file is missing, truncated, or differs from what was recorded.
    """
    entry = _entry(name, directory)
    keys = [f"{name}/{tensor}" for tensor in TENSORS]
    values = {}
    for tensor, bits in zip(TENSORS, _read_bits(directory / entry["file"], keys), strict=True):
        if bits.dtype != np.uint16 or list(bits.shape) != entry["shape"]:
            raise RecordingError(
                f"{name}/{tensor}: {bits.dtype} {bits.shape}",
                rule=f"uint16 {entry['shape']}",
                fix=_FIX,
            )
        if (digest := tensor_hash(bits)) != entry["sha256"][tensor]:
            raise RecordingError(
                f"{name}/{tensor}: sha256 {digest}",
                rule=f"sha256 {entry['sha256'][tensor]}",
                fix=_FIX,
            )
        values[tensor] = widen(bits)
    return Capture(
        name,
        **values,
        causal=entry["causal"],
        softmax_scale=entry["softmax_scale"],
        source=entry["source"],
    )


def widen(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return the float32 values of BF16 bits: the upper half of a float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
