// warpsmith filter1d_partitioned
// problem: filter1d signal=48 taps=2000 batch=1 mode=causal dtype=complex64 down=2 taps_dtype=complex64 nonfinite=any
//          state=carried
// config:  block_lines=1 factors=early radices=16x16 threads=32 twiddles=powers weights=global
//
// Overlap-discard with a partitioned filter: 10 lines of 256 complex numbers, each a partition. A thread block
// transforms the samples of a line, adds the products with the filter's spectra, and transforms the sum back. A
// second launch adds the sums of all thread blocks of a channel, and stores the outputs.

constexpr int kSamples = 48;  // of a channel's chunk
constexpr int kThreads = 32;
constexpr int kPoints = 256;  // complex numbers of a line
constexpr int kPartTaps = 209;  // taps of a partition
constexpr int kReach = 256;  // samples from the first one of a line to its last one
constexpr int kLines = 10;  // lines of a filter
constexpr int kBlockLines = 1;  // lines of a thread block
constexpr unsigned kParts = 10;  // thread blocks of a channel
constexpr int kColumns = 32;  // samples of a thread block that adds the parts' sums
constexpr int kFinishThreads = 128;

using Sample = float2;
using Result = float2;
using Tap = float2;
using Number = float2;  // a sample, or a sum, in registers
using Weight = float2;  // a tap in registers

__device__ __forceinline__ Number to_number(Sample element) { return element; }
__device__ __forceinline__ Weight to_weight(Tap element) { return element; }
__device__ __forceinline__ Result to_result(Number sum) { return sum; }

__device__ __forceinline__ Number zero() { return make_float2(0.0f, 0.0f); }
__device__ __forceinline__ void add(Number part, Number& sum) { sum.x += part.x, sum.y += part.y; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum.x = fmaf(weight.x, sample.x, sum.x);
    sum.x = fmaf(-weight.y, sample.y, sum.x);
    sum.y = fmaf(weight.x, sample.y, sum.y);
    sum.y = fmaf(weight.y, sample.x, sum.y);
}

