// warpsmith filter2d_fft
// problem: filter2d image=60x71 filter=7x8 planes=1 dtype=float16 border=reflect accuracy=imagewise
//          weights=sha256:8a1835bcfa5a35b4
// config:  blocks=0 buffers=1 column_threads=32 columns=4 min_blocks=2 pairs=2 partners=adjacent path=global
//          row_threads=32 rows=4 store=plain twiddles=table weights=argument x_radices=4x8 y_radices=4x6
//
// Overlap-save: tiles of 24 x 32 pixels, 18 x 25 results.
// Two tiles are one complex tile in the workspace, 2 of them per chunk. A block transforms
// rows or columns in shared memory, a barrier between passes: rows first, then columns, the product with
// the filter's spectrum, the inverse of the columns, and the inverse of the rows. All passes are in place.

constexpr int kRows = 60;  // rows of one plane of the image
constexpr int kColumns = 71;
constexpr int kChannels = 1;  // interleaved elements of a pixel
constexpr int kPitch = 71;  // elements from one row to the next
constexpr int kFilters = 1;
constexpr int kFilterRows = 7;
constexpr int kFilterColumns = 8;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 71;
constexpr int kBeforeRows = 3;  // rows of a window above its output pixel
constexpr int kBeforeColumns = 4;  // columns of a window left of it

using Pixel = unsigned short;  // fp16 bits
using Result = unsigned short;  // fp16 bits

static_assert(kChannels == 1, "columns are elements");

constexpr int kTileRows = 24;  // pixels before the transform, frequencies after it
constexpr int kTileColumns = 32;
constexpr int kTileValidRows = kTileRows - kFilterRows + 1;  // rows of results per tile
constexpr int kTileValidColumns = kTileColumns - kFilterColumns + 1;
constexpr int kPixelRows = 24;  // rows of a tile that results need; the others are 0
constexpr int kPixelColumns = 32;
constexpr int kTilesAcross = 3;  // tiles across a plane
constexpr int kTiles = 4 * kTilesAcross;  // tiles per plane
constexpr int kPairs = 6;  // pairs of tiles per plane
constexpr int kChunk = 2;  // items, pairs of tiles, per chunk of the workspace
constexpr int kBlockRows = 4;  // rows that a block transforms
constexpr int kBlockColumns = 4;  // columns that a block transforms

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned floats_to_half2(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

__device__ __forceinline__ float to_float(unsigned short bits) { return half_to_float(bits); }

__device__ __forceinline__ Result to_result(float value) { return float_to_half(value); }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][r][s];
}

// One plane of the image; load() returns one of its elements as float.
struct Plane {
    const Pixel* pixels;
};

__device__ __forceinline__ Plane plane_of(const Pixel* image, int plane) {
    return {image + plane * (kRows * kPitch)};
}

__device__ __forceinline__ float load(const Plane& plane, int row, int element) {
    return to_float(__ldg(plane.pixels + row * kPitch + element));
}

// Index of the pixel that border `reflect` repeats at index i: c b a | a b c d | d c b.
__device__ __forceinline__ int source_index(int i, int size) {
    i = i < 0 ? -1 - i : i;
    return i >= size ? 2 * size - 1 - i : i;
}

__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, source_index(row, kRows), source_index(element, kColumns));
}

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ float2 operator*(float s, float2 a) { return make_float2(s * a.x, s * a.y); }
__device__ __forceinline__ float2 times_i(float2 a) { return make_float2(-a.y, a.x); }  // i a
__device__ __forceinline__ float2 times_minus_i(float2 a) { return make_float2(a.y, -a.x); }  // -i a
__device__ __forceinline__ float2 conjugate(float2 a) { return make_float2(a.x, -a.y); }
__device__ __forceinline__ float2 times(float2 a, float re, float im) {
    return make_float2(a.x * re - a.y * im, a.x * im + a.y * re);
}
__device__ __forceinline__ float2 times(float2 a, float2 b) { return times(a, b.x, b.y); }

__device__ __forceinline__ float2 swapped(float2 a) { return make_float2(a.y, a.x); }

