// warpsmith filter1d_partitioned
// problem: filter1d signal=32 taps=401310 batch=1 mode=causal dtype=float32 channels=64 filters=64 state=carried
//          state_width=524288 circular=yes
// config:  block_lines=8 factors=early radices=8x8x8 threads=64 twiddles=powers weights=global
//
// Overlap-discard with a partitioned filter: 418 lines of 512 complex numbers, each two partitions, as real and
// imaginary part. A thread block transforms the samples of 8 lines, adds the products with the filter's spectra,
// and transforms the sum back. A second launch adds the sums of all thread blocks of a channel, and stores the
// outputs.

constexpr int kSamples = 32;  // of a channel's chunk
constexpr int kThreads = 64;
constexpr int kPoints = 512;  // complex numbers of a line
constexpr int kPartTaps = 481;  // taps of a partition
constexpr int kReach = 993;  // samples from the first one of a line to its last one
constexpr int kLines = 418;  // lines of a filter
constexpr int kLineTaps = 962;  // taps of the two partitions of a line
constexpr int kBlockLines = 8;  // lines of a thread block
constexpr unsigned kParts = 53;  // thread blocks of a channel
constexpr int kColumns = 32;  // samples of a thread block that adds the parts' sums
constexpr int kFinishThreads = 512;

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

constexpr int kTaps = 401310;

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

constexpr int kStateWidth = 524288;  // samples of a channel in a row of the state

// Place of sample n of a channel in its ring of kStateWidth samples.
__device__ __forceinline__ int place_in_ring(long long n) {
    const int place = static_cast<int>(n % kStateWidth);
    return place < 0 ? place + kStateWidth : place;
}

// The samples of one channel.
struct Row {
    const Sample* samples;  // of the chunk
    const Sample* ring;
    int place;  // of the chunk's first sample in the ring
};

__device__ __forceinline__ Row row_of(
    const Sample* signal, const Sample* state, const int* positions, size_t row) {
    return {signal + row * 32, state + row * kStateWidth, place_in_ring(__ldg(positions))};
}

// Address of sample `time` of a channel, counted from the chunk's first one: at least 1 - kTaps.
__device__ __forceinline__ const Sample* address_of(const Row& row, int time) {
    const int place = row.place + time;
    const Sample* older = row.ring + (place < 0 ? place + kStateWidth : place);
    return time < 0 ? older : row.samples + time;
}

// Sample `time` of a channel; zero after the chunk.
__device__ __forceinline__ Number sample_at(const Row& row, int time) {
    const Number sample = to_number(__ldg(address_of(row, min(time, kSamples - 1))));  // ptxas would wait in a branch
    return time < kSamples ? sample : zero();
}

// Address of sample `time` if it and the kReach - 1 samples after it lie one after the other before the chunk.
__device__ __forceinline__ const Sample* dense_from(const Row& row, int time) {
    const int place = row.place + time + (row.place + time < 0 ? kStateWidth : 0);
    return time + kReach <= 0 && place + kReach <= kStateWidth ? row.ring + place : nullptr;
}

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Prefetches the cache line at `address` into L2.
__device__ __forceinline__ void fetch_line(const void* address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}
#endif

// Spectra of the filters' partitions, a line each, scaled, in the order in which the filtering kernel reads them.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
filter1d_partitioned_spectra(float2* __restrict__ spectra, const Weights weights) {
    extern __shared__ __align__(16) float2 tile[];
    const int f = blockIdx.x / kLines;
    const int first = static_cast<int>(blockIdx.x % kLines) * kLineTaps;  // first tap of the line
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i / 64u, item = i % 64u;
        const int q = item;
        float2* const element = tile + line * 519 + q;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int place = k * 64 + item;
            // Tap n lies at sample -n, so that the circular convolution with the taps is the correlation.
            const int n = place == 0 ? 0 : kPoints - place;
            v[k] = make_float2(0.0f, 0.0f);
            if (n < kPartTaps && first + n < kTaps) {
                v[k].x = tap(weights, f, first + n);
            }
            if (n < kPartTaps && first + kPartTaps + n < kTaps) {
                v[k].y = -tap(weights, f, first + kPartTaps + n);
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
    spectra += static_cast<size_t>(blockIdx.x) * kPoints;
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
            spectra[k * 64 + item] = 0.001953125f * v[k];
        }
    }
}

