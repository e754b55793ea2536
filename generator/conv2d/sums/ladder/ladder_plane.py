"""How blocks cover a plane of results, and the copy of the images with zeros around them that they then read."""

from __future__ import annotations

import dataclasses
from math import prod

from warpsmith.generator.program import Launch, Pointer, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config

COPY_THREADS = 256
COPY, SUM = "copy", "sum"
"""Names of the units: the kernel that copies, and the one that adds up."""


@dataclasses.dataclass(frozen=True, slots=True)
class LadderPlane:
    """Threads over one plane of results."""

    size: tuple[int, int]
    """Rows and columns of the plane."""
    across: int
    """Threads of a block along a row."""
    down: int
    rows: int
    """Rows of results of a thread."""
    min_blocks: int
    """Blocks per SM that the compiler leaves registers for; 0 leaves their number to it."""

    @classmethod
    def of(cls, size: tuple[int, int], config: Config) -> LadderPlane:
        return cls(size, *map(config.integer, ("across", "down", "rows", "min_blocks")))

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.across * self.down

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks along a row and along a column."""
        rows, columns = self.size
        return -(-columns // self.across), -(-rows // (self.down * self.rows))

    @property
    def covered(self) -> tuple[int, int]:
        """Rows and columns of all threads, those beside the plane included."""
        across, down = self.blocks
        return down * self.down * self.rows, across * self.across

    @property
    def is_ragged(self) -> bool:
        """True if some threads, or rows of a thread, lie beside the plane."""
        return self.covered != self.size

    def launch(self, entry: str, planes: int, arguments: tuple[Pointer, ...], unit: str) -> Launch:
        """Launch over `planes` planes."""
        return Launch(entry, (*self.blocks, planes), (self.across, self.down, 1), arguments, unit=unit)


@dataclasses.dataclass(frozen=True, slots=True)
class PlaneCopy:
    """A copy of planes with zeros around them, or with zeros where a ReLU had some."""

    key: str
    planes: int
    rows: int
    """Rows of a plane that is read."""
    columns: int
    above: int
    """Rows of zeros above; negative if the copy leaves out the first rows."""
    left: int
    copy_rows: int
    copy_columns: int
    is_masked: bool = False
    threads: int = COPY_THREADS

    @property
    def elements(self) -> int:
        return prod((self.planes, self.copy_rows, self.copy_columns))

    def workspace(self, name: str) -> Workspace:
        return Workspace(name, 4 * self.elements)

    def unit(self, name: str = COPY) -> Unit:
        return Unit(name, render("conv2d/ladder_copy.cu.jinja", c=self))

    def launch(self, arguments: tuple[Pointer, ...], unit: str = COPY) -> Launch:
        """Launch that copies; its arguments are the planes, the ReLU's results if it masks, and the copy."""
        launch = Launch.of_blocks("conv2d_ladder_copy", -(-self.elements // self.threads), self.threads, arguments)
        return dataclasses.replace(launch, unit=unit)


def has_room(copy: PlaneCopy | None, copies: int, limit: int) -> bool:
    """True if `copies` such copies take at most `limit` bytes and 32 bits count the elements of each."""
    return copy is None or (copy.elements < 2**31 and copies * 4 * copy.elements <= limit)
