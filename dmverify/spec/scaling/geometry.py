"""Which elements share a scale: an (N, D) matrix is cut into tiles from its top left corner.

| user | rows of a tile | columns of a tile |
|---|---|---|
| operand in blocks of tokens | 64 or 128 | all of D |
| per-tensor operand | all | all |
| P group of one query | 1 | 32 or 64 keys |
| dS or P tile | 64 | 64 |

The last row and column of tiles may be ragged: they hold what is left and nothing is padded into
their amax (a zero never raises an amax). Leading axes (batch, heads) are never mixed. Not covered:
scales that span heads, and tiles that start anywhere else than at a multiple of their size.
"""

from __future__ import annotations

from dataclasses import dataclass

from dmverify.errors import InputError
from dmverify.spec.namespace import Array, namespace_of


@dataclass(frozen=True, slots=True)
class Tiling:
    """Size of the tiles that share one scale.

    Attributes:
        rows: Rows of a tile; None is all rows.
        columns: Columns of a tile; None is all columns.

    Raises:
        InputError: A size below 1.
    """

    rows: int | None
    columns: int | None = None

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            size = getattr(self, name)
            if size is not None and size < 1:
                raise InputError(
                    f"{name}={size}",
                    rule="a tile has at least one row and one column",
                    fix=f"pass {name} >= 1, or None for the whole extent",
                )

    @property
    def transposed(self) -> Tiling:
        """The tiles of the transposed matrix."""
        return Tiling(self.columns, self.rows)

    def sizes(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Rows and columns of a full tile of a (..., N, D) array, at most all of its own."""
        whole = (max(shape[-2], 1), max(shape[-1], 1))
        rows, columns = self.rows or whole[0], self.columns or whole[1]
        return (min(rows, whole[0]), min(columns, whole[1]))

    def grid(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Number of tiles down and across a (..., N, D) array; 0 where an extent is 0."""
        rows, columns = self.sizes(shape)
        return (-(-shape[-2] // rows), -(-shape[-1] // columns))


def amax(x: Array, tiling: Tiling) -> Array:
    """Return the largest magnitude of every tile; a tile that holds a NaN gives NaN.

    Args:
        x: (..., N, D) float32.
        tiling: The tiles, R down and C across.

    Returns:
        (..., R, C) float32.
    """
    xp = namespace_of(x)
    (down, across), (rows, columns) = tiling.grid(x.shape), tiling.sizes(x.shape)
    padded = pad_rows(abs(x), down * rows)
    padded = _swap(pad_rows(_swap(padded), across * columns))
    tiles = padded.reshape(*x.shape[:-2], down, rows, across, columns)
    return xp.amax(tiles, axis=(-3, -1))


def spread(per_tile: Array, tiling: Tiling, shape: tuple[int, ...]) -> Array:
    """Return one number per element from one number per tile.

    Args:
        per_tile: (..., R, C).
        tiling: The tiles.
        shape: The (..., N, D) of the elements.

    Returns:
        An array that broadcasts against (..., N, D): an axis that one tile spans stays 1 long.
    """
    (down, across), (rows, columns) = tiling.grid(shape), tiling.sizes(shape)
    wide = per_tile if across == 1 else _repeat(per_tile, columns, -1)[..., : shape[-1]]
    return wide if down == 1 else _repeat(wide, rows, -2)[..., : shape[-2], :]


def pad_rows(x: Array, length: int) -> Array:
    """Return ``x`` (..., N, D) with zero rows appended up to ``length`` rows."""
    missing = length - x.shape[-2]
    if not missing:
        return x
    xp = namespace_of(x)
    zeros = xp.zeros((*x.shape[:-2], missing, x.shape[-1]), dtype=x.dtype, device=x.device)
    return xp.concat([x, zeros], axis=-2)


def _swap(x: Array) -> Array:
    return namespace_of(x).swapaxes(x, -2, -1)


def _repeat(x: Array, times: int, axis: int) -> Array:
    xp = namespace_of(x)
    shape = list(x.shape)
    shape[axis] *= times
    after = axis % x.ndim + 1
    longer = xp.broadcast_to(
        x.reshape(*x.shape[:after], 1, *x.shape[after:]),
        (*x.shape[:after], times, *x.shape[after:]),
    )
    return longer.reshape(shape)
