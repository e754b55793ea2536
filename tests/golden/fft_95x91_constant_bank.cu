// warpsmith filter2d_fft
// problem: filter2d image=200x190 filter=95x91 planes=3 dtype=uint8 border=constant cval=3.0 filters=2 convolve=yes
//          accuracy=imagewise
// config:  blocks=0 buffers=2 column_threads=64 columns=4 min_blocks=2 pairs=2 partners=apart path=global
//          row_threads=96 rows=3 store=streaming twiddles=table weights=global x_radices=4x6x6 y_radices=12x16
//
// Overlap-save: tiles of 192 x 144 pixels, 98 x 54 results.
// Two tiles are one complex tile in the workspace, 2 of them per chunk. A block transforms
// rows or columns in shared memory, a barrier between passes: rows first, then columns, the product with
// the filter's spectrum, the inverse of the columns, and the inverse of the rows. All passes are in place.

constexpr int kRows = 200;  // rows of one plane of the image
constexpr int kColumns = 190;
constexpr int kChannels = 1;  // interleaved elements of a pixel
constexpr int kPitch = 190;  // elements from one row to the next
constexpr int kFilters = 2;
constexpr int kFilterRows = 95;
constexpr int kFilterColumns = 91;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 190;
constexpr int kBeforeRows = 47;  // rows of a window above its output pixel
constexpr int kBeforeColumns = 45;  // columns of a window left of it

using Pixel = unsigned char;
using Result = unsigned char;

static_assert(kChannels == 1, "columns are elements");

constexpr int kTileRows = 192;  // pixels before the transform, frequencies after it
constexpr int kTileColumns = 144;
constexpr int kTileValidRows = kTileRows - kFilterRows + 1;  // rows of results per tile
constexpr int kTileValidColumns = kTileColumns - kFilterColumns + 1;
constexpr int kPixelRows = 192;  // rows of a tile that results need; the others are 0
constexpr int kPixelColumns = 144;
constexpr int kTilesAcross = 4;  // tiles across a plane
constexpr int kTiles = 3 * kTilesAcross;  // tiles per plane
constexpr int kPairs = 6;  // pairs of tiles per plane
constexpr int kChunk = 2;  // items, a pair with a filter, per chunk of the workspace
constexpr int kBlockRows = 3;  // rows that a block transforms
constexpr int kBlockColumns = 4;  // columns that a block transforms

__device__ __forceinline__ float to_float(unsigned char value) { return value; }

// Clamps to 0..255 and rounds to nearest even; the result is in the lowest byte, since a float near 1.5 * 2^23 has no
// fraction bits.
__device__ __forceinline__ unsigned rounded(float value) {
    return __float_as_uint(fminf(fmaxf(value, 0.0f), 255.0f) + 12582912.0f);
}

__device__ __forceinline__ Result to_result(float value) { return static_cast<Result>(rounded(value)); }

struct Weights {
    const float* taps;  // [kFilters][kFilterRows][kFilterColumns]
};

// Convolution: the filter rotated by 180 degrees.
__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return __ldg(weights.taps + ((f + 1) * kFilterRows - 1 - r) * kFilterColumns + kFilterColumns - 1 - s);
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

