// warpsmith filter1d_overlap_add
// problem: filter1d signal=8192 taps=4 batch=8 mode=causal dtype=bfloat16 channels=2048 filters=2048
// config:  outputs=4 run=16 steps=0 threads=256 unroll=4 way=carry weights=shared windows=beside
//
// Overlap-add: blocks of 992 samples, each with 995 sums.
// A block of threads walks over a run of blocks and keeps the sums beyond each block in shared memory.
// A second launch adds the sums at the joints of the runs.

constexpr int kOutputs = 8192;  // of a channel
constexpr int kBase = 0;  // first sample of block 0
constexpr int kSamples = 8192;  // of all blocks
constexpr int kShift = 0;  // output of the first sum of block 0
constexpr int kChannels = 2048;
constexpr int kBlocks = 9;  // of a channel
constexpr int kStride = 992;  // samples of a block
constexpr int kLength = 992;  // outputs from the first of a block to the first of the next
constexpr int kSums = 995;  // outputs to which a block adds
constexpr int kOverlap = 3;  // outputs of a block that are the next block's too
constexpr int kBefore = 3;  // elements of the tile before the block's first sample
constexpr int kRun = 16;  // consecutive blocks over which a block of threads walks
constexpr int kRuns = 1;  // of a channel
constexpr int kThreads = 256;
constexpr int kOwn = 4;  // windows of a thread
constexpr int kVector = 4;  // elements of 16 bytes
constexpr int kPlaces = 1031;  // of the tile

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

__device__ __forceinline__ Number to_number(Sample bits) { return bfloat_to_float(bits); }
__device__ __forceinline__ Weight to_weight(Tap element) { return element; }
__device__ __forceinline__ Result to_result(Number sum) { return float_to_bfloat(sum); }

__device__ __forceinline__ Number zero() { return 0.0f; }
__device__ __forceinline__ void add(Number part, Number& sum) { sum += part; }
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
    const Weight* taps, const Number* windows, int first, int end, Number (&sums)[kOwn]) {
    Number held[kOwn + kVector];  // elements under tap k of all windows, and those that follow
#pragma unroll
    for (int i = 0; i < kOwn; i += kVector) {
        load_vector(windows + first + i, held + i);
    }
#pragma unroll 1
    for (int k = first; k + kVector <= end; k += kVector) {
        load_vector(windows + k + kOwn, held + kOwn);
#pragma unroll
        for (int j = 0; j < kVector; ++j) {
            const Weight weight = taps[k + j];
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
}

// Sums of the windows t, t + kThreads, ... of the tile, for thread t. Overwrites the tile.
__device__ __forceinline__ void sum_windows(
    const Weight* taps, Number* tile, Number (&sums)[kOwn]) {
    const Number* const windows = tile + threadIdx.x * kOwn;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        sums[i] = zero();
    }
    add_taps(taps, windows, 0, kTaps, sums);
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
#pragma unroll 3
    for (int round = 0; round < 3; ++round) {
        const int i = round * kThreads + static_cast<int>(threadIdx.x);
        tile[i] = sample_of(samples, i - kBefore, count);
    }
    if (threadIdx.x < 230) {
        const int i = 3 * kThreads + static_cast<int>(threadIdx.x);
        tile[i] = sample_of(samples, i - kBefore, count);
    }
}

// Elements that the walks over two consecutive runs both add to, as the second and the first one left them.
struct Joint {
    Number sums[kOverlap];
};

extern "C" __global__ void __launch_bounds__(kThreads) filter1d_overlap_add(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights,
    Joint* __restrict__ heads, Joint* __restrict__ tails) {
    __shared__ __align__(16) Number tile[kPlaces];
    __shared__ Number carried[kOverlap];
    const unsigned row = blockIdx.x / kRuns;
    const int begin = blockIdx.x % kRuns * kRun;
    const int end = min(begin + kRun, kBlocks);
    const int filter = row % kChannels;
    signal += row * 8192ull;
    result += row * 8192ull;

    __shared__ Weight taps[kTaps];
    for (int k = threadIdx.x; k < kTaps; k += kThreads) {
        taps[k] = tap(weights, filter, k);
    }
    for (int k = threadIdx.x; k < kOverlap; k += kThreads) {
        carried[k] = zero();
    }
    Joint& head = heads[blockIdx.x];
    for (int block = begin; block < end; ++block) {
        load_tile(signal, block, tile);
        __syncthreads();

        Number sums[kOwn];
        sum_windows(taps, tile, sums);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            const int sum = i * kThreads + static_cast<int>(threadIdx.x);
            if (sum < kOverlap) {
                add(carried[sum], sums[i]);
            }
        }
        __syncthreads();  // the tile and the carried sums have been read

        const int output = static_cast<int>(block) * kLength + kShift;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            const int sum = i * kThreads + static_cast<int>(threadIdx.x);
            const int at = output + sum;
            const int in_run = (block - begin) * kLength + sum;
            if (sum >= kLength) {
                if (sum < kSums) {
                    carried[sum - kLength] = sums[i];
                }
            } else if (in_run < kOverlap) {
                head.sums[in_run] = sums[i];
            } else if (at >= 0 && at < kOutputs) {
                result[at] = to_result(sums[i]);
            }
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < kOverlap; k += kThreads) {
        tails[blockIdx.x].sums[k] = carried[k];
    }
}

// Adds what the walks over two consecutive runs left of the outputs that both add to.
extern "C" __global__ void __launch_bounds__(kThreads) filter1d_overlap_add_joints(
    Result* __restrict__ result, const Joint* __restrict__ heads, const Joint* __restrict__ tails) {
    const unsigned index = static_cast<unsigned>(blockIdx.x) * kThreads + threadIdx.x;
    if (index >= 98304) {
        return;
    }
    const int k = index % kOverlap;
    const int joint = index / kOverlap % (kRuns + 1);
    const unsigned row = index / kOverlap / (kRuns + 1);
    const int at = static_cast<int>(min(joint * kRun, kBlocks)) * kLength + kShift + k;
    if (at >= 0 && at < kOutputs) {
        Number sum = zero();
        if (joint > 0) {
            add(tails[row * kRuns + (joint - 1)].sums[k], sum);
        }
        if (joint < kRuns) {
            add(heads[row * kRuns + joint].sums[k], sum);
        }
        result[row * 8192ull + at] = to_result(sum);
    }
}
