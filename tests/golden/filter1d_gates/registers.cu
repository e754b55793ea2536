// warpsmith filter1d_registers
// problem: filter1d signal=8192 taps=7 batch=1 mode=causal dtype=bfloat16 channels=8192 filters=512 taps_dtype=bfloat16
//          gates=both
// config:  block_columns=128 block_rows=1 exchange=direct load_vector=8 min_blocks=0 outputs=8 path=global
//          store=streaming store_vector=8 turn=0 weights=global
//
// A thread computes kThreadOutputs adjacent outputs of a channel in registers; a block has kColumns threads along the
// signal for each of kRows channels.

constexpr int kSignal = 8192;  // samples of a channel
constexpr int kOutputs = 8192;  // outputs of a channel
constexpr int kFirstLag = -6;  // sample under tap 0 of the first output
constexpr int kDown = 1;  // samples from one output to the next
constexpr int kThreadOutputs = 8;
constexpr int kColumns = 128;  // threads of a block along the signal
constexpr int kRows = 1;  // channels of a block
constexpr unsigned kRowBlocks = 8;  // blocks along the signal
constexpr int kLoadVector = 8;  // samples per load from global memory
constexpr int kStoreVector = 8;  // outputs per store
constexpr int kLead = 2;  // samples from an aligned load to the window
constexpr int kSkipped = 2;  // samples that a thread's aligned loads read before its window
constexpr int kWindow = 16;  // samples of a thread in registers

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

__device__ __forceinline__ Weight to_weight(Tap bits) { return bfloat_to_float(bits); }

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

using LoadVector = uint4;
using StoreVector = uint4;

__device__ __forceinline__ void unpack(uint4 vector, float* numbers) {
    numbers[0] = __uint_as_float(vector.x << 16);
    numbers[1] = __uint_as_float(vector.x & 0xffff0000u);
    numbers[2] = __uint_as_float(vector.y << 16);
    numbers[3] = __uint_as_float(vector.y & 0xffff0000u);
    numbers[4] = __uint_as_float(vector.z << 16);
    numbers[5] = __uint_as_float(vector.z & 0xffff0000u);
    numbers[6] = __uint_as_float(vector.w << 16);
    numbers[7] = __uint_as_float(vector.w & 0xffff0000u);
}

#ifndef WARPSMITH_ON_HOST  // the host device defines this itself
__device__ __forceinline__ unsigned bfloat_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

__device__ __forceinline__ uint4 pack(const Number* sums) {
    return make_uint4(bfloat_pair(sums[0], sums[1]),
                      bfloat_pair(sums[2], sums[3]),
                      bfloat_pair(sums[4], sums[5]),
                      bfloat_pair(sums[6], sums[7]));
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

#ifndef WARPSMITH_ON_HOST  // the host device defines this itself
__device__ __forceinline__ unsigned multiply_bfloat2(unsigned a, unsigned b) {
#if __CUDA_ARCH__ >= 800
    unsigned products;
    constexpr unsigned kMinusZeros = 0x80008000u;  // which add nothing
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(products) : "r"(a), "r"(b), "r"(kMinusZeros));
    return products;
#else
    const float low = __uint_as_float(a << 16) * __uint_as_float(b << 16);
    const float high = __uint_as_float(a & 0xffff0000u) * __uint_as_float(b & 0xffff0000u);
    return float_to_bfloat(low) | static_cast<unsigned>(float_to_bfloat(high)) << 16;
#endif
}
#endif

// Samples times their gates, rounded to the type of the signal.
__device__ __forceinline__ uint4 gated(uint4 samples, uint4 gates) {
    return make_uint4(multiply_bfloat2(samples.x, gates.x), multiply_bfloat2(samples.y, gates.y),
                      multiply_bfloat2(samples.z, gates.z), multiply_bfloat2(samples.w, gates.w));
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

// Stores a vector of sums times the gates of their results.
__device__ __forceinline__ void store_gated(const GatedResults& to, const float* sums) {
    float products[8];
    const StoreVector vector = __ldg(reinterpret_cast<const StoreVector*>(to.gates));
    products[0] = gate_to_float(static_cast<Result>(vector.x & 0xffffu));
    products[1] = gate_to_float(static_cast<Result>(vector.x >> 16));
    products[2] = gate_to_float(static_cast<Result>(vector.y & 0xffffu));
    products[3] = gate_to_float(static_cast<Result>(vector.y >> 16));
    products[4] = gate_to_float(static_cast<Result>(vector.z & 0xffffu));
    products[5] = gate_to_float(static_cast<Result>(vector.z >> 16));
    products[6] = gate_to_float(static_cast<Result>(vector.w & 0xffffu));
    products[7] = gate_to_float(static_cast<Result>(vector.w >> 16));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        products[i] *= sums[i];
    }
    __stcs(reinterpret_cast<StoreVector*>(to.results), pack(products));
}

// Samples `start` to start + kLoadVector - 1 of a channel, zeros outside of the signal.
__device__ __forceinline__ void load_guarded(GatedSamples samples, int start, Number* numbers) {
    if (start >= 0 && start < kSignal) {  // the signal is whole vectors
        unpack(load_gated<LoadVector>(samples + start), numbers);
        return;
    }
#pragma unroll
    for (int i = 0; i < kLoadVector; ++i) {
        numbers[i] = zero();
    }
}

// Adds taps first to first + kCount - 1 to the sums. Tap `first` of output 0 meets samples[kSkipped].
template <int kCount>
__device__ __forceinline__ void add_taps(
    const Weights& weights, int filter, int first, const Number* samples, Number* sums) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
        const Weight weight = tap(weights, filter, first + k);
#pragma unroll
        for (int i = 0; i < kThreadOutputs; ++i) {
            multiply_add(weight, samples[kSkipped + i * kDown + k], sums[i]);
        }
    }
}

// Stores outputs `output` to output + kStoreVector - 1.
__device__ __forceinline__ void store(GatedResults result, int output, const Number* sums) {
    store_gated(result + output, sums);
}

// Stores the outputs of a thread.
__device__ __forceinline__ void store_sums(GatedResults result, int output, const Number* sums) {
#pragma unroll
    for (int i = 0; i < kThreadOutputs; i += kStoreVector) {
        store(result, output + i, sums + i);
    }
}

extern "C" __global__ void __launch_bounds__(kColumns * kRows)
filter1d_registers(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights,
    const Sample* __restrict__ gate_before, const Result* __restrict__ gate_after) {
    GatedSamples gated_signal{signal, gate_before};
    GatedResults gated_result{result, gate_after};
    const unsigned row = blockIdx.x / kRowBlocks;
    const int filter = row / 16;
    gated_signal += row * 8192ull;
    gated_result += row * 8192ull;
    const int block_output = static_cast<int>(blockIdx.x % kRowBlocks) * (kColumns * kThreadOutputs);
    const int output = block_output + static_cast<int>(threadIdx.x * kThreadOutputs);
    if (output >= kOutputs) {
        return;
    }

    Number sums[kThreadOutputs] = {};
    Number samples[kWindow];
    const int start = output * kDown + (kFirstLag - kLead);
    if (start >= 0 && start + kWindow <= kSignal) {
#pragma unroll
        for (int i = 0; i < kWindow; i += kLoadVector) {
            unpack(load_gated<LoadVector>(gated_signal + (start + i)), samples + i);
        }
    } else {
#pragma unroll
        for (int i = 0; i < kWindow; i += kLoadVector) {
            load_guarded(gated_signal, start + i, samples + i);
        }
    }
    add_taps<kTaps>(weights, filter, 0, samples, sums);

    store_sums(gated_result, output, sums);
}
