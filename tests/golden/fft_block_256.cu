// warpsmith fft_block
// problem: fft size=256 batch=262144 kind=r2c
// config:  ahead=0 blocks=0 gaps=25 loads=plain min_blocks=0 packing=half signal=direct spectrum=staged stores=plain
//          threads=128 tiles=1 transforms=16 twiddles=powers x_radices=8x16
//
// Forward transforms of 256 points, 16 per tile.
// Radices 8x16: each radix is an in-register DFT of a thread.
// Two columns of a real signal are one complex number.
// kThreads threads compute a tile. Stages work in place in shared memory, separated by __syncthreads().

constexpr int kThreads = 128;  // threads per tile
constexpr long long kLast = 262128;  // first transform of the last tile, which may overlap the one before it
constexpr float kHalfScale = 0.5f;

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

// In-register DFTs of one thread, in place and in natural order: argument k returns frequency k.
__device__ __forceinline__ void dft2(float2& x0, float2& x1) {
    const float2 sum = x0 + x1;
    x1 = x0 - x1;
    x0 = sum;
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

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i j later / 128) for j = 1, 2, 4, later = 0 to 15.
__device__ const float2 kTwiddles8x16[48] = {
{ 1.0f, -0.0f }, { 0.998795456f, -0.0490676743f }, { 0.995184727f, -0.0980171403f },
{ 0.98917651f, -0.146730474f }, { 0.98078528f, -0.195090322f }, { 0.970031253f, -0.24298018f },
{ 0.956940336f, -0.290284677f }, { 0.941544065f, -0.336889853f }, { 0.923879533f, -0.382683432f },
{ 0.903989293f, -0.427555093f }, { 0.881921264f, -0.471396737f }, { 0.85772861f, -0.514102744f },
{ 0.831469612f, -0.555570233f }, { 0.803207531f, -0.595699304f }, { 0.773010453f, -0.634393284f },
{ 0.740951125f, -0.671558955f }, { 1.0f, -0.0f }, { 0.995184727f, -0.0980171403f },
{ 0.98078528f, -0.195090322f }, { 0.956940336f, -0.290284677f }, { 0.923879533f, -0.382683432f },
{ 0.881921264f, -0.471396737f }, { 0.831469612f, -0.555570233f }, { 0.773010453f, -0.634393284f },
{ 0.707106781f, -0.707106781f }, { 0.634393284f, -0.773010453f }, { 0.555570233f, -0.831469612f },
{ 0.471396737f, -0.881921264f }, { 0.382683432f, -0.923879533f }, { 0.290284677f, -0.956940336f },
{ 0.195090322f, -0.98078528f }, { 0.0980171403f, -0.995184727f }, { 1.0f, -0.0f },
{ 0.98078528f, -0.195090322f }, { 0.923879533f, -0.382683432f }, { 0.831469612f, -0.555570233f },
{ 0.707106781f, -0.707106781f }, { 0.555570233f, -0.831469612f }, { 0.382683432f, -0.923879533f },
{ 0.195090322f, -0.98078528f }, { 0.0f, -1.0f }, { -0.195090322f, -0.98078528f },
{ -0.382683432f, -0.923879533f }, { -0.555570233f, -0.831469612f }, { -0.707106781f, -0.707106781f },
{ -0.831469612f, -0.555570233f }, { -0.923879533f, -0.382683432f }, { -0.98078528f, -0.195090322f },
};

