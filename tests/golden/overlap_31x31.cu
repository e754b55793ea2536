// warpsmith filter2d_overlap_save
// problem: filter2d image=9216x9216 filter=31x31 planes=1 dtype=float32 border=valid accuracy=imagewise
// config:  ahead=1 gaps=2 group=1 min_blocks=0 partners=adjacent path=global store=plain twiddles=table warps=8
//          weights=argument x_radices=4x24 y_radices=16x8
//
// Overlap-save: tiles of 128 x 96 pixels, 98 x 66 results.
// A block computes two tiles as one complex tile in shared memory: forward FFT, product with the filter's
// spectrum, inverse FFT, in three passes each way and in place. Radices: columns 16x8, rows 4x24.
// Threads of the block share the first and the last pass; a warp does the others on a group of rows.

constexpr int kRows = 9216;  // rows of one plane of the image
constexpr int kColumns = 9216;
constexpr int kChannels = 1;  // interleaved elements of a pixel
constexpr int kPitch = 9216;  // elements from one row to the next
constexpr int kFilters = 1;
constexpr int kFilterRows = 31;
constexpr int kFilterColumns = 31;
constexpr int kOutputRows = kRows - kFilterRows + 1;
constexpr int kOutputColumns = kColumns - kFilterColumns + 1;
constexpr int kResultPitch = 9186;
constexpr int kBeforeRows = 0;  // rows of a window above its output pixel
constexpr int kBeforeColumns = 0;  // columns of a window left of it

using Pixel = float;
using Result = float;

static_assert(kChannels == 1, "columns are elements");