// Border `constant`: k k k | a b c d | k k k.
__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    const bool inside = row >= 0 && row < kRows && element >= 0 && element < kColumns * kChannels;
    return inside ? load(plane, row, element) : 3.0f;
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
__device__ __forceinline__ void dft12(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11) {
    dft3(x0, x4, x8);
    dft3(x1, x5, x9);
    dft3(x2, x6, x10);
    dft3(x3, x7, x11);
    x5 = times(x5, 0.866025404f, -0.5f);
    x6 = times(x6, 0.5f, -0.866025404f);
    x7 = times_minus_i(x7);
    x9 = times(x9, 0.5f, -0.866025404f);
    x10 = times(x10, -0.5f, -0.866025404f);
    x11 = -1.0f * x11;
    dft4(x0, x1, x2, x3);
    dft4(x4, x5, x6, x7);
    dft4(x8, x9, x10, x11);
    const float2 y4 = x4, y8 = x8, y1 = x1, y5 = x5, y9 = x9, y2 = x2, y6 = x6, y10 = x10, y3 = x3, y7 = x7;
    x1 = y4;
    x2 = y8;
    x3 = y1;
    x4 = y5;
    x5 = y9;
    x6 = y2;
    x7 = y6;
    x8 = y10;
    x9 = y3;
    x10 = y7;
}
__device__ __forceinline__ void dft16(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15) {
    dft4(x0, x4, x8, x12);
    dft4(x1, x5, x9, x13);
    dft4(x2, x6, x10, x14);
    dft4(x3, x7, x11, x15);
    x5 = times(x5, 0.923879533f, -0.382683432f);
    x6 = times(x6, 0.707106781f, -0.707106781f);
    x7 = times(x7, 0.382683432f, -0.923879533f);
    x9 = times(x9, 0.707106781f, -0.707106781f);
    x10 = times_minus_i(x10);
    x11 = times(x11, -0.707106781f, -0.707106781f);
    x13 = times(x13, 0.382683432f, -0.923879533f);
    x14 = times(x14, -0.707106781f, -0.707106781f);
    x15 = times(x15, -0.923879533f, 0.382683432f);
    dft4(x0, x1, x2, x3);
    dft4(x4, x5, x6, x7);
    dft4(x8, x9, x10, x11);
    dft4(x12, x13, x14, x15);
    const float2 y4 = x4, y8 = x8, y12 = x12, y1 = x1, y9 = x9, y13 = x13, y2 = x2, y6 = x6, y14 = x14, y3 =
        x3, y7 = x7, y11 = x11;
    x1 = y4;
    x2 = y8;
    x3 = y12;
    x4 = y1;
    x6 = y9;
    x7 = y13;
    x8 = y2;
    x9 = y6;
    x11 = y14;
    x12 = y3;
    x13 = y7;
    x14 = y11;
}

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i k q / 144) for k = 1, 2, 3, q = 0 to 35.
__device__ const float2 kTwiddles4x36[108] = {
{ 1.0f, 0.0f }, { 0.999048222f, -0.0436193874f }, { 0.996194698f, -0.0871557427f },
{ 0.991444861f, -0.130526192f }, { 0.984807753f, -0.173648178f }, { 0.976296007f, -0.216439614f },
{ 0.965925826f, -0.258819045f }, { 0.953716951f, -0.3007058f }, { 0.939692621f, -0.342020143f },
{ 0.923879533f, -0.382683432f }, { 0.906307787f, -0.422618262f }, { 0.887010833f, -0.461748613f },
{ 0.866025404f, -0.5f }, { 0.843391446f, -0.537299608f }, { 0.819152044f, -0.573576436f },
{ 0.79335334f, -0.608761429f }, { 0.766044443f, -0.64278761f }, { 0.737277337f, -0.675590208f },
{ 0.707106781f, -0.707106781f }, { 0.675590208f, -0.737277337f }, { 0.64278761f, -0.766044443f },
{ 0.608761429f, -0.79335334f }, { 0.573576436f, -0.819152044f }, { 0.537299608f, -0.843391446f },
{ 0.5f, -0.866025404f }, { 0.461748613f, -0.887010833f }, { 0.422618262f, -0.906307787f },
{ 0.382683432f, -0.923879533f }, { 0.342020143f, -0.939692621f }, { 0.3007058f, -0.953716951f },
{ 0.258819045f, -0.965925826f }, { 0.216439614f, -0.976296007f }, { 0.173648178f, -0.984807753f },
{ 0.130526192f, -0.991444861f }, { 0.0871557427f, -0.996194698f }, { 0.0436193874f, -0.999048222f },
{ 1.0f, 0.0f }, { 0.996194698f, -0.0871557427f }, { 0.984807753f, -0.173648178f },
{ 0.965925826f, -0.258819045f }, { 0.939692621f, -0.342020143f }, { 0.906307787f, -0.422618262f },
{ 0.866025404f, -0.5f }, { 0.819152044f, -0.573576436f }, { 0.766044443f, -0.64278761f },
{ 0.707106781f, -0.707106781f }, { 0.64278761f, -0.766044443f }, { 0.573576436f, -0.819152044f },
{ 0.5f, -0.866025404f }, { 0.422618262f, -0.906307787f }, { 0.342020143f, -0.939692621f },
{ 0.258819045f, -0.965925826f }, { 0.173648178f, -0.984807753f }, { 0.0871557427f, -0.996194698f },
{ 0.0f, -1.0f }, { -0.0871557427f, -0.996194698f }, { -0.173648178f, -0.984807753f },
{ -0.258819045f, -0.965925826f }, { -0.342020143f, -0.939692621f }, { -0.422618262f, -0.906307787f },
{ -0.5f, -0.866025404f }, { -0.573576436f, -0.819152044f }, { -0.64278761f, -0.766044443f },
{ -0.707106781f, -0.707106781f }, { -0.766044443f, -0.64278761f }, { -0.819152044f, -0.573576436f },
{ -0.866025404f, -0.5f }, { -0.906307787f, -0.422618262f }, { -0.939692621f, -0.342020143f },
{ -0.965925826f, -0.258819045f }, { -0.984807753f, -0.173648178f }, { -0.996194698f, -0.0871557427f },
{ 1.0f, 0.0f }, { 0.991444861f, -0.130526192f }, { 0.965925826f, -0.258819045f },
{ 0.923879533f, -0.382683432f }, { 0.866025404f, -0.5f }, { 0.79335334f, -0.608761429f },
{ 0.707106781f, -0.707106781f }, { 0.608761429f, -0.79335334f }, { 0.5f, -0.866025404f },
{ 0.382683432f, -0.923879533f }, { 0.258819045f, -0.965925826f }, { 0.130526192f, -0.991444861f },
{ 0.0f, -1.0f }, { -0.130526192f, -0.991444861f }, { -0.258819045f, -0.965925826f },
{ -0.382683432f, -0.923879533f }, { -0.5f, -0.866025404f }, { -0.608761429f, -0.79335334f },
{ -0.707106781f, -0.707106781f }, { -0.79335334f, -0.608761429f }, { -0.866025404f, -0.5f },
{ -0.923879533f, -0.382683432f }, { -0.965925826f, -0.258819045f }, { -0.991444861f, -0.130526192f },
{ -1.0f, 0.0f }, { -0.991444861f, 0.130526192f }, { -0.965925826f, 0.258819045f },
{ -0.923879533f, 0.382683432f }, { -0.866025404f, 0.5f }, { -0.79335334f, 0.608761429f },
{ -0.707106781f, 0.707106781f }, { -0.608761429f, 0.79335334f }, { -0.5f, 0.866025404f },
{ -0.382683432f, 0.923879533f }, { -0.258819045f, 0.965925826f }, { -0.130526192f, 0.991444861f },
};

