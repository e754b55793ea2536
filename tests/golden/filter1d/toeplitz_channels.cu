// warpsmith filter1d_toeplitz_channels
// problem: filter1d signal=8192 taps=128 batch=1 mode=causal dtype=bfloat16 channels=8192 filters=512 layout=btc
//          taps_dtype=bfloat16
// config:  chunk=3 min_blocks=0 segments=4 split=bfloats store=streaming warps=8 weights=global
//
// Products of a banded Toeplitz matrix with the samples of 16 adjacent channels, which have one filter, by
// mma.m16n8k16. Row m of matrix A is the band of taps for output m of a strip of 16; matrix B has 16 samples of 8
// channels. A warp walks along the signal, reads each sample once from shared memory, and keeps the samples of its
// windows in registers.

constexpr int kSignal = 8192;  // samples of a channel
constexpr int kOutputs = 8192;  // outputs of a channel
constexpr int kFirstLag = -127;  // sample under tap 0 of the first output
constexpr int kLead = 0;  // taps of zero before the first one
constexpr size_t kPitch = 8192;  // elements from one sample to the next
constexpr size_t kResultPitch = 8192;
constexpr int kSteps = 9;  // products along the windows of a strip, of 16 samples each
constexpr int kStrips = 128;  // strips of a block, of 16 outputs each
constexpr int kChunk = 3;  // steps of 16 samples that a block loads at once
constexpr int kRing = 9;  // steps of samples that a warp keeps, and steps of an iteration: whole chunks
constexpr int kWarps = 8;  // of a block, each with 16 channels
constexpr int kThreads = 32 * kWarps;
constexpr int kVectors = 2 * kWarps;  // 16-byte vectors of a sample of a block's channels
constexpr int kTilePitch = 16 * kWarps + 8;  // channels of a row in shared memory, padded against bank conflicts
constexpr unsigned kChannelBlocks = 64;  // blocks across the channels
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

using StoreVector = uint2;

#ifndef WARPSMITH_ON_HOST  // the host device defines this itself
__device__ __forceinline__ unsigned bfloat_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

__device__ __forceinline__ uint2 pack(const Number* sums) {
    return make_uint2(bfloat_pair(sums[0], sums[1]), bfloat_pair(sums[2], sums[3]));
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

// Loads four 8x8 matrices of 16-bit elements, transposed, in the fragment layout of mma. Lane l passes the address
// of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4_trans(SharedAddress row, unsigned& first, unsigned& second, unsigned& third,
                                           unsigned& fourth) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3 }, [%4];"
                 : "=r"(first), "=r"(second), "=r"(third), "=r"(fourth) : "r"(row));
}
#endif

// Splits two numbers into 1 bfloat16 part each.
__device__ __forceinline__ void split(float first, float second, unsigned (&parts)[1]) {
    parts[0] = bfloat_pair(first, second);
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

// A thread's part of the band, from the taps of a filter, which the warp first copies to shared memory.
__device__ __forceinline__ void fill_band(const Weights& weights, int filter, float (&padded)[kPadded],
                                          Band& band) {
    for (int i = threadIdx.x % 32; i < kPadded; i += 32) {
        const int k = i - 7 - kLead;
        padded[i] = k >= 0 && k < kTaps ? tap(weights, filter, k) : 0.0f;
    }
    __syncwarp();
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

// Loads a thread's vectors of the chunk that begins at sample `start`, zeros outside of the signal. `samples` is the
// thread's first channel.
__device__ __forceinline__ void load_chunk(const Sample* samples, int start,
                                           uint4 (&vectors)[kChunk]) {
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
        const int sample = start + i * 16 + static_cast<int>(threadIdx.x / kVectors);
        vectors[i] = make_uint4(0, 0, 0, 0);
        if (sample >= 0 && sample < kSignal) {
            vectors[i] = __ldg(reinterpret_cast<const uint4*>(samples + sample * static_cast<long long>(kPitch)));
        }
    }
}

// Writes a thread's vectors to shared memory. Of the 16 channels of a warp, pairs 0, 2, 4 and 6 come first, then pairs
// 1, 3, 5 and 7: a thread then gets the sums of four adjacent channels.
__device__ __forceinline__ void fill_chunk(const uint4 (&vectors)[kChunk],
                                           unsigned short (&tile)[16 * kChunk][kTilePitch]) {
    const int vector = threadIdx.x % kVectors, column = vector / 2 * 16 + vector % 2 * 4;
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
        unsigned short* row = tile[i * 16 + threadIdx.x / kVectors];
        *reinterpret_cast<uint2*>(row + column) = make_uint2(vectors[i].x, vectors[i].z);
        *reinterpret_cast<uint2*>(row + column + 8) = make_uint2(vectors[i].y, vectors[i].w);
    }
}