constexpr int kTileRows = 128;  // pixels before the transform, frequencies after it
constexpr int kTileColumns = 96;
constexpr int kThreads = 256;
constexpr int kGroupRows = 8;  // rows that a warp transforms at a time
constexpr int kRowPitch = 97;  // complex numbers in shared memory from row to row
constexpr int kDigitPitch = 24;  // complex numbers from one value of a row's first digit to the next
constexpr int kValidRows = kTileRows - kFilterRows + 1;  // rows of results per tile
constexpr int kValidColumns = kTileColumns - kFilterColumns + 1;
constexpr int kTilesAcross = 140;  // tiles across a plane
constexpr int kTiles = 94 * kTilesAcross;  // tiles per plane
constexpr int kPairs = 6580;  // pairs of tiles per plane

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

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i k j / 128) for k = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, j = 0 to 7.
__device__ const float2 kTwiddles16x8[120] = {
{ 1.0f, 0.0f }, { 0.998795456f, -0.0490676743f }, { 0.995184727f, -0.0980171403f },
{ 0.98917651f, -0.146730474f }, { 0.98078528f, -0.195090322f }, { 0.970031253f, -0.24298018f },
{ 0.956940336f, -0.290284677f }, { 0.941544065f, -0.336889853f }, { 1.0f, 0.0f },
{ 0.995184727f, -0.0980171403f }, { 0.98078528f, -0.195090322f }, { 0.956940336f, -0.290284677f },
{ 0.923879533f, -0.382683432f }, { 0.881921264f, -0.471396737f }, { 0.831469612f, -0.555570233f },
{ 0.773010453f, -0.634393284f }, { 1.0f, 0.0f }, { 0.98917651f, -0.146730474f },
{ 0.956940336f, -0.290284677f }, { 0.903989293f, -0.427555093f }, { 0.831469612f, -0.555570233f },
{ 0.740951125f, -0.671558955f }, { 0.634393284f, -0.773010453f }, { 0.514102744f, -0.85772861f },
{ 1.0f, 0.0f }, { 0.98078528f, -0.195090322f }, { 0.923879533f, -0.382683432f },
{ 0.831469612f, -0.555570233f }, { 0.707106781f, -0.707106781f }, { 0.555570233f, -0.831469612f },
{ 0.382683432f, -0.923879533f }, { 0.195090322f, -0.98078528f }, { 1.0f, 0.0f },
{ 0.970031253f, -0.24298018f }, { 0.881921264f, -0.471396737f }, { 0.740951125f, -0.671558955f },
{ 0.555570233f, -0.831469612f }, { 0.336889853f, -0.941544065f }, { 0.0980171403f, -0.995184727f },
{ -0.146730474f, -0.98917651f }, { 1.0f, 0.0f }, { 0.956940336f, -0.290284677f },
{ 0.831469612f, -0.555570233f }, { 0.634393284f, -0.773010453f }, { 0.382683432f, -0.923879533f },
{ 0.0980171403f, -0.995184727f }, { -0.195090322f, -0.98078528f }, { -0.471396737f, -0.881921264f },
{ 1.0f, 0.0f }, { 0.941544065f, -0.336889853f }, { 0.773010453f, -0.634393284f },
{ 0.514102744f, -0.85772861f }, { 0.195090322f, -0.98078528f }, { -0.146730474f, -0.98917651f },
{ -0.471396737f, -0.881921264f }, { -0.740951125f, -0.671558955f }, { 1.0f, 0.0f },
{ 0.923879533f, -0.382683432f }, { 0.707106781f, -0.707106781f }, { 0.382683432f, -0.923879533f },
{ 0.0f, -1.0f }, { -0.382683432f, -0.923879533f }, { -0.707106781f, -0.707106781f },
{ -0.923879533f, -0.382683432f }, { 1.0f, 0.0f }, { 0.903989293f, -0.427555093f },
{ 0.634393284f, -0.773010453f }, { 0.24298018f, -0.970031253f }, { -0.195090322f, -0.98078528f },
{ -0.595699304f, -0.803207531f }, { -0.881921264f, -0.471396737f }, { -0.998795456f, -0.0490676743f },
{ 1.0f, 0.0f }, { 0.881921264f, -0.471396737f }, { 0.555570233f, -0.831469612f },
{ 0.0980171403f, -0.995184727f }, { -0.382683432f, -0.923879533f }, { -0.773010453f, -0.634393284f },
{ -0.98078528f, -0.195090322f }, { -0.956940336f, 0.290284677f }, { 1.0f, 0.0f },
{ 0.85772861f, -0.514102744f }, { 0.471396737f, -0.881921264f }, { -0.0490676743f, -0.998795456f },
{ -0.555570233f, -0.831469612f }, { -0.903989293f, -0.427555093f }, { -0.995184727f, 0.0980171403f },
{ -0.803207531f, 0.595699304f }, { 1.0f, 0.0f }, { 0.831469612f, -0.555570233f },
{ 0.382683432f, -0.923879533f }, { -0.195090322f, -0.98078528f }, { -0.707106781f, -0.707106781f },
{ -0.98078528f, -0.195090322f }, { -0.923879533f, 0.382683432f }, { -0.555570233f, 0.831469612f },
{ 1.0f, 0.0f }, { 0.803207531f, -0.595699304f }, { 0.290284677f, -0.956940336f },
{ -0.336889853f, -0.941544065f }, { -0.831469612f, -0.555570233f }, { -0.998795456f, 0.0490676743f },
{ -0.773010453f, 0.634393284f }, { -0.24298018f, 0.970031253f }, { 1.0f, 0.0f },
{ 0.773010453f, -0.634393284f }, { 0.195090322f, -0.98078528f }, { -0.471396737f, -0.881921264f },
{ -0.923879533f, -0.382683432f }, { -0.956940336f, 0.290284677f }, { -0.555570233f, 0.831469612f },
{ 0.0980171403f, 0.995184727f }, { 1.0f, 0.0f }, { 0.740951125f, -0.671558955f },
{ 0.0980171403f, -0.995184727f }, { -0.595699304f, -0.803207531f }, { -0.98078528f, -0.195090322f },
{ -0.85772861f, 0.514102744f }, { -0.290284677f, 0.956940336f }, { 0.427555093f, 0.903989293f },
};

