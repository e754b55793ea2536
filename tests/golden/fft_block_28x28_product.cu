// warpsmith fft_block
// problem: fft size=28x28 batch=602112 kind=c2r valid=18x18 layout=frequency product=6272x96x3:nc+offset tiles=7x7
//          step=18x18 plane=118x118 inner=96
// config:  blocks=0 first=x gaps=25 loads=plain min_blocks=4 packing=pair rows=4 shares=1 signal=direct
//          spectrum=mirrored stores=plain threads=224 tiles=1 transforms=8 twiddles=powers x_radices=2x14 y_radices=28
//
// Inverse transforms of 28x28 points, 8 per tile.
// Radices 28 by 2x14: each radix is an in-register DFT of a thread.
// Two real signals are one complex one.
// kThreads threads compute a tile. Stages work in place in shared memory, separated by __syncthreads().

constexpr int kThreads = 224;  // threads per tile
constexpr float kScale = 0.0012755102f;

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
__device__ __forceinline__ void dft7(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6) {
    const float2 s1 = x1 + x6, d1 = x1 - x6;
    const float2 s2 = x2 + x5, d2 = x2 - x5;
    const float2 s3 = x3 + x4, d3 = x3 - x4;
    const float2 even1 = x0 + 0.623489802f * s1 + -0.222520934f * s2 + -0.900968868f * s3;
    const float2 odd1 = times_i(0.781831482f * d1 + 0.974927912f * d2 + 0.433883739f * d3);
    const float2 even2 = x0 + -0.222520934f * s1 + -0.900968868f * s2 + 0.623489802f * s3;
    const float2 odd2 = times_i(0.974927912f * d1 + -0.433883739f * d2 + -0.781831482f * d3);
    const float2 even3 = x0 + -0.900968868f * s1 + 0.623489802f * s2 + -0.222520934f * s3;
    const float2 odd3 = times_i(0.433883739f * d1 + -0.781831482f * d2 + 0.974927912f * d3);
    x0 = x0 + s1 + s2 + s3;
    x1 = even1 + odd1;
    x6 = even1 - odd1;
    x2 = even2 + odd2;
    x5 = even2 - odd2;
    x3 = even3 + odd3;
    x4 = even3 - odd3;
}
__device__ __forceinline__ void dft4(float2& x0, float2& x1, float2& x2, float2& x3) {
    const float2 even = x0 + x2, odd = x1 + x3, across = x0 - x2;
    const float2 rotated = times_i(x1 - x3);
    x0 = even + odd;
    x2 = even - odd;
    x1 = across + rotated;
    x3 = across - rotated;
}
__device__ __forceinline__ void dft14(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13) {
    dft2(x0, x7);
    dft2(x1, x8);
    dft2(x2, x9);
    dft2(x3, x10);
    dft2(x4, x11);
    dft2(x5, x12);
    dft2(x6, x13);
    x8 = times(x8, 0.900968868f, 0.433883739f);
    x9 = times(x9, 0.623489802f, 0.781831482f);
    x10 = times(x10, 0.222520934f, 0.974927912f);
    x11 = times(x11, -0.222520934f, 0.974927912f);
    x12 = times(x12, -0.623489802f, 0.781831482f);
    x13 = times(x13, -0.900968868f, 0.433883739f);
    dft7(x0, x1, x2, x3, x4, x5, x6);
    dft7(x7, x8, x9, x10, x11, x12, x13);
    const float2 y7 = x7, y1 = x1, y8 = x8, y2 = x2, y9 = x9, y3 = x3, y10 = x10, y4 = x4, y11 = x11, y5 =
        x5, y12 = x12, y6 = x6;
    x1 = y7;
    x2 = y1;
    x3 = y8;
    x4 = y2;
    x5 = y9;
    x6 = y3;
    x7 = y10;
    x8 = y4;
    x9 = y11;
    x10 = y5;
    x11 = y12;
    x12 = y6;
}
__device__ __forceinline__ void dft28(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15,
    float2& x16, float2& x17, float2& x18, float2& x19, float2& x20, float2& x21, float2& x22, float2& x23,
    float2& x24, float2& x25, float2& x26, float2& x27) {
    dft4(x0, x7, x14, x21);
    dft4(x1, x8, x15, x22);
    dft4(x2, x9, x16, x23);
    dft4(x3, x10, x17, x24);
    dft4(x4, x11, x18, x25);
    dft4(x5, x12, x19, x26);
    dft4(x6, x13, x20, x27);
    x8 = times(x8, 0.974927912f, 0.222520934f);
    x9 = times(x9, 0.900968868f, 0.433883739f);
    x10 = times(x10, 0.781831482f, 0.623489802f);
    x11 = times(x11, 0.623489802f, 0.781831482f);
    x12 = times(x12, 0.433883739f, 0.900968868f);
    x13 = times(x13, 0.222520934f, 0.974927912f);
    x15 = times(x15, 0.900968868f, 0.433883739f);
    x16 = times(x16, 0.623489802f, 0.781831482f);
    x17 = times(x17, 0.222520934f, 0.974927912f);
    x18 = times(x18, -0.222520934f, 0.974927912f);
    x19 = times(x19, -0.623489802f, 0.781831482f);
    x20 = times(x20, -0.900968868f, 0.433883739f);
    x22 = times(x22, 0.781831482f, 0.623489802f);
    x23 = times(x23, 0.222520934f, 0.974927912f);
    x24 = times(x24, -0.433883739f, 0.900968868f);
    x25 = times(x25, -0.900968868f, 0.433883739f);
    x26 = times(x26, -0.974927912f, -0.222520934f);
    x27 = times(x27, -0.623489802f, -0.781831482f);
    dft7(x0, x1, x2, x3, x4, x5, x6);
    dft7(x7, x8, x9, x10, x11, x12, x13);
    dft7(x14, x15, x16, x17, x18, x19, x20);
    dft7(x21, x22, x23, x24, x25, x26, x27);
    const float2 y7 = x7, y14 = x14, y21 = x21, y1 = x1, y8 = x8, y15 = x15, y22 = x22, y2 = x2, y16 = x16,
        y23 = x23, y3 = x3, y10 = x10, y17 = x17, y24 = x24, y4 = x4, y11 = x11, y25 = x25, y5 = x5, y12 = x12,
        y19 = x19, y26 = x26, y6 = x6, y13 = x13, y20 = x20;
    x1 = y7;
    x2 = y14;
    x3 = y21;
    x4 = y1;
    x5 = y8;
    x6 = y15;
    x7 = y22;
    x8 = y2;
    x10 = y16;
    x11 = y23;
    x12 = y3;
    x13 = y10;
    x14 = y17;
    x15 = y24;
    x16 = y4;
    x17 = y11;
    x19 = y25;
    x20 = y5;
    x21 = y12;
    x22 = y19;
    x23 = y26;
    x24 = y6;
    x25 = y13;
    x26 = y20;
}

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(2 pi i j later / 28) for j = 1, later = 0 to 13.
__device__ const float2 kTwiddles2x14[14] = {
{ 1.0f, 0.0f }, { 0.974927912f, 0.222520934f }, { 0.900968868f, 0.433883739f },
{ 0.781831482f, 0.623489802f }, { 0.623489802f, 0.781831482f }, { 0.433883739f, 0.900968868f },
{ 0.222520934f, 0.974927912f }, { 0.0f, 1.0f }, { -0.222520934f, 0.974927912f },
{ -0.433883739f, 0.900968868f }, { -0.623489802f, 0.781831482f }, { -0.781831482f, 0.623489802f },
{ -0.900968868f, 0.433883739f }, { -0.974927912f, 0.222520934f },
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
    const unsigned tile = number / 96u % 49u;
    const unsigned plane = number / 4704u * 96u + number % 96u;
    return {planes.elements + static_cast<long long>(plane) * 13924,
            static_cast<int>(tile / 7u) * 18, static_cast<int>(tile % 7u) * 18};
}

