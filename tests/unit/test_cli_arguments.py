"""Invalid arguments: one line on standard error, exit code 2 or 1, nothing left behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from warpsmith.cli.app import run
from warpsmith.devices.cuda.available import cuda_device_count
from warpsmith.generator.registry import FAMILIES
from warpsmith.store.location import own_store

SHAPE = ("--image", "64x64", "--filter", "3x3")
without_gpu = pytest.mark.skipif(cuda_device_count() > 0, reason="a GPU is here")
Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command without and with --json, which must both be refused alike; returns the line."""

    def call(code: int, *arguments: object) -> str:
        words = [str(argument) for argument in arguments]
        assert run(words) == code
        plain = capsys.readouterr()
        assert plain.out == ""
        assert run([*words, "--json"]) == code
        beside_json = capsys.readouterr()
        assert beside_json.err == plain.err
        (line,) = plain.err.splitlines()
        assert line.startswith("warpsmith: error: ")
        told = line.removeprefix("warpsmith: error: ")
        assert json.loads(beside_json.out) == {"error": told, "exit_code": code}
        assert not own_store().exists()
        return told

    return call


COMMANDS = ("tune", "query", "verify", "explain")
"""Commands that take a problem; all read its options under the same names."""
BAD_PROBLEMS: Sequence[tuple[tuple[str, ...], str]] = [
    (("--image", "0x64", "--filter", "3x3"), "image must be"),
    (("--image", "64x64", "--filter", "3x0"), "filter must be"),
    (("--image", "-64x64", "--filter", "3x3"), "must be ROWSxCOLUMNS, such as 512x512; got '-64x64'"),
    (("--image=64x-64", "--filter", "3x3"), "must be ROWSxCOLUMNS"),
    (("--image", "512", "--filter", "3x3"), "--image must be ROWSxCOLUMNS"),
    (("--image", "512x", "--filter", "3x3"), "--image must be ROWSxCOLUMNS"),
    (("--image", "64x64x3", "--filter", "3x3"), "--image must be ROWSxCOLUMNS"),
    (("--image", "64x64", "--filter", "axb"), "--filter must be ROWSxCOLUMNS"),
    (("--image", "", "--filter", "3x3"), "--image must be ROWSxCOLUMNS"),
    (("--image", f"{10**30}x3", "--filter", "3x3"), "image must be"),
    (("--image", "64000x64000", "--filter", "3x3"), "split the batch"),
    (("--image", "64x64", "--filter", "65x3"), "the filter (65x3) is larger than the image (64x64)"),
    ((*SHAPE, "--border", "torus"), "unknown border 'torus'; choose one of valid, constant, nearest"),
    ((*SHAPE, "--accuracy", "bitwise"), "unknown accuracy 'bitwise'; choose one of elementwise, normwise, imagewise"),
    ((*SHAPE, "--nonfinite", "all"), "unknown nonfinite 'all'; choose one of window, any"),
    ((*SHAPE, "--dtype", "float8"), "unknown dtype 'float8'; choose one of float32"),
    ((*SHAPE, "--planes", "0"), "planes must be 1 or more; got 0"),
    ((*SHAPE, "--planes", "-1"), "planes must be 1 or more; got -1"),
    ((*SHAPE, "--planes", "many"), "'--planes'"),
    ((*SHAPE, "--cval", "grey"), "'--cval'"),
    ((*SHAPE, "--border", "constant", "--cval", "nan"), "cval must be finite"),
    ((*SHAPE, "--border", "constant", "--cval", "1e300"), "cval must be finite"),
    ((*SHAPE, "--device", "tpu"), "unknown device 'tpu'; choose auto, host, cuda"),
    ((*SHAPE, "--wieghts", "w.npy"), "No such option: --wieghts"),
    ((*SHAPE, "more"), "(more)"),
    (("--image", "64x64"), "Missing option '--filter'"),
]


@pytest.mark.parametrize(
    ("command", "options", "why"), [(COMMANDS[n % 4], *each) for n, each in enumerate(BAD_PROBLEMS)]
)
def test_problem(refused: Refused, command: str, options: tuple[str, ...], why: str) -> None:
    assert why in refused(2, command, "filter2d", *options)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--trials", "0"), "'--trials'"),
        (("--trials", "few"), "'--trials'"),
        (("--time-limit", "soon"), "a time limit must be a number of seconds, or like 90s, 5m or 2h; got 'soon'"),
        (("--time-limit", "-5"), "a time limit must be a number"),
        (("--time-limit", "5d"), "a time limit must be a number"),
        (("--time-limit", "nan"), "a time limit must be a number"),
        (("--time-limit", "0s"), "a time limit must be above 0"),
        (("--effort", "heroic"), "unknown effort 'heroic'; choose one of quick, normal, full"),
        (("--effort", "heroic", "--trials", "1"), "unknown effort 'heroic'"),
        (("--compiler", "icc"), "unknown compiler 'icc'; choose one of auto, nvrtc, nvcc, pycuda, host"),
        (("--sampler", "nsga"), "unknown sampler 'nsga'; choose one of additive, tpe, gp, cmaes, random"),
        (("--compiler", "nvcc"), "nvcc does not compile for the host; choose host"),
        (("--seed", "-1"), "'--seed'"),
        (("--seed", 2**32), "a seed must be 0 to 4294967295; got 4294967296"),
    ],
)
def test_search(refused: Refused, options: tuple[str, ...], why: str) -> None:
    assert why in refused(2, "tune", "filter2d", *SHAPE, "--device", "host", *options)


