"""CUDA text of a config of `fft_block` on a problem: the values that its template takes as `g`."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from math import ceil, prod

from warpsmith.generator.fft.block.block_choice import BlockChoice, BlockMemory, BlockWalk, tile_of
from warpsmith.generator.fft.block.block_places import Planes, SpectraProduct, Split16Spectra
from warpsmith.generator.fft.block.block_stages import BlockStage, BlockStages, tables_of
from warpsmith.generator.fft.block.block_tile import BlockTile
from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.problem import Fft, Layout, Order
from warpsmith.generator.fft.signals import dimensions
from warpsmith.generator.fft.text import PACKED, Packing, Table, half_root, half_scale, scale, spectrum_place, text_key
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.render import float_literal
from warpsmith.generator.space import Config


def inside_of(problem: Fft, choice: BlockChoice, row: str) -> tuple[str, str]:
    """CUDA conditions under which a signal's element, and the second real one beside it, exist; empty if always."""
    conditions = []
    if len(problem.size) == 2 and problem.signal_size[0] < problem.size[0]:
        conditions.append(f"{row} < {problem.signal_size[0]}")
    second = list(conditions)
    columns, points = problem.signal_size[-1], problem.size[-1]
    if choice.packing is Packing.HALF:
        if columns < points - 1:
            conditions.append(f"x < {ceil(columns / 2)}")
        if columns < points:
            second.append(f"x < {columns // 2}")
    elif columns < points:
        conditions.append(f"x < {columns}")
        second.append(f"x < {columns}")
    return " && ".join(conditions), " && ".join(second)


