// warpsmith filter1d_toeplitz_batch
// problem: filter1d signal=1024 taps=1024 batch=64 mode=causal dtype=bfloat16 channels=768 filters=768
//          taps_dtype=bfloat16
// config:  columns=128 groups=4 load_vector=8 min_blocks=0 piece=128 stages=4 store=streaming store_vector=8
//          weights=global
//
// Products by wgmma of 64 rows, the channels of all signals that share a filter, with its Toeplitz matrix. Matrix A is
// 16 samples of each row. Matrix B has their taps for the outputs of a chunk, the last output in column 0, so that a
// tap's number is a constant plus that of its sample plus that of its column. A core matrix, of 8 by 8 taps, is stored
// once for each such sum; the descriptor's two offsets are equal. Samples come in pieces, by asynchronous copies, and
// pass through a ring.

constexpr int kSignal = 1024;  // samples of a row
constexpr int kOutputs = 1024;  // outputs of a row
constexpr int kFirstLag = -1023;  // sample under tap 0 of the first output
constexpr int kLead = 1;  // samples of the first step before the first window
constexpr int kFirstStep = -64;  // step of 16 samples in which the first window begins
constexpr int kSignalSteps = 64;
constexpr int kSteps = 72;  // steps of a warpgroup
constexpr int kColumns = 128;  // outputs of a warpgroup
constexpr int kGroups = 4;  // warpgroups of a block
constexpr int kThreads = 128 * kGroups;
constexpr int kRows = 64;  // rows that share a filter
constexpr unsigned kParts = 2;  // blocks that share a row's outputs
constexpr int kPiece = 128;  // samples of each row that a group of copies brings
constexpr int kPieceSteps = kPiece / 16;
constexpr int kStages = 4;  // pieces in shared memory
constexpr int kAlong = 64 * 16 + 16;  // bytes for 8 samples of all rows; a warp that copies a row meets no bank twice
constexpr int kStageBytes = kPiece / 8 * kAlong;
constexpr int kCores = 159;  // core matrices of taps
constexpr int kPadded = 8 * (kCores + 2);  // taps with the zeros around them
constexpr int kLoadVector = 8;  // samples of a copy
constexpr int kSums = kColumns / 2;

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

constexpr int kTaps = 1024;

struct Weights {
    const Tap* taps;  // [filters][kTaps]
};

__device__ __forceinline__ Weight tap(const Weights& weights, int f, int k) {
    return to_weight(__ldg(weights.taps + static_cast<size_t>(f) * kTaps + k));
}

#ifndef WARPSMITH_ON_HOST  // the host device defines this itself
__device__ __forceinline__ unsigned bfloat_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Copies asynchronously, not through registers; 16-byte copies bypass L1.
template <int kBytes>
__device__ __forceinline__ void cp_async(void* shared, const void* global) {
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (kBytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(global) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(target), "l"(global), "n"(kBytes) : "memory");
    }
}

#endif

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// Makes writes to shared memory visible to wgmma; a barrier of the threads follows.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Matrix descriptor without swizzle, in units of 16 bytes: address, leading offset (core matrix to core matrix along K)
// and stride offset (along M or N).
using SmemDescriptor = unsigned long long;

template <int kLeadingBytes, int kStrideBytes>
__device__ __forceinline__ SmemDescriptor smem_descriptor(const void* first) {
    static_assert(kLeadingBytes % 16 == 0 && kStrideBytes % 16 == 0, "descriptors count 16 bytes");
    const SmemDescriptor address = __cvta_generic_to_shared(first);
    const SmemDescriptor offsets = static_cast<SmemDescriptor>(kStrideBytes / 16) << 32 |
                                   static_cast<SmemDescriptor>(kLeadingBytes / 16) << 16;
    return (address & 0x3ffff) >> 4 | offsets;
}

