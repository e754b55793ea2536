// warpsmith filter1d_scatter
// problem: filter1d signal=16777216 taps=33 batch=1 mode=full dtype=float32
// config:  threads=256 unroll=64 weights=argument
//
// One sample per thread, which adds its products into the outputs. The order of these additions, and so the last bits
// of a result, may differ from run to run.

constexpr unsigned kElements = 16777216;  // of the signal
constexpr int kSignal = 16777216;  // samples of a channel
constexpr int kOutputs = 16777248;
constexpr int kFirstLag = -32;  // sample under tap 0 of the first output
constexpr int kChannels = 1;
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
__device__ __forceinline__ void add(Number part, Number& sum) { sum += part; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum = fmaf(weight, sample, sum);
}

constexpr int kTaps = 33;

struct Weights {
    Tap taps[kTaps];
};

__device__ __forceinline__ Weight tap(const Weights& weights, int, int k) {
    return to_weight(weights.taps[k]);
}

extern "C" __global__ void __launch_bounds__(kThreads) filter1d_scatter_zero(Result* __restrict__ result) {
    const unsigned index = static_cast<unsigned>(blockIdx.x) * kThreads + threadIdx.x;
    if (index < 16777248) {
        result[index / kOutputs * 16777248ull + index % kOutputs] = zero();
    }
}

__device__ __forceinline__ void add_atomically(Result* result, Number sum) {
    atomicAdd(result, sum);
}

extern "C" __global__ void __launch_bounds__(kThreads) filter1d_scatter(
    const Sample* __restrict__ signal, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    const unsigned index = static_cast<unsigned>(blockIdx.x) * kThreads + threadIdx.x;
    if (index >= kElements) {
        return;
    }
    const int time = index % kSignal;
    const int channel = index / kSignal % kChannels;
    const int batch = index / kSignal / kChannels;
    const int filter = 0;
    signal += batch * 16777216ull + channel * 16777216ull;
    result += batch * 16777248ull + channel * 16777248ull;

    const Number sample = to_number(__ldg(signal + time));
#pragma unroll 64
    for (int k = 0; k < kTaps; ++k) {
        const int output = time - kFirstLag - k;
        if (output >= 0 && output < kOutputs) {
            Number product = zero();
            multiply_add(tap(weights, filter, k), sample, product);
            add_atomically(result + output, product);
        }
    }
}
