// warpsmith filter1d_shared
// problem: filter1d signal=16777216 taps=129 batch=1 mode=full dtype=complex64 down=8
// config:  align=0 outputs=2 threads=256 unroll=16 weights=argument windows=apart
//
// Overlap-discard: a block makes 512 outputs of one channel from a tile of 4217 samples in shared memory.
// Blocks at the ends of the signal check each sample and each output; the others check none.

constexpr int kSignal = 16777216;  // samples of a channel
constexpr int kOutputs = 2097168;
constexpr int kFirstSample = -128;  // of the first block's tile
constexpr unsigned kBlocks = 4097;  // of a channel
constexpr unsigned kFirstInside = 1;  // block whose samples and outputs all exist
constexpr unsigned kEndInside = 4096;
constexpr int kLength = 512;  // outputs of a block
constexpr int kThreads = 256;
constexpr int kOwn = 2;  // windows of a thread
constexpr int kDown = 8;  // samples from window to window
constexpr int kPhase = 529;
constexpr int kPlaces = 4232;  // of the tile

using Sample = float2;
using Result = float2;
using Tap = float;
using Number = float2;  // a sample, or a sum, in registers
using Weight = float;  // a tap in registers

__device__ __forceinline__ Number to_number(Sample element) { return element; }
__device__ __forceinline__ Weight to_weight(Tap element) { return element; }
__device__ __forceinline__ Result to_result(Number sum) { return sum; }

__device__ __forceinline__ Number zero() { return make_float2(0.0f, 0.0f); }
__device__ __forceinline__ void add(Number part, Number& sum) { sum.x += part.x, sum.y += part.y; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum.x = fmaf(weight, sample.x, sum.x);
    sum.y = fmaf(weight, sample.y, sum.y);
}

constexpr int kTaps = 129;

struct Weights {
    Tap taps[kTaps];
};

__device__ __forceinline__ Weight tap(const Weights& weights, int, int k) {
    return to_weight(weights.taps[k]);
}

// Place of element i of the tile: those of one tap under consecutive windows lie side by side.
__device__ __forceinline__ int place(int i) { return i % kDown * kPhase + i / kDown; }

// Adds the taps first to end - 1 of each window to its sum. `windows` is where tap 0 of the thread's first window lies.
__device__ __forceinline__ void add_taps(
    const Weights& weights, int filter, const Number* windows, int first, int end, Number (&sums)[kOwn]) {
#pragma unroll 16
    for (int k = first; k < end; ++k) {
        const Weight weight = tap(weights, filter, k);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            multiply_add(weight, windows[place(k) + i * kThreads], sums[i]);
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
    const Sample* __restrict__ signal, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    __shared__ Number tile[kPlaces];
    const unsigned row = blockIdx.x / kBlocks;
    const unsigned block = blockIdx.x % kBlocks;
    const int filter = 0;
    const int first = kFirstSample + static_cast<int>(block) * 4096;
    const int output = static_cast<int>(block) * kLength;
    const bool is_inside = block >= kFirstInside && block < kEndInside;
    signal += row * 16777216ull;
    result += row * 2097168ull;

    if (is_inside) {
        const Sample* const samples = signal + first;
#pragma unroll 8
        for (int round = 0; round < 16; ++round) {
            const int i = round * kThreads + static_cast<int>(threadIdx.x);
            tile[place(i)] = to_number(__ldg(samples + i));
        }
        if (threadIdx.x < 121) {
            const int i = 16 * kThreads + static_cast<int>(threadIdx.x);
            tile[place(i)] = to_number(__ldg(samples + i));
        }
    } else {
        // Zeros stand for samples beyond the ends of the signal.
#pragma unroll 8
        for (int round = 0; round < 16; ++round) {
            const int i = round * kThreads + static_cast<int>(threadIdx.x);
            tile[place(i)] = first + i >= 0 && first + i < kSignal ? to_number(__ldg(signal + (first + i))) : zero();
        }
        if (threadIdx.x < 121) {
            const int i = 16 * kThreads + static_cast<int>(threadIdx.x);
            tile[place(i)] = first + i >= 0 && first + i < kSignal ? to_number(__ldg(signal + (first + i))) : zero();
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
        if (at < kOutputs) {
            result[at] = to_result(sums[i]);
        }
    }
}
