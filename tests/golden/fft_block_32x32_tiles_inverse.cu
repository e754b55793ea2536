// warpsmith fft_block
// problem: fft size=32x32 batch=442368 kind=c2r valid=22x22 layout=frequency tiles=6x6 step=22x22 plane=118x118 inner=96
// config:  blocks=0 first=x gaps=25 loads=plain min_blocks=0 packing=half shares=1 signal=direct stores=plain threads=128 tiles=1 transforms=4 twiddles=powers x_radices=16 y_radices=4x8
//
// Inverse transforms of 32x32 points, 4 in a tile of
// shared memory: radices 4x8 by 16, each within a thread. Two columns of a real signal are one complex number.

constexpr int kThreads = 128;  // of a tile
constexpr long long kLast = 442364;  // where the last tile starts: it may do some of another's again
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
__device__ __forceinline__ void dft16(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7, float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15) {
    dft4(x0, x4, x8, x12);
    dft4(x1, x5, x9, x13);
    dft4(x2, x6, x10, x14);
    dft4(x3, x7, x11, x15);
    x5 = times(x5, 0.923879533f, 0.382683432f);
    x6 = times(x6, 0.707106781f, 0.707106781f);
    x7 = times(x7, 0.382683432f, 0.923879533f);
    x9 = times(x9, 0.707106781f, 0.707106781f);
    x10 = turned_left(x10);
    x11 = times(x11, -0.707106781f, 0.707106781f);
    x13 = times(x13, 0.382683432f, 0.923879533f);
    x14 = times(x14, -0.707106781f, 0.707106781f);
    x15 = times(x15, -0.923879533f, -0.382683432f);
    dft4(x0, x1, x2, x3);
    dft4(x4, x5, x6, x7);
    dft4(x8, x9, x10, x11);
    dft4(x12, x13, x14, x15);
    const float2 y4 = x4, y8 = x8, y12 = x12, y1 = x1, y9 = x9, y13 = x13, y2 = x2, y6 = x6, y14 = x14, y3 = x3, y7 = x7, y11 = x11;
    x1 = y4;
    x2 = y8;
    x3 = y12;
    x4 = y1;
    x6 = y9;
    x7 = y13;
    x8 = y2;
    x9 = y6;
    x11 = y14;
    x12 = y3;
    x13 = y7;
    x14 = y11;
}

// exp(2 pi i j later / 32) for j = 1, 2, later = 0 to 7.
__device__ const float2 kTwiddles4x8[16] = {
{ 1.0f, 0.0f }, { 0.98078528f, 0.195090322f }, { 0.923879533f, 0.382683432f }, { 0.831469612f, 0.555570233f },
{ 0.707106781f, 0.707106781f }, { 0.555570233f, 0.831469612f }, { 0.382683432f, 0.923879533f }, { 0.195090322f, 0.98078528f },
{ 1.0f, 0.0f }, { 0.923879533f, 0.382683432f }, { 0.707106781f, 0.707106781f }, { 0.382683432f, 0.923879533f },
{ 0.0f, 1.0f }, { -0.382683432f, 0.923879533f }, { -0.707106781f, 0.707106781f }, { -0.923879533f, 0.382683432f },
};

// What half_root(x) returns.
__device__ const float2 kHalfRoots[9] = {
{ 0.0f, 1.0f }, { -0.195090322f, 0.98078528f }, { -0.382683432f, 0.923879533f }, { -0.555570233f, 0.831469612f },
{ -0.707106781f, 0.707106781f }, { -0.831469612f, 0.555570233f }, { -0.923879533f, 0.382683432f }, { -0.98078528f, 0.195090322f },
{ -1.0f, 0.0f },
};

// i exp(2 pi i x / 32)
__device__ __forceinline__ float2 half_root(int x) {
    return kHalfRoots[x];
}

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

// To point (y, x) of a transform, and to its neighbour, where there is one.
__device__ __forceinline__ void put(Planes planes, int transform, int y, int x, float2 value) {
    const Corner corner = corner_of(planes, transform);
    const int row = corner.row + y, column = corner.column + x;
    if (y < 22 && row < 118 && x < 22 && column < 118) {
        store(reinterpret_cast<float2*>(corner.plane + row * 118 + column), value);
    }
}

// Element (t, y, x) of this tile: columns 2 x and 2 x + 1 of a real signal.
__device__ __forceinline__ void store_signal(Planes planes, int t, int y, int x, float2 value) {
    put(planes, t, y, 2 * x, value);
}