def test_filter_that_no_family_takes(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    for family in FAMILIES:
        monkeypatch.setattr(type(family), "why_not", lambda *_: "takes nothing today")
    for command in COMMANDS:
        message = refused(2, command, "filter2d", *SHAPE, "--device", "host")
        assert "no kernel family solves filter2d image=64x64 filter=3x3" in message


BORDERED = (*SHAPE, "--border", "mirror")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((*SHAPE, "--result-dtype", "int8"), "unknown result dtype 'int8'; choose one of float32, float16, uint8"),
        ((*SHAPE, "--channels", "5"), "channels must be 1 to 4; got 5"),
        ((*SHAPE, "--channels", "0"), "channels must be 1 to 4; got 0"),
        ((*SHAPE, "--filters", "0"), "filters must be 1 or more; got 0"),
        ((*SHAPE, "--filters", "268435456"), "the weights have 2^31 taps or more"),
        ((*BORDERED, "--anchor", "1"), "--anchor must be ROW,COLUMN, such as 1,0; got '1'"),
        ((*BORDERED, "--anchor", "1x1"), "--anchor must be ROW,COLUMN"),
        ((*BORDERED, "--anchor", "3,0"), "the anchor must be a row and a column of the 3x3 filter; got (3, 0)"),
        ((*BORDERED, "--anchor", "0,-1"), "the anchor must be a row and a column of the 3x3 filter; got (0, -1)"),
        ((*BORDERED, "--origin", "middle"), "--origin must be ROW,COLUMN"),
        (
            (*BORDERED, "--origin", "0,2"),
            "--origin 0,2 lies outside the 3x3 filter; its rows go from -1 to 1, its columns from -1 to 1",
        ),
        ((*BORDERED, "--origin", "0,0", "--anchor", "1,1"), "--anchor and --origin both set the anchor"),
        ((*SHAPE, "--anchor", "0,0"), "an anchor has no meaning with border valid"),
        ((*SHAPE, "--origin", "1,0"), "an anchor has no meaning with border valid"),
        ((*SHAPE, "--pitch", "255"), "pitch must be 256 bytes or more, in steps of 4; got 255"),
        ((*SHAPE, "--pitch", "258"), "pitch must be 256 bytes or more, in steps of 4; got 258"),
        ((*SHAPE, "--result-pitch", "244"), "result pitch must be 248 bytes or more, in steps of 4; got 244"),
        ((*SHAPE, "--dtype", "float16", "--pitch", "128.5"), "'--pitch'"),
        ((*SHAPE, "--border", "transparent"), "unknown border 'transparent'; choose one of valid, constant, nearest"),
    ],
)
def test_layout(refused: Refused, options: tuple[str, ...], why: str) -> None:
    assert why in refused(2, "query", "filter2d", *options, "--device", "host")


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (("--border", "BORDER_REPLICATE"), "border=nearest"),
        (("--border", "reflect101"), "border=mirror"),
        (("--border", "edge"), "border=nearest"),
        (("--border", "symmetric"), "border=reflect"),
        (("--border", "circular"), "border=wrap"),
        (("--border", "BORDER_REFLECT_101"), "border=mirror"),
        (("--border", "BORDER_REFLECT"), "border=reflect"),
        (("--border", "grid-mirror"), "border=reflect"),
        (("--border", "wrap", "--origin", "-1,1"), "border=wrap anchor=0,2"),
        (("--border", "wrap", "--origin", "0,0"), "border=wrap"),
        (("--border", "wrap", "--convolve", "--anchor", "2,1"), "border=wrap convolve=yes anchor=2,1"),
        (("--dtype", "uint8", "--result-dtype", "float16"), "dtype=uint8 border=valid result_dtype=float16"),
        (("--channels", "3", "--pitch", "1024", "--result-pitch", "768"), "channels=3 pitch=1024 result_pitch=768"),
        (("--filters", "4"), "border=valid filters=4"),
        (("--accuracy", "normwise"), "border=valid accuracy=normwise"),
        (("--accuracy", "imagewise"), "border=valid accuracy=imagewise"),
        (("--accuracy", "elementwise"), "border=valid"),
        (("--nonfinite", "any"), "border=valid nonfinite=any"),
        (("--nonfinite", "window"), "border=valid"),
    ],
)
def test_options_that_fit_are_part_of_the_problem(refused: Refused, options: tuple[str, ...], key: str) -> None:
    assert f"{key}; run `warpsmith tune" in refused(3, "query", "filter2d", *SHAPE, *options, "--device", "host")


