// warpsmith filter1d_toeplitz
// problem: filter1d signal=8192 taps=128 batch=1 mode=causal dtype=bfloat16 channels=8192 filters=512
//          taps_dtype=bfloat16 gates=both
// config:  load_vector=8 min_blocks=0 row_blocks=0 split=bfloats store=streaming store_vector=2 strips=8 warps=2
//          weights=global
//
// Products of a banded Toeplitz matrix with segments of a signal by mma.m16n8k16. Row m of matrix A, which stays in
// registers, is the band of taps for output m of a strip of 16; column n of matrix B has 16 samples of segment n. A
// warp filters 8 segments that follow each other, reads their samples from a tile in shared memory, and adds them to
// all strips in progress.

constexpr int kSignal = 8192;  // samples of a channel
constexpr int kOutputs = 8192;  // outputs of a channel
constexpr int kFirstLag = -127;  // sample under tap 0 of the first output
constexpr int kLead = 1;  // samples of a tile before its first window, so that loads are aligned
constexpr int kSteps = 9;  // products along the windows of a strip, of 16 samples each
constexpr int kStrips = 8;  // strips of a warp, of 16 outputs in each of 8 segments
constexpr int kSegment = 16 * kStrips;  // outputs of a segment
constexpr int kWarps = 2;
constexpr int kThreads = 32 * kWarps;
constexpr int kTileOutputs = 128 * kStrips * kWarps;
constexpr int kTile = 2176;  // samples of a tile
constexpr int kPlaces = 2312;  // samples of shared memory for it: 8 of padding behind every kSegment
constexpr unsigned kRowBlocks = 4;  // blocks of a channel
constexpr int kLoadVector = 8;  // samples per load
constexpr int kWords = 4;  // 32-bit words of a load
constexpr int kLoads = 5;  // loads of a thread for a tile
constexpr int kSampleParts = 1;
constexpr int kTapParts = 1;
constexpr int kSums = 1;  // accumulators of a strip

using Sample = unsigned short;  // bfloat16 bits
using Result = unsigned short;  // bfloat16 bits
using Tap = unsigned short;  // bfloat16 bits
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
__device__ __forceinline__ Weight to_weight(Tap bits) { return bfloat_to_float(bits); }
__device__ __forceinline__ Result to_result(Number sum) { return float_to_bfloat(sum); }

__device__ __forceinline__ Number zero() { return 0.0f; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum = fmaf(weight, sample, sum);
}

constexpr int kTaps = 128;

struct Weights {
    const Tap* taps;  // [filters][kTaps]
};

__device__ __forceinline__ Weight tap(const Weights& weights, int f, int k) {
    return to_weight(__ldg(weights.taps + static_cast<size_t>(f) * kTaps + k));
}

using LoadVector = uint4;
using StoreVector = unsigned;

#ifndef WARPSMITH_ON_HOST  // the host device defines this itself
__device__ __forceinline__ unsigned bfloat_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

__device__ __forceinline__ unsigned pack(const Number* sums) {
    return bfloat_pair(sums[0], sums[1]);
}

// Samples of a channel and the gates that multiply them.
struct GatedSamples {
    const Sample* samples;
    const Sample* gates;

    __device__ __forceinline__ GatedSamples operator+(long long elements) const {
        GatedSamples moved = *this;
        moved.samples += elements, moved.gates += elements;
        return moved;
    }
    __device__ __forceinline__ void operator+=(unsigned long long elements) { samples += elements, gates += elements; }
};

#ifndef WARPSMITH_ON_HOST  // the host device defines this itself
__device__ __forceinline__ unsigned multiply_bfloat2(unsigned a, unsigned b) {
#if __CUDA_ARCH__ >= 800
    unsigned products;
    constexpr unsigned kMinusZeros = 0x80008000u;  // which add nothing
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(products) : "r"(a), "r"(b), "r"(kMinusZeros));
    return products;
#else
    const float low = __uint_as_float(a << 16) * __uint_as_float(b << 16);
    const float high = __uint_as_float(a & 0xffff0000u) * __uint_as_float(b & 0xffff0000u);
    return float_to_bfloat(low) | static_cast<unsigned>(float_to_bfloat(high)) << 16;
#endif
}
#endif

// Samples times their gates, rounded to the type of the signal.
__device__ __forceinline__ Sample gated(Sample sample, Sample gate) {
    return float_to_bfloat(bfloat_to_float(sample) * bfloat_to_float(gate));
}

