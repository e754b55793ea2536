// warpsmith conv2d_circular
// problem: conv2d pass=fprop input=16x128x56x56 weight=128x1x31x31 precision=ieee padding=15x15 groups=128
// config:  ahead=1 gaps=2 group=3 min_blocks=0 twiddles=table warps=3 x_radices=3x24 y_radices=9x8
//
// The planes of a channel in two images as one complex tile, times the spectrum of the channel's filter.
// Columns as 9x8, rows as 3x24, in three passes each way.

constexpr int kImages = 16;
constexpr int kPairs = 8;  // of images
constexpr int kChannels = 128;
constexpr int kSourceRows = 56;  // of a plane that is read
constexpr int kSourceColumns = 56;
constexpr int kBeforeRows = 15;  // of zeros in a tile, above a plane
constexpr int kBeforeColumns = 15;
constexpr int kFilterRows = 31;  // of what it is correlated with
constexpr int kFilterColumns = 31;
constexpr int kResultRows = 56;
constexpr int kResultColumns = 56;

constexpr int kTileRows = 72;  // of pixels, and of frequencies
constexpr int kTileColumns = 72;
constexpr int kThreads = 96;
constexpr int kGroupRows = 24;  // that a warp transforms at a time
constexpr int kRowPitch = 73;  // complex numbers in shared memory from row to row
constexpr int kDigitPitch = 24;  // and from one value of a row's first digit to the next

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ float2 operator*(float s, float2 a) { return make_float2(s * a.x, s * a.y); }
__device__ __forceinline__ float2 turned_left(float2 a) { return make_float2(-a.y, a.x); }  // i a
__device__ __forceinline__ float2 turned_right(float2 a) { return make_float2(a.y, -a.x); }  // -i a
__device__ __forceinline__ float2 conjugate(float2 a) { return make_float2(a.x, -a.y); }
__device__ __forceinline__ float2 times(float2 a, float re, float im) {
    return make_float2(a.x * re - a.y * im, a.x * im + a.y * re);
}
__device__ __forceinline__ float2 times(float2 a, float2 b) { return times(a, b.x, b.y); }

__device__ __forceinline__ float2 swapped(float2 a) { return make_float2(a.y, a.x); }

