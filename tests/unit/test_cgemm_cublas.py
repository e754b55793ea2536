"""What `cgemm_cublas` asks of cuBLAS: the transposed result, and single calls only where there are few."""

from __future__ import annotations

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.cgemm.cublas import CgemmCublas
from warpsmith.generator.device import H200
from warpsmith.generator.library_calls import CublasProduct, ProductFunction, Transpose

CUBLAS = CgemmCublas()


class TestCublas:
    def test_is_asked_for_the_transposed_result(self) -> None:
        problem = Cgemm(5, 7, 9, 11, "t", "c")  # type: ignore[arg-type]
        program = CUBLAS.program(problem, CUBLAS.default(problem, H200))
        (call,) = program.calls
        assert call.parameters == CublasProduct(
            ProductFunction.CGEMM, m=9, n=7, k=11, batch=5, first=Transpose.C, second=Transpose.T
        )
        assert [each.buffer for each in call.arguments] == ["b", "a", "c"]
        assert program.units == ()

    def test_has_calls_for_each_product_only_where_there_are_few(self) -> None:
        counts = {batch: len(tuple(CUBLAS.space(Cgemm(batch, 7, 9, 11), H200).configs())) for batch in (1, 2, 64, 65)}
        assert counts == {1: 2, 2: 4, 64: 4, 65: 2}