// Where frequency (y, x) of a transform of this tile lies.
__device__ __forceinline__ long long spectrum_place(int transform, int y, int x) {
    return static_cast<long long>(y * 17 + x) * 442368 + transform;
}

// Frequency (y, x) of complex signal t, and the one that mirrors it, from the spectra of real ones; of a column that is its own mirror image, which has a Hermitian part only.
__device__ __forceinline__ void merge_own(const float2* spectrum, int t, int y, int x, float2& z, bool is_needed) {
    const int mirrored_y = y == 0 ? 0 : 32 - y;
    float2 a{}, a_mirrored{}, m{}, m_mirrored{};
    if (is_needed) {
        a = spectrum[spectrum_place(t, y, 0)];
        a_mirrored = spectrum[spectrum_place(t, mirrored_y, 0)];
        m = spectrum[spectrum_place(t, y, 16)];
        m_mirrored = spectrum[spectrum_place(t, mirrored_y, 16)];
    }
    a = 0.5f * (a + conjugate(a_mirrored));
    m = 0.5f * (m + conjugate(m_mirrored));
    z = kScale * (a + m) + turned_left(kScale * (a - m));
}
// Frequency (y, x) of complex signal t, and the one that mirrors it, from the spectra of real ones.
__device__ __forceinline__ void merge(const float2* spectrum, int t, int y, int x, float2& z, float2& mirrored) {
    const int mirrored_y = y == 0 ? 0 : 32 - y;
    float2 a = spectrum[spectrum_place(t, y, x)], m = conjugate(spectrum[spectrum_place(t, mirrored_y, 16 - x)]);
    const float2 even = kScale * (a + m), odd = times(kScale * (a - m), half_root(x));
    z = even + odd;
    mirrored = conjugate(even - odd);
}

// Transforms of one tile; source and target are those of its first one.
__device__ __forceinline__ void transform(
    const float2* __restrict__ source, Planes target, float2* tile, unsigned thread) {
    // Columns that are their own mirror image: asked for before the others, written behind them.
    {
        const unsigned i = thread;
        const int t = i % 4u;
        const int y = i / 4u;
        constexpr int x = 0;
        float2 z;
        merge_own(source, t, y, x, z, true);

        // The spectra of real signals as that of a complex one.
#pragma unroll
        for (int step = 0; step < 8; ++step) {
            const unsigned i = thread + step * kThreads;
            const int t = i % 4u;
            const int column = i / 4u % 8u;
            const int y = i / 32u;
            const int x = column + 1;
            float2 z, mirrored;
            merge(source, t, y, x, z, mirrored);
            tile[t * 548 + y % 8u * 17 + y / 8u * 137 + x] = z;
            if (2 * x != 16) {
                const int mirrored_y = y == 0 ? 0 : 32 - y;
                const int mirrored_x = 16 - x;
                tile[t * 548 + mirrored_y % 8u * 17 + mirrored_y / 8u * 137 + mirrored_x] = mirrored;
            }
        }

        tile[t * 548 + y % 8u * 17 + y / 8u * 137 + x] = z;
    }
    __syncthreads();

    // Pass 1: 16 points along x.
    {
        const unsigned i = thread;
        const int t = i % 4u;
        const int y = i / 4u;
        float2 v[16];
        float2* const element = tile + t * 548 + y % 8u * 17 + y / 8u * 137;
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            v[j] = element[j];
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]);
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            element[j] = v[j];
        }
    }
    __syncthreads();

    // Pass 2: 4 points along y.
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        const unsigned i = thread + step * kThreads;
        const int x = i % 16u;
        const int later = i / 16u % 8u;
        const int t = i / 128u;
        float2 v[4];
        float2* const element = tile + t * 548 + x + later * 17;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            v[j] = element[j * 137];
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
            element[j * 137] = v[j];
        }
    }
    __syncthreads();

    // Pass 3: 8 points along y.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const unsigned i = thread + step * kThreads;
        const int x = i % 16u;
        const int earlier = i / 16u % 4u;
        const int t = i / 64u;
        float2 v[8];
        float2* const element = tile + t * 548 + x + earlier * 137;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            v[j] = element[j * 17];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            store_signal(target, t, earlier + j * 4, x, v[j]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
fft_block(const float2* __restrict__ source, float* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 4, first = min(start, kLast);
    transform(source + first * 1, Planes{target, static_cast<int>(first)}, tile, thread);
}
