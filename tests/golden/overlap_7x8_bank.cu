// warpsmith filter2d_overlap_save
// problem: filter2d image=300x401 filter=7x8 planes=3 dtype=float16 border=reflect filters=2 accuracy=imagewise
//          weights=sha256:609ec9c02b28b437
// config:  ahead=0 gaps=6 group=3 min_blocks=4 partners=apart path=global store=streaming twiddles=powers warps=3
//          weights=argument x_radices=3x9 y_radices=7x5
//
// Overlap-save: tiles of 35 x 27 pixels, 29 x 20 results.
// A block computes two tiles as one complex tile in shared memory: forward FFT, product with the filter's
// spectrum, inverse FFT, in three passes each way and in place. Radices: columns 7x5, rows 3x9.
// Threads of the block share the first and the last pass; a warp does the others on a group of rows.

constexpr int kRows = 300;  // rows of one plane of the image
constexpr int kColumns = 401;
constexpr int kChannels = 1;  // interleaved elements of a pixel
constexpr int kPitch = 401;  // elements from one row to the next
constexpr int kFilters = 2;
constexpr int kFilterRows = 7;
constexpr int kFilterColumns = 8;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 401;
constexpr int kBeforeRows = 3;  // rows of a window above its output pixel
constexpr int kBeforeColumns = 4;  // columns of a window left of it

using Pixel = unsigned short;  // fp16 bits
using Result = unsigned short;  // fp16 bits

static_assert(kChannels == 1, "columns are elements");

constexpr int kTileRows = 35;  // pixels before the transform, frequencies after it
constexpr int kTileColumns = 27;
constexpr int kThreads = 96;
constexpr int kGroupRows = 15;  // rows that a warp transforms at a time
constexpr int kRowPitch = 27;  // complex numbers in shared memory from row to row
constexpr int kDigitPitch = 9;  // complex numbers from one value of a row's first digit to the next
constexpr int kValidRows = kTileRows - kFilterRows + 1;  // rows of results per tile
constexpr int kValidColumns = kTileColumns - kFilterColumns + 1;
constexpr int kTilesAcross = 21;  // tiles across a plane
constexpr int kTiles = 11 * kTilesAcross;  // tiles per plane
constexpr int kPairs = 116;  // pairs of tiles per plane

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
__device__ __forceinline__ void dft3(float2& x0, float2& x1, float2& x2) {
    const float2 s1 = x1 + x2, d1 = x1 - x2;
    const float2 even1 = x0 + -0.5f * s1;
    const float2 odd1 = times_minus_i(0.866025404f * d1);
    x0 = x0 + s1;
    x1 = even1 + odd1;
    x2 = even1 - odd1;
}
__device__ __forceinline__ void dft5(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4) {
    const float2 s1 = x1 + x4, d1 = x1 - x4;
    const float2 s2 = x2 + x3, d2 = x2 - x3;
    const float2 even1 = x0 + 0.309016994f * s1 + -0.809016994f * s2;
    const float2 odd1 = times_minus_i(0.951056516f * d1 + 0.587785252f * d2);
    const float2 even2 = x0 + -0.809016994f * s1 + 0.309016994f * s2;
    const float2 odd2 = times_minus_i(0.587785252f * d1 + -0.951056516f * d2);
    x0 = x0 + s1 + s2;
    x1 = even1 + odd1;
    x4 = even1 - odd1;
    x2 = even2 + odd2;
    x3 = even2 - odd2;
}
__device__ __forceinline__ void dft7(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6) {
    const float2 s1 = x1 + x6, d1 = x1 - x6;
    const float2 s2 = x2 + x5, d2 = x2 - x5;
    const float2 s3 = x3 + x4, d3 = x3 - x4;
    const float2 even1 = x0 + 0.623489802f * s1 + -0.222520934f * s2 + -0.900968868f * s3;
    const float2 odd1 = times_minus_i(0.781831482f * d1 + 0.974927912f * d2 + 0.433883739f * d3);
    const float2 even2 = x0 + -0.222520934f * s1 + -0.900968868f * s2 + 0.623489802f * s3;
    const float2 odd2 = times_minus_i(0.974927912f * d1 + -0.433883739f * d2 + -0.781831482f * d3);
    const float2 even3 = x0 + -0.900968868f * s1 + 0.623489802f * s2 + -0.222520934f * s3;
    const float2 odd3 = times_minus_i(0.433883739f * d1 + -0.781831482f * d2 + 0.974927912f * d3);
    x0 = x0 + s1 + s2 + s3;
    x1 = even1 + odd1;
    x6 = even1 - odd1;
    x2 = even2 + odd2;
    x5 = even2 - odd2;
    x3 = even3 + odd3;
    x4 = even3 - odd3;
}
__device__ __forceinline__ void dft9(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8) {
    dft3(x0, x3, x6);
    dft3(x1, x4, x7);
    dft3(x2, x5, x8);
    x4 = times(x4, 0.766044443f, -0.64278761f);
    x5 = times(x5, 0.173648178f, -0.984807753f);
    x7 = times(x7, 0.173648178f, -0.984807753f);
    x8 = times(x8, -0.939692621f, -0.342020143f);
    dft3(x0, x1, x2);
    dft3(x3, x4, x5);
    dft3(x6, x7, x8);
    const float2 y3 = x3, y6 = x6, y1 = x1, y7 = x7, y2 = x2, y5 = x5;
    x1 = y3;
    x2 = y6;
    x3 = y1;
    x5 = y7;
    x6 = y2;
    x7 = y5;
}

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i k j / 35) for k = 1, 2, 4, j = 0 to 4.
__device__ const float2 kTwiddles7x5[15] = {
{ 1.0f, 0.0f }, { 0.983929589f, -0.178556895f }, { 0.936234871f, -0.351374824f },
{ 0.858448794f, -0.512899277f }, { 0.753071466f, -0.657938726f }, { 1.0f, 0.0f },
{ 0.936234871f, -0.351374824f }, { 0.753071466f, -0.657938726f }, { 0.473868662f, -0.880595532f },
{ 0.134233266f, -0.990949762f }, { 1.0f, 0.0f }, { 0.753071466f, -0.657938726f },
{ 0.134233266f, -0.990949762f }, { -0.550896981f, -0.834573254f }, { -0.963962861f, -0.266036846f },
};

