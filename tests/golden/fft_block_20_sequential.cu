// warpsmith fft_block
// problem: fft size=20 batch=3355443 kind=r2c
// config:  ahead=0 blocks=0 gaps=25 loads=plain min_blocks=0 packing=half signal=staged spectrum=sequential stores=plain threads=192 tiles=1 transforms=192 twiddles=powers x_radices=10
//
// Forward transforms of 20 points, 192 in a tile of
// shared memory: radices 10, each within a thread. Two columns of a real signal are one complex number.

constexpr int kThreads = 192;  // of a tile
constexpr long long kLast = 3355251;  // where the last tile starts: it may do some of another's again
constexpr float kHalfScale = 0.5f;

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

// Transforms within a thread: frequency k ends in the place of element k.
__device__ __forceinline__ void dft2(float2& x0, float2& x1) {
    const float2 sum = x0 + x1;
    x1 = x0 - x1;
    x0 = sum;
}
__device__ __forceinline__ void dft5(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4) {
    const float2 s1 = x1 + x4, d1 = x1 - x4;
    const float2 s2 = x2 + x3, d2 = x2 - x3;
    const float2 even1 = x0 + 0.309016994f * s1 + -0.809016994f * s2;
    const float2 odd1 = turned_right(0.951056516f * d1 + 0.587785252f * d2);
    const float2 even2 = x0 + -0.809016994f * s1 + 0.309016994f * s2;
    const float2 odd2 = turned_right(0.587785252f * d1 + -0.951056516f * d2);
    x0 = x0 + s1 + s2;
    x1 = even1 + odd1;
    x4 = even1 - odd1;
    x2 = even2 + odd2;
    x3 = even2 - odd2;
}
__device__ __forceinline__ void dft10(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7, float2& x8, float2& x9) {
    dft2(x0, x5);
    dft2(x1, x6);
    dft2(x2, x7);
    dft2(x3, x8);
    dft2(x4, x9);
    x6 = times(x6, 0.809016994f, -0.587785252f);
    x7 = times(x7, 0.309016994f, -0.951056516f);
    x8 = times(x8, -0.309016994f, -0.951056516f);
    x9 = times(x9, -0.809016994f, -0.587785252f);
    dft5(x0, x1, x2, x3, x4);
    dft5(x5, x6, x7, x8, x9);
    const float2 y5 = x5, y1 = x1, y6 = x6, y2 = x2, y7 = x7, y3 = x3, y8 = x8, y4 = x4;
    x1 = y5;
    x2 = y1;
    x3 = y6;
    x4 = y2;
    x5 = y7;
    x6 = y3;
    x7 = y8;
    x8 = y4;
}

// number / kDivisor and what is left of it. Exact where their product is below 2^32: those of a tile are below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// What half_root(x) returns.
__device__ const float2 kHalfRoots[11] = {
{ 0.0f, -1.0f }, { -0.309016994f, -0.951056516f }, { -0.587785252f, -0.809016994f }, { -0.809016994f, -0.587785252f },
{ -0.951056516f, -0.309016994f }, { -1.0f, -0.0f }, { -0.951056516f, 0.309016994f }, { -0.809016994f, 0.587785252f },
{ -0.587785252f, 0.809016994f }, { -0.309016994f, 0.951056516f }, { -0.0f, 1.0f },
};

// -i exp(-2 pi i x / 20)
__device__ __forceinline__ float2 half_root(int x) {
    return kHalfRoots[x];
}

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Element (t, x) of this tile: columns 2 x and 2 x + 1 of a real signal.
__device__ __forceinline__ float2 load_signal(const float* signal, int t, int x) {
    const float* const element = signal + t * 20 + 2 * x;
    return *reinterpret_cast<const float2*>(element);
}

// Where frequency (x) of a transform of this tile lies.
__device__ __forceinline__ int spectrum_place(int transform, int x) {
    return transform * 11 + x;
}

// Transforms of one tile; source and target are those of its first one.
__device__ __forceinline__ void transform(
    const float* __restrict__ source, float2* __restrict__ target, float2* tile, unsigned thread) {
    // The signal into the tile.
#pragma unroll
    for (int step = 0; step < 10; ++step) {
        const unsigned i = thread + step * kThreads;
        const int x = modulo<10>(i);
        const int t = quotient<10>(i);
        tile[t * 11 + x] = load_signal(source, t, x);
    }
    __syncthreads();

    // Pass 1: 10 points along x.
    {
        const unsigned i = thread;
        const int t = i;
        float2 v[10];
        float2* const element = tile + t * 11;
#pragma unroll
        for (int j = 0; j < 10; ++j) {
            v[j] = element[j];
        }
        dft10(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]);
#pragma unroll
        for (int j = 0; j < 10; ++j) {
            element[j] = v[j];
        }
    }
    __syncthreads();

    // The spectra of the real signals, one element after the other.
#pragma unroll
    for (int step = 0; step < 11; ++step) {
        const unsigned i = thread + step * kThreads;
        const int x = modulo<11>(i);
        const int t = quotient<11>(i);
        const int wrapped_x = x == 10 ? 0 : x;
        const int mirrored_x = wrapped_x == 0 ? 0 : 10 - x;

        const float2 z = tile[t * 11 + wrapped_x], m = conjugate(tile[t * 11 + mirrored_x]);
        store(target + spectrum_place(t, x), kHalfScale * (z + m) + times(kHalfScale * (z - m), half_root(x)));
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
fft_block(const float* __restrict__ source, float2* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 192, first = min(start, kLast);
    transform(source + first * 20, target + first * 11, tile, thread);
}
