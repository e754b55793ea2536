// warpsmith filter2d_fft
// problem: filter2d image=9216x9216 filter=65x65 planes=1 dtype=float32 border=valid accuracy=imagewise
// config:  blocks=264 buffers=4 column_threads=192 columns=16 min_blocks=2 pairs=2 partners=adjacent path=global
//          row_threads=192 rows=8 store=streaming twiddles=powers weights=argument x_radices=28x32 y_radices=20x24
//
// Overlap-save: tiles of 480 x 896 pixels, 416 x 832 results.
// Two tiles are one complex tile in the workspace, 2 of them per chunk. A block transforms
// rows or columns in shared memory, a barrier between passes: rows first, then columns, the product with
// the filter's spectrum, the inverse of the columns, and the inverse of the rows. All passes are in place.

constexpr int kRows = 9216;  // rows of one plane of the image
constexpr int kColumns = 9216;
constexpr int kChannels = 1;  // interleaved elements of a pixel
constexpr int kPitch = 9216;  // elements from one row to the next
constexpr int kFilters = 1;
constexpr int kFilterRows = 65;
constexpr int kFilterColumns = 65;
constexpr int kOutputRows = kRows - kFilterRows + 1;
constexpr int kOutputColumns = kColumns - kFilterColumns + 1;
constexpr int kResultPitch = 9152;
constexpr int kBeforeRows = 0;  // rows of a window above its output pixel
constexpr int kBeforeColumns = 0;  // columns of a window left of it

using Pixel = float;
using Result = float;

static_assert(kChannels == 1, "columns are elements");

constexpr int kTileRows = 480;  // pixels before the transform, frequencies after it
constexpr int kTileColumns = 896;
constexpr int kTileValidRows = kTileRows - kFilterRows + 1;  // rows of results per tile
constexpr int kTileValidColumns = kTileColumns - kFilterColumns + 1;
constexpr int kPixelRows = 480;  // rows of a tile that results need; the others are 0
constexpr int kPixelColumns = 896;
constexpr int kTilesAcross = 11;  // tiles across a plane
constexpr int kTiles = 22 * kTilesAcross;  // tiles per plane
constexpr int kPairs = 121;  // pairs of tiles per plane
constexpr int kChunk = 2;  // items, pairs of tiles, per chunk of the workspace
constexpr int kBlockRows = 8;  // rows that a block transforms
constexpr int kBlockColumns = 16;  // columns that a block transforms

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

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