// exp(2 pi i j / 35) for j = 0 to 34.
__device__ const float2 kRoots35[35] = {
{ 1.0f, 0.0f }, { 0.983929589f, 0.178556895f }, { 0.936234871f, 0.351374824f },
{ 0.858448794f, 0.512899277f }, { 0.753071466f, 0.657938726f }, { 0.623489802f, 0.781831482f },
{ 0.473868662f, 0.880595532f }, { 0.309016994f, 0.951056516f }, { 0.134233266f, 0.990949762f },
{ -0.0448648304f, 0.998993067f }, { -0.222520934f, 0.974927912f }, { -0.393025032f, 0.919527773f },
{ -0.550896981f, 0.834573254f }, { -0.691062649f, 0.722794864f }, { -0.809016994f, 0.587785252f },
{ -0.900968868f, 0.433883739f }, { -0.963962861f, 0.266036846f }, { -0.995974294f, 0.0896393089f },
{ -0.995974294f, -0.0896393089f }, { -0.963962861f, -0.266036846f }, { -0.900968868f, -0.433883739f },
{ -0.809016994f, -0.587785252f }, { -0.691062649f, -0.722794864f }, { -0.550896981f, -0.834573254f },
{ -0.393025032f, -0.919527773f }, { -0.222520934f, -0.974927912f }, { -0.0448648304f, -0.998993067f },
{ 0.134233266f, -0.990949762f }, { 0.309016994f, -0.951056516f }, { 0.473868662f, -0.880595532f },
{ 0.623489802f, -0.781831482f }, { 0.753071466f, -0.657938726f }, { 0.858448794f, -0.512899277f },
{ 0.936234871f, -0.351374824f }, { 0.983929589f, -0.178556895f },
};

// exp(-2 pi i k j / 27) for k = 1, 2, j = 0 to 8.
__device__ const float2 kTwiddles3x9[18] = {
{ 1.0f, 0.0f }, { 0.973044871f, -0.230615871f }, { 0.89363264f, -0.44879918f },
{ 0.766044443f, -0.64278761f }, { 0.597158592f, -0.802123193f }, { 0.396079766f, -0.918216107f },
{ 0.173648178f, -0.984807753f }, { -0.0581448289f, -0.998308158f }, { -0.286803233f, -0.957989512f },
{ 1.0f, 0.0f }, { 0.89363264f, -0.44879918f }, { 0.597158592f, -0.802123193f },
{ 0.173648178f, -0.984807753f }, { -0.286803233f, -0.957989512f }, { -0.686241638f, -0.727373642f },
{ -0.939692621f, -0.342020143f }, { -0.993238358f, 0.116092914f }, { -0.835487811f, 0.549508978f },
};

