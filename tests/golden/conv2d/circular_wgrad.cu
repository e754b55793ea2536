// warpsmith conv2d_circular
// problem: conv2d pass=wgrad input=16x128x56x56 weight=128x1x31x31 precision=ieee padding=15x15 groups=128
// config:  gaps=2 group=1 min_blocks=0 splits=4 twiddles=table warps=9 x_radices=3x24 y_radices=9x8
//
// Depthwise wgrad by FFTs. The planes of a channel in two images are the real and imaginary parts of one complex tile,
// both of x and of dy. A block accumulates FFT(x) * conj(FFT(dy)) of its pairs of images in registers and transforms
// the sum back once. Shared memory holds the tile of x, then that of dy. Columns are factored as 9x8 and rows
// as 3x24, in three passes each way.

constexpr int kImages = 16;
constexpr int kPairs = 8;  // pairs of images, the real and imaginary parts of one tile
constexpr int kChannels = 128;
constexpr int kSourceRows = 56;  // size of a source plane
constexpr int kSourceColumns = 56;
constexpr int kPadTop = 15;  // zero rows above a plane in its tile; if negative, rows of the plane that are skipped
constexpr int kPadLeft = 15;
constexpr int kFilterRows = 56;  // size of the plane it is correlated with
constexpr int kFilterColumns = 56;
constexpr int kResultRows = 31;
constexpr int kResultColumns = 31;

constexpr int kTileRows = 72;  // pixels before the transform, frequencies after it
constexpr int kTileColumns = 72;
constexpr int kThreads = 288;
constexpr int kGroupRows = 8;  // rows that a warp transforms at a time
constexpr int kRowPitch = 73;  // complex numbers in shared memory from row to row
constexpr int kDigitPitch = 24;  // complex numbers from one value of a row's first digit to the next

static_assert(kResultRows <= kTileRows && kResultColumns <= kTileColumns, "a tile has all results");
constexpr int kSplits = 4;  // blocks that share a channel's pairs of images (split-K)
constexpr int kWarps = kThreads / 32;
constexpr int kRounds = 1;  // row groups per warp
constexpr int kItemsPerLane = 1;  // items of a row group per lane
constexpr int kTileSize = 5256;  // complex numbers of a tile in shared memory

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

// exp(-2 pi i k j / 72) for k = 1, 2, 3, 4, 5, 6, 7, 8, j = 0 to 7.
__device__ const float2 kTwiddles9x8[64] = {
{ 1.0f, 0.0f }, { 0.996194698f, -0.0871557427f }, { 0.984807753f, -0.173648178f },
{ 0.965925826f, -0.258819045f }, { 0.939692621f, -0.342020143f }, { 0.906307787f, -0.422618262f },
{ 0.866025404f, -0.5f }, { 0.819152044f, -0.573576436f }, { 1.0f, 0.0f },
{ 0.984807753f, -0.173648178f }, { 0.939692621f, -0.342020143f }, { 0.866025404f, -0.5f },
{ 0.766044443f, -0.64278761f }, { 0.64278761f, -0.766044443f }, { 0.5f, -0.866025404f },
{ 0.342020143f, -0.939692621f }, { 1.0f, 0.0f }, { 0.965925826f, -0.258819045f },
{ 0.866025404f, -0.5f }, { 0.707106781f, -0.707106781f }, { 0.5f, -0.866025404f },
{ 0.258819045f, -0.965925826f }, { 0.0f, -1.0f }, { -0.258819045f, -0.965925826f },
{ 1.0f, 0.0f }, { 0.939692621f, -0.342020143f }, { 0.766044443f, -0.64278761f },
{ 0.5f, -0.866025404f }, { 0.173648178f, -0.984807753f }, { -0.173648178f, -0.984807753f },
{ -0.5f, -0.866025404f }, { -0.766044443f, -0.64278761f }, { 1.0f, 0.0f },
{ 0.906307787f, -0.422618262f }, { 0.64278761f, -0.766044443f }, { 0.258819045f, -0.965925826f },
{ -0.173648178f, -0.984807753f }, { -0.573576436f, -0.819152044f }, { -0.866025404f, -0.5f },
{ -0.996194698f, -0.0871557427f }, { 1.0f, 0.0f }, { 0.866025404f, -0.5f },
{ 0.5f, -0.866025404f }, { 0.0f, -1.0f }, { -0.5f, -0.866025404f },
{ -0.866025404f, -0.5f }, { -1.0f, 0.0f }, { -0.866025404f, 0.5f },
{ 1.0f, 0.0f }, { 0.819152044f, -0.573576436f }, { 0.342020143f, -0.939692621f },
{ -0.258819045f, -0.965925826f }, { -0.766044443f, -0.64278761f }, { -0.996194698f, -0.0871557427f },
{ -0.866025404f, 0.5f }, { -0.422618262f, 0.906307787f }, { 1.0f, 0.0f },
{ 0.766044443f, -0.64278761f }, { 0.173648178f, -0.984807753f }, { -0.5f, -0.866025404f },
{ -0.939692621f, -0.342020143f }, { -0.939692621f, 0.342020143f }, { -0.5f, 0.866025404f },
{ 0.173648178f, 0.984807753f },
};