// Stores point (y, x) of a transform, unless it is outside the plane or the valid part.
__device__ __forceinline__ void store_point(Planes planes, int transform, int y, int x, float value) {
    const Origin origin = origin_of(planes, transform);
    const int row = origin.row + y, column = origin.column + x;
    if (y < 18 && row < 118 && x < 18 && column < 118) {
        store(origin.plane + row * 118 + column, value);
    }
}

// Stores element (t, y, x) of the tile: of two consecutive real signals, as real and imaginary part.
__device__ __forceinline__ void store_signal(Planes planes, int t, int y, int x, float2 value) {
    store_point(planes, ((t / 2u) * 96 + 2 * (t % 2u)), y, x, value.x);
    store_point(planes, ((t / 2u) * 96 + 2 * (t % 2u)) + 1, y, x, value.y);
}

// Operands of the product: a from the tile's first row on, b from the tile's first column on.
struct ProductOperands {
    const float2* a;
    const float2* b;
    const float* offset;  // from the tile's first column on
};

__device__ __forceinline__ float2 xy(float4 both) { return make_float2(both.x, both.y); }
__device__ __forceinline__ float2 zw(float4 both) { return make_float2(both.z, both.w); }
// sum + a * b, complex.
__device__ __forceinline__ float2 complex_fma(float2 sum, float2 a, float2 b) {
    return make_float2(sum.x + a.x * b.x - a.y * b.y, sum.y + a.x * b.y + a.y * b.x);
}