// Border `valid`: no window reaches outside the image.
__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, row, element);
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
__device__ __forceinline__ void dft4(float2& x0, float2& x1, float2& x2, float2& x3) {
    const float2 even = x0 + x2, odd = x1 + x3, across = x0 - x2;
    const float2 rotated = times_minus_i(x1 - x3);
    x0 = even + odd;
    x2 = even - odd;
    x1 = across + rotated;
    x3 = across - rotated;
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
__device__ __forceinline__ void dft20(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15,
    float2& x16, float2& x17, float2& x18, float2& x19) {
    dft4(x0, x5, x10, x15);
    dft4(x1, x6, x11, x16);
    dft4(x2, x7, x12, x17);
    dft4(x3, x8, x13, x18);
    dft4(x4, x9, x14, x19);
    x6 = times(x6, 0.951056516f, -0.309016994f);
    x7 = times(x7, 0.809016994f, -0.587785252f);
    x8 = times(x8, 0.587785252f, -0.809016994f);
    x9 = times(x9, 0.309016994f, -0.951056516f);
    x11 = times(x11, 0.809016994f, -0.587785252f);
    x12 = times(x12, 0.309016994f, -0.951056516f);
    x13 = times(x13, -0.309016994f, -0.951056516f);
    x14 = times(x14, -0.809016994f, -0.587785252f);
    x16 = times(x16, 0.587785252f, -0.809016994f);
    x17 = times(x17, -0.309016994f, -0.951056516f);
    x18 = times(x18, -0.951056516f, -0.309016994f);
    x19 = times(x19, -0.809016994f, 0.587785252f);
    dft5(x0, x1, x2, x3, x4);
    dft5(x5, x6, x7, x8, x9);
    dft5(x10, x11, x12, x13, x14);
    dft5(x15, x16, x17, x18, x19);
    const float2 y5 = x5, y10 = x10, y15 = x15, y1 = x1, y6 = x6, y11 = x11, y16 = x16, y2 = x2, y7 = x7,
        y12 = x12, y17 = x17, y3 = x3, y8 = x8, y13 = x13, y18 = x18, y4 = x4, y9 = x9, y14 = x14;
    x1 = y5;
    x2 = y10;
    x3 = y15;
    x4 = y1;
    x5 = y6;
    x6 = y11;
    x7 = y16;
    x8 = y2;
    x9 = y7;
    x10 = y12;
    x11 = y17;
    x12 = y3;
    x13 = y8;
    x14 = y13;
    x15 = y18;
    x16 = y4;
    x17 = y9;
    x18 = y14;
}
__device__ __forceinline__ void dft28(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15,
    float2& x16, float2& x17, float2& x18, float2& x19, float2& x20, float2& x21, float2& x22, float2& x23,
    float2& x24, float2& x25, float2& x26, float2& x27) {
    dft4(x0, x7, x14, x21);
    dft4(x1, x8, x15, x22);
    dft4(x2, x9, x16, x23);
    dft4(x3, x10, x17, x24);
    dft4(x4, x11, x18, x25);
    dft4(x5, x12, x19, x26);
    dft4(x6, x13, x20, x27);
    x8 = times(x8, 0.974927912f, -0.222520934f);
    x9 = times(x9, 0.900968868f, -0.433883739f);
    x10 = times(x10, 0.781831482f, -0.623489802f);
    x11 = times(x11, 0.623489802f, -0.781831482f);
    x12 = times(x12, 0.433883739f, -0.900968868f);
    x13 = times(x13, 0.222520934f, -0.974927912f);
    x15 = times(x15, 0.900968868f, -0.433883739f);
    x16 = times(x16, 0.623489802f, -0.781831482f);
    x17 = times(x17, 0.222520934f, -0.974927912f);
    x18 = times(x18, -0.222520934f, -0.974927912f);
    x19 = times(x19, -0.623489802f, -0.781831482f);
    x20 = times(x20, -0.900968868f, -0.433883739f);
    x22 = times(x22, 0.781831482f, -0.623489802f);
    x23 = times(x23, 0.222520934f, -0.974927912f);
    x24 = times(x24, -0.433883739f, -0.900968868f);
    x25 = times(x25, -0.900968868f, -0.433883739f);
    x26 = times(x26, -0.974927912f, 0.222520934f);
    x27 = times(x27, -0.623489802f, 0.781831482f);
    dft7(x0, x1, x2, x3, x4, x5, x6);
    dft7(x7, x8, x9, x10, x11, x12, x13);
    dft7(x14, x15, x16, x17, x18, x19, x20);
    dft7(x21, x22, x23, x24, x25, x26, x27);
    const float2 y7 = x7, y14 = x14, y21 = x21, y1 = x1, y8 = x8, y15 = x15, y22 = x22, y2 = x2, y16 = x16,
        y23 = x23, y3 = x3, y10 = x10, y17 = x17, y24 = x24, y4 = x4, y11 = x11, y25 = x25, y5 = x5, y12 = x12,
        y19 = x19, y26 = x26, y6 = x6, y13 = x13, y20 = x20;
    x1 = y7;
    x2 = y14;
    x3 = y21;
    x4 = y1;
    x5 = y8;
    x6 = y15;
    x7 = y22;
    x8 = y2;
    x10 = y16;
    x11 = y23;
    x12 = y3;
    x13 = y10;
    x14 = y17;
    x15 = y24;
    x16 = y4;
    x17 = y11;
    x19 = y25;
    x20 = y5;
    x21 = y12;
    x22 = y19;
    x23 = y26;
    x24 = y6;
    x25 = y13;
    x26 = y20;
}
__device__ __forceinline__ void dft24(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15,
    float2& x16, float2& x17, float2& x18, float2& x19, float2& x20, float2& x21, float2& x22, float2& x23) {
    dft3(x0, x8, x16);
    dft3(x1, x9, x17);
    dft3(x2, x10, x18);
    dft3(x3, x11, x19);
    dft3(x4, x12, x20);
    dft3(x5, x13, x21);
    dft3(x6, x14, x22);
    dft3(x7, x15, x23);
    x9 = times(x9, 0.965925826f, -0.258819045f);
    x10 = times(x10, 0.866025404f, -0.5f);
    x11 = times(x11, 0.707106781f, -0.707106781f);
    x12 = times(x12, 0.5f, -0.866025404f);
    x13 = times(x13, 0.258819045f, -0.965925826f);
    x14 = times_minus_i(x14);
    x15 = times(x15, -0.258819045f, -0.965925826f);
    x17 = times(x17, 0.866025404f, -0.5f);
    x18 = times(x18, 0.5f, -0.866025404f);
    x19 = times_minus_i(x19);
    x20 = times(x20, -0.5f, -0.866025404f);
    x21 = times(x21, -0.866025404f, -0.5f);
    x22 = -1.0f * x22;
    x23 = times(x23, -0.866025404f, 0.5f);
    dft8(x0, x1, x2, x3, x4, x5, x6, x7);
    dft8(x8, x9, x10, x11, x12, x13, x14, x15);
    dft8(x16, x17, x18, x19, x20, x21, x22, x23);
    const float2 y8 = x8, y16 = x16, y1 = x1, y9 = x9, y17 = x17, y2 = x2, y10 = x10, y18 = x18, y3 = x3,
        y11 = x11, y19 = x19, y4 = x4, y12 = x12, y20 = x20, y5 = x5, y13 = x13, y21 = x21, y6 = x6, y14 = x14,
        y22 = x22, y7 = x7, y15 = x15;
    x1 = y8;
    x2 = y16;
    x3 = y1;
    x4 = y9;
    x5 = y17;
    x6 = y2;
    x7 = y10;
    x8 = y18;
    x9 = y3;
    x10 = y11;
    x11 = y19;
    x12 = y4;
    x13 = y12;
    x14 = y20;
    x15 = y5;
    x16 = y13;
    x17 = y21;
    x18 = y6;
    x19 = y14;
    x20 = y22;
    x21 = y7;
    x22 = y15;
}
__device__ __forceinline__ void dft32(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15,
    float2& x16, float2& x17, float2& x18, float2& x19, float2& x20, float2& x21, float2& x22, float2& x23,
    float2& x24, float2& x25, float2& x26, float2& x27, float2& x28, float2& x29, float2& x30, float2& x31) {
    dft4(x0, x8, x16, x24);
    dft4(x1, x9, x17, x25);
    dft4(x2, x10, x18, x26);
    dft4(x3, x11, x19, x27);
    dft4(x4, x12, x20, x28);
    dft4(x5, x13, x21, x29);
    dft4(x6, x14, x22, x30);
    dft4(x7, x15, x23, x31);
    x9 = times(x9, 0.98078528f, -0.195090322f);
    x10 = times(x10, 0.923879533f, -0.382683432f);
    x11 = times(x11, 0.831469612f, -0.555570233f);
    x12 = times(x12, 0.707106781f, -0.707106781f);
    x13 = times(x13, 0.555570233f, -0.831469612f);
    x14 = times(x14, 0.382683432f, -0.923879533f);
    x15 = times(x15, 0.195090322f, -0.98078528f);
    x17 = times(x17, 0.923879533f, -0.382683432f);
    x18 = times(x18, 0.707106781f, -0.707106781f);
    x19 = times(x19, 0.382683432f, -0.923879533f);
    x20 = times_minus_i(x20);
    x21 = times(x21, -0.382683432f, -0.923879533f);
    x22 = times(x22, -0.707106781f, -0.707106781f);
    x23 = times(x23, -0.923879533f, -0.382683432f);
    x25 = times(x25, 0.831469612f, -0.555570233f);
    x26 = times(x26, 0.382683432f, -0.923879533f);
    x27 = times(x27, -0.195090322f, -0.98078528f);
    x28 = times(x28, -0.707106781f, -0.707106781f);
    x29 = times(x29, -0.98078528f, -0.195090322f);
    x30 = times(x30, -0.923879533f, 0.382683432f);
    x31 = times(x31, -0.555570233f, 0.831469612f);
    dft8(x0, x1, x2, x3, x4, x5, x6, x7);
    dft8(x8, x9, x10, x11, x12, x13, x14, x15);
    dft8(x16, x17, x18, x19, x20, x21, x22, x23);
    dft8(x24, x25, x26, x27, x28, x29, x30, x31);
    const float2 y8 = x8, y16 = x16, y24 = x24, y1 = x1, y9 = x9, y17 = x17, y25 = x25, y2 = x2, y10 = x10,
        y18 = x18, y26 = x26, y3 = x3, y11 = x11, y19 = x19, y27 = x27, y4 = x4, y12 = x12, y20 = x20, y28 =
        x28, y5 = x5, y13 = x13, y21 = x21, y29 = x29, y6 = x6, y14 = x14, y22 = x22, y30 = x30, y7 = x7, y15 =
        x15, y23 = x23;
    x1 = y8;
    x2 = y16;
    x3 = y24;
    x4 = y1;
    x5 = y9;
    x6 = y17;
    x7 = y25;
    x8 = y2;
    x9 = y10;
    x10 = y18;
    x11 = y26;
    x12 = y3;
    x13 = y11;
    x14 = y19;
    x15 = y27;
    x16 = y4;
    x17 = y12;
    x18 = y20;
    x19 = y28;
    x20 = y5;
    x21 = y13;
    x22 = y21;
    x23 = y29;
    x24 = y6;
    x25 = y14;
    x26 = y22;
    x27 = y30;
    x28 = y7;
    x29 = y15;
    x30 = y23;
}

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i k q / 896) for k = 1, 2, 4, 8, 16, q = 0 to 31.
__device__ const float2 kTwiddles28x32[160] = {
{ 1.0f, 0.0f }, { 0.999975413f, -0.00701242613f }, { 0.999901652f, -0.0140245074f },
{ 0.999778721f, -0.0210358991f }, { 0.999606626f, -0.0280462563f }, { 0.999385376f, -0.0350552343f },
{ 0.999114982f, -0.0420624885f }, { 0.998795456f, -0.0490676743f }, { 0.998426815f, -0.0560704472f },
{ 0.998009076f, -0.0630704629f }, { 0.997542261f, -0.0700673771f }, { 0.997026392f, -0.0770608457f },
{ 0.996461494f, -0.0840505249f }, { 0.995847596f, -0.091036071f }, { 0.995184727f, -0.0980171403f },
{ 0.99447292f, -0.10499339f }, { 0.99371221f, -0.111964476f }, { 0.992902635f, -0.118930057f },
{ 0.992044233f, -0.125889789f }, { 0.991137049f, -0.13284333f }, { 0.990181125f, -0.13979034f },
{ 0.98917651f, -0.146730474f }, { 0.988123252f, -0.153663394f }, { 0.987021404f, -0.160588757f },
{ 0.985871019f, -0.167506223f }, { 0.984672154f, -0.174415452f }, { 0.983424868f, -0.181316105f },
{ 0.982129222f, -0.188207841f }, { 0.98078528f, -0.195090322f }, { 0.979393109f, -0.20196321f },
{ 0.977952776f, -0.208826166f }, { 0.976464353f, -0.215678853f }, { 1.0f, 0.0f },
{ 0.999901652f, -0.0140245074f }, { 0.999606626f, -0.0280462563f }, { 0.999114982f, -0.0420624885f },
{ 0.998426815f, -0.0560704472f }, { 0.997542261f, -0.0700673771f }, { 0.996461494f, -0.0840505249f },
{ 0.995184727f, -0.0980171403f }, { 0.99371221f, -0.111964476f }, { 0.992044233f, -0.125889789f },
{ 0.990181125f, -0.13979034f }, { 0.988123252f, -0.153663394f }, { 0.985871019f, -0.167506223f },
{ 0.983424868f, -0.181316105f }, { 0.98078528f, -0.195090322f }, { 0.977952776f, -0.208826166f },
{ 0.974927912f, -0.222520934f }, { 0.971711283f, -0.236171933f }, { 0.968303522f, -0.249776478f },
{ 0.964705299f, -0.263331893f }, { 0.960917322f, -0.276835511f }, { 0.956940336f, -0.290284677f },
{ 0.952775123f, -0.303676745f }, { 0.948422502f, -0.317009081f }, { 0.94388333f, -0.330279062f },
{ 0.9391585f, -0.343484078f }, { 0.93424894f, -0.356621533f }, { 0.929155617f, -0.369688841f },
{ 0.923879533f, -0.382683432f }, { 0.918421724f, -0.395602751f }, { 0.912783265f, -0.408444257f },
{ 0.906965265f, -0.421205423f }, { 1.0f, 0.0f }, { 0.999606626f, -0.0280462563f },
{ 0.998426815f, -0.0560704472f }, { 0.996461494f, -0.0840505249f }, { 0.99371221f, -0.111964476f },
{ 0.990181125f, -0.13979034f }, { 0.985871019f, -0.167506223f }, { 0.98078528f, -0.195090322f },
{ 0.974927912f, -0.222520934f }, { 0.968303522f, -0.249776478f }, { 0.960917322f, -0.276835511f },
{ 0.952775123f, -0.303676745f }, { 0.94388333f, -0.330279062f }, { 0.93424894f, -0.356621533f },
{ 0.923879533f, -0.382683432f }, { 0.912783265f, -0.408444257f }, { 0.900968868f, -0.433883739f },
{ 0.888445636f, -0.458981864f }, { 0.875223422f, -0.483718887f }, { 0.861312628f, -0.508075345f },
{ 0.846724199f, -0.532032077f }, { 0.831469612f, -0.555570233f }, { 0.815560869f, -0.578671296f },
{ 0.799010485f, -0.601317091f }, { 0.781831482f, -0.623489802f }, { 0.764037376f, -0.645171984f },
{ 0.745642165f, -0.666346578f }, { 0.726660322f, -0.686996926f }, { 0.707106781f, -0.707106781f },
{ 0.686996926f, -0.726660322f }, { 0.666346578f, -0.745642165f }, { 0.645171984f, -0.764037376f },
{ 1.0f, 0.0f }, { 0.998426815f, -0.0560704472f }, { 0.99371221f, -0.111964476f },
{ 0.985871019f, -0.167506223f }, { 0.974927912f, -0.222520934f }, { 0.960917322f, -0.276835511f },
{ 0.94388333f, -0.330279062f }, { 0.923879533f, -0.382683432f }, { 0.900968868f, -0.433883739f },
{ 0.875223422f, -0.483718887f }, { 0.846724199f, -0.532032077f }, { 0.815560869f, -0.578671296f },
{ 0.781831482f, -0.623489802f }, { 0.745642165f, -0.666346578f }, { 0.707106781f, -0.707106781f },
{ 0.666346578f, -0.745642165f }, { 0.623489802f, -0.781831482f }, { 0.578671296f, -0.815560869f },
{ 0.532032077f, -0.846724199f }, { 0.483718887f, -0.875223422f }, { 0.433883739f, -0.900968868f },
{ 0.382683432f, -0.923879533f }, { 0.330279062f, -0.94388333f }, { 0.276835511f, -0.960917322f },
{ 0.222520934f, -0.974927912f }, { 0.167506223f, -0.985871019f }, { 0.111964476f, -0.99371221f },
{ 0.0560704472f, -0.998426815f }, { 0.0f, -1.0f }, { -0.0560704472f, -0.998426815f },
{ -0.111964476f, -0.99371221f }, { -0.167506223f, -0.985871019f }, { 1.0f, 0.0f },
{ 0.99371221f, -0.111964476f }, { 0.974927912f, -0.222520934f }, { 0.94388333f, -0.330279062f },
{ 0.900968868f, -0.433883739f }, { 0.846724199f, -0.532032077f }, { 0.781831482f, -0.623489802f },
{ 0.707106781f, -0.707106781f }, { 0.623489802f, -0.781831482f }, { 0.532032077f, -0.846724199f },
{ 0.433883739f, -0.900968868f }, { 0.330279062f, -0.94388333f }, { 0.222520934f, -0.974927912f },
{ 0.111964476f, -0.99371221f }, { 0.0f, -1.0f }, { -0.111964476f, -0.99371221f },
{ -0.222520934f, -0.974927912f }, { -0.330279062f, -0.94388333f }, { -0.433883739f, -0.900968868f },
{ -0.532032077f, -0.846724199f }, { -0.623489802f, -0.781831482f }, { -0.707106781f, -0.707106781f },
{ -0.781831482f, -0.623489802f }, { -0.846724199f, -0.532032077f }, { -0.900968868f, -0.433883739f },
{ -0.94388333f, -0.330279062f }, { -0.974927912f, -0.222520934f }, { -0.99371221f, -0.111964476f },
{ -1.0f, 0.0f }, { -0.99371221f, 0.111964476f }, { -0.974927912f, 0.222520934f },
{ -0.94388333f, 0.330279062f },
};

