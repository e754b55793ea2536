// warpsmith filter1d_toeplitz
// problem: filter1d signal=16777216 taps=129 batch=1 mode=full dtype=float32
// config:  load_vector=4 min_blocks=0 row_blocks=528 split=halves store=streaming store_vector=2 strips=8 warps=2
//          weights=global
//
// Products of a banded Toeplitz matrix with segments of a signal by mma.m16n8k16. Row m of matrix A, which stays in
// registers, is the band of taps for output m of a strip of 16; column n of matrix B has 16 samples of segment n. A
// warp filters 8 segments that follow each other, reads their samples from a tile in shared memory, and adds them to
// all strips in progress. Samples and taps are split into 2 float16 parts.

constexpr int kSignal = 16777216;  // samples of a channel
constexpr int kOutputs = 16777344;  // outputs of a channel
constexpr int kFirstLag = -128;  // sample under tap 0 of the first output
constexpr int kLead = 0;  // samples of a tile before its first window, so that loads are aligned
constexpr int kSteps = 9;  // products along the windows of a strip, of 16 samples each
constexpr int kStrips = 8;  // strips of a warp, of 16 outputs in each of 8 segments
constexpr int kSegment = 16 * kStrips;  // outputs of a segment
constexpr int kWarps = 2;
constexpr int kThreads = 32 * kWarps;
constexpr int kTileOutputs = 128 * kStrips * kWarps;
constexpr int kTile = 2176;  // samples of a tile
constexpr int kPlaces = 2312;  // samples of shared memory for it: 8 of padding behind every kSegment
constexpr int kRowTiles = 8193;  // tiles of a channel, which its blocks share evenly
constexpr unsigned kRowBlocks = 528;  // blocks of a channel
constexpr int kLoadVector = 4;  // samples per load
constexpr int kWords = 4;  // 32-bit words of a load
constexpr int kLoads = 9;  // loads of a thread for a tile
constexpr int kSampleParts = 2;
constexpr int kTapParts = 2;
constexpr int kSums = 2;  // accumulators of a strip: products of high parts, and of low ones

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
    const Tap* taps;  // [filters][kTaps]
};

__device__ __forceinline__ Weight tap(const Weights& weights, int f, int k) {
    return to_weight(__ldg(weights.taps + static_cast<size_t>(f) * kTaps + k));
}

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned floats_to_half2(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

using LoadVector = float4;
using StoreVector = float2;

__device__ __forceinline__ float2 pack(const float* sums) {
    return make_float2(sums[0], sums[1]);
}

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// sums += a * b: 16x16 by 16x8 fp16 with float32 accumulators, in the register layout of mma.m16n8k16.
__device__ __forceinline__ void mma_f16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, "
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

// Splits two numbers into 2 float16 parts each.
__device__ __forceinline__ void split(float first, float second, unsigned (&parts)[2]) {
    parts[0] = floats_to_half2(first, second);
    first -= half_to_float(static_cast<unsigned short>(parts[0]));
    second -= half_to_float(static_cast<unsigned short>(parts[0] >> 16));
    parts[1] = floats_to_half2(first, second);
}

// Numbers are scaled by powers of two before they are split: the largest sample of a tile to kSampleTop as its
// exponent,
// the largest tap to kTapTop. float16 parts then keep 22 bits of them, and none overflows.
constexpr int kSampleTop = 14;
constexpr int kTapTop = 14;

// Bits of |number|, 0 if it is not finite. They are in the order of the numbers.
__device__ __forceinline__ unsigned magnitude(float number) {
    const unsigned bits = __float_as_uint(number) & 0x7fffffffu;
    return bits < 0x7f800000u ? bits : 0u;
}

// Exponent of the largest of a block's magnitudes, whose maxima of each warp are in `slots`, as the upper bits of a
// float;
// not so small that the scale would be no float.
__device__ __forceinline__ unsigned exponent_of(const unsigned (&slots)[kWarps]) {
    unsigned largest = 15u << 23;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
        largest = max(largest, slots[i]);
    }
    return largest & 0x7f800000u;
}

template <int kTop>
__device__ __forceinline__ float scale_of(unsigned exponent) {
    return __uint_as_float(((254u + kTop) << 23) - exponent);
}

// Undoes two scales, in two steps, each of which is a normal float.
struct Undo {
    float first, second;
};