// Computes frequency (y, x) of the two real signals packed into complex signal t, a row of a times two columns of b:
// the first in x and y, the second in z and w.
__device__ __forceinline__ float4 load_both(ProductOperands operands, int t, int y, int x) {
    const long long frequency = y * 15 + x;
    const float2* const a = operands.a + frequency * 18816 + (t / 2u) * 3;
    const float4* const b = reinterpret_cast<const float4*>(operands.b + frequency * 288 + 2 * (t % 2u) * 3);
    const float4 b0 = b[0], b1 = b[1], b2 = b[2];
    float2 one = times(a[0], conjugate(xy(b0))), other = times(a[0], conjugate(zw(b1)));
    one = complex_fma(one, a[1], conjugate(zw(b0)));
    other = complex_fma(other, a[1], conjugate(xy(b2)));
    one = complex_fma(one, a[2], conjugate(xy(b1)));
    other = complex_fma(other, a[2], conjugate(zw(b2)));
    if (y == 0 && x == 0) {
        one.x += 784.0f * operands.offset[2 * (t % 2u)];
        other.x += 784.0f * operands.offset[2 * (t % 2u) + 1];
    }
    return make_float4(one.x, one.y, other.x, other.y);
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
    ProductOperands source,
    Planes target,
    float2* tile, unsigned thread) {
    // Pass 1: 2 points along x, for two sets of frequencies that mirror each other.
#pragma unroll
    for (int step = 0; step < 7; ++step) {
        const unsigned i = thread + step * kThreads;
        const int t = i % 8u;
        const int y = modulo<28>(i / 8u);
        const int part = quotient<224>(i);
        const bool is_own_digit = part == 0;  // digits 0 and M / 2, which mirror themselves
        const int first_y = is_own_digit ? modulo<14>(y) : y;
        const int first_digit = is_own_digit ? (y < 14 ? 0 : 7) : part;
        const bool is_self_mirrored = is_own_digit && first_y == 0;  // in rows 0 and Y / 2, their own mirrors
        const int second_y = is_self_mirrored ? 14 : first_y == 0 ? 0 : 28 - first_y;
        const int second_digit = is_own_digit ? first_digit : 14 - part;
        float2 first_v[2], second_v[2];
        if (first_digit == 0) {
#pragma unroll
            for (int j = 0; j <= 1; ++j) {
                const int m = j == 0 ? 0 : 2 - j;
                const float4 a = load_both(source, t, first_y, j * 14);
                const float4 b = load_both(source, t, second_y, j * 14);
                if (j == 0 || j == 1) {
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
            for (int j = 0; j < 1; ++j) {
                const float4 a = load_both(source, t, first_y, first_digit + j * 14);
                const float4 b = load_both(source, t, second_y, second_digit + j * 14);
                first_v[j] = merged(a);
                second_v[j] = merged(b);
                first_v[1 - j] = merged_mirror(is_self_mirrored ? a : b);
                second_v[1 - j] = merged_mirror(is_self_mirrored ? b : a);
            }
        }
        dft2(first_v[0], first_v[1]);
        dft2(second_v[0], second_v[1]);

        {
            const float2 w1 = kTwiddles2x14[first_digit];
            first_v[1] = times(first_v[1], w1);
        }
        {
            const float2 w1 = kTwiddles2x14[second_digit];
            second_v[1] = times(second_v[1], w1);
        }
        float2* const first_element = tile + t * 926 + first_y * 33 + first_digit;
        float2* const second_element = tile + t * 926 + second_y * 33 + second_digit;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            first_element[j * 15] = first_v[j];
            second_element[j * 15] = second_v[j];
        }
    }
    __syncthreads();

    // Pass 2: 14 points along x.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const unsigned i = thread + step * kThreads;
        const int t = i % 8u;
        const int earlier = i / 8u % 2u;
        const int y = i / 16u;
        float2 v[14];
        float2* const element = tile + t * 926 + y * 33 + earlier * 15;
#pragma unroll
        for (int j = 0; j < 14; ++j) {
            v[j] = element[j];
        }
        dft14(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13]);
#pragma unroll
        for (int j = 0; j < 14; ++j) {
            if (earlier + j * 2 < 18) element[j] = v[j];
        }
    }
    __syncthreads();

    // Pass 3: 28 points along y.
    if (const unsigned i = thread; i < 144) {
        const int x = modulo<18>(i);
        const int t = quotient<18>(i);
        float2 v[28];
        float2* const element = tile + t * 926 + x % 2u * 15 + x / 2u;
#pragma unroll
        for (int j = 0; j < 28; ++j) {
            v[j] = element[j * 33];
        }
        dft28(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27]);
#pragma unroll
        for (int j = 0; j < 28; ++j) {
            store_signal(target, t, j, x, v[j]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 4)
fft_block(const float2* __restrict__ a, const float2* __restrict__ b, const float* __restrict__ offset,
          float* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long tile_number = min(number, 37631LL), first = tile_number / 24 * 384 + tile_number % 24 * 4;
    transform(ProductOperands{a + first / 96LL * 3, b + first % 96LL * 3, offset + first % 96LL},
              Planes{target, static_cast<int>(first)},
              tile, thread);
}