template <typename Vector>
__device__ __forceinline__ Vector load_gated(const GatedSamples& at) {
    return gated(__ldg(reinterpret_cast<const Vector*>(at.samples)), __ldg(reinterpret_cast<const Vector*>(at.gates)));
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

__device__ __forceinline__ float gate_to_float(Result gate) { return bfloat_to_float(gate); }

// A sum times the gate of its result.
__device__ __forceinline__ Result gated_output(float sum, const GatedResults& to) {
    return to_result(sum * gate_to_float(__ldg(to.gates)));
}

// Gates of a vector of results on their way from memory.
struct FetchedGates {
    StoreVector own;
};

__device__ __forceinline__ FetchedGates fetch_gates(const GatedResults& to) {
    FetchedGates fetched;
    fetched.own = __ldg(reinterpret_cast<const StoreVector*>(to.gates));
    return fetched;
}

// Stores a vector of sums times their gates.
__device__ __forceinline__ void store_gated(const GatedResults& to, const float* sums, const FetchedGates& fetched) {
    const StoreVector gates = fetched.own;
    float products[2];
    products[0] = gate_to_float(static_cast<Result>(gates & 0xffffu));
    products[1] = gate_to_float(static_cast<Result>(gates >> 16));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        products[i] *= sums[i];
    }
    __stcs(reinterpret_cast<StoreVector*>(to.results), pack(products));
}

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// sums += a * b: 16x16 by 16x8 bf16 with float32 accumulators, in the register layout of mma.m16n8k16.
__device__ __forceinline__ void mma_bf16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, "
        "{ %8, %9 }, { %0, %1, %2, %3 };"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
using SharedAddress = unsigned;  // 32-bit byte address: takes fewer instructions than a generic pointer

__device__ __forceinline__ SharedAddress shared_address(const void* shared) {
    return static_cast<SharedAddress>(__cvta_generic_to_shared(shared));
}

// Loads four 8x8 matrices of 16-bit elements in the fragment layout of mma. Lane l passes the address
// of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4(SharedAddress row, unsigned& first, unsigned& second, unsigned& third,
                                           unsigned& fourth) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];"
                 : "=r"(first), "=r"(second), "=r"(third), "=r"(fourth) : "r"(row));
}
#endif

// Splits two numbers into 1 bfloat16 part each.
__device__ __forceinline__ void split(float first, float second, unsigned (&parts)[1]) {
    parts[0] = bfloat_pair(first, second);
}

// Place of sample i of a tile in shared memory.
__device__ __forceinline__ constexpr int place_of(unsigned i) { return static_cast<int>(i + i / kSegment * 8); }

// True if a thread's load i belongs to the tile.
__device__ __forceinline__ bool is_in_tile(int i) {
    return (i + 1) * kThreads * kLoadVector <= kTile ||
           (i * kThreads + static_cast<int>(threadIdx.x)) * kLoadVector < kTile;
}

// Loads a vector of samples as 32-bit words.
__device__ __forceinline__ void load(const Sample* samples, unsigned (&words)[kWords]) {
    const LoadVector vector = __ldg(reinterpret_cast<const LoadVector*>(samples));
    words[0] = vector.x;
    words[1] = vector.y;
    words[2] = vector.z;
    words[3] = vector.w;
}

// Loads a thread's samples of the tile that begins at sample `start`, zeros outside of the signal.
__device__ __forceinline__ void load_tile(const Sample* signal, int start, unsigned (&words)[kLoads][kWords]) {
    if (start >= 0 && start + kTile <= kSignal) {
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            if (is_in_tile(i)) {
                load(signal + start + (i * kThreads + static_cast<int>(threadIdx.x)) * kLoadVector, words[i]);
            }
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        const int first = start + (i * kThreads + static_cast<int>(threadIdx.x)) * kLoadVector;
#pragma unroll
        for (int word = 0; word < kWords; ++word) {
            words[i][word] = 0;
        }
        if (first >= 0 && first + kLoadVector <= kSignal) {
            load(signal + first, words[i]);
        }
    }
}

// Multiplies a thread's samples of a tile by their gates.
__device__ __forceinline__ void multiply(unsigned (&words)[kLoads][kWords], const unsigned (&gates)[kLoads][kWords]) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        if (!is_in_tile(i)) {
            continue;
        }