__device__ __forceinline__ Undo undo_of(unsigned taps_exponent, unsigned tile_exponent) {
    const int exponent = static_cast<int>((taps_exponent >> 23) + (tile_exponent >> 23)) - (254 + kTapTop + kSampleTop);
    const int half = exponent / 2;
    return {__uint_as_float(static_cast<unsigned>(127 + half) << 23),
            __uint_as_float(static_cast<unsigned>(127 + exponent - half) << 23)};
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
    words[0] = __float_as_uint(vector.x);
    words[1] = __float_as_uint(vector.y);
    words[2] = __float_as_uint(vector.z);
    words[3] = __float_as_uint(vector.w);
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

// Largest magnitude of a warp's samples of a tile.
__device__ __forceinline__ unsigned largest_of(const unsigned (&words)[kLoads][kWords]) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kLoads * kWords; ++i) {
        if (is_in_tile(i / kWords)) {
            largest = fmaxf(largest, fabsf(__uint_as_float(words[i / kWords][i % kWords])));  // not NaN
        }
    }
    unsigned found = __reduce_max_sync(0xffffffffu, __float_as_uint(largest));
    if (found >= 0x7f800000u) {  // an infinity has no part in the scale
        unsigned finite = 0;
#pragma unroll
        for (int i = 0; i < kLoads * kWords; ++i) {
            if (is_in_tile(i / kWords)) {
                finite = max(finite, magnitude(__uint_as_float(words[i / kWords][i % kWords])));
            }
        }
        found = __reduce_max_sync(0xffffffffu, finite);
    }
    return found;
}

// Tells the block a warp's largest magnitude of a tile.
__device__ __forceinline__ void publish(const unsigned (&words)[kLoads][kWords], unsigned (&slots)[kWarps]) {
    const unsigned largest = largest_of(words);
    if (threadIdx.x % 32 == 0) {
        slots[threadIdx.x / 32] = largest;
    }
}

// Writes a thread's samples to the tile, times `scale`, part by part.
__device__ __forceinline__ void fill_tile(const unsigned (&words)[kLoads][kWords], float scale,
                                          unsigned short (&tile)[kSampleParts][kPlaces]) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        if (!is_in_tile(i)) {
            continue;
        }
        const int place = place_of(i * kThreads * kLoadVector) + place_of(threadIdx.x * kLoadVector);
        unsigned parts[2][kSampleParts];
        split(__uint_as_float(words[i][0]) * scale, __uint_as_float(words[i][1]) * scale, parts[0]);
        split(__uint_as_float(words[i][2]) * scale, __uint_as_float(words[i][3]) * scale, parts[1]);
        *reinterpret_cast<uint2*>(&tile[0][place]) = make_uint2(parts[0][0], parts[1][0]);
        *reinterpret_cast<uint2*>(&tile[1][place]) = make_uint2(parts[0][1], parts[1][1]);
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
// Returns the exponent by which the taps are scaled.
__device__ __forceinline__ unsigned fill_band(const Weights& weights, int filter, float (&padded)[kPadded],
                                          unsigned (&slots)[kWarps], Band& band) {
    unsigned largest = 0;
    for (int i = threadIdx.x; i < kPadded; i += kThreads) {
        const int k = i - 7 - kLead;
        padded[i] = k >= 0 && k < kTaps ? tap(weights, filter, k) : 0.0f;
        largest = max(largest, magnitude(padded[i]));
    }
    largest = __reduce_max_sync(0xffffffffu, largest);
    if (threadIdx.x % 32 == 0) {
        slots[threadIdx.x / 32] = largest;
    }
    __syncthreads();
    const unsigned exponent = exponent_of(slots);
    const float scale = scale_of<kTapTop>(exponent);
    const int lane = threadIdx.x % 32;
    const float* own = padded + 7 + lane % 4 * 2 - lane / 4;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
        unsigned parts[kTapParts];
        split(own[8 * i] * scale, own[8 * i + 1] * scale, parts);
#pragma unroll
        for (int part = 0; part < kTapParts; ++part) {
            band.words[part][i / 2][i % 2] = parts[part];
        }
    }
    return exponent;
}

// Sum of the window of one output, tap by tap.
__device__ __forceinline__ Number sum_of_window(const Sample* signal, const Weights& weights, int filter, int output) {
    const int lag = kFirstLag + output;
    const int first = lag < 0 ? static_cast<int>(-lag) : 0;
    const int end = kSignal - lag < kTaps ? static_cast<int>(kSignal - lag) : kTaps;
    Number sum = zero();
#pragma unroll 1
    for (int k = first; k < end; ++k) {
        const Sample* sample = signal + lag + k;
        multiply_add(tap(weights, filter, k), to_number(__ldg(sample)), sum);
    }
    return sum;
}

// True if a stored output is finite, and thus unaffected by samples outside of its window.
__device__ __forceinline__ bool is_settled(Result stored) {
    return (__float_as_uint(stored) & 0x7f800000u) != 0x7f800000u;
}

// A product also multiplies samples outside of a window by zeros of the band, so that a NaN or an infinity there makes
// the sum NaN; and parts of a number may overflow where the number does not. If `check` is NaN in some thread, its warp
// computes those of its outputs again that are not finite.
__device__ __forceinline__ void repair(const Sample* signal, Result* result, const Weights& weights, int filter,
                                       int first, float check) {
    if (!__any_sync(0xffffffffu, check != 0.0f)) {
        return;
    }
    __syncwarp();  // makes the stores of the warp's other threads visible
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < kTileOutputs / kWarps; i += 32) {
        const int output = first + i;
        if (output < kOutputs && !is_settled(result[output])) {
            const Number sum = sum_of_window(signal, weights, filter, output);
            result[output] = to_result(sum);
        }
    }
}

