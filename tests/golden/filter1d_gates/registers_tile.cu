// warpsmith filter1d_registers
// problem: filter1d signal=1048576 taps=65 batch=1 mode=full dtype=float32 bias=yes activation=silu gates=after
// config:  block_columns=64 block_rows=1 exchange=shared load_vector=4 min_blocks=4 outputs=16 path=shared
//          store=streaming store_vector=4 turn=0 weights=argument
//
// A thread computes kThreadOutputs adjacent outputs of a channel in registers; a block has kColumns threads along the
// signal for each of kRows channels. A block copies its samples into shared memory first, once for all threads.

constexpr int kSignal = 1048576;  // samples of a channel
constexpr int kOutputs = 1048640;  // outputs of a channel
constexpr int kFirstLag = -64;  // sample under tap 0 of the first output
constexpr int kDown = 1;  // samples from one output to the next
constexpr int kThreadOutputs = 16;
constexpr int kColumns = 64;  // threads of a block along the signal
constexpr int kRows = 1;  // channels of a block
constexpr int kLoadVector = 4;  // samples per load from global memory
constexpr int kStoreVector = 4;  // outputs per store
constexpr int kLanes = 4;  // samples per load of a window
constexpr int kLead = 0;  // samples from an aligned load to the block's first window
constexpr int kSkipped = 0;  // samples that a thread's aligned loads read before its window
constexpr int kWindow = 80;  // samples of a thread in registers
constexpr int kTile = 1088;  // samples of a channel's tile in shared memory
constexpr int kStride = 16;  // samples from one thread's part of the tile to the next
constexpr int kPadding = 4;  // numbers between the parts, against bank conflicts
constexpr int kResultPadding = 4;  // numbers between the outputs of two threads, against bank conflicts
constexpr int kShared = 1360;  // numbers of a channel's tile, padding included

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

constexpr int kTaps = 65;

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

// Stores a vector of sums times the gates of their results.
__device__ __forceinline__ void store_gated(const GatedResults& to, const float* sums) {
    float products[4];
    const StoreVector vector = __ldg(reinterpret_cast<const StoreVector*>(to.gates));
    products[0] = vector.x;
    products[1] = vector.y;
    products[2] = vector.z;
    products[3] = vector.w;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        products[i] *= sums[i];
    }
    __stcs(reinterpret_cast<StoreVector*>(to.results), pack(products));
}

__device__ __forceinline__ void read_four(const Number* shared, Number* numbers) {
    const float4 vector = *reinterpret_cast<const float4*>(shared);
    numbers[0] = vector.x;
    numbers[1] = vector.y;
    numbers[2] = vector.z;
    numbers[3] = vector.w;
}

__device__ __forceinline__ void write_four(Number* shared, const Number* numbers) {
    *reinterpret_cast<float4*>(shared) = make_float4(numbers[0], numbers[1], numbers[2], numbers[3]);
}

