// warpsmith filter1d_fft_long
// problem: filter1d signal=3001 taps=1000 batch=1 mode=full dtype=float32 channels=6 activation=silu
//          weights=sha256:959fedb902222a0a
// config:  blocks=396 columns=8x4 height=16 lag=3 min_blocks=3 rows=8x8 spectra=first store=streaming threads=128
//          twiddles=powers weights=global width=16
//
// Overlap-discard: blocks of 4096 samples, 4000 outputs each.
// Samples m and m + 2048 of a block are one number of a matrix of 32 x 64: negacyclic.
// Jobs of one launch transform columns, then rows, which they multiply by the filter's and transform back,
// then columns back, whose outputs they store. Matrices wait in a workspace that is to stay in L2.

constexpr int kSignal = 3001;  // samples of a channel
constexpr int kSpan = 4000;  // outputs of a channel
constexpr int kFirst = -1024;  // first sample of the first block
constexpr int kFirstLag = -999;  // sample under tap 0 of the first output's window
constexpr int kThreads = 128;
constexpr int kColumnPoints = 32, kRowPoints = 64;  // of a matrix
constexpr int kPoints = kColumnPoints * kRowPoints;  // complex numbers of a matrix
constexpr int kSamples = 4096;  // samples of a block
constexpr int kStep = 4000;  // outputs from block to block
constexpr unsigned kBlocks = 1;  // blocks of a channel
constexpr unsigned kLines = 6;  // blocks of all channels
constexpr int kWidth = 16, kHeight = 16;  // columns, or rows, of a job
constexpr int kColumnJobs = kRowPoints / kWidth, kRowJobs = kColumnPoints / kHeight;

using Sample = float;
using Result = float;
using Tap = float;
using Number = float;  // a sample, or a sum, in registers
using Weight = float;  // a tap in registers

__device__ __forceinline__ Number to_number(Sample element) { return element; }
__device__ __forceinline__ Weight to_weight(Tap element) { return element; }
__device__ __forceinline__ Result to_result(Number sum) { return sum; }

__device__ __forceinline__ Number zero() { return 0.0f; }
__device__ __forceinline__ void add(Number part, Number& sum) { sum += part; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum = fmaf(weight, sample, sum);
}

constexpr int kTaps = 1000;
constexpr int kFilters = 1;

struct Weights {};  // known when the kernel was generated: see kKnown

__device__ const float kKnown[kFilters][kTaps] = {
    { -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f,
      -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f,
      -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f,
      1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f },
};

__device__ __forceinline__ Weight tap(const Weights&, int f, int k) { return __ldg(&kKnown[f][k]); }

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
__device__ __forceinline__ float exp2_approximate(float value) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value));
    return power;
}

__device__ __forceinline__ float reciprocal_approximate(float value) {
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(value));
    return reciprocal;
}
#endif

// SiLU of a sum: x / (1 + exp(-x)).
__device__ __forceinline__ Number finish(Number sum) {
    constexpr float kLog2E = 1.44269504f;  // exp(-x) is 2^(-x log2(e)); it is infinite below x = -88.7
    return sum * reciprocal_approximate(1.0f + exp2_approximate(-kLog2E * sum));
}

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

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i k q / 32) for k = 1, 2, 4, q = 0 to 3.
__device__ const float2 kTwiddles8x4[12] = {
{ 1.0f, 0.0f }, { 0.98078528f, -0.195090322f }, { 0.923879533f, -0.382683432f },
{ 0.831469612f, -0.555570233f }, { 1.0f, 0.0f }, { 0.923879533f, -0.382683432f },
{ 0.707106781f, -0.707106781f }, { 0.382683432f, -0.923879533f }, { 1.0f, 0.0f },
{ 0.707106781f, -0.707106781f }, { 0.0f, -1.0f }, { -0.707106781f, -0.707106781f },
};