// exp(-2 pi i k q / 480) for k = 1, 2, 4, 8, 16, q = 0 to 23.
__device__ const float2 kTwiddles20x24[120] = {
{ 1.0f, 0.0f }, { 0.999914328f, -0.0130895956f }, { 0.999657325f, -0.0261769483f },
{ 0.999229036f, -0.0392598158f }, { 0.998629535f, -0.0523359562f }, { 0.997858923f, -0.0654031292f },
{ 0.996917334f, -0.0784590957f }, { 0.995804928f, -0.0915016187f }, { 0.994521895f, -0.104528463f },
{ 0.993068457f, -0.117537397f }, { 0.991444861f, -0.130526192f }, { 0.989651387f, -0.143492622f },
{ 0.987688341f, -0.156434465f }, { 0.985556059f, -0.169349504f }, { 0.983254908f, -0.182235525f },
{ 0.98078528f, -0.195090322f }, { 0.978147601f, -0.207911691f }, { 0.975342321f, -0.220697435f },
{ 0.97236992f, -0.233445364f }, { 0.96923091f, -0.246153293f }, { 0.965925826f, -0.258819045f },
{ 0.962455236f, -0.27144045f }, { 0.958819735f, -0.284015345f }, { 0.955019944f, -0.296541575f },
{ 1.0f, 0.0f }, { 0.999657325f, -0.0261769483f }, { 0.998629535f, -0.0523359562f },
{ 0.996917334f, -0.0784590957f }, { 0.994521895f, -0.104528463f }, { 0.991444861f, -0.130526192f },
{ 0.987688341f, -0.156434465f }, { 0.983254908f, -0.182235525f }, { 0.978147601f, -0.207911691f },
{ 0.97236992f, -0.233445364f }, { 0.965925826f, -0.258819045f }, { 0.958819735f, -0.284015345f },
{ 0.951056516f, -0.309016994f }, { 0.942641491f, -0.333806859f }, { 0.933580426f, -0.35836795f },
{ 0.923879533f, -0.382683432f }, { 0.913545458f, -0.406736643f }, { 0.902585284f, -0.430511097f },
{ 0.891006524f, -0.4539905f }, { 0.878817113f, -0.47715876f }, { 0.866025404f, -0.5f },
{ 0.852640164f, -0.522498565f }, { 0.838670568f, -0.544639035f }, { 0.824126189f, -0.566406237f },
{ 1.0f, 0.0f }, { 0.998629535f, -0.0523359562f }, { 0.994521895f, -0.104528463f },
{ 0.987688341f, -0.156434465f }, { 0.978147601f, -0.207911691f }, { 0.965925826f, -0.258819045f },
{ 0.951056516f, -0.309016994f }, { 0.933580426f, -0.35836795f }, { 0.913545458f, -0.406736643f },
{ 0.891006524f, -0.4539905f }, { 0.866025404f, -0.5f }, { 0.838670568f, -0.544639035f },
{ 0.809016994f, -0.587785252f }, { 0.777145961f, -0.629320391f }, { 0.743144825f, -0.669130606f },
{ 0.707106781f, -0.707106781f }, { 0.669130606f, -0.743144825f }, { 0.629320391f, -0.777145961f },
{ 0.587785252f, -0.809016994f }, { 0.544639035f, -0.838670568f }, { 0.5f, -0.866025404f },
{ 0.4539905f, -0.891006524f }, { 0.406736643f, -0.913545458f }, { 0.35836795f, -0.933580426f },
{ 1.0f, 0.0f }, { 0.994521895f, -0.104528463f }, { 0.978147601f, -0.207911691f },
{ 0.951056516f, -0.309016994f }, { 0.913545458f, -0.406736643f }, { 0.866025404f, -0.5f },
{ 0.809016994f, -0.587785252f }, { 0.743144825f, -0.669130606f }, { 0.669130606f, -0.743144825f },
{ 0.587785252f, -0.809016994f }, { 0.5f, -0.866025404f }, { 0.406736643f, -0.913545458f },
{ 0.309016994f, -0.951056516f }, { 0.207911691f, -0.978147601f }, { 0.104528463f, -0.994521895f },
{ 0.0f, -1.0f }, { -0.104528463f, -0.994521895f }, { -0.207911691f, -0.978147601f },
{ -0.309016994f, -0.951056516f }, { -0.406736643f, -0.913545458f }, { -0.5f, -0.866025404f },
{ -0.587785252f, -0.809016994f }, { -0.669130606f, -0.743144825f }, { -0.743144825f, -0.669130606f },
{ 1.0f, 0.0f }, { 0.978147601f, -0.207911691f }, { 0.913545458f, -0.406736643f },
{ 0.809016994f, -0.587785252f }, { 0.669130606f, -0.743144825f }, { 0.5f, -0.866025404f },
{ 0.309016994f, -0.951056516f }, { 0.104528463f, -0.994521895f }, { -0.104528463f, -0.994521895f },
{ -0.309016994f, -0.951056516f }, { -0.5f, -0.866025404f }, { -0.669130606f, -0.743144825f },
{ -0.809016994f, -0.587785252f }, { -0.913545458f, -0.406736643f }, { -0.978147601f, -0.207911691f },
{ -1.0f, 0.0f }, { -0.978147601f, 0.207911691f }, { -0.913545458f, 0.406736643f },
{ -0.809016994f, 0.587785252f }, { -0.669130606f, 0.743144825f }, { -0.5f, 0.866025404f },
{ -0.309016994f, 0.951056516f }, { -0.104528463f, 0.994521895f }, { 0.104528463f, 0.994521895f },
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

// Address of item `number` of a chunk in the workspace.
__device__ __forceinline__ float2* workspace_of(float2* work, int chunk, int number) {
    return work + (chunk % 4 * kChunk + number) * (kPixelRows * kTileColumns);
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
        __stcs(tile.target + y * kResultPitch + x, to_result(value));
    }
}

