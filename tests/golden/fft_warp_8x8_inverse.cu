// warpsmith fft_warp
// problem: fft size=8x8 batch=4 kind=c2r
// config:  first=registers min_blocks=0 packing=pair points=8 repeats=1 stores=plain twiddles=table warps=1
//
// Inverse transforms of 8x8 complex numbers, each in the registers of 8 lanes of a warp:
// 8 points within a lane, 8 across by shuffles, registers first. Two real signals are one complex one.

constexpr int kColumns = 8;  // complex numbers per row, after packing
constexpr int kLanes = 8;  // lanes per group; a group computes one transform at a time
constexpr int kPoints = 8;  // complex numbers of a column in the registers of a lane
constexpr int kThreads = 32;  // threads per block
constexpr int kRepeats = 1;  // transforms of a group, one after another
constexpr long long kLast = 1;  // last transform; groups beyond it repeat it
constexpr float kScale = 0.015625f;

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

// exp(2 pi i (lane / 4 % 2 * (lane % 4)) / 8).
__device__ const float2 kRoots8[8] = {
{ 1.0f, 0.0f }, { 1.0f, 0.0f }, { 1.0f, 0.0f },
{ 1.0f, 0.0f }, { 1.0f, 0.0f }, { 0.707106781f, 0.707106781f },
{ 0.0f, 1.0f }, { -0.707106781f, 0.707106781f },
};

// The value of the lane whose index differs in the bits of `mask`.
__device__ __forceinline__ float2 across(float2 value, int mask) {
    return make_float2(__shfl_xor_sync(0xffffffff, value.x, mask), __shfl_xor_sync(0xffffffff, value.y, mask));
}
__device__ __forceinline__ float2 chosen(bool condition, float2 a, float2 b) {
    return make_float2(condition ? a.x : b.x, condition ? a.y : b.y);
}
__device__ __forceinline__ float2 conjugate_if(bool condition, float2 a) {
    return make_float2(a.x, condition ? -a.y : a.y);
}

template <typename V, typename T> __device__ __forceinline__ void store(T* target, V value) {
    *reinterpret_cast<V*>(target) = value;
}

// Offset of frequency (y, x) in a transform's spectrum.
__device__ __forceinline__ int spectrum_offset(int y, int x) {
    return y * 5 + x;
}

extern "C" __global__ void __launch_bounds__(kThreads)
fft_warp(const float2* __restrict__ source, float* __restrict__ target) {
    const int lane = threadIdx.x % kLanes;
    const int reversed = __brev(lane) >> 29;  // the lane, bit-reversed
    const float sign4 = lane & 4 ? -1.0f : 1.0f;
    const float2 root8 = kRoots8[lane];
    const float sign2 = lane & 2 ? -1.0f : 1.0f;
    const bool rotates2 = (lane & 3) == 3;
    const float sign1 = lane & 1 ? -1.0f : 1.0f;

    const long long first = static_cast<long long>(blockIdx.x) * kRepeats * (kThreads / kLanes) + threadIdx.x / kLanes;
#pragma unroll 1
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
        const long long number = min(first + repeat * (kThreads / kLanes), kLast);
        const float2* const in = source + number * 80;
        float* const out = target + number * 128;
        const int second_in = 40;
        constexpr int second_out = 64;
        float2 v[kPoints];
        const bool is_upper = 2 * lane > kLanes;
        const int x = is_upper ? kColumns - lane : lane;
#pragma unroll
        for (int j = 0; j < kPoints; ++j) {
            const int mirrored_j = (kPoints - j) % kPoints;
            const float2* const frequency = in + spectrum_offset(is_upper ? mirrored_j : j, x);
            float2 a = frequency[0], b = frequency[second_in];
            if (x % (kColumns / 2) == 0) {  // its own mirror image: only the Hermitian part counts
                const float2* const other = in + spectrum_offset(mirrored_j, x);
                a = 0.5f * (a + conjugate(other[0]));
                b = 0.5f * (b + conjugate(other[second_in]));
            }
            v[j] = conjugate_if(is_upper, a) + times_i(conjugate_if(is_upper, b));
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        // Radix-2 and radix-4 steps across lanes, decimation in frequency: frequency l ends in the lane bit-reversed l.
#pragma unroll
        for (int j = 0; j < kPoints; ++j) {
            v[j] = across(v[j], 4) + sign4 * v[j];
            v[j] = times(v[j], root8);
            v[j] = across(v[j], 2) + sign2 * v[j];
            v[j] = chosen(rotates2, times_i(v[j]), v[j]);
            v[j] = across(v[j], 1) + sign1 * v[j];
        }
#pragma unroll
        for (int j = 0; j < kPoints; ++j) {
            v[j] = kScale * v[j];
        }
#pragma unroll
        for (int j = 0; j < kPoints; ++j) {
            store(out + j * 8 + reversed, v[j].x);
            store(out + second_out + j * 8 + reversed,
                v[j].y);
        }
    }
}
