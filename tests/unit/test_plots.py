"""Plots: well-formed, complete, the same each time, and refused in one line without Matplotlib."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from warpsmith.cli.app import run
from warpsmith.tuner.plots import ImageFormat, PlotLine, plot_comparison, plot_sweep

matplotlib = pytest.importorskip("matplotlib")

LINES = (
    PlotLine("global to register", ((1, 4e5), (2, 3e5), (12, 1.7e5))),
    PlotLine("texture to register", ((1, 5e5), (16, 1.8e5))),
    PlotLine("global without prefetch", ((1, 3.8e5),)),
    PlotLine("asynchronous copies to shared", ()),
)
COPIES = PlotLine("copy", ((0, 1.6e5), (1, 1.6e5)))


def sweep_svg() -> bytes:
    return plot_sweep("3x3 filter", LINES, 1.66e5, ImageFormat.SVG)


def comparison_svg() -> bytes:
    lines = (PlotLine("warpsmith", ((0, 1.7e5), (1, 1.8e5))), PlotLine("cupy 14 <ndimage> & more", ((1, 1.3e6),)))
    return plot_comparison("an image", "size", ("2x2", "3x3"), lines, COPIES, ImageFormat.SVG)


def drawn(svg: bytes) -> set[str]:
    """The identifiers of the lines."""
    return {name for each in ElementTree.fromstring(svg).iter() if (name := each.get("id", "")).startswith("line-")}


def texts(svg: bytes) -> set[str]:
    return {each.text or "" for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}


def test_a_sweep_has_one_line_a_path_and_the_copy() -> None:
    svg = sweep_svg()
    assert drawn(svg) == {
        "line-global-to-register",
        "line-texture-to-register",
        "line-global-without-prefetch",
        "line-asynchronous-copies-to-shared",
        "line-copy",
    }
    assert {line.name for line in LINES} | {"copy", "3x3 filter", "outputs per thread", "time (us)"} <= texts(svg)
    assert {"1", "2", "4", "8", "16"} <= texts(svg)


def test_a_sweep_whose_copy_failed_has_no_level() -> None:
    svg = plot_sweep("title", LINES, None, ImageFormat.SVG)
    assert "line-copy" not in drawn(svg)
    assert len(drawn(svg)) == len(LINES)


def test_a_comparison_has_one_line_a_library() -> None:
    svg = comparison_svg()
    assert drawn(svg) == {"line-warpsmith", "line-cupy-14--ndimage----more", "line-copy"}
    assert {"2x2", "3x3", "warpsmith", "cupy 14 <ndimage> & more", "size", "time (us)", "1000"} <= texts(svg)


@pytest.mark.parametrize("draw", [sweep_svg, comparison_svg])
def test_the_same_numbers_give_the_same_file_whatever_the_user_has_set(draw: object) -> None:
    assert callable(draw)
    first = draw()
    assert b"dc:date" not in first
    with matplotlib.rc_context({"svg.fonttype": "path", "font.size": 20, "axes.facecolor": "red"}):
        assert draw() == first


def test_png() -> None:
    assert plot_sweep("title", LINES, 1e5, ImageFormat.PNG).startswith(b"\x89PNG\r\n")
    assert plot_comparison("title", "size", ("2x2", "3x3"), (), COPIES, ImageFormat.PNG).startswith(b"\x89PNG\r\n")


def test_without_matplotlib_nothing_is_measured_for_a_plot(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("warpsmith.tuner.plots.find_spec", lambda _: None)
    monkeypatch.setattr("warpsmith.cli.benching.compare", lambda *_: pytest.fail("it measured"))
    plot = tmp_path / "a.svg"
    assert run(["bench", "filter2d", "--image", "16x40", "--device", "host", "--plot", str(plot)]) == 1
    assert capsys.readouterr().err == ('warpsmith: error: a plot needs Matplotlib: pip install "warpsmith[plots]"\n')
    assert not plot.exists()
