"""A window that slides down in registers: a thread computes several outputs and reads every pixel once.

Source: "global to register", "texture to register" and "shared to register" of Iandola et al. 2013, sections 3 and
4. This family extends their prefetched region to a sliding window, so that registers grow with the filter's rows and
not with the outputs of a thread.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from itertools import product

from warpsmith.generator.architectures import ASYNC_COPIES
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED, Family, Subject
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.separable import separable_terms
from warpsmith.generator.filter2d.text import (
    DEFAULT_REACH,
    Filter2dText,
    MemoryPath,
    Weights,
    default_weights,
    filter2d_arguments,
    filter2d_constants,
    image_texture,
    literals,
    too_many_weights,
)
from warpsmith.generator.filter2d.window_geometry import (
    LoadHint,
    Method,
    Order,
    StoreHint,
    Tail,
    WindowGeometry,
    WinogradGroup,
    factors,
    factors_matrix,
    groups,
    products,
)
from warpsmith.generator.filter2d.window_rules import constraints
from warpsmith.generator.filter2d.window_shapes import SHORT_LOOPS, shaped_walks
from warpsmith.generator.filter2d.window_walks import (
    carried_walk,
    likely_method,
    likely_walks,
    methods,
    unrolled,
    walks,
)
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Program, Transformed
from warpsmith.generator.render import float_literal, render
from warpsmith.generator.space import Config, Parameter, Space, Value, words

VECTORS = {DType.FLOAT32: (1, 2, 4), DType.FLOAT16: (1, 2, 4, 8), DType.UINT8: (1, 2, 4, 8, 16)}
"""Elements of one access, up to 16 bytes."""

_WEIGHTS = (Weights.ARGUMENT, Weights.CONSTANT, Weights.LITERAL)
_LEAST: dict[str, tuple[Value, ...]] = {
    "path": (MemoryPath.GLOBAL.value,),
    "tail": (Tail.WHOLE.value,),
    "prefetch": (0,),
    "block_columns": (32,),
    "block_strips": (1,),
    "min_blocks": (0,),
    "load": (LoadHint.CACHED.value,),
    "store": (StoreHint.PLAIN.value,),
}
"""Values that a constraint allows whenever it allows any others: if no config with these is legal, none is."""


class Filter2dWindow(Family[Filter2d]):
    """`filter2d` with a window sliding down in registers."""

    name = "filter2d_window"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter2d, device: Device) -> str | None:
        if reason := too_many_weights(problem):
            return reason
        if _space(problem, device).narrowed(_LEAST).why_empty is not None:
            what = f"{problem.filters} filters" if problem.filters > 1 else "a filter"
            return f"{what} of {problem.filter[0]}x{problem.filter[1]} do not fit the registers of a thread"
        return None

    def space(self, problem: Filter2d, device: Device) -> Space:
        return _space(problem, device)

    def default(self, problem: Filter2d, device: Device) -> Config:
        """Aligned vector accesses and the likeliest walk, or the nearest point of the space.

        On an H200, 9216x9216 float32, the best configs walked 4 rows for filters up to 5x5 and 12 for 6x6 and 7x7, in
        one turn; larger filters did best tap by tap, with turns of 2 or 3 rows and a single wave of walks.
        """
        config = _default(problem, device)
        if config is None:
            raise ValueError(f"{self.name} has no config for {problem.key()}; ask why_not first")
        return config

    def unrolled(self, problem: Filter2d, config: Config) -> int:
        return unrolled(problem, config)

    def scaled(self, config: Config, home: Subject[Filter2d], problem: Filter2d, device: Device) -> Config:
        """`config` with rows that keep walks of a single wave in a single wave."""
        columns, unroll, rows = (config.integer(name) for name in ("columns", "unroll", "rows"))
        there, here = home.problem, problem
        same = carried_walk(rows, columns, unroll, (there, home.device), (here, device))
        return Config.of(config.values() | {"rows": same})

    def program(self, problem: Filter2d, config: Config) -> Program:
        geometry, weights = WindowGeometry.of(problem, config), Weights.of(config)
        texture = image_texture(problem) if geometry.path is MemoryPath.TEXTURE else None
        method = config.text("method")
        terms = separable_terms(problem) if method == Method.SEPARABLE else ()
        pairs = Pairs.of(problem, weights) if method == Method.WINOGRAD else None
        source = render(
            "filter2d/window.cu.jinja",
            p=Filter2dText.of(problem),
            g=geometry,
            config=config.key(),
            weights=weights.value,
            texture=texture,
            terms=[literals(term) for term in terms],
            pairs=pairs,
            bytes=geometry.load_vector * problem.dtype.itemsize,
        )
        interior = geometry.column_blocks * geometry.strip_blocks * problem.planes if geometry.interior_threads else 0
        launch = Launch(
            entry=self.name,
            grid=(geometry.frame_blocks + interior, 1, 1),
            block=(geometry.block_columns, geometry.block_strips, 1),
            arguments=(*filter2d_arguments(weights, texture), *(pairs.arguments if pairs else ())),
            constants=filter2d_constants(weights),
        )
        return Program.of_source(self.name, config, source, (launch,))


@functools.lru_cache(maxsize=64)
def _space(problem: Filter2d, device: Device) -> Space:
    has = {
        MemoryPath.TEXTURE: image_texture(problem) is not None,
        MemoryPath.ASYNC: device.has(ASYNC_COPIES),
    }
    paths = words(path for path in MemoryPath if has.get(path, True))
    weights = words(each for each in _WEIGHTS if problem.weights is not None or each is not Weights.LITERAL)
    widths = (1, 2, 4, 8) if problem.dtype is DType.FLOAT32 else (1, 2, 4, 8, 16)
    return Space(
        parameters=(
            Parameter("path", paths, "how pixels come from the image to a thread"),
            Parameter("weights", weights, "where a thread finds the filter's values"),
            Parameter("method", words(methods(problem)), "every tap, the passes of a separable filter, or pairs"),
            Parameter("columns", widths, "adjacent outputs a thread"),
            Parameter("load_vector", VECTORS[problem.dtype], "elements in one load"),
            Parameter("store_vector", VECTORS[problem.output.dtype], "elements in one store"),
            Parameter("unroll", (1, 2, 3, 4, 6, 8, 10, 12, 16, 20), "input rows in one turn of the loop"),
            Parameter("order", words(Order), "a turn goes row by row, or tap by tap over its rows"),
            Parameter("rows", walks(problem, device), "output rows a thread walks down"),
            Parameter("tail", words(Tail), "trimmed leaves out the taps below the end of a walk"),
            Parameter("prefetch", (0, 1, 2, 3, 5, 7), "rows read ahead, into registers or a ring of shared memory"),
            Parameter("block_columns", (32, 64, 128, 256), "threads across a block"),
            Parameter("block_strips", (1, 2, 4, 8), "threads down a block, each with rows of its own"),
            Parameter("min_blocks", (0, 2, 4, 8, 16), "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("load", words(LoadHint), "streaming marks pixels as evicted first"),
            Parameter("store", words(StoreHint), "streaming marks the result as evicted first from L2"),
        ),
        constraints=constraints(problem, device),
    )


@functools.lru_cache(maxsize=256)
def _default(problem: Filter2d, device: Device) -> Config | None:
    """The likeliest legal config that compiles fast; None if no config is legal."""
    space = _space(problem, device)
    slow: dict[Config, int] = {}
    for config in _likely_configs(problem, device):
        length = unrolled(problem, config)
        if length <= MAX_UNROLLED and space.contains(config):
            return config
        slow[config] = length
    # The compiler takes long for all of them, as for banks of large filters: the cheapest to compile is the default.
    return next(filter(space.contains, sorted(slow, key=slow.__getitem__)), None)


def _likely_configs(problem: Filter2d, device: Device) -> Iterator[Config]:
    """Yields candidates for the default, likeliest first, legal or not. Many literal taps compile slowly, so the same
    walks follow with weights as an argument.
    """
    parts = (1, 2, 4, 8, 16)
    ways = dict.fromkeys(
        product((likely_method(problem), Method.DIRECT), (default_weights(problem), Weights.ARGUMENT.value))
    )
    for method, weights in ways:
        shaped, last = (shaped_walks(problem, device), SHORT_LOOPS) if method is Method.DIRECT else ([], ())
        for walk in (*shaped, *likely_walks(problem, method, device), *last):
            widths = dict.fromkeys(max(1, walk.columns // part) for part in parts)
            for load, store in product(widths, widths):
                yield Config.of(
                    {
                        "path": walk.path.value,
                        "weights": weights,
                        "method": method.value,
                        "columns": walk.columns,
                        "load_vector": load,
                        "store_vector": store,
                        "unroll": walk.unroll,
                        "order": walk.order.value,
                        "rows": walk.rows,
                        "tail": Tail.WHOLE.value,
                        "prefetch": walk.prefetch,
                        "block_columns": walk.block_columns,
                        "block_strips": 1 if walk.is_long else walk.strips,  # two long strips would not fit in one wave
                        # Without a bound ptxas keeps to 168 registers: 11x11 takes 592 us on an H200 instead of 374.
                        "min_blocks": 2 if walk.is_long else walk.least_blocks,
                        "load": LoadHint.CACHED.value,
                        "store": StoreHint.STREAMING.value,
                    }
                )


@dataclasses.dataclass(frozen=True, slots=True)
class Pairs:
    """Values for the template of Winograd's method, which filters two outputs at a time."""

    groups: tuple[WinogradGroup, ...]
    products: int
    """Products per row of taps and two outputs."""
    factors: tuple[tuple[tuple[str, ...], ...], ...]
    """Factors of the products as literals, for each filter and row; empty if they are an argument."""
    arguments: tuple[Transformed, ...]
    """The kernel argument with the factors; empty if they are literals."""

    @classmethod
    def of(cls, problem: Filter2d, weights: Weights) -> Pairs:
        columns, is_literal = problem.filter[1], weights is Weights.LITERAL
        taps = problem.taps if is_literal else ()
        matrix = factors_matrix(columns, problem.convolve)
        return cls(
            groups=groups(columns),
            products=products(columns),
            factors=tuple(tuple(tuple(map(float_literal, factors(row))) for row in rows) for rows in taps),
            arguments=() if is_literal else (Transformed("weights", matrix),),
        )