#pragma unroll
        for (int word = 0; word < kWords; ++word) {
            words[i][word] = multiply_bfloat2(words[i][word], gates[i][word]);
        }
    }
}

// Writes a thread's samples to the tile.
__device__ __forceinline__ void fill_tile(const unsigned (&words)[kLoads][kWords],
                                          unsigned short (&tile)[kSampleParts][kPlaces]) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        if (!is_in_tile(i)) {
            continue;
        }
        const int place = place_of(i * kThreads * kLoadVector) + place_of(threadIdx.x * kLoadVector);
        *reinterpret_cast<uint4*>(&tile[0][place]) = make_uint4(words[i][0], words[i][1], words[i][2], words[i][3]);
    }
}

// A thread's part of the band: word i has tap 8 i + 2 (lane % 4) - lane / 4 - kLead and the one after it, 0 where there
// is none. It belongs to an 8x8 block of taps, and there is one block for each distance from the diagonal.
using BandWords = unsigned[kSteps][2];

struct Band {
    BandWords words[kTapParts];
};

// Matrix A of a step, in the register layout of mma: its upper left and lower right blocks are the same.
__device__ __forceinline__ void matrix_of(const BandWords& words, int step, unsigned (&matrix)[4]) {
    matrix[0] = matrix[3] = words[step][0];
    matrix[1] = step > 0 ? words[max(step - 1, 0)][1] : 0u;  // taps before the first one
    matrix[2] = words[step][1];
}

constexpr int kPadded = 16 * kSteps + 7;  // taps with the zeros around them

// A thread's part of the band, from the taps of a filter, which the block first copies to shared memory.
__device__ __forceinline__ void fill_band(const Weights& weights, int filter, float (&padded)[kPadded],
                                          Band& band) {
    for (int i = threadIdx.x; i < kPadded; i += kThreads) {
        const int k = i - 7 - kLead;
        padded[i] = k >= 0 && k < kTaps ? tap(weights, filter, k) : 0.0f;
    }
    __syncthreads();
    const int lane = threadIdx.x % 32;
    const float* own = padded + 7 + lane % 4 * 2 - lane / 4;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
        unsigned parts[kTapParts];
        split(own[8 * i], own[8 * i + 1], parts);
#pragma unroll
        for (int part = 0; part < kTapParts; ++part) {
            band.words[part][i / 2][i % 2] = parts[part];
        }
    }
}

// Sum of the window of one output, tap by tap.
__device__ __forceinline__ Number sum_of_window(GatedSamples signal, const Weights& weights, int filter, int output) {
    const int lag = kFirstLag + output;
    const int first = lag < 0 ? static_cast<int>(-lag) : 0;
    const int end = kSignal - lag < kTaps ? static_cast<int>(kSignal - lag) : kTaps;
    Number sum = zero();
#pragma unroll 1
    for (int k = first; k < end; ++k) {
        const GatedSamples sample = signal + lag + k;
        multiply_add(tap(weights, filter, k), to_number(load_gated<Sample>(sample)), sum);
    }
    return sum;
}

// True if a stored output is finite, and thus unaffected by samples outside of its window.
__device__ __forceinline__ bool is_settled(Result stored) {
    return (stored & 0x7f80) != 0x7f80;
}

// A product also multiplies samples outside of a window by zeros of the band, so that a NaN or an infinity there makes
// the sum NaN; and parts of a number may overflow where the number does not. If `check` is NaN in some thread, its warp
// computes those of its outputs again that are not finite.
__device__ __forceinline__ void repair(GatedSamples signal, GatedResults result, const Weights& weights, int filter,
                                       int first, float check) {
    if (!__any_sync(0xffffffffu, check != 0.0f)) {
        return;
    }
    __syncwarp();  // makes the stores of the warp's other threads visible
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < kTileOutputs / kWarps; i += 32) {
        const int output = first + i;
        if (output < kOutputs && !is_settled((result).results[output])) {
            const Number sum = sum_of_window(signal, weights, filter, output);
            (result).results[output] = gated_output(sum, result + output);
        }
    }
}