// exp(-2 pi i k j / 72) for k = 1, 2, j = 0 to 23.
__device__ const float2 kTwiddles3x24[48] = {
{ 1.0f, 0.0f }, { 0.996194698f, -0.0871557427f }, { 0.984807753f, -0.173648178f },
{ 0.965925826f, -0.258819045f }, { 0.939692621f, -0.342020143f }, { 0.906307787f, -0.422618262f },
{ 0.866025404f, -0.5f }, { 0.819152044f, -0.573576436f }, { 0.766044443f, -0.64278761f },
{ 0.707106781f, -0.707106781f }, { 0.64278761f, -0.766044443f }, { 0.573576436f, -0.819152044f },
{ 0.5f, -0.866025404f }, { 0.422618262f, -0.906307787f }, { 0.342020143f, -0.939692621f },
{ 0.258819045f, -0.965925826f }, { 0.173648178f, -0.984807753f }, { 0.0871557427f, -0.996194698f },
{ 0.0f, -1.0f }, { -0.0871557427f, -0.996194698f }, { -0.173648178f, -0.984807753f },
{ -0.258819045f, -0.965925826f }, { -0.342020143f, -0.939692621f }, { -0.422618262f, -0.906307787f },
{ 1.0f, 0.0f }, { 0.984807753f, -0.173648178f }, { 0.939692621f, -0.342020143f },
{ 0.866025404f, -0.5f }, { 0.766044443f, -0.64278761f }, { 0.64278761f, -0.766044443f },
{ 0.5f, -0.866025404f }, { 0.342020143f, -0.939692621f }, { 0.173648178f, -0.984807753f },
{ 0.0f, -1.0f }, { -0.173648178f, -0.984807753f }, { -0.342020143f, -0.939692621f },
{ -0.5f, -0.866025404f }, { -0.64278761f, -0.766044443f }, { -0.766044443f, -0.64278761f },
{ -0.866025404f, -0.5f }, { -0.939692621f, -0.342020143f }, { -0.984807753f, -0.173648178f },
{ -1.0f, 0.0f }, { -0.984807753f, 0.173648178f }, { -0.939692621f, 0.342020143f },
{ -0.866025404f, 0.5f }, { -0.766044443f, 0.64278761f }, { -0.64278761f, 0.766044443f },
};

__device__ __forceinline__ int column_offset(int x) { return x; }

// First pass: loads two planes as real and imaginary parts, zero-padded to the tile, and transforms the columns' first
// digit. `second` may be nullptr.
__device__ __forceinline__ void read_x(const float* __restrict__ first, const float* __restrict__ second,
                                       float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 576u; i += kThreads) {
        const int x = modulo<72>(i), j = quotient<72>(i);

        float2 v[9];
        const int column = x - kPadLeft;
        const bool is_column = column >= 0 && column < kSourceColumns;
#pragma unroll
        for (int k = 0; k < 9; ++k) {
            const int row = j + k * 8 - kPadTop, offset = row * kSourceColumns + column;
            const bool may_overlap = (k + 1) * 8 > kPadTop && k * 8 < kPadTop + kSourceRows;
            const bool is_pixel = may_overlap && is_column && row >= 0 && row < kSourceRows;
            v[k].x = is_pixel ? __ldg(first + offset) : 0.0f;
            v[k].y = is_pixel && second != nullptr ? __ldg(second + offset) : 0.0f;
        }

        dft9(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]);
#pragma unroll
        for (int k = 1; k < 9; ++k) {
            v[k] = times(v[k], kTwiddles9x8[(k - 1) * 8 + j]);
        }

        float2* const element = tile + j * kRowPitch + column_offset(x);
#pragma unroll
        for (int k = 0; k < 9; ++k) {
            element[k * (8 * kRowPitch)] = v[k];
        }
    }
}