// Sum of the window of one output, tap by tap.
__device__ __forceinline__ Number sum_of_window(const Sample* signal, const Weights& weights, int filter, int output) {
    const int lag = kFirstLag + output;
    const int first = lag < 0 ? static_cast<int>(-lag) : 0;
    const int end = kSignal - lag < kTaps ? static_cast<int>(kSignal - lag) : kTaps;
    Number sum = zero();
#pragma unroll 1
    for (int k = first; k < end; ++k) {
        const Sample* sample = signal + (lag + k) * static_cast<long long>(kPitch);
        multiply_add(tap(weights, filter, k), to_number(__ldg(sample)), sum);
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
__device__ __forceinline__ void repair(const Sample* signal, Result* result, const Weights& weights, int filter,
                                       int first, int first_channel, float check) {
    if (!__any_sync(0xffffffffu, check != 0.0f)) {
        return;
    }
    __syncwarp();  // makes the stores of the warp's other threads visible
    const int channel = first_channel + threadIdx.x % 16;
    if (channel >= 8192) {
        return;
    }
#pragma unroll 1
    for (int i = threadIdx.x % 32 / 16; i < 16 * kStrips; i += 2) {
        const int output = first + i;
        Result* target = result + output * static_cast<long long>(kResultPitch) + channel;
        if (output < kOutputs && !is_settled(*target)) {
            const Number sum = sum_of_window(signal + channel, weights, filter, output);
            *target = to_result(sum);
        }
    }
}

using Samples = unsigned[2][2];  // 16 samples of two times 8 channels
using StripSums = float[2][kSums][4];

// Sums of the strip whose windows begin with the samples at place `first` of the ring.
__device__ __forceinline__ void sum_strip(const Samples (&ring)[kRing], int first, const Band& band, StripSums& sums) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        const Samples& samples = ring[(first + step) % kRing];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            {
                unsigned taps[4];
                matrix_of(band.words[0], step, taps);
                mma_bf16(sums[half][0], taps, samples[half]);
            }
        }
    }
}

// Stores a strip. `target` is the thread's first output of it, `output` the number of that. Returns NaN if some sum is
// not finite, else 0.
__device__ __forceinline__ float store_strip(const StripSums& sums, Result* target, int output) {
    float check = 0.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // 8 outputs of each channel
        float outputs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float sum = sums[i / 2][0][2 * half + i % 2];
            check = fmaf(sum, 0.0f, check);
            outputs[i] = sum;
        }
        if (output + 8 * half < kOutputs) {
            __stcs(reinterpret_cast<StoreVector*>(target + 8 * half * kResultPitch), pack(outputs));
        }
    }
    return check;
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_toeplitz_channels(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights) {
    __shared__ __align__(16) unsigned short tiles[2][16 * kChunk][kTilePitch];
    __shared__ float padded[kWarps][kPadded];
    const int first_output = static_cast<int>(blockIdx.x / kChannelBlocks) * (16 * kStrips);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int block_channel = blockIdx.x % kChannelBlocks * (16 * kWarps);
    const int loaded_channel = block_channel + threadIdx.x % kVectors * 8;
    const int warp_channel = block_channel + 16 * warp;
    const int channel = warp_channel + lane % 4 * 4;  // of the thread's outputs
    const int filter = warp_channel / 16;
    const Sample* samples = signal + loaded_channel;
    int start = first_output + kFirstLag;
    uint4 vectors[kChunk];
    load_chunk(samples, start, vectors);
    Band band;
    fill_band(weights, filter, padded[warp], band);
    fill_chunk(vectors, tiles[0]);
    start += 16 * kChunk;
    load_chunk(samples, start, vectors);

    Samples ring[kRing];
    float check = 0.0f;
    int output = first_output + lane / 4 - 16 * (kSteps - 1);  // the thread's first output of the oldest strip
    Result* target = result + output * static_cast<long long>(kResultPitch) + channel;
    int buffer = 0;
#pragma unroll 1
    for (int done = 0; done < kStrips + kSteps - 1; done += kRing) {
#pragma unroll
        for (int u = 0; u < kRing; ++u) {
            if (u % kChunk == 0) {
                __syncthreads();
                fill_chunk(vectors, tiles[buffer ^ 1]);
                start += 16 * kChunk;
                if (done + u + 2 * kChunk < kStrips + kSteps - 1) {
                    load_chunk(samples, start, vectors);
                }
            }
            // The first and the second matrix of an ldmatrix are 16 samples of 8 channels, the others those of 8 more.
            const int row = u % kChunk * 16 + lane % 16, column = 16 * warp + lane / 16 * 8;
            ldmatrix_x4_trans(shared_address(&tiles[buffer][row][column]), ring[u][0][0], ring[u][0][1], ring[u][1][0],
                              ring[u][1][1]);
            // The strip whose windows end with these samples.
            if (done + u >= kSteps - 1 && done + u < kStrips + kSteps - 1) {
                StripSums sums = {};
                sum_strip(ring, (u + 1 + kRing - kSteps) % kRing, band, sums);
                check += store_strip(sums, target, output);
            }
            target += 16 * kResultPitch;
            output += 16;
            if (u % kChunk == kChunk - 1) {
                buffer ^= 1;
            }
        }
    }
    repair(signal, result, weights, filter, first_output, warp_channel, check);
}