// exp(-2 pi i k q / 36) for k = 1, 2, 3, 4, 5, q = 0 to 5.
__device__ const float2 kTwiddles6x6[30] = {
{ 1.0f, 0.0f }, { 0.984807753f, -0.173648178f }, { 0.939692621f, -0.342020143f },
{ 0.866025404f, -0.5f }, { 0.766044443f, -0.64278761f }, { 0.64278761f, -0.766044443f },
{ 1.0f, 0.0f }, { 0.939692621f, -0.342020143f }, { 0.766044443f, -0.64278761f },
{ 0.5f, -0.866025404f }, { 0.173648178f, -0.984807753f }, { -0.173648178f, -0.984807753f },
{ 1.0f, 0.0f }, { 0.866025404f, -0.5f }, { 0.5f, -0.866025404f },
{ 0.0f, -1.0f }, { -0.5f, -0.866025404f }, { -0.866025404f, -0.5f },
{ 1.0f, 0.0f }, { 0.766044443f, -0.64278761f }, { 0.173648178f, -0.984807753f },
{ -0.5f, -0.866025404f }, { -0.939692621f, -0.342020143f }, { -0.939692621f, 0.342020143f },
{ 1.0f, 0.0f }, { 0.64278761f, -0.766044443f }, { -0.173648178f, -0.984807753f },
{ -0.866025404f, -0.5f }, { -0.939692621f, 0.342020143f }, { -0.342020143f, 0.939692621f },
};

