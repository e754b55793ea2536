"""The tiles of one config of `cgemm_tiled` on one problem: who computes what, and what lies where in shared memory."""

from __future__ import annotations

import dataclasses
from math import prod
from typing import Self

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.space import Config

COMPLEX_BYTES = 8
PAIR = 2
"""Complex numbers of 16 bytes, the most that a thread copies or reads at once. A round of the sums is of so many terms,
too: where those lie side by side, one read brings both."""
CHAIN = 512
"""Terms that are added up one after the other, about. Of sums of equal signs the error grows with the root of their
number, so that longer ones are sums of such sums."""
MAX_WRITTEN = 2048
"""Multiply-adds of real numbers that are written out in the loop over a tile's terms, or one round."""
WARP = 32


@dataclasses.dataclass(frozen=True, slots=True)
class OperandTiles:
    """One operand's tiles: of a, whose results lie in its rows, or of b, whose results lie in its columns."""

    name: str
    size: int
    """Rows of c that it gives, or columns."""
    own: int
    """Of a thread, or of a group of threads that multiply together."""
    threads: int
    """Of a block's part of one product, along this side; or such groups."""
    terms: int
    """Of a tile."""
    sum_length: int
    """k: terms in memory."""
    terms_inner: bool
    """Whether terms lie side by side in memory, and so in shared memory; else results do."""

    @property
    def block(self) -> int:
        """Rows of c, or columns, that a tile gives."""
        return self.own * self.threads

    @property
    def tiles(self) -> int:
        return -(-self.size // self.block)

    @property
    def is_ragged(self) -> bool:
        """Whether the last tile reaches beyond the result."""
        return self.size % self.block != 0

    @property
    def inner(self) -> int:
        """Extent of memory's rows."""
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
class Side(OperandTiles):
    """One operand's tiles as they lie in memory: `own` results along its side are a thread's."""

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
        """Complex numbers from row to row of a tile in shared memory.

        Where terms lie side by side, the eight threads that are served at once read 16 bytes of eight rows: an odd
        number of 16 bytes from row to row puts them into banks of their own. Else they read one row.
        """
        return self.terms + PAIR * (self.terms // PAIR % 2 == 0) if self.terms_inner else self.block

    @property
    def tile(self) -> int:
        """Complex numbers of a tile in shared memory; an even number, so that the next one is aligned too."""
        whole = self.pitch * (self.block if self.terms_inner else self.terms)
        return whole + whole % PAIR

    @property
    def in_pairs(self) -> bool:
        """Whether a thread's results lie in pairs: where results lie side by side, so that one read brings two; and of
        columns always, so that one store takes two.
        """
        return self.own % PAIR == 0 and (self.name == "b" or not self.terms_inner)

    @property
    def is_shuffled(self) -> bool:
        """Whether rows of the tile in shared memory are not in the order of the results: those of a pair are as far
        apart as there are threads, since threads that are served at once must read rows that follow each other.
        """
        return self.in_pairs and self.terms_inner

    @property
    def copies(self) -> int:
        """Of one tile."""
        return self.block * self.terms // self.vector


@dataclasses.dataclass(frozen=True, slots=True)
class TiledProduct:
    """Tiles of both operands, and how a sum goes through them."""

    a: OperandTiles
    b: OperandTiles
    batch: int
    terms: int
    stages: int
    splits: int
    """Parts of a sum, each of a block of its own."""
    min_blocks: int

    @property
    def steps(self) -> int:
        """Tiles that a whole sum goes through."""
        return -(-self.a.sum_length // self.terms)

    @property
    def split_steps(self) -> int:
        """Tiles of one part of a sum; the last part may have fewer."""
        return -(-self.steps // self.splits)

    @property
    def is_ragged(self) -> bool:
        """Whether the last tile has more terms than the sum has left."""
        return self.a.sum_length % self.terms != 0


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry(TiledProduct):
    """One config on one problem."""

    a: Side
    b: Side
    lanes: int
    """Threads of a warp side by side in a row of c."""
    products: int
    """Of a block."""
    multiplies: int
    """Real products for each complex one: four, or three and sums."""

    @classmethod
    def of(cls, problem: Cgemm, config: Config) -> Geometry:
        return cls(
            a=Side.of(problem, config, "a"),
            b=Side.of(problem, config, "b"),
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
        """Of one product in a block."""
        return self.a.threads * self.b.threads

    @property
    def chain_steps(self) -> int:
        """Tiles whose sums are added up before they join those of the tiles before; 0 where that is all."""
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
        """Of all threads, in real numbers; those beyond a result or a sum too."""
        tiles = self.a.tiles * self.b.tiles * self.batch
        return self.multiplies * tiles * self.a.block * self.b.block * self.steps * self.terms

    @property
    def loaded_bytes(self) -> int:
        """Of all blocks."""
        tiles = self.a.tiles * self.b.tiles * self.batch
        return COMPLEX_BYTES * tiles * (self.a.block + self.b.block) * self.a.sum_length

    @property
    def thread_copies(self) -> int:
        """Of a thread, for a tile of both operands."""
        return sum(-(-side.copies // self.threads) for side in (self.a, self.b))

    @property
    def shared_bytes(self) -> int:
        return COMPLEX_BYTES * self.stage * self.stages * self.products

    @property
    def unroll(self) -> int:
        """Rounds of PAIR terms that are written out."""
        whole, most = self.terms // PAIR, MAX_WRITTEN // (self.multiplies * PAIR * self.a.own * self.b.own)
        return max(count for count in range(1, whole + 1) if whole % count == 0 and (count <= most or count == 1))

    @property
    def written(self) -> int:
        """Multiply-adds of real numbers."""
        return self.multiplies * PAIR * self.a.own * self.b.own * self.unroll

    @property
    def stores_pairs(self) -> bool:
        """Whether two columns are stored at once."""
        return self.b.in_pairs and self.b.size % PAIR == 0


def parts_bytes(problem: Cgemm, splits: int) -> int:
    """Bytes of the parts of all sums."""
    return 0 if splits == 1 else splits * prod(problem.output.shape) * COMPLEX_BYTES
