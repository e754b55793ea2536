// warpsmith filter1d_registers
// problem: filter1d signal=8192 taps=4 batch=8 mode=causal dtype=bfloat16 channels=2048 filters=2048
// config:  block_columns=128 block_rows=1 exchange=direct load_vector=8 min_blocks=0 outputs=8 path=global
//          store=streaming store_vector=8 turn=0 weights=global
//
// A thread computes kThreadOutputs adjacent outputs of a channel in registers; a block has kColumns threads along the
// signal for each of kRows channels.

constexpr int kSignal = 8192;  // samples of a channel
constexpr int kOutputs = 8192;  // outputs of a channel
constexpr int kFirstLag = -3;  // sample under tap 0 of the first output
constexpr int kDown = 1;  // samples from one output to the next
constexpr int kThreadOutputs = 8;
constexpr int kColumns = 128;  // threads of a block along the signal
constexpr int kRows = 1;  // channels of a block
constexpr unsigned kRowBlocks = 8;  // blocks along the signal
constexpr int kLoadVector = 8;  // samples per load from global memory
constexpr int kStoreVector = 8;  // outputs per store
constexpr int kLead = 5;  // samples from an aligned load to the window
constexpr int kSkipped = 5;  // samples that a thread's aligned loads read before its window
constexpr int kWindow = 16;  // samples of a thread in registers

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

__device__ __forceinline__ Weight to_weight(Tap element) { return element; }

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

// Samples `start` to start + kLoadVector - 1 of a channel, zeros outside of the signal.
__device__ __forceinline__ void load_guarded(const Sample* samples, int start, Number* numbers) {
    if (start >= 0 && start < kSignal) {  // the signal is whole vectors
        unpack(__ldg(reinterpret_cast<const LoadVector*>(samples + start)), numbers);
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
__device__ __forceinline__ void store(Result* result, int output, const Number* sums) {
    __stcs(reinterpret_cast<StoreVector*>(result + output), pack(sums));
}

// Stores the outputs of a thread.
__device__ __forceinline__ void store_sums(Result* result, int output, const Number* sums) {
#pragma unroll
    for (int i = 0; i < kThreadOutputs; i += kStoreVector) {
        store(result, output + i, sums + i);
    }
}

extern "C" __global__ void __launch_bounds__(kColumns * kRows)
filter1d_registers(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights) {
    const unsigned row = blockIdx.x / kRowBlocks;
    const int filter = row % 2048;
    signal += row * 8192ull;
    result += row * 8192ull;
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
            unpack(__ldg(reinterpret_cast<const LoadVector*>(signal + start + i)), samples + i);
        }
    } else {
#pragma unroll
        for (int i = 0; i < kWindow; i += kLoadVector) {
            load_guarded(signal, start + i, samples + i);
        }
    }
    add_taps<kTaps>(weights, filter, 0, samples, sums);

    store_sums(result, output, sums);
}