constexpr int kTaps = 2000;

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
__device__ __forceinline__ void dft4(float2& x0, float2& x1, float2& x2, float2& x3) {
    const float2 even = x0 + x2, odd = x1 + x3, across = x0 - x2;
    const float2 rotated = times_minus_i(x1 - x3);
    x0 = even + odd;
    x2 = even - odd;
    x1 = across + rotated;
    x3 = across - rotated;
}
__device__ __forceinline__ void dft16(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15) {
    dft4(x0, x4, x8, x12);
    dft4(x1, x5, x9, x13);
    dft4(x2, x6, x10, x14);
    dft4(x3, x7, x11, x15);
    x5 = times(x5, 0.923879533f, -0.382683432f);
    x6 = times(x6, 0.707106781f, -0.707106781f);
    x7 = times(x7, 0.382683432f, -0.923879533f);
    x9 = times(x9, 0.707106781f, -0.707106781f);
    x10 = times_minus_i(x10);
    x11 = times(x11, -0.707106781f, -0.707106781f);
    x13 = times(x13, 0.382683432f, -0.923879533f);
    x14 = times(x14, -0.707106781f, -0.707106781f);
    x15 = times(x15, -0.923879533f, 0.382683432f);
    dft4(x0, x1, x2, x3);
    dft4(x4, x5, x6, x7);
    dft4(x8, x9, x10, x11);
    dft4(x12, x13, x14, x15);
    const float2 y4 = x4, y8 = x8, y12 = x12, y1 = x1, y9 = x9, y13 = x13, y2 = x2, y6 = x6, y14 = x14, y3 =
        x3, y7 = x7, y11 = x11;
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

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i k q / 256) for k = 1, 2, 4, 8, q = 0 to 15.
__device__ const float2 kTwiddles16x16[64] = {
{ 1.0f, 0.0f }, { 0.999698819f, -0.0245412285f }, { 0.998795456f, -0.0490676743f },
{ 0.997290457f, -0.0735645636f }, { 0.995184727f, -0.0980171403f }, { 0.992479535f, -0.122410675f },
{ 0.98917651f, -0.146730474f }, { 0.985277642f, -0.170961889f }, { 0.98078528f, -0.195090322f },
{ 0.97570213f, -0.21910124f }, { 0.970031253f, -0.24298018f }, { 0.963776066f, -0.266712757f },
{ 0.956940336f, -0.290284677f }, { 0.949528181f, -0.31368174f }, { 0.941544065f, -0.336889853f },
{ 0.932992799f, -0.359895037f }, { 1.0f, 0.0f }, { 0.998795456f, -0.0490676743f },
{ 0.995184727f, -0.0980171403f }, { 0.98917651f, -0.146730474f }, { 0.98078528f, -0.195090322f },
{ 0.970031253f, -0.24298018f }, { 0.956940336f, -0.290284677f }, { 0.941544065f, -0.336889853f },
{ 0.923879533f, -0.382683432f }, { 0.903989293f, -0.427555093f }, { 0.881921264f, -0.471396737f },
{ 0.85772861f, -0.514102744f }, { 0.831469612f, -0.555570233f }, { 0.803207531f, -0.595699304f },
{ 0.773010453f, -0.634393284f }, { 0.740951125f, -0.671558955f }, { 1.0f, 0.0f },
{ 0.995184727f, -0.0980171403f }, { 0.98078528f, -0.195090322f }, { 0.956940336f, -0.290284677f },
{ 0.923879533f, -0.382683432f }, { 0.881921264f, -0.471396737f }, { 0.831469612f, -0.555570233f },
{ 0.773010453f, -0.634393284f }, { 0.707106781f, -0.707106781f }, { 0.634393284f, -0.773010453f },
{ 0.555570233f, -0.831469612f }, { 0.471396737f, -0.881921264f }, { 0.382683432f, -0.923879533f },
{ 0.290284677f, -0.956940336f }, { 0.195090322f, -0.98078528f }, { 0.0980171403f, -0.995184727f },
{ 1.0f, 0.0f }, { 0.98078528f, -0.195090322f }, { 0.923879533f, -0.382683432f },
{ 0.831469612f, -0.555570233f }, { 0.707106781f, -0.707106781f }, { 0.555570233f, -0.831469612f },
{ 0.382683432f, -0.923879533f }, { 0.195090322f, -0.98078528f }, { 0.0f, -1.0f },
{ -0.195090322f, -0.98078528f }, { -0.382683432f, -0.923879533f }, { -0.555570233f, -0.831469612f },
{ -0.707106781f, -0.707106781f }, { -0.831469612f, -0.555570233f }, { -0.923879533f, -0.382683432f },
{ -0.98078528f, -0.195090322f },
};

constexpr int kStateWidth = 1999;  // samples of a channel in a row of the state
constexpr size_t kStatePitch = 1999;  // elements from one row to the next

// The samples of one channel.
struct Row {
    const Sample* samples;  // of the chunk
    const Sample* history;  // address past the newest sample before the chunk
};

__device__ __forceinline__ Row row_of(
    const Sample* signal, const Sample* state, size_t row) {
    return {signal + row * 48, state + (row + 1) * kStateWidth};
}

// Address of sample `time` of a channel, counted from the chunk's first one: at least 1 - kTaps.
__device__ __forceinline__ const Sample* address_of(const Row& row, int time) {
    return (time < 0 ? row.history : row.samples) + time;
}

// Sample `time` of a channel; zero after the chunk.
__device__ __forceinline__ Number sample_at(const Row& row, int time) {
    const Number sample = to_number(__ldg(address_of(row, min(time, kSamples - 1))));  // ptxas would wait in a branch
    return time < kSamples ? sample : zero();
}

// Address of sample `time` if it and the kReach - 1 samples after it lie one after the other before the chunk.
__device__ __forceinline__ const Sample* dense_from(const Row& row, int time) {
    return time + kReach <= 0 ? row.history + time : nullptr;
}