// Descriptor of the matrix `bytes` after `matrix`.
__device__ __forceinline__ SmemDescriptor behind(SmemDescriptor matrix, int bytes) { return matrix + bytes / 16; }

// sums = a * b, or sums += a * b if `add`; -a * b if kNegated. 64x16 by 16x128 bf16 with float32 accumulators, in the
// register layout of wgmma.m64n128k16. kTransposeA and kTransposeB: MN-major operands instead of K-major ones.
// Asynchronous: no access to sums between wgmma_fence() and wgmma_wait_all().
template <bool kNegated, bool kTransposeA, bool kTransposeB>
__device__ __forceinline__ void wgmma_bf16(float (&sums)[64], SmemDescriptor a, SmemDescriptor b, bool add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %66, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
        "%60, %61, %62, %63"
        "}, %64, %65, add, %67, 1, %68, %69; }"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]),
          "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
          "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]),
          "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]),
          "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]),
          "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kNegated ? -1 : 1),
          "n"(kTransposeA ? 1 : 0), "n"(kTransposeB ? 1 : 0));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all wgmma groups. The accumulators are operands, so that the compiler reads them only after the wait.
__device__ __forceinline__ void wgmma_wait_all(float (&sums)[64]) {
    asm volatile(
        "wgmma.wait_group.sync.aligned 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]),
          "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
          "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]),
          "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]),
          "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]),
          "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63])
        :
        : "memory");
}
#endif

#ifndef WARPSMITH_ON_HOST
// Waits until at most the last kGroups committed wgmma groups are pending.
template <int kGroups> __device__ __forceinline__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}
#endif

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
    return (stored & 0x7f80) != 0x7f80;
}

// A product also multiplies samples outside of a window by zeros of the band, so that a NaN or an infinity there makes
// the sum NaN; and parts of a number may overflow where the number does not. If `check` is NaN in some thread, its warp
// computes those of its outputs again that are not finite.

// Number of a row of a filter among the channels of all signals.
__device__ __forceinline__ size_t place_of(int filter, int row) {
    return static_cast<size_t>(row) * 768 + filter;
}

// Channel, and elements to the first sample and the first output, of a row of a filter.
struct Row {
    int channel;
    size_t signal, result;
};

__device__ __forceinline__ Row row_of(int filter, int row) {
    const size_t place = place_of(filter, row);
    return {filter, place * 1024, place * 1024};
}

// Copies a piece of all rows to its place in the ring, if there are so many pieces: kPiece samples from step `begin` +
// `piece` * kPieceSteps on. 8 samples of a row lie together, those of the next row follow. Samples behind the last one
// of
// the signal are zero. A missing row spoils no other one.
__device__ __forceinline__ void load_piece(const Sample* signal, int filter, int first_row, int begin, int piece,
                                           int pieces, unsigned char* samples) {
    if (piece >= pieces) {
        return;
    }
    constexpr int kRowVectors = kPiece / kLoadVector, kLoads = (64 * kRowVectors + kThreads - 1) / kThreads;
    unsigned char* const stage = samples + piece % kStages * kStageBytes;
#pragma unroll 4
    for (int i = 0; i < kLoads; ++i) {
        const int vector = i * kThreads + static_cast<int>(threadIdx.x);
        const int row = vector / kRowVectors, place = vector % kRowVectors * kLoadVector;
        if (row >= 64) {
            continue;
        }
        unsigned char* target = stage + place / 8 * kAlong + row * 16 + place % 8 * 2;
        const int first = 16 * begin + piece * kPiece + place;
        const Sample* source = signal + row_of(filter, first_row + row).signal + first;
        if (first + kLoadVector <= kSignal) {
            cp_async<2 * kLoadVector>(target, source);
            continue;
        }
#pragma unroll
        for (int k = 0; k < kLoadVector; ++k) {
            reinterpret_cast<Sample*>(target)[k] = first + k < kSignal ? __ldg(source + k) : Sample{0};
        }
    }
}