@dataclasses.dataclass(frozen=True)
class FftBlockText:
    """Sizes, places and stages. `x` and `y` are the tile's extents; packed columns halve `x`."""

    problem: Fft
    choice: BlockChoice
    split16: Split16Spectra | None = None
    """Split fp16 storage of the spectra; None for complex numbers."""

    @classmethod
    def of(cls, problem: Fft, config: Config, split16: Split16Spectra | None = None) -> FftBlockText:
        return cls(problem, BlockChoice.of(problem, config), split16)

    @property
    def key(self) -> str:
        return text_key(self.problem)

    @cached_property
    def tile(self) -> BlockTile:
        return tile_of(self.problem, self.choice)

    @cached_property
    def stages(self) -> tuple[BlockStage, ...]:
        return BlockStages(self.problem, self.choice, self.tile).all()

    @property
    def divides(self) -> bool:
        """True if some index is divided by a number that is no power of two."""
        every = [each for stage in self.stages for each in (stage, *stage.within)]
        texts = (text for each in every for text in (each.address, each.mirrored_address, *each.variables))
        return any("quotient<" in text or "modulo<" in text for text in (self.pair, *texts))

    @property
    def summary(self) -> tuple[str, ...]:
        return _summary(self.problem, self.choice)

    @property
    def has_y(self) -> bool:
        return len(self.problem.size) == 2

    @property
    def x(self) -> int:
        return self.tile.shape.x

    @property
    def y(self) -> int:
        return self.tile.shape.y

    @property
    def tile_elements(self) -> int:
        """Complex numbers of a tile in shared memory; 0 if a thread has all of a transform."""
        return self.tile.elements if any("tile" in (stage.reads, stage.writes) for stage in self.stages) else 0

    @property
    def memory(self) -> BlockMemory:
        return BlockMemory(self.problem, self.choice, self.tile_elements)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block."""
        return 8 * self.choice.tiles * self.memory.pitch

    @property
    def walk(self) -> BlockWalk:
        return BlockWalk(self.problem, self.choice)

    @property
    def scale(self) -> str:
        return scale(self.problem)

    @property
    def half_scale(self) -> str:
        return half_scale(self.problem)

    @property
    def codelets(self) -> tuple[Codelet, ...]:
        radices = frozenset((*self.choice.x_radices, *self.choice.y_radices))
        return codelets(radices, inverse=self.problem.inverse is True)

    @property
    def tables(self) -> tuple[Table, ...]:
        return tables_of(self.problem, self.choice, self.tile)

    @property
    def half_root(self) -> str:
        """Formula of `packing_twiddle(x)`."""
        return half_root(self.problem)

    @property
    def half_angle(self) -> str:
        """Literal angle of the exponential in `packing_twiddle(1)`, in units of pi."""
        return float_literal((2 if self.problem.inverse else -2) / self.problem.size[-1])

    @property
    def half_turn(self) -> str:
        return "times_i" if self.problem.inverse else "times_minus_i"

    @property
    def share_root(self) -> str:
        """Formula of `dif_twiddle(y)`."""
        return f"exp({'' if self.problem.inverse else '-'}2 pi i y / {self.problem.size[0]})"

    @property
    def share_angle(self) -> str:
        """Literal angle of `dif_twiddle(1)`, in units of pi."""
        return float_literal((2 if self.problem.inverse else -2) / self.problem.size[0])

    @property
    def share_pitch(self) -> int:
        """Elements of the spectrum from an even row to the next one."""
        points = self.problem.size[0]
        rows = points // 2 if self.problem.order is Order.REVERSED else 1
        columns = self.problem.spectrum_size[-1]
        many = rows * columns * self.problem.batch
        return {Layout.BATCH: rows * columns, Layout.TRANSPOSED: rows, Layout.FREQUENCY: many}[self.problem.layout]

    @property
    def mirrors(self) -> tuple[str, ...]:
        """Kinds of mirrors among the stages that merge spectra."""
        merges = [each for stage in self.stages for each in (stage, *stage.within) if each.kind == "merge"]
        return tuple(dict.fromkeys(each.mirror for each in merges))

    @property
    def is_own_mirror(self) -> str:
        """CUDA condition under which column x is its own mirror image."""
        return f"x == 0 || 2 * x == {self.x}" if self.is_paired and self.x % 2 == 0 else "x == 0"

    @property
    def is_not_own_mirror(self) -> str:
        return f"x != 0 && 2 * x != {self.x}" if self.is_paired and self.x % 2 == 0 else "x != 0"

    @property
    def element_meaning(self) -> str:
        return {
            Packing.COMPLEX: "a complex number of the signal",
            Packing.HALF: "columns 2 x and 2 x + 1 of a real signal",
            Packing.PAIR: "of two consecutive real signals, as real and imaginary part",
            Packing.ALONE: "of a real signal, as both real and imaginary part",
        }[self.choice.packing]

    @property
    def signal_type(self) -> str:
        return "float" if self.problem.is_real else "float2"

    @property
    def signal_place(self) -> str:
        """CUDA expression of the place of element (t, y, x) of the tile in the signal."""
        transforms, columns = (
            self.pair if self.is_paired else "t",
            "2 * x" if self.choice.packing is Packing.HALF else "x",
        )
        rows = f" + {self._row} * {self.problem.signal_size[-1]}" if self.has_y else ""
        return f"{transforms} * {self._signal_pitch}{rows} + {columns}"

    @property
    def from_start(self) -> tuple[str, ...]:
        """Lines that turn a point of the tile into its distance from the start of the signal."""
        start, size = self.problem.start, self.problem.size
        if start is None:
            return ()
        axes = zip(("y", "x")[-len(size) :], start, size, strict=True)
        return tuple(f"{name} += {name} < {at} ? {points - at} : -{at};" for name, at, points in axes if at)

    @property
    def planes(self) -> Planes | None:
        """Planes whose tiles the transforms are; None if each transform has a signal of its own."""
        tiling = self.problem.tiling
        return None if tiling is None else Planes(self.problem, self.choice.packing, tiling)

    @property
    def spectra(self) -> SpectraProduct | None:
        """Product that makes the spectra; None if spectra are read."""
        return SpectraProduct.of(self.problem, self.choice)

    @property
    def is_vector(self) -> bool:
        """True if two columns of a real signal can be read or written at once."""
        return self.choice.packing is Packing.HALF and self.problem.signal_size[-1] % 2 == 0

    @property
    def second(self) -> int:
        """Elements from the real part's signal to the imaginary part's; a single transform is its own partner."""
        return (self._signal_pitch if self._has_second else 0) if self.is_paired else 1

    @property
    def second_of_pair(self) -> str:
        return f"{self.pair} + 1" if self._has_second else self._own

    @property
    def pair(self) -> str:
        """CUDA expression of the number of pair t's first transform, counted from the tile's first one."""
        if self.choice.packing is Packing.ALONE:
            return "t"
        return "2 * t" if self.spectra is None else self.spectra.pair

    @property
    def either_of_pair(self) -> str:
        return "2 * t + second" if self._has_second else self._own

    @property
    def inside(self) -> str:
        """CUDA condition under which an element is read or written; empty if it always is."""
        return self._conditions("2 * t >= overlap", inside_of(self.problem, self.choice, self._row)[0])

    @property
    def inside_second(self) -> str:
        """CUDA condition for the second real number of a packed one."""
        return self._conditions("2 * t + 1 >= overlap", inside_of(self.problem, self.choice, self._row)[1])

    @property
    def place_type(self) -> str:
        return "long long" if self.problem.layout is Layout.FREQUENCY else "int"

    @property
    def spectrum_place(self) -> str:
        """CUDA expression of the place of frequency (y, x) of a transform in the spectrum."""
        return spectrum_place(self.problem, "(2 * y)" if self.choice.shares == 2 and not self.problem.inverse else "y")

    @property
    def source_type(self) -> str:
        return "float2" if self.problem.inverse else self.signal_type

    @property
    def target_type(self) -> str:
        return self.signal_type if self.problem.inverse else "float2"

    @property
    def source_bytes(self) -> int:
        """Bytes of an element of the source."""
        return 8 if self.source_type == "float2" else 4

    @property
    def source_pitch(self) -> int:
        """Elements of the source from one transform to the next."""
        return self._spectrum_pitch if self.problem.inverse else self._signal_pitch

    @property
    def target_pitch(self) -> int:
        return self._signal_pitch if self.problem.inverse else self._spectrum_pitch

    @property
    def _row(self) -> str:
        return "row" if self.choice.shares == 2 and self.problem.inverse else "y"

    @property
    def is_paired(self) -> bool:
        """True if the real and the imaginary part of an element belong to a signal each."""
        return self.choice.packing.pairs

    @property
    def _has_second(self) -> bool:
        """True if both parts belong to different signals."""
        return self.choice.packing is Packing.PAIR and self.problem.batch > 1

    @property
    def _own(self) -> str:
        """CUDA expression of the number of a signal that is a pair with itself."""
        return "0" if self.problem.batch == 1 else "t"

    @property
    def _signal_pitch(self) -> int:
        return prod(self.problem.signal_size)

    @property
    def _spectrum_pitch(self) -> int:
        return 1 if self.problem.layout is Layout.FREQUENCY else prod(self.problem.spectrum_size)

    def _conditions(self, not_done: str, inside: str) -> str:
        """Joined conditions; results that another tile has are left out too."""
        conditions = (not_done if self.walk.is_guarded and self.problem.inverse else "", inside)
        return " && ".join(filter(None, conditions))


def _summary(problem: Fft, choice: BlockChoice) -> tuple[str, ...]:
    radices = " by ".join("x".join(map(str, each)) for each in (choice.y_radices, choice.x_radices) if each)
    tile = f"{choice.transforms} per tile" if choice.shares == 1 else "every other row of one per tile"
    barrier = "__syncwarp()" if choice.threads == 32 else "__syncthreads()"
    return (
        f"{'Inverse' if problem.inverse else 'Forward'} transforms of {dimensions(problem.size)} points, {tile}.",
        f"Radices {radices}: each radix is an in-register DFT of a thread.",
        *filter(None, (PACKED[choice.packing].strip(),)),
        f"kThreads threads compute a tile. Stages work in place in shared memory, separated by {barrier}.",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class BorderText:
    """Template values of such a load. Points of the tile count from the first point of the border."""

    mode: PaddingMode
    lines: tuple[str, ...]
    """Lines that turn a point into the row and the column of the element there."""
    place: str
    """CUDA expression of that element's place in the signal."""
    second: str
    """Elements from the real part's element to the imaginary part's."""
    inside: str
    """CUDA condition under which a point has an element; empty if all have one."""
    inside_second: str