// In-register DFTs of one thread, in place and in natural order: argument k returns frequency k.
__device__ __forceinline__ void dft2(float2& x0, float2& x1) {
    const float2 sum = x0 + x1;
    x1 = x0 - x1;
    x0 = sum;
}
__device__ __forceinline__ void dft3(float2& x0, float2& x1, float2& x2) {
    const float2 s1 = x1 + x2, d1 = x1 - x2;
    const float2 even1 = x0 + -0.5f * s1;
    const float2 odd1 = times_minus_i(0.866025404f * d1);
    x0 = x0 + s1;
    x1 = even1 + odd1;
    x2 = even1 - odd1;
}
__device__ __forceinline__ void dft4(float2& x0, float2& x1, float2& x2, float2& x3) {
    const float2 even = x0 + x2, odd = x1 + x3, across = x0 - x2;
    const float2 rotated = times_minus_i(x1 - x3);
    x0 = even + odd;
    x2 = even - odd;
    x1 = across + rotated;
    x3 = across - rotated;
}
__device__ __forceinline__ void dft6(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5) {
    dft2(x0, x3);
    dft2(x1, x4);
    dft2(x2, x5);
    x4 = times(x4, 0.5f, -0.866025404f);
    x5 = times(x5, -0.5f, -0.866025404f);
    dft3(x0, x1, x2);
    dft3(x3, x4, x5);
    const float2 y3 = x3, y1 = x1, y4 = x4, y2 = x2;
    x1 = y3;
    x2 = y1;
    x3 = y4;
    x4 = y2;
}
__device__ __forceinline__ void dft8(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7) {
    dft2(x0, x4);
    dft2(x1, x5);
    dft2(x2, x6);
    dft2(x3, x7);
    x5 = times(x5, 0.707106781f, -0.707106781f);
    x6 = times_minus_i(x6);
    x7 = times(x7, -0.707106781f, -0.707106781f);
    dft4(x0, x1, x2, x3);
    dft4(x4, x5, x6, x7);
    const float2 y4 = x4, y1 = x1, y5 = x5, y2 = x2, y6 = x6, y3 = x3;
    x1 = y4;
    x2 = y1;
    x3 = y5;
    x4 = y2;
    x5 = y6;
    x6 = y3;
}

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i k q / 32) for k = 1, 2, 3, q = 0 to 7.
__device__ const float2 kTwiddles4x8[24] = {
{ 1.0f, 0.0f }, { 0.98078528f, -0.195090322f }, { 0.923879533f, -0.382683432f },
{ 0.831469612f, -0.555570233f }, { 0.707106781f, -0.707106781f }, { 0.555570233f, -0.831469612f },
{ 0.382683432f, -0.923879533f }, { 0.195090322f, -0.98078528f }, { 1.0f, 0.0f },
{ 0.923879533f, -0.382683432f }, { 0.707106781f, -0.707106781f }, { 0.382683432f, -0.923879533f },
{ 0.0f, -1.0f }, { -0.382683432f, -0.923879533f }, { -0.707106781f, -0.707106781f },
{ -0.923879533f, -0.382683432f }, { 1.0f, 0.0f }, { 0.831469612f, -0.555570233f },
{ 0.382683432f, -0.923879533f }, { -0.195090322f, -0.98078528f }, { -0.707106781f, -0.707106781f },
{ -0.98078528f, -0.195090322f }, { -0.923879533f, 0.382683432f }, { -0.555570233f, 0.831469612f },
};

// exp(-2 pi i k q / 24) for k = 1, 2, 3, q = 0 to 5.
__device__ const float2 kTwiddles4x6[18] = {
{ 1.0f, 0.0f }, { 0.965925826f, -0.258819045f }, { 0.866025404f, -0.5f },
{ 0.707106781f, -0.707106781f }, { 0.5f, -0.866025404f }, { 0.258819045f, -0.965925826f },
{ 1.0f, 0.0f }, { 0.866025404f, -0.5f }, { 0.5f, -0.866025404f },
{ 0.0f, -1.0f }, { -0.5f, -0.866025404f }, { -0.866025404f, -0.5f },
{ 1.0f, 0.0f }, { 0.707106781f, -0.707106781f }, { 0.0f, -1.0f },
{ -0.707106781f, -0.707106781f }, { -1.0f, 0.0f }, { -0.707106781f, 0.707106781f },
};

