// warpsmith filter1d_registers
// problem: filter1d signal=480 taps=129 batch=1 mode=causal dtype=float32 state=carried
// config:  block_columns=64 block_rows=1 exchange=direct load_vector=4 min_blocks=4 outputs=1 path=shared
//          store=streaming store_vector=1 turn=0 weights=argument
//
// A thread computes kThreadOutputs adjacent outputs of a channel in registers; a block has kColumns threads along the
// signal for each of kRows channels. A block copies its samples into shared memory first, once for all threads.

constexpr int kSignal = 480;  // samples of a channel
constexpr int kOutputs = 480;  // outputs of a channel
constexpr int kFirstLag = -128;  // sample under tap 0 of the first output
constexpr int kDown = 1;  // samples from one output to the next
constexpr int kThreadOutputs = 1;
constexpr int kColumns = 64;  // threads of a block along the signal
constexpr int kRows = 1;  // channels of a block
constexpr int kLoadVector = 4;  // samples per load from global memory
constexpr int kStoreVector = 1;  // outputs per store
constexpr int kLanes = 1;  // samples per load of a window
constexpr int kLead = 0;  // samples from an aligned load to the block's first window
constexpr int kSkipped = 0;  // samples that a thread's aligned loads read before its window
constexpr int kWindow = 129;  // samples of a thread in registers
constexpr int kTile = 192;  // samples of a channel's tile in shared memory
constexpr int kStride = 1;  // samples from one thread's part of the tile to the next
constexpr int kPadding = 0;  // numbers between the parts, against bank conflicts
constexpr int kShared = 192;  // numbers of a channel's tile, padding included

using Sample = float;
using Result = float;
using Tap = float;
using Number = float;  // a sample, or a sum, in registers
using Weight = float;  // a tap in registers

__device__ __forceinline__ Number to_number(Sample element) { return element; }
__device__ __forceinline__ Weight to_weight(Tap element) { return element; }
__device__ __forceinline__ Result to_result(Number sum) { return sum; }

__device__ __forceinline__ Number zero() { return 0.0f; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum = fmaf(weight, sample, sum);
}

constexpr int kTaps = 129;

struct Weights {
    Tap taps[kTaps];
};

__device__ __forceinline__ Weight tap(const Weights& weights, int, int k) {
    return to_weight(weights.taps[k]);
}

using LoadVector = float4;
using StoreVector = float;

__device__ __forceinline__ void unpack(float4 vector, float* numbers) {
    numbers[0] = vector.x;
    numbers[1] = vector.y;
    numbers[2] = vector.z;
    numbers[3] = vector.w;
}

__device__ __forceinline__ Result pack(const Number* sums) { return to_result(sums[0]); }

__device__ __forceinline__ void read_one(const Number* shared, Number* numbers) { numbers[0] = shared[0]; }

__device__ __forceinline__ void write_one(Number* shared, const Number* numbers) { shared[0] = numbers[0]; }

// Place of sample i of a tile in shared memory.
__device__ __forceinline__ constexpr unsigned place_of(unsigned i) {
    return i / kStride * (kStride + kPadding) + i % kStride;
}

constexpr int kStateWidth = 128;  // samples of a channel in a row of the state
constexpr size_t kStatePitch = 128;  // elements from one row to the next

// Sample `time` of a channel: before the signal one of the state, which ends at `history`, or else zero.
__device__ __forceinline__ Number sample_at(const Sample* samples, const Sample* history, int time) {
    if (time < 0) {
        return time >= -kStateWidth ? to_number(__ldg(history + time)) : zero();
    }
    return time < kSignal ? to_number(__ldg(samples + time)) : zero();
}

// Samples `start` to start + kLoadVector - 1 of a channel.
__device__ __forceinline__ void load_guarded(const Sample* samples, const Sample* history, int start, Number* numbers) {
    if (start >= 0 && start < kSignal) {  // the signal is whole vectors
        unpack(__ldg(reinterpret_cast<const LoadVector*>(samples + start)), numbers);
        return;
    }
#pragma unroll
    for (int i = 0; i < kLoadVector; ++i) {
        numbers[i] = sample_at(samples, history, start + i);
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
        read_one(part + place_of(kLead - kSkipped + kBegin + i), samples + i);
    }
}

// Writes the samples of a load into a tile, from its `sample` on.
__device__ __forceinline__ void write_tile(Number* tile, unsigned sample, const Number* numbers) {
#pragma unroll
    for (int i = 0; i < kLoadVector; i += kLanes) {
        write_one(tile + place_of(sample + i), numbers + i);
    }
}

// Copies a channel's samples from `start` on into its tile.
__device__ __forceinline__ void fill_tile(const Sample* samples, const Sample* history, int start, Number* tile) {
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
            load_guarded(samples, history, start + static_cast<int>(vector * kLoadVector), numbers);
            write_tile(tile, vector * kLoadVector, numbers);
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

extern "C" __global__ void __launch_bounds__(kColumns * kRows, 4)
filter1d_registers(
    const Sample* __restrict__ signal, Result* __restrict__ result, const __grid_constant__ Weights weights,
    const Sample* __restrict__ state) {
    __shared__ __align__(16) Number tiles[kRows][kShared];
    constexpr int filter = 0;
    const Sample* history = state + kStateWidth;
    const int block_output = static_cast<int>(blockIdx.x) * (kColumns * kThreadOutputs);
    const int output = block_output + static_cast<int>(threadIdx.x * kThreadOutputs);
    Number* tile = tiles[0];
    fill_tile(signal, history, block_output * kDown + (kFirstLag - kLead), tile);
    __syncthreads();
    if (output >= kOutputs) {
        return;
    }

    Number sums[kThreadOutputs] = {};
    Number samples[kWindow];
    const Number* part = tile + threadIdx.x * (kStride + kPadding);
    read_window<0, kWindow>(part, samples);
    add_taps<kTaps>(weights, filter, 0, samples, sums);

    store_sums(result, output, sums);
}

// Moves the state of each row on by the row's samples, in place: one thread has all places that depend on each other.
extern "C" __global__ void __launch_bounds__(256)
filter1d_registers_carry(
    const Sample* __restrict__ signal, Sample* __restrict__ state) {
    const unsigned long long item = blockIdx.x * 256ull + threadIdx.x;
    if (item >= 128ull) {
        return;
    }
    const int place = item % kStateWidth;
    const int channel = item / kStateWidth % 1;
    const int row = item / kStateWidth / 1;
    constexpr int end = 480;
    const Sample* samples = signal + row * 480ll + channel * 480ll;
    constexpr int step = 128;  // samples that are new
    if (place >= step) {
        return;
    }
    Sample* target = state + row * kStatePitch + channel * 128ll;
    for (int i = place; i < kStateWidth; i += step) {
        const int time = end - kStateWidth + i;
        target[i] = i + step < kStateWidth ? target[(i + step)] : samples[time];
    }
}
