// warpsmith filter1d_plain
// problem: filter1d signal=8192 taps=600 batch=8 mode=causal dtype=bfloat16 channels=2048 filters=512 layout=btc
// config:  threads=256 unroll=1 weights=global
//
// One output per thread; each sample and each tap is read from global memory where it is used. The baseline that a
// tuned kernel has to beat.

constexpr unsigned kElements = 134217728;  // of the result
constexpr int kSignal = 8192;  // samples of a channel
constexpr int kOutputs = 8192;
constexpr int kFirstLag = -599;  // sample under tap 0 of the first output
constexpr int kChannels = 2048;
constexpr int kThreads = 256;
constexpr int kChain = 256;  // taps added in sequence; longer sums are sums of such partial sums

using Sample = unsigned short;  // bfloat16 bits
using Result = unsigned short;  // bfloat16 bits
using Tap = float;
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
__device__ __forceinline__ Weight to_weight(Tap element) { return element; }
__device__ __forceinline__ Result to_result(Number sum) { return float_to_bfloat(sum); }

__device__ __forceinline__ Number zero() { return 0.0f; }
__device__ __forceinline__ void add(Number part, Number& sum) { sum += part; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum = fmaf(weight, sample, sum);
}

constexpr int kTaps = 600;

struct Weights {
    const Tap* taps;  // [filters][kTaps]
};

__device__ __forceinline__ Weight tap(const Weights& weights, int f, int k) {
    return to_weight(__ldg(weights.taps + static_cast<size_t>(f) * kTaps + k));
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_plain(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights) {
    const unsigned index = blockIdx.x * kThreads + threadIdx.x;
    if (index >= kElements) {
        return;
    }
    const int channel = index % kChannels;
    const int output = index / kChannels % kOutputs;
    const int batch = index / kChannels / kOutputs;
    signal += batch * 16777216ull + channel;
    result += batch * 16777216ull + channel;
    const int filter = channel / 4;

    // Taps first to end - 1 meet samples of the signal; the others meet zeros outside of it.
    const int lag = kFirstLag + output;
    const int first = lag < 0 ? -lag : 0;
    const int end = kSignal - lag < kTaps ? kSignal - lag : kTaps;
    Number sum = zero();
    for (int start = first; start < end; start += kChain) {
        const int stop = min(start + kChain, end);
        Number part = zero();
#pragma unroll 1
        for (int k = start; k < stop; ++k) {
            multiply_add(tap(weights, filter, k), to_number(__ldg(signal + (lag + k) * 2048ll)), part);
        }
        add(part, sum);
    }
    result[output * 2048ll] = to_result(sum);
}