// exp(-2 pi i k q / 192) for k = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, q = 0 to 15.
__device__ const float2 kTwiddles12x16[176] = {
{ 1.0f, 0.0f }, { 0.999464587f, -0.0327190828f }, { 0.997858923f, -0.0654031292f },
{ 0.995184727f, -0.0980171403f }, { 0.991444861f, -0.130526192f }, { 0.986643332f, -0.162895473f },
{ 0.98078528f, -0.195090322f }, { 0.973876979f, -0.227076263f }, { 0.965925826f, -0.258819045f },
{ 0.956940336f, -0.290284677f }, { 0.946930129f, -0.321439465f }, { 0.935905927f, -0.352250048f },
{ 0.923879533f, -0.382683432f }, { 0.910863825f, -0.41270703f }, { 0.896872742f, -0.44228869f },
{ 0.881921264f, -0.471396737f }, { 1.0f, 0.0f }, { 0.997858923f, -0.0654031292f },
{ 0.991444861f, -0.130526192f }, { 0.98078528f, -0.195090322f }, { 0.965925826f, -0.258819045f },
{ 0.946930129f, -0.321439465f }, { 0.923879533f, -0.382683432f }, { 0.896872742f, -0.44228869f },
{ 0.866025404f, -0.5f }, { 0.831469612f, -0.555570233f }, { 0.79335334f, -0.608761429f },
{ 0.751839807f, -0.659345815f }, { 0.707106781f, -0.707106781f }, { 0.659345815f, -0.751839807f },
{ 0.608761429f, -0.79335334f }, { 0.555570233f, -0.831469612f }, { 1.0f, 0.0f },
{ 0.995184727f, -0.0980171403f }, { 0.98078528f, -0.195090322f }, { 0.956940336f, -0.290284677f },
{ 0.923879533f, -0.382683432f }, { 0.881921264f, -0.471396737f }, { 0.831469612f, -0.555570233f },
{ 0.773010453f, -0.634393284f }, { 0.707106781f, -0.707106781f }, { 0.634393284f, -0.773010453f },
{ 0.555570233f, -0.831469612f }, { 0.471396737f, -0.881921264f }, { 0.382683432f, -0.923879533f },
{ 0.290284677f, -0.956940336f }, { 0.195090322f, -0.98078528f }, { 0.0980171403f, -0.995184727f },
{ 1.0f, 0.0f }, { 0.991444861f, -0.130526192f }, { 0.965925826f, -0.258819045f },
{ 0.923879533f, -0.382683432f }, { 0.866025404f, -0.5f }, { 0.79335334f, -0.608761429f },
{ 0.707106781f, -0.707106781f }, { 0.608761429f, -0.79335334f }, { 0.5f, -0.866025404f },
{ 0.382683432f, -0.923879533f }, { 0.258819045f, -0.965925826f }, { 0.130526192f, -0.991444861f },
{ 0.0f, -1.0f }, { -0.130526192f, -0.991444861f }, { -0.258819045f, -0.965925826f },
{ -0.382683432f, -0.923879533f }, { 1.0f, 0.0f }, { 0.986643332f, -0.162895473f },
{ 0.946930129f, -0.321439465f }, { 0.881921264f, -0.471396737f }, { 0.79335334f, -0.608761429f },
{ 0.683592302f, -0.729864073f }, { 0.555570233f, -0.831469612f }, { 0.41270703f, -0.910863825f },
{ 0.258819045f, -0.965925826f }, { 0.0980171403f, -0.995184727f }, { -0.0654031292f, -0.997858923f },
{ -0.227076263f, -0.973876979f }, { -0.382683432f, -0.923879533f }, { -0.528067851f, -0.849202182f },
{ -0.659345815f, -0.751839807f }, { -0.773010453f, -0.634393284f }, { 1.0f, 0.0f },
{ 0.98078528f, -0.195090322f }, { 0.923879533f, -0.382683432f }, { 0.831469612f, -0.555570233f },
{ 0.707106781f, -0.707106781f }, { 0.555570233f, -0.831469612f }, { 0.382683432f, -0.923879533f },
{ 0.195090322f, -0.98078528f }, { 0.0f, -1.0f }, { -0.195090322f, -0.98078528f },
{ -0.382683432f, -0.923879533f }, { -0.555570233f, -0.831469612f }, { -0.707106781f, -0.707106781f },
{ -0.831469612f, -0.555570233f }, { -0.923879533f, -0.382683432f }, { -0.98078528f, -0.195090322f },
{ 1.0f, 0.0f }, { 0.973876979f, -0.227076263f }, { 0.896872742f, -0.44228869f },
{ 0.773010453f, -0.634393284f }, { 0.608761429f, -0.79335334f }, { 0.41270703f, -0.910863825f },
{ 0.195090322f, -0.98078528f }, { -0.0327190828f, -0.999464587f }, { -0.258819045f, -0.965925826f },
{ -0.471396737f, -0.881921264f }, { -0.659345815f, -0.751839807f }, { -0.812846685f, -0.582477697f },
{ -0.923879533f, -0.382683432f }, { -0.986643332f, -0.162895473f }, { -0.997858923f, 0.0654031292f },
{ -0.956940336f, 0.290284677f }, { 1.0f, 0.0f }, { 0.965925826f, -0.258819045f },
{ 0.866025404f, -0.5f }, { 0.707106781f, -0.707106781f }, { 0.5f, -0.866025404f },
{ 0.258819045f, -0.965925826f }, { 0.0f, -1.0f }, { -0.258819045f, -0.965925826f },
{ -0.5f, -0.866025404f }, { -0.707106781f, -0.707106781f }, { -0.866025404f, -0.5f },
{ -0.965925826f, -0.258819045f }, { -1.0f, 0.0f }, { -0.965925826f, 0.258819045f },
{ -0.866025404f, 0.5f }, { -0.707106781f, 0.707106781f }, { 1.0f, 0.0f },
{ 0.956940336f, -0.290284677f }, { 0.831469612f, -0.555570233f }, { 0.634393284f, -0.773010453f },
{ 0.382683432f, -0.923879533f }, { 0.0980171403f, -0.995184727f }, { -0.195090322f, -0.98078528f },
{ -0.471396737f, -0.881921264f }, { -0.707106781f, -0.707106781f }, { -0.881921264f, -0.471396737f },
{ -0.98078528f, -0.195090322f }, { -0.995184727f, 0.0980171403f }, { -0.923879533f, 0.382683432f },
{ -0.773010453f, 0.634393284f }, { -0.555570233f, 0.831469612f }, { -0.290284677f, 0.956940336f },
{ 1.0f, 0.0f }, { 0.946930129f, -0.321439465f }, { 0.79335334f, -0.608761429f },
{ 0.555570233f, -0.831469612f }, { 0.258819045f, -0.965925826f }, { -0.0654031292f, -0.997858923f },
{ -0.382683432f, -0.923879533f }, { -0.659345815f, -0.751839807f }, { -0.866025404f, -0.5f },
{ -0.98078528f, -0.195090322f }, { -0.991444861f, 0.130526192f }, { -0.896872742f, 0.44228869f },
{ -0.707106781f, 0.707106781f }, { -0.44228869f, 0.896872742f }, { -0.130526192f, 0.991444861f },
{ 0.195090322f, 0.98078528f }, { 1.0f, 0.0f }, { 0.935905927f, -0.352250048f },
{ 0.751839807f, -0.659345815f }, { 0.471396737f, -0.881921264f }, { 0.130526192f, -0.991444861f },
{ -0.227076263f, -0.973876979f }, { -0.555570233f, -0.831469612f }, { -0.812846685f, -0.582477697f },
{ -0.965925826f, -0.258819045f }, { -0.995184727f, 0.0980171403f }, { -0.896872742f, 0.44228869f },
{ -0.683592302f, 0.729864073f }, { -0.382683432f, 0.923879533f }, { -0.0327190828f, 0.999464587f },
{ 0.321439465f, 0.946930129f }, { 0.634393284f, 0.773010453f },
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
                                        int number, int f) {
    if (number >= kTiles) {
        return {};
    }
    const int row = number / kTilesAcross * kTileValidRows, column = number % kTilesAcross * kTileValidColumns;
    const int rows = min(kTileValidRows, kOutputRows - row), columns = min(kTileValidColumns, kOutputColumns - column);
    const int first_row = (plane * kFilters + f) * kOutputRows + row;
    return {plane_of(image, plane), result + first_row * kResultPitch + column, row - kBeforeRows,
            column - kBeforeColumns, rows, columns};
}