// Two taps as bits of 16-bit elements. They had this type in memory.
__device__ __forceinline__ unsigned pair_of(float low, float high) { return bfloat_pair(low, high); }

// Writes the core matrices of taps from step `from` of a warpgroup on. Row n of core matrix i has taps
// 8 i + n + k - (kColumns - 1 + kLead) for k from 0 to 7.
__device__ __forceinline__ void fill_table(const Weights& weights, int filter, int from, float (&padded)[kPadded],
                                           unsigned char* taps) {
    for (int i = 16 * from + threadIdx.x; i < kPadded; i += kThreads) {
        const int k = i - (kColumns - 1 + kLead);
        padded[i] = k >= 0 && k < kTaps ? tap(weights, filter, k) : 0.0f;
    }
    __syncthreads();
    for (int i = 16 * from + threadIdx.x; i < 8 * kCores; i += kThreads) {
        const float* own = padded + i / 8 * 8 + i % 8;
        reinterpret_cast<uint4*>(taps)[i] = make_uint4(pair_of(own[0], own[1]), pair_of(own[2], own[3]),
                                                       pair_of(own[4], own[5]), pair_of(own[6], own[7]));
    }
}

// Transposes the 4 x 4 registers of a quad: register i of lane t becomes register t of lane i.
__device__ __forceinline__ void transpose_quad(unsigned (&own)[4]) {
    const bool is_odd = threadIdx.x & 1, is_upper = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const unsigned received = __shfl_xor_sync(0xffffffffu, is_odd ? own[i] : own[i + 1], 1);
        own[i] = is_odd ? received : own[i];
        own[i + 1] = is_odd ? own[i + 1] : received;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const unsigned received = __shfl_xor_sync(0xffffffffu, is_upper ? own[i] : own[i + 2], 2);
        own[i] = is_upper ? received : own[i];
        own[i + 2] = is_upper ? own[i + 2] : received;
    }
}

// Stores a thread's outputs of one row, pairs of adjacent ones in backward order. `first` is the chunk's first output.
// Returns NaN if some sum is not finite, else 0.
template <int kHalf>
__device__ __forceinline__ float store_row(
    const float (&sums)[kSums], Result* target, int first, bool is_there) {
    const int quad = threadIdx.x % 4;
    float check = 0.0f;
#pragma unroll
    for (int i = 0; i < kColumns / 8; i += 4) {
        unsigned words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float high = sums[4 * (i + j) + 2 * kHalf], low = sums[4 * (i + j) + 2 * kHalf + 1];
            check = fmaf(high, 0.0f, fmaf(low, 0.0f, check));
            words[j] = bfloat_pair(low, high);
        }
        transpose_quad(words);
        const int offset = kColumns - 8 - 8 * (i + quad);
        const int output = first + offset;
        if (is_there && output + 8 <= kOutputs) {
            __stcs(reinterpret_cast<uint4*>(target + offset), make_uint4(words[3], words[2], words[1], words[0]));
        }
    }
    return is_there ? check : 0.0f;
}