// exp(2 pi i j / 27) for j = 0 to 26.
__device__ const float2 kRoots27[27] = {
{ 1.0f, 0.0f }, { 0.973044871f, 0.230615871f }, { 0.89363264f, 0.44879918f },
{ 0.766044443f, 0.64278761f }, { 0.597158592f, 0.802123193f }, { 0.396079766f, 0.918216107f },
{ 0.173648178f, 0.984807753f }, { -0.0581448289f, 0.998308158f }, { -0.286803233f, 0.957989512f },
{ -0.5f, 0.866025404f }, { -0.686241638f, 0.727373642f }, { -0.835487811f, 0.549508978f },
{ -0.939692621f, 0.342020143f }, { -0.993238358f, 0.116092914f }, { -0.993238358f, -0.116092914f },
{ -0.939692621f, -0.342020143f }, { -0.835487811f, -0.549508978f }, { -0.686241638f, -0.727373642f },
{ -0.5f, -0.866025404f }, { -0.286803233f, -0.957989512f }, { -0.0581448289f, -0.998308158f },
{ 0.173648178f, -0.984807753f }, { 0.396079766f, -0.918216107f }, { 0.597158592f, -0.802123193f },
{ 0.766044443f, -0.64278761f }, { 0.89363264f, -0.44879918f }, { 0.973044871f, -0.230615871f },
};

__device__ __forceinline__ int column_offset(int x) { return x; }

// A tile of pixels and results. Its results may need fewer pixels than a whole tile; all members are 0 beyond the last
// tile.
struct Tile {
    Plane plane;
    Result* target;  // address of the first result
    int row, column;  // position of the first pixel in the image; may be negative
    int rows, columns;  // size of the results
    int pixel_rows, pixel_columns;  // size of the pixels that they need
};

struct Pair {
    Tile first, second;
};

__device__ __forceinline__ Tile tile_of(const Pixel* image, Result* result, int plane,
                                        int number, int f) {
    if (number >= kTiles) {
        return {};
    }
    const int row = number / kTilesAcross * kValidRows, column = number % kTilesAcross * kValidColumns;
    const int rows = min(kValidRows, kOutputRows - row), columns = min(kValidColumns, kOutputColumns - column);
    const int first_row = (plane * kFilters + f) * kOutputRows + row;
    return {plane_of(image, plane), result + first_row * kResultPitch + column, row - kBeforeRows,
            column - kBeforeColumns, rows, columns, rows + kFilterRows - 1, columns + kFilterColumns - 1};
}

// True if all pixels of the tile are inside the image.
__device__ __forceinline__ bool is_inside(const Tile& tile) {
    return tile.rows > 0 && tile.row >= 0 && tile.row + kTileRows <= kRows && tile.column >= 0 &&
           tile.column + kTileColumns <= kColumns;
}

// Pixel (y, x) of the tile; 0 if no result needs it.
__device__ __forceinline__ float pixel_of(const Tile& tile, int y, int x) {
    return y < tile.pixel_rows && x < tile.pixel_columns ? pixel_at(tile.plane, tile.row + y, tile.column + x) : 0.0f;
}

__device__ __forceinline__ void store(const Tile& tile, int y, int x, float value) {
    if (y < tile.rows && x < tile.columns) {
        __stcs(tile.target + y * kResultPitch + x, to_result(value));
    }
}

// First pass: loads both tiles of a pair from the image, as real and imaginary part.
template <bool kInside>
__device__ __forceinline__ void read_columns(const Pair& pair, float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 135u; i += kThreads) {
        const int x = modulo<27>(i), j = quotient<27>(i);

        float2 v[7];
        if (kInside) {
            const Pixel* const first =
                pair.first.plane.pixels + (pair.first.row + j) * kPitch + pair.first.column + x;
            const Pixel* const second =
                pair.second.plane.pixels + (pair.second.row + j) * kPitch + pair.second.column + x;
#pragma unroll
            for (int k = 0; k < 7; ++k) {
                v[k].x = to_float(__ldg(first + k * (5 * kPitch)));
                v[k].y = to_float(__ldg(second + k * (5 * kPitch)));
            }
        } else {
#pragma unroll
            for (int k = 0; k < 7; ++k) {
                v[k].x = pixel_of(pair.first, j + k * 5, x);
                v[k].y = pixel_of(pair.second, j + k * 5, x);
            }
        }

        dft7(v[0], v[1], v[2], v[3], v[4], v[5], v[6]);
        const float2 w1 = kTwiddles7x5[j];
        const float2 w2 = kTwiddles7x5[5 + j];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles7x5[10 + j];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);

        float2* const element = tile + j * kRowPitch + column_offset(x);
