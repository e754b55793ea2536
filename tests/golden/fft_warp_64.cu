// warpsmith fft_warp
// problem: fft size=64 batch=1048576 kind=r2c
// config:  first=lanes min_blocks=0 packing=pair points=8 repeats=1 stores=plain twiddles=powers warps=4
//
// Forward transforms of 64 complex numbers, each in the registers of 8 lanes of a warp:
// 8 points within a lane, 8 across by shuffles, lanes first. Two real signals are one complex one.

constexpr int kColumns = 64;  // complex numbers per transform, after packing
constexpr int kLanes = 8;  // lanes per group; a group computes one transform at a time
constexpr int kPoints = 8;  // complex numbers of a transform in the registers of a lane
constexpr int kThreads = 128;  // threads per block
constexpr int kRepeats = 1;  // transforms of a group, one after another
constexpr long long kLast = 524287;  // last transform; groups beyond it repeat it
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
__device__ __forceinline__ void dft4(float2& x0, float2& x1, float2& x2, float2& x3) {
    const float2 even = x0 + x2, odd = x1 + x3, across = x0 - x2;
    const float2 rotated = times_minus_i(x1 - x3);
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
    x5 = times(x5, 0.707106781f, -0.707106781f);
    x6 = times_minus_i(x6);
    x7 = times(x7, -0.707106781f, -0.707106781f);
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

// exp(-2 pi i j reversed / 64) for j = 1, 2, 4 and each lane.
__device__ const float2 kTwiddles[24] = {
{ 1.0f, -0.0f }, { 0.923879533f, -0.382683432f }, { 0.98078528f, -0.195090322f },
{ 0.831469612f, -0.555570233f }, { 0.995184727f, -0.0980171403f }, { 0.881921264f, -0.471396737f },
{ 0.956940336f, -0.290284677f }, { 0.773010453f, -0.634393284f }, { 1.0f, -0.0f },
{ 0.707106781f, -0.707106781f }, { 0.923879533f, -0.382683432f }, { 0.382683432f, -0.923879533f },
{ 0.98078528f, -0.195090322f }, { 0.555570233f, -0.831469612f }, { 0.831469612f, -0.555570233f },
{ 0.195090322f, -0.98078528f }, { 1.0f, -0.0f }, { 0.0f, -1.0f },
{ 0.707106781f, -0.707106781f }, { -0.707106781f, -0.707106781f }, { 0.923879533f, -0.382683432f },
{ -0.382683432f, -0.923879533f }, { 0.382683432f, -0.923879533f }, { -0.923879533f, -0.382683432f },
};

// exp(-2 pi i (lane / 4 % 2 * (lane % 4)) / 8).
__device__ const float2 kRoots8[8] = {
{ 1.0f, -0.0f }, { 1.0f, -0.0f }, { 1.0f, -0.0f },
{ 1.0f, -0.0f }, { 1.0f, -0.0f }, { 0.707106781f, -0.707106781f },
{ 0.0f, -1.0f }, { -0.707106781f, -0.707106781f },
};

// The value of the lane whose index differs in the bits of `mask`.
__device__ __forceinline__ float2 across(float2 value, int mask) {
    return make_float2(__shfl_xor_sync(0xffffffff, value.x, mask), __shfl_xor_sync(0xffffffff, value.y, mask));
}
// The value of lane `lane` of this group.
__device__ __forceinline__ float2 from_lane(float2 value, int lane) {
    return make_float2(__shfl_sync(0xffffffff, value.x, lane, kLanes), __shfl_sync(0xffffffff, value.y, lane, kLanes));
}
__device__ __forceinline__ float2 chosen(bool condition, float2 a, float2 b) {
    return make_float2(condition ? a.x : b.x, condition ? a.y : b.y);
}
__device__ __forceinline__ float2 conjugate_if(bool condition, float2 a) {
    return make_float2(a.x, condition ? -a.y : a.y);
}

template <typename V, typename T> __device__ __forceinline__ V load(const T* source) {
    return *reinterpret_cast<const V*>(source);
}

template <typename V, typename T> __device__ __forceinline__ void store(T* target, V value) {
    *reinterpret_cast<V*>(target) = value;
}

// Offset of frequency x in a transform's spectrum.
__device__ __forceinline__ int spectrum_offset(int x) {
    return x;
}

extern "C" __global__ void __launch_bounds__(kThreads)
fft_warp(const float* __restrict__ source, float2* __restrict__ target) {
    const int lane = threadIdx.x % kLanes;
    const int reversed = __brev(lane) >> 29;  // the lane, bit-reversed
    // The lane that has frequencies -k: bit-reversing -reversed flips all bits of `lane` below its highest set bit.
    const int mirror = lane == 0 ? 0 : lane ^ ((1 << (31 - __clz(lane))) - 1);
    const float sign4 = lane & 4 ? -1.0f : 1.0f;
    const float2 root8 = kRoots8[lane];
    const float sign2 = lane & 2 ? -1.0f : 1.0f;
    const bool rotates2 = (lane & 3) == 3;
    const float sign1 = lane & 1 ? -1.0f : 1.0f;
    float2 twiddle[kPoints];  // between the transforms over registers and over lanes
    twiddle[1] = kTwiddles[lane];
    twiddle[2] = kTwiddles[1 * kLanes + lane];
    twiddle[3] = times(twiddle[2], twiddle[1]);
    twiddle[4] = kTwiddles[2 * kLanes + lane];
    twiddle[5] = times(twiddle[4], twiddle[1]);
    twiddle[6] = times(twiddle[4], twiddle[2]);
    twiddle[7] = times(twiddle[4], twiddle[3]);

    const long long first = static_cast<long long>(blockIdx.x) * kRepeats * (kThreads / kLanes) + threadIdx.x / kLanes;
#pragma unroll 1
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
        const long long number = min(first + repeat * (kThreads / kLanes), kLast);
        const float* const in = source + number * 128;
        float2* const out = target + number * 66;
        const int second_in = 64;
        constexpr int second_out = 33;
        float2 v[kPoints];
#pragma unroll
        for (int j = 0; j < kPoints; j += 4) {
            const float4 a = load<float4>(in + lane * kPoints + j);
            const float4 b = load<float4>(in + second_in + lane * kPoints + j);
            v[j] = make_float2(a.x, b.x);
            v[j + 1] = make_float2(a.y, b.y);
            v[j + 2] = make_float2(a.z, b.z);
            v[j + 3] = make_float2(a.w, b.w);
        }
        // Radix-2 and radix-4 steps across lanes, decimation in frequency: frequency l ends in the lane bit-reversed l.
#pragma unroll
        for (int j = 0; j < kPoints; ++j) {
            v[j] = across(v[j], 4) + sign4 * v[j];
            v[j] = times(v[j], root8);
            v[j] = across(v[j], 2) + sign2 * v[j];
            v[j] = chosen(rotates2, times_minus_i(v[j]), v[j]);
            v[j] = across(v[j], 1) + sign1 * v[j];
        }
#pragma unroll
        for (int j = 1; j < kPoints; ++j) {
            v[j] = times(v[j], twiddle[j]);
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int j = 0; j < kPoints / 2; ++j) {
            const float2 m =
                conjugate(from_lane(chosen(lane == 0, v[(kPoints - j) % kPoints], v[kPoints - 1 - j]), mirror));
            float2* const frequency = out + spectrum_offset(reversed + j * kLanes);
            store(frequency, kHalfScale * (v[j] + m));
            store(frequency + second_out, kHalfScale * times_minus_i(v[j] - m));
        }
        if (lane == 0) {  // the last frequency is its own mirror image
            const float2 last = (2.0f * kHalfScale) * v[kPoints / 2];
            store(out + kColumns / 2, make_float2(last.x, 0.0f));
            store(out + second_out + kColumns / 2, make_float2(last.y, 0.0f));
        }
    }
}
