// warpsmith filter1d_plain
// problem: filter1d signal=8192 taps=7 batch=1 mode=causal dtype=bfloat16 channels=8192 filters=512 taps_dtype=bfloat16
//          gates=both
// config:  threads=256 unroll=1 weights=global
//
// One output per thread; each sample and each tap is read from global memory where it is used. The baseline that a
// tuned kernel has to beat.

constexpr unsigned kElements = 67108864;  // of the result
constexpr int kSignal = 8192;  // samples of a channel
constexpr int kOutputs = 8192;
constexpr int kFirstLag = -6;  // sample under tap 0 of the first output
constexpr int kThreads = 256;

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

constexpr int kTaps = 7;

struct Weights {
    const Tap* taps;  // [filters][kTaps]
};

__device__ __forceinline__ Weight tap(const Weights& weights, int f, int k) {
    return to_weight(__ldg(weights.taps + static_cast<size_t>(f) * kTaps + k));
}

// Samples of a channel and the gates that multiply them.
struct GatedSamples {
    const Sample* samples;
    const Sample* gates;

    __device__ __forceinline__ GatedSamples operator+(long long elements) const {
        GatedSamples moved = *this;
        moved.samples += elements, moved.gates += elements;
        return moved;
    }
    __device__ __forceinline__ void operator+=(unsigned long long elements) { samples += elements, gates += elements; }
};

// Samples times their gates, rounded to the type of the signal.
__device__ __forceinline__ Sample gated(Sample sample, Sample gate) {
    return float_to_bfloat(bfloat_to_float(sample) * bfloat_to_float(gate));
}

template <typename Vector>
__device__ __forceinline__ Vector load_gated(const GatedSamples& at) {
    return gated(__ldg(reinterpret_cast<const Vector*>(at.samples)), __ldg(reinterpret_cast<const Vector*>(at.gates)));
}

// Results of a channel and the gates that multiply them.
struct GatedResults {
    Result* results;
    const Result* gates;

    __device__ __forceinline__ GatedResults operator+(long long elements) const {
        GatedResults moved = *this;
        moved.results += elements, moved.gates += elements;
        return moved;
    }
    __device__ __forceinline__ void operator+=(unsigned long long elements) { results += elements, gates += elements; }
};

__device__ __forceinline__ float gate_to_float(Result gate) { return bfloat_to_float(gate); }

// A sum times the gate of its result.
__device__ __forceinline__ Result gated_output(float sum, const GatedResults& to) {
    return to_result(sum * gate_to_float(__ldg(to.gates)));
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_plain(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights,
    const Sample* __restrict__ gate_before, const Result* __restrict__ gate_after) {
    const unsigned index = blockIdx.x * kThreads + threadIdx.x;
    if (index >= kElements) {
        return;
    }
    GatedSamples gated_signal{signal, gate_before};
    GatedResults gated_result{result, gate_after};
    const int output = index % kOutputs;
    const unsigned row = index / kOutputs;  // a channel of a signal
    gated_signal += row * 8192ull;
    gated_result += row * 8192ull;
    const int filter = row / 16;

    // Taps first to end - 1 meet samples of the signal; the others meet zeros outside of it.
    const int lag = kFirstLag + output;
    const int first = lag < 0 ? -lag : 0;
    const int end = kSignal - lag < kTaps ? kSignal - lag : kTaps;
    Number sum = zero();
#pragma unroll 1
    for (int k = first; k < end; ++k) {
        multiply_add(tap(weights, filter, k), to_number(load_gated<Sample>(gated_signal + lag + k)), sum);
    }
    gated_result.results[output] = gated_output(sum, gated_result + output);
}