// exp(2 pi i j / 128) for j = 0 to 127.
__device__ const float2 kRoots128[128] = {
{ 1.0f, 0.0f }, { 0.998795456f, 0.0490676743f }, { 0.995184727f, 0.0980171403f },
{ 0.98917651f, 0.146730474f }, { 0.98078528f, 0.195090322f }, { 0.970031253f, 0.24298018f },
{ 0.956940336f, 0.290284677f }, { 0.941544065f, 0.336889853f }, { 0.923879533f, 0.382683432f },
{ 0.903989293f, 0.427555093f }, { 0.881921264f, 0.471396737f }, { 0.85772861f, 0.514102744f },
{ 0.831469612f, 0.555570233f }, { 0.803207531f, 0.595699304f }, { 0.773010453f, 0.634393284f },
{ 0.740951125f, 0.671558955f }, { 0.707106781f, 0.707106781f }, { 0.671558955f, 0.740951125f },
{ 0.634393284f, 0.773010453f }, { 0.595699304f, 0.803207531f }, { 0.555570233f, 0.831469612f },
{ 0.514102744f, 0.85772861f }, { 0.471396737f, 0.881921264f }, { 0.427555093f, 0.903989293f },
{ 0.382683432f, 0.923879533f }, { 0.336889853f, 0.941544065f }, { 0.290284677f, 0.956940336f },
{ 0.24298018f, 0.970031253f }, { 0.195090322f, 0.98078528f }, { 0.146730474f, 0.98917651f },
{ 0.0980171403f, 0.995184727f }, { 0.0490676743f, 0.998795456f }, { 0.0f, 1.0f },
{ -0.0490676743f, 0.998795456f }, { -0.0980171403f, 0.995184727f }, { -0.146730474f, 0.98917651f },
{ -0.195090322f, 0.98078528f }, { -0.24298018f, 0.970031253f }, { -0.290284677f, 0.956940336f },
{ -0.336889853f, 0.941544065f }, { -0.382683432f, 0.923879533f }, { -0.427555093f, 0.903989293f },
{ -0.471396737f, 0.881921264f }, { -0.514102744f, 0.85772861f }, { -0.555570233f, 0.831469612f },
{ -0.595699304f, 0.803207531f }, { -0.634393284f, 0.773010453f }, { -0.671558955f, 0.740951125f },
{ -0.707106781f, 0.707106781f }, { -0.740951125f, 0.671558955f }, { -0.773010453f, 0.634393284f },
{ -0.803207531f, 0.595699304f }, { -0.831469612f, 0.555570233f }, { -0.85772861f, 0.514102744f },
{ -0.881921264f, 0.471396737f }, { -0.903989293f, 0.427555093f }, { -0.923879533f, 0.382683432f },
{ -0.941544065f, 0.336889853f }, { -0.956940336f, 0.290284677f }, { -0.970031253f, 0.24298018f },
{ -0.98078528f, 0.195090322f }, { -0.98917651f, 0.146730474f }, { -0.995184727f, 0.0980171403f },
{ -0.998795456f, 0.0490676743f }, { -1.0f, 0.0f }, { -0.998795456f, -0.0490676743f },
{ -0.995184727f, -0.0980171403f }, { -0.98917651f, -0.146730474f }, { -0.98078528f, -0.195090322f },
{ -0.970031253f, -0.24298018f }, { -0.956940336f, -0.290284677f }, { -0.941544065f, -0.336889853f },
{ -0.923879533f, -0.382683432f }, { -0.903989293f, -0.427555093f }, { -0.881921264f, -0.471396737f },
{ -0.85772861f, -0.514102744f }, { -0.831469612f, -0.555570233f }, { -0.803207531f, -0.595699304f },
{ -0.773010453f, -0.634393284f }, { -0.740951125f, -0.671558955f }, { -0.707106781f, -0.707106781f },
{ -0.671558955f, -0.740951125f }, { -0.634393284f, -0.773010453f }, { -0.595699304f, -0.803207531f },
{ -0.555570233f, -0.831469612f }, { -0.514102744f, -0.85772861f }, { -0.471396737f, -0.881921264f },
{ -0.427555093f, -0.903989293f }, { -0.382683432f, -0.923879533f }, { -0.336889853f, -0.941544065f },
{ -0.290284677f, -0.956940336f }, { -0.24298018f, -0.970031253f }, { -0.195090322f, -0.98078528f },
{ -0.146730474f, -0.98917651f }, { -0.0980171403f, -0.995184727f }, { -0.0490676743f, -0.998795456f },
{ 0.0f, -1.0f }, { 0.0490676743f, -0.998795456f }, { 0.0980171403f, -0.995184727f },
{ 0.146730474f, -0.98917651f }, { 0.195090322f, -0.98078528f }, { 0.24298018f, -0.970031253f },
{ 0.290284677f, -0.956940336f }, { 0.336889853f, -0.941544065f }, { 0.382683432f, -0.923879533f },
{ 0.427555093f, -0.903989293f }, { 0.471396737f, -0.881921264f }, { 0.514102744f, -0.85772861f },
{ 0.555570233f, -0.831469612f }, { 0.595699304f, -0.803207531f }, { 0.634393284f, -0.773010453f },
{ 0.671558955f, -0.740951125f }, { 0.707106781f, -0.707106781f }, { 0.740951125f, -0.671558955f },
{ 0.773010453f, -0.634393284f }, { 0.803207531f, -0.595699304f }, { 0.831469612f, -0.555570233f },
{ 0.85772861f, -0.514102744f }, { 0.881921264f, -0.471396737f }, { 0.903989293f, -0.427555093f },
{ 0.923879533f, -0.382683432f }, { 0.941544065f, -0.336889853f }, { 0.956940336f, -0.290284677f },
{ 0.970031253f, -0.24298018f }, { 0.98078528f, -0.195090322f }, { 0.98917651f, -0.146730474f },
{ 0.995184727f, -0.0980171403f }, { 0.998795456f, -0.0490676743f },
};

