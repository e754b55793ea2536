// warpsmith fft_block
// problem: fft size=15 batch=1001 kind=c2r
// config:  ahead=0 blocks=0 gaps=25 loads=plain min_blocks=0 packing=pair signal=staged spectrum=staged stores=plain
//          threads=32 tiles=1 transforms=4 twiddles=powers x_radices=15
//
// Inverse transforms of 15 points, 4 per tile.
// Radices 15: each radix is an in-register DFT of a thread.
// Two real signals are one complex one.
// kThreads threads compute a tile. Stages work in place in shared memory, separated by __syncwarp().

constexpr int kThreads = 32;  // threads per tile
constexpr long long kLast = 993;  // first transform of the last tile, which may overlap the one before it
constexpr float kScale = 0.0666666667f;

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
    const float2 odd1 = times_i(0.866025404f * d1);
    x0 = x0 + s1;
    x1 = even1 + odd1;
    x2 = even1 - odd1;
}
__device__ __forceinline__ void dft5(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4) {
    const float2 s1 = x1 + x4, d1 = x1 - x4;
    const float2 s2 = x2 + x3, d2 = x2 - x3;
    const float2 even1 = x0 + 0.309016994f * s1 + -0.809016994f * s2;
    const float2 odd1 = times_i(0.951056516f * d1 + 0.587785252f * d2);
    const float2 even2 = x0 + -0.809016994f * s1 + 0.309016994f * s2;
    const float2 odd2 = times_i(0.587785252f * d1 + -0.951056516f * d2);
    x0 = x0 + s1 + s2;
    x1 = even1 + odd1;
    x4 = even1 - odd1;
    x2 = even2 + odd2;
    x3 = even2 - odd2;
}
__device__ __forceinline__ void dft15(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14) {
    dft3(x0, x5, x10);
    dft3(x1, x6, x11);
    dft3(x2, x7, x12);
    dft3(x3, x8, x13);
    dft3(x4, x9, x14);
    x6 = times(x6, 0.913545458f, 0.406736643f);
    x7 = times(x7, 0.669130606f, 0.743144825f);
    x8 = times(x8, 0.309016994f, 0.951056516f);
    x9 = times(x9, -0.104528463f, 0.994521895f);
    x11 = times(x11, 0.669130606f, 0.743144825f);
    x12 = times(x12, -0.104528463f, 0.994521895f);
    x13 = times(x13, -0.809016994f, 0.587785252f);
    x14 = times(x14, -0.978147601f, -0.207911691f);
    dft5(x0, x1, x2, x3, x4);
    dft5(x5, x6, x7, x8, x9);
    dft5(x10, x11, x12, x13, x14);
    const float2 y5 = x5, y10 = x10, y1 = x1, y6 = x6, y11 = x11, y2 = x2, y12 = x12, y3 = x3, y8 = x8, y13
        = x13, y4 = x4, y9 = x9;
    x1 = y5;
    x2 = y10;
    x3 = y1;
    x4 = y6;
    x5 = y11;
    x6 = y2;
    x8 = y12;
    x9 = y3;
    x10 = y8;
    x11 = y13;
    x12 = y4;
    x13 = y9;
}

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Stores element (t, x) of the tile: of two consecutive real signals, as real and imaginary part;
// elements outside the valid part are dropped.
__device__ __forceinline__ void store_signal(float* signal, int t, int x, float2 value,
                                             int overlap) {
    float* const element = signal + 2 * t * 15 + x;
    if (2 * t >= overlap) store(element, value.x);
    if (2 * t + 1 >= overlap) store(element + 15, value.y);
}

// Offset of frequency (x) from the start of the tile's spectra.
__device__ __forceinline__ int spectrum_offset(int transform, int x) {
    return transform * 8 + x;
}

// Frequency x of complex signal t, and its mirror image, from the half spectra of the real signals.
__device__ __forceinline__ void merge(const float2* spectrum, int t, int x, float2& z,
                                      float2& mirrored) {
    float2 a = spectrum[spectrum_offset(2 * t, x)],
           b = spectrum[spectrum_offset(2 * t + 1, x)];
    const bool is_own_mirror = x == 0;
    a.y = is_own_mirror ? 0.0f : a.y;
    b.y = is_own_mirror ? 0.0f : b.y;
    z = kScale * (a + times_i(b));
    mirrored = kScale * (conjugate(a) + times_i(conjugate(b)));
}

// The transforms of one tile. `source` and `target` are those of its first transform.
__device__ __forceinline__ void transform(
    const float2* __restrict__ source,
    float* __restrict__ target,
    float2* tile, unsigned thread, int overlap) {
    // Merges the half spectra of the real signals into the spectrum of the complex signal.
    {
        const unsigned i = thread;
        const int x = i % 8u;
        const int t = i / 8u;
        float2 z, mirrored;
        merge(source, t, x, z, mirrored);
        tile[t * 15 + x] = z;
        if (x != 0) {
            const int mirrored_x = 15 - x;
            tile[t * 15 + mirrored_x] = mirrored;
        }
    }
    __syncwarp();

    // Pass 1: 15 points along x.
    if (const unsigned i = thread; i < 4) {
        const int t = i;
        float2 v[15];
        float2* const element = tile + t * 15;
#pragma unroll
        for (int j = 0; j < 15; ++j) {
            v[j] = element[j];
        }
        dft15(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13],
            v[14]);
#pragma unroll
        for (int j = 0; j < 15; ++j) {
            element[j] = v[j];
        }
    }
    __syncwarp();

    // Copies the tile to the signal.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 1 && i >= 60) {
            break;
        }
        const int x = modulo<15>(i);
        const int t = quotient<15>(i);
        store_signal(target, t, x, tile[t * 15 + x], overlap);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
fft_block(const float2* __restrict__ source,
          float* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 8, first = min(start, kLast);
    const int overlap = static_cast<int>(min(start, 1001LL) - first);  // transforms that the tile before stores
    transform(source + first * 8, target + first * 15,
              tile, thread, overlap);
}