// Transforms the kFilters * kFilterRows rows of the filters, kBlockRows per block.
extern "C" __global__ void __launch_bounds__(192, 1)
filter2d_fft_taps(float2* __restrict__ taps, const __grid_constant__ Weights weights) {
    extern __shared__ __align__(16) float2 tile[];
    const int first = blockIdx.x * kBlockRows;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 256u; i += 192) {
        const int line = i / 32u, item = i % 32u;
        const int q = item;
        float2* const element = tile + line * 923 + q;
        float2 v[28];
        const int number = first + line;
#pragma unroll
        for (int k = 0; k < 28; ++k) {
            const int x = k * 32 + item;
            v[k] = make_float2(0.0f, 0.0f);
            if (number < kFilters * kFilterRows && x < kFilterColumns) {
                v[k].x = tap(weights, number / kFilterRows, number % kFilterRows, x);
            }
        }
        dft28(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27]);
        const float2 w1 = kTwiddles28x32[q];
        const float2 w2 = kTwiddles28x32[32 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles28x32[64 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles28x32[96 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        const float2 w16 = kTwiddles28x32[128 + q];
        const float2 w17 = times(w16, w1);
        const float2 w18 = times(w16, w2);
        const float2 w19 = times(w16, w3);
        const float2 w20 = times(w16, w4);
        const float2 w21 = times(w16, w5);
        const float2 w22 = times(w16, w6);
        const float2 w23 = times(w16, w7);
        const float2 w24 = times(w16, w8);
        const float2 w25 = times(w16, w9);
        const float2 w26 = times(w16, w10);
        const float2 w27 = times(w16, w11);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
        v[16] = times(v[16], w16);
        v[17] = times(v[17], w17);
        v[18] = times(v[18], w18);
        v[19] = times(v[19], w19);
        v[20] = times(v[20], w20);
        v[21] = times(v[21], w21);
        v[22] = times(v[22], w22);
        v[23] = times(v[23], w23);
        v[24] = times(v[24], w24);
        v[25] = times(v[25], w25);
        v[26] = times(v[26], w26);
        v[27] = times(v[27], w27);
#pragma unroll
        for (int k = 0; k < 28; ++k) {
            element[k * 33] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 224u; i += 192) {
        const int line = quotient<28>(i), item = modulo<28>(i);
        const int p = item;
        float2* const element = tile + line * 923 + p * 33;
        float2 v[32];
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            v[k] = element[k * 1];
        }
        dft32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27], v[28],
            v[29], v[30], v[31]);
        if (first + line < kFilters * kFilterRows) {
#pragma unroll
            for (int k = 0; k < 32; ++k) {
                taps[(first + line) * kTileColumns + k * 28 + item] = v[k];
            }
        }
    }
}

