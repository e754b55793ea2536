// warpsmith fft_block
// problem: fft size=64x64 batch=16384 kind=c2r valid=57x57 norm=ortho
// config:  ahead=0 blocks=0 first=x gaps=25 loads=plain min_blocks=0 packing=half shares=1 signal=direct stores=plain
//          threads=256 tiles=1 transforms=1 twiddles=powers x_radices=4x8 y_radices=8x8
//
// Inverse transforms of 64x64 points, 1 per tile.
// Radices 8x8 by 4x8: each radix is an in-register DFT of a thread.
// Two columns of a real signal are one complex number.
// kThreads threads compute a tile. Stages work in place in shared memory, separated by __syncthreads().

constexpr int kThreads = 256;  // threads per tile
constexpr long long kLast = 16383;  // first transform of the last tile, which may overlap the one before it
constexpr float kScale = 0.015625f;

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
    const float2 rotated = times_i(x1 - x3);
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
    x5 = times(x5, 0.707106781f, 0.707106781f);
    x6 = times_i(x6);
    x7 = times(x7, -0.707106781f, 0.707106781f);
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

// exp(2 pi i j later / 32) for j = 1, 2, later = 0 to 7.
__device__ const float2 kTwiddles4x8[16] = {
{ 1.0f, 0.0f }, { 0.98078528f, 0.195090322f }, { 0.923879533f, 0.382683432f },
{ 0.831469612f, 0.555570233f }, { 0.707106781f, 0.707106781f }, { 0.555570233f, 0.831469612f },
{ 0.382683432f, 0.923879533f }, { 0.195090322f, 0.98078528f }, { 1.0f, 0.0f },
{ 0.923879533f, 0.382683432f }, { 0.707106781f, 0.707106781f }, { 0.382683432f, 0.923879533f },
{ 0.0f, 1.0f }, { -0.382683432f, 0.923879533f }, { -0.707106781f, 0.707106781f },
{ -0.923879533f, 0.382683432f },
};

// exp(2 pi i j later / 64) for j = 1, 2, 4, later = 0 to 7.
__device__ const float2 kTwiddles8x8[24] = {
{ 1.0f, 0.0f }, { 0.995184727f, 0.0980171403f }, { 0.98078528f, 0.195090322f },
{ 0.956940336f, 0.290284677f }, { 0.923879533f, 0.382683432f }, { 0.881921264f, 0.471396737f },
{ 0.831469612f, 0.555570233f }, { 0.773010453f, 0.634393284f }, { 1.0f, 0.0f },
{ 0.98078528f, 0.195090322f }, { 0.923879533f, 0.382683432f }, { 0.831469612f, 0.555570233f },
{ 0.707106781f, 0.707106781f }, { 0.555570233f, 0.831469612f }, { 0.382683432f, 0.923879533f },
{ 0.195090322f, 0.98078528f }, { 1.0f, 0.0f }, { 0.923879533f, 0.382683432f },
{ 0.707106781f, 0.707106781f }, { 0.382683432f, 0.923879533f }, { 0.0f, 1.0f },
{ -0.382683432f, 0.923879533f }, { -0.707106781f, 0.707106781f }, { -0.923879533f, 0.382683432f },
};

// Values of packing_twiddle(x).
__device__ const float2 kPackingTwiddles[17] = {
{ 0.0f, 1.0f }, { -0.0980171403f, 0.995184727f }, { -0.195090322f, 0.98078528f },
{ -0.290284677f, 0.956940336f }, { -0.382683432f, 0.923879533f }, { -0.471396737f, 0.881921264f },
{ -0.555570233f, 0.831469612f }, { -0.634393284f, 0.773010453f }, { -0.707106781f, 0.707106781f },
{ -0.773010453f, 0.634393284f }, { -0.831469612f, 0.555570233f }, { -0.881921264f, 0.471396737f },
{ -0.923879533f, 0.382683432f }, { -0.956940336f, 0.290284677f }, { -0.98078528f, 0.195090322f },
{ -0.995184727f, 0.0980171403f }, { -1.0f, 0.0f },
};

// i exp(2 pi i x / 64)
__device__ __forceinline__ float2 packing_twiddle(int x) {
    return kPackingTwiddles[x];
}

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Stores element (t, y, x) of the tile: columns 2 x and 2 x + 1 of a real signal;
// elements outside the valid part are dropped.
__device__ __forceinline__ void store_signal(float* signal, int t, int y, int x, float2 value) {
    float* const element = signal + t * 3249 + y * 57 + 2 * x;
    if (y < 57 && x < 29) store(element, value.x);
    if (y < 57 && x < 28) store(element + 1, value.y);
}

// Offset of frequency (y, x) from the start of the tile's spectra.
__device__ __forceinline__ int spectrum_offset(int transform, int y, int x) {
    return transform * 2112 + y * 33 + x;
}