def test_the_origin_of_an_even_filter_is_counted_as_in_scipy(refused: Refused) -> None:
    shape = ("--image", "9x9", "--filter", "4x2", "--border", "wrap", "--device", "host")
    assert "anchor=0,0;" in refused(3, "query", "filter2d", *shape, "--origin", "-2,-1")
    message = refused(2, "query", "filter2d", *shape, "--origin", "2,0")
    assert "its rows go from -2 to 1, its columns from -1 to 0" in message


class TestWeights:
    @pytest.mark.parametrize(
        ("array", "why"),
        [
            (np.ones((9, 1)), "holds an array of shape (9, 1); a filter of 3x3 needs (3, 3)"),
            (np.ones(8), "holds an array of shape (8,)"),
            (np.ones(()), "holds an array of shape ()"),
            (np.ones((2, 3, 4)), "holds an array of shape (2, 3, 4); 2 filters of 3x3 need (2, 3, 3)"),
            (np.ones((0, 3, 3)), "holds an array of shape (0, 3, 3); a filter of 3x3 needs (3, 3)"),
            (np.ones(18), "holds an array of shape (18,); a filter of 3x3 needs (3, 3)"),
            (np.ones((1, 1, 3, 3)), "holds an array of shape (1, 1, 3, 3)"),
            (np.full((3, 3), np.nan), "weights must be finite"),
            (np.full((3, 3), -np.inf), "weights must be finite"),
            (np.full((3, 3), 1e300), "weights must be finite"),
            (np.ones((3, 3), complex), "must hold real numbers; it holds complex128"),
            (np.full((3, 3), "one"), "must hold real numbers"),
        ],
        ids=str,
    )
    def test_of_another_kind(
        self, refused: Refused, tmp_path: Path, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], why: str
    ) -> None:
        path = tmp_path / "w.npy"
        np.save(path, array)
        assert why in refused(2, "query", "filter2d", *SHAPE, "--weights", path)

    def test_of_the_transposed_shape(self, refused: Refused, tmp_path: Path) -> None:
        path = tmp_path / "w.npy"
        np.save(path, np.ones((5, 3)))
        message = refused(2, "query", "filter2d", "--image", "64x64", "--filter", "3x5", "--weights", path)
        assert "a filter of 3x5 needs (3, 5)" in message

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"1 0 -1\n2 0 -2\n1 0 -1\n",
            b"PK\x03\x04, but no more of a zip file",
            b"\x93NUMPY\x01",
            b"\x93NUMPY\x01\x00\x10\x00{'descr': (((   ",
            b"\x93NUMPY\x09\x00\x10\x00{'descr': (((   ",
        ],
    )
    def test_in_no_array_file(self, refused: Refused, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "w.npy"
        path.write_bytes(content)
        message = refused(2, "query", "filter2d", *SHAPE, "--weights", path)
        assert str(path) in message
        assert "numpy.save" in message

    def test_in_a_file_that_announces_more_than_memory_holds(self, refused: Refused, tmp_path: Path) -> None:
        path = tmp_path / "w.npy"
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**15},), }}".ljust(117) + "\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        assert str(path) in refused(2, "query", "filter2d", *SHAPE, "--weights", path)

    def test_pickled_are_not_unpickled(self, refused: Refused, tmp_path: Path) -> None:
        path = tmp_path / "w.npy"
        np.save(path, np.array([_Trap(tmp_path / "sprung")] * 9, dtype=object), allow_pickle=True)
        assert "allow_pickle=False" in refused(2, "query", "filter2d", *SHAPE, "--weights", path)
        assert not (tmp_path / "sprung").exists()

    def test_missing(self, refused: Refused, tmp_path: Path) -> None:
        message = refused(2, "query", "filter2d", *SHAPE, "--weights", tmp_path / "none.npy")
        assert message == f"cannot read the weights {tmp_path / 'none.npy'}: No such file or directory"
        assert "Is a directory" in refused(2, "query", "filter2d", *SHAPE, "--weights", tmp_path)

    @pytest.mark.parametrize("shape", [(3, 3), (9,)])
    def test_that_fit_are_part_of_the_problem(self, refused: Refused, tmp_path: Path, shape: tuple[int, ...]) -> None:
        path = tmp_path / "w.npy"
        np.save(path, np.arange(9).reshape(shape, order="C"))
        message = refused(3, "query", "filter2d", *SHAPE, "--weights", path, "--device", "host")
        assert "weights=sha256:eb5e38fa46a224f6" in message

    @pytest.mark.parametrize("shape", [(2, 3, 3), (18,)])
    def test_of_a_bank(self, refused: Refused, tmp_path: Path, shape: tuple[int, ...]) -> None:
        path = tmp_path / "w.npy"
        np.save(path, np.arange(18).reshape(shape))
        asked = ("query", "filter2d", *SHAPE, "--weights", path, "--device", "host")
        told = refused(3, *asked, "--filters", 2)
        assert "filters=2 weights=sha256:" in told
        if len(shape) == 3:
            assert refused(3, *asked) == told
        assert f"holds an array of shape {shape}; 3 filters of 3x3 need (3, 3, 3)" in refused(2, *asked, "--filters", 3)
        assert f"holds an array of shape {shape}; a filter of 3x3 needs" in refused(2, *asked, "--filters", 1)

    def test_of_one_filter_for_several(self, refused: Refused, tmp_path: Path) -> None:
        path = tmp_path / "w.npy"
        np.save(path, np.ones((3, 3)))
        message = refused(2, "query", "filter2d", *SHAPE, "--weights", path, "--filters", 2)
        assert message == f"{path} holds an array of shape (3, 3); 2 filters of 3x3 need (2, 3, 3)"
        assert "filters must be 1 or more" in refused(2, "query", "filter2d", *SHAPE, "--weights", path, "--filters", 0)