// Transforms within a thread: frequency k ends in the place of element k.
__device__ __forceinline__ void dft2(float2& x0, float2& x1) {
    const float2 sum = x0 + x1;
    x1 = x0 - x1;
    x0 = sum;
}
__device__ __forceinline__ void dft3(float2& x0, float2& x1, float2& x2) {
    const float2 s1 = x1 + x2, d1 = x1 - x2;
    const float2 even1 = x0 + -0.5f * s1;
    const float2 odd1 = turned_right(0.866025404f * d1);
    x0 = x0 + s1;
    x1 = even1 + odd1;
    x2 = even1 - odd1;
}
__device__ __forceinline__ void dft4(float2& x0, float2& x1, float2& x2, float2& x3) {
    const float2 even = x0 + x2, odd = x1 + x3, across = x0 - x2;
    const float2 turned = turned_right(x1 - x3);
    x0 = even + odd;
    x2 = even - odd;
    x1 = across + turned;
    x3 = across - turned;
}
__device__ __forceinline__ void dft9(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7, float2& x8) {
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
__device__ __forceinline__ void dft8(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7) {
    dft2(x0, x4);
    dft2(x1, x5);
    dft2(x2, x6);
    dft2(x3, x7);
    x5 = times(x5, 0.707106781f, -0.707106781f);
    x6 = turned_right(x6);
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
__device__ __forceinline__ void dft24(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7, float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15, float2& x16, float2& x17, float2& x18, float2& x19, float2& x20, float2& x21, float2& x22, float2& x23) {
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
    x14 = turned_right(x14);
    x15 = times(x15, -0.258819045f, -0.965925826f);
    x17 = times(x17, 0.866025404f, -0.5f);
    x18 = times(x18, 0.5f, -0.866025404f);
    x19 = turned_right(x19);
    x20 = times(x20, -0.5f, -0.866025404f);
    x21 = times(x21, -0.866025404f, -0.5f);
    x22 = -1.0f * x22;
    x23 = times(x23, -0.866025404f, 0.5f);
    dft8(x0, x1, x2, x3, x4, x5, x6, x7);
    dft8(x8, x9, x10, x11, x12, x13, x14, x15);
    dft8(x16, x17, x18, x19, x20, x21, x22, x23);
    const float2 y8 = x8, y16 = x16, y1 = x1, y9 = x9, y17 = x17, y2 = x2, y10 = x10, y18 = x18, y3 = x3, y11 = x11, y19 = x19, y4 = x4, y12 = x12, y20 = x20, y5 = x5, y13 = x13, y21 = x21, y6 = x6, y14 = x14, y22 = x22, y7 = x7, y15 = x15;
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

// number / kDivisor and what is left of it. Exact where their product is below 2^32: those of a tile are below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i k j / 72) for k = 1, 2, 3, 4, 5, 6, 7, 8, j = 0 to 7.
__device__ const float2 kTwiddles9x8[64] = {
{ 1.0f, 0.0f }, { 0.996194698f, -0.0871557427f }, { 0.984807753f, -0.173648178f }, { 0.965925826f, -0.258819045f },
{ 0.939692621f, -0.342020143f }, { 0.906307787f, -0.422618262f }, { 0.866025404f, -0.5f }, { 0.819152044f, -0.573576436f },
{ 1.0f, 0.0f }, { 0.984807753f, -0.173648178f }, { 0.939692621f, -0.342020143f }, { 0.866025404f, -0.5f },
{ 0.766044443f, -0.64278761f }, { 0.64278761f, -0.766044443f }, { 0.5f, -0.866025404f }, { 0.342020143f, -0.939692621f },
{ 1.0f, 0.0f }, { 0.965925826f, -0.258819045f }, { 0.866025404f, -0.5f }, { 0.707106781f, -0.707106781f },
{ 0.5f, -0.866025404f }, { 0.258819045f, -0.965925826f }, { 0.0f, -1.0f }, { -0.258819045f, -0.965925826f },
{ 1.0f, 0.0f }, { 0.939692621f, -0.342020143f }, { 0.766044443f, -0.64278761f }, { 0.5f, -0.866025404f },
{ 0.173648178f, -0.984807753f }, { -0.173648178f, -0.984807753f }, { -0.5f, -0.866025404f }, { -0.766044443f, -0.64278761f },
{ 1.0f, 0.0f }, { 0.906307787f, -0.422618262f }, { 0.64278761f, -0.766044443f }, { 0.258819045f, -0.965925826f },
{ -0.173648178f, -0.984807753f }, { -0.573576436f, -0.819152044f }, { -0.866025404f, -0.5f }, { -0.996194698f, -0.0871557427f },
{ 1.0f, 0.0f }, { 0.866025404f, -0.5f }, { 0.5f, -0.866025404f }, { 0.0f, -1.0f },
{ -0.5f, -0.866025404f }, { -0.866025404f, -0.5f }, { -1.0f, 0.0f }, { -0.866025404f, 0.5f },
{ 1.0f, 0.0f }, { 0.819152044f, -0.573576436f }, { 0.342020143f, -0.939692621f }, { -0.258819045f, -0.965925826f },
{ -0.766044443f, -0.64278761f }, { -0.996194698f, -0.0871557427f }, { -0.866025404f, 0.5f }, { -0.422618262f, 0.906307787f },
{ 1.0f, 0.0f }, { 0.766044443f, -0.64278761f }, { 0.173648178f, -0.984807753f }, { -0.5f, -0.866025404f },
{ -0.939692621f, -0.342020143f }, { -0.939692621f, 0.342020143f }, { -0.5f, 0.866025404f }, { 0.173648178f, 0.984807753f },
};

// exp(2 pi i j / 72) for j = 0 to 71.
__device__ const float2 kRoots72[72] = {
{ 1.0f, 0.0f }, { 0.996194698f, 0.0871557427f }, { 0.984807753f, 0.173648178f }, { 0.965925826f, 0.258819045f },
{ 0.939692621f, 0.342020143f }, { 0.906307787f, 0.422618262f }, { 0.866025404f, 0.5f }, { 0.819152044f, 0.573576436f },
{ 0.766044443f, 0.64278761f }, { 0.707106781f, 0.707106781f }, { 0.64278761f, 0.766044443f }, { 0.573576436f, 0.819152044f },
{ 0.5f, 0.866025404f }, { 0.422618262f, 0.906307787f }, { 0.342020143f, 0.939692621f }, { 0.258819045f, 0.965925826f },
{ 0.173648178f, 0.984807753f }, { 0.0871557427f, 0.996194698f }, { 0.0f, 1.0f }, { -0.0871557427f, 0.996194698f },
{ -0.173648178f, 0.984807753f }, { -0.258819045f, 0.965925826f }, { -0.342020143f, 0.939692621f }, { -0.422618262f, 0.906307787f },
{ -0.5f, 0.866025404f }, { -0.573576436f, 0.819152044f }, { -0.64278761f, 0.766044443f }, { -0.707106781f, 0.707106781f },
{ -0.766044443f, 0.64278761f }, { -0.819152044f, 0.573576436f }, { -0.866025404f, 0.5f }, { -0.906307787f, 0.422618262f },
{ -0.939692621f, 0.342020143f }, { -0.965925826f, 0.258819045f }, { -0.984807753f, 0.173648178f }, { -0.996194698f, 0.0871557427f },
{ -1.0f, 0.0f }, { -0.996194698f, -0.0871557427f }, { -0.984807753f, -0.173648178f }, { -0.965925826f, -0.258819045f },
{ -0.939692621f, -0.342020143f }, { -0.906307787f, -0.422618262f }, { -0.866025404f, -0.5f }, { -0.819152044f, -0.573576436f },
{ -0.766044443f, -0.64278761f }, { -0.707106781f, -0.707106781f }, { -0.64278761f, -0.766044443f }, { -0.573576436f, -0.819152044f },
{ -0.5f, -0.866025404f }, { -0.422618262f, -0.906307787f }, { -0.342020143f, -0.939692621f }, { -0.258819045f, -0.965925826f },
{ -0.173648178f, -0.984807753f }, { -0.0871557427f, -0.996194698f }, { 0.0f, -1.0f }, { 0.0871557427f, -0.996194698f },
{ 0.173648178f, -0.984807753f }, { 0.258819045f, -0.965925826f }, { 0.342020143f, -0.939692621f }, { 0.422618262f, -0.906307787f },
{ 0.5f, -0.866025404f }, { 0.573576436f, -0.819152044f }, { 0.64278761f, -0.766044443f }, { 0.707106781f, -0.707106781f },
{ 0.766044443f, -0.64278761f }, { 0.819152044f, -0.573576436f }, { 0.866025404f, -0.5f }, { 0.906307787f, -0.422618262f },
{ 0.939692621f, -0.342020143f }, { 0.965925826f, -0.258819045f }, { 0.984807753f, -0.173648178f }, { 0.996194698f, -0.0871557427f },
};

// exp(-2 pi i k j / 72) for k = 1, 2, j = 0 to 23.
__device__ const float2 kTwiddles3x24[48] = {
{ 1.0f, 0.0f }, { 0.996194698f, -0.0871557427f }, { 0.984807753f, -0.173648178f }, { 0.965925826f, -0.258819045f },
{ 0.939692621f, -0.342020143f }, { 0.906307787f, -0.422618262f }, { 0.866025404f, -0.5f }, { 0.819152044f, -0.573576436f },
{ 0.766044443f, -0.64278761f }, { 0.707106781f, -0.707106781f }, { 0.64278761f, -0.766044443f }, { 0.573576436f, -0.819152044f },
{ 0.5f, -0.866025404f }, { 0.422618262f, -0.906307787f }, { 0.342020143f, -0.939692621f }, { 0.258819045f, -0.965925826f },
{ 0.173648178f, -0.984807753f }, { 0.0871557427f, -0.996194698f }, { 0.0f, -1.0f }, { -0.0871557427f, -0.996194698f },
{ -0.173648178f, -0.984807753f }, { -0.258819045f, -0.965925826f }, { -0.342020143f, -0.939692621f }, { -0.422618262f, -0.906307787f },
{ 1.0f, 0.0f }, { 0.984807753f, -0.173648178f }, { 0.939692621f, -0.342020143f }, { 0.866025404f, -0.5f },
{ 0.766044443f, -0.64278761f }, { 0.64278761f, -0.766044443f }, { 0.5f, -0.866025404f }, { 0.342020143f, -0.939692621f },
{ 0.173648178f, -0.984807753f }, { 0.0f, -1.0f }, { -0.173648178f, -0.984807753f }, { -0.342020143f, -0.939692621f },
{ -0.5f, -0.866025404f }, { -0.64278761f, -0.766044443f }, { -0.766044443f, -0.64278761f }, { -0.866025404f, -0.5f },
{ -0.939692621f, -0.342020143f }, { -0.984807753f, -0.173648178f }, { -1.0f, 0.0f }, { -0.984807753f, 0.173648178f },
{ -0.939692621f, 0.342020143f }, { -0.866025404f, 0.5f }, { -0.766044443f, 0.64278761f }, { -0.64278761f, 0.766044443f },
};

__device__ __forceinline__ int place_of(int x) { return x; }

// The power of two by which a plane is scaled, so that neither of a tile is felt by the other, and the one that takes it
// back: what is not finite becomes zeros, and all results NaN.
struct Scale {
    float to, back;
};

constexpr unsigned kInfinityBits = 0x7f800000u;

__device__ __forceinline__ float power_of_two(int power) { return __uint_as_float(static_cast<unsigned>(127 + power) << 23); }

// Magnitudes near 1 leave room for the sums of a tile. A largest magnitude of 2^-66 or less counts as that.
__device__ __forceinline__ Scale scale_for(unsigned largest) {
    if (largest >= kInfinityBits) {
        return {0.0f, __uint_as_float(0x7fc00000u)};
    }
    const int power = min(max(static_cast<int>(largest >> 23) - 127, -66), 126);
    return {power_of_two(-power), power_of_two(power)};
}

// The largest magnitudes of two planes, as bits, which are in the same order; the second plane may be none.
__device__ __forceinline__ uint2 largest_of(const float* __restrict__ first, const float* __restrict__ second) {
    __shared__ uint2 of_warps[kThreads / 32];
    uint2 most = make_uint2(0, 0);
    for (int i = threadIdx.x; i < kSourceRows * kSourceColumns; i += kThreads) {
        most.x = max(most.x, __float_as_uint(fabsf(__ldg(first + i))));
        most.y = second != nullptr ? max(most.y, __float_as_uint(fabsf(__ldg(second + i)))) : 0;
    }
    most = make_uint2(__reduce_max_sync(0xffffffffu, most.x), __reduce_max_sync(0xffffffffu, most.y));
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = most;
    }
    __syncthreads();
    for (int warp = 0; warp < kThreads / 32; ++warp) {
        most = make_uint2(max(most.x, of_warps[warp].x), max(most.y, of_warps[warp].y));
    }
    return most;
}

// The first pass, from two planes, of which the second one may be none. Around a plane lie zeros.
__device__ __forceinline__ void read_planes(const float* __restrict__ first, const float* __restrict__ second, float first_scale, float second_scale, float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 576u; i += kThreads) {
        const int x = modulo<72>(i), j = quotient<72>(i);

        float2 v[9];
        const int column = x - kBeforeColumns;
        const bool is_column = column >= 0 && column < kSourceColumns;
#pragma unroll
        for (int k = 0; k < 9; ++k) {
            const int row = j + k * 8 - kBeforeRows, place = row * kSourceColumns + column;
            const bool is_reached = (k + 1) * 8 > kBeforeRows && k * 8 < kBeforeRows + kSourceRows;
            const bool is_pixel = is_reached && is_column && row >= 0 && row < kSourceRows;
            v[k].x = is_pixel && first_scale != 0.0f ? first_scale * __ldg(first + place) : 0.0f;
            v[k].y = is_pixel && second_scale != 0.0f ? second_scale * __ldg(second + place) : 0.0f;
        }

        dft9(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]);
#pragma unroll
        for (int k = 1; k < 9; ++k) {
            v[k] = times(v[k], kTwiddles9x8[(k - 1) * 8 + j]);
        }

        float2* const element = tile + j * kRowPitch + place_of(x);
#pragma unroll
        for (int k = 0; k < 9; ++k) {
            element[k * (8 * kRowPitch)] = v[k];
        }
    }
}