// exp(-2 pi i k j / 96) for k = 1, 2, 3, j = 0 to 23.
__device__ const float2 kTwiddles4x24[72] = {
{ 1.0f, 0.0f }, { 0.997858923f, -0.0654031292f }, { 0.991444861f, -0.130526192f },
{ 0.98078528f, -0.195090322f }, { 0.965925826f, -0.258819045f }, { 0.946930129f, -0.321439465f },
{ 0.923879533f, -0.382683432f }, { 0.896872742f, -0.44228869f }, { 0.866025404f, -0.5f },
{ 0.831469612f, -0.555570233f }, { 0.79335334f, -0.608761429f }, { 0.751839807f, -0.659345815f },
{ 0.707106781f, -0.707106781f }, { 0.659345815f, -0.751839807f }, { 0.608761429f, -0.79335334f },
{ 0.555570233f, -0.831469612f }, { 0.5f, -0.866025404f }, { 0.44228869f, -0.896872742f },
{ 0.382683432f, -0.923879533f }, { 0.321439465f, -0.946930129f }, { 0.258819045f, -0.965925826f },
{ 0.195090322f, -0.98078528f }, { 0.130526192f, -0.991444861f }, { 0.0654031292f, -0.997858923f },
{ 1.0f, 0.0f }, { 0.991444861f, -0.130526192f }, { 0.965925826f, -0.258819045f },
{ 0.923879533f, -0.382683432f }, { 0.866025404f, -0.5f }, { 0.79335334f, -0.608761429f },
{ 0.707106781f, -0.707106781f }, { 0.608761429f, -0.79335334f }, { 0.5f, -0.866025404f },
{ 0.382683432f, -0.923879533f }, { 0.258819045f, -0.965925826f }, { 0.130526192f, -0.991444861f },
{ 0.0f, -1.0f }, { -0.130526192f, -0.991444861f }, { -0.258819045f, -0.965925826f },
{ -0.382683432f, -0.923879533f }, { -0.5f, -0.866025404f }, { -0.608761429f, -0.79335334f },
{ -0.707106781f, -0.707106781f }, { -0.79335334f, -0.608761429f }, { -0.866025404f, -0.5f },
{ -0.923879533f, -0.382683432f }, { -0.965925826f, -0.258819045f }, { -0.991444861f, -0.130526192f },
{ 1.0f, 0.0f }, { 0.98078528f, -0.195090322f }, { 0.923879533f, -0.382683432f },
{ 0.831469612f, -0.555570233f }, { 0.707106781f, -0.707106781f }, { 0.555570233f, -0.831469612f },
{ 0.382683432f, -0.923879533f }, { 0.195090322f, -0.98078528f }, { 0.0f, -1.0f },
{ -0.195090322f, -0.98078528f }, { -0.382683432f, -0.923879533f }, { -0.555570233f, -0.831469612f },
{ -0.707106781f, -0.707106781f }, { -0.831469612f, -0.555570233f }, { -0.923879533f, -0.382683432f },
{ -0.98078528f, -0.195090322f }, { -1.0f, 0.0f }, { -0.98078528f, 0.195090322f },
{ -0.923879533f, 0.382683432f }, { -0.831469612f, 0.555570233f }, { -0.707106781f, 0.707106781f },
{ -0.555570233f, 0.831469612f }, { -0.382683432f, 0.923879533f }, { -0.195090322f, 0.98078528f },
};

