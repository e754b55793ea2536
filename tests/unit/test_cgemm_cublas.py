"""cuBLAS calls of `cgemm_cublas`: the transposed result, and separate calls for small batches only."""

from __future__ import annotations

import pytest

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.cgemm.cublas_family import CgemmCublas
from warpsmith.generator.gate import Gate
from warpsmith.generator.library_calls import USUAL_CUBLAS_BYTES, CublasProduct, ProductFunction, Transpose
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config

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
        """Only small batches may be separate calls, with at most as many streams as products."""
        batches = (1, 2, 3, 4, 7, 8, 64, 65)
        counts = {batch: len(tuple(CUBLAS.space(Cgemm(batch, 7, 9, 11), H200).configs())) for batch in batches}
        assert counts == {1: 2, 2: 6, 3: 6, 4: 8, 7: 8, 8: 10, 64: 10, 65: 2}

    def test_spreads_products_over_streams(self) -> None:
        problem = Cgemm(8, 7, 9, 11)
        found = []
        for config in CUBLAS.space(problem, H200).configs():
            (call,) = CUBLAS.program(problem, config).calls
            assert isinstance(call.parameters, CublasProduct)
            assert call.parameters.workspace_bytes == USUAL_CUBLAS_BYTES  # cuBLAS chooses its kernels by it
            found.append((call.parameters.is_looped, call.parameters.streams))
        assert found == [(False, 1), (True, 1), (True, 2), (True, 4), (True, 8)] * 2

    @pytest.mark.parametrize(
        ("calls", "fingerprint"), [("strided", "ec3b55be3025ecd0"), ("looped", "3b22eb0b36527f5e")]
    )
    def test_answers_by_what_was_stored_before_there_were_streams(self, calls: str, fingerprint: str) -> None:
        config = Config.of({"function": "cgemm", "calls": calls})
        program = Gate(Cgemm(5, 7, 9, 11), H200).program_if_legal(CUBLAS, config)
        assert program is not None
        assert program.has_fingerprint(fingerprint)
