"""Texture objects of the host device against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from warpsmith.devices.host.descriptors import AddressMode, ChannelFormat, TextureDescriptor

RANDOM = np.random.default_rng(13)
ROWS, COLUMNS, PITCH = 5, 7, 48

READ_2D = """
extern "C" __global__ void kernel(cudaTextureObject_t image, const float2* at, T* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex2D<T>(image, at[i].x, at[i].y);
}
"""
MODES = {AddressMode.WRAP: "wrap", AddressMode.CLAMP: "edge", AddressMode.MIRROR: "symmetric"}


@pytest.fixture
def image():
    """Rows of 7 texels, 48 bytes apart. The bytes between rows are not part of the texture."""
    padded = np.full((ROWS, PITCH // 4), np.nan, np.float32)
    padded[:, :COLUMNS] = RANDOM.random((ROWS, COLUMNS))
    return padded


def describe(array: np.ndarray, **changes) -> TextureDescriptor:
    return TextureDescriptor(
        data=array.ctypes.data,
        width=COLUMNS,
        height=ROWS,
        pitch=array.strides[0],
        channels=1,
        bits=32,
        format=ChannelFormat.FLOAT,
        **changes,
    )


def padded_by_numpy(image: np.ndarray, mode: AddressMode, border: float, margin: int) -> np.ndarray:
    texels = image[:, :COLUMNS].astype(np.float64)
    if mode is AddressMode.BORDER:
        return np.pad(texels, margin, constant_values=border)
    return np.pad(texels, margin, mode=MODES[mode])


@pytest.mark.parametrize("mode", list(AddressMode))
@pytest.mark.parametrize("linear", [0, 1], ids=["point", "linear"])
def test_every_address_mode(run_kernel, image, mode, linear):
    margin, n = 16, 3000
    # Coordinates on the hardware's grid of 1/256 texel, up to two images outside on every side.
    u = RANDOM.integers(-10 * 256, (COLUMNS + 10) * 256, n) / 256
    v = RANDOM.integers(-10 * 256, (ROWS + 10) * 256, n) / 256
    normalized = mode in (AddressMode.WRAP, AddressMode.MIRROR)
    at = np.stack([u, v], axis=1).astype(np.float32)
    if normalized:
        # A margin of half a grid step, so that a rounded quotient does not reach the next texel.
        at = np.stack([(u + 2**-10) / COLUMNS, (v + 2**-10) / ROWS], axis=1).astype(np.float32)
    texture = describe(image, address=(mode, mode), linear=linear, normalized_coordinates=normalized, border=(0.25,))
    out = np.zeros(n, np.float32)
    source = READ_2D.replace("T*", "float*").replace("<T>", "<float>")
    run_kernel(source, np.uint64(texture.handle), at, out, np.int32(n), grid=(-(-n // 128), 1, 1), block=(128, 1, 1))

    texels = padded_by_numpy(image, mode, 0.25, margin)
    if linear:
        u, v = u - 0.5, v - 0.5
    i, j = np.floor(u).astype(int), np.floor(v).astype(int)
    a, b = (u - i, v - j) if linear else (np.zeros(n), np.zeros(n))
    row, column = j + margin, i + margin
    expected = (1 - b) * ((1 - a) * texels[row, column] + a * texels[row, column + 1])
    expected += b * ((1 - a) * texels[row + 1, column] + a * texels[row + 1, column + 1])
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_wrap_without_normalized_coordinates_clamps_as_on_a_gpu(run_kernel, image):
    texture = describe(image, address=(AddressMode.WRAP, AddressMode.MIRROR))
    at = np.array([[-3, 2], [COLUMNS + 4, ROWS + 4]], np.float32)
    out = np.zeros(2, np.float32)
    source = READ_2D.replace("T*", "float*").replace("<T>", "<float>")
    run_kernel(source, np.uint64(texture.handle), at, out, np.int32(2), block=(2, 1, 1))
    assert out.tolist() == [image[2, 0], image[ROWS - 1, COLUMNS - 1]]


@pytest.mark.parametrize(("dtype", "scale"), [(np.uint8, 255), (np.int8, 127), (np.uint16, 65535), (np.int16, 32767)])
def test_normalized_reads_of_integers(run_kernel, dtype, scale):
    limits = np.iinfo(dtype)
    image = RANDOM.integers(limits.min, limits.max, (ROWS, COLUMNS), dtype, endpoint=True)
    image[0, 0] = limits.min
    unsigned = np.issubdtype(dtype, np.unsignedinteger)
    texture = describe(image, address=(AddressMode.CLAMP, AddressMode.CLAMP), normalized_float=1)
    texture.bits, texture.format = limits.bits, ChannelFormat.UNSIGNED if unsigned else ChannelFormat.SIGNED
    rows, columns = np.indices(image.shape)
    at = np.stack([columns.ravel() + 0.5, rows.ravel() + 0.5], axis=1).astype(np.float32)
    out = np.zeros(image.size, np.float32)
    source = READ_2D.replace("T*", "float*").replace("<T>", "<float>")
    run_kernel(source, np.uint64(texture.handle), at, out, np.int32(image.size), block=(image.size, 1, 1))
    expected = np.maximum(image.ravel().astype(np.float64) / scale, -1)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_four_channels_as_stored(run_kernel):
    image = RANDOM.integers(0, 256, (ROWS, COLUMNS, 4), np.uint8)
    texture = describe(image)
    texture.bits, texture.channels, texture.format = 8, 4, ChannelFormat.UNSIGNED
    at = np.array([[3, 1], [6, 4]], np.float32)
    out = np.zeros((2, 4), np.uint8)
    source = READ_2D.replace("T*", "uchar4*").replace("<T>", "<uchar4>")
    run_kernel(source, np.uint64(texture.handle), at, out, np.int32(2), block=(2, 1, 1))
    np.testing.assert_array_equal(out, [image[1, 3], image[4, 6]])


def test_fetches_from_linear_memory(run_kernel):
    values = RANDOM.integers(0, 256, 32).astype(np.uint8)
    texture = TextureDescriptor(
        data=values.ctypes.data, width=32, height=1, pitch=32, channels=1, bits=8, format=ChannelFormat.UNSIGNED
    )
    texture.normalized_float = 1
    out = np.full(40, -1, np.float32)
    run_kernel(
        """
        extern "C" __global__ void kernel(cudaTextureObject_t values, float* out) {
            out[threadIdx.x] = tex1Dfetch<float>(values, int(threadIdx.x) - 4);
        }
        """,
        np.uint64(texture.handle),
        out,
        block=(40, 1, 1),
    )
    np.testing.assert_allclose(out, np.pad(values / 255, 4), rtol=1e-6)
