// warpsmith filter1d_shared
// problem: filter1d signal=16777216 taps=31 batch=1 mode=full dtype=float32
// config:  align=64 outputs=1 threads=256 unroll=32 weights=constant windows=apart
//
// Overlap-discard: a block makes 256 outputs of one channel from a tile of 286 samples in shared memory.
// Blocks at the ends of the signal check each sample and each output; the others check none.
// The first block makes 14 outputs: the other tiles begin at multiples of 64 bytes.

constexpr int kSignal = 16777216;  // samples of a channel
constexpr int kOutputs = 16777246;
constexpr int kFirstSample = -272;  // of the first block's tile
constexpr unsigned kBlocks = 65538;  // of a channel
constexpr unsigned kFirstInside = 2;  // block whose samples and outputs all exist
constexpr unsigned kEndInside = 65536;
constexpr int kLength = 256;  // outputs of a block
constexpr int kRemainder = 14;  // outputs of the first block, which aligns the other blocks' tiles
constexpr int kThreads = 256;
constexpr int kOwn = 1;  // windows of a thread
constexpr int kPlaces = 286;  // of the tile

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

constexpr int kTaps = 31;

struct Weights {
    Tap taps[kTaps];
};

__constant__ Weights weights;

__device__ __forceinline__ Weight tap(const Weights& weights, int, int k) {
    return to_weight(weights.taps[k]);
}

// Adds the taps first to end - 1 of each window to its sum. `windows` is where tap 0 of the thread's first window lies.
__device__ __forceinline__ void add_taps(
    const Weights& weights, int filter, const Number* windows, int first, int end, Number (&sums)[kOwn]) {
#pragma unroll 32
    for (int k = first; k < end; ++k) {
        const Weight weight = tap(weights, filter, k);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            multiply_add(weight, windows[k + i * kThreads], sums[i]);
        }
    }
}

// Sums of the windows t, t + kThreads, ... of the tile, for thread t.
__device__ __forceinline__ void sum_windows(
    const Weights& weights, int filter, const Number* tile, Number (&sums)[kOwn]) {
    const Number* const windows = tile + threadIdx.x;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        sums[i] = zero();
    }
    add_taps(weights, filter, windows, 0, kTaps, sums);
}

extern "C" __global__ void __launch_bounds__(kThreads) filter1d_shared(
    const Sample* __restrict__ signal, Result* __restrict__ result) {
    __shared__ Number tile[kPlaces];
    const unsigned row = blockIdx.x / kBlocks;
    const unsigned block = blockIdx.x % kBlocks;
    const int filter = 0;
    const int first = kFirstSample + static_cast<int>(block) * 256;
    const int output = static_cast<int>(block) * kLength + (kRemainder - kLength);
    const bool is_inside = block >= kFirstInside && block < kEndInside;
    signal += row * 16777216ull;
    result += row * 16777246ull;

    if (is_inside) {
        const Sample* const samples = signal + first;
#pragma unroll 1
        for (int round = 0; round < 1; ++round) {
            const int i = round * kThreads + static_cast<int>(threadIdx.x);
            tile[i] = to_number(__ldg(samples + i));
        }
        if (threadIdx.x < 30) {
            const int i = 1 * kThreads + static_cast<int>(threadIdx.x);
            tile[i] = to_number(__ldg(samples + i));
        }
    } else {
        // Zeros stand for samples beyond the ends of the signal.
#pragma unroll 1
        for (int round = 0; round < 1; ++round) {
            const int i = round * kThreads + static_cast<int>(threadIdx.x);
            tile[i] = first + i >= 0 && first + i < kSignal ? to_number(__ldg(signal + (first + i))) : zero();
        }
        if (threadIdx.x < 30) {
            const int i = 1 * kThreads + static_cast<int>(threadIdx.x);
            tile[i] = first + i >= 0 && first + i < kSignal ? to_number(__ldg(signal + (first + i))) : zero();
        }
    }
    __syncthreads();

    Number sums[kOwn];
    sum_windows(weights, filter, tile, sums);
    if (is_inside) {
        Result* const results = result + output;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            results[i * kThreads + static_cast<int>(threadIdx.x)] = to_result(sums[i]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const int at = output + i * kThreads + static_cast<int>(threadIdx.x);
        if (at >= 0 && at < kOutputs) {
            result[at] = to_result(sums[i]);
        }
    }
}
