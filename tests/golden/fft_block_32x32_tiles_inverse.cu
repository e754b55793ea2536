// warpsmith fft_block
// problem: fft size=32x32 batch=442368 kind=c2r valid=22x22 layout=frequency tiles=6x6 step=22x22 plane=118x118
//          inner=96
// config:  ahead=0 blocks=0 first=x gaps=25 loads=plain min_blocks=4 packing=pair shares=1 signal=direct
//          spectrum=mirrored stores=plain threads=256 tiles=1 transforms=4 twiddles=powers x_radices=8x4 y_radices=4x8
//
// Inverse transforms of 32x32 points, 4 per tile.
// Radices 4x8 by 8x4: each radix is an in-register DFT of a thread.
// Two real signals are one complex one.
// kThreads threads compute a tile. Stages work in place in shared memory, separated by __syncthreads().

constexpr int kThreads = 256;  // threads per tile
constexpr long long kLast = 442360;  // first transform of the last tile, which may overlap the one before it
constexpr float kScale = 0.0009765625f;

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

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(2 pi i j later / 32) for j = 1, 2, 4, later = 0 to 3.
__device__ const float2 kTwiddles8x4[12] = {
{ 1.0f, 0.0f }, { 0.98078528f, 0.195090322f }, { 0.923879533f, 0.382683432f },
{ 0.831469612f, 0.555570233f }, { 1.0f, 0.0f }, { 0.923879533f, 0.382683432f },
{ 0.707106781f, 0.707106781f }, { 0.382683432f, 0.923879533f }, { 1.0f, 0.0f },
{ 0.707106781f, 0.707106781f }, { 0.0f, 1.0f }, { -0.707106781f, 0.707106781f },
};

// exp(2 pi i j later / 32) for j = 1, 2, later = 0 to 7.
__device__ const float2 kTwiddles4x8[16] = {
{ 1.0f, 0.0f }, { 0.98078528f, 0.195090322f }, { 0.923879533f, 0.382683432f },
{ 0.831469612f, 0.555570233f }, { 0.707106781f, 0.707106781f }, { 0.555570233f, 0.831469612f },
{ 0.382683432f, 0.923879533f }, { 0.195090322f, 0.98078528f }, { 1.0f, 0.0f },
{ 0.923879533f, 0.382683432f }, { 0.707106781f, 0.707106781f }, { 0.382683432f, 0.923879533f },
{ 0.0f, 1.0f }, { -0.382683432f, 0.923879533f }, { -0.707106781f, 0.707106781f },
{ -0.923879533f, 0.382683432f },
};

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Planes whose tiles are the signals, and the first transform of this block's tile of shared memory.
struct Planes {
    float* elements;
    int first;
};

// First point of a transform: its plane, and its row and column there, which may lie outside the plane.
struct Origin {
    float* plane;
    int row, column;
};

__device__ __forceinline__ Origin origin_of(Planes planes, int transform) {
    const unsigned number = planes.first + transform;
    const unsigned tile = number / 96u % 36u;
    const unsigned plane = number / 3456u * 96u + number % 96u;
    return {planes.elements + static_cast<long long>(plane) * 13924,
            static_cast<int>(tile / 6u) * 22, static_cast<int>(tile % 6u) * 22};
}

// Stores point (y, x) of a transform, unless it is outside the plane or the valid part.
__device__ __forceinline__ void store_point(Planes planes, int transform, int y, int x, float value) {
    const Origin origin = origin_of(planes, transform);
    const int row = origin.row + y, column = origin.column + x;
    if (y < 22 && row < 118 && x < 22 && column < 118) {
        store(origin.plane + row * 118 + column, value);
    }
}

// Stores element (t, y, x) of the tile: of two consecutive real signals, as real and imaginary part.
__device__ __forceinline__ void store_signal(Planes planes, int t, int y, int x, float2 value) {
    store_point(planes, 2 * t, y, x, value.x);
    store_point(planes, 2 * t + 1, y, x, value.y);
}

// Offset of frequency (y, x) from the start of the tile's spectra.
__device__ __forceinline__ long long spectrum_offset(int transform, int y, int x) {
    return static_cast<long long>(y * 17 + x) * 442368 + transform;
}

// Loads frequency (y, x) of the two real signals packed into complex signal t: the first in x and y, the second in z
// and w.
__device__ __forceinline__ float4 load_both(const float2* spectrum, int t, int y, int x) {
    return *reinterpret_cast<const float4*>(spectrum + spectrum_offset(2 * t, y, x));
}
// Frequency (y, x) of the complex signal, and frequency (-y, -x), from those of the two real signals.
__device__ __forceinline__ float2 merged(float4 both) {
    return kScale * make_float2(both.x - both.w, both.y + both.z);
}
__device__ __forceinline__ float2 merged_mirror(float4 both) {
    return kScale * make_float2(both.x + both.w, both.z - both.y);
}
// Frequency of a column that is its own mirror image: only the Hermitian part of the spectra counts.
__device__ __forceinline__ float2 merged_self_mirrored(float4 both, float4 mirrored) {
    return 0.5f * (merged(both) + merged_mirror(mirrored));
}