// A tile of pixels and results. Its results may need fewer pixels than a whole tile; all members are 0 beyond the last
// tile.
struct Tile {
    Plane plane;
    Result* target;  // address of the first result
    int row, column;  // position of the first pixel in the image; may be negative
    int rows, columns;  // size of the results
};

struct Pair {
    Tile first, second;
};

__device__ __forceinline__ Tile tile_of(const Pixel* image, Result* result, int plane,
                                        int number) {
    if (number >= kTiles) {
        return {};
    }
    const int row = number / kTilesAcross * kTileValidRows, column = number % kTilesAcross * kTileValidColumns;
    const int rows = min(kTileValidRows, kOutputRows - row), columns = min(kTileValidColumns, kOutputColumns - column);
    const int first_row = (plane) * kOutputRows + row;
    return {plane_of(image, plane), result + first_row * kResultPitch + column, row - kBeforeRows,
            column - kBeforeColumns, rows, columns};
}

// Number of the chunk: the host passes it as a byte offset of pointer `chunk` from the workspace.
__device__ __forceinline__ int chunk_number(const float2* work, const void* chunk) {
    return static_cast<int>(static_cast<const char*>(chunk) - reinterpret_cast<const char*>(work));
}

// Address of item `number` of a chunk in the workspace.
__device__ __forceinline__ float2* workspace_of(float2* work, int, int number) {
    return work + number * (kPixelRows * kTileColumns);
}

__device__ __forceinline__ Pair pair_of(const Pixel* image, Result* result, int item) {
    const int number = item % kPairs, plane = item / kPairs;
    return {tile_of(image, result, plane, 2 * number),
            tile_of(image, result, plane, 2 * number + 1)};
}

// True if results need all of kBlockRows rows from `row` on, and their pixels are all inside the image.
__device__ __forceinline__ bool is_inside(const Tile& tile, int row) {
    return tile.rows > 0 && row + kBlockRows <= tile.rows + kFilterRows - 1 && tile.row + row >= 0 &&
           tile.row + row + kBlockRows <= kRows && tile.column >= 0 && tile.column + kPixelColumns <= kColumns;
}

// Pixel (y, x) of the tile; 0 if no result needs it.
__device__ __forceinline__ float pixel_of(const Tile& tile, int y, int x) {
    const bool needed = y < tile.rows + kFilterRows - 1 && x < tile.columns + kFilterColumns - 1 && tile.rows > 0;
    return needed ? pixel_at(tile.plane, tile.row + y, tile.column + x) : 0.0f;
}

__device__ __forceinline__ void store(const Tile& tile, int y, int x, float value) {
    if (y < tile.rows && x < tile.columns) {
        tile.target[y * kResultPitch + x] = to_result(value);
    }
}

// Transforms the kFilters * kFilterRows rows of the filters, kBlockRows per block.
extern "C" __global__ void __launch_bounds__(32, 1)
filter2d_fft_taps(float2* __restrict__ taps, const __grid_constant__ Weights weights) {
    extern __shared__ __align__(16) float2 tile[];
    const int first = blockIdx.x * kBlockRows;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 32u; i += 32) {
        const int line = i / 8u, item = i % 8u;
        const int q = item;
        float2* const element = tile + line * 35 + q;
        float2 v[4];
        const int number = first + line;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int x = k * 8 + item;
            v[k] = make_float2(0.0f, 0.0f);
            if (number < kFilters * kFilterRows && x < kFilterColumns) {
                v[k].x = tap(weights, number / kFilterRows, number % kFilterRows, x);
            }
        }
        dft4(v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int k = 1; k < 4; ++k) {
            v[k] = times(v[k], kTwiddles4x8[(k - 1) * 8 + q]);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            element[k * 9] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 16u; i += 32) {
        const int line = i / 4u, item = i % 4u;
        const int p = item;
        float2* const element = tile + line * 35 + p * 9;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 1];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        if (first + line < kFilters * kFilterRows) {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                taps[(first + line) * kTileColumns + k * 4 + item] = v[k];
            }
        }
    }
}

