// warpsmith filter1d_parts
// problem: filter1d signal=1048576 taps=1048576 batch=1 mode=full dtype=float32 nonfinite=any
// config:  accumulation=buffers radices=8x8x8 signal_block=128 taps_block=256 way=divisions weights=global
//
// Convolution in parts: blocks of 128 samples and of 256 taps.
// Spectra of all blocks are made once. Each interval's sum of products is transformed back.
// Each division of the result has a buffer of its own; a last launch adds them.

constexpr int kSignal = 1048576;  // samples of a channel
constexpr int kThreads = 64;
constexpr unsigned kGroups = 16382;  // thread blocks of a channel
constexpr int kSignalBlock = 128, kTapsBlock = 256;
constexpr int kBegin = 0;  // element of the full convolution that is the first output
constexpr int kLength = kSignalBlock + kTapsBlock - 1;  // elements of an interval
constexpr int kStep = kSignalBlock + kTapsBlock;  // elements from interval to interval of a division
constexpr int kRatio = kTapsBlock / kSignalBlock;
constexpr int kSignalBlocks = 8192, kTapsBlocks = 4096;

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

constexpr int kTaps = 1048576;

struct Weights {
    const Tap* taps;  // [filters][kTaps]
};

__device__ __forceinline__ Weight tap(const Weights& weights, int f, int k) {
    return to_weight(__ldg(weights.taps + static_cast<size_t>(f) * kTaps + k));
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

__device__ __forceinline__ float2 swapped(float2 a) { return make_float2(a.y, a.x); }
__device__ __forceinline__ void add_product(float2 a, float2 b, float2& sum) {
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.x = fmaf(-a.y, b.y, sum.x);
    sum.y = fmaf(a.x, b.y, sum.y);
    sum.y = fmaf(a.y, b.x, sum.y);
}

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

// exp(-2 pi i k q / 512) for k = 1, 2, 4, q = 0 to 63.
__device__ const float2 kTwiddles8x64[192] = {
{ 1.0f, 0.0f }, { 0.999924702f, -0.0122715383f }, { 0.999698819f, -0.0245412285f },
{ 0.999322385f, -0.0368072229f }, { 0.998795456f, -0.0490676743f }, { 0.998118113f, -0.0613207363f },
{ 0.997290457f, -0.0735645636f }, { 0.996312612f, -0.0857973123f }, { 0.995184727f, -0.0980171403f },
{ 0.99390697f, -0.110222207f }, { 0.992479535f, -0.122410675f }, { 0.990902635f, -0.134580709f },
{ 0.98917651f, -0.146730474f }, { 0.987301418f, -0.158858143f }, { 0.985277642f, -0.170961889f },
{ 0.983105487f, -0.183039888f }, { 0.98078528f, -0.195090322f }, { 0.978317371f, -0.207111376f },
{ 0.97570213f, -0.21910124f }, { 0.972939952f, -0.231058108f }, { 0.970031253f, -0.24298018f },
{ 0.966976471f, -0.25486566f }, { 0.963776066f, -0.266712757f }, { 0.960430519f, -0.278519689f },
{ 0.956940336f, -0.290284677f }, { 0.95330604f, -0.302005949f }, { 0.949528181f, -0.31368174f },
{ 0.945607325f, -0.325310292f }, { 0.941544065f, -0.336889853f }, { 0.937339012f, -0.34841868f },
{ 0.932992799f, -0.359895037f }, { 0.92850608f, -0.371317194f }, { 0.923879533f, -0.382683432f },
{ 0.919113852f, -0.39399204f }, { 0.914209756f, -0.405241314f }, { 0.909167983f, -0.41642956f },
{ 0.903989293f, -0.427555093f }, { 0.898674466f, -0.438616239f }, { 0.893224301f, -0.44961133f },
{ 0.88763962f, -0.460538711f }, { 0.881921264f, -0.471396737f }, { 0.876070094f, -0.482183772f },
{ 0.870086991f, -0.492898192f }, { 0.863972856f, -0.503538384f }, { 0.85772861f, -0.514102744f },
{ 0.851355193f, -0.524589683f }, { 0.844853565f, -0.53499762f }, { 0.838224706f, -0.545324988f },
{ 0.831469612f, -0.555570233f }, { 0.824589303f, -0.565731811f }, { 0.817584813f, -0.575808191f },
{ 0.810457198f, -0.585797857f }, { 0.803207531f, -0.595699304f }, { 0.795836905f, -0.605511041f },
{ 0.788346428f, -0.615231591f }, { 0.780737229f, -0.624859488f }, { 0.773010453f, -0.634393284f },
{ 0.765167266f, -0.643831543f }, { 0.757208847f, -0.653172843f }, { 0.749136395f, -0.662415778f },
{ 0.740951125f, -0.671558955f }, { 0.732654272f, -0.680600998f }, { 0.724247083f, -0.689540545f },
{ 0.715730825f, -0.698376249f }, { 1.0f, 0.0f }, { 0.999698819f, -0.0245412285f },
{ 0.998795456f, -0.0490676743f }, { 0.997290457f, -0.0735645636f }, { 0.995184727f, -0.0980171403f },
{ 0.992479535f, -0.122410675f }, { 0.98917651f, -0.146730474f }, { 0.985277642f, -0.170961889f },
{ 0.98078528f, -0.195090322f }, { 0.97570213f, -0.21910124f }, { 0.970031253f, -0.24298018f },
{ 0.963776066f, -0.266712757f }, { 0.956940336f, -0.290284677f }, { 0.949528181f, -0.31368174f },
{ 0.941544065f, -0.336889853f }, { 0.932992799f, -0.359895037f }, { 0.923879533f, -0.382683432f },
{ 0.914209756f, -0.405241314f }, { 0.903989293f, -0.427555093f }, { 0.893224301f, -0.44961133f },
{ 0.881921264f, -0.471396737f }, { 0.870086991f, -0.492898192f }, { 0.85772861f, -0.514102744f },
{ 0.844853565f, -0.53499762f }, { 0.831469612f, -0.555570233f }, { 0.817584813f, -0.575808191f },
{ 0.803207531f, -0.595699304f }, { 0.788346428f, -0.615231591f }, { 0.773010453f, -0.634393284f },
{ 0.757208847f, -0.653172843f }, { 0.740951125f, -0.671558955f }, { 0.724247083f, -0.689540545f },
{ 0.707106781f, -0.707106781f }, { 0.689540545f, -0.724247083f }, { 0.671558955f, -0.740951125f },
{ 0.653172843f, -0.757208847f }, { 0.634393284f, -0.773010453f }, { 0.615231591f, -0.788346428f },
{ 0.595699304f, -0.803207531f }, { 0.575808191f, -0.817584813f }, { 0.555570233f, -0.831469612f },
{ 0.53499762f, -0.844853565f }, { 0.514102744f, -0.85772861f }, { 0.492898192f, -0.870086991f },
{ 0.471396737f, -0.881921264f }, { 0.44961133f, -0.893224301f }, { 0.427555093f, -0.903989293f },
{ 0.405241314f, -0.914209756f }, { 0.382683432f, -0.923879533f }, { 0.359895037f, -0.932992799f },
{ 0.336889853f, -0.941544065f }, { 0.31368174f, -0.949528181f }, { 0.290284677f, -0.956940336f },
{ 0.266712757f, -0.963776066f }, { 0.24298018f, -0.970031253f }, { 0.21910124f, -0.97570213f },
{ 0.195090322f, -0.98078528f }, { 0.170961889f, -0.985277642f }, { 0.146730474f, -0.98917651f },
{ 0.122410675f, -0.992479535f }, { 0.0980171403f, -0.995184727f }, { 0.0735645636f, -0.997290457f },
{ 0.0490676743f, -0.998795456f }, { 0.0245412285f, -0.999698819f }, { 1.0f, 0.0f },
{ 0.998795456f, -0.0490676743f }, { 0.995184727f, -0.0980171403f }, { 0.98917651f, -0.146730474f },
{ 0.98078528f, -0.195090322f }, { 0.970031253f, -0.24298018f }, { 0.956940336f, -0.290284677f },
{ 0.941544065f, -0.336889853f }, { 0.923879533f, -0.382683432f }, { 0.903989293f, -0.427555093f },
{ 0.881921264f, -0.471396737f }, { 0.85772861f, -0.514102744f }, { 0.831469612f, -0.555570233f },
{ 0.803207531f, -0.595699304f }, { 0.773010453f, -0.634393284f }, { 0.740951125f, -0.671558955f },
{ 0.707106781f, -0.707106781f }, { 0.671558955f, -0.740951125f }, { 0.634393284f, -0.773010453f },
{ 0.595699304f, -0.803207531f }, { 0.555570233f, -0.831469612f }, { 0.514102744f, -0.85772861f },
{ 0.471396737f, -0.881921264f }, { 0.427555093f, -0.903989293f }, { 0.382683432f, -0.923879533f },
{ 0.336889853f, -0.941544065f }, { 0.290284677f, -0.956940336f }, { 0.24298018f, -0.970031253f },
{ 0.195090322f, -0.98078528f }, { 0.146730474f, -0.98917651f }, { 0.0980171403f, -0.995184727f },
{ 0.0490676743f, -0.998795456f }, { 0.0f, -1.0f }, { -0.0490676743f, -0.998795456f },
{ -0.0980171403f, -0.995184727f }, { -0.146730474f, -0.98917651f }, { -0.195090322f, -0.98078528f },
{ -0.24298018f, -0.970031253f }, { -0.290284677f, -0.956940336f }, { -0.336889853f, -0.941544065f },
{ -0.382683432f, -0.923879533f }, { -0.427555093f, -0.903989293f }, { -0.471396737f, -0.881921264f },
{ -0.514102744f, -0.85772861f }, { -0.555570233f, -0.831469612f }, { -0.595699304f, -0.803207531f },
{ -0.634393284f, -0.773010453f }, { -0.671558955f, -0.740951125f }, { -0.707106781f, -0.707106781f },
{ -0.740951125f, -0.671558955f }, { -0.773010453f, -0.634393284f }, { -0.803207531f, -0.595699304f },
{ -0.831469612f, -0.555570233f }, { -0.85772861f, -0.514102744f }, { -0.881921264f, -0.471396737f },
{ -0.903989293f, -0.427555093f }, { -0.923879533f, -0.382683432f }, { -0.941544065f, -0.336889853f },
{ -0.956940336f, -0.290284677f }, { -0.970031253f, -0.24298018f }, { -0.98078528f, -0.195090322f },
{ -0.98917651f, -0.146730474f }, { -0.995184727f, -0.0980171403f }, { -0.998795456f, -0.0490676743f },
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

constexpr float kScale = 0.001953125f;  // undoes the factor of the forward and the inverse transform

// Sample `at` of a channel; 0 outside of it.
__device__ __forceinline__ Number sample_at(const Sample* samples, int at) {
    // Converted behind the condition: ptxas would keep a predicate for each load until its conversion, and wait.
    const bool is_inside = static_cast<unsigned>(at) < kSignal;
    return to_number(is_inside ? __ldg(samples + at) : Sample{});
}

// Tap n in the order of a convolution; 0 beyond the last one.
__device__ __forceinline__ Weight tap_at(const Weights& weights, int f, int n) {
    return n < kTaps ? tap(weights, f, kTaps - 1 - static_cast<int>(n)) : Weight{};
}

// Interval of the result: it begins at `unit` blocks of the signal in the full convolution, and the pairs (i, j) of a
// block of samples and a block of taps that reach it have i + j * kRatio = unit, with j from `low` to `high`.
struct Interval {
    int division, unit, low, high;
};

__device__ __forceinline__ Interval interval_of(int division, int number) {
    const int unit = division + number * (kRatio + 1), beyond = unit - kSignalBlocks + 1;
    return {division, unit, beyond > 0 ? (beyond + kRatio - 1) / kRatio : 0, min(kTapsBlocks - 1, unit / kRatio)};
}

// Interval of all divisions, one division after the other.
__device__ __forceinline__ Interval interval_of(unsigned group) {
    const int number = static_cast<int>(group);
    if (number < 5461) {
        return interval_of(0, number);
    }
    if (number < 10922) {
        return interval_of(1, number - 5461);
    }
    return interval_of(2, number - 10922);
}

// Place in shared memory where an item of the last pass begins.
__device__ __forceinline__ int last_place(int line, int item) {
    const int p = item;
    return line * 519 + p % 8u * 65 + p / 8u * 8;
}

constexpr int kPoints = 512;  // complex numbers of a line
// First line, and number of lines, of a channel and of a filter.
constexpr int kSignalLine = 0, kSignalLines = 4096;
constexpr int kTapsLine = 0, kTapsLines = 4097;
constexpr unsigned kAllSignalLines = 4096;  // of all channels, before those of the taps

// Spectra of the blocks of all channels and all filters that the result needs.
// Blocks i and i + kRatio of a signal, with even i / kRatio, are the real and the imaginary part of a line. So are
// block j of the taps and the negative of block j - 1. The real part of a product then has two pairs of one interval.
extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_parts_spectra(const Sample* __restrict__ signal, float2* __restrict__ spectra, const Weights weights) {
    extern __shared__ __align__(16) float2 tile[];
    float2* const spectrum = spectra + static_cast<size_t>(blockIdx.x) * kPoints;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i / 64u, item = i % 64u;
        const int q = item;
        float2* const element = tile + line * 519 + q;
        float2 v[8];
        if (blockIdx.x < kAllSignalLines) {
            const size_t row = blockIdx.x / kSignalLines;
            const int number = kSignalLine + static_cast<int>(blockIdx.x % kSignalLines);
            const int block = number / kRatio * (2 * kRatio) + number % kRatio;
            const Sample* const samples = signal + row * 1048576;
            const int first = static_cast<int>(block) * kSignalBlock;
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                const int place = k * 64 + item;
                v[k] = make_float2(0.0f, 0.0f);
                if (place < kSignalBlock) {
                    v[k].x = sample_at(samples, first + place);
                    v[k].y = sample_at(samples, first + (kTapsBlock + place));
                }
            }
        } else {
            const unsigned line_of_taps = blockIdx.x - kAllSignalLines;
            const int f = static_cast<int>(line_of_taps / kTapsLines);
            const int block = kTapsLine + static_cast<int>(line_of_taps % kTapsLines);
            const int first = static_cast<int>(block) * kTapsBlock;
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                const int place = k * 64 + item;
                v[k] = make_float2(0.0f, 0.0f);
                if (place < kTapsBlock) {
                    v[k].x = tap_at(weights, f, first + place);
                    v[k].y = block > 0 ? -tap_at(weights, f, first - kTapsBlock + place) : 0.0f;
                }
            }
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x64[q];
        const float2 w2 = kTwiddles8x64[64 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x64[128 + q];
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
            element[k * 65] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i / 64u, item = i % 64u;
        const int p = item / 8u, q = item % 8u;
        float2* const element = tile + line * 519 + p * 65 + q;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 8];
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
            element[k * 8] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i / 64u, item = i % 64u;
        const int p = item;
        float2* const element = tile + line * 519 + p % 8u * 65 + p / 8u * 8;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 1];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            spectrum[k * 64 + item] = v[k];
        }
    }
}