#pragma unroll
        for (int k = 0; k < 7; ++k) {
            element[k * (5 * kRowPitch)] = v[k];
        }
    }
}

// Second pass, one sub-tile per thread: along columns over their second digit, then along rows over their first digit.
__device__ __forceinline__ void transform_corners(float2* tile, int group) {
#pragma unroll 1
    for (unsigned i = threadIdx.x % 32; i < 27u; i += 32) {
        const int j = modulo<9>(i), p = group * 3 + quotient<9>(i);
        if (p >= 7) {
            break;
        }
        float2* const element = tile + p * (5 * kRowPitch) + j;

        float2 v[15];
#pragma unroll
        for (int n = 0; n < 15; ++n) {
            v[n] = element[n / 3 * kRowPitch + n % 3 * kDigitPitch];
        }
        dft5(v[0], v[3], v[6], v[9], v[12]);
        dft5(v[1], v[4], v[7], v[10], v[13]);
        dft5(v[2], v[5], v[8], v[11], v[14]);
        const float2 w1 = kTwiddles3x9[j];
        const float2 w2 = kTwiddles3x9[9 + j];
        dft3(v[0], v[1], v[2]);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        dft3(v[3], v[4], v[5]);
        v[4] = times(v[4], w1);
        v[5] = times(v[5], w2);
        dft3(v[6], v[7], v[8]);
        v[7] = times(v[7], w1);
        v[8] = times(v[8], w2);
        dft3(v[9], v[10], v[11]);
        v[10] = times(v[10], w1);
        v[11] = times(v[11], w2);
        dft3(v[12], v[13], v[14]);
        v[13] = times(v[13], w1);
        v[14] = times(v[14], w2);
#pragma unroll
        for (int n = 0; n < 15; ++n) {
            element[n / 3 * kRowPitch + n % 3 * kDigitPitch] = v[n];
        }
    }
}

// Inverse second pass; it stores only the columns that have results.
__device__ __forceinline__ void restore_corners(float2* tile, int group) {
#pragma unroll 1
    for (unsigned i = threadIdx.x % 32; i < 27u; i += 32) {
        const int j = modulo<9>(i), p = group * 3 + quotient<9>(i);
        if (p >= 7) {
            break;
        }
        float2* const element = tile + p * (5 * kRowPitch) + j;

        float2 v[15];
#pragma unroll
        for (int n = 0; n < 15; ++n) {
            v[n] = element[n / 3 * kRowPitch + n % 3 * kDigitPitch];
        }
        const float2 w1 = kTwiddles3x9[j];
        const float2 w2 = kTwiddles3x9[9 + j];
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        dft3(v[0], v[1], v[2]);
        v[4] = times(v[4], w1);
        v[5] = times(v[5], w2);
        dft3(v[3], v[4], v[5]);
        v[7] = times(v[7], w1);
        v[8] = times(v[8], w2);
        dft3(v[6], v[7], v[8]);
        v[10] = times(v[10], w1);
        v[11] = times(v[11], w2);
        dft3(v[9], v[10], v[11]);
        v[13] = times(v[13], w1);
        v[14] = times(v[14], w2);
        dft3(v[12], v[13], v[14]);
        dft5(v[0], v[3], v[6], v[9], v[12]);
        dft5(v[1], v[4], v[7], v[10], v[13]);
        dft5(v[2], v[5], v[8], v[11], v[14]);
#pragma unroll
        for (int n = 0; n < 15; ++n) {
            if (n % 3 < 2 || (n % 3 == 2 &&
                j < 2)) {
                element[n / 3 * kRowPitch + n % 3 * kDigitPitch] = v[n];
            }
        }
    }
}

// Third pass, along rows over their second digit, the product with the filter's spectrum, and the inverse third pass.
// Real and imaginary parts are swapped from here on, so that the forward DFTs compute the inverse.
__device__ __forceinline__ void multiply_rows(float2* tile, const float2* __restrict__ spectrum, int group) {
    const unsigned lane = threadIdx.x % 32;
    const float2* const factors = spectrum + group * 576;
#pragma unroll 1
    for (unsigned i = lane; i < 45u; i += 32) {
        const int y = group * kGroupRows + quotient<3>(i),
                  k = modulo<3>(i);
        if (y >= kTileRows) {
            break;
        }
        float2* const element = tile + y * kRowPitch + k * kDigitPitch;

        const float2* const lane_factors = factors + (i - lane) * 9 + lane;
        float2 v[9];
#pragma unroll
        for (int j = 0; j < 9; ++j) {
            v[j] = element[j];
        }
        dft9(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]);
#pragma unroll
        for (int j = 0; j < 9; ++j) {
            const float2 h = __ldg(lane_factors + j * 32);
            v[j] = swapped(times(v[j], h));
        }
        dft9(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]);
