// warpsmith filter1d_plain
// problem: filter1d signal=65536 taps=4 batch=1 mode=causal dtype=bfloat16 channels=4096 filters=4096
//          taps_dtype=bfloat16 bias=yes activation=silu state=both packed=64
// config:  threads=256 unroll=1 weights=global
//
// One output per thread; each sample and each tap is read from global memory where it is used. The baseline that a
// tuned kernel has to beat.

constexpr unsigned kElements = 268435456;  // of the result
constexpr int kOutputs = 65536;
constexpr int kFirstLag = -3;  // sample under tap 0 of the first output
constexpr int kThreads = 256;
constexpr unsigned kBlocks = 1048576;  // blocks that filter, before those that write `after`

using Sample = unsigned short;  // bfloat16 bits
using Result = unsigned short;  // bfloat16 bits
using Tap = unsigned short;  // bfloat16 bits
using Number = float;  // a sample, or a sum, in registers
using Weight = float;  // a tap in registers

// A bfloat16 is the upper half of a float.
__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// Rounds to nearest even; a NaN stays a NaN.
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return static_cast<unsigned short>(value != value ? 0x7fffu : rounded >> 16);
#endif
}

__device__ __forceinline__ Number to_number(Sample bits) { return bfloat_to_float(bits); }
__device__ __forceinline__ Weight to_weight(Tap bits) { return bfloat_to_float(bits); }
__device__ __forceinline__ Result to_result(Number sum) { return float_to_bfloat(sum); }

__device__ __forceinline__ Number zero() { return 0.0f; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum = fmaf(weight, sample, sum);
}

constexpr int kTaps = 4;

struct Weights {
    const Tap* taps;  // [filters][kTaps]
};

__device__ __forceinline__ Weight tap(const Weights& weights, int f, int k) {
    return to_weight(__ldg(weights.taps + static_cast<size_t>(f) * kTaps + k));
}

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

// SiLU of a sum and its bias: x / (1 + exp(-x)).
__device__ __forceinline__ Number finish(Number sum, Weight bias) {
    sum += bias;
    constexpr float kLog2E = 1.44269504f;  // exp(-x) is 2^(-x log2(e)); it is infinite below x = -88.7
    return sum * reciprocal_approximate(1.0f + exp2_approximate(-kLog2E * sum));
}

constexpr int kSequences = 64;
constexpr int kStateWidth = 3;  // samples of a channel in a row of the state
constexpr size_t kStatePitch = 12288;  // elements from one row to the next

// First sample of a sequence, and the end of the last one for kSequences: within the signal, whatever `starts` holds.
__device__ __forceinline__ int start_of(const int* starts, int sequence) {
    return min(max(__ldg(starts + sequence), 0), 65536);
}

// Sequence of a sample: the last one that begins there or before.
__device__ __forceinline__ int sequence_of(const int* starts, int time) {
    int first = 0, last = kSequences - 1;
    while (first < last) {
        const int middle = first + (last - first + 1) / 2;
        if (__ldg(starts + middle) <= time) {
            first = middle;
        } else {
            last = middle - 1;
        }
    }
    return first;
}

// Copies element `item` of the last samples of all rows. Where a row is shorter, older ones come from before it.
__device__ __forceinline__ void write_after(
    unsigned item, const Sample* signal, const Sample* before, Sample* after, const int* starts) {
    if (item >= 786432u) {
        return;
    }
    const int place = item % kStateWidth;
    const int channel = item / kStateWidth % 4096;
    const int row = item / kStateWidth / 4096;
    const int begin = start_of(starts, row);
    const int end = max(begin, start_of(starts, row + 1));
    const Sample* samples = signal + channel * 65536ll;
    const int time = end - kStateWidth + place;
    if (time >= begin) {
        after[item] = samples[time];
    } else {
        after[item] = before[item + (end - begin)];
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_plain(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights,
    const Tap* __restrict__ bias,
    const Sample* __restrict__ before, Sample* __restrict__ after, const int* __restrict__ starts) {
    if (blockIdx.x >= kBlocks) {
        const unsigned item = (blockIdx.x - kBlocks) * kThreads + threadIdx.x;
        write_after(item, signal, before, after, starts);
        return;
    }
    const unsigned index = blockIdx.x * kThreads + threadIdx.x;
    if (index >= kElements) {
        return;
    }
    const int output = index % kOutputs;
    const unsigned row = index / kOutputs;  // a channel of a signal
    signal += row * 65536ull;
    result += row * 65536ull;
    const int filter = row;

    const int sequence = sequence_of(starts, output);
    const int begin = min(static_cast<int>(start_of(starts, sequence)), output);  // first sample of its sequence
    const Sample* history = before + sequence * kStatePitch + row * 3ll + kStateWidth;
    // A window ends at a sample of its sequence. Taps before `first` meet samples of the state.
    const int lag = kFirstLag + output;
    constexpr int first = 0;
    constexpr int end = kTaps;
    Number sum = zero();
#pragma unroll 1
    for (int k = first; k < end; ++k) {
        const Sample* sample = lag + k >= begin ? signal + lag + k
                                                  : history + (lag + k - begin);
        multiply_add(tap(weights, filter, k), to_number(__ldg(sample)), sum);
    }
    result[output] = to_result(finish(sum, to_weight(__ldg(bias + row))));
}