// exp(-2 pi i k q / 64) for k = 1, 2, 4, q = 0 to 7.
__device__ const float2 kTwiddles8x8[24] = {
{ 1.0f, 0.0f }, { 0.995184727f, -0.0980171403f }, { 0.98078528f, -0.195090322f },
{ 0.956940336f, -0.290284677f }, { 0.923879533f, -0.382683432f }, { 0.881921264f, -0.471396737f },
{ 0.831469612f, -0.555570233f }, { 0.773010453f, -0.634393284f }, { 1.0f, 0.0f },
{ 0.98078528f, -0.195090322f }, { 0.923879533f, -0.382683432f }, { 0.831469612f, -0.555570233f },
{ 0.707106781f, -0.707106781f }, { 0.555570233f, -0.831469612f }, { 0.382683432f, -0.923879533f },
{ 0.195090322f, -0.98078528f }, { 1.0f, 0.0f }, { 0.923879533f, -0.382683432f },
{ 0.707106781f, -0.707106781f }, { 0.382683432f, -0.923879533f }, { 0.0f, -1.0f },
{ -0.382683432f, -0.923879533f }, { -0.707106781f, -0.707106781f }, { -0.923879533f, -0.382683432f },
};

// exp(-pi i m / 64) for m = 0 to 31.
__device__ const float2 kTwist[32] = {
{ 1.0f, 0.0f }, { 0.998795456f, -0.0490676743f }, { 0.995184727f, -0.0980171403f },
{ 0.98917651f, -0.146730474f }, { 0.98078528f, -0.195090322f }, { 0.970031253f, -0.24298018f },
{ 0.956940336f, -0.290284677f }, { 0.941544065f, -0.336889853f }, { 0.923879533f, -0.382683432f },
{ 0.903989293f, -0.427555093f }, { 0.881921264f, -0.471396737f }, { 0.85772861f, -0.514102744f },
{ 0.831469612f, -0.555570233f }, { 0.803207531f, -0.595699304f }, { 0.773010453f, -0.634393284f },
{ 0.740951125f, -0.671558955f }, { 0.707106781f, -0.707106781f }, { 0.671558955f, -0.740951125f },
{ 0.634393284f, -0.773010453f }, { 0.595699304f, -0.803207531f }, { 0.555570233f, -0.831469612f },
{ 0.514102744f, -0.85772861f }, { 0.471396737f, -0.881921264f }, { 0.427555093f, -0.903989293f },
{ 0.382683432f, -0.923879533f }, { 0.336889853f, -0.941544065f }, { 0.290284677f, -0.956940336f },
{ 0.24298018f, -0.970031253f }, { 0.195090322f, -0.98078528f }, { 0.146730474f, -0.98917651f },
{ 0.0980171403f, -0.995184727f }, { 0.0490676743f, -0.998795456f },
};

// A block of a channel's outputs. The blocks of all channels with one filter follow each other.
struct Line {
    const Sample* samples;  // of the channel
    Result* results;  // of the channel
    int output;  // first output
    int channel;
};

__device__ __forceinline__ Line line_of(const Sample* signal, Result* result, unsigned number) {
    const unsigned block = number % kBlocks;
    const int channel = static_cast<int>(number / kBlocks);
    return {signal + static_cast<size_t>(channel) * 3001,
            result + static_cast<size_t>(channel) * 4000,
            static_cast<int>(block) * kStep, channel};
}

// Sample `at` of a channel; 0 outside of it.
__device__ __forceinline__ Number sample_at(const Sample* samples, int at) {
    // Converted behind the condition: ptxas would keep a predicate for each load until its conversion, and wait.
    const bool is_inside = static_cast<unsigned>(at) < kSignal;
    return to_number(is_inside ? __ldg(samples + at) : Sample{});
}

// Stores output `at` of a channel. `check` is NaN once an output is not finite.
__device__ __forceinline__ void store(
    const Line& own, int at, Number sum, float& check) {
    check = fmaf(0.0f, sum, check);
    __stcs(own.results + at, to_result(finish(sum)));
}