// Stores a strip. A thread has outputs g and g + 8 of two segments, where g is its lane / 4. It exchanges one of each
// with thread g ^ 1 and stores two adjacent ones, from `target` on. Returns NaN if some sum is not finite, else 0.
__device__ __forceinline__ float store_strip(const float (&sums)[4], Result* target, int output, const Undo& undo) {
    const bool is_odd = threadIdx.x / 4 % 2 != 0;
    float check = 0.0f;
#pragma unroll
    for (int segment = 0; segment < 2; ++segment) {
        const float upper = sums[segment], lower = sums[segment + 2];
        const float received = __shfl_xor_sync(0xffffffffu, is_odd ? upper : lower, 4);
        float outputs[2] = {is_odd ? received : upper, is_odd ? lower : received};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            outputs[i] = outputs[i] * undo.first * undo.second;
            check = fmaf(outputs[i], 0.0f, check);
        }
        const int offset = segment * kSegment;
        if (output + offset + 1 < kOutputs) {
            __stcs(reinterpret_cast<StoreVector*>(target + offset), pack(outputs));
        }
    }
    return check;
}

// Filters the segments of a warp. `address` is that of the thread's row of the first ldmatrix, `target` the thread's
// first output, `output` its number. Returns NaN if some sum is not finite, else 0.
__device__ __forceinline__ float filter_segments(
    SharedAddress address, const Band& band, Result* target, int output, const Undo& undo) {
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
                    mma_f16(sums[strip][0], taps, samples[i][0]);
                }
            }
#pragma unroll
            for (int strip = 0; strip < kStrips; ++strip) {
                const int step = first + i - strip;
                if (step >= 0 && step < kSteps) {
                    unsigned taps[4];
                    matrix_of(band.words[1], step, taps);
                    mma_f16(sums[strip][1], taps, samples[i][0]);
                }
            }
#pragma unroll
            for (int strip = 0; strip < kStrips; ++strip) {
                const int step = first + i - strip;
                if (step >= 0 && step < kSteps) {
                    unsigned taps[4];
                    matrix_of(band.words[0], step, taps);
                    mma_f16(sums[strip][1], taps, samples[i][1]);
                }
            }
            const int done = first + i - (kSteps - 1);  // the strip that is complete
            if (done >= 0 && done < kStrips) {
                float strip[4];
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    strip[k] = sums[done][0][k] + sums[done][1][k];
                }
                check += store_strip(strip, target + 16 * done, output + 16 * done, undo);
            }
        }
    }
    return check;
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_toeplitz(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights) {
    __shared__ __align__(16) unsigned short tiles[2][kSampleParts][kPlaces];
    __shared__ float padded[kPadded];
    __shared__ unsigned slots[2][kWarps];
    constexpr int filter = 0;
    const unsigned row_block = blockIdx.x;
    const auto first_tile_of = [](unsigned block) {
        return static_cast<int>(block * static_cast<unsigned long long>(kRowTiles) / kRowBlocks);
    };
    const int first_tile = first_tile_of(row_block);
    int left = static_cast<int>(first_tile_of(row_block + 1) - first_tile) - 1;  // tiles after the present one
    int block_output = first_tile * kTileOutputs;
    int start = block_output + (kFirstLag - kLead);  // first sample of the tile
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // The four matrices of an ldmatrix are 8 samples of all segments, and those that follow.
    const int first_place = (8 * warp + lane % 8) * (kSegment + 8) + place_of(lane / 8 * 8);
    const int warp_output = 8 * kSegment * warp;
    const int own_output = warp_output + lane % 4 * 2 * kSegment + lane / 8 * 2 + lane / 4 % 2 * 8;
    unsigned words[kLoads][kWords];
    load_tile(signal, start, words);
    Band band;
    const unsigned taps_exponent = fill_band(weights, filter, padded, slots[1], band);
    publish(words, slots[0]);
    __syncthreads();
    unsigned exponent = exponent_of(slots[0]);
    fill_tile(words, scale_of<kSampleTop>(exponent), tiles[0]);
    if (left > 0) {
        load_tile(signal, start + kTileOutputs, words);
        publish(words, slots[1]);
    }
#pragma unroll 1
    for (int turn = 0;; ++turn) {
        const Undo undo = undo_of(taps_exponent, exponent);
        __syncthreads();
        if (left > 0) {
            exponent = exponent_of(slots[(turn + 1) % 2]);
            fill_tile(words, scale_of<kSampleTop>(exponent), tiles[(turn + 1) % 2]);
        }
        if (left > 1) {
            load_tile(signal, start + 2 * kTileOutputs, words);
        }
        const SharedAddress address = shared_address(&tiles[turn % 2][0][first_place]);
        const float check = filter_segments(address, band, result + block_output + own_output,
                                            block_output + own_output, undo);
        repair(signal, result, weights, filter, block_output + warp_output, check);
        if (left-- == 0) {
            break;
        }
        if (left > 0) {
            publish(words, slots[turn % 2]);
        }
        block_output += kTileOutputs;
        start += kTileOutputs;
    }
}