// exp(2 pi i j / 96) for j = 0 to 95.
__device__ const float2 kRoots96[96] = {
{ 1.0f, 0.0f }, { 0.997858923f, 0.0654031292f }, { 0.991444861f, 0.130526192f },
{ 0.98078528f, 0.195090322f }, { 0.965925826f, 0.258819045f }, { 0.946930129f, 0.321439465f },
{ 0.923879533f, 0.382683432f }, { 0.896872742f, 0.44228869f }, { 0.866025404f, 0.5f },
{ 0.831469612f, 0.555570233f }, { 0.79335334f, 0.608761429f }, { 0.751839807f, 0.659345815f },
{ 0.707106781f, 0.707106781f }, { 0.659345815f, 0.751839807f }, { 0.608761429f, 0.79335334f },
{ 0.555570233f, 0.831469612f }, { 0.5f, 0.866025404f }, { 0.44228869f, 0.896872742f },
{ 0.382683432f, 0.923879533f }, { 0.321439465f, 0.946930129f }, { 0.258819045f, 0.965925826f },
{ 0.195090322f, 0.98078528f }, { 0.130526192f, 0.991444861f }, { 0.0654031292f, 0.997858923f },
{ 0.0f, 1.0f }, { -0.0654031292f, 0.997858923f }, { -0.130526192f, 0.991444861f },
{ -0.195090322f, 0.98078528f }, { -0.258819045f, 0.965925826f }, { -0.321439465f, 0.946930129f },
{ -0.382683432f, 0.923879533f }, { -0.44228869f, 0.896872742f }, { -0.5f, 0.866025404f },
{ -0.555570233f, 0.831469612f }, { -0.608761429f, 0.79335334f }, { -0.659345815f, 0.751839807f },
{ -0.707106781f, 0.707106781f }, { -0.751839807f, 0.659345815f }, { -0.79335334f, 0.608761429f },
{ -0.831469612f, 0.555570233f }, { -0.866025404f, 0.5f }, { -0.896872742f, 0.44228869f },
{ -0.923879533f, 0.382683432f }, { -0.946930129f, 0.321439465f }, { -0.965925826f, 0.258819045f },
{ -0.98078528f, 0.195090322f }, { -0.991444861f, 0.130526192f }, { -0.997858923f, 0.0654031292f },
{ -1.0f, 0.0f }, { -0.997858923f, -0.0654031292f }, { -0.991444861f, -0.130526192f },
{ -0.98078528f, -0.195090322f }, { -0.965925826f, -0.258819045f }, { -0.946930129f, -0.321439465f },
{ -0.923879533f, -0.382683432f }, { -0.896872742f, -0.44228869f }, { -0.866025404f, -0.5f },
{ -0.831469612f, -0.555570233f }, { -0.79335334f, -0.608761429f }, { -0.751839807f, -0.659345815f },
{ -0.707106781f, -0.707106781f }, { -0.659345815f, -0.751839807f }, { -0.608761429f, -0.79335334f },
{ -0.555570233f, -0.831469612f }, { -0.5f, -0.866025404f }, { -0.44228869f, -0.896872742f },
{ -0.382683432f, -0.923879533f }, { -0.321439465f, -0.946930129f }, { -0.258819045f, -0.965925826f },
{ -0.195090322f, -0.98078528f }, { -0.130526192f, -0.991444861f }, { -0.0654031292f, -0.997858923f },
{ 0.0f, -1.0f }, { 0.0654031292f, -0.997858923f }, { 0.130526192f, -0.991444861f },
{ 0.195090322f, -0.98078528f }, { 0.258819045f, -0.965925826f }, { 0.321439465f, -0.946930129f },
{ 0.382683432f, -0.923879533f }, { 0.44228869f, -0.896872742f }, { 0.5f, -0.866025404f },
{ 0.555570233f, -0.831469612f }, { 0.608761429f, -0.79335334f }, { 0.659345815f, -0.751839807f },
{ 0.707106781f, -0.707106781f }, { 0.751839807f, -0.659345815f }, { 0.79335334f, -0.608761429f },
{ 0.831469612f, -0.555570233f }, { 0.866025404f, -0.5f }, { 0.896872742f, -0.44228869f },
{ 0.923879533f, -0.382683432f }, { 0.946930129f, -0.321439465f }, { 0.965925826f, -0.258819045f },
{ 0.98078528f, -0.195090322f }, { 0.991444861f, -0.130526192f }, { 0.997858923f, -0.0654031292f },
};

__device__ __forceinline__ int column_offset(int x) { return x; }