// Stores a strip. A thread has outputs g and g + 8 of two segments, where g is its lane / 4. It exchanges one of each
// with thread g ^ 1 and stores two adjacent ones, from `target` on. Returns NaN if some sum is not finite, else 0.
__device__ __forceinline__ float store_strip(const float (&sums)[4], GatedResults target,
                                             const FetchedGates (&gates)[2]) {
    const bool is_odd = threadIdx.x / 4 % 2 != 0;
    float check = 0.0f;
#pragma unroll
    for (int segment = 0; segment < 2; ++segment) {
        const float upper = sums[segment], lower = sums[segment + 2];
        const float received = __shfl_xor_sync(0xffffffffu, is_odd ? upper : lower, 4);
        float outputs[2] = {is_odd ? received : upper, is_odd ? lower : received};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            check = fmaf(outputs[i], 0.0f, check);
        }
        const int offset = segment * kSegment;
        store_gated(target + offset, outputs, gates[segment]);
    }
    return check;
}

// Fetches the gates of a thread's outputs of a tile, from `target` on.
__device__ __forceinline__ void fetch_outputs(
    const GatedResults& target, FetchedGates (&gates)[kStrips][2]) {
#pragma unroll
    for (int i = 0; i < 2 * kStrips; ++i) {
        const int offset = i / 2 * 16 + i % 2 * kSegment;
        gates[i / 2][i % 2] = fetch_gates(target + offset);
    }
}

// Filters the segments of a warp. `address` is that of the thread's row of the first ldmatrix, `target` the thread's
// first output. Returns NaN if some sum is not finite, else 0.
__device__ __forceinline__ float filter_segments(
    SharedAddress address, const Band& band, GatedResults target,
    const FetchedGates (&gates)[kStrips][2]) {
    float sums[kStrips][kSums][4] = {};
    float check = 0.0f;
#pragma unroll
    for (int first = 0; first < kStrips + kSteps - 1; first += 2) {  // steps along the segments, two at a time
        unsigned samples[2][kSampleParts][2];
#pragma unroll
        for (int part = 0; part < kSampleParts; ++part) {
            ldmatrix_x4(address + (part * kPlaces + place_of(16 * first)) * 2, samples[0][part][0], samples[0][part][1],
                        samples[1][part][0], samples[1][part][1]);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int strip = 0; strip < kStrips; ++strip) {
                const int step = first + i - strip;
                if (step >= 0 && step < kSteps) {
                    unsigned taps[4];
                    matrix_of(band.words[0], step, taps);
                    mma_bf16(sums[strip][0], taps, samples[i][0]);
                }
            }
            const int done = first + i - (kSteps - 1);  // the strip that is complete
            if (done >= 0 && done < kStrips) {
                float strip[4];
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    strip[k] = sums[done][0][k];
                }
                check += store_strip(strip, target + 16 * done, gates[done]);
            }
        }
    }
    return check;
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_toeplitz(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights,
    const Sample* __restrict__ gate_before, const Result* __restrict__ gate_after) {
    __shared__ __align__(16) unsigned short tiles[1][kSampleParts][kPlaces];
    __shared__ float padded[kPadded];
    GatedSamples gated_signal{signal, gate_before};
    GatedResults gated_result{result, gate_after};
    const unsigned row = blockIdx.x / kRowBlocks;
    gated_signal += row * 8192ull;
    gated_result += row * 8192ull;
    const int filter = row / 16;
    const unsigned row_block = blockIdx.x % kRowBlocks;
    const int block_output = static_cast<int>(row_block) * kTileOutputs;
    const int start = block_output + (kFirstLag - kLead);  // first sample of the tile
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // The four matrices of an ldmatrix are 8 samples of all segments, and those that follow.
    const int first_place = (8 * warp + lane % 8) * (kSegment + 8) + place_of(lane / 8 * 8);
    const int warp_output = 8 * kSegment * warp;
    const int own_output = warp_output + lane % 4 * 2 * kSegment + lane / 8 * 2 + lane / 4 % 2 * 8;
    unsigned words[kLoads][kWords];
    unsigned gate_words[kLoads][kWords];
    load_tile(gated_signal.samples, start, words);
    load_tile(gated_signal.gates, start, gate_words);
    FetchedGates gates[kStrips][2] = {};
    fetch_outputs(gated_result + block_output + own_output, gates);
    Band band;
    fill_band(weights, filter, padded, band);
    multiply(words, gate_words);
    fill_tile(words, tiles[0]);
    __syncthreads();
    const SharedAddress address = shared_address(&tiles[0][0][first_place]);
    const float check = filter_segments(address, band, gated_result + block_output + own_output, gates);
    repair(gated_signal, gated_result, weights, filter, block_output + warp_output, check);
}