// Transforms the columns of the filters. Stores the conjugate, as correlation needs, scaled, in the order in which
// transform_columns() reads it.
extern "C" __global__ void __launch_bounds__(32, 1)
filter2d_fft_spectrum(float2* __restrict__ spectra, const float2* __restrict__ taps) {
    extern __shared__ __align__(16) float2 tile[];
    const int f = blockIdx.x / 8, column = blockIdx.x % 8 * kBlockColumns;
    const float2* const source = taps + f * (kFilterRows * kTileColumns) + column;
    float2* const target = spectra + (f * kTileColumns + column) * kTileRows;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 24u; i += 32) {
        const int line = i % 4u, item = i / 4u;
        const int q = item;
        float2* const element = tile + (q) * 4 + line;
        float2 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int y = k * 6 + item;
            v[k] = y < kFilterRows ? __ldg(source + y * kTileColumns + line) : make_float2(0.0f, 0.0f);
        }
        dft4(v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int k = 1; k < 4; ++k) {
            v[k] = times(v[k], kTwiddles4x6[(k - 1) * 6 + q]);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            element[k * 28] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 16u; i += 32) {
        const int line = i % 4u, item = i / 4u;
        const int p = item;
        float2* const element = tile + (p * 7) * 4 + line;
        float2 v[6];
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            v[k] = element[k * 4];
        }
        dft6(v[0], v[1], v[2], v[3], v[4], v[5]);
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            target[k * 16 + i] = 0.00130208333f * conjugate(v[k]);
        }
    }
}

// Forward transform of kBlockRows rows of a pair of tiles, from the image to the workspace.
template <bool kInside>
__device__ __forceinline__ void transform_rows(const Pair& pair, int first, float2* target, float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 32u; i += 32) {
        const int line = i / 8u, item = i % 8u;
        const int q = item;
        float2* const element = tile + line * 35 + q;
        float2 v[4];
        const int y = first + line;
        if (kInside) {
            const Pixel* const one =
                pair.first.plane.pixels + (pair.first.row + y) * kPitch + pair.first.column + item;
            const Pixel* const other =
                pair.second.plane.pixels + (pair.second.row + y) * kPitch + pair.second.column + item;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                v[k].x = to_float(__ldg(one + k * 8));
                v[k].y = to_float(__ldg(other + k * 8));
            }
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                v[k] = make_float2(0.0f, 0.0f);
                if (k * 8 < kPixelColumns) {
                    v[k].x = pixel_of(pair.first, y, k * 8 + item);
                    v[k].y = pixel_of(pair.second, y, k * 8 + item);
                }
            }
        }
        dft4(v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int k = 1; k < 4; ++k) {
            v[k] = times(v[k], kTwiddles4x8[(k - 1) * 8 + q]);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            element[k * 9] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 16u; i += 32) {
        const int line = i / 4u, item = i % 4u;
        const int p = item;
        float2* const element = tile + line * 35 + p * 9;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 1];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            target[(first + line) * kTileColumns + k * 4 + item] = v[k];
        }
    }
}

// The rows of block `block` in chunk `chunk`.
__device__ __forceinline__ void read_rows(const Pixel* image, Result* result, float2* work, int chunk, int block,
                                          float2* tile) {
    const int number = block / 6, first = block % 6 * kBlockRows;
    const Pair pair = pair_of(image, result, chunk * kChunk + number);
    float2* const target = workspace_of(work, chunk, number);
    if (is_inside(pair.first, first) && is_inside(pair.second, first)) {
        transform_rows<true>(pair, first, target, tile);
    } else {
        transform_rows<false>(pair, first, target, tile);
    }
}