// Number of the chunk: the host passes it as a byte offset of pointer `chunk` from the workspace.
__device__ __forceinline__ int chunk_number(const float2* work, const void* chunk) {
    return static_cast<int>(static_cast<const char*>(chunk) - reinterpret_cast<const char*>(work));
}

// Address of item `number` of a chunk in the workspace.
__device__ __forceinline__ float2* workspace_of(float2* work, int chunk, int number) {
    return work + (chunk % 2 * kChunk + number) * (kPixelRows * kTileColumns);
}

__device__ __forceinline__ Pair pair_of(const Pixel* image, Result* result, int item) {
    const int number = item / kFilters % kPairs, plane = item / kFilters / kPairs,
              f = item % kFilters;
    return {tile_of(image, result, plane, number, f),
            tile_of(image, result, plane, kPairs + number, f)};
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
        __stcs(tile.target + y * kResultPitch + x, to_result(value));
    }
}

// Transforms the kFilters * kFilterRows rows of the filters, kBlockRows per block.
extern "C" __global__ void __launch_bounds__(96, 1)
filter2d_fft_taps(float2* __restrict__ taps, const Weights weights) {
    extern __shared__ __align__(16) float2 tile[];
    const int first = blockIdx.x * kBlockRows;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 108u; i += 96) {
        const int line = quotient<36>(i), item = modulo<36>(i);
        const int q = item;
        float2* const element = tile + line * 153 + q;
        float2 v[4];
        const int number = first + line;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int x = k * 36 + item;
            v[k] = make_float2(0.0f, 0.0f);
            if (number < kFilters * kFilterRows && x < kFilterColumns) {
                v[k].x = tap(weights, number / kFilterRows, number % kFilterRows, x);
            }
        }
        dft4(v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int k = 1; k < 4; ++k) {
            v[k] = times(v[k], kTwiddles4x36[(k - 1) * 36 + q]);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            element[k * 39] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 72u; i += 96) {
        const int line = quotient<24>(i), item = modulo<24>(i);
        const int p = quotient<6>(item), q = modulo<6>(item);
        float2* const element = tile + line * 153 + p * 39 + q;
        float2 v[6];
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            v[k] = element[k * 6];
        }
        dft6(v[0], v[1], v[2], v[3], v[4], v[5]);
