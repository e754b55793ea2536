// warpsmith filter1d_channels
// problem: filter1d signal=1048576 taps=33 batch=1 mode=full dtype=complex64 channels=4 layout=btc down=2 pitch=40
// config:  block_columns=4 block_rows=32 min_blocks=0 outputs=4 store=streaming store_vector=1 vector=1 walk=taps
//          weights=argument
//
// A thread filters kVector adjacent channels for kThreadOutputs adjacent outputs. It loads each sample of its windows
// once, and keeps the samples of its outputs in registers while it goes on tap by tap.

constexpr int kSignal = 1048576;  // samples of a channel
constexpr int kOutputs = 524304;  // outputs of a channel
constexpr int kFirstLag = -32;  // sample under tap 0 of the first output
constexpr int kDown = 2;  // samples from one output to the next
constexpr size_t kPitch = 5;  // elements from one sample to the next
constexpr size_t kResultPitch = 4;
constexpr int kVector = 1;  // channels of a thread
constexpr int kStoreVector = 1;  // channels per store
constexpr int kThreadOutputs = 4;
constexpr int kColumns = 4;  // threads of a block across the channels
constexpr int kRows = 32;  // threads of a block along the signal
constexpr unsigned kChannelBlocks = 1;  // blocks across the channels
constexpr int kWindow = 39;  // samples of the windows of a thread

using Sample = float2;
using Result = float2;
using Tap = float;
using Number = float2;  // a sample, or a sum, in registers
using Weight = float;  // a tap in registers

__device__ __forceinline__ Number to_number(Sample element) { return element; }
__device__ __forceinline__ Weight to_weight(Tap element) { return element; }
__device__ __forceinline__ Result to_result(Number sum) { return sum; }

__device__ __forceinline__ Number zero() { return make_float2(0.0f, 0.0f); }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum.x = fmaf(weight, sample.x, sum.x);
    sum.y = fmaf(weight, sample.y, sum.y);
}

constexpr int kTaps = 33;

struct Weights {
    Tap taps[kTaps];
};

__device__ __forceinline__ Weight tap(const Weights& weights, int, int k) {
    return to_weight(weights.taps[k]);
}

using LoadVector = float2;
using StoreVector = float2;

__device__ __forceinline__ void unpack(Sample sample, Number* numbers) { numbers[0] = to_number(sample); }

__device__ __forceinline__ Result pack(const Number* sums) { return to_result(sums[0]); }

// The taps of a thread's channels, the same for all.
struct Taps {
    const Weights& weights;

    __device__ __forceinline__ Weight of(int k, int) const {
        return tap(weights, 0, k);
    }
};

// Stores an output of each channel.
__device__ __forceinline__ void store(Result* results, const Number* sums) {
#pragma unroll
    for (int lane = 0; lane < kVector; lane += kStoreVector) {
        __stcs(reinterpret_cast<StoreVector*>(results + lane), pack(sums + lane));
    }
}

// Loads sample `row` from `start` on of each channel, zeros outside of the signal, which has it if `is_inside`.
template <bool is_inside>
__device__ __forceinline__ void load(const Sample* samples, int start, int row, Number* numbers) {
    if (is_inside || (start + row >= 0 && start + row < kSignal)) {
        unpack(__ldg(reinterpret_cast<const LoadVector*>(samples + row * kPitch)), numbers);
    } else {
#pragma unroll
        for (int lane = 0; lane < kVector; ++lane) {
            numbers[lane] = zero();
        }
    }
}

// Filters the samples from `start` on, of which the signal has all if `is_inside`. Stores as many outputs as there are.
template <bool is_inside>
__device__ __forceinline__ void filter_channels(const Sample* samples, int start, Result* results, int outputs,
                                                const Taps& taps) {
    Number sums[kThreadOutputs][kVector] = {};
    Number window[kWindow][kVector];
#pragma unroll
    for (int row = 0; row < kWindow - kTaps; ++row) {
        load<is_inside>(samples, start, row, window[row]);
    }
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
        load<is_inside>(samples, start, kWindow - kTaps + k, window[kWindow - kTaps + k]);
#pragma unroll
        for (int lane = 0; lane < kVector; ++lane) {
            const Weight weight = taps.of(k, lane);
#pragma unroll
            for (int i = 0; i < kThreadOutputs; ++i) {
                multiply_add(weight, window[i * kDown + k][lane], sums[i][lane]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kThreadOutputs; ++i) {
        if (is_inside || i < outputs) {
            store(results + i * kResultPitch, sums[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kColumns * kRows)
filter1d_channels(
    const Sample* __restrict__ signal, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    const int block_channel = blockIdx.x % kChannelBlocks * (kColumns * kVector);
    const int channel = block_channel + threadIdx.x * kVector;
    const int time_block = blockIdx.x / kChannelBlocks;
    const int output = (time_block * kRows + threadIdx.y) * kThreadOutputs;
    const Taps taps{weights};
    if (output >= kOutputs) {
        return;
    }
    const int start = output * kDown + kFirstLag;
    const Sample* samples = signal + start * static_cast<long long>(kPitch) + channel;
    Result* results = result + output * kResultPitch + channel;
    if (start >= 0 && start + kWindow <= kSignal && output + kThreadOutputs <= kOutputs) {
        filter_channels<true>(samples, start, results, kThreadOutputs, taps);
    } else {
        const int outputs = static_cast<int>(min(kOutputs - output, static_cast<int>(kThreadOutputs)));
        filter_channels<false>(samples, start, results, outputs, taps);
    }
}
