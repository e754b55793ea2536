"""Configs of filter2d whose generated CUDA is tested; parameters have a plain value unless an argument sets them."""

from __future__ import annotations

from warpsmith.generator.space import Config, Value


def window(
    columns: int, vectors: tuple[int, int], turn: tuple[int, int], block: tuple[int, int], **other: Value
) -> Config:
    """A config of the window kernel: elements of a load and of a store, rows of a turn and of a strip, and whatever is
    not plain.
    """
    return Config.of(
        {
            "path": "global",
            "weights": "argument",
            "method": "direct",
            "columns": columns,
            "load_vector": vectors[0],
            "store_vector": vectors[1],
            "unroll": turn[0],
            "order": "rows",
            "rows": turn[1],
            "tail": "whole",
            "prefetch": 0,
            "block_columns": block[0],
            "block_strips": block[1],
            "min_blocks": 0,
            "load": "cached",
            "store": "plain",
            **other,
        }
    )


def plain(
    block: tuple[int, int],
    path: str = "global",
    outputs: tuple[int, int] = (1, 1),
    filters: int = 1,
    min_blocks: int = 0,
    weights: str = "argument",
) -> Config:
    """A config of the plain kernel; `outputs` are rows and columns a thread."""
    return Config.of(
        {
            "path": path,
            "rows": outputs[0],
            "columns": outputs[1],
            "filters": filters,
            "block_columns": block[0],
            "block_rows": block[1],
            "min_blocks": min_blocks,
            "weights": weights,
        }
    )


def fft(y_radices: str, x_radices: str, **other: Value) -> Config:
    """A config of tiles in global memory, with small blocks unless told."""
    return Config.of(
        {
            "path": "global",
            "weights": "global",
            "y_radices": y_radices,
            "x_radices": x_radices,
            "pairs": 2,
            "buffers": 1,
            "blocks": 0,
            "min_blocks": 2,
            "columns": 4,
            "column_threads": 64,
            "rows": 4,
            "row_threads": 128,
            "twiddles": "table",
            "partners": "adjacent",
            "store": "plain",
            **other,
        }
    )


def warpgroup(
    rows: int, prefetch: int, block: tuple[int, int], weights: str, min_blocks: int, **other: Value
) -> Config:
    """A config of the warpgroup kernel, no products ahead unless told, with plain stores; `block` is warpgroups across
    and down.
    """
    return Config.of(
        {
            "path": "async",
            "weights": weights,
            "rows": rows,
            "columns": 4,
            "ahead": 0,
            "prefetch": prefetch,
            "block_groups": block[0],
            "block_strips": block[1],
            "min_blocks": min_blocks,
            "store": "plain",
            **other,
        }
    )