// Transforms the columns of the filters. Stores the conjugate, as correlation needs, scaled, in the order in which
// transform_columns() reads it.
extern "C" __global__ void __launch_bounds__(192, 1)
filter2d_fft_spectrum(float2* __restrict__ spectra, const float2* __restrict__ taps) {
    extern __shared__ __align__(16) float2 tile[];
    const int f = blockIdx.x / 56, column = blockIdx.x % 56 * kBlockColumns;
    const float2* const source = taps + f * (kFilterRows * kTileColumns) + column;
    float2* const target = spectra + (f * kTileColumns + column) * kTileRows;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 384u; i += 192) {
        const int line = i % 16u, item = i / 16u;
        const int q = item;
        float2* const element = tile + (q) * 16 + line;
        float2 v[20];
#pragma unroll
        for (int k = 0; k < 20; ++k) {
            const int y = k * 24 + item;
            v[k] = y < kFilterRows ? __ldg(source + y * kTileColumns + line) : make_float2(0.0f, 0.0f);
        }
        dft20(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19]);
        const float2 w1 = kTwiddles20x24[q];
        const float2 w2 = kTwiddles20x24[24 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles20x24[48 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles20x24[72 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        const float2 w16 = kTwiddles20x24[96 + q];
        const float2 w17 = times(w16, w1);
        const float2 w18 = times(w16, w2);
        const float2 w19 = times(w16, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
        v[16] = times(v[16], w16);
        v[17] = times(v[17], w17);
        v[18] = times(v[18], w18);
        v[19] = times(v[19], w19);
#pragma unroll
        for (int k = 0; k < 20; ++k) {
            element[k * 384] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 320u; i += 192) {
        const int line = i % 16u, item = i / 16u;
        const int p = item;
        float2* const element = tile + (p * 24) * 16 + line;
        float2 v[24];
#pragma unroll
        for (int k = 0; k < 24; ++k) {
            v[k] = element[k * 16];
        }
        dft24(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23]);
#pragma unroll
        for (int k = 0; k < 24; ++k) {
            target[k * 320 + i] = 2.32514881e-06f * conjugate(v[k]);
        }
    }
}

// Forward transform of kBlockRows rows of a pair of tiles, from the image to the workspace.
template <bool kInside>
__device__ __forceinline__ void transform_rows(const Pair& pair, int first, float2* target, float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 256u; i += 192) {
        const int line = i / 32u, item = i % 32u;
        const int q = item;
        float2* const element = tile + line * 923 + q;
        float2 v[28];
        const int y = first + line;
        if (kInside) {
            const Pixel* const one =
                pair.first.plane.pixels + (pair.first.row + y) * kPitch + pair.first.column + item;
            const Pixel* const other =
                pair.second.plane.pixels + (pair.second.row + y) * kPitch + pair.second.column + item;
#pragma unroll
            for (int k = 0; k < 28; ++k) {
                v[k].x = to_float(__ldcs(one + k * 32));
                v[k].y = to_float(__ldcs(other + k * 32));
            }
        } else {
#pragma unroll
            for (int k = 0; k < 28; ++k) {
                v[k] = make_float2(0.0f, 0.0f);
                if (k * 32 < kPixelColumns) {
                    v[k].x = pixel_of(pair.first, y, k * 32 + item);
                    v[k].y = pixel_of(pair.second, y, k * 32 + item);
                }
            }
        }
        dft28(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27]);
        const float2 w1 = kTwiddles28x32[q];
        const float2 w2 = kTwiddles28x32[32 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles28x32[64 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles28x32[96 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        const float2 w16 = kTwiddles28x32[128 + q];
        const float2 w17 = times(w16, w1);
        const float2 w18 = times(w16, w2);
        const float2 w19 = times(w16, w3);
        const float2 w20 = times(w16, w4);
        const float2 w21 = times(w16, w5);
        const float2 w22 = times(w16, w6);
        const float2 w23 = times(w16, w7);
        const float2 w24 = times(w16, w8);
        const float2 w25 = times(w16, w9);
        const float2 w26 = times(w16, w10);
        const float2 w27 = times(w16, w11);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
        v[16] = times(v[16], w16);
        v[17] = times(v[17], w17);
        v[18] = times(v[18], w18);
        v[19] = times(v[19], w19);
        v[20] = times(v[20], w20);
        v[21] = times(v[21], w21);
        v[22] = times(v[22], w22);
        v[23] = times(v[23], w23);
        v[24] = times(v[24], w24);
        v[25] = times(v[25], w25);
        v[26] = times(v[26], w26);
        v[27] = times(v[27], w27);
#pragma unroll
        for (int k = 0; k < 28; ++k) {
            element[k * 33] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 224u; i += 192) {
        const int line = quotient<28>(i), item = modulo<28>(i);
        const int p = item;
        float2* const element = tile + line * 923 + p * 33;
        float2 v[32];
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            v[k] = element[k * 1];
        }
        dft32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27], v[28],
            v[29], v[30], v[31]);
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            target[(first + line) * kTileColumns + k * 28 + item] = v[k];
        }
    }
}