class _Trap:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self._path,)


class TestCommands:
    @pytest.mark.parametrize("arguments", [("tuna",), ("tune", "fft3d"), ("db", "drop"), ("--frobnicate",)])
    def test_unknown(self, refused: Refused, arguments: tuple[str, ...]) -> None:
        assert arguments[-1] in refused(2, *arguments)

    @pytest.mark.parametrize("arguments", [(), ("tune",), ("query",), ("verify",), ("explain",), ("bench",), ("db",)])
    def test_named_alone_show_their_help(self, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
        assert run(list(arguments)) == 2
        shown = capsys.readouterr()
        assert "Usage: warpsmith" in shown.out
        assert "Commands" in shown.out
        assert shown.err == "warpsmith: error: name one of the commands above\n"

    @pytest.mark.parametrize("command", COMMANDS)
    def test_named_alone_with_json(self, capsys: pytest.CaptureFixture[str], command: str) -> None:
        assert run([command, "--json"]) == 2
        assert json.loads(capsys.readouterr().out)["exit_code"] == 2

    def test_option_without_its_value(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["query", "filter2d", *SHAPE, "--border"]) == 2
        assert capsys.readouterr() == ("", "warpsmith: error: Option '--border' requires an argument.\n")

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            (("--filter", "3x3", "--image", "2x2"), "the filter (3x3) is larger than the image (2x2)"),
            (("--image", "6x6"), "the filter (7x7) is larger than the image (6x6)"),
            (("--filter", "3x3", "--filter", "5"), "--filter must be ROWSxCOLUMNS"),
            (("--border", "torus"), "unknown border 'torus'"),
        ],
    )
    def test_bench(self, refused: Refused, options: tuple[str, ...], why: str) -> None:
        assert why in refused(2, "bench", "filter2d", "--device", "host", *options)

    def test_explain_of_fewer_than_no_trials(self, refused: Refused) -> None:
        assert "'--top'" in refused(2, "explain", "filter2d", *SHAPE, "--top", "-1")


class TestDevices:
    @without_gpu
    @pytest.mark.parametrize("command", ["tune", "query", "verify", "explain", "bench"])
    def test_gpu_that_is_not_there(self, refused: Refused, tmp_path: Path, command: str) -> None:
        store = ("--store", tmp_path / "new" / "a.db") if command == "tune" else ()
        assert "the device host" in refused(1, command, "filter2d", *SHAPE, "--device", "cuda:0", *store)
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize("command", ["tune", "verify"])
    def test_no_compiler(self, refused: Refused, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str) -> None:
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        message = refused(1, command, "filter2d", *SHAPE, "--device", "host")
        assert "apt-get install g++" in message

    def test_compiler_that_is_none(self, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", "no-such-compiler")
        message = refused(1, "tune", "filter2d", *SHAPE, "--device", "host")
        assert "CXX names 'no-such-compiler'" in message
        monkeypatch.setenv("CXX", "false")
        assert "is no working C++ compiler" in refused(1, "tune", "filter2d", *SHAPE, "--device", "host")
