// warpsmith filter1d_overlap_add
// problem: filter1d signal=16777216 taps=33 batch=1 mode=full dtype=float32
// config:  outputs=8 run=0 steps=2 threads=256 unroll=64 way=steps weights=argument windows=apart
//
// Overlap-add: blocks of 2016 samples, each with 2048 sums.
// Launches one after the other add the blocks, each those that share no output.

constexpr int kOutputs = 16777248;  // of a channel
constexpr int kBase = 0;  // first sample of block 0
constexpr int kSamples = 16777216;  // of all blocks
constexpr int kShift = 0;  // output of the first sum of block 0
constexpr int kBlocks = 8323;  // of a channel
constexpr int kStride = 2016;  // samples of a block
constexpr int kLength = 2016;  // outputs from the first of a block to the first of the next
constexpr int kSums = 2048;  // outputs to which a block adds
constexpr int kOverlap = 32;  // outputs of a block that are the next block's too
constexpr int kBefore = 32;  // elements of the tile before the block's first sample
constexpr int kSteps = 2;
constexpr int kThreads = 256;
constexpr int kOwn = 8;  // windows of a thread
constexpr int kPlaces = 2080;  // of the tile

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

// Adds the taps first to end - 1 of each window to its sum. `windows` is where tap 0 of the thread's first window lies.
__device__ __forceinline__ void add_taps(
    const Weights& weights, int filter, const Number* windows, int first, int end, Number (&sums)[kOwn]) {
#pragma unroll 64
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

// Sample i of a block; zero if it is none of the block's `count` samples.
__device__ __forceinline__ Number sample_of(const Sample* __restrict__ samples, int i, unsigned count) {
    return static_cast<unsigned>(i) < count ? to_number(__ldg(samples + i)) : zero();
}

// Fills the tile with the samples of a block, between zeros.
__device__ __forceinline__ void load_tile(const Sample* __restrict__ signal, int block, Number* tile) {
    const int start = static_cast<int>(block) * kStride;
    const Sample* const samples = signal + (kBase + start);
    const unsigned count = static_cast<unsigned>(
        kSamples - start < kStride ? kSamples - start : kStride);
#pragma unroll 8
    for (int round = 0; round < 8; ++round) {
        const int i = round * kThreads + static_cast<int>(threadIdx.x);
        tile[i] = sample_of(samples, i - kBefore, count);
    }
    if (threadIdx.x < 32) {
        const int i = 8 * kThreads + static_cast<int>(threadIdx.x);
        tile[i] = sample_of(samples, i - kBefore, count);
    }
}

// Adds the blocks kStep, kStep + kSteps, ... of each channel: no two of them touch one output. The first block that
// touches an output stores its sum there, so that nothing has to be zero before.
template <int kStep, unsigned kBlocksOfStep>
__device__ __forceinline__ void add_blocks(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights& weights) {
    __shared__ Number tile[kPlaces];
    const unsigned row = blockIdx.x / kBlocksOfStep;
    const int block = kStep + kSteps * static_cast<int>(blockIdx.x % kBlocksOfStep);
    const int filter = 0;
    signal += row * 16777216ull;
    result += row * 16777248ull;

    load_tile(signal, block, tile);
    __syncthreads();

    Number sums[kOwn];
    sum_windows(weights, filter, tile, sums);
    const int output = static_cast<int>(block) * kLength + kShift;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const int sum = i * kThreads + static_cast<int>(threadIdx.x);
        const int at = output + sum;
        if (sum < kSums && at >= 0 && at < kOutputs) {
            // The block before belongs to the step before, and the block kSteps - kStep later to the first step.
            const bool has_before = sum < kOverlap && block > 0;
            const bool has_later = sum >= (kSteps - kStep) * kLength && block + (kSteps - kStep) < kBlocks;
            if (kStep > 0 && (has_before || has_later)) {
                add(result[at], sums[i]);
            }
            result[at] = to_result(sums[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads) filter1d_overlap_add_step0(
    const Sample* __restrict__ signal, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    add_blocks<0, 4162>(signal, result, weights);
}

extern "C" __global__ void __launch_bounds__(kThreads) filter1d_overlap_add_step1(
    const Sample* __restrict__ signal, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    add_blocks<1, 4161>(signal, result, weights);
}

