"""Tiles of one config of `cgemm_tiled` on one problem: the work of threads, and the layout of shared memory."""

from __future__ import annotations

import dataclasses
from math import prod
from typing import Self

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.space import Config

COMPLEX_BYTES = 8
PAIR = 2
"""Complex numbers in 16 bytes, the most that a thread copies or reads at once. A round of the sums has PAIR terms too:
if terms lie side by side, one read brings both."""
CHAIN = 512
"""Terms that are added one after the other, about. The error of a sum of equal signs grows with the root of their
number, so longer sums are sums of such sums."""
MAX_WRITTEN = 2048
"""Most real multiply-adds that are unrolled in the loop over a tile's terms; one round may have more."""
WARP = 32


@dataclasses.dataclass(frozen=True, slots=True)
class OperandTiles:
    """Tiles of one operand: of a, whose rows are the result's rows, or of b, whose columns are the result's columns."""

    name: str
    size: int
    """Rows (for a) or columns (for b) of c."""
    own: int
    """Rows or columns of a thread, or of a group of threads that multiply together."""
    threads: int
    """Threads, or such groups, of one product in a block along this side."""
    terms: int
    """Terms of a tile."""
    sum_length: int
    """Terms of a whole sum: k."""
    terms_inner: bool
    """True if terms lie side by side in global and shared memory, False if rows or columns of the result do."""

    @property
    def block(self) -> int:
        """Rows or columns of c that a tile covers."""
        return self.own * self.threads

    @property
    def tiles(self) -> int:
        return -(-self.size // self.block)

    @property
    def is_ragged(self) -> bool:
        """True if the last tile reaches beyond the result."""
        return self.size % self.block != 0

    @property
    def inner(self) -> int:
        """Numbers in a row of memory."""
        return self.sum_length if self.terms_inner else self.size

    @property
    def vector(self) -> int:
        """Complex numbers of one copy."""
        return 1 if self.inner % PAIR or self.along % PAIR else PAIR

    @property
    def along(self) -> int:
        """Numbers of a tile that lie side by side in memory."""
        return self.terms if self.terms_inner else self.block


@dataclasses.dataclass(frozen=True, slots=True)
class TiledSide(OperandTiles):
    """Tiles of one operand as they lie in memory: `own` rows or columns of the result belong to a thread."""

    @classmethod
    def of(cls, problem: Cgemm, config: Config, name: str) -> Self:
        is_a = name == "a"
        return cls(
            name=name,
            size=problem.m if is_a else problem.n,
            own=config.integer("rows" if is_a else "columns"),
            threads=config.integer("block_rows" if is_a else "block_columns"),
            terms=config.integer("terms"),
            sum_length=problem.k,
            terms_inner=not problem.a.transposes if is_a else problem.b.transposes,
        )

    @property
    def pitch(self) -> int:
        """Complex numbers from one row of a tile to the next in shared memory.

        If terms lie side by side, the eight threads that are served at once read 16 bytes of each of eight rows: a row
        pitch of an odd number of 16 bytes puts them into different banks. Else they read one row.
        """
        return self.terms + PAIR * (self.terms // PAIR % 2 == 0) if self.terms_inner else self.block

    @property
    def tile(self) -> int:
        """Complex numbers of a tile in shared memory; an even number, so that the next one is aligned too."""
        whole = self.pitch * (self.block if self.terms_inner else self.terms)
        return whole + whole % PAIR

    @property
    def in_pairs(self) -> bool:
        """True if a thread's results lie in pairs.

        An even number of them does if results lie side by side, so that one read brings two. An even number of columns
        always does, so that one store takes two.
        """
        return self.own % PAIR == 0 and (self.name == "b" or not self.terms_inner)

    @property
    def is_shuffled(self) -> bool:
        """True if rows of the tile in shared memory are not in the order of the results.

        The two results of a pair are then as many rows apart as there are threads, since threads that are served at
        once must read consecutive rows.
        """
        return self.in_pairs and self.terms_inner

    @property
    def copies(self) -> int:
        """Copies of one tile."""
        return self.block * self.terms // self.vector


@dataclasses.dataclass(frozen=True, slots=True)
class TiledProduct:
    """Tiles of both operands, and the split of a sum over them."""

    a: OperandTiles
    b: OperandTiles
    batch: int
    terms: int
    stages: int
    splits: int
    """Parts of a sum (split-K), each of a block of its own."""
    min_blocks: int

    @property
    def steps(self) -> int:
        """Tiles along a whole sum."""
        return -(-self.a.sum_length // self.terms)

    @property
    def split_steps(self) -> int:
        """Tiles along one part of a sum; the last part may have fewer."""
        return -(-self.steps // self.splits)

    @property
    def is_ragged(self) -> bool:
        """True if the last tile has more terms than the sum has left."""
        return self.a.sum_length % self.terms != 0


@dataclasses.dataclass(frozen=True, slots=True)
class TiledGeometry(TiledProduct):
    """Geometry of one config on one problem."""

    a: TiledSide
    b: TiledSide
    lanes: int
    """Threads of a warp side by side in a row of c."""
    products: int
    """Products per block."""
    multiplies: int
    """Real products for each complex one: four, or three and additions (Gauss)."""

    @classmethod
    def of(cls, problem: Cgemm, config: Config) -> TiledGeometry:
        return cls(
            a=TiledSide.of(problem, config, "a"),
            b=TiledSide.of(problem, config, "b"),
            batch=problem.batch,
            terms=config.integer("terms"),
            stages=config.integer("stages"),
            lanes=config.integer("lanes"),
            products=config.integer("products"),
            splits=config.integer("splits"),
            multiplies=config.integer("multiplies"),
            min_blocks=config.integer("min_blocks"),
        )

    @property
    def threads(self) -> int:
        """Threads of one product in a block."""
        return self.a.threads * self.b.threads

    @property
    def chain_steps(self) -> int:
        """Tiles whose terms are added before they join the sums of earlier tiles; 0 if one chain has all tiles."""
        steps = max(CHAIN // self.terms, 1)
        return steps if self.split_steps > steps else 0

    @property
    def blocks(self) -> int:
        return self.a.tiles * self.b.tiles * self.splits * -(-self.batch // self.products)

    @property
    def stage(self) -> int:
        """Complex numbers of the tiles of one product and one stage."""
        return self.a.tile + self.b.tile

    @property
    def multiply_adds(self) -> int:
        """Real multiply-adds of all threads, those beyond a result or a sum included."""
        tiles = self.a.tiles * self.b.tiles * self.batch
        return self.multiplies * tiles * self.a.block * self.b.block * self.steps * self.terms

    @property
    def loaded_bytes(self) -> int:
        """Bytes that all blocks load."""
        tiles = self.a.tiles * self.b.tiles * self.batch
        return COMPLEX_BYTES * tiles * (self.a.block + self.b.block) * self.a.sum_length

    @property
    def thread_copies(self) -> int:
        """Copies of a thread for a tile of both operands."""
        return sum(-(-side.copies // self.threads) for side in (self.a, self.b))

    @property
    def shared_bytes(self) -> int:
        return COMPLEX_BYTES * self.stage * self.stages * self.products

    @property
    def unroll(self) -> int:
        """Unrolled rounds of PAIR terms."""
        whole, most = self.terms // PAIR, MAX_WRITTEN // (self.multiplies * PAIR * self.a.own * self.b.own)
        return max(count for count in range(1, whole + 1) if whole % count == 0 and (count <= most or count == 1))

    @property
    def written(self) -> int:
        """Unrolled real multiply-adds."""
        return self.multiplies * PAIR * self.a.own * self.b.own * self.unroll

    @property
    def stores_pairs(self) -> bool:
        """True if two columns are stored at once."""
        return self.b.in_pairs and self.b.size % PAIR == 0


def parts_bytes(problem: Cgemm, splits: int) -> int:
    """Bytes of the parts of all split sums."""
    return 0 if splits == 1 else splits * prod(problem.output.shape) * COMPLEX_BYTES