// Values of packing_twiddle(x).
__device__ const float2 kPackingTwiddles[65] = {
{ 0.0f, -1.0f }, { -0.0245412285f, -0.999698819f }, { -0.0490676743f, -0.998795456f },
{ -0.0735645636f, -0.997290457f }, { -0.0980171403f, -0.995184727f }, { -0.122410675f, -0.992479535f },
{ -0.146730474f, -0.98917651f }, { -0.170961889f, -0.985277642f }, { -0.195090322f, -0.98078528f },
{ -0.21910124f, -0.97570213f }, { -0.24298018f, -0.970031253f }, { -0.266712757f, -0.963776066f },
{ -0.290284677f, -0.956940336f }, { -0.31368174f, -0.949528181f }, { -0.336889853f, -0.941544065f },
{ -0.359895037f, -0.932992799f }, { -0.382683432f, -0.923879533f }, { -0.405241314f, -0.914209756f },
{ -0.427555093f, -0.903989293f }, { -0.44961133f, -0.893224301f }, { -0.471396737f, -0.881921264f },
{ -0.492898192f, -0.870086991f }, { -0.514102744f, -0.85772861f }, { -0.53499762f, -0.844853565f },
{ -0.555570233f, -0.831469612f }, { -0.575808191f, -0.817584813f }, { -0.595699304f, -0.803207531f },
{ -0.615231591f, -0.788346428f }, { -0.634393284f, -0.773010453f }, { -0.653172843f, -0.757208847f },
{ -0.671558955f, -0.740951125f }, { -0.689540545f, -0.724247083f }, { -0.707106781f, -0.707106781f },
{ -0.724247083f, -0.689540545f }, { -0.740951125f, -0.671558955f }, { -0.757208847f, -0.653172843f },
{ -0.773010453f, -0.634393284f }, { -0.788346428f, -0.615231591f }, { -0.803207531f, -0.595699304f },
{ -0.817584813f, -0.575808191f }, { -0.831469612f, -0.555570233f }, { -0.844853565f, -0.53499762f },
{ -0.85772861f, -0.514102744f }, { -0.870086991f, -0.492898192f }, { -0.881921264f, -0.471396737f },
{ -0.893224301f, -0.44961133f }, { -0.903989293f, -0.427555093f }, { -0.914209756f, -0.405241314f },
{ -0.923879533f, -0.382683432f }, { -0.932992799f, -0.359895037f }, { -0.941544065f, -0.336889853f },
{ -0.949528181f, -0.31368174f }, { -0.956940336f, -0.290284677f }, { -0.963776066f, -0.266712757f },
{ -0.970031253f, -0.24298018f }, { -0.97570213f, -0.21910124f }, { -0.98078528f, -0.195090322f },
{ -0.985277642f, -0.170961889f }, { -0.98917651f, -0.146730474f }, { -0.992479535f, -0.122410675f },
{ -0.995184727f, -0.0980171403f }, { -0.997290457f, -0.0735645636f }, { -0.998795456f, -0.0490676743f },
{ -0.999698819f, -0.0245412285f }, { -1.0f, -0.0f },
};

// -i exp(-2 pi i x / 256)
__device__ __forceinline__ float2 packing_twiddle(int x) {
    return kPackingTwiddles[x];
}

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Loads element (t, x) of the tile: columns 2 x and 2 x + 1 of a real signal.
__device__ __forceinline__ float2 load_signal(const float* signal, int t, int x) {
    const float* const element = signal + t * 256 + 2 * x;
    return *reinterpret_cast<const float2*>(element);
}

// Offset of frequency (x) from the start of the tile's spectra.
__device__ __forceinline__ int spectrum_offset(int transform, int x) {
    return transform * 129 + x;
}

// The transforms of one tile. `source` and `target` are those of its first transform.
__device__ __forceinline__ void transform(
    const float* __restrict__ source,
    float2* __restrict__ target,
    float2* tile, unsigned thread) {
    // Pass 1: 8 points along x.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const unsigned i = thread + step * kThreads;
        const int later = i % 16u;
        const int t = i / 16u;
        float2 v[8];
        float2* const element = tile + t * 145 + later;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            v[j] = load_signal(source, t, later + j * 16);
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x16[later];
        v[1] = times(v[1], w1);
        const float2 w2 = kTwiddles8x16[16 + later];
        v[2] = times(v[2], w2);
        const float2 w3 = times(w2, w1);
        v[3] = times(v[3], w3);
        const float2 w4 = kTwiddles8x16[32 + later];
        v[4] = times(v[4], w4);
        const float2 w5 = times(w4, w1);
        v[5] = times(v[5], w5);
        const float2 w6 = times(w4, w2);
        v[6] = times(v[6], w6);
        const float2 w7 = times(w4, w3);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            element[j * 18] = v[j];
        }
    }
    __syncthreads();

    // Pass 2: 16 points along x.
    {
        const unsigned i = thread;
        const int earlier = i % 8u;
        const int t = i / 8u;
        float2 v[16];
        float2* const element = tile + t * 145 + earlier * 18;
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            v[j] = element[j];
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            element[j] = v[j];
        }
    }
    __syncthreads();

    // Splits the spectrum of the complex signal into the half spectra of the real signals.
#pragma unroll
    for (int step = 0; step < 9; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 8 && i >= 1040) {
            break;
        }
        const int x = modulo<65>(i);
        const int t = quotient<65>(i);
        const int mirrored_x = x == 0 ? 0 : 128 - x;

        const float2 z = tile[t * 145 + x % 8u * 18 + x / 8u],
                     m = conjugate(tile[t * 145 + mirrored_x % 8u * 18 + mirrored_x / 8u]);
        const float2 even = kHalfScale * (z + m), odd = times(kHalfScale * (z - m), packing_twiddle(x));
        store(target + spectrum_offset(t, x), even + odd);
        if (2 * x != 128) store(target + spectrum_offset(t, 128 - x), conjugate(even - odd));
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
fft_block(const float* __restrict__ source,
          float2* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 16, first = min(start, kLast);
    transform(source + first * 256, target + first * 129,
              tile, thread);
}