// The rows of block `block` in chunk `chunk`.
__device__ __forceinline__ void read_rows(const Pixel* image, Result* result, float2* work, int chunk, int block,
                                          float2* tile) {
    const int number = block / 60, first = block % 60 * kBlockRows;
    const Pair pair = pair_of(image, result, chunk * kChunk + number);
    float2* const target = workspace_of(work, chunk, number);
    if (is_inside(pair.first, first) && is_inside(pair.second, first)) {
        transform_rows<true>(pair, first, target, tile);
    } else {
        transform_rows<false>(pair, first, target, tile);
    }
}

// Forward transform of columns, product with the filter's spectrum, and inverse transform, in place in the workspace:
// the columns of block `block` in chunk `chunk`.
__device__ __forceinline__ void transform_columns(float2* work, const float2* __restrict__ spectra, int chunk,
                                                  int block, float2* tile) {
    const int number = block / 56, column = block % 56 * kBlockColumns;
    float2* const source = workspace_of(work, chunk, number) + column;
    const float2* const factors = spectra + column * kTileRows;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 384u; i += 192) {
        const int line = i % 16u, item = i / 16u;
        const int q = item;
        float2* const element = tile + (q) * 16 + line;
        float2 v[20];
#pragma unroll
        for (int k = 0; k < 20; ++k) {
            const int y = k * 24 + item;
            v[k] = __ldcg(source + y * kTileColumns + line);
        }
        dft20(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19]);
        const float2 w1 = kTwiddles20x24[q];
        const float2 w2 = kTwiddles20x24[24 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles20x24[48 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles20x24[72 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        const float2 w16 = kTwiddles20x24[96 + q];
        const float2 w17 = times(w16, w1);
        const float2 w18 = times(w16, w2);
        const float2 w19 = times(w16, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
        v[16] = times(v[16], w16);
        v[17] = times(v[17], w17);
        v[18] = times(v[18], w18);
        v[19] = times(v[19], w19);
#pragma unroll
        for (int k = 0; k < 20; ++k) {
            element[k * 384] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 320u; i += 192) {
        const int line = i % 16u, item = i / 16u;
        const int p = item;
        float2* const element = tile + (p * 24) * 16 + line;
        float2 v[24];
#pragma unroll
        for (int k = 0; k < 24; ++k) {
            v[k] = element[k * 16];
        }
        dft24(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23]);
        // Real and imaginary parts are swapped from here on, so that the forward DFTs compute the inverse.
#pragma unroll
        for (int k = 0; k < 24; ++k) {
            v[k] = swapped(times(v[k], __ldg(factors + k * 320 + i)));
        }
        dft24(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23]);
#pragma unroll
        for (int k = 0; k < 24; ++k) {
            element[k * 16] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 384u; i += 192) {
        const int line = i % 16u, item = i / 16u;
        const int q = item;
        float2* const element = tile + (q) * 16 + line;
        float2 v[20];
#pragma unroll
        for (int k = 0; k < 20; ++k) {
            v[k] = element[k * 384];
        }
        const float2 w1 = kTwiddles20x24[q];
        const float2 w2 = kTwiddles20x24[24 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles20x24[48 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles20x24[72 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        const float2 w16 = kTwiddles20x24[96 + q];
        const float2 w17 = times(w16, w1);
        const float2 w18 = times(w16, w2);
        const float2 w19 = times(w16, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
        v[16] = times(v[16], w16);
        v[17] = times(v[17], w17);
        v[18] = times(v[18], w18);
        v[19] = times(v[19], w19);
        dft20(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19]);
#pragma unroll
        for (int k = 0; k < 20; ++k) {
            const int y = k * 24 + item;
            if (y < 416) {
                source[y * kTileColumns + line] = v[k];
            }
        }
    }
}

// Inverse transform of rows, from the workspace to the result: the rows of block `block` in chunk `chunk`.
__device__ __forceinline__ void write_rows(const Pixel* image, Result* result, float2* work, int chunk, int block,
                                           float2* tile) {
    const int number = block / 52, first = block % 52 * kBlockRows;
    const Pair pair = pair_of(image, result, chunk * kChunk + number);
    const float2* const source = workspace_of(work, chunk, number);
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 224u; i += 192) {
        const int line = quotient<28>(i), item = modulo<28>(i);
        const int p = item;
        float2* const element = tile + line * 923 + p * 33;
        float2 v[32];
        const int y = first + line;
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            v[k] = __ldcg(source + y * kTileColumns + k * 28 + item);
        }
        dft32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27], v[28],
            v[29], v[30], v[31]);
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            element[k * 1] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 256u; i += 192) {
        const int line = i / 32u, item = i % 32u;
        const int q = item;
        float2* const element = tile + line * 923 + q;
        float2 v[28];
#pragma unroll
        for (int k = 0; k < 28; ++k) {
            v[k] = element[k * 33];
        }
        const float2 w1 = kTwiddles28x32[q];
        const float2 w2 = kTwiddles28x32[32 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles28x32[64 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles28x32[96 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        const float2 w16 = kTwiddles28x32[128 + q];
        const float2 w17 = times(w16, w1);
        const float2 w18 = times(w16, w2);
        const float2 w19 = times(w16, w3);
        const float2 w20 = times(w16, w4);
        const float2 w21 = times(w16, w5);
        const float2 w22 = times(w16, w6);
        const float2 w23 = times(w16, w7);
        const float2 w24 = times(w16, w8);
        const float2 w25 = times(w16, w9);
        const float2 w26 = times(w16, w10);
        const float2 w27 = times(w16, w11);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
        v[16] = times(v[16], w16);
        v[17] = times(v[17], w17);
        v[18] = times(v[18], w18);
        v[19] = times(v[19], w19);
        v[20] = times(v[20], w20);
        v[21] = times(v[21], w21);
        v[22] = times(v[22], w22);
        v[23] = times(v[23], w23);
        v[24] = times(v[24], w24);
        v[25] = times(v[25], w25);
        v[26] = times(v[26], w26);
        v[27] = times(v[27], w27);
        dft28(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27]);
#pragma unroll
        for (int k = 0; k < 28; ++k) {
            if (k * 32 < 832) {
                store(pair.first, first + line, k * 32 + item, v[k].y);
                store(pair.second, first + line, k * 32 + item, v[k].x);
            }
        }
    }
}

constexpr int kChunks = 61;
constexpr int kItems = 121;  // items in all chunks
// Jobs per chunk.
constexpr int kRowJobs = 120, kColumnJobs = 112, kResultJobs = 104;
constexpr int kRoundJobs = kRowJobs + kColumnJobs + kResultJobs;
constexpr int kJobs = kChunks * kRoundJobs;

struct Progress {
    unsigned next_job;  // number of the next job to take
    unsigned rows[kChunks], columns[kChunks], results[kChunks];  // finished jobs of each chunk
};

extern "C" __global__ void __launch_bounds__(192)
filter2d_fft_begin(unsigned* __restrict__ counters) {
    for (int i = threadIdx.x; i < 184; i += 192) {
        counters[i] = 0u;
    }
}

// Waits until `jobs` jobs are done; all threads of the block then see their results.
__device__ __forceinline__ void wait_for(const unsigned& done, int jobs) {
    if (threadIdx.x == 0) {
        while (*static_cast<const volatile unsigned*>(&done) < static_cast<unsigned>(jobs)) {
        }
        __threadfence();
    }
    __syncthreads();
}

// Counts the block's job as done and publishes its results to waiting blocks.
__device__ __forceinline__ void tell(unsigned& done) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&done, 1u);
    }
}