// Sums of an interval from the products of its lines.
__device__ __forceinline__ void make_interval(
    const Interval& at, float2* tile, const float2* spectra, size_t row, int f, Number* sums_of_interval) {
    const float2* const signal_spectra = spectra + row * kSignalLines * kPoints;
    const float2* const taps_spectra = spectra + (static_cast<size_t>(kAllSignalLines) + f * kTapsLines) * kPoints;
    float2 total[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        total[k] = make_float2(0.0f, 0.0f);
    }
    // A line of the signal begins with a block i of even i / kRatio: the pair before the first one may not exist.
    for (int j = at.high + (at.high + at.unit / kRatio) % 2; j >= at.low; j -= 2) {
        const int i = at.unit - j * kRatio, line = i / (2 * kRatio) * kRatio + i % kRatio;
        const float2* const samples = signal_spectra + static_cast<size_t>(line - kSignalLine) * kPoints;
        const float2* const taps = taps_spectra + static_cast<size_t>(j - kTapsLine) * kPoints;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int place = k * 64 + static_cast<int>(threadIdx.x);
            add_product(__ldg(samples + place), __ldg(taps + place), total[k]);
        }
    }
    // Real and imaginary parts are swapped from here on, so that the forward DFTs compute the inverse.
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        total[k] = swapped(total[k]);
    }
    dft8(total[0], total[1], total[2], total[3], total[4], total[5], total[6], total[7]);
    float2* const element = tile + last_place(0, threadIdx.x);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        element[k * 1] = total[k];
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i / 64u, item = i % 64u;
        const int p = item / 8u, q = item % 8u;
        float2* const element = tile + line * 519 + p * 65 + q;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 8];
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
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 8] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i / 64u, item = i % 64u;
        const int q = item;
        float2* const element = tile + line * 519 + q;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 65];
        }
        const float2 w1 = kTwiddles8x64[q];
        const float2 w2 = kTwiddles8x64[64 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x64[128 + q];
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
            const int place = k * 64 + item;
            if (place < kLength) {
                sums_of_interval[place] = kScale * v[k].y;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_parts(const float2* __restrict__ spectra, Number* __restrict__ buffers) {
    extern __shared__ __align__(16) float2 tile[];
    const size_t row = blockIdx.x / kGroups;
    const Interval at = interval_of(blockIdx.x % kGroups);
    const int f = 0;
    make_interval(at, tile, spectra, row, f, buffers + static_cast<size_t>(blockIdx.x) * kLength);
}

// Adds the divisions of the result, in their order.
extern "C" __global__ void __launch_bounds__(256)
filter1d_parts_add(const Number* __restrict__ buffers, Result* __restrict__ result) {
    const unsigned number = static_cast<unsigned>(blockIdx.x) * 256 + threadIdx.x;
    if (number >= 2097151) {
        return;
    }
    const size_t row = number / 2097151;
    const int output = number % 2097151, element = kBegin + output;
    const Number* const own = buffers + row * (static_cast<size_t>(kGroups) * kLength);
    Number sum = zero();
    {
        const int since = element, interval = since / kStep;
        const int place = static_cast<int>(since % kStep);
        if (since >= 0 && interval >= 0 && interval < 5461 && place < kLength) {
            add(own[static_cast<size_t>(interval) * kLength + place], sum);
        }
    }
    {
        const int since = element - 128, interval = since / kStep;
        const int place = static_cast<int>(since % kStep);
        if (since >= 0 && interval >= 0 && interval < 5461 && place < kLength) {
            add(own[static_cast<size_t>(interval + 5461) * kLength + place], sum);
        }
    }
    {
        const int since = element - 256, interval = since / kStep;
        const int place = static_cast<int>(since % kStep);
        if (since >= 0 && interval >= 0 && interval < 5460 && place < kLength) {
            add(own[static_cast<size_t>(interval + 10922) * kLength + place], sum);
        }
    }
    result[row * 2097151 + output] = to_result(sum);
}

