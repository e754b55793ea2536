// warpsmith filter1d_parts
// problem: filter1d signal=1048576 taps=1048576 batch=1 mode=full dtype=float32 nonfinite=any
// config:  accumulation=registers radices=none signal_block=1024 taps_block=256 way=blocks weights=global
//
// Convolution in parts: a thread block makes 1024 outputs from one block of
// 256 taps after the other.

constexpr int kSignal = 1048576;  // samples of a channel
constexpr int kSpan = 2097151;  // outputs of a channel
constexpr int kThreads = 256;
constexpr unsigned kGroups = 2048;  // thread blocks of a channel
constexpr int kSignalBlock = 1024, kTapsBlock = 256;
constexpr int kFirstLag = -1048575;  // sample under tap 0 of the first output's window
constexpr int kTapsBlocks = 4096;

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

constexpr int kTaps = 1048576;

struct Weights {
    const Tap* taps;  // [filters][kTaps]
};

__device__ __forceinline__ Weight tap(const Weights& weights, int f, int k) {
    return to_weight(__ldg(weights.taps + static_cast<size_t>(f) * kTaps + k));
}

// Sample `at` of a channel; 0 outside of it.
__device__ __forceinline__ Number sample_at(const Sample* samples, int at) {
    // Converted behind the condition: ptxas would keep a predicate for each load until its conversion, and wait.
    const bool is_inside = static_cast<unsigned>(at) < kSignal;
    return to_number(is_inside ? __ldg(samples + at) : Sample{});
}

// Outputs of a block: sums over one block of taps after the other. Blocks that meet no sample are left out.
extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_parts(const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights) {
    constexpr int kOwn = 4;  // sums of a thread
    constexpr int kFactors = 256, kPlaces = 1279;
    __shared__ Weight factors[kFactors];
    __shared__ Number tile[kPlaces];
    Number sums[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        sums[i] = zero();
    }
    const size_t row = blockIdx.x / kGroups;
    const int f = 0;
    const Sample* const samples = signal + row * 1048576;
    const int output = static_cast<int>(blockIdx.x % kGroups) * kSignalBlock;
    const int first = kFirstLag + output;
    const int stop = first < kSignal ? (kSignal - first - 1) / kTapsBlock + 1 : 0;
    const int end = static_cast<int>(stop < kTapsBlocks ? stop : kTapsBlocks);
    const int last = first + (kSignalBlock + kTapsBlock - 1);  // sample behind the first block's tile
    for (int j = last > 0 ? 0 : static_cast<int>(-last / kTapsBlock) + 1; j < end; ++j) {
        const int start = j * kTapsBlock;
        for (int n = threadIdx.x; n < kFactors; n += kThreads) {
            factors[n] = start + n < kTaps ? tap(weights, f, start + n) : Weight{};
        }
        for (int n = threadIdx.x; n < kPlaces; n += kThreads) {
            tile[n] = sample_at(samples, first + start + n);
        }
        __syncthreads();
        Number part[kOwn];
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            part[i] = zero();
        }
#pragma unroll 4
        for (int n = 0; n < kFactors; ++n) {
#pragma unroll
            for (int i = 0; i < kOwn; ++i) {
                const int place = i * kThreads + static_cast<int>(threadIdx.x) + n;
                multiply_add(factors[n], tile[place], part[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            add(part[i], sums[i]);
        }
        __syncthreads();  // the next blocks take their place
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const int place = i * kThreads + static_cast<int>(threadIdx.x);
        const int own = output + place;
        if (place < kSignalBlock && own < kSpan) {
            result[row * 2097151 + own] = to_result(sums[i]);
        }
    }
}