#pragma unroll
        for (int j = 0; j < 9; ++j) {
            element[j] = v[j];
        }
    }
}

// Last pass: stores the results of both tiles. Their parts are swapped back.
__device__ __forceinline__ void write_columns(const Pair& pair, const float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 100u; i += kThreads) {
        const int x = modulo<20>(i), j = quotient<20>(i);

        const float2* const element = tile + j * kRowPitch + column_offset(x);
        float2 v[7];
#pragma unroll
        for (int k = 0; k < 7; ++k) {
            v[k] = element[k * (5 * kRowPitch)];
        }
        const float2 w1 = kTwiddles7x5[j];
        const float2 w2 = kTwiddles7x5[5 + j];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles7x5[10 + j];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);

        dft7(v[0], v[1], v[2], v[3], v[4], v[5], v[6]);
#pragma unroll
        for (int k = 0; k < 7; ++k) {
            if (k * 5 < kValidRows) {
                store(pair.first, j + k * 5, x, v[k].y);
                store(pair.second, j + k * 5, x, v[k].x);
            }
        }

    }
}

constexpr int kSpectrum = 1728;  // complex numbers of one filter's spectrum

// Offset at which multiply_rows() reads frequency (y, x) of a filter's spectrum: neighbouring lanes read neighbours.
__device__ __forceinline__ int spectrum_offset(int y, int x) {
    const int row = y % 7 * 5 + y / 7, k = x % 3, j = x / 3;
    const int item = row % kGroupRows * 3 + k;
    const int iteration = row / kGroupRows * 2 + item / 32;
    return (iteration * 9 + j / 1) * 32 + item % 32 * 1 + j % 1;
}

// The filters' spectra, scaled: sum over r, s of weights[r, s] * exp(2 pi i (y r / kTileRows + x s / kTileColumns)).
// This is the conjugate of the filter's transform, as correlation needs. A block computes one column x.
extern "C" __global__ void __launch_bounds__(64)
filter2d_overlap_save_spectrum(float2* __restrict__ spectra, const __grid_constant__ Weights weights) {
    __shared__ float taps[kFilterRows * kFilterColumns];
    __shared__ float2 sums[kFilterRows];
    const int f = blockIdx.x / 27, first = blockIdx.x % 27;
    for (int i = threadIdx.x; i < kFilterRows * kFilterColumns; i += 64) {
        taps[i] = tap(weights, f, i / kFilterColumns, i % kFilterColumns);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kFilterRows; i += 64) {
        const int r = i, x = first;
        float2 sum = make_float2(0.0f, 0.0f);
        for (int s = 0; s < kFilterColumns; ++s) {
            sum = sum + taps[r * kFilterColumns + s] * kRoots27[x * s % kTileColumns];
        }
        sums[i] = 0.00105820106f * sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kTileRows; i += 64) {
        const int y = i;
        float2 sum = make_float2(0.0f, 0.0f);
        for (int r = 0; r < kFilterRows; ++r) {
            sum = sum + times(sums[r], kRoots35[y * r % kTileRows]);
        }
        spectra[f * kSpectrum + spectrum_offset(y, first)] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 4)
filter2d_overlap_save(const Pixel* __restrict__ image, Result* __restrict__ result, const float2* __restrict__ spectra,
                      const __grid_constant__ Weights weights) {
    extern __shared__ __align__(16) float2 tile[];
    const int number = blockIdx.x / kFilters % kPairs, plane = blockIdx.x / kFilters / kPairs,
              f = blockIdx.x % kFilters;
    const Pair pair = {tile_of(image, result, plane, number, f),
                       tile_of(image, result, plane, kPairs + number, f)};
    if (is_inside(pair.first) && is_inside(pair.second)) {
        read_columns<true>(pair, tile);
    } else {
        read_columns<false>(pair, tile);
    }
    __syncthreads();
#pragma unroll 1
    for (int group = threadIdx.x / 32; group < 3; group += kThreads / 32) {
        transform_corners(tile, group);
        __syncwarp();
        multiply_rows(tile, spectra + f * kSpectrum, group);
        __syncwarp();
        restore_corners(tile, group);
    }
    __syncthreads();
    write_columns(pair, tile);
}