extern "C" __global__ void __launch_bounds__(32)
filter2d_fft_rows(const Pixel* __restrict__ image, Result* __restrict__ result, float2* __restrict__ work,
                  const void* chunk) {
    extern __shared__ __align__(16) float2 tile[];
    read_rows(image, result, work, chunk_number(work, chunk), blockIdx.x, tile);
}

// Forward transform of columns, product with the filter's spectrum, and inverse transform, in place in the workspace:
// the columns of block `block` in chunk `chunk`.
__device__ __forceinline__ void transform_columns(float2* work, const float2* __restrict__ spectra, int chunk,
                                                  int block, float2* tile) {
    const int number = block / 8, column = block % 8 * kBlockColumns;
    float2* const source = workspace_of(work, chunk, number) + column;
    const float2* const factors = spectra + column * kTileRows;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 24u; i += 32) {
        const int line = i % 4u, item = i / 4u;
        const int q = item;
        float2* const element = tile + (q) * 4 + line;
        float2 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int y = k * 6 + item;
            v[k] = __ldcg(source + y * kTileColumns + line);
        }
        dft4(v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int k = 1; k < 4; ++k) {
            v[k] = times(v[k], kTwiddles4x6[(k - 1) * 6 + q]);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            element[k * 28] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 16u; i += 32) {
        const int line = i % 4u, item = i / 4u;
        const int p = item;
        float2* const element = tile + (p * 7) * 4 + line;
        float2 v[6];
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            v[k] = element[k * 4];
        }
        dft6(v[0], v[1], v[2], v[3], v[4], v[5]);
        // Real and imaginary parts are swapped from here on, so that the forward DFTs compute the inverse.
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            v[k] = swapped(times(v[k], __ldg(factors + k * 16 + i)));
        }
        dft6(v[0], v[1], v[2], v[3], v[4], v[5]);
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            element[k * 4] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 24u; i += 32) {
        const int line = i % 4u, item = i / 4u;
        const int q = item;
        float2* const element = tile + (q) * 4 + line;
        float2 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = element[k * 28];
        }
#pragma unroll
        for (int k = 1; k < 4; ++k) {
            v[k] = times(v[k], kTwiddles4x6[(k - 1) * 6 + q]);
        }
        dft4(v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int y = k * 6 + item;
            if (y < 18) {
                source[y * kTileColumns + line] = v[k];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(32, 2)
filter2d_fft_columns(float2* __restrict__ work, const float2* __restrict__ spectra) {
    extern __shared__ __align__(16) float2 tile[];
    transform_columns(work, spectra, 0, blockIdx.x, tile);
}

// Inverse transform of rows, from the workspace to the result: the rows of block `block` in chunk `chunk`.
__device__ __forceinline__ void write_rows(const Pixel* image, Result* result, float2* work, int chunk, int block,
                                           float2* tile) {
    const int number = block / 5, first = block % 5 * kBlockRows;
    const Pair pair = pair_of(image, result, chunk * kChunk + number);
    const float2* const source = workspace_of(work, chunk, number);
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 16u; i += 32) {
        const int line = i / 4u, item = i % 4u;
        const int p = item;
        float2* const element = tile + line * 35 + p * 9;
        float2 v[8];
        const int y = min(first + line, kPixelRows - 1);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = __ldcg(source + y * kTileColumns + k * 4 + item);
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 1] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 32u; i += 32) {
        const int line = i / 8u, item = i % 8u;
        const int q = item;
        float2* const element = tile + line * 35 + q;
        float2 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = element[k * 9];
        }
#pragma unroll
        for (int k = 1; k < 4; ++k) {
            v[k] = times(v[k], kTwiddles4x8[(k - 1) * 8 + q]);
        }
        dft4(v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (k * 8 < 25) {
                store(pair.first, first + line, k * 8 + item, v[k].y);
                store(pair.second, first + line, k * 8 + item, v[k].x);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(32)
filter2d_fft_results(const Pixel* __restrict__ image, Result* __restrict__ result, float2* __restrict__ work,
                     const void* chunk) {
    extern __shared__ __align__(16) float2 tile[];
    write_rows(image, result, work, chunk_number(work, chunk), blockIdx.x, tile);
}