// Runs one job. Round t of the jobs has the rows of chunk t, the columns of chunk t - 1 and the results of chunk t - 2,
// as far as these chunks exist. A job waits for the previous step of its chunk, or for room in the workspace.
__device__ __forceinline__ void run_job(int job, const Pixel* image, Result* result, float2* work,
                                        const float2* spectra, Progress& progress, float2* tile) {
    int place = job;
    place += place >= 120 ? 112 : 0;
    place += place >= 232 ? 104 : 0;
    place += place >= 568 ? 104 : 0;
    place += place >= 20496 ? 120 : 0;
    place += place >= 20832 ? 120 : 0;
    place += place >= 20952 ? 112 : 0;
    const int round = place / kRoundJobs, part = place % kRoundJobs;
    if (part < kRowJobs) {
        const int chunk = round, block = part;
        if (chunk >= 4) {
            wait_for(progress.results[chunk - 4], kResultJobs);
        }
        if (chunk * kChunk + block / 60 < kItems) {
            read_rows(image, result, work, chunk, block, tile);
        }
        tell(progress.rows[chunk]);
    } else if (part < kRowJobs + kColumnJobs) {
        const int chunk = round - 1, block = part - kRowJobs;
        wait_for(progress.rows[chunk], kRowJobs);
        if (chunk * kChunk + block / 56 < kItems) {
            transform_columns(work, spectra, chunk, block, tile);
        }
        tell(progress.columns[chunk]);
    } else {
        const int chunk = round - 2, block = part - kRowJobs - kColumnJobs;
        wait_for(progress.columns[chunk], kColumnJobs);
        if (chunk * kChunk + block / 52 < kItems) {
            write_rows(image, result, work, chunk, block, tile);
        }
        tell(progress.results[chunk]);
    }
}

// Persistent blocks with a dynamic tile scheduler: a block fetches the number of its next job before it runs a job, so
// that the latency of the atomic is hidden.
extern "C" __global__ void __launch_bounds__(192, 2)
filter2d_fft_flow(const Pixel* __restrict__ image, Result* __restrict__ result, float2* work,
                  const float2* __restrict__ spectra, Progress* progress) {
    extern __shared__ __align__(16) float2 tile[];
    __shared__ int next;
    unsigned following = 0;
    if (threadIdx.x == 0) {
        following = atomicAdd(&progress->next_job, 1u);
    }
    while (true) {
        if (threadIdx.x == 0) {
            next = following;
        }
        __syncthreads();
        const int job = next;
        if (job >= kJobs) {
            return;
        }
        if (threadIdx.x == 0) {
            following = atomicAdd(&progress->next_job, 1u);
        }
        run_job(job, image, result, work, spectra, *progress, tile);
        __syncthreads();
    }
}
