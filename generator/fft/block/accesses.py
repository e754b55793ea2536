"""Ways in which `fft_block` accesses a spectrum in memory, and the constraints of each."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.generator.fft.block.block_choice import Access, radices_of
from warpsmith.generator.fft.block.mirrored import has_pairs, may_mirror
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.fft.product import Product
from warpsmith.generator.fft.words import Loads, Packing, Stores
from warpsmith.generator.space import Constraint

_HALVES_AT_HAND = Constraint(
    "a pass reads the halves of two signals' spectra, each element twice, where they lie in shared memory",
    # Reads from global memory took 3 to 30% longer.
    lambda packing, spectrum, loads: spectrum == Access.STAGED or (packing == Packing.PAIR and loads == Loads.BULK),
)

_RESULTS_TOGETHER = Constraint(
    "results of several rows of a product do not lie together, to be written at once",
    lambda stores, rows: rows == 1 or stores != Stores.BULK,
)


def spectrum_accesses(problem: Fft) -> tuple[Access, ...]:
    """Legal accesses to the spectrum."""
    mirrored = (Access.MIRRORED,) if may_mirror(problem) else ()
    if problem.product is not None:
        return mirrored  # the others would read each number twice
    if problem.is_real and not problem.inverse:
        return (Access.STAGED, Access.SEQUENTIAL, *mirrored)
    if mirrored:
        return (Access.STAGED, *mirrored)
    if problem.layout is not Layout.BATCH:
        return (Access.STAGED,)  # neighbours in memory are no neighbours in a pass
    is_flat = len(problem.size) == 1
    return (Access.DIRECT, Access.STAGED) if is_flat or not problem.is_real else (Access.STAGED,)


def access_constraints(problem: Fft) -> Iterator[Constraint]:
    """Constraints that some accesses to the spectrum need."""
    known = spectrum_accesses(problem)
    if problem.is_real and Access.DIRECT in known:
        yield _HALVES_AT_HAND
    if Access.MIRRORED in known:
        yield _mirrored_constraint(problem)
    if problem.product is not None:
        yield _whole_rows(problem.product)
        yield _RESULTS_TOGETHER


def _whole_rows(product: Product) -> Constraint:
    def holds(packing: str, transforms: int, rows: int) -> bool:
        columns, rest = divmod(transforms * Packing(packing).transforms, rows)
        return rest == 0 and product.has_tiles_of(rows, columns)

    told = f"tiles have as many columns of each row, in pairs, and all tiles of {product.rows} by {product.columns}"
    return Constraint(f"{told} are alike", holds)


def _mirrored_constraint(problem: Fft) -> Constraint:
    side = "x" if problem.inverse else "y"

    def holds(packing: str, x_radices: str, first: str, spectrum: str) -> bool:
        if spectrum != Access.MIRRORED:
            return True
        return packing == Packing.PAIR and first == side and has_pairs(problem, radices_of(x_radices))

    told = f"sets of frequencies that mirror each other are of pairs, {side} first, by even radices with an even rest"
    return Constraint(told, holds)