#pragma unroll
        for (int k = 1; k < 6; ++k) {
            v[k] = times(v[k], kTwiddles6x6[(k - 1) * 6 + q]);
        }
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            element[k * 6] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 72u; i += 96) {
        const int line = quotient<24>(i), item = modulo<24>(i);
        const int p = item;
        float2* const element = tile + line * 153 + p % 4u * 39 + p / 4u * 6;
        float2 v[6];
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            v[k] = element[k * 1];
        }
        dft6(v[0], v[1], v[2], v[3], v[4], v[5]);
        if (first + line < kFilters * kFilterRows) {
#pragma unroll
            for (int k = 0; k < 6; ++k) {
                taps[(first + line) * kTileColumns + k * 24 + item] = v[k];
            }
        }
    }
}

// Transforms the columns of the filters. Stores the conjugate, as correlation needs, scaled, in the order in which
// transform_columns() reads it.
extern "C" __global__ void __launch_bounds__(64, 1)
filter2d_fft_spectrum(float2* __restrict__ spectra, const float2* __restrict__ taps) {
    extern __shared__ __align__(16) float2 tile[];
    const int f = blockIdx.x / 36, column = blockIdx.x % 36 * kBlockColumns;
    const float2* const source = taps + f * (kFilterRows * kTileColumns) + column;
    float2* const target = spectra + (f * kTileColumns + column) * kTileRows;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i % 4u, item = i / 4u;
        const int q = item;
        float2* const element = tile + (q) * 4 + line;
        float2 v[12];
#pragma unroll
        for (int k = 0; k < 12; ++k) {
            const int y = k * 16 + item;
            v[k] = y < kFilterRows ? __ldg(source + y * kTileColumns + line) : make_float2(0.0f, 0.0f);
        }
        dft12(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]);
#pragma unroll
        for (int k = 1; k < 12; ++k) {
            v[k] = times(v[k], kTwiddles12x16[(k - 1) * 16 + q]);
        }
#pragma unroll
        for (int k = 0; k < 12; ++k) {
            element[k * 68] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 48u; i += 64) {
        const int line = i % 4u, item = i / 4u;
        const int p = item;
        float2* const element = tile + (p * 17) * 4 + line;
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = element[k * 4];
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            target[k * 48 + i] = 3.61689815e-05f * conjugate(v[k]);
        }
    }
}

