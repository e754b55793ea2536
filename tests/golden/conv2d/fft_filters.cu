// warpsmith fft_block
// problem: fft size=60x60 batch=4096 kind=r2c valid=3x3 start=59x59 layout=frequency
// config:  ahead=0 blocks=0 first=y gaps=25 loads=plain min_blocks=3 packing=pair shares=1 signal=direct spectrum=mirrored stores=plain threads=256 tiles=1 transforms=2 twiddles=powers x_radices=6x10 y_radices=6x10
//
// Forward transforms of 60x60 points, 2 in a tile of
// shared memory: radices 6x10 by 6x10, each within a thread. Two real signals are one complex one.

constexpr int kThreads = 256;  // of a tile
constexpr long long kLast = 4092;  // where the last tile starts: it may do some of another's again
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
__device__ __forceinline__ void dft3(float2& x0, float2& x1, float2& x2) {
    const float2 s1 = x1 + x2, d1 = x1 - x2;
    const float2 even1 = x0 + -0.5f * s1;
    const float2 odd1 = turned_right(0.866025404f * d1);
    x0 = x0 + s1;
    x1 = even1 + odd1;
    x2 = even1 - odd1;
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
__device__ __forceinline__ void dft6(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5) {
    dft2(x0, x3);
    dft2(x1, x4);
    dft2(x2, x5);
    x4 = times(x4, 0.5f, -0.866025404f);
    x5 = times(x5, -0.5f, -0.866025404f);
    dft3(x0, x1, x2);
    dft3(x3, x4, x5);
    const float2 y3 = x3, y1 = x1, y4 = x4, y2 = x2;
    x1 = y3;
    x2 = y1;
    x3 = y4;
    x4 = y2;
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

// exp(-2 pi i j later / 60) for j = 1, 2, 4, later = 0 to 9.
__device__ const float2 kTwiddles6x10[30] = {
{ 1.0f, -0.0f }, { 0.994521895f, -0.104528463f }, { 0.978147601f, -0.207911691f }, { 0.951056516f, -0.309016994f },
{ 0.913545458f, -0.406736643f }, { 0.866025404f, -0.5f }, { 0.809016994f, -0.587785252f }, { 0.743144825f, -0.669130606f },
{ 0.669130606f, -0.743144825f }, { 0.587785252f, -0.809016994f }, { 1.0f, -0.0f }, { 0.978147601f, -0.207911691f },
{ 0.913545458f, -0.406736643f }, { 0.809016994f, -0.587785252f }, { 0.669130606f, -0.743144825f }, { 0.5f, -0.866025404f },
{ 0.309016994f, -0.951056516f }, { 0.104528463f, -0.994521895f }, { -0.104528463f, -0.994521895f }, { -0.309016994f, -0.951056516f },
{ 1.0f, -0.0f }, { 0.913545458f, -0.406736643f }, { 0.669130606f, -0.743144825f }, { 0.309016994f, -0.951056516f },
{ -0.104528463f, -0.994521895f }, { -0.5f, -0.866025404f }, { -0.809016994f, -0.587785252f }, { -0.978147601f, -0.207911691f },
{ -0.978147601f, 0.207911691f }, { -0.809016994f, 0.587785252f },
};

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Element (t, y, x) of this tile: one of two real signals that follow each other; zero beyond the valid part.
__device__ __forceinline__ float2 load_signal(const float* signal, int t, int y, int x) {
    y += y < 59 ? 1 : -59;  // from where the signal begins
    x += x < 59 ? 1 : -59;
    const float* const element = signal + 2 * t * 9 + y * 3 + x;
    return make_float2(y < 3 && x < 3 ? element[0] : 0.0f, y < 3 && x < 3 ? element[9] : 0.0f);
}

// Where frequency (y, x) of a transform of this tile lies.
__device__ __forceinline__ long long spectrum_place(int transform, int y, int x) {
    return static_cast<long long>(y * 31 + x) * 4096 + transform;
}

// Frequency (y, x) of two real signals, which are complex signal t, from it and the frequency that mirrors it.
__device__ __forceinline__ void store_both(float2* spectrum, int t, int y, int x, float2 z, float2 mirrored) {
    const float2 m = conjugate(mirrored), one = kHalfScale * (z + m), other = kHalfScale * turned_right(z - m);
    // A plain store would be taken apart in two of 8 bytes.
    __stwb(reinterpret_cast<float4*>(spectrum + spectrum_place(2 * t, y, x)), make_float4(one.x, one.y, other.x, other.y));
}

// Transforms of one tile; source and target are those of its first one.
__device__ __forceinline__ void transform(
    const float* __restrict__ source, float2* __restrict__ target, float2* tile, unsigned thread) {
    // Pass 1: 6 points along y.
#pragma unroll
    for (int step = 0; step < 5; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 4 && i >= 1200) {
            break;
        }
        const int x = modulo<60>(i);
        const int later = modulo<10>(quotient<60>(i));
        const int t = quotient<600>(i);
        float2 v[6];
        float2* const element = tile + t * 3736 + x + later * 62;
#pragma unroll
        for (int j = 0; j < 6; ++j) {
            v[j] = load_signal(source, t, later + j * 10, x);
        }
        dft6(v[0], v[1], v[2], v[3], v[4], v[5]);
        const float2 w1 = kTwiddles6x10[later];
        v[1] = times(v[1], w1);
        const float2 w2 = kTwiddles6x10[10 + later];
        v[2] = times(v[2], w2);
        const float2 w3 = times(w2, w1);
        v[3] = times(v[3], w3);
        const float2 w4 = kTwiddles6x10[20 + later];
        v[4] = times(v[4], w4);
        const float2 w5 = times(w4, w1);
        v[5] = times(v[5], w5);
#pragma unroll
        for (int j = 0; j < 6; ++j) {
            element[j * 621] = v[j];
        }
    }
    __syncthreads();

    // Pass 2: 10 points along y.
#pragma unroll
    for (int step = 0; step < 3; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 2 && i >= 720) {
            break;
        }
        const int x = modulo<60>(i);
        const int earlier = modulo<6>(quotient<60>(i));
        const int t = quotient<360>(i);
        float2 v[10];
        float2* const element = tile + t * 3736 + x + earlier * 621;
#pragma unroll
        for (int j = 0; j < 10; ++j) {
            v[j] = element[j * 62];
        }
        dft10(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]);
#pragma unroll
        for (int j = 0; j < 10; ++j) {
            element[j * 62] = v[j];
        }
    }
    __syncthreads();

    // Pass 3: 6 points along x.
