"""Configs of filter2d kernels with simple values for the parameters that a case does not set."""

from __future__ import annotations

from warpsmith.generator.space import Config, Value


def window(
    columns: int, vectors: tuple[int, int], turn: tuple[int, int], block: tuple[int, int], **other: Value
) -> Config:
    """Config of `filter2d_window`.

    Args:
        columns: Output columns per thread.
        vectors: Elements per load and per store.
        turn: Input rows per loop iteration, and output rows per thread.
        block: Threads across a block and down.
        other: Other parameters that differ from the values below.
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
    """Config of `filter2d_plain`; `outputs` are rows and columns per thread."""
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
    """Config of `filter2d_fft` that keeps its tiles in global memory and has small blocks by default."""
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
    """Config of `filter2d_warpgroup`; `block` is warpgroups across a block and down."""
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