// Frequency (y, x) of complex signal t, in a column that is its own mirror image: only the Hermitian
// part of the half spectra counts.
__device__ __forceinline__ void merge_self_mirrored(const float2* spectrum, int t, int y, int x, float2& z,
                                      bool is_needed) {
    const int mirrored_y = y == 0 ? 0 : 64 - y;
    float2 a{}, a_mirrored{}, m{}, m_mirrored{};
    if (is_needed) {
        a = spectrum[spectrum_offset(t, y, 0)];
        a_mirrored = spectrum[spectrum_offset(t, mirrored_y, 0)];
        m = spectrum[spectrum_offset(t, y, 32)];
        m_mirrored = spectrum[spectrum_offset(t, mirrored_y, 32)];
    }
    a = 0.5f * (a + conjugate(a_mirrored));
    m = 0.5f * (m + conjugate(m_mirrored));
    z = kScale * (a + m) + times_i(kScale * (a - m));
}
// Frequency (y, x) of complex signal t, and its mirror image, from the half spectra of the real signals.
__device__ __forceinline__ void merge(const float2* spectrum, int t, int y, int x, float2& z,
                                      float2& mirrored) {
    const int mirrored_y = y == 0 ? 0 : 64 - y;
    float2 a = spectrum[spectrum_offset(t, y, x)],
           m = conjugate(spectrum[spectrum_offset(t, mirrored_y, 32 - x)]);
    const float2 even = kScale * (a + m), odd = times(kScale * (a - m), packing_twiddle(x));
    z = even + odd;
    mirrored = conjugate(even - odd);
}

// The transforms of one tile. `source` and `target` are those of its first transform.
__device__ __forceinline__ void transform(
    const float2* __restrict__ source,
    float* __restrict__ target,
    float2* tile, unsigned thread) {
    // Columns that are their own mirror image: loaded before the others, written after them.
    {
        const unsigned i = thread;
        constexpr int t = 0;
        const int y = i;
        constexpr int x = 0;
        float2 z;
        merge_self_mirrored(source, t, y, x, z, i < 64);

        // Merges the half spectra of the real signals into the spectrum of the complex signal.
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            const unsigned i = thread + step * kThreads;
            constexpr int t = 0;
            const int column = i % 16u;
            const int y = i / 16u;
            const int x = column + 1;
            float2 z, mirrored;
            merge(source, t, y, x, z, mirrored);
            tile[y * 33 + x] = z;
            if (2 * x != 32) {
                const int mirrored_y = y == 0 ? 0 : 64 - y;
                const int mirrored_x = 32 - x;
                tile[mirrored_y * 33 + mirrored_x] = mirrored;
            }
        }

        if (i < 64) tile[y * 33 + x] = z;
    }
    __syncthreads();

    // Pass 1: 4 points along x.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const unsigned i = thread + step * kThreads;
        const int y = i % 64u;
        const int later = i / 64u;
        float2 v[4];
        float2* const element = tile + y * 33 + later;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            v[j] = element[j * 8];
        }
        dft4(v[0], v[1], v[2], v[3]);
        const float2 w1 = kTwiddles4x8[later];
        v[1] = times(v[1], w1);
        const float2 w2 = kTwiddles4x8[8 + later];
        v[2] = times(v[2], w2);
        const float2 w3 = times(w2, w1);
        v[3] = times(v[3], w3);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            element[j * 8] = v[j];
        }
    }
    __syncthreads();

    // Pass 2: 8 points along x.
    {
        const unsigned i = thread;
        const int y = i % 64u;
        const int earlier = i / 64u;
        float2 v[8];
        float2* const element = tile + y * 33 + earlier * 8;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            v[j] = element[j];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            element[j] = v[j];
        }
    }
    __syncthreads();

    // Pass 3: 8 points along y.
    {
        const unsigned i = thread;
        const int x = i % 32u;
        const int later = i / 32u;
        float2 v[8];
        float2* const element = tile + x + later * 33;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            v[j] = element[j * 264];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x8[later];
        v[1] = times(v[1], w1);
        const float2 w2 = kTwiddles8x8[8 + later];
        v[2] = times(v[2], w2);
        const float2 w3 = times(w2, w1);
        v[3] = times(v[3], w3);
        const float2 w4 = kTwiddles8x8[16 + later];
        v[4] = times(v[4], w4);
        const float2 w5 = times(w4, w1);
        v[5] = times(v[5], w5);
        const float2 w6 = times(w4, w2);
        v[6] = times(v[6], w6);
        const float2 w7 = times(w4, w3);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            element[j * 264] = v[j];
        }
    }
    __syncthreads();

    // Pass 4: 8 points along y.
    {
        const unsigned i = thread;
        const int x = i % 32u;
        const int earlier = i / 32u;
        float2 v[8];
        float2* const element = tile + x % 4u * 8 + x / 4u + earlier * 264;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            v[j] = element[j * 33];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            store_signal(target, 0, earlier + j * 8, x, v[j]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
fft_block(const float2* __restrict__ source,
          float* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 1, first = min(start, kLast);
    transform(source + first * 2112, target + first * 3249,
              tile, thread);
}
