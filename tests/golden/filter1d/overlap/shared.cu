// warpsmith filter1d_shared
// problem: filter1d signal=16777216 taps=33 batch=1 mode=full dtype=float32
// config:  align=0 outputs=8 threads=256 unroll=64 weights=argument windows=beside
//
// Overlap-discard: a block makes 2048 outputs of one channel from a tile of 2080 samples in shared memory.
// Blocks at the ends of the signal check each sample and each output; the others check none.

constexpr int kSignal = 16777216;  // samples of a channel
constexpr int kOutputs = 16777248;
constexpr int kFirstSample = -32;  // of the first block's tile
constexpr unsigned kBlocks = 8193;  // of a channel
constexpr unsigned kFirstInside = 1;  // block whose samples and outputs all exist
constexpr unsigned kEndInside = 8192;
constexpr int kLength = 2048;  // outputs of a block
constexpr int kThreads = 256;
constexpr int kOwn = 8;  // windows of a thread
constexpr int kVector = 4;  // elements of 16 bytes
constexpr int kPlaces = 2084;  // of the tile

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

// Copies 16 bytes of the tile into registers, and back.
__device__ __forceinline__ void load_vector(const Number* tile, Number* held) {
    const float4 vector = *reinterpret_cast<const float4*>(tile);
    held[0] = vector.x, held[1] = vector.y, held[2] = vector.z, held[3] = vector.w;
}

__device__ __forceinline__ void store_vector(const Number* held, Number* tile) {
    *reinterpret_cast<float4*>(tile) =
        make_float4(held[0], held[1], held[2], held[3]);
}

// Adds the taps first to end - 1 of each window to its sum. `windows` is where tap 0 of the thread's first window lies.
__device__ __forceinline__ void add_taps(
    const Weights& weights, int filter, const Number* windows, int first, int end, Number (&sums)[kOwn]) {
    Number held[kOwn + kVector];  // elements under tap k of all windows, and those that follow
#pragma unroll
    for (int i = 0; i < kOwn; i += kVector) {
        load_vector(windows + first + i, held + i);
    }
#pragma unroll 16
    for (int k = first; k + kVector <= end; k += kVector) {
        load_vector(windows + k + kOwn, held + kOwn);
#pragma unroll
        for (int j = 0; j < kVector; ++j) {
            const Weight weight = tap(weights, filter, k + j);
#pragma unroll
            for (int i = 0; i < kOwn; ++i) {
                multiply_add(weight, held[i + j], sums[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            held[i] = held[i + kVector];
        }
    }
    if (end == kTaps) {
        constexpr int kRest = kTaps % kVector;
        load_vector(windows + (kTaps - kRest) + kOwn, held + kOwn);
#pragma unroll
        for (int j = 0; j < kRest; ++j) {
            const Weight weight = tap(weights, filter, kTaps - kRest + j);
#pragma unroll
            for (int i = 0; i < kOwn; ++i) {
                multiply_add(weight, held[i + j], sums[i]);
            }
        }
    }
}

// Sums of the windows t, t + kThreads, ... of the tile, for thread t. Overwrites the tile.
__device__ __forceinline__ void sum_windows(
    const Weights& weights, int filter, Number* tile, Number (&sums)[kOwn]) {
    const Number* const windows = tile + threadIdx.x * kOwn;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        sums[i] = zero();
    }
    add_taps(weights, filter, windows, 0, kTaps, sums);
    // Each thread has the sums of windows side by side; neighbours are to store neighbours.
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kOwn; i += kVector) {
        store_vector(sums + i, tile + threadIdx.x * kOwn + i);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        sums[i] = tile[i * kThreads + threadIdx.x];
    }
}

extern "C" __global__ void __launch_bounds__(kThreads) filter1d_shared(
    const Sample* __restrict__ signal, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    __shared__ __align__(16) Number tile[kPlaces];
    const unsigned row = blockIdx.x / kBlocks;
    const unsigned block = blockIdx.x % kBlocks;
    const int filter = 0;
    const int first = kFirstSample + static_cast<int>(block) * 2048;
    const int output = static_cast<int>(block) * kLength;
    const bool is_inside = block >= kFirstInside && block < kEndInside;
    signal += row * 16777216ull;
    result += row * 16777248ull;

    if (is_inside) {
        const Sample* const samples = signal + first;
#pragma unroll 8
        for (int round = 0; round < 8; ++round) {
            const int i = round * kThreads + static_cast<int>(threadIdx.x);
            tile[i] = to_number(__ldg(samples + i));
        }
        if (threadIdx.x < 32) {
            const int i = 8 * kThreads + static_cast<int>(threadIdx.x);
            tile[i] = to_number(__ldg(samples + i));
        }
    } else {
        // Zeros stand for samples beyond the ends of the signal.
#pragma unroll 8
        for (int round = 0; round < 8; ++round) {
            const int i = round * kThreads + static_cast<int>(threadIdx.x);
            tile[i] = first + i >= 0 && first + i < kSignal ? to_number(__ldg(signal + (first + i))) : zero();
        }
        if (threadIdx.x < 32) {
            const int i = 8 * kThreads + static_cast<int>(threadIdx.x);
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
        if (at < kOutputs) {
            result[at] = to_result(sums[i]);
        }
    }
}