// First pass: loads two planes as real and imaginary parts, zero-padded to the tile, and transforms the columns' first
// digit. `second` may be nullptr.
__device__ __forceinline__ void read_dy(const float* __restrict__ first, const float* __restrict__ second,
                                        float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 576u; i += kThreads) {
        const int x = modulo<72>(i), j = quotient<72>(i);

        float2 v[9];
        const int column = x - 0;
        const bool is_column = column >= 0 && column < kFilterColumns;
#pragma unroll
        for (int k = 0; k < 9; ++k) {
            const int row = j + k * 8 - 0, offset = row * kFilterColumns + column;
            const bool may_overlap = (k + 1) * 8 > 0 && k * 8 < 0 + kFilterRows;
            const bool is_pixel = may_overlap && is_column && row >= 0 && row < kFilterRows;
            v[k].x = is_pixel ? __ldg(first + offset) : 0.0f;
            v[k].y = is_pixel && second != nullptr ? __ldg(second + offset) : 0.0f;
        }

        dft9(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]);
#pragma unroll
        for (int k = 1; k < 9; ++k) {
            v[k] = times(v[k], kTwiddles9x8[(k - 1) * 8 + j]);
        }

        float2* const element = tile + j * kRowPitch + column_offset(x);
#pragma unroll
        for (int k = 0; k < 9; ++k) {
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

        float2 v[24];
#pragma unroll
        for (int n = 0; n < 24; ++n) {
            v[n] = element[n / 3 * kRowPitch + n % 3 * kDigitPitch];
        }
        dft8(v[0], v[3], v[6], v[9], v[12], v[15], v[18], v[21]);
        dft8(v[1], v[4], v[7], v[10], v[13], v[16], v[19], v[22]);
        dft8(v[2], v[5], v[8], v[11], v[14], v[17], v[20], v[23]);
        const float2 w1 = kTwiddles3x24[j];
        const float2 w2 = kTwiddles3x24[24 + j];
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
        dft3(v[15], v[16], v[17]);
        v[16] = times(v[16], w1);
        v[17] = times(v[17], w2);
        dft3(v[18], v[19], v[20]);
        v[19] = times(v[19], w1);
        v[20] = times(v[20], w2);
        dft3(v[21], v[22], v[23]);
        v[22] = times(v[22], w1);
        v[23] = times(v[23], w2);
#pragma unroll
        for (int n = 0; n < 24; ++n) {
            element[n / 3 * kRowPitch + n % 3 * kDigitPitch] = v[n];
        }
    }
}

// Inverse second pass; it stores only the columns that have results.
__device__ __forceinline__ void restore_corners(float2* tile, int group) {
#pragma unroll 1
    for (unsigned i = threadIdx.x % 32; i < 24u; i += 32) {
        const int j = modulo<24>(i), p = group * 1 + quotient<24>(i);
        float2* const element = tile + p * (8 * kRowPitch) + j;

        float2 v[24];
#pragma unroll
        for (int n = 0; n < 24; ++n) {
            v[n] = element[n / 3 * kRowPitch + n % 3 * kDigitPitch];
        }
        const float2 w1 = kTwiddles3x24[j];
        const float2 w2 = kTwiddles3x24[24 + j];
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
        v[16] = times(v[16], w1);
        v[17] = times(v[17], w2);
        dft3(v[15], v[16], v[17]);
        v[19] = times(v[19], w1);
        v[20] = times(v[20], w2);
        dft3(v[18], v[19], v[20]);
        v[22] = times(v[22], w1);
        v[23] = times(v[23], w2);
        dft3(v[21], v[22], v[23]);
        dft8(v[0], v[3], v[6], v[9], v[12], v[15], v[18], v[21]);
        dft8(v[1], v[4], v[7], v[10], v[13], v[16], v[19], v[22]);
#pragma unroll
        for (int n = 0; n < 24; ++n) {
            if (n % 3 < 1 || (n % 3 == 1 &&
                j < 7)) {
                element[n / 3 * kRowPitch + n % 3 * kDigitPitch] = v[n];
            }
        }
    }
}

// Tile offset of the lane's item in the third pass of a row group, one row's second digit; -1 if the lane has none.
__device__ __forceinline__ int item_offset(int group, int item) {
    const unsigned i = threadIdx.x % 32 + 32 * item;
    const int y = group * kGroupRows + i % 8u, k = i / 8u;
    return i < 24 && y < kTileRows ? y * kRowPitch + k * kDigitPitch : -1;
}

