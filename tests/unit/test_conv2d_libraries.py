"""Layers that call cuBLAS and cuFFT: a program stays within its layer's workspace, libraries' memory included."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

import exhaustive
from warpsmith.generator.cgemm.cublas_family import STREAMS
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.cufft import SPECTRA, Conv2dCufft
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate
from warpsmith.generator.library_calls import LEAST_CUBLAS_BYTES, USUAL_CUBLAS_BYTES, CublasProduct
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.generator.steps import aligned

OURS, LIBRARIES = FOURIER["conv2d_fft_cublas"], Conv2dCufft()
LAYERS: tuple[dict[str, Any], ...] = (
    {"input": (8, 16, 13, 13), "weight": (40, 16, 3, 3)},
    {"input": (6, 9, 50, 87), "weight": (14, 9, 7, 5), "padding": ((0, 3), (2, 1))},
    {"input": (4, 3, 9, 7), "weight": (5, 3, 3, 2)},
    {"input": (64, 64, 28, 28), "weight": (64, 64, 5, 5), "padding": 2},
)
both = pytest.mark.parametrize("family", [OURS, LIBRARIES], ids=lambda family: family.name)
every_pass = pytest.mark.parametrize("pass_", Pass)
every_layer = pytest.mark.parametrize("fields", LAYERS, ids=lambda fields: "x".join(map(str, fields["input"])))


def own_bytes(program: Program) -> int:
    """Bytes of the program's own workspaces, each aligned as in memory."""
    return sum(aligned(each.nbytes) for each in program.workspaces)


def product_of(program: Program) -> CublasProduct:
    """Arguments of cuBLAS, equal in all of its calls; the calls use its workspace one after the other."""
    (product,) = {each.parameters for each in program.calls if isinstance(each.parameters, CublasProduct)}
    return product


def cublas_bytes(program: Program) -> int:
    """Bytes of workspace that the cuBLAS calls use."""
    return product_of(program).all_workspace_bytes


def configs_of(family: Family, problem: Conv2d) -> list[Config]:
    """The default, some random configs, and one for each legal way to call cuBLAS."""
    space, rng = family.space(problem, H200), random.Random(problem.key())
    calls = next(each.name for each in space.parameters if each.name.endswith("calls"))
    ways = (space.narrowed({calls: [way]}).drawn(rng) for way in STREAMS)
    return [*filter(None, (family.default(problem, H200), *(space.drawn(rng) for _ in range(2)), *ways))]


def programs(family: Family, problem: Conv2d) -> list[Program]:
    return [family.program(problem, config) for config in configs_of(family, problem)]


@exhaustive.meeting(2)
@both
@every_pass
@every_layer
def test_what_cublas_has_is_what_is_left_of_the_workspace(family: Family, pass_: Pass, fields: dict[str, Any]) -> None:
    whole = Conv2d(**fields, pass_=pass_)
    roomy = family.program(whole, family.default(whole, H200))
    assert cublas_bytes(roomy) == USUAL_CUBLAS_BYTES
    solved = 0
    for workspace in (1 << 16, 1 << 20, 3 << 22, own_bytes(roomy) + 20_007, 2 * own_bytes(roomy) + 7):
        problem = dataclasses.replace(whole, workspace=workspace)
        if family.why_not(problem, H200) is not None:
            continue
        solved += 1
        for program in programs(family, problem):
            left, streams = workspace - own_bytes(program), product_of(program).streams
            most = streams * USUAL_CUBLAS_BYTES
            assert min(left - 256 * streams + 1, most) <= cublas_bytes(program) <= min(left, most)
    assert solved


@exhaustive.meeting()
@both
@every_pass
def test_products_have_as_many_streams_as_there_is_workspace_for(family: Family, pass_: Pass) -> None:
    """Each stream has at least the workspace that cuBLAS needs; streams are no more than frequencies."""
    whole = Conv2d(**LAYERS[2], pass_=pass_)
    whole = dataclasses.replace(whole, input=(1, *whole.input[1:]))  # a batch that has no parts
    own = own_bytes(family.program(whole, family.default(whole, H200)))
    for shares, most in ((1, 1), (2, 2), (7, 4), (8, 8), (100, 8)):
        problem = dataclasses.replace(whole, workspace=own + shares * LEAST_CUBLAS_BYTES)
        found = [product_of(program) for program in programs(family, problem)]
        assert max(each.streams for each in found) == most
        assert all(each.streams <= each.batch for each in found)