// Stores a warpgroup's outputs. A product also multiplies samples outside of a window by taps of zero, so that a NaN or
// an infinity there makes the sum NaN. A warp computes outputs that are not finite again, window by window.
__device__ __forceinline__ void store_chunk(const Sample* signal, Result* result, const Weights& weights, int filter,
                                            int first_row, int first, const float (&sums)[kSums]) {
    const int warp_row = first_row + static_cast<int>(threadIdx.x % 128 / 32) * 16;
    const int own_row = warp_row + static_cast<int>(threadIdx.x % 32 / 4);
    float check = 0.0f;
    {
        const bool is_there = own_row < kRows;
        const Row row = row_of(filter, is_there ? own_row : 0);
        check += store_row<0>(sums, result + row.result + first, first, is_there);
    }
    {
        const bool is_there = own_row + 8 < kRows;
        const Row row = row_of(filter, is_there ? own_row + 8 : 0);
        check += store_row<1>(sums, result + row.result + first, first, is_there);
    }
    if (!__any_sync(0xffffffffu, check != 0.0f)) {
        return;
    }
    __syncwarp();  // makes the stores of the warp's other threads visible
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < 16 * kColumns; i += 32) {
        const int output = first + i % kColumns;
        const int number = warp_row + i / kColumns;
        if (output >= kOutputs || number >= kRows) {
            continue;
        }
        const Row row = row_of(filter, number);
        Result* stored = result + row.result + output;
        if (!is_settled(*stored)) {
            const Number sum = sum_of_window(signal + row.signal, weights, filter, output);
            *stored = to_result(sum);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_toeplitz_batch(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights) {
    extern __shared__ __align__(128) unsigned char samples[];
    __shared__ float padded[kPadded];
    unsigned char* const taps = samples + kStages * kStageBytes;
    const unsigned tile = blockIdx.x / kParts;
    // The last outputs of a causal filter have most samples: their blocks begin first.
    const int block_output = static_cast<int>(kParts - 1 - blockIdx.x % kParts) * (kGroups * kColumns);
    const int filter = static_cast<int>(tile), first_row = 0;
    constexpr int kGroupSteps = kColumns / 16;  // from a warpgroup's first step to that of the next one
    const int block_step = kFirstStep + block_output / 16, last_step = block_step + (kGroups - 1) * kGroupSteps;
    const int begin = max(block_step, 0), end = min(last_step + kSteps, kSignalSteps);
    const int pieces = static_cast<int>(end - begin + kPieceSteps - 1) / kPieceSteps;
#pragma unroll 1
    for (int piece = 0; piece < kStages - 2; ++piece) {
        load_piece(signal, filter, first_row, begin, piece, pieces, samples);
        cp_async_commit_group();
    }
    fill_table(weights, filter, max(static_cast<int>(begin - last_step), 0), padded, taps);

    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    const int output = block_output + group * kColumns;
    const int first = block_step + group * kGroupSteps, least = max(first, 0);
    const int behind_last = output < kOutputs ? min(first + kSteps, kSignalSteps) : least;
    const SmemDescriptor a = smem_descriptor<kAlong, 128>(samples), b = smem_descriptor<128, 128>(taps);
    float sums[kSums];
    wgmma_fence();
#pragma unroll 1
    for (int piece = 0; piece < pieces; ++piece) {
        cp_async_wait_group<kStages - 3>();
        fence_proxy_async();
        wgmma_wait_group<1>();  // the piece before the last one is multiplied, so that another one may take its place
        __syncthreads();
        load_piece(signal, filter, first_row, begin, piece + kStages - 2, pieces, samples);
        cp_async_commit_group();
        const int here = begin + piece * kPieceSteps;
        const SmemDescriptor own_a = behind(a, piece % kStages * kStageBytes);
        if (here >= least && here + kPieceSteps <= behind_last) {
            const SmemDescriptor own_b = behind(b, static_cast<int>(here - first) * 2 * 128);
#pragma unroll
            for (int i = 0; i < kPieceSteps; ++i) {
                wgmma_bf16<false, false, false>(sums, behind(own_a, i * 2 * kAlong), behind(own_b, i * 2 * 128),
                                               i > 0 || here > least);
            }
            wgmma_commit_group();
        } else {
            const int to = min(here + kPieceSteps, behind_last);
#pragma unroll 1
            for (int step = max(here, least); step < to; ++step) {
                wgmma_bf16<false, false, false>(sums, behind(own_a, static_cast<int>(step - here) * 2 * kAlong),
                                               behind(b, static_cast<int>(step - first) * 2 * 128), step > least);
            }
            wgmma_commit_group();
        }
    }
    wgmma_wait_all(sums);
    if (output < kOutputs) {
        store_chunk(signal, result, weights, filter, first_row, output, sums);
    }
}