// Spectra of the filters' partitions, a line each, scaled, in the order in which the filtering kernel reads them.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
filter1d_partitioned_spectra(float2* __restrict__ spectra, const Weights weights) {
    extern __shared__ __align__(16) float2 tile[];
    constexpr int f = 0;
    const int first = static_cast<int>(blockIdx.x) * kPartTaps;  // first tap of the line
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 16u; i += 32) {
        const int line = i / 16u, item = i % 16u;
        const int q = item;
        float2* const element = tile + line * 271 + q;
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            const int place = k * 16 + item;
            // Tap n lies at sample -n, so that the circular convolution with the taps is the correlation.
            const int n = place == 0 ? 0 : kPoints - place;
            v[k] = make_float2(0.0f, 0.0f);
            if (n < kPartTaps && first + n < kTaps) {
                v[k] = tap(weights, f, first + n);
            }
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
        const float2 w1 = kTwiddles16x16[q];
        const float2 w2 = kTwiddles16x16[16 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles16x16[32 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles16x16[48 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            element[k * 17] = v[k];
        }
    }
    __syncthreads();
    spectra += static_cast<size_t>(blockIdx.x) * kPoints;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 16u; i += 32) {
        const int line = i / 16u, item = i % 16u;
        const int p = item;
        float2* const element = tile + line * 271 + p * 17;
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = element[k * 1];
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            spectra[k * 16 + item] = 0.00390625f * v[k];
        }
    }
}

// Sums of a thread block's partitions, for each output of its channel.
extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_partitioned(
    const Sample* __restrict__ signal, const Sample* __restrict__ state,
    const float2* __restrict__ spectra, Number* __restrict__ sums) {
    extern __shared__ __align__(16) float2 tile[];
    const unsigned row = blockIdx.x / kParts;
    const int begin = static_cast<int>(blockIdx.x % kParts) * kBlockLines, end = min(begin + kBlockLines, kLines);
    const Row own = row_of(signal, state, row);
    const int own_item = static_cast<int>(threadIdx.x);  // of the last pass, whose frequencies the thread adds
    float2 total[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        total[k] = make_float2(0.0f, 0.0f);
    }
#pragma unroll 1
    for (int number = begin; number < end; ++number) {
        const int first = number * kPartTaps - (kTaps - 1);
        const Sample* const dense = dense_from(own, first);
        const float2* const factors = spectra + (static_cast<size_t>(number) * kPoints + own_item);
        // The factors are on their way while the samples are transformed.
        float2 factor[16];
        if (own_item < 16) {
#pragma unroll
            for (int k = 0; k < 16; ++k) {
                factor[k] = __ldg(factors + k * 16);
            }
        }
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < 16u; i += 32) {
            const int line = i / 16u, item = i % 16u;
            const int q = item;
            float2* const element = tile + line * 271 + q;
            float2 v[16];
            if (dense != nullptr) {
                const Sample* const samples = dense + item;
#pragma unroll
                for (int k = 0; k < 16; ++k) {
                    v[k] = to_number(__ldg(samples + k * 16));
                }
            } else {
#pragma unroll
                for (int k = 0; k < 16; ++k) {
                    const int time = first + (k * 16 + item);
                    v[k] = sample_at(own, time);
                }
            }
            dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
                v[15]);
            const float2 w1 = kTwiddles16x16[q];
            const float2 w2 = kTwiddles16x16[16 + q];
            const float2 w3 = times(w2, w1);
            const float2 w4 = kTwiddles16x16[32 + q];
            const float2 w5 = times(w4, w1);
            const float2 w6 = times(w4, w2);
            const float2 w7 = times(w4, w3);
            const float2 w8 = kTwiddles16x16[48 + q];
            const float2 w9 = times(w8, w1);
            const float2 w10 = times(w8, w2);
            const float2 w11 = times(w8, w3);
            const float2 w12 = times(w8, w4);
            const float2 w13 = times(w8, w5);
            const float2 w14 = times(w8, w6);
            const float2 w15 = times(w8, w7);
            v[1] = times(v[1], w1);
            v[2] = times(v[2], w2);
            v[3] = times(v[3], w3);
            v[4] = times(v[4], w4);
            v[5] = times(v[5], w5);
            v[6] = times(v[6], w6);
            v[7] = times(v[7], w7);
            v[8] = times(v[8], w8);
            v[9] = times(v[9], w9);
            v[10] = times(v[10], w10);
            v[11] = times(v[11], w11);
            v[12] = times(v[12], w12);
            v[13] = times(v[13], w13);
            v[14] = times(v[14], w14);
            v[15] = times(v[15], w15);
#pragma unroll
            for (int k = 0; k < 16; ++k) {
                element[k * 17] = v[k];
            }
        }
        __syncthreads();
        if (own_item < 16) {
            const int item = own_item, line = 0;
            const int p = item;
            const float2* const element = tile + line * 271 + p * 17;
            float2 v[16];
#pragma unroll
            for (int k = 0; k < 16; ++k) {
                v[k] = element[k * 1];
            }
            dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
                v[15]);
