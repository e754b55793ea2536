"""Canonical text ignores prose and the text's own names, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from golden_files import all_reviewed
from warpsmith.generator.fingerprint import EXTERNAL, canonical

TEXT = """\
// Adds two rows. The filter's taps lie in constant memory.
#define kTaps 3
constexpr int kRows = 4, kColumns = 8;
struct __align__(8) Pair { float re, im; };
template <int kStep> __device__ __forceinline__ void add(float (&sums)[kStep], const float* const row) {
    float first = row[0], second = fmaf(row[1], 2.0f, first);  // both at once
    asm volatile("fence.proxy.async;" ::: "memory");
    sums[0] += first * second - threadIdx.x;
}
extern "C" __global__ void __launch_bounds__(64) kernel(const float* __restrict__ image, float2* out) {
    float sums[2]{};
    add<2>(sums, image);
    out[blockIdx.x] = make_float2(sums[0], sums[1]);
}
"""
SAME = {
    "a comment": ("// both at once", "/* one after\n the other */"),
    "no comment": ("  // both at once", ""),
    "blanks": (r"sums\[0\] \+= first \* second", "sums [ 0 ]\n        +=   first*second"),
    "a variable": (r"\bfirst\b", "one"),
    "a parameter": (r"\bsums\b", "accumulators"),
    "a template parameter": ("kStep", "kStages"),
    "a constant": ("kColumns", "kWidth"),
    "a macro": ("kTaps", "TAPS"),
    "a function": (r"\badd\b", "accumulate"),
    "a type": ("Pair", "Complex"),
    "a member": (r"\bim\b", "imaginary"),
    "a kernel": ("kernel", "filter2d"),
    "a directive's blanks": ("#define kTaps 3", "#  define   kTaps 3"),
}
OTHER = {
    "an operation": ("first \\* second -", "first * second +"),
    "an order": ("first \\* second - threadIdx.x", "threadIdx.x - first * second"),
    "a number": ("2.0f", "2.5f"),
    "a function of CUDA": ("fmaf", "fmaxf"),
    "a member of CUDA": ("threadIdx.x", "threadIdx.y"),
    "another variable's use": ("first \\* second", "second * second"),
    "an attribute": ("__restrict__ ", ""),
    "a bound": ("__launch_bounds__\\(64\\)", "__launch_bounds__(64, 2)"),
    "an instruction": ("fence.proxy.async;", "fence.proxy.async.global;"),
    "a type of CUDA": ("float2\\*", "float4*"),
    "a directive": ("#define kTaps 3", "#define kTaps 4"),
    "a minus": ("- threadIdx", "- -threadIdx"),
    "a decrement": ("- threadIdx", "-- threadIdx"),
}


@pytest.mark.parametrize("what", SAME)
def test_stays_where_prose_or_a_name_of_its_own_changes(what: str) -> None:
    pattern, other = SAME[what]
    changed = re.sub(pattern, other, TEXT)
    assert changed != TEXT
    assert canonical(changed).text == canonical(TEXT).text


@pytest.mark.parametrize("what", OTHER)
def test_changes_with_everything_else(what: str) -> None:
    pattern, other = OTHER[what]
    changed = re.sub(pattern, other, TEXT)
    assert changed != TEXT
    assert canonical(changed).text != canonical(TEXT).text


def test_a_function_that_nothing_calls_does_not_count() -> None:
    unused = '__device__ __forceinline__ void fence() { asm volatile("fence;" ::: "memory"); }\n'
    assert canonical(unused + TEXT).text == canonical(TEXT).text
    called = TEXT.replace("add<2>(sums, image);", "add<2>(sums, image); fence();")
    assert canonical(unused + called).text != canonical(unused + TEXT).text


def test_two_variables_in_one_anothers_place_are_another_text() -> None:
    swapped = TEXT.replace("first * second", "second * first")
    assert canonical(swapped).text != canonical(TEXT).text


def test_a_variable_that_is_called_as_a_member_of_cuda_keeps_its_name() -> None:
    """Numbering these names too would give `x = threadIdx.x` and `y = threadIdx.y` the same text."""
    x, y = (f"__global__ void kernel() {{ int {name} = threadIdx.{name}; use({name}); }}" for name in "xy")
    assert canonical(x).text != canonical(y).text


def test_a_function_of_cuda_is_never_the_texts_own() -> None:
    calls = [f"__device__ float run(float a) {{ return {name}(a, a); }}" for name in ("fminf", "fmaxf", "__fdiv_rn")]
    assert len({canonical(text).text for text in calls}) == len(calls)
    unknown = [f"__device__ float run(float a) {{ return {name}(a, a); }}" for name in ("cuda_new", "cuda_old")]
    assert len({canonical(text).text for text in unknown}) == len(unknown)


def test_launches_learn_what_their_kernels_are_called_now() -> None:
    assert canonical(TEXT).names["kernel"] != canonical(TEXT).names["add"]
    assert canonical(TEXT).names["kernel"] in canonical(TEXT).text


GOLDEN = all_reviewed(Path(__file__).parents[1] / "golden")


@pytest.mark.parametrize("name", GOLDEN)
def test_every_name_of_generated_text_is_declared_there_or_known(name: str) -> None:
    """Fails if a template uses a CUDA name that EXTERNAL lacks, or declares one in an unrecognised way: stored times
    would be lost with the name.
    """
    text = GOLDEN[name]
    names = set(re.findall(r"(?<![@\w])[A-Za-z_]\w*", re.sub(r"\"[^\"\n]*\"", "", canonical(text).text)))
    assert {name for name in names - EXTERNAL if not name.startswith("__")} == set()


@pytest.mark.parametrize("name", list(GOLDEN)[::7])
def test_generated_text_with_other_names_is_the_same(name: str) -> None:
    text = GOLDEN[name]
    own = canonical(text).names
    renamed = re.sub(r"//[^\n]*|\"[^\"\n]*\"|\b[A-Za-z_]\w*", lambda found: _renamed(found[0], own), text)
    assert renamed != text
    assert canonical(renamed).text == canonical(text).text


def _renamed(token: str, own: dict[str, str]) -> str:
    return f"{token}_of_its_own" if token in own else token


@pytest.mark.parametrize("name", list(GOLDEN)[::7])
def test_generated_text_with_one_operation_changed_is_another(name: str) -> None:
    text = GOLDEN[name]
    changes = [
        (" + ", " - "),
        (" * ", " / "),
        (" < ", " <= "),
        ("fmaf(", "fmaxf("),
        ("__syncthreads()", "__syncwarp()"),
    ]
    code, kept = re.sub(r"//[^\n]*", "", text), canonical(text).text
    # Other operations are in unused functions.
    changes = [(old, new) for old, new in changes if old in code and old.strip(" ()") in kept.split()]
    assert changes
    for old, new in changes:
        assert any(canonical(other).text != kept for other in _with_one_changed(code, old, new))


def _with_one_changed(code: str, old: str, new: str) -> Iterator[str]:
    """Texts with one occurrence of `old` changed, the last one first: it is in a kernel, or in an unused function."""
    parts = code.split(old)
    for place in range(len(parts) - 1, 0, -1):
        yield old.join(parts[:place]) + new + old.join(parts[place:])