__device__ __forceinline__ float sum_of_window(const Plane& plane, const Weights& weights, int f, int row,
                                               int element) {
    float sum = 0.0f;
#pragma unroll 1
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll 4
        for (int s = 0; s < kFilterColumns; ++s) {
            const float pixel = pixel_at(plane, row + r - kBeforeRows, element + (s - kBeforeColumns) * kChannels);
            sum = fmaf(tap(weights, f, r, s), pixel, sum);
        }
    }
    return sum;
}

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
                                        int number) {
    if (number >= kTiles) {
        return {};
    }
    const int row = number / kTilesAcross * kValidRows, column = number % kTilesAcross * kValidColumns;
    const int rows = min(kValidRows, kOutputRows - row), columns = min(kValidColumns, kOutputColumns - column);
    const int first_row = (plane) * kOutputRows + row;
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

// Stores a result; `check` is 0 while all results are finite, then NaN.
__device__ __forceinline__ void store(const Tile& tile, int y, int x, float value, float& check) {
    if (y < tile.rows && x < tile.columns) {
        tile.target[y * kResultPitch + x] = to_result(value);
        check = fmaf(0.0f, value, check);
    }
}

// First pass: loads both tiles of a pair from the image, as real and imaginary part.
template <bool kInside>
__device__ __forceinline__ void read_columns(const Pair& pair, float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 768u; i += kThreads) {
        const int x = modulo<96>(i), j = quotient<96>(i);

        float2 v[16];
        if (kInside) {
            const Pixel* const first =
                pair.first.plane.pixels + (pair.first.row + j) * kPitch + pair.first.column + x;
            const Pixel* const second =
                pair.second.plane.pixels + (pair.second.row + j) * kPitch + pair.second.column + x;
#pragma unroll
            for (int k = 0; k < 16; ++k) {
                v[k].x = to_float(__ldg(first + k * (8 * kPitch)));
                v[k].y = to_float(__ldg(second + k * (8 * kPitch)));
            }
        } else {
#pragma unroll
            for (int k = 0; k < 16; ++k) {
                v[k].x = pixel_of(pair.first, j + k * 8, x);
                v[k].y = pixel_of(pair.second, j + k * 8, x);
            }
        }

        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
#pragma unroll
        for (int k = 1; k < 16; ++k) {
            v[k] = times(v[k], kTwiddles16x8[(k - 1) * 8 + j]);
        }

        float2* const element = tile + j * kRowPitch + column_offset(x);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            element[k * (8 * kRowPitch)] = v[k];
        }
    }
}

// Second pass, one sub-tile per thread: along columns over their second digit, then along rows over their first digit.
__device__ __forceinline__ void transform_corners(float2* tile, int group) {
#pragma unroll 1
    for (unsigned i = threadIdx.x % 32; i < 24u; i += 32) {
        const int j = modulo<24>(i), p = group * 1 + quotient<24>(i);
        float2* const element = tile + p * (8 * kRowPitch) + j;

        float2 v[32];
#pragma unroll
        for (int n = 0; n < 32; ++n) {
            v[n] = element[n / 4 * kRowPitch + n % 4 * kDigitPitch];
        }
        dft8(v[0], v[4], v[8], v[12], v[16], v[20], v[24], v[28]);
        dft8(v[1], v[5], v[9], v[13], v[17], v[21], v[25], v[29]);
        dft8(v[2], v[6], v[10], v[14], v[18], v[22], v[26], v[30]);
        dft8(v[3], v[7], v[11], v[15], v[19], v[23], v[27], v[31]);
        const float2 w1 = kTwiddles4x24[j];
        const float2 w2 = kTwiddles4x24[24 + j];
        const float2 w3 = kTwiddles4x24[48 + j];
        dft4(v[0], v[1], v[2], v[3]);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        dft4(v[4], v[5], v[6], v[7]);
        v[5] = times(v[5], w1);
        v[6] = times(v[6], w2);
        v[7] = times(v[7], w3);
        dft4(v[8], v[9], v[10], v[11]);
        v[9] = times(v[9], w1);
        v[10] = times(v[10], w2);
        v[11] = times(v[11], w3);
        dft4(v[12], v[13], v[14], v[15]);
        v[13] = times(v[13], w1);
        v[14] = times(v[14], w2);
        v[15] = times(v[15], w3);
        dft4(v[16], v[17], v[18], v[19]);
        v[17] = times(v[17], w1);
        v[18] = times(v[18], w2);
        v[19] = times(v[19], w3);
        dft4(v[20], v[21], v[22], v[23]);
        v[21] = times(v[21], w1);
        v[22] = times(v[22], w2);
        v[23] = times(v[23], w3);
        dft4(v[24], v[25], v[26], v[27]);
        v[25] = times(v[25], w1);
        v[26] = times(v[26], w2);
        v[27] = times(v[27], w3);
        dft4(v[28], v[29], v[30], v[31]);
        v[29] = times(v[29], w1);
        v[30] = times(v[30], w2);
        v[31] = times(v[31], w3);
#pragma unroll
        for (int n = 0; n < 32; ++n) {
            element[n / 4 * kRowPitch + n % 4 * kDigitPitch] = v[n];
        }
    }
}

