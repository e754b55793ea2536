"""cuBLAS as a candidate: the time that other families must beat, and the winner where cuBLAS is fastest.

cuBLAS takes column-major matrices, so a row-major matrix is the transposed one to it. The call therefore computes the
transposed result from the two factors in the other order, each with its own op.

Source: cuBLAS API reference, CUDA 13: cublasCgemmStridedBatched, cublasCgemm3mStridedBatched.
"""

from __future__ import annotations

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.library_calls import CublasProduct, ProductFunction, Transpose
from warpsmith.generator.program import LibraryCall, Pointer, Program
from warpsmith.generator.space import Config, Constraint, Parameter, Space

STRIDED, LOOPED = "strided", "looped"
STREAMS = {STRIDED: 1, LOOPED: 1, "two_streams": 2, "four_streams": 4, "eight_streams": 8}
"""Number of streams for each value of `calls`. It is no parameter of its own, so that configs stored when all calls had
one stream are still points of the space."""
MOST_CALLS = 64
"""Most calls of one product each: more of them take longer to queue than they can save."""


class CgemmCublas(Family[Cgemm]):
    """`cgemm` by cuBLAS. It is never the default answer where nothing is stored."""

    name = "cgemm_cublas"
    may_answer = False

    def why_not(self, problem: Cgemm, device: Device) -> str | None:
        return "calls cuBLAS, which runs on GPUs only" if device.kind is DeviceKind.HOST else None

    def space(self, problem: Cgemm, device: Device) -> Space:
        functions = tuple(each.value for each in ProductFunction)
        return Space(
            (
                Parameter("function", functions, "four real products for each complex one, or three and sums"),
                Parameter(
                    "calls", tuple(STREAMS), "one call for all products, or one for each, on one stream or over several"
                ),
            ),
            (
                Constraint(
                    f"2 to {MOST_CALLS} products have calls of their own",
                    lambda calls: calls == STRIDED or 1 < problem.batch <= MOST_CALLS,
                ),
                Constraint("each stream has a product", lambda calls: STREAMS[calls] <= problem.batch),
            ),
        )

    def default(self, problem: Cgemm, device: Device) -> Config:
        return Config.of({"function": ProductFunction.CGEMM.value, "calls": STRIDED})

    def program(self, problem: Cgemm, config: Config) -> Program:
        cgemm, calls = problem, config.text("calls")
        product = CublasProduct(
            ProductFunction(config.text("function")),
            m=cgemm.n,
            n=cgemm.m,
            k=cgemm.k,
            batch=cgemm.batch,
            first=Transpose(cgemm.b.value),
            second=Transpose(cgemm.a.value),
            is_looped=calls != STRIDED,
            streams=STREAMS[calls],
        )
        call = LibraryCall(product, (Pointer("b"), Pointer("a"), Pointer("c")))
        return Program(self.name, config, (), (call,))
