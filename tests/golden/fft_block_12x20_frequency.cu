// warpsmith fft_block
// problem: fft size=12x20 batch=4096 kind=c2c layout=frequency
// config:  ahead=0 blocks=0 first=y gaps=25 loads=plain min_blocks=0 packing=complex shares=1 signal=direct
//          stores=plain threads=160 tiles=1 transforms=8 twiddles=powers x_radices=4x5 y_radices=12
//
// Forward transforms of 12x20 points, 8 per tile.
// Radices 12 by 4x5: each radix is an in-register DFT of a thread.
// kThreads threads compute a tile. Stages work in place in shared memory, separated by __syncthreads().

constexpr int kThreads = 160;  // threads per tile
constexpr long long kLast = 4088;  // first transform of the last tile, which may overlap the one before it

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
__device__ __forceinline__ void dft4(float2& x0, float2& x1, float2& x2, float2& x3) {
    const float2 even = x0 + x2, odd = x1 + x3, across = x0 - x2;
    const float2 rotated = times_minus_i(x1 - x3);
    x0 = even + odd;
    x2 = even - odd;
    x1 = across + rotated;
    x3 = across - rotated;
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

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i j later / 20) for j = 1, 2, later = 0 to 4.
__device__ const float2 kTwiddles4x5[10] = {
{ 1.0f, -0.0f }, { 0.951056516f, -0.309016994f }, { 0.809016994f, -0.587785252f },
{ 0.587785252f, -0.809016994f }, { 0.309016994f, -0.951056516f }, { 1.0f, -0.0f },
{ 0.809016994f, -0.587785252f }, { 0.309016994f, -0.951056516f }, { -0.309016994f, -0.951056516f },
{ -0.809016994f, -0.587785252f },
};

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Loads element (t, y, x) of the tile: a complex number of the signal.
__device__ __forceinline__ float2 load_signal(const float2* signal, int t, int y, int x) {
    const float2* const element = signal + t * 240 + y * 20 + x;
    return *element;
}

// Offset of frequency (y, x) from the start of the tile's spectra.
__device__ __forceinline__ long long spectrum_offset(int transform, int y, int x) {
    return static_cast<long long>(y * 20 + x) * 4096 + transform;
}

// The transforms of one tile. `source` and `target` are those of its first transform.
__device__ __forceinline__ void transform(
    const float2* __restrict__ source,
    float2* __restrict__ target,
    float2* tile, unsigned thread) {
    // Pass 1: 12 points along y.
    {
        const unsigned i = thread;
        const int x = modulo<20>(i);
        const int t = quotient<20>(i);
        float2 v[12];
        float2* const element = tile + t * 242 + x;
#pragma unroll
        for (int j = 0; j < 12; ++j) {
            v[j] = load_signal(source, t, j, x);
        }
        dft12(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]);
#pragma unroll
        for (int j = 0; j < 12; ++j) {
            element[j * 20] = v[j];
        }
    }
    __syncthreads();

    // Pass 2: 4 points along x.
#pragma unroll
    for (int step = 0; step < 3; ++step) {
        const unsigned i = thread + step * kThreads;
        const int t = i % 8u;
        const int later = modulo<5>(i / 8u);
        const int y = quotient<40>(i);
        float2 v[4];
        float2* const element = tile + t * 242 + y * 20 + later;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            v[j] = element[j * 5];
        }
        dft4(v[0], v[1], v[2], v[3]);
        const float2 w1 = kTwiddles4x5[later];
        v[1] = times(v[1], w1);
        const float2 w2 = kTwiddles4x5[5 + later];
        v[2] = times(v[2], w2);
        const float2 w3 = times(w2, w1);
        v[3] = times(v[3], w3);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            element[j * 5] = v[j];
        }
    }
    __syncthreads();

    // Pass 3: 5 points along x.
#pragma unroll
    for (int step = 0; step < 3; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 2 && i >= 384) {
            break;
        }
        const int earlier = i % 4u;
        const int y = modulo<12>(i / 4u);
        const int t = quotient<48>(i);
        float2 v[5];
        float2* const element = tile + t * 242 + y * 20 + earlier * 5;
#pragma unroll
        for (int j = 0; j < 5; ++j) {
            v[j] = element[j];
        }
        dft5(v[0], v[1], v[2], v[3], v[4]);
#pragma unroll
        for (int j = 0; j < 5; ++j) {
            element[j] = v[j];
        }
    }
    __syncthreads();

    // Copies the tile to the spectrum.
#pragma unroll
    for (int step = 0; step < 12; ++step) {
        const unsigned i = thread + step * kThreads;
        const int t = i % 8u;
        const int x = modulo<20>(i / 8u);
        const int y = quotient<160>(i);
        store(target + spectrum_offset(t, y, x), tile[t * 242 + y * 20 + x % 4u * 5 + x / 4u]);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
fft_block(const float2* __restrict__ source,
          float2* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 8, first = min(start, kLast);
    transform(source + first * 240, target + first * 1,
              tile, thread);
}
