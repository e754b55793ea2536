// warpsmith fft_block
// problem: fft size=50x50 batch=3456 kind=r2c layout=frequency tiles=3x3 step=40x40 origin=-5x-5 plane=127x127 inner=3
// config:  blocks=0 first=y gaps=25 loads=plain min_blocks=0 packing=half shares=1 signal=direct spectrum=staged
//          stores=plain threads=256 tiles=1 transforms=4 twiddles=powers x_radices=5x5 y_radices=5x10
//
// Forward transforms of 50x50 points, 4 per tile.
// Radices 5x10 by 5x5: each radix is an in-register DFT of a thread.
// Two columns of a real signal are one complex number.
// kThreads threads compute a tile. Stages work in place in shared memory, separated by __syncthreads().

constexpr int kThreads = 256;  // threads per tile
constexpr long long kLast = 3452;  // first transform of the last tile, which may overlap the one before it
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
__device__ __forceinline__ void dft10(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9) {
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

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i j later / 50) for j = 1, 2, 4, later = 0 to 9.
__device__ const float2 kTwiddles5x10[30] = {
{ 1.0f, -0.0f }, { 0.992114701f, -0.125333234f }, { 0.968583161f, -0.248689887f },
{ 0.929776486f, -0.368124553f }, { 0.87630668f, -0.481753674f }, { 0.809016994f, -0.587785252f },
{ 0.728968627f, -0.684547106f }, { 0.63742399f, -0.770513243f }, { 0.535826795f, -0.844327926f },
{ 0.425779292f, -0.904827052f }, { 1.0f, -0.0f }, { 0.968583161f, -0.248689887f },
{ 0.87630668f, -0.481753674f }, { 0.728968627f, -0.684547106f }, { 0.535826795f, -0.844327926f },
{ 0.309016994f, -0.951056516f }, { 0.0627905195f, -0.998026728f }, { -0.187381315f, -0.982287251f },
{ -0.425779292f, -0.904827052f }, { -0.63742399f, -0.770513243f }, { 1.0f, -0.0f },
{ 0.87630668f, -0.481753674f }, { 0.535826795f, -0.844327926f }, { 0.0627905195f, -0.998026728f },
{ -0.425779292f, -0.904827052f }, { -0.809016994f, -0.587785252f }, { -0.992114701f, -0.125333234f },
{ -0.929776486f, 0.368124553f }, { -0.63742399f, 0.770513243f }, { -0.187381315f, 0.982287251f },
};

// exp(-2 pi i j later / 25) for j = 1, 2, 4, later = 0 to 4.
__device__ const float2 kTwiddles5x5[15] = {
{ 1.0f, -0.0f }, { 0.968583161f, -0.248689887f }, { 0.87630668f, -0.481753674f },
{ 0.728968627f, -0.684547106f }, { 0.535826795f, -0.844327926f }, { 1.0f, -0.0f },
{ 0.87630668f, -0.481753674f }, { 0.535826795f, -0.844327926f }, { 0.0627905195f, -0.998026728f },
{ -0.425779292f, -0.904827052f }, { 1.0f, -0.0f }, { 0.535826795f, -0.844327926f },
{ -0.425779292f, -0.904827052f }, { -0.992114701f, -0.125333234f }, { -0.63742399f, 0.770513243f },
};

// Values of packing_twiddle(x).
__device__ const float2 kPackingTwiddles[13] = {
{ 0.0f, -1.0f }, { -0.125333234f, -0.992114701f }, { -0.248689887f, -0.968583161f },
{ -0.368124553f, -0.929776486f }, { -0.481753674f, -0.87630668f }, { -0.587785252f, -0.809016994f },
{ -0.684547106f, -0.728968627f }, { -0.770513243f, -0.63742399f }, { -0.844327926f, -0.535826795f },
{ -0.904827052f, -0.425779292f }, { -0.951056516f, -0.309016994f }, { -0.982287251f, -0.187381315f },
{ -0.998026728f, -0.0627905195f },
};

// -i exp(-2 pi i x / 50)
__device__ __forceinline__ float2 packing_twiddle(int x) {
    return kPackingTwiddles[x];
}

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Planes whose tiles are the signals, and the first transform of this block's tile of shared memory.
struct Planes {
    const float* elements;
    int first;
};

// First point of a transform: its plane, and its row and column there, which may lie outside the plane.
struct Origin {
    const float* plane;
    int row, column;
};

__device__ __forceinline__ Origin origin_of(Planes planes, int transform) {
    const unsigned number = planes.first + transform;
    const unsigned tile = number / 3u % 9u;
    const unsigned plane = number / 27u * 3u + number % 3u;
    return {planes.elements + static_cast<long long>(plane) * 16129,
            static_cast<int>(tile / 3u) * 40 - 5, static_cast<int>(tile % 3u) * 40 - 5};
}

// Loads point (y, x) of a transform; zero outside the plane or the valid part.
__device__ __forceinline__ float load_point(Planes planes, int transform, int y, int x) {
    const Origin origin = origin_of(planes, transform);
    const int row = origin.row + y, column = origin.column + x;
    return static_cast<unsigned>(row) < 127u && static_cast<unsigned>(column) < 127u
               ? origin.plane[row * 127 + column] : 0.0f;
}