#pragma unroll
    for (int step = 0; step < 5; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 4 && i >= 1200) {
            break;
        }
        const int y = modulo<60>(i);
        const int later = modulo<10>(quotient<60>(i));
        const int t = quotient<600>(i);
        float2 v[6];
        float2* const element = tile + t * 3736 + modulo<6>(y) * 621 + quotient<6>(y) * 62 + later;
#pragma unroll
        for (int j = 0; j < 6; ++j) {
            v[j] = element[j * 10];
        }
        dft6(v[0], v[1], v[2], v[3], v[4], v[5]);
        const float2 w1 = kTwiddles6x10[later];
        v[1] = times(v[1], w1);
        const float2 w2 = kTwiddles6x10[10 + later];
        v[2] = times(v[2], w2);
        const float2 w3 = times(w2, w1);
        v[3] = times(v[3], w3);
        const float2 w4 = kTwiddles6x10[20 + later];
        v[4] = times(v[4], w4);
        const float2 w5 = times(w4, w1);
        v[5] = times(v[5], w5);
#pragma unroll
        for (int j = 0; j < 6; ++j) {
            element[j * 10] = v[j];
        }
    }
    __syncthreads();

    // Pass 4: 10 points along x, twice, of rows that mirror each other.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 1 && i >= 360) {
            break;
        }
        const int t = i % 2u;
        const int y = modulo<60>(i / 2u);
        const int part = quotient<120>(i);
        const bool is_own = part == 0;  // columns whose mirror images are in the same set of them
        const int here_y = is_own ? modulo<30>(y) : y;
        const int here = is_own ? (y < 30 ? 0 : 3) : part;
        const bool is_alone = is_own && here_y == 0;  // and so is the row
        const int there_y = is_alone ? 30 : here_y == 0 ? 0 : 60 - here_y;
        const int there = is_own ? here : 6 - part;
        const float2* const here_element = tile + t * 3736 + modulo<6>(here_y) * 621 + quotient<6>(here_y) * 62 + here * 10;
        const float2* const there_element = tile + t * 3736 + modulo<6>(there_y) * 621 + quotient<6>(there_y) * 62 + there * 10;
        float2 here_v[10], there_v[10];
#pragma unroll
        for (int j = 0; j < 10; ++j) {
            here_v[j] = here_element[j];
            there_v[j] = there_element[j];
        }
        dft10(here_v[0], here_v[1], here_v[2], here_v[3], here_v[4], here_v[5], here_v[6], here_v[7], here_v[8], here_v[9]);
        dft10(there_v[0], there_v[1], there_v[2], there_v[3], there_v[4], there_v[5], there_v[6], there_v[7], there_v[8], there_v[9]);

        if (here == 0) {
#pragma unroll
            for (int j = 0; j <= 5; ++j) {
                const int m = j == 0 ? 0 : 10 - j;
                store_both(target, t, here_y, j * 6, here_v[j], is_alone ? here_v[m] : there_v[m]);
                store_both(target, t, there_y, j * 6, there_v[j], is_alone ? there_v[m] : here_v[m]);
            }
        } else {
#pragma unroll
            for (int j = 0; j < 5; ++j) {
                const int m = 9 - j;
                store_both(target, t, here_y, here + j * 6, here_v[j], is_alone ? here_v[m] : there_v[m]);
                store_both(target, t, there_y, there + j * 6, there_v[j], is_alone ? there_v[m] : here_v[m]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 3)
fft_block(const float* __restrict__ source, float2* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 4, first = min(start, kLast);
    transform(source + first * 9, target + first * 1, tile, thread);
}
