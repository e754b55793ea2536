"""Invalid problem arguments: one line names the argument and the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpsmith.errors import BadArgument
from warpsmith.generator.filter2d.problem import Border, Filter2d


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"image": (0, 8)}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 0x8"),
            ({"image": (8, -1)}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 8x-1"),
            ({"image": (8,)}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 8"),
            ({"image": (8, 8, 8)}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 8x8x8"),
            ({"image": (8, 8.0)}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 8x8.0"),
            ({"image": 512}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 512"),
            ({"image": (1, 2**30)}, r"image must be two positive sizes below 2\^30"),
            ({"filter": (3, 0)}, r"filter must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 3x0"),
            ({"filter": (-3, 3)}, r"filter must be two positive sizes below 2\^30, ROWSxCOLUMNS; got -3x3"),
            ({"filter": (9, 1)}, r"the filter \(9x1\) is larger than the image \(8x8\)"),
            ({"filter": (1, 9)}, r"the filter \(1x9\) is larger than the image \(8x8\)"),
            ({"filter": (1, 9)}, "choose a border other than valid"),
            ({"planes": 0}, "planes must be 1 or more; got 0"),
            ({"planes": -2}, "planes must be 1 or more; got -2"),
            ({"planes": 1.0}, r"planes must be 1 or more; got 1\.0"),
            ({"planes": "2"}, "planes must be 1 or more; got '2'"),
            ({"filters": 0}, "filters must be 1 or more; got 0"),
            ({"filters": None}, "filters must be 1 or more; got None"),
            ({"channels": 0}, "channels must be 1 to 4; got 0"),
            ({"channels": 5}, "channels must be 1 to 4; got 5"),
            ({"channels": 2.0}, r"channels must be 1 to 4; got 2\.0"),
            ({"dtype": "float99"}, "unknown dtype 'float99'; choose one of float32, float16, uint8"),
            ({"dtype": None}, "unknown dtype None; choose one of float32"),
            ({"result_dtype": "int8"}, "unknown result dtype 'int8'; choose one of float32, float16, uint8"),
            (
                {"border": "torus"},
                "unknown border 'torus'; choose one of valid, constant, nearest, reflect, mirror, wrap, or by another "
                r"name zeros \(constant\), grid-constant \(constant\), edge \(nearest\), "
                r"replicate \(nearest\), symmetric \(reflect\), grid-mirror \(reflect\), reflect101 \(mirror\)",
            ),
            ({"border": "BORDER_TRANSPARENT"}, "unknown border 'transparent'; choose one of valid"),
            ({"border": "grid-nearest"}, "unknown border 'grid-nearest'"),
            ({"border": None}, "unknown border 'none'"),
            ({"anchor": (1, 1)}, "an anchor has no meaning with border valid"),
            ({"anchor": (3, 0), "border": "wrap"}, r"a row and a column of the 3x3 filter; got \(3, 0\)"),
            ({"anchor": (0, -1), "border": "wrap"}, r"a row and a column of the 3x3 filter; got \(0, -1\)"),
            ({"anchor": (0,), "border": "wrap"}, r"a row and a column of the 3x3 filter; got \(0,\)"),
            ({"anchor": (0, 1, 2), "border": "wrap"}, r"a row and a column of the 3x3 filter; got \(0, 1, 2\)"),
            ({"anchor": (0, 1.0), "border": "wrap"}, r"a row and a column of the 3x3 filter; got \(0, 1\.0\)"),
            ({"anchor": 4, "border": "wrap"}, "a row and a column of the 3x3 filter; got 4"),
            ({"pitch": 28}, "pitch must be 32 bytes or more, in steps of 4; got 28"),
            ({"pitch": 34}, "pitch must be 32 bytes or more, in steps of 4; got 34"),
            ({"pitch": 36.0}, r"pitch must be 32 bytes or more, in steps of 4; got 36\.0"),
            ({"pitch": "36"}, "pitch must be 32 bytes or more, in steps of 4; got '36'"),
            ({"image": (1, 8), "filter": (1, 3), "pitch": 2**33}, "pitch must be 32 bytes or more, in steps of 4"),
            ({"pitch": 64, "channels": 3}, "pitch must be 96 bytes or more, in steps of 4; got 64"),
            ({"result_pitch": 23}, "result pitch must be 24 bytes or more, in steps of 4; got 23"),
            ({"result_pitch": 11, "result_dtype": "float16"}, "result pitch must be 12 bytes or more, in steps of 2"),
            ({"weights": "123456789"}, "weights hold 1 values; a filter of 3x3 needs 9"),
            ({"weights": ("x",) * 9}, "weights must be numeric; got 'x'"),
            ({"weights": (1j,) * 9}, "weights must be numeric; got 1j"),
            ({"weights": np.ones(9, np.complex64)}, "weights must be numeric; got"),
            ({"weights": np.array(1.0)}, "weights hold 1 values"),
            ({"weights": 1.0, "filter": (1, 1)}, "weights must be flat, or 1 rows of 1 values for each filter"),
            ({"weights": [[1, 2, 3], [4, 5], [6, 7, 8, 9]]}, "weights must be flat, or 3 rows of 3 values"),
            ({"weights": np.ones((3, 3)), "filters": 2}, "weights hold 9 values; 2 filters of 3x3 need 18"),
            ({"weights": np.ones((3, 6)), "filters": 2}, "weights must be flat, or 3 rows of 3 values for each filter"),
            ({"border": "constant", "cval": "grey"}, "cval must be numeric; got 'grey'"),
            ({"filters": 2**28}, r"the weights have 2\^31 taps or more: no filter is so large"),
            ({"weights": (1.0,) * 8}, "weights hold 8 values; a filter of 3x3 needs 9"),
            ({"weights": np.ones((3, 4))}, "weights hold 12 values; a filter of 3x3 needs 9"),
            ({"weights": ()}, "weights hold 0 values; a filter of 3x3 needs 9"),
            ({"weights": (float("nan"),) * 9}, "weights must be finite"),
            ({"weights": (float("-inf"),) * 9}, "weights must be finite"),
            ({"image": (65536, 32768)}, r"the image spans 2\^31 elements or more; split the batch"),
            ({"image": (1024, 1024), "planes": 2048}, r"the image spans 2\^31 elements or more"),
            ({"image": (32768, 16384), "channels": 4}, r"the image spans 2\^31 elements or more"),
            ({"image": (32768, 16384), "pitch": 2**19}, r"the image spans 2\^31 elements or more"),
            ({"image": (32768, 16384), "filters": 5}, r"the result spans 2\^31 elements or more"),
            ({"image": (32768, 16384), "result_pitch": 2**19}, r"the result spans 2\^31 elements or more"),
        ],
    )
    def test_one_line_says_what_is_wrong(self, fields: dict[str, Any], says: str) -> None:
        with pytest.raises(BadArgument, match=says) as caught:
            Filter2d(**{"image": (8, 8), "filter": (3, 3), **fields})
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("value", [1e39, -1e39])
    def test_a_number_that_float32_cannot_hold(self, value: float) -> None:
        with pytest.raises(BadArgument, match="weights must be finite"):
            Filter2d(image=(8, 8), filter=(1, 1), weights=(value,))
        with pytest.raises(BadArgument, match="cval must be finite"):
            Filter2d(image=(8, 8), filter=(1, 1), border=Border.CONSTANT, cval=value)

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_a_border_value_that_is_no_number(self, value: float) -> None:
        with pytest.raises(BadArgument, match="cval must be finite"):
            Filter2d(image=(8, 8), filter=(1, 1), border=Border.CONSTANT, cval=value)

    def test_weights_of_another_shape_with_as_many_values(self) -> None:
        with pytest.raises(BadArgument, match="weights"):
            Filter2d(image=(8, 8), filter=(3, 5), weights=np.ones((5, 3)))  # type: ignore[arg-type]

    def test_a_filter_may_be_as_large_as_its_taps_can_be_counted(self) -> None:
        assert Filter2d(image=(1, 1), filter=(2, 2**30 - 1), border="wrap").operands[1].nbytes == 2**33 - 8
        with pytest.raises(BadArgument, match="the weights have 2\\^31 taps or more"):
            Filter2d(image=(1, 1), filter=(4, 2**29), border="wrap")
        with pytest.raises(BadArgument, match="the weights have 2\\^31 taps or more"):
            Filter2d(image=(8, 8), filter=(8, 8), filters=2**25)

    @pytest.mark.parametrize("border", [border for border in Border if border is not Border.VALID])
    def test_a_border_makes_room_for_any_filter(self, border: Border) -> None:
        assert Filter2d(image=(1, 2), filter=(5, 9), border=border).output.shape == (1, 2)

    def test_the_largest_image_is_just_short_of_2_to_the_31_pixels(self) -> None:
        assert Filter2d(image=(2, 2**30 - 1), filter=(1, 1)).output.size == 2**31 - 2
