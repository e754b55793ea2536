// warpsmith fft_block
// problem: fft size=60x60 batch=4096 kind=r2c valid=3x3 start=59x59 layout=frequency
// config:  ahead=0 blocks=0 first=y gaps=25 loads=plain min_blocks=3 packing=pair shares=1 signal=direct
//          spectrum=mirrored stores=plain threads=256 tiles=1 transforms=2 twiddles=powers x_radices=6x10
//          y_radices=6x10
//
// Forward transforms of 60x60 points, 2 per tile.
// Radices 6x10 by 6x10: each radix is an in-register DFT of a thread.
// Two real signals are one complex one.
// kThreads threads compute a tile. Stages work in place in shared memory, separated by __syncthreads().

constexpr int kThreads = 256;  // threads per tile
constexpr long long kLast = 4092;  // first transform of the last tile, which may overlap the one before it
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

// exp(-2 pi i j later / 60) for j = 1, 2, 4, later = 0 to 9.
__device__ const float2 kTwiddles6x10[30] = {
{ 1.0f, -0.0f }, { 0.994521895f, -0.104528463f }, { 0.978147601f, -0.207911691f },
{ 0.951056516f, -0.309016994f }, { 0.913545458f, -0.406736643f }, { 0.866025404f, -0.5f },
{ 0.809016994f, -0.587785252f }, { 0.743144825f, -0.669130606f }, { 0.669130606f, -0.743144825f },
{ 0.587785252f, -0.809016994f }, { 1.0f, -0.0f }, { 0.978147601f, -0.207911691f },
{ 0.913545458f, -0.406736643f }, { 0.809016994f, -0.587785252f }, { 0.669130606f, -0.743144825f },
{ 0.5f, -0.866025404f }, { 0.309016994f, -0.951056516f }, { 0.104528463f, -0.994521895f },
{ -0.104528463f, -0.994521895f }, { -0.309016994f, -0.951056516f }, { 1.0f, -0.0f },
{ 0.913545458f, -0.406736643f }, { 0.669130606f, -0.743144825f }, { 0.309016994f, -0.951056516f },
{ -0.104528463f, -0.994521895f }, { -0.5f, -0.866025404f }, { -0.809016994f, -0.587785252f },
{ -0.978147601f, -0.207911691f }, { -0.978147601f, 0.207911691f }, { -0.809016994f, 0.587785252f },
};

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Loads element (t, y, x) of the tile: of two consecutive real signals, as real and imaginary part;
// zero outside the valid part.
__device__ __forceinline__ float2 load_signal(const float* signal, int t, int y, int x) {
    y += y < 59 ? 1 : -59;  // distance from the start of the signal, cyclically
    x += x < 59 ? 1 : -59;
    const float* const element = signal + 2 * t * 9 + y * 3 + x;
    return make_float2(y < 3 && x < 3 ? element[0] : 0.0f, y < 3 && x < 3 ? element[9] : 0.0f);
}

// Offset of frequency (y, x) from the start of the tile's spectra.
__device__ __forceinline__ long long spectrum_offset(int transform, int y, int x) {
    return static_cast<long long>(y * 31 + x) * 4096 + transform;
}

// Stores frequency (y, x) of the two real signals packed into complex signal t: z is its frequency (y, x), `mirrored`
// is its frequency (-y, -x).
__device__ __forceinline__ void store_both(float2* spectrum, int t, int y, int x, float2 z,
                                           float2 mirrored) {
    const float2 m = conjugate(mirrored), one = kHalfScale * (z + m), other = kHalfScale * times_minus_i(z - m);
    // A cache hint keeps the 16-byte store whole: a plain store would become two of 8 bytes.
    __stwb(reinterpret_cast<float4*>(spectrum + spectrum_offset(2 * t, y, x)),
        make_float4(one.x, one.y, other.x, other.y));
}

// The transforms of one tile. `source` and `target` are those of its first transform.
__device__ __forceinline__ void transform(
    const float* __restrict__ source,
    float2* __restrict__ target,
    float2* tile, unsigned thread) {
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

    // Pass 4: 10 points along x, for two sets of frequencies that mirror each other.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 1 && i >= 360) {
            break;
        }
        const int t = i % 2u;
        const int y = modulo<60>(i / 2u);
        const int part = quotient<120>(i);
        const bool is_own_digit = part == 0;  // digits 0 and M / 2, which mirror themselves
        const int first_y = is_own_digit ? modulo<30>(y) : y;
        const int first_digit = is_own_digit ? (y < 30 ? 0 : 3) : part;
        const bool is_self_mirrored = is_own_digit && first_y == 0;  // in rows 0 and Y / 2, their own mirrors
        const int second_y = is_self_mirrored ? 30 : first_y == 0 ? 0 : 60 - first_y;
        const int second_digit = is_own_digit ? first_digit : 6 - part;
        const float2* const first_element = tile + t * 3736 + modulo<6>(first_y) * 621 +
            quotient<6>(first_y) * 62 + first_digit * 10;
        const float2* const second_element = tile + t * 3736 + modulo<6>(second_y) * 621 +
            quotient<6>(second_y) * 62 + second_digit * 10;
        float2 first_v[10], second_v[10];
#pragma unroll
        for (int j = 0; j < 10; ++j) {
            first_v[j] = first_element[j];
            second_v[j] = second_element[j];
        }
        dft10(first_v[0], first_v[1], first_v[2], first_v[3], first_v[4], first_v[5], first_v[6],
            first_v[7], first_v[8], first_v[9]);
        dft10(second_v[0], second_v[1], second_v[2], second_v[3], second_v[4], second_v[5], second_v[6],
            second_v[7], second_v[8], second_v[9]);

        if (first_digit == 0) {
#pragma unroll
            for (int j = 0; j <= 5; ++j) {
                const int m = j == 0 ? 0 : 10 - j;
                store_both(target, t, first_y, j * 6, first_v[j],
                           is_self_mirrored ? first_v[m] : second_v[m]);
                store_both(target, t, second_y, j * 6, second_v[j],
                           is_self_mirrored ? second_v[m] : first_v[m]);
            }
        } else {
#pragma unroll
            for (int j = 0; j < 5; ++j) {
                const int m = 9 - j;
                store_both(target, t, first_y, first_digit + j * 6, first_v[j],
                           is_self_mirrored ? first_v[m] : second_v[m]);
                store_both(target, t, second_y, second_digit + j * 6, second_v[j],
                           is_self_mirrored ? second_v[m] : first_v[m]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 3)
fft_block(const float* __restrict__ source,
          float2* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 4, first = min(start, kLast);
    transform(source + first * 9, target + first * 1,
              tile, thread);
}