// The second pass: columns, their second digit, and rows, their first one.
__device__ __forceinline__ void transform_corners(float2* tile, int group) {
#pragma unroll 1
    for (unsigned i = threadIdx.x % 32; i < 72u; i += 32) {
        const int j = modulo<24>(i), p = group * 3 + quotient<24>(i);
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

// The second pass backward: what lies in columns that have results.
__device__ __forceinline__ void restore_corners(float2* tile, int group) {
#pragma unroll 1
    for (unsigned i = threadIdx.x % 32; i < 72u; i += 32) {
        const int j = modulo<24>(i), p = group * 3 + quotient<24>(i);
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
        dft8(v[2], v[5], v[8], v[11], v[14], v[17], v[20], v[23]);
#pragma unroll
        for (int n = 0; n < 24; ++n) {
            if (n % 3 < 2 || (n % 3 == 2 && j < 8)) {
                element[n / 3 * kRowPitch + n % 3 * kDigitPitch] = v[n];
            }
        }
    }
}

// The third pass: rows, their second digit, times the filter's spectrum, and the same backward. From here on real and
// imaginary parts are swapped, which makes a forward transform one backward.
__device__ __forceinline__ void multiply_rows(float2* tile, const float2* __restrict__ spectrum, int group) {
    const unsigned lane = threadIdx.x % 32;
    const float2* const factors = spectrum + group * 2304;
#pragma unroll 1
    for (unsigned i = lane; i < 72u; i += 32) {
        const int y = group * kGroupRows + modulo<24>(i), k = quotient<24>(i);
        float2* const element = tile + y * kRowPitch + k * kDigitPitch;

        const float4* const mine = reinterpret_cast<const float4*>(factors) + (i - lane) * 12 + lane;
        float4 factor[12];
#pragma unroll
        for (int j = 0; j < 12; ++j) {
            factor[j] = __ldg(mine + j * 32);
        }
        float2 v[24];
#pragma unroll
        for (int j = 0; j < 24; ++j) {
            v[j] = element[j];
        }
        dft24(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23]);
#pragma unroll
        for (int j = 0; j < 12; ++j) {
            const float4 h = factor[j];
            v[2 * j] = swapped(times(v[2 * j], h.x, h.y));
            v[2 * j + 1] = swapped(times(v[2 * j + 1], h.z, h.w));
        }
        dft24(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23]);
#pragma unroll
        for (int j = 0; j < 24; ++j) {
            element[j] = v[j];
        }
    }
}