// exp(-2 pi i number / (4 kPoints)), for numbers below 4 kPoints.
__device__ __forceinline__ float2 root_of(unsigned number) {
    constexpr float kHalfTurns = 0.000244140625f;  // half turns of number 1
    float2 root;
    sincospif(-kHalfTurns * static_cast<float>(number), &root.y, &root.x);
    return root;
}

// Transforms kWidth columns of a block's matrix from the column `first` on, the first step of four, and multiplies them
// by the factors between the steps.
__device__ __forceinline__ void transform_columns(const Line& own, float2* matrix, int first, float2* tile) {
    const int begin = kFirst + own.output;
    const bool is_inside = begin >= 0 && begin + kSamples <= kSignal;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 128) {
        const int line = i % 16u, item = i / 16u;
        const int q = item;
        float2* const element = tile + (q) * 16 + line;
        float2 v[8];
        const int place = begin + (item * kRowPoints + first + line);
        if (is_inside) {
            const Sample* const samples = own.samples + place;
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                const int at = k * (4 * kRowPoints);
                v[k] = make_float2(to_number(__ldg(samples + at)), -to_number(__ldg(samples + (at + kPoints))));
            }
        } else {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                const int at = place + k * (4 * kRowPoints);
                v[k] = make_float2(sample_at(own.samples, at), -sample_at(own.samples, at + kPoints));
            }
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = times(v[k], kTwist[k * 4 + item]);
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x4[q];
        const float2 w2 = kTwiddles8x4[4 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x4[8 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 64] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 128) {
        const int line = i % 16u, item = i / 16u;
        const int p = item;
        float2* const element = tile + (p * 4) * 16 + line;
        float2 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = element[k * 16];
        }
        dft4(v[0], v[1], v[2], v[3]);
        const unsigned column = first + line;
        const float2 w1 = root_of(32u * column);
        const float2 w2 = times(w1, w1);
        const float2 e0 = root_of((4u * p + 1u) * column);
        v[0] = times(v[0], e0);
        const float2 e1 = times(e0, w1);
        v[1] = times(v[1], e1);
        const float2 e2 = times(e0, w2);
        v[2] = times(v[2], e2);
        const float2 e3 = times(e2, w1);
        v[3] = times(v[3], e3);
        float2* const target = matrix + (p * kRowPoints + first + line);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            target[k * (8 * kRowPoints)] = v[k];
        }
    }
}

// Tap that stands at a place of a filter's block; 0 where there is none. Tap k stands at -k - 25, modulo kSamples.
__device__ __forceinline__ Weight tap_at(const Weights& weights, int f, int place) {
    const int number = 4071 - place;
    return number >= 0 && number < kTaps ? tap(weights, f, number) : Weight{};
}

// The same for the columns of a filter's matrix.
__device__ __forceinline__ void transform_taps(const Weights& weights, int f, float2* matrix, int first, float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 128) {
        const int line = i % 16u, item = i / 16u;
        const int q = item;
        float2* const element = tile + (q) * 16 + line;
        float2 v[8];
        const int place = item * kRowPoints + first + line;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int at = place + k * (4 * kRowPoints);
            v[k] = make_float2(tap_at(weights, f, at), -tap_at(weights, f, at + kPoints));
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = times(v[k], kTwist[k * 4 + item]);
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x4[q];
        const float2 w2 = kTwiddles8x4[4 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x4[8 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 64] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 128) {
        const int line = i % 16u, item = i / 16u;
        const int p = item;
        float2* const element = tile + (p * 4) * 16 + line;
        float2 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = element[k * 16];
        }
        dft4(v[0], v[1], v[2], v[3]);
        const unsigned column = first + line;
        const float2 w1 = root_of(32u * column);
        const float2 w2 = times(w1, w1);
        const float2 e0 = root_of((4u * p + 1u) * column);
        v[0] = times(v[0], e0);
        const float2 e1 = times(e0, w1);
        v[1] = times(v[1], e1);
        const float2 e2 = times(e0, w2);
        v[2] = times(v[2], e2);
        const float2 e3 = times(e2, w1);
        v[3] = times(v[3], e3);
        float2* const target = matrix + (p * kRowPoints + first + line);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            target[k * (8 * kRowPoints)] = v[k];
        }
    }
}