// Place of sample i of a tile in shared memory.
__device__ __forceinline__ constexpr unsigned place_of(unsigned i) {
    return i / kStride * (kStride + kPadding) + i % kStride;
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

// Reads samples kBegin to kEnd - 1 of a thread's part of the tile, counted from kSkipped samples before its window.
template <int kBegin, int kEnd>
__device__ __forceinline__ void read_window(const Number* part, Number* samples) {
#pragma unroll
    for (int i = 0; i < kEnd - kBegin; i += kLanes) {
        read_four(part + place_of(kLead - kSkipped + kBegin + i), samples + i);
    }
}

// Writes the samples of a load into a tile, from its `sample` on.
__device__ __forceinline__ void write_tile(Number* tile, unsigned sample, const Number* numbers) {
    write_four(tile + place_of(sample), numbers);
}

// Copies a channel's samples from `start` on into its tile.
__device__ __forceinline__ void fill_tile(const Sample* samples, int start, Number* tile) {
    constexpr unsigned kVectors = kTile / kLoadVector;
    Number numbers[kLoadVector];
    if (start >= 0 && start + kTile <= kSignal) {
        const LoadVector* vectors = reinterpret_cast<const LoadVector*>(samples + start) + threadIdx.x;
        // A thread's loads lie whole parts of threads apart, so that their places differ by constants.
        Number* mine = tile + place_of(threadIdx.x * kLoadVector);
#pragma unroll
        for (unsigned first = 0; first < kVectors; first += kColumns) {
            if (first + kColumns <= kVectors || threadIdx.x < kVectors - first) {
                unpack(__ldg(vectors + first), numbers);
                write_tile(mine, first * kLoadVector, numbers);
            }
        }
    } else {
#pragma unroll 4
        for (unsigned vector = threadIdx.x; vector < kVectors; vector += kColumns) {
            load_guarded(samples, start + static_cast<int>(vector * kLoadVector), numbers);
            write_tile(tile, vector * kLoadVector, numbers);
        }
    }
}

// Stores outputs `output` to output + kStoreVector - 1 if they exist; with kAll all do.
template <bool kAll>
__device__ __forceinline__ void store(GatedResults result, int output, const Number* sums) {
    if (kAll || output + kStoreVector <= kOutputs) {
        store_gated(result + output, sums);
    }
}

// Stores the outputs of a block, which `tile` holds with kResultPadding numbers behind each thread's.
template <bool kAll>
__device__ __forceinline__ void store_tile(GatedResults result, int block_output, const Number* tile) {
    // A thread's stores lie whole threads' outputs apart.
    constexpr int kApart = kColumns * kStoreVector / kThreadOutputs * (kThreadOutputs + kResultPadding);
    const unsigned first = threadIdx.x * kStoreVector;
    const Number* mine = tile + first / kThreadOutputs * (kThreadOutputs + kResultPadding) + first % kThreadOutputs;
    Number sums[kStoreVector];
#pragma unroll
    for (int round = 0; round < kThreadOutputs / kStoreVector; ++round) {
        read_four(mine + round * kApart, sums);
        store<kAll>(result, block_output + static_cast<int>(round * kColumns * kStoreVector + first), sums);
    }
}

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
__device__ __forceinline__ float exp2_approximate(float value) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value));
    return power;
}

__device__ __forceinline__ float reciprocal_approximate(float value) {
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(value));
    return reciprocal;
}
#endif

// SiLU of a sum and its bias: x / (1 + exp(-x)).
__device__ __forceinline__ Number finish(Number sum, Weight bias) {
    sum += bias;
    constexpr float kLog2E = 1.44269504f;  // exp(-x) is 2^(-x log2(e)); it is infinite below x = -88.7
    return sum * reciprocal_approximate(1.0f + exp2_approximate(-kLog2E * sum));
}

extern "C" __global__ void __launch_bounds__(kColumns * kRows, 4)
filter1d_registers(
    const Sample* __restrict__ signal, Result* __restrict__ result, const __grid_constant__ Weights weights,
    const Tap* __restrict__ bias,
    const Result* __restrict__ gate_after) {
    __shared__ __align__(16) Number tiles[kRows][kShared];
    GatedResults gated_result{result, gate_after};
    constexpr int filter = 0;
    const int block_output = static_cast<int>(blockIdx.x) * (kColumns * kThreadOutputs);
    Number* tile = tiles[0];
    fill_tile(signal, block_output * kDown + (kFirstLag - kLead), tile);
    __syncthreads();

    Number sums[kThreadOutputs] = {};
    Number samples[kWindow];
    const Number* part = tile + threadIdx.x * (kStride + kPadding);
    read_window<0, kWindow>(part, samples);
    add_taps<kTaps>(weights, filter, 0, samples, sums);

    const Weight own_bias = to_weight(__ldg(bias));
#pragma unroll
    for (int i = 0; i < kThreadOutputs; ++i) {
        sums[i] = finish(sums[i], own_bias);
    }

    __syncthreads();  // all windows have been read
    Number* mine = tile + threadIdx.x * (kThreadOutputs + kResultPadding);
#pragma unroll
    for (int i = 0; i < kThreadOutputs; i += 4) {
        write_four(mine + i, sums + i);
    }
    __syncthreads();
    if (block_output + kColumns * kThreadOutputs <= kOutputs) {
        store_tile<true>(gated_result, block_output, tile);
    } else {
        store_tile<false>(gated_result, block_output, tile);
    }
}
