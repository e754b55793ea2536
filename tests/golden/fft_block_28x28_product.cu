// warpsmith fft_block
// problem: fft size=28x28 batch=602112 kind=c2r valid=18x18 layout=frequency product=6272x96x3:nc+offset tiles=7x7 step=18x18 plane=118x118 inner=96
// config:  blocks=0 first=x gaps=25 loads=plain min_blocks=4 packing=pair rows=4 shares=1 signal=direct spectrum=mirrored stores=plain threads=224 tiles=1 transforms=8 twiddles=powers x_radices=2x14 y_radices=28
//
// Inverse transforms of 28x28 points, 8 in a tile of
// shared memory: radices 28 by 2x14, each within a thread. Two real signals are one complex one.

constexpr int kThreads = 224;  // of a tile
constexpr float kScale = 0.0012755102f;

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
__device__ __forceinline__ void dft7(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6) {
    const float2 s1 = x1 + x6, d1 = x1 - x6;
    const float2 s2 = x2 + x5, d2 = x2 - x5;
    const float2 s3 = x3 + x4, d3 = x3 - x4;
    const float2 even1 = x0 + 0.623489802f * s1 + -0.222520934f * s2 + -0.900968868f * s3;
    const float2 odd1 = turned_left(0.781831482f * d1 + 0.974927912f * d2 + 0.433883739f * d3);
    const float2 even2 = x0 + -0.222520934f * s1 + -0.900968868f * s2 + 0.623489802f * s3;
    const float2 odd2 = turned_left(0.974927912f * d1 + -0.433883739f * d2 + -0.781831482f * d3);
    const float2 even3 = x0 + -0.900968868f * s1 + 0.623489802f * s2 + -0.222520934f * s3;
    const float2 odd3 = turned_left(0.433883739f * d1 + -0.781831482f * d2 + 0.974927912f * d3);
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
    const float2 turned = turned_left(x1 - x3);
    x0 = even + odd;
    x2 = even - odd;
    x1 = across + turned;
    x3 = across - turned;
}
__device__ __forceinline__ void dft14(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7, float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13) {
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
    const float2 y7 = x7, y1 = x1, y8 = x8, y2 = x2, y9 = x9, y3 = x3, y10 = x10, y4 = x4, y11 = x11, y5 = x5, y12 = x12, y6 = x6;
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
__device__ __forceinline__ void dft28(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7, float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15, float2& x16, float2& x17, float2& x18, float2& x19, float2& x20, float2& x21, float2& x22, float2& x23, float2& x24, float2& x25, float2& x26, float2& x27) {
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
    const float2 y7 = x7, y14 = x14, y21 = x21, y1 = x1, y8 = x8, y15 = x15, y22 = x22, y2 = x2, y16 = x16, y23 = x23, y3 = x3, y10 = x10, y17 = x17, y24 = x24, y4 = x4, y11 = x11, y25 = x25, y5 = x5, y12 = x12, y19 = x19, y26 = x26, y6 = x6, y13 = x13, y20 = x20;
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

// number / kDivisor and what is left of it. Exact where their product is below 2^32: those of a tile are below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(2 pi i j later / 28) for j = 1, later = 0 to 13.
__device__ const float2 kTwiddles2x14[14] = {
{ 1.0f, 0.0f }, { 0.974927912f, 0.222520934f }, { 0.900968868f, 0.433883739f }, { 0.781831482f, 0.623489802f },
{ 0.623489802f, 0.781831482f }, { 0.433883739f, 0.900968868f }, { 0.222520934f, 0.974927912f }, { 0.0f, 1.0f },
{ -0.222520934f, 0.974927912f }, { -0.433883739f, 0.900968868f }, { -0.623489802f, 0.781831482f }, { -0.781831482f, 0.623489802f },
{ -0.900968868f, 0.433883739f }, { -0.974927912f, 0.222520934f },
};

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Planes of which transforms are tiles, and the number of the first one that is transformed here.
struct Planes {
    float* elements;
    int first;
};

// Where a transform begins: in which plane, and at which point of it, which may lie outside.
struct Corner {
    float* plane;
    int row, column;
};

__device__ __forceinline__ Corner corner_of(Planes planes, int transform) {
    const unsigned number = planes.first + transform;
    const unsigned tile = number / 96u % 49u;
    const unsigned plane = number / 4704u * 96u + number % 96u;
    return {planes.elements + static_cast<long long>(plane) * 13924, static_cast<int>(tile / 7u) * 18, static_cast<int>(tile % 7u) * 18};
}

// To point (y, x) of a transform, where there is one.
__device__ __forceinline__ void put(Planes planes, int transform, int y, int x, float value) {
    const Corner corner = corner_of(planes, transform);
    const int row = corner.row + y, column = corner.column + x;
    if (y < 18 && row < 118 && x < 18 && column < 118) {
        store(corner.plane + row * 118 + column, value);
    }
}

// Element (t, y, x) of this tile: one of two real signals that follow each other.
__device__ __forceinline__ void store_signal(Planes planes, int t, int y, int x, float2 value) {
    put(planes, ((t / 2u) * 96 + 2 * (t % 2u)), y, x, value.x);
    put(planes, ((t / 2u) * 96 + 2 * (t % 2u)) + 1, y, x, value.y);
}

// What spectra are made of, from a tile's row of a and its first column of b on.
struct Factors {
    const float2* a;
    const float2* b;
    const float* offset;  // of that column
};

__device__ __forceinline__ float2 xy(float4 both) { return make_float2(both.x, both.y); }
__device__ __forceinline__ float2 zw(float4 both) { return make_float2(both.z, both.w); }
// sum + a b
__device__ __forceinline__ float2 plus(float2 sum, float2 a, float2 b) {
    return make_float2(sum.x + a.x * b.x - a.y * b.y, sum.y + a.x * b.y + a.y * b.x);
}

// Frequency (y, x) of two real signals, which are complex signal t: one in x and y, the other in z and w.
__device__ __forceinline__ float4 load_both(Factors factors, int t, int y, int x) {
    const long long frequency = y * 15 + x;
    const float2* const a = factors.a + frequency * 18816 + (t / 2u) * 3;
    const float4* const b = reinterpret_cast<const float4*>(factors.b + frequency * 288 + 2 * (t % 2u) * 3);
    const float4 b0 = b[0], b1 = b[1], b2 = b[2];
    float2 one = times(a[0], conjugate(xy(b0))), other = times(a[0], conjugate(zw(b1)));
    one = plus(one, a[1], conjugate(zw(b0)));
    other = plus(other, a[1], conjugate(xy(b2)));
    one = plus(one, a[2], conjugate(xy(b1)));
    other = plus(other, a[2], conjugate(zw(b2)));
    if (y == 0 && x == 0) {
        one.x += 784.0f * factors.offset[2 * (t % 2u)];
        other.x += 784.0f * factors.offset[2 * (t % 2u) + 1];
    }
    return make_float4(one.x, one.y, other.x, other.y);
}
// The same of the complex signal, and what mirrors it.
__device__ __forceinline__ float2 merged(float4 both) {
    return kScale * make_float2(both.x - both.w, both.y + both.z);
}
__device__ __forceinline__ float2 merged_mirror(float4 both) {
    return kScale * make_float2(both.x + both.w, both.z - both.y);
}
// The first again, of a column that is its own mirror image, which has a Hermitian part only.
__device__ __forceinline__ float2 merged_own(float4 both, float4 mirrored) {
    return 0.5f * (merged(both) + merged_mirror(mirrored));
}

// Transforms of one tile; source and target are those of its first one.
__device__ __forceinline__ void transform(
    Factors source, Planes target, float2* tile, unsigned thread) {
    // Pass 1: 2 points along x, twice, of rows that mirror each other.
#pragma unroll
    for (int step = 0; step < 7; ++step) {
        const unsigned i = thread + step * kThreads;
        const int t = i % 8u;
        const int y = modulo<28>(i / 8u);
        const int part = quotient<224>(i);
        const bool is_own = part == 0;  // columns whose mirror images are in the same set of them
        const int here_y = is_own ? modulo<14>(y) : y;
        const int here = is_own ? (y < 14 ? 0 : 7) : part;
        const bool is_alone = is_own && here_y == 0;  // and so is the row
        const int there_y = is_alone ? 14 : here_y == 0 ? 0 : 28 - here_y;
        const int there = is_own ? here : 14 - part;
        float2 here_v[2], there_v[2];
        if (here == 0) {
#pragma unroll
            for (int j = 0; j <= 1; ++j) {
                const int m = j == 0 ? 0 : 2 - j;
                const float4 a = load_both(source, t, here_y, j * 14);
                const float4 b = load_both(source, t, there_y, j * 14);
                if (j == 0 || j == 1) {
                    here_v[j] = merged_own(a, is_alone ? a : b);
                    there_v[j] = merged_own(b, is_alone ? b : a);
                } else {
                    here_v[j] = merged(a);
                    there_v[j] = merged(b);
                    here_v[m] = merged_mirror(is_alone ? a : b);
                    there_v[m] = merged_mirror(is_alone ? b : a);
                }
            }
        } else {
#pragma unroll
            for (int j = 0; j < 1; ++j) {
                const float4 a = load_both(source, t, here_y, here + j * 14);
                const float4 b = load_both(source, t, there_y, there + j * 14);
                here_v[j] = merged(a);
                there_v[j] = merged(b);
                here_v[1 - j] = merged_mirror(is_alone ? a : b);
                there_v[1 - j] = merged_mirror(is_alone ? b : a);
            }
        }
        dft2(here_v[0], here_v[1]);
        dft2(there_v[0], there_v[1]);

        {
            const float2 w1 = kTwiddles2x14[here];
            here_v[1] = times(here_v[1], w1);
        }
        {
            const float2 w1 = kTwiddles2x14[there];
            there_v[1] = times(there_v[1], w1);
        }
        float2* const here_element = tile + t * 926 + here_y * 33 + here;
        float2* const there_element = tile + t * 926 + there_y * 33 + there;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            here_element[j * 15] = here_v[j];
            there_element[j * 15] = there_v[j];
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
        dft28(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27]);
#pragma unroll
        for (int j = 0; j < 28; ++j) {
            store_signal(target, t, j, x, v[j]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 4)
fft_block(const float2* __restrict__ a, const float2* __restrict__ b, const float* __restrict__ offset, float* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long tile_number = min(number, 37631LL), first = tile_number / 24 * 384 + tile_number % 24 * 4;
    transform(Factors{a + first / 96LL * 3, b + first % 96LL * 3, offset + first % 96LL}, Planes{target, static_cast<int>(first)}, tile, thread);
}