// Transforms kHeight rows of a matrix from the row `first` on, multiplies them by the filter's, transforms them back.
__device__ __forceinline__ void filter_rows(float2* matrix, const float2* spectrum, int first, float2* tile) {
    float2* const rows = matrix + first * kRowPoints;
    const float2* const factors = spectrum + first * kRowPoints;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 128) {
        const int line = i / 8u, item = i % 8u;
        const int q = item;
        float2* const element = tile + line * 71 + q;
        float2 v[8];
        const float2* const source = rows + (line * kRowPoints + item);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = __ldcg(source + k * 8);  // other blocks of this launch wrote it: not by L1
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x8[q];
        const float2 w2 = kTwiddles8x8[8 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x8[16 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 9] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 128) {
        const int line = i / 8u, item = i % 8u;
        const int p = item;
        float2* const element = tile + line * 71 + p * 9;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 1];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        // Numbers are conjugates from here on, so that the forward DFTs compute the inverse.
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = conjugate(times(v[k], __ldg(factors + (line * kRowPoints + k * 8 + item))));
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 1] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 128) {
        const int line = i / 8u, item = i % 8u;
        const int q = item;
        float2* const element = tile + line * 71 + q;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 9];
        }
        const float2 w1 = kTwiddles8x8[q];
        const float2 w2 = kTwiddles8x8[8 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x8[16 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        float2* const target = rows + (line * kRowPoints + item);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            target[k * 8] = v[k];
        }
    }
}

// Transforms kWidth columns back and stores their outputs, those that no wrapped sample touches.
// `check` becomes NaN if one is not finite.
__device__ __forceinline__ void store_results(
    const Line& own, const float2* matrix, int first, float2* tile, float& check) {
    const int outputs = kSpan - own.output < kStep ? static_cast<int>(kSpan - own.output) : kStep;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 128) {
        const int line = i % 16u, item = i / 16u;
        const int p = item;
        float2* const element = tile + (p * 4) * 16 + line;
        float2 v[4];
        const float2* const source = matrix + (p * kRowPoints + first + line);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = __ldcg(source + k * (8 * kRowPoints));
        }
        const unsigned column = first + line;
        const float2 w1 = root_of(32u * column);
        const float2 w2 = times(w1, w1);
        const float2 e0 = root_of((4u * p + 1u) * column);
        v[0] = times(v[0], e0);
        const float2 e1 = times(e0, w1);
        v[1] = times(v[1], e1);
        const float2 e2 = times(e0, w2);
        v[2] = times(v[2], e2);
        const float2 e3 = times(e2, w1);
        v[3] = times(v[3], e3);
        dft4(v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            element[k * 16] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 128) {
        const int line = i % 16u, item = i / 16u;
        const int q = item;
        float2* const element = tile + (q) * 16 + line;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 64];
        }
        const float2 w1 = kTwiddles8x4[q];
        const float2 w2 = kTwiddles8x4[4 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x4[8 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = times(v[k], kTwist[k * 4 + item]);
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int place = (k * 4 + item) * kRowPoints + first + line;
            if (place < outputs) {
                store(own, own.output + place, v[k].x, check);
            }
            if (place + kPoints < outputs) {
                store(own, own.output + (place + kPoints), v[k].y, check);
            }
        }
    }
}

// Columns of the filters' matrices.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
filter1d_fft_long_columns(float2* __restrict__ spectra) {
    extern __shared__ __align__(16) float2 tile[];
    const Weights weights{};
    const int f = static_cast<int>(blockIdx.x / kColumnJobs), part = static_cast<int>(blockIdx.x % kColumnJobs);
    transform_taps(weights, f, spectra + static_cast<size_t>(f) * kPoints, part * kWidth, tile);
}

