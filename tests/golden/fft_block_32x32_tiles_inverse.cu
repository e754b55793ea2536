// warpsmith fft_block
// problem: fft size=32x32 batch=442368 kind=c2r valid=22x22 layout=frequency tiles=6x6 step=22x22 plane=118x118 inner=96
// config:  ahead=0 blocks=0 first=x gaps=25 loads=plain min_blocks=4 packing=pair shares=1 signal=direct spectrum=mirrored stores=plain threads=256 tiles=1 transforms=4 twiddles=powers x_radices=8x4 y_radices=4x8
//
// Inverse transforms of 32x32 points, 4 in a tile of
// shared memory: radices 4x8 by 8x4, each within a thread. Two real signals are one complex one.

constexpr int kThreads = 256;  // of a tile
constexpr long long kLast = 442360;  // where the last tile starts: it may do some of another's again
constexpr float kScale = 0.0009765625f;

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
__device__ __forceinline__ void dft4(float2& x0, float2& x1, float2& x2, float2& x3) {
    const float2 even = x0 + x2, odd = x1 + x3, across = x0 - x2;
    const float2 turned = turned_left(x1 - x3);
    x0 = even + odd;
    x2 = even - odd;
    x1 = across + turned;
    x3 = across - turned;
}
__device__ __forceinline__ void dft8(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7) {
    dft2(x0, x4);
    dft2(x1, x5);
    dft2(x2, x6);
    dft2(x3, x7);
    x5 = times(x5, 0.707106781f, 0.707106781f);
    x6 = turned_left(x6);
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

// number / kDivisor and what is left of it. Exact where their product is below 2^32: those of a tile are below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(2 pi i j later / 32) for j = 1, 2, 4, later = 0 to 3.
__device__ const float2 kTwiddles8x4[12] = {
{ 1.0f, 0.0f }, { 0.98078528f, 0.195090322f }, { 0.923879533f, 0.382683432f }, { 0.831469612f, 0.555570233f },
{ 1.0f, 0.0f }, { 0.923879533f, 0.382683432f }, { 0.707106781f, 0.707106781f }, { 0.382683432f, 0.923879533f },
{ 1.0f, 0.0f }, { 0.707106781f, 0.707106781f }, { 0.0f, 1.0f }, { -0.707106781f, 0.707106781f },
};

// exp(2 pi i j later / 32) for j = 1, 2, later = 0 to 7.
__device__ const float2 kTwiddles4x8[16] = {
{ 1.0f, 0.0f }, { 0.98078528f, 0.195090322f }, { 0.923879533f, 0.382683432f }, { 0.831469612f, 0.555570233f },
{ 0.707106781f, 0.707106781f }, { 0.555570233f, 0.831469612f }, { 0.382683432f, 0.923879533f }, { 0.195090322f, 0.98078528f },
{ 1.0f, 0.0f }, { 0.923879533f, 0.382683432f }, { 0.707106781f, 0.707106781f }, { 0.382683432f, 0.923879533f },
{ 0.0f, 1.0f }, { -0.382683432f, 0.923879533f }, { -0.707106781f, 0.707106781f }, { -0.923879533f, 0.382683432f },
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
    const unsigned tile = number / 96u % 36u;
    const unsigned plane = number / 3456u * 96u + number % 96u;
    return {planes.elements + static_cast<long long>(plane) * 13924, static_cast<int>(tile / 6u) * 22, static_cast<int>(tile % 6u) * 22};
}

// To point (y, x) of a transform, where there is one.
__device__ __forceinline__ void put(Planes planes, int transform, int y, int x, float value) {
    const Corner corner = corner_of(planes, transform);
    const int row = corner.row + y, column = corner.column + x;
    if (y < 22 && row < 118 && x < 22 && column < 118) {
        store(corner.plane + row * 118 + column, value);
    }
}

// Element (t, y, x) of this tile: one of two real signals that follow each other.
__device__ __forceinline__ void store_signal(Planes planes, int t, int y, int x, float2 value) {
    put(planes, 2 * t, y, x, value.x);
    put(planes, 2 * t + 1, y, x, value.y);
}

// Where frequency (y, x) of a transform of this tile lies.
__device__ __forceinline__ long long spectrum_place(int transform, int y, int x) {
    return static_cast<long long>(y * 17 + x) * 442368 + transform;
}

// Frequency (y, x) of two real signals, which are complex signal t: one in x and y, the other in z and w.
__device__ __forceinline__ float4 load_both(const float2* spectrum, int t, int y, int x) {
    return *reinterpret_cast<const float4*>(spectrum + spectrum_place(2 * t, y, x));
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
    const float2* __restrict__ source, Planes target, float2* tile, unsigned thread) {
    // Pass 1: 8 points along x, twice, of rows that mirror each other.
    {
        const unsigned i = thread;
        const int t = i % 4u;
        const int y = i / 4u % 32u;
        const int part = i / 128u;
        const bool is_own = part == 0;  // columns whose mirror images are in the same set of them
        const int here_y = is_own ? y % 16u : y;
        const int here = is_own ? (y < 16 ? 0 : 2) : part;
        const bool is_alone = is_own && here_y == 0;  // and so is the row
        const int there_y = is_alone ? 16 : here_y == 0 ? 0 : 32 - here_y;
        const int there = is_own ? here : 4 - part;
        float2 here_v[8], there_v[8];
        if (here == 0) {
#pragma unroll
            for (int j = 0; j <= 4; ++j) {
                const int m = j == 0 ? 0 : 8 - j;
                const float4 a = load_both(source, t, here_y, j * 4);
                const float4 b = load_both(source, t, there_y, j * 4);
                if (j == 0 || j == 4) {
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
            for (int j = 0; j < 4; ++j) {
                const float4 a = load_both(source, t, here_y, here + j * 4);
                const float4 b = load_both(source, t, there_y, there + j * 4);
                here_v[j] = merged(a);
                there_v[j] = merged(b);
                here_v[7 - j] = merged_mirror(is_alone ? a : b);
                there_v[7 - j] = merged_mirror(is_alone ? b : a);
            }
        }
        dft8(here_v[0], here_v[1], here_v[2], here_v[3], here_v[4], here_v[5], here_v[6], here_v[7]);
        dft8(there_v[0], there_v[1], there_v[2], there_v[3], there_v[4], there_v[5], there_v[6], there_v[7]);

        {
            const float2 w1 = kTwiddles8x4[here];
            here_v[1] = times(here_v[1], w1);
            const float2 w2 = kTwiddles8x4[4 + here];
            here_v[2] = times(here_v[2], w2);
            const float2 w3 = times(w2, w1);
            here_v[3] = times(here_v[3], w3);
            const float2 w4 = kTwiddles8x4[8 + here];
            here_v[4] = times(here_v[4], w4);
            const float2 w5 = times(w4, w1);
            here_v[5] = times(here_v[5], w5);
            const float2 w6 = times(w4, w2);
            here_v[6] = times(here_v[6], w6);
            const float2 w7 = times(w4, w3);
            here_v[7] = times(here_v[7], w7);
        }
        {
            const float2 w1 = kTwiddles8x4[there];
            there_v[1] = times(there_v[1], w1);
            const float2 w2 = kTwiddles8x4[4 + there];
            there_v[2] = times(there_v[2], w2);
            const float2 w3 = times(w2, w1);
            there_v[3] = times(there_v[3], w3);
            const float2 w4 = kTwiddles8x4[8 + there];
            there_v[4] = times(there_v[4], w4);
            const float2 w5 = times(w4, w1);
            there_v[5] = times(there_v[5], w5);
            const float2 w6 = times(w4, w2);
            there_v[6] = times(there_v[6], w6);
            const float2 w7 = times(w4, w3);
            there_v[7] = times(there_v[7], w7);
        }
        float2* const here_element = tile + t * 1153 + here_y * 36 + here;
        float2* const there_element = tile + t * 1153 + there_y * 36 + there;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            here_element[j % 4 * 4 + j / 4 * 17] = here_v[j];
            there_element[j % 4 * 4 + j / 4 * 17] = there_v[j];
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
fft_block(const float2* __restrict__ source, float* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 8, first = min(start, kLast);
    transform(source + first * 1, Planes{target, static_cast<int>(first)}, tile, thread);
}
