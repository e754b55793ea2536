// warpsmith filter1d_registers
// problem: filter1d signal=16777216 taps=5 batch=1 mode=full dtype=float32
// config:  block_columns=128 block_rows=1 exchange=direct load_vector=4 min_blocks=0 outputs=4 path=global
//          store=streaming store_vector=4 turn=0 weights=argument
//
// A thread computes kThreadOutputs adjacent outputs of a channel in registers; a block has kColumns threads along the
// signal for each of kRows channels.

constexpr int kSignal = 16777216;  // samples of a channel
constexpr int kOutputs = 16777220;  // outputs of a channel
constexpr int kFirstLag = -4;  // sample under tap 0 of the first output
constexpr int kDown = 1;  // samples from one output to the next
constexpr int kThreadOutputs = 4;
constexpr int kColumns = 128;  // threads of a block along the signal
constexpr int kRows = 1;  // channels of a block
constexpr int kLoadVector = 4;  // samples per load from global memory
constexpr int kStoreVector = 4;  // outputs per store
constexpr int kLead = 0;  // samples from an aligned load to the window
constexpr int kSkipped = 0;  // samples that a thread's aligned loads read before its window
constexpr int kWindow = 8;  // samples of a thread in registers

using Sample = float;
using Result = float;
using Tap = float;
using Number = float;  // a sample, or a sum, in registers
using Weight = float;  // a tap in registers

__device__ __forceinline__ Weight to_weight(Tap element) { return element; }

__device__ __forceinline__ Number zero() { return 0.0f; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum = fmaf(weight, sample, sum);
}

constexpr int kTaps = 5;

struct Weights {
    Tap taps[kTaps];
};

__device__ __forceinline__ Weight tap(const Weights& weights, int, int k) {
    return to_weight(weights.taps[k]);
}

using LoadVector = float4;
using StoreVector = float4;

__device__ __forceinline__ void unpack(float4 vector, float* numbers) {
    numbers[0] = vector.x;
    numbers[1] = vector.y;
    numbers[2] = vector.z;
    numbers[3] = vector.w;
}

__device__ __forceinline__ float4 pack(const float* sums) {
    return make_float4(sums[0], sums[1], sums[2], sums[3]);
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
    const Sample* __restrict__ signal, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    constexpr int filter = 0;
    const int block_output = static_cast<int>(blockIdx.x) * (kColumns * kThreadOutputs);
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