// Inverse second pass; it stores only the columns that have results.
__device__ __forceinline__ void restore_corners(float2* tile, int group) {
#pragma unroll 1
    for (unsigned i = threadIdx.x % 32; i < 24u; i += 32) {
        const int j = modulo<24>(i), p = group * 1 + quotient<24>(i);
        float2* const element = tile + p * (8 * kRowPitch) + j;

        float2 v[32];
#pragma unroll
        for (int n = 0; n < 32; ++n) {
            v[n] = element[n / 4 * kRowPitch + n % 4 * kDigitPitch];
        }
        const float2 w1 = kTwiddles4x24[j];
        const float2 w2 = kTwiddles4x24[24 + j];
        const float2 w3 = kTwiddles4x24[48 + j];
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        dft4(v[0], v[1], v[2], v[3]);
        v[5] = times(v[5], w1);
        v[6] = times(v[6], w2);
        v[7] = times(v[7], w3);
        dft4(v[4], v[5], v[6], v[7]);
        v[9] = times(v[9], w1);
        v[10] = times(v[10], w2);
        v[11] = times(v[11], w3);
        dft4(v[8], v[9], v[10], v[11]);
        v[13] = times(v[13], w1);
        v[14] = times(v[14], w2);
        v[15] = times(v[15], w3);
        dft4(v[12], v[13], v[14], v[15]);
        v[17] = times(v[17], w1);
        v[18] = times(v[18], w2);
        v[19] = times(v[19], w3);
        dft4(v[16], v[17], v[18], v[19]);
        v[21] = times(v[21], w1);
        v[22] = times(v[22], w2);
        v[23] = times(v[23], w3);
        dft4(v[20], v[21], v[22], v[23]);
        v[25] = times(v[25], w1);
        v[26] = times(v[26], w2);
        v[27] = times(v[27], w3);
        dft4(v[24], v[25], v[26], v[27]);
        v[29] = times(v[29], w1);
        v[30] = times(v[30], w2);
        v[31] = times(v[31], w3);
        dft4(v[28], v[29], v[30], v[31]);
        dft8(v[0], v[4], v[8], v[12], v[16], v[20], v[24], v[28]);
        dft8(v[1], v[5], v[9], v[13], v[17], v[21], v[25], v[29]);
        dft8(v[2], v[6], v[10], v[14], v[18], v[22], v[26], v[30]);
#pragma unroll
        for (int n = 0; n < 32; ++n) {
            if (n % 4 < 2 || (n % 4 == 2 &&
                j < 18)) {
                element[n / 4 * kRowPitch + n % 4 * kDigitPitch] = v[n];
            }
        }
    }
}

// Third pass, along rows over their second digit, the product with the filter's spectrum, and the inverse third pass.
// Real and imaginary parts are swapped from here on, so that the forward DFTs compute the inverse.
__device__ __forceinline__ void multiply_rows(float2* tile, const float2* __restrict__ spectrum, int group) {
    const unsigned lane = threadIdx.x % 32;
    const float2* const factors = spectrum + group * 768;
#pragma unroll 1
    for (unsigned i = lane; i < 32u; i += 32) {
        const int y = group * kGroupRows + i % 8u,
                  k = i / 8u;
        float2* const element = tile + y * kRowPitch + k * kDigitPitch;

        const float4* const lane_factors = reinterpret_cast<const float4*>(factors) + (i - lane) * 12 + lane;
        float4 factor[12];
#pragma unroll
        for (int j = 0; j < 12; ++j) {
            factor[j] = __ldg(lane_factors + j * 32);
        }
        float2 v[24];
#pragma unroll
        for (int j = 0; j < 24; ++j) {
            v[j] = element[j];
        }
        dft24(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23]);
#pragma unroll
        for (int j = 0; j < 12; ++j) {
            const float4 h = factor[j];
            v[2 * j] = swapped(times(v[2 * j], h.x, h.y));
            v[2 * j + 1] = swapped(times(v[2 * j + 1], h.z, h.w));
        }
        dft24(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23]);
#pragma unroll
        for (int j = 0; j < 24; ++j) {
            element[j] = v[j];
        }
    }
}