// Rows of the filters' matrices, in place: spectra, scaled, in the order in which filter_rows() reads them.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
filter1d_fft_long_rows(float2* __restrict__ spectra) {
    extern __shared__ __align__(16) float2 tile[];
    float2* const rows = spectra + static_cast<size_t>(blockIdx.x) * (kHeight * kRowPoints);
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 128) {
        const int line = i / 8u, item = i % 8u;
        const int q = item;
        float2* const element = tile + line * 71 + q;
        float2 v[8];
        const float2* const source = rows + (line * kRowPoints + item);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = source[k * 8];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x8[q];
        const float2 w2 = kTwiddles8x8[8 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x8[16 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 9] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 128) {
        const int line = i / 8u, item = i % 8u;
        const int p = item;
        float2* const element = tile + line * 71 + p * 9;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 1];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);

#pragma unroll
        for (int k = 0; k < 8; ++k) {
            rows[line * kRowPoints + k * 8 + item] = -0.00048828125f * v[k];
        }
    }
}

constexpr unsigned kForwardJobs = kColumnJobs;  // of a block
constexpr unsigned kSlots = 6;  // blocks whose matrices are in the workspace at a time
constexpr unsigned kJobs = 60;
constexpr unsigned kLag = 3;  // blocks between the columns and the rows of a round

struct Progress {
    unsigned next_job;  // number of the next job to take
    unsigned columns[kLines], rows[kLines], results[kLines];  // finished jobs of each block
    unsigned spoilt[kLines];  // 1 for a block with outputs that are not finite
};

extern "C" __global__ void __launch_bounds__(128)
filter1d_fft_long_begin(unsigned* __restrict__ counters) {
    for (int i = threadIdx.x; i < 25; i += 128) {
        counters[i] = 0u;
    }
}

// Waits until `jobs` jobs are done; all threads of the block then see their results.
__device__ __forceinline__ void wait_for(const unsigned& done, int jobs) {
    if (threadIdx.x == 0) {
        while (*static_cast<const volatile unsigned*>(&done) < static_cast<unsigned>(jobs)) {
        }
        __threadfence();
    }
    __syncthreads();
}

// Counts the block's job as done and publishes its results to waiting blocks.
__device__ __forceinline__ void tell(unsigned& done) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&done, 1u);
    }
}

// Runs one job. Round t of the jobs has the columns of block t, the rows of block t - kLag and the results of block
// t - 2 kLag, as far as these exist. A job waits for the previous step of its block, or for room in the workspace.
__device__ __forceinline__ void run_job(
    unsigned job, const Sample* signal, Result* result, float2* work, Progress& progress,
    const float2* spectra, float2* tile) {
    unsigned round, part;
    if (job < 12u) {
        round = job / 4u, part = job % 4u;
    } else if (job < 30u) {
        round = 3u + (job - 12u) / 6u, part = (job - 12u) % 6u;
    } else if (job < 48u) {
        round = 6u + (job - 30u) / 6u, part = 4u + (job - 30u) % 6u;
    } else {
        round = 9u + (job - 48u) / 4u, part = 6u + (job - 48u) % 4u;
    }
    if (part < kForwardJobs) {
        float2* const matrix = work + static_cast<size_t>(round % kSlots) * 2048;
        const Line own = line_of(signal, result, round);
        transform_columns(own, matrix, static_cast<int>(part) * kWidth, tile);
        tell(progress.columns[round]);
    } else if (part < kForwardJobs + kRowJobs) {
        const unsigned number = round - kLag;
        float2* const matrix = work + static_cast<size_t>(number % kSlots) * 2048;
        wait_for(progress.columns[number], kForwardJobs);
        const float2* const spectrum = spectra;
        filter_rows(matrix, spectrum, static_cast<int>(part - kForwardJobs) * kHeight, tile);
        tell(progress.rows[number]);
    } else {
        const unsigned number = round - 2 * kLag;
        const float2* const matrix = work + static_cast<size_t>(number % kSlots) * 2048;
        wait_for(progress.rows[number], kRowJobs);
        const Line own = line_of(signal, result, number);
        float check = 0.0f;  // NaN once an output is not finite
        const int first = static_cast<int>(part - kForwardJobs - kRowJobs) * kWidth;
        store_results(own, matrix, first, tile, check);
        if (__syncthreads_or(check != 0.0f) && threadIdx.x == 0) {
            progress.spoilt[number] = 1u;
        }
    }
}