@both
def test_streams_are_no_more_than_frequencies(family: Family) -> None:
    """Holds on each basis, whatever the first one is."""
    problem = Conv2d(input=(2, 3, 1, 2), weight=(4, 3, 1, 1))
    space = family.space(problem, H200)
    names = {"basis", "calls", "product.calls", "function", "product.function"}
    usual = family.default(problem, H200).values()
    few = space.narrowed({name: [value] for name, value in usual.items() if name not in names})
    products = [product_of(family.program(problem, config)) for config in few.configs()]
    assert any(each.is_looped for each in products)
    assert all(each.streams <= each.batch for each in products)


@both
def test_what_was_stored_before_there_were_streams_is_still_legal(family: Family) -> None:
    problem = Conv2d(**LAYERS[2])
    calls = "calls" if family is LIBRARIES else "product.calls"
    for way in ("strided", "looped"):
        config = Config.of(family.default(problem, H200).values() | {calls: way})
        program = Gate(problem, H200).program_if_legal(family, config)
        assert program is not None
        assert "streams" not in str(program.spec()["steps"])


@both
@every_pass
def test_a_layer_is_not_solved_where_cublas_has_too_little(family: Family, pass_: Pass) -> None:
    whole = Conv2d(**LAYERS[2], pass_=pass_, workspace=1 << 20)
    whole = dataclasses.replace(whole, input=(1, *whole.input[1:]))  # a batch that has no parts
    own = own_bytes(family.program(whole, family.default(whole, H200)))
    least = dataclasses.replace(whole, workspace=own + LEAST_CUBLAS_BYTES)
    assert family.why_not(least, H200) is None
    assert cublas_bytes(family.program(least, family.default(least, H200))) == LEAST_CUBLAS_BYTES
    less = dataclasses.replace(whole, workspace=own + LEAST_CUBLAS_BYTES - 1)
    assert family.why_not(less, H200) == f"needs more than {less.workspace} bytes of workspace"


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
def test_a_batch_is_taken_in_parts_where_cublas_would_have_too_little(pass_: Pass) -> None:
    whole = Conv2d(**LAYERS[0], pass_=pass_)
    spectra = sum(aligned(each.nbytes) for each in OURS.workspaces(whole))
    just = dataclasses.replace(whole, workspace=spectra + LEAST_CUBLAS_BYTES - 1)
    counts = [
        sum(each.parameters.library == "cublas" for each in OURS.program(problem, OURS.default(problem, H200)).calls)
        for problem in (whole, just)
    ]
    assert counts == [1, 2]
    assert len(FOURIER["conv2d_fft"].runs(just)) == len(FOURIER["conv2d_fft"].runs(whole))  # it needs no library


@every_pass
def test_cufft_is_left_as_much_as_its_spectra_are(pass_: Pass) -> None:
    """cuFFT may use as much memory as the spectra take, up to cuBLAS's usual workspace."""
    whole = Conv2d(**LAYERS[0], pass_=pass_)
    program = LIBRARIES.program(whole, LIBRARIES.default(whole, H200))
    own = {each.name: aligned(each.nbytes) for each in program.workspaces}
    enough = dataclasses.replace(whole, workspace=sum(own.values()) + own[SPECTRA])
    assert LEAST_CUBLAS_BYTES < own[SPECTRA] < USUAL_CUBLAS_BYTES
    assert LIBRARIES.why_not(enough, H200) is None
    assert LIBRARIES.default(enough, H200) == LIBRARIES.default(whole, H200)
    less = dataclasses.replace(whole, workspace=enough.workspace - 1)
    assert LIBRARIES.why_not(less, H200) is not None or LIBRARIES.default(less, H200) != LIBRARIES.default(whole, H200)