def border_of(text: FftBlockText) -> BorderText | None:
    """Border text of a transform; None if it has no border."""
    problem, packing = text.problem, text.choice.packing
    if problem.border is None:
        return None
    *rows, columns = (
        (at, before, there)
        for at, (before, _), there in zip(
            ("y", "x")[-len(problem.size) :], problem.border.pads, problem.signal_size, strict=True
        )
    )
    lines = [f"const int row = {_source(*each)};" for each in rows]
    if packing is Packing.HALF:
        _, before, there = columns
        lines.append(f"const int column = {_source('2 * x', before, there)};")
        lines.append(f"const int second = {_source('2 * x', before - 1, there)} - column;")
    else:
        lines.append(f"const int column = {_source(*columns)};")
    pitch, transforms = text.source_pitch, text.pair if text.is_paired else "t"
    place = f"{transforms} * {pitch}{f' + row * {columns[2]}' if rows else ''} + column"
    # The conditions are those of a signal that contains its border.
    whole = dataclasses.replace(problem, valid=problem.bordered_size, border=None)
    there_text = dataclasses.replace(text, problem=whole)
    second = "second" if packing is Packing.HALF else str(text.second)
    return BorderText(problem.border.mode, tuple(lines), place, second, there_text.inside, there_text.inside_second)


def _source(at: str, before: int, there: int) -> str:
    shift = f" - {before}" if before > 0 else f" + {-before}" if before else ""
    return f"source_of({at}{shift}, {there})"