// Forward transform of kBlockRows rows of a pair of tiles, from the image to the workspace.
template <bool kInside>
__device__ __forceinline__ void transform_rows(const Pair& pair, int first, float2* target, float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 108u; i += 96) {
        const int line = quotient<36>(i), item = modulo<36>(i);
        const int q = item;
        float2* const element = tile + line * 153 + q;
        float2 v[4];
        const int y = first + line;
        if (kInside) {
            const Pixel* const one =
                pair.first.plane.pixels + (pair.first.row + y) * kPitch + pair.first.column + item;
            const Pixel* const other =
                pair.second.plane.pixels + (pair.second.row + y) * kPitch + pair.second.column + item;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                v[k].x = to_float(__ldg(one + k * 36));
                v[k].y = to_float(__ldg(other + k * 36));
            }
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                v[k] = make_float2(0.0f, 0.0f);
                if (k * 36 < kPixelColumns) {
                    v[k].x = pixel_of(pair.first, y, k * 36 + item);
                    v[k].y = pixel_of(pair.second, y, k * 36 + item);
                }
            }
        }
        dft4(v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int k = 1; k < 4; ++k) {
            v[k] = times(v[k], kTwiddles4x36[(k - 1) * 36 + q]);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            element[k * 39] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 72u; i += 96) {
        const int line = quotient<24>(i), item = modulo<24>(i);
        const int p = quotient<6>(item), q = modulo<6>(item);
        float2* const element = tile + line * 153 + p * 39 + q;
        float2 v[6];
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            v[k] = element[k * 6];
        }
        dft6(v[0], v[1], v[2], v[3], v[4], v[5]);
#pragma unroll
        for (int k = 1; k < 6; ++k) {
            v[k] = times(v[k], kTwiddles6x6[(k - 1) * 6 + q]);
        }
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            element[k * 6] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 72u; i += 96) {
        const int line = quotient<24>(i), item = modulo<24>(i);
        const int p = item;
        float2* const element = tile + line * 153 + p % 4u * 39 + p / 4u * 6;
        float2 v[6];
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            v[k] = element[k * 1];
        }
        dft6(v[0], v[1], v[2], v[3], v[4], v[5]);
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            target[(first + line) * kTileColumns + k * 24 + item] = v[k];
        }
    }
}

// The rows of block `block` in chunk `chunk`.
__device__ __forceinline__ void read_rows(const Pixel* image, Result* result, float2* work, int chunk, int block,
                                          float2* tile) {
    const int number = block / 64, first = block % 64 * kBlockRows;
    const Pair pair = pair_of(image, result, chunk * kChunk + number);
    float2* const target = workspace_of(work, chunk, number);
    if (is_inside(pair.first, first) && is_inside(pair.second, first)) {
        transform_rows<true>(pair, first, target, tile);
    } else {
        transform_rows<false>(pair, first, target, tile);
    }
}

extern "C" __global__ void __launch_bounds__(96)
filter2d_fft_rows(const Pixel* __restrict__ image, Result* __restrict__ result, float2* __restrict__ work,
                  const void* chunk) {
    extern __shared__ __align__(16) float2 tile[];
    read_rows(image, result, work, chunk_number(work, chunk), blockIdx.x, tile);
}

// Forward transform of columns, product with the filter's spectrum, and inverse transform, in place in the workspace:
// the columns of block `block` in chunk `chunk`.
__device__ __forceinline__ void transform_columns(float2* work, const float2* __restrict__ spectra, int chunk,
                                                  int block, float2* tile) {
    const int number = block / 36, column = block % 36 * kBlockColumns;
    float2* const source = workspace_of(work, chunk, number) + column;
    const int f = (chunk * kChunk + number) % kFilters;
    const float2* const factors = spectra + (f * kTileColumns + column) * kTileRows;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i % 4u, item = i / 4u;
        const int q = item;
        float2* const element = tile + (q) * 4 + line;
        float2 v[12];
#pragma unroll
        for (int k = 0; k < 12; ++k) {
            const int y = k * 16 + item;
            v[k] = __ldcg(source + y * kTileColumns + line);
        }
        dft12(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]);
#pragma unroll
        for (int k = 1; k < 12; ++k) {
            v[k] = times(v[k], kTwiddles12x16[(k - 1) * 16 + q]);
        }