// Third pass: transforms the rows' second digit.
__device__ __forceinline__ void transform_rows(const float2* element, float2 (&v)[24]) {
#pragma unroll
    for (int j = 0; j < 24; ++j) {
        v[j] = element[j];
    }
    dft24(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
        v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23]);
}

// Inverse of the third pass. From here on real and imaginary parts are swapped, which makes a forward transform an
// inverse one.
__device__ __forceinline__ void restore_rows(float2* element, const float2 (&sum)[24]) {
    float2 v[24];
#pragma unroll
    for (int j = 0; j < 24; ++j) {
        v[j] = 0.000192901235f * swapped(sum[j]);
    }
    dft24(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
        v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23]);
#pragma unroll
    for (int j = 0; j < 24; ++j) {
        element[j] = v[j];
    }
}

// Last pass: transforms the columns' first digit back. The real part, v[k].y, is the sum of both images' gradients.
__device__ __forceinline__ void write_weights(float* result, const float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 248u; i += kThreads) {
        const int x = modulo<31>(i), j = quotient<31>(i);

        const float2* const element = tile + j * kRowPitch + column_offset(x);
        float2 v[9];
#pragma unroll
        for (int k = 0; k < 9; ++k) {
            v[k] = element[k * (8 * kRowPitch)];
        }
#pragma unroll
        for (int k = 1; k < 9; ++k) {
            v[k] = times(v[k], kTwiddles9x8[(k - 1) * 8 + j]);
        }

        dft9(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]);
#pragma unroll
        for (int k = 0; k < 9; ++k) {
            const int row = j + k * 8;
            if (k * 8 < kResultRows && row < kResultRows) {
                result[row * kResultColumns + x] = v[k].y;
            }
        }

    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_circular(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw) {
    extern __shared__ __align__(16) float2 tile[];
    float2* const dy_tile = tile + kTileSize;
    const int channel = blockIdx.x / kSplits, split = blockIdx.x % kSplits, warp = threadIdx.x / 32;
    float2 sums[kRounds][kItemsPerLane][24] = {};
#pragma unroll 1
    for (int pair = split; pair < kPairs; pair += kSplits) {
        const int plane = 2 * pair * kChannels + channel, next = plane + kChannels;
        const bool has_second = 2 * pair + 1 < kImages;
        __syncthreads();  // all warps have read the previous pair
        read_x(x + plane * (kSourceRows * kSourceColumns),
               has_second ? x + next * (kSourceRows * kSourceColumns) : nullptr, tile);
        read_dy(dy + plane * (kFilterRows * kFilterColumns),
                has_second ? dy + next * (kFilterRows * kFilterColumns) : nullptr, dy_tile);
        __syncthreads();
#pragma unroll
        for (int round = 0; round < kRounds; ++round) {
            const int group = warp + round * kWarps;
            if (group < 9) {
                transform_corners(tile, group);
                transform_corners(dy_tile, group);
            }
            __syncwarp();
#pragma unroll
            for (int item = 0; item < kItemsPerLane; ++item) {
                const int offset = item_offset(group, item);
                if (group < 9 && offset >= 0) {
                    float2 v[24], u[24];
                    transform_rows(tile + offset, v);
                    transform_rows(dy_tile + offset, u);
#pragma unroll
                    for (int j = 0; j < 24; ++j) {
                        sums[round][item][j] = sums[round][item][j] + times(v[j], conjugate(u[j]));
                    }
                }
            }
        }
    }
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
        const int group = warp + round * kWarps;
#pragma unroll
        for (int item = 0; item < kItemsPerLane; ++item) {
            const int offset = item_offset(group, item);
            if (group < 9 && offset >= 0) {
                restore_rows(tile + offset, sums[round][item]);
            }
        }
        __syncwarp();
        if (group < 9) {
            restore_corners(tile, group);
        }
    }
    __syncthreads();
    write_weights(dw + (split * kChannels + channel) * (kResultRows * kResultColumns), tile);
}

// Split-K reduction: sums the partial gradients of kSplits blocks in a fixed order, one weight per thread.
extern "C" __global__ void __launch_bounds__(256)
conv2d_circular_sum(const float* __restrict__ sums, float* __restrict__ dw) {
    constexpr int kWeights = kChannels * kResultRows * kResultColumns;
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < kWeights) {
        float sum = sums[i];
#pragma unroll
        for (int split = 1; split < kSplits; ++split) {
            sum += sums[split * kWeights + i];
        }
        dw[i] = sum;
    }
}