#pragma unroll
            for (int k = 0; k < 16; ++k) {
                total[k] = total[k] + times(v[k], factor[k]);
            }
        }
        __syncthreads();
    }
    // Real and imaginary parts are swapped from here on, so that the forward DFTs compute the inverse.
    if (own_item < 16) {
        const int item = own_item, line = 0;
        const int p = item;
        float2* const element = tile + line * 271 + p * 17;
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = swapped(total[k]);
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            element[k * 1] = v[k];
        }
    }
    __syncthreads();
    sums += static_cast<size_t>(blockIdx.x) * kSamples;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 16u; i += 32) {
        const int line = i / 16u, item = i % 16u;
        const int q = item;
        float2* const element = tile + line * 271 + q;
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = element[k * 17];
        }
        const float2 w1 = kTwiddles16x16[q];
        const float2 w2 = kTwiddles16x16[16 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles16x16[32 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles16x16[48 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            sums[k * 16 + item] = swapped(v[k]);
        }
    }
}

// Adds the sums of all thread blocks of a channel in a fixed order, and stores the outputs.
extern "C" __global__ void __launch_bounds__(kFinishThreads)
filter1d_partitioned_finish(
    const Number* __restrict__ sums, Result* __restrict__ result) {
    constexpr int kGroups = 4;  // threads that add the parts of an output
    __shared__ Number added[kGroups][kColumns];
    constexpr unsigned kRowBlocks = 2;  // thread blocks of a channel
    const unsigned row = blockIdx.x / kRowBlocks;
    const int column = static_cast<int>(threadIdx.x) % kColumns, group = static_cast<int>(threadIdx.x) / kColumns;
    const int sample = static_cast<int>(blockIdx.x % kRowBlocks) * kColumns + column;
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
    const bool is_output = group == 0 && sample < kSamples && sample % 2 == 0;
    result += row * 24ull;
    if (is_output) {
        result[sample / 2] = to_result(sum);
    }
}

// Moves the state of each row on by the row's samples, in place: one thread has all places that depend on each other.
extern "C" __global__ void __launch_bounds__(256)
filter1d_partitioned_carry(
    const Sample* __restrict__ signal, Sample* __restrict__ state) {
    const unsigned long long item = blockIdx.x * 256ull + threadIdx.x;
    if (item >= 1999ull) {
        return;
    }
    const int place = item % kStateWidth;
    const int channel = item / kStateWidth % 1;
    const int row = item / kStateWidth / 1;
    constexpr int end = 48;
    const Sample* samples = signal + row * 48ll + channel * 48ll;
    constexpr int step = 48;  // samples that are new
    if (place >= step) {
        return;
    }
    Sample* target = state + row * kStatePitch + channel * 1999ll;
    constexpr int kMoved = 16;  // samples whose loads overlap
    for (int i = place; i < kStateWidth; i += kMoved * step) {
        Sample moved[kMoved];
#pragma unroll
        for (int k = 0; k < kMoved; ++k) {
            const int from = i + (k + 1) * step;
            if (from < kStateWidth + step) {
                moved[k] = from < kStateWidth ? target[from] : samples[end - step + from - kStateWidth];
            }
        }
#pragma unroll
        for (int k = 0; k < kMoved; ++k) {
            const int to = i + k * step;
            if (to < kStateWidth) {
                target[to] = moved[k];
            }
        }
    }
}