// Sums of a thread block's partitions, for each output of its channel.
extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_partitioned(
    const Sample* __restrict__ signal, const Sample* __restrict__ state, const int* __restrict__ positions,
    const float2* __restrict__ spectra, Number* __restrict__ sums) {
    extern __shared__ __align__(16) float2 tile[];
    const unsigned row = blockIdx.x / kParts;
    const int begin = static_cast<int>(blockIdx.x % kParts) * kBlockLines, end = min(begin + kBlockLines, kLines);
    const Row own = row_of(signal, state, positions, row);
    spectra += static_cast<size_t>(row) * kLines * kPoints;
    const int own_item = static_cast<int>(threadIdx.x);  // of the last pass, whose frequencies the thread adds
    float2 total[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        total[k] = make_float2(0.0f, 0.0f);
    }
#pragma unroll 1
    for (int number = begin; number < end; ++number) {
        const int first = number * kLineTaps - (kTaps - 1);
        const Sample* const dense = dense_from(own, first);
        const float2* const factors = spectra + (static_cast<size_t>(number) * kPoints + own_item);
        // The factors are on their way while the samples are transformed.
        float2 factor[8];
        {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                factor[k] = __ldg(factors + k * 64);
            }
        }
        // Samples and factors of the next line come into L2.
        if (number + 1 < end) {
            const float2* const next = spectra + static_cast<size_t>(number + 1) * kPoints;
            for (int i = 16 * static_cast<int>(threadIdx.x); i < kPoints; i += 16 * kThreads) {
                fetch_line(next + i);
            }
            constexpr int kWidth = 128 / static_cast<int>(sizeof(Sample));  // samples of 128 bytes
            const int next_first = first + kLineTaps;
            const int stop = min(next_first + kReach, 0);
            for (int i = kWidth * static_cast<int>(threadIdx.x); next_first + i < stop; i += kWidth * kThreads) {
                fetch_line(address_of(own, next_first + i));
            }
        }
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < 64u; i += 64) {
            const int line = i / 64u, item = i % 64u;
            const int q = item;
            float2* const element = tile + line * 519 + q;
            float2 v[8];
            if (dense != nullptr) {
                const Sample* const samples = dense + item;
#pragma unroll
                for (int k = 0; k < 8; ++k) {
                    v[k].x = to_number(__ldg(samples + k * 64));
                    v[k].y = to_number(__ldg(samples + (k * 64 + kPartTaps)));
                }
            } else {
#pragma unroll
                for (int k = 0; k < 8; ++k) {
                    const int time = first + (k * 64 + item);
                    v[k] = make_float2(sample_at(own, time), sample_at(own, time + kPartTaps));
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
        {
            const int item = own_item, line = 0;
            const int p = item;
            const float2* const element = tile + line * 519 + p % 8u * 65 + p / 8u * 8;
            float2 v[8];
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                v[k] = element[k * 1];
            }
            dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                total[k] = total[k] + times(v[k], factor[k]);
            }
        }
        __syncthreads();
    }
    // Real and imaginary parts are swapped from here on, so that the forward DFTs compute the inverse.
    {
        const int item = own_item, line = 0;
        const int p = item;
        float2* const element = tile + line * 519 + p % 8u * 65 + p / 8u * 8;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = swapped(total[k]);
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 1] = v[k];
        }
    }
    __syncthreads();
    sums += static_cast<size_t>(blockIdx.x) * kSamples;
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
        if (item < 32) {
            constexpr int k = 0;
            sums[k * 64 + item] = v[k].y;
        }
    }
}

__device__ __forceinline__ bool is_finite(Number sum) { return isfinite(sum); }

// Sum of the window that ends at sample `time`, by its taps alone; lane 0 of the warp gets it.
__device__ __forceinline__ Number sum_of_window(const Row& row, const Weights& weights, int f, int time) {
    Number sum = zero();
    constexpr int kChain = 256 * 32;  // taps of a warp's partial sums, which are then added
    for (int start = 0; start < kTaps; start += kChain) {
        Number part = zero();
        for (int k = start + static_cast<int>(threadIdx.x) % 32; k < min(start + kChain, kTaps); k += 32) {
            multiply_add(tap(weights, f, k), sample_at(row, time - (kTaps - 1) + k), part);
        }
        add(part, sum);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        add(__shfl_down_sync(0xffffffffu, sum, step), sum);
    }
    return sum;
}

// Adds the sums of all thread blocks of a channel in a fixed order, and stores the outputs and the ring's new samples.
extern "C" __global__ void __launch_bounds__(kFinishThreads)
filter1d_partitioned_finish(
    const Number* __restrict__ sums, Result* __restrict__ result,
    const Sample* __restrict__ signal, Sample* state, const int* __restrict__ positions, const Weights weights) {
    constexpr int kGroups = 16;  // threads that add the parts of an output
    __shared__ Number added[kGroups][kColumns];
    const unsigned row = blockIdx.x;
    const int column = static_cast<int>(threadIdx.x) % kColumns, group = static_cast<int>(threadIdx.x) / kColumns;
    const int sample = column;
    const Row own = row_of(signal, state, positions, row);
    Number sum = zero();
    if (sample < kSamples) {
#pragma unroll
        for (unsigned first = 0; first < kParts; first += kGroups) {
            const unsigned part = first + group;
            // Sums are loaded in any case: in a branch each load would wait for the last one.
            const size_t place = static_cast<size_t>(row) * kParts + min(part, kParts - 1);
            const Number loaded = __ldg(sums + place * kSamples + sample);
            add(part < kParts ? loaded : zero(), sum);
        }
    }
    added[group][column] = sum;
    __syncthreads();
    if (group == 0) {
#pragma unroll
        for (int other = 1; other < kGroups; ++other) {
            add(added[other][column], sum);
        }
    }
    const bool is_output = group == 0 && sample < kSamples;
    result += row * 32ull;
    if (is_output) {
        result[sample] = to_result(sum);
    }
    if (group == 1 && sample < kSamples) {
        const int slot = place_in_ring(static_cast<long long>(own.place) + sample);
        state[row * static_cast<size_t>(kStateWidth) + slot] = own.samples[sample];
    }
    // A NaN or an infinity spreads over its line: outputs that are not finite are made of their own windows alone.
    if (group == 0) {
        added[0][column] = is_output ? sum : zero();
    }
    if (__syncthreads_or(is_output && !is_finite(sum))) {
        for (int wrong = group; wrong < kColumns; wrong += kFinishThreads / kColumns) {
            if (!is_finite(added[0][wrong])) {
                const int sample = wrong;
                const Number sum = sum_of_window(own, weights, row, sample);
                if (column == 0) {
                    result[sample] = to_result(sum);
                }
            }
        }
    }
}