#pragma unroll
        for (int k = 0; k < 12; ++k) {
            element[k * 68] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 48u; i += 64) {
        const int line = i % 4u, item = i / 4u;
        const int p = item;
        float2* const element = tile + (p * 17) * 4 + line;
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = element[k * 4];
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
        // Real and imaginary parts are swapped from here on, so that the forward DFTs compute the inverse.
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = swapped(times(v[k], __ldg(factors + k * 48 + i)));
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            element[k * 4] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i % 4u, item = i / 4u;
        const int q = item;
        float2* const element = tile + (q) * 4 + line;
        float2 v[12];
#pragma unroll
        for (int k = 0; k < 12; ++k) {
            v[k] = element[k * 68];
        }
#pragma unroll
        for (int k = 1; k < 12; ++k) {
            v[k] = times(v[k], kTwiddles12x16[(k - 1) * 16 + q]);
        }
        dft12(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]);
#pragma unroll
        for (int k = 0; k < 12; ++k) {
            const int y = k * 16 + item;
            if (y < 98) {
                source[y * kTileColumns + line] = v[k];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(64, 2)
filter2d_fft_columns(float2* __restrict__ work, const float2* __restrict__ spectra, const void* chunk) {
    extern __shared__ __align__(16) float2 tile[];
    transform_columns(work, spectra, chunk_number(work, chunk), blockIdx.x, tile);
}

// Inverse transform of rows, from the workspace to the result: the rows of block `block` in chunk `chunk`.
__device__ __forceinline__ void write_rows(const Pixel* image, Result* result, float2* work, int chunk, int block,
                                           float2* tile) {
    const int number = block / 33, first = block % 33 * kBlockRows;
    const Pair pair = pair_of(image, result, chunk * kChunk + number);
    const float2* const source = workspace_of(work, chunk, number);
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 72u; i += 96) {
        const int line = quotient<24>(i), item = modulo<24>(i);
        const int p = item;
        float2* const element = tile + line * 153 + p % 4u * 39 + p / 4u * 6;
        float2 v[6];
        const int y = min(first + line, kPixelRows - 1);
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            v[k] = __ldcg(source + y * kTileColumns + k * 24 + item);
        }
        dft6(v[0], v[1], v[2], v[3], v[4], v[5]);
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            element[k * 1] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 72u; i += 96) {
        const int line = quotient<24>(i), item = modulo<24>(i);
        const int p = quotient<6>(item), q = modulo<6>(item);
        float2* const element = tile + line * 153 + p * 39 + q;
        float2 v[6];
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            v[k] = element[k * 6];
        }
#pragma unroll
        for (int k = 1; k < 6; ++k) {
            v[k] = times(v[k], kTwiddles6x6[(k - 1) * 6 + q]);
        }
        dft6(v[0], v[1], v[2], v[3], v[4], v[5]);
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            element[k * 6] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 108u; i += 96) {
        const int line = quotient<36>(i), item = modulo<36>(i);
        const int q = item;
        float2* const element = tile + line * 153 + q;
        float2 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = element[k * 39];
        }
#pragma unroll
        for (int k = 1; k < 4; ++k) {
            v[k] = times(v[k], kTwiddles4x36[(k - 1) * 36 + q]);
        }
        dft4(v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (k * 36 < 54) {
                store(pair.first, first + line, k * 36 + item, v[k].y);
                store(pair.second, first + line, k * 36 + item, v[k].x);
            }
        }
    }
}

// Stores the results of a chunk and reads the pixels of the next one: even and odd blocks alternate, so that loads and
// stores overlap.
extern "C" __global__ void __launch_bounds__(96)
filter2d_fft_between(const Pixel* __restrict__ image, Result* __restrict__ result, float2* __restrict__ work,
                     const void* chunk) {
    extern __shared__ __align__(16) float2 tile[];
    constexpr int kResults = kChunk * 33;  // blocks that store results
    const int block = blockIdx.x, both = min(kResults, static_cast<int>(gridDim.x) - kResults);
    const bool writes = block < 2 * both ? block % 2 == 0 : both < kResults;
    const int block_of_part = block < 2 * both ? block / 2 : block - both;
    if (writes) {
        write_rows(image, result, work, chunk_number(work, chunk), block_of_part, tile);
    } else {
        read_rows(image, result, work, chunk_number(work, chunk) + 1, block_of_part, tile);
    }
}

extern "C" __global__ void __launch_bounds__(96)
filter2d_fft_results(const Pixel* __restrict__ image, Result* __restrict__ result, float2* __restrict__ work,
                     const void* chunk) {
    extern __shared__ __align__(16) float2 tile[];
    write_rows(image, result, work, chunk_number(work, chunk), blockIdx.x, tile);
}