// Loads element (t, y, x) of the tile: columns 2 x and 2 x + 1 of a real signal.
__device__ __forceinline__ float2 load_signal(Planes planes, int t, int y, int x) {
    return make_float2(load_point(planes, t, y, 2 * x), load_point(planes, t, y, 2 * x + 1));
}

// Offset of frequency (y, x) from the start of the tile's spectra.
__device__ __forceinline__ long long spectrum_offset(int transform, int y, int x) {
    return static_cast<long long>(y * 26 + x) * 3456 + transform;
}

// The transforms of one tile. `source` and `target` are those of its first transform.
__device__ __forceinline__ void transform(
    Planes source,
    float2* __restrict__ target,
    float2* tile, unsigned thread) {
    // Pass 1: 5 points along y.
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 3 && i >= 1000) {
            break;
        }
        const int x = modulo<25>(i);
        const int later = modulo<10>(quotient<25>(i));
        const int t = quotient<250>(i);
        float2 v[5];
        float2* const element = tile + t * 1252 + x + later * 25;
#pragma unroll
        for (int j = 0; j < 5; ++j) {
            v[j] = load_signal(source, t, later + j * 10, x);
        }
        dft5(v[0], v[1], v[2], v[3], v[4]);
        const float2 w1 = kTwiddles5x10[later];
        v[1] = times(v[1], w1);
        const float2 w2 = kTwiddles5x10[10 + later];
        v[2] = times(v[2], w2);
        const float2 w3 = times(w2, w1);
        v[3] = times(v[3], w3);
        const float2 w4 = kTwiddles5x10[20 + later];
        v[4] = times(v[4], w4);
#pragma unroll
        for (int j = 0; j < 5; ++j) {
            element[j * 250] = v[j];
        }
    }
    __syncthreads();

    // Pass 2: 10 points along y.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 1 && i >= 500) {
            break;
        }
        const int t = i % 4u;
        const int x = modulo<25>(i / 4u);
        const int earlier = quotient<100>(i);
        float2 v[10];
        float2* const element = tile + t * 1252 + x + earlier * 250;
#pragma unroll
        for (int j = 0; j < 10; ++j) {
            v[j] = element[j * 25];
        }
        dft10(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]);
#pragma unroll
        for (int j = 0; j < 10; ++j) {
            element[j * 25] = v[j];
        }
    }
    __syncthreads();

    // Pass 3: 5 points along x.
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 3 && i >= 1000) {
            break;
        }
        const int t = i % 4u;
        const int later = modulo<5>(i / 4u);
        const int y = quotient<20>(i);
        float2 v[5];
        float2* const element = tile + t * 1252 + y * 25 + later;
#pragma unroll
        for (int j = 0; j < 5; ++j) {
            v[j] = element[j * 5];
        }
        dft5(v[0], v[1], v[2], v[3], v[4]);
        const float2 w1 = kTwiddles5x5[later];
        v[1] = times(v[1], w1);
        const float2 w2 = kTwiddles5x5[5 + later];
        v[2] = times(v[2], w2);
        const float2 w3 = times(w2, w1);
        v[3] = times(v[3], w3);
        const float2 w4 = kTwiddles5x5[10 + later];
        v[4] = times(v[4], w4);
#pragma unroll
        for (int j = 0; j < 5; ++j) {
            element[j * 5] = v[j];
        }
    }
    __syncthreads();

    // Pass 4: 5 points along x.
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 3 && i >= 1000) {
            break;
        }
        const int earlier = modulo<5>(i);
        const int y = modulo<50>(quotient<5>(i));
        const int t = quotient<250>(i);
        float2 v[5];
        float2* const element = tile + t * 1252 + y * 25 + earlier * 5;
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

    // Splits the spectrum of the complex signal into the half spectra of the real signals.
#pragma unroll
    for (int step = 0; step < 11; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 10 && i >= 2600) {
            break;
        }
        const int t = i % 4u;
        const int x = modulo<13>(i / 4u);
        const int y = quotient<52>(i);
        const int mirrored_y = y == 0 ? 0 : 50 - y;
        const int mirrored_x = x == 0 ? 0 : 25 - x;

        const float2 z = tile[t * 1252 + modulo<5>(y) * 250 + quotient<5>(y) * 25 + modulo<5>(x) * 5 +
            quotient<5>(x)],
                     m = conjugate(tile[t * 1252 + modulo<5>(mirrored_y) * 250 + quotient<5>(mirrored_y) *
                         25 + modulo<5>(mirrored_x) * 5 + quotient<5>(mirrored_x)]);
        const float2 even = kHalfScale * (z + m), odd = times(kHalfScale * (z - m), packing_twiddle(x));
        store(target + spectrum_offset(t, y, x), even + odd);
        store(target + spectrum_offset(t, mirrored_y, 25 - x), conjugate(even - odd));
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
fft_block(const float* __restrict__ source,
          float2* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 4, first = min(start, kLast);
    transform(Planes{source, static_cast<int>(first)}, target + first * 1,
              tile, thread);
}
