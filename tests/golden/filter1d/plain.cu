// warpsmith filter1d_plain
// problem: filter1d signal=16777216 taps=33 batch=1 mode=full dtype=float32
// config:  threads=256 unroll=1 weights=global
//
// One output per thread; each sample and each tap is read from global memory where it is used. The baseline that a
// tuned kernel has to beat.

constexpr unsigned kElements = 16777248;  // of the result
constexpr int kSignal = 16777216;  // samples of a channel
constexpr int kFirstLag = -32;  // sample under tap 0 of the first output
constexpr int kThreads = 256;

using Sample = float;
using Result = float;
using Tap = float;
using Number = float;  // a sample, or a sum, in registers
using Weight = float;  // a tap in registers

__device__ __forceinline__ Number to_number(Sample element) { return element; }
__device__ __forceinline__ Weight to_weight(Tap element) { return element; }
__device__ __forceinline__ Result to_result(Number sum) { return sum; }

__device__ __forceinline__ Number zero() { return 0.0f; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum = fmaf(weight, sample, sum);
}

constexpr int kTaps = 33;

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
    const int output = index;
    constexpr int filter = 0;

    // Taps first to end - 1 meet samples of the signal; the others meet zeros outside of it.
    const int lag = kFirstLag + output;
    const int first = lag < 0 ? -lag : 0;
    const int end = kSignal - lag < kTaps ? kSignal - lag : kTaps;
    Number sum = zero();
#pragma unroll 1
    for (int k = first; k < end; ++k) {
        multiply_add(tap(weights, filter, k), to_number(__ldg(signal + lag + k)), sum);
    }
    result[output] = to_result(sum);
}