// The last pass, to the results.
__device__ __forceinline__ void write_planes(float* first, float* second, float first_scale, float second_scale, const float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 448u; i += kThreads) {
        const int x = modulo<56>(i), j = quotient<56>(i);

        const float2* const element = tile + j * kRowPitch + place_of(x);
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
                first[row * kResultColumns + x] = first_scale * v[k].y;
                if (second != nullptr) {
                    second[row * kResultColumns + x] = second_scale * v[k].x;
                }
            }
        }

    }
}

constexpr int kTaps = kFilterRows * kFilterColumns;

constexpr int kSpectrum = 6912;  // complex numbers of a filter's

// Where multiply_rows reads frequency (y, x) of a filter's spectrum.
__device__ __forceinline__ int spectrum_place(int y, int x) {
    const int row = y % 9 * 8 + y / 9, k = x % 3, j = x / 3;
    const int item = k * kGroupRows + row % kGroupRows;
    const int turn = row / kGroupRows * 3 + item / 32;
    return (turn * 12 + j / 2) * 64 + item % 32 * 2 + j % 2;
}

// The filters' spectra, scaled: sum over r, s of weights[r, s] * exp(2 pi i (y r / kTileRows + x s / kTileColumns)), the
// conjugate of the filter's transform, since that of a correlation is the image's times it. A block has a few columns x.
extern "C" __global__ void __launch_bounds__(256)
conv2d_circular_spectrum(float2* __restrict__ spectra, const float* __restrict__ w) {
    __shared__ float taps[kFilterRows * kFilterColumns];
    __shared__ float2 sums[kFilterRows * 8];
    const int f = blockIdx.x / 9, first = blockIdx.x % 9 * 8;
    for (int i = threadIdx.x; i < kFilterRows * kFilterColumns; i += 256) {
        taps[i] = w[f * kTaps + i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kFilterRows * 8; i += 256) {
        const int r = i / 8, x = first + i % 8;
        float2 sum = make_float2(0.0f, 0.0f);
        for (int s = 0; s < kFilterColumns; ++s) {
            sum = sum + taps[r * kFilterColumns + s] * kRoots72[x * s % kTileColumns];
        }
        sums[i] = 0.000192901235f * sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kTileRows * 8; i += 256) {
        const int y = i / 8, c = i % 8;
        float2 sum = make_float2(0.0f, 0.0f);
        for (int r = 0; r < kFilterRows; ++r) {
            sum = sum + times(sums[r * 8 + c], kRoots72[y * r % kTileRows]);
        }
        spectra[f * kSpectrum + spectrum_place(y, first + c)] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_circular(const float* __restrict__ x, const float2* __restrict__ spectra,
                float* __restrict__ y) {
    extern __shared__ __align__(16) float2 tile[];
    const int channel = blockIdx.x / kPairs, image = blockIdx.x % kPairs * 2;
    const int plane = image * kChannels + channel;
    const bool has_second = image + 1 < kImages;
    const float* const source = x + plane * (kSourceRows * kSourceColumns);
    float* const result = y + plane * (kResultRows * kResultColumns);
    const float* const other = has_second ? source + kChannels * (kSourceRows * kSourceColumns) : nullptr;
    const uint2 most = largest_of(source, other);
    const Scale first_scale = scale_for(most.x), second_scale = has_second ? scale_for(most.y) : Scale{0.0f, 0.0f};
    read_planes(source, other, first_scale.to, second_scale.to, tile);
    __syncthreads();
#pragma unroll 1
    for (int group = threadIdx.x / 32; group < 3; group += kThreads / 32) {
        transform_corners(tile, group);
        __syncwarp();
        multiply_rows(tile, spectra + channel * kSpectrum, group);
        __syncwarp();
        restore_corners(tile, group);
    }
    __syncthreads();
    write_planes(result, has_second ? result + kChannels * (kResultRows * kResultColumns) : nullptr,
                 first_scale.back, second_scale.back, tile);
}