// The transforms of one tile. `source` and `target` are those of its first transform.
__device__ __forceinline__ void transform(
    const float2* __restrict__ source,
    Planes target,
    float2* tile, unsigned thread) {
    // Pass 1: 8 points along x, for two sets of frequencies that mirror each other.
    {
        const unsigned i = thread;
        const int t = i % 4u;
        const int y = i / 4u % 32u;
        const int part = i / 128u;
        const bool is_own_digit = part == 0;  // digits 0 and M / 2, which mirror themselves
        const int first_y = is_own_digit ? y % 16u : y;
        const int first_digit = is_own_digit ? (y < 16 ? 0 : 2) : part;
        const bool is_self_mirrored = is_own_digit && first_y == 0;  // in rows 0 and Y / 2, their own mirrors
        const int second_y = is_self_mirrored ? 16 : first_y == 0 ? 0 : 32 - first_y;
        const int second_digit = is_own_digit ? first_digit : 4 - part;
        float2 first_v[8], second_v[8];
        if (first_digit == 0) {
#pragma unroll
            for (int j = 0; j <= 4; ++j) {
                const int m = j == 0 ? 0 : 8 - j;
                const float4 a = load_both(source, t, first_y, j * 4);
                const float4 b = load_both(source, t, second_y, j * 4);
                if (j == 0 || j == 4) {
                    first_v[j] = merged_self_mirrored(a, is_self_mirrored ? a : b);
                    second_v[j] = merged_self_mirrored(b, is_self_mirrored ? b : a);
                } else {
                    first_v[j] = merged(a);
                    second_v[j] = merged(b);
                    first_v[m] = merged_mirror(is_self_mirrored ? a : b);
                    second_v[m] = merged_mirror(is_self_mirrored ? b : a);
                }
            }
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float4 a = load_both(source, t, first_y, first_digit + j * 4);
                const float4 b = load_both(source, t, second_y, second_digit + j * 4);
                first_v[j] = merged(a);
                second_v[j] = merged(b);
                first_v[7 - j] = merged_mirror(is_self_mirrored ? a : b);
                second_v[7 - j] = merged_mirror(is_self_mirrored ? b : a);
            }
        }
        dft8(first_v[0], first_v[1], first_v[2], first_v[3], first_v[4], first_v[5], first_v[6],
            first_v[7]);
        dft8(second_v[0], second_v[1], second_v[2], second_v[3], second_v[4], second_v[5], second_v[6],
            second_v[7]);

        {
            const float2 w1 = kTwiddles8x4[first_digit];
            first_v[1] = times(first_v[1], w1);
            const float2 w2 = kTwiddles8x4[4 + first_digit];
            first_v[2] = times(first_v[2], w2);
            const float2 w3 = times(w2, w1);
            first_v[3] = times(first_v[3], w3);
            const float2 w4 = kTwiddles8x4[8 + first_digit];
            first_v[4] = times(first_v[4], w4);
            const float2 w5 = times(w4, w1);
            first_v[5] = times(first_v[5], w5);
            const float2 w6 = times(w4, w2);
            first_v[6] = times(first_v[6], w6);
            const float2 w7 = times(w4, w3);
            first_v[7] = times(first_v[7], w7);
        }
        {
            const float2 w1 = kTwiddles8x4[second_digit];
            second_v[1] = times(second_v[1], w1);
            const float2 w2 = kTwiddles8x4[4 + second_digit];
            second_v[2] = times(second_v[2], w2);
            const float2 w3 = times(w2, w1);
            second_v[3] = times(second_v[3], w3);
            const float2 w4 = kTwiddles8x4[8 + second_digit];
            second_v[4] = times(second_v[4], w4);
            const float2 w5 = times(w4, w1);
            second_v[5] = times(second_v[5], w5);
            const float2 w6 = times(w4, w2);
            second_v[6] = times(second_v[6], w6);
            const float2 w7 = times(w4, w3);
            second_v[7] = times(second_v[7], w7);
        }
        float2* const first_element = tile + t * 1153 + first_y * 36 + first_digit;
        float2* const second_element = tile + t * 1153 + second_y * 36 + second_digit;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            first_element[j % 4 * 4 + j / 4 * 17] = first_v[j];
            second_element[j % 4 * 4 + j / 4 * 17] = second_v[j];
        }
    }
    __syncthreads();

    // Pass 2: 4 points along x.
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        const unsigned i = thread + step * kThreads;
        const int t = i % 4u;
        const int earlier = i / 4u % 8u;
        const int y = i / 32u;
        float2 v[4];
        float2* const element = tile + t * 1153 + y * 36 + earlier % 4u * 4 + earlier / 4u * 17;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            v[j] = element[j];
        }
        dft4(v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (earlier + j * 8 < 22) element[j] = v[j];
        }
    }
    __syncthreads();

    // Pass 3: 4 points along y.
#pragma unroll
    for (int step = 0; step < 3; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 2 && i >= 704) {
            break;
        }
        const int t = i % 4u;
        const int x = modulo<22>(i / 4u);
        const int later = quotient<88>(i);
        float2 v[4];
        float2* const element = tile + t * 1153 + x % 4u * 4 + x / 4u % 2u * 17 + x / 8u + later * 36;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            v[j] = element[j * 288];
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
            element[j * 288] = v[j];
        }
    }
    __syncthreads();

    // Pass 4: 8 points along y.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 1 && i >= 352) {
            break;
        }
        const int x = modulo<22>(i);
        const int earlier = quotient<22>(i) % 4u;
        const int t = quotient<88>(i);
        float2 v[8];
        float2* const element = tile + t * 1153 + x % 4u * 4 + x / 4u % 2u * 17 + x / 8u + earlier * 288;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            v[j] = element[j * 36];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            store_signal(target, t, earlier + j * 4, x, v[j]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 4)
fft_block(const float2* __restrict__ source,
          float* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 8, first = min(start, kLast);
    transform(source + first * 1, Planes{target, static_cast<int>(first)},
              tile, thread);
}