// Persistent blocks with a dynamic tile scheduler: a block fetches the number of its next job before it runs a job, so
// that the latency of the atomic is hidden. A job waits for earlier ones only: the earliest unfinished job waits for
// none, so that there is no deadlock, however few blocks run at a time.
extern "C" __global__ void __launch_bounds__(kThreads, 3)
filter1d_fft_long(const Sample* __restrict__ signal, Result* __restrict__ result, float2* work,
                  Progress* progress, const float2* __restrict__ spectra) {
    extern __shared__ __align__(16) float2 tile[];
    __shared__ unsigned next;
    unsigned following = 0;
    if (threadIdx.x == 0) {
        following = atomicAdd(&progress->next_job, 1u);
    }
    while (true) {
        if (threadIdx.x == 0) {
            next = following;
        }
        __syncthreads();
        const unsigned job = next;
        if (job >= kJobs) {
            return;
        }
        if (threadIdx.x == 0) {
            following = atomicAdd(&progress->next_job, 1u);
        }
        run_job(job, signal, result, work, *progress, spectra, tile);
        __syncthreads();
    }
}

// True if a stored output is finite, and thus unaffected by samples outside its window.
__device__ __forceinline__ bool is_settled(Result stored) {
    return isfinite(stored);
}

// Sum of the window at sample `lag` by its taps alone.
__device__ __forceinline__ Number sum_of_window(const Sample* samples, const Weights& weights, int f, int lag) {
    const int first = lag < 0 ? static_cast<int>(-lag) : 0;
    const int end = kSignal - lag < kTaps ? static_cast<int>(kSignal - lag) : kTaps;
    Number sum = zero();
    constexpr int kChain = 256;  // taps added in sequence; longer sums are sums of such partial sums
    for (int start = first; start < end; start += kChain) {
        Number part = zero();
        for (int k = start; k < min(start + kChain, end); ++k) {
            multiply_add(tap(weights, f, k), sample_at(samples, lag + k), part);
        }
        add(part, sum);
    }
    return sum;
}

// Recomputes the outputs that are not finite of the blocks that have some: a NaN or an infinity spreads over its block.
extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_fft_long_repair(const Sample* __restrict__ signal, Result* result, const Progress* __restrict__ progress) {
    const Weights weights{};
    for (unsigned start = 0; start < kLines; start += kThreads) {
        const unsigned mine = start + threadIdx.x;
        if (!__syncthreads_or(mine < kLines && progress->spoilt[mine] != 0u)) {
            continue;
        }
        for (unsigned number = start; number < kLines && number < start + kThreads; ++number) {
            if (progress->spoilt[number] == 0u) {
                continue;
            }
            const Line own = line_of(signal, result, number);
            const int outputs = kSpan - own.output < kStep ? kSpan - own.output : kStep;
            const int first = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
            for (int n = first; n < outputs; n += static_cast<int>(gridDim.x) * kThreads) {
                const int at = own.output + n;
                Result* const target = own.results + at;
                if (!is_settled(*target)) {
                    const int f = 0;
                    const Number sum = sum_of_window(own.samples, weights, f, kFirstLag + at);
                    *target = to_result(finish(sum));
                }
            }
        }
    }
}