// Last pass: stores the results of both tiles. Their parts are swapped back.
__device__ __forceinline__ void write_columns(const Pair& pair, const float2* tile, float& check) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 528u; i += kThreads) {
        const int x = modulo<66>(i), j = quotient<66>(i);

        const float2* const element = tile + j * kRowPitch + column_offset(x);
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = element[k * (8 * kRowPitch)];
        }
#pragma unroll
        for (int k = 1; k < 16; ++k) {
            v[k] = times(v[k], kTwiddles16x8[(k - 1) * 8 + j]);
        }

        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            if (k * 8 < kValidRows) {
                store(pair.first, j + k * 8, x, v[k].y, check);
                store(pair.second, j + k * 8, x, v[k].x, check);
            }
        }

    }
}

// Recomputes all results of a tile from the pixels of their windows alone: a NaN or an infinity spreads over both tiles
// of a pair.
__device__ __forceinline__ void repair(const Tile& tile, const Weights& weights) {
    for (int n = threadIdx.x; n < tile.rows * tile.columns; n += kThreads) {
        const int y = n / tile.columns, x = n % tile.columns;
        tile.target[y * kResultPitch + x] = to_result(sum_of_window(
            tile.plane, weights, 0, tile.row + kBeforeRows + y,
            tile.column + kBeforeColumns + x));
    }
}

constexpr int kSpectrum = 12288;  // complex numbers of one filter's spectrum

// Offset at which multiply_rows() reads frequency (y, x) of a filter's spectrum: neighbouring lanes read neighbours.
__device__ __forceinline__ int spectrum_offset(int y, int x) {
    const int row = y % 16 * 8 + y / 16, k = x % 4, j = x / 4;
    const int item = k * kGroupRows + row % kGroupRows;
    const int iteration = row / kGroupRows * 1 + item / 32;
    return (iteration * 12 + j / 2) * 64 + item % 32 * 2 + j % 2;
}

// The filters' spectra, scaled: sum over r, s of weights[r, s] * exp(2 pi i (y r / kTileRows + x s / kTileColumns)).
// This is the conjugate of the filter's transform, as correlation needs. A block computes one column x.
extern "C" __global__ void __launch_bounds__(128)
filter2d_overlap_save_spectrum(float2* __restrict__ spectra, const __grid_constant__ Weights weights) {
    __shared__ float taps[kFilterRows * kFilterColumns];
    __shared__ float2 sums[kFilterRows];
    const int f = blockIdx.x / 96, first = blockIdx.x % 96;
    for (int i = threadIdx.x; i < kFilterRows * kFilterColumns; i += 128) {
        taps[i] = tap(weights, f, i / kFilterColumns, i % kFilterColumns);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kFilterRows; i += 128) {
        const int r = i, x = first;
        float2 sum = make_float2(0.0f, 0.0f);
        for (int s = 0; s < kFilterColumns; ++s) {
            sum = sum + taps[r * kFilterColumns + s] * kRoots96[x * s % kTileColumns];
        }
        sums[i] = 8.13802083e-05f * sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kTileRows; i += 128) {
        const int y = i;
        float2 sum = make_float2(0.0f, 0.0f);
        for (int r = 0; r < kFilterRows; ++r) {
            sum = sum + times(sums[r], kRoots128[y * r % kTileRows]);
        }
        spectra[f * kSpectrum + spectrum_offset(y, first)] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter2d_overlap_save(const Pixel* __restrict__ image, Result* __restrict__ result, const float2* __restrict__ spectra,
                      const __grid_constant__ Weights weights) {
    extern __shared__ __align__(16) float2 tile[];
    const int number = blockIdx.x % kPairs, plane = blockIdx.x / kPairs;
    const Pair pair = {tile_of(image, result, plane, 2 * number),
                       tile_of(image, result, plane, 2 * number + 1)};
    if (is_inside(pair.first) && is_inside(pair.second)) {
        read_columns<true>(pair, tile);
    } else {
        read_columns<false>(pair, tile);
    }
    __syncthreads();
#pragma unroll 1
    for (int group = threadIdx.x / 32; group < 16; group += kThreads / 32) {
        transform_corners(tile, group);
        __syncwarp();
        multiply_rows(tile, spectra, group);
        __syncwarp();
        restore_corners(tile, group);
    }
    __syncthreads();
    float check = 0.0f;
    write_columns(pair, tile, check);
    if (__syncthreads_or(check != 0.0f)) {
        repair(pair.first, weights);
        repair(pair.second, weights);
    }
}
