// warpsmith filter1d_gradients_batch
// problem: filter1d signal=8192 taps=128 batch=64 mode=causal dtype=bfloat16 channels=768 filters=768
//          taps_dtype=bfloat16 pass=wgrad
// config:  columns=64 groups=3 stage=1 stages=3 tiles=8 vector=8
//
// Gradients of weights by wgmma. Matrix A is the result's gradient: 64 outputs of the rows, the channels of all signals
// that share a filter; matrix B is the samples of these rows beside the outputs. Products sum over the rows and over
// the
// tiles of a block. A tap's sum is a diagonal of the product; at the end a thread adds up the diagonals of its taps.
// Samples come by asynchronous copies, as many as the next tile needs; tiles of outputs pass through a ring.

constexpr int kSignal = 8192;  // samples of a row
constexpr int kOutputs = 8192;  // outputs of a row
constexpr int kFirstLag = -127;  // sample under tap 0 of the first output
constexpr int kTaps = 128;
constexpr int kChannels = 768;  // of the partial sums: one for each filter
constexpr int kLead = 1;  // samples of the first column's product before tap 0
constexpr int kColumns = 64;  // samples of a warpgroup beside a tile of 64 outputs
constexpr int kGroups = 3;  // warpgroups of a block
constexpr int kThreads = 128 * kGroups;
constexpr int kWidth = kColumns * kGroups;
constexpr int kLags = 128;  // taps of a block: their diagonals lie in its columns
constexpr unsigned kLagParts = 1;  // blocks that share the taps of a filter
constexpr int kTiles = 8;  // tiles of outputs of a block
constexpr unsigned kTimeParts = 16;  // blocks along a signal
constexpr int kStage = 1;  // tiles of outputs that come at once
constexpr int kStages = 3;  // so many times these are in shared memory
constexpr int kRows = 64;  // rows that share a filter
constexpr unsigned kRowTiles = 1;  // groups of 64 of them
constexpr int kRowSteps = 4;  // products over the rows of a tile, 16 each
constexpr int kHeld = 640;  // most samples of a row in shared memory
constexpr int kVector = 8;  // samples of a copy
constexpr int kAlong = 1040;  // bytes for 8 samples of all rows; a warp that copies a row meets no bank twice
constexpr int kTileBytes = 64 / 8 * kAlong;
constexpr int kSums = kColumns / 2;

using Sample = unsigned short;  // bfloat16 bits
using Gradient = unsigned short;  // bfloat16 bits
using Tap = unsigned short;  // bfloat16 bits

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

__device__ __forceinline__ float to_number(Sample bits) { return bfloat_to_float(bits); }

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

// sums = a * b, or sums += a * b if `add`; -a * b if kNegated. 64x16 by 16x64 bf16 with float32 accumulators, in the
// register layout of wgmma.m64n64k16. kTransposeA and kTransposeB: MN-major operands instead of K-major ones.
// Asynchronous: no access to sums between wgmma_fence() and wgmma_wait_all().
template <bool kNegated, bool kTransposeA, bool kTransposeB>
__device__ __forceinline__ void wgmma_bf16(float (&sums)[32], SmemDescriptor a, SmemDescriptor b, bool add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %34, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, add, %35, 1, %36, %37; }"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kNegated ? -1 : 1),
          "n"(kTransposeA ? 1 : 0), "n"(kTransposeB ? 1 : 0));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all wgmma groups. The accumulators are operands, so that the compiler reads them only after the wait.
__device__ __forceinline__ void wgmma_wait_all(float (&sums)[32]) {
    asm volatile(
        "wgmma.wait_group.sync.aligned 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31])
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

// Number of a row of a filter among the channels of all signals.
__device__ __forceinline__ size_t place_of(int filter, int row) {
    return static_cast<size_t>(row) * 768 + filter;
}

// Copies `count` elements of all rows to shared memory, from element `first` on, both multiples of 8: 8 elements of a
// row
// lie together, those of the next row follow. Elements outside of the `length` of a row, and missing rows, are zero.
__device__ __forceinline__ void load_rows(const Sample* source, size_t pitch, int length, int filter,
                                          int first_row, int first, int count, unsigned char* target) {
    constexpr int kLanes = 64 / kVector;  // threads that copy 64 elements of a row
    const int own_place = static_cast<int>(threadIdx.x) % kLanes * kVector;
    for (int place = own_place; place < count; place += 64) {
        const int at = first + place;
#pragma unroll 4
        for (int row = threadIdx.x / kLanes; row < 16 * kRowSteps; row += kThreads / kLanes) {
            unsigned char* own = target + place / 8 * kAlong + row * 16 + place % 8 * 2;
            const bool is_there = first_row + row < kRows;
            const Sample* elements = source + (is_there ? place_of(filter, first_row + row) * pitch : 0) + at;
            if (is_there && at >= 0 && at + kVector <= length) {
                cp_async<2 * kVector>(own, elements);
                continue;
            }
#pragma unroll
            for (int k = 0; k < kVector; ++k) {
                const bool is_inside = is_there && at + k >= 0 && at + k < length;
                reinterpret_cast<Sample*>(own)[k] = is_inside ? __ldg(elements + k) : Sample{0};
            }
        }
    }
}

// Sum of a tap over some outputs of the rows of a tile, pair by pair: a product also multiplies samples that are not
// finite by zeros beside the outputs, and the other way round.
__device__ __noinline__ float sum_of_tap(
    const Sample* signal, const Sample* gradient, int filter, int first_row, int tap, int begin, int end) {
    const int lag = kFirstLag + tap;
    begin = max(begin, -lag);
    end = min(min(end, kOutputs), kSignal - lag);
    float sum = 0.0f;
    for (int row = first_row; row < min(first_row + 64, kRows); ++row) {
        const Sample* samples = signal + place_of(filter, row) * 8192 + lag;
        const Sample* outputs = gradient + place_of(filter, row) * 8192;
        float part = 0.0f;
        for (int t = begin; t < end; ++t) {
            part = fmaf(to_number(__ldg(outputs + t)), to_number(__ldg(samples + t)), part);
        }
        sum += part;
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_gradients_batch(
    const Sample* __restrict__ signal,
    const Gradient* __restrict__ gradient,
    float* __restrict__ sums) {
    extern __shared__ __align__(128) unsigned char samples[];
    unsigned char* const outputs = samples + kHeld / 8 * kAlong;
    const int lag_part = static_cast<int>(blockIdx.x % kLagParts);
    const int time_part = static_cast<int>(blockIdx.x / kLagParts % kTimeParts);
    const unsigned rest = blockIdx.x / kLagParts / kTimeParts;
    const int first_row = static_cast<int>(rest % kRowTiles) * 64, filter = static_cast<int>(rest / kRowTiles);
    const int first_tap = lag_part * kLags;
    const int first_output = static_cast<int>(time_part) * (64 * kTiles);
    const int left = (kOutputs - first_output + 63) / 64;
    const int tiles = left < kTiles ? static_cast<int>(left) : kTiles;
    // Samples beside the first tile begin here. Warpgroups skip those that lie outside of the signal, column by column.
    const int first_sample = first_output + (kFirstLag - kLead) + first_tap;
    const int begin = max(first_sample, static_cast<int>(-kColumns));
    const int limit = static_cast<int>((kSignal + 7) / 8 * 8 + kColumns);
    int loaded = begin;  // samples before this one are under way
    const auto load_stage = [&](int stage) {
        if (stage * kStage >= tiles) {
            return;
        }
        const int end = min(first_sample + (min((stage + 1) * kStage, tiles) - 1) * 64 + kWidth, limit);
        if (end > loaded) {
            load_rows(signal, 8192, kSignal, filter, first_row, loaded, static_cast<int>(end - loaded),
                      samples + (loaded - begin) / 8 * kAlong);
            loaded = end;
        }
        load_rows(gradient, 8192, kOutputs, filter, first_row, first_output + stage * (64 * kStage), 64 * kStage,
                  outputs + stage % kStages * kStage * kTileBytes);
    };
#pragma unroll 1
    for (int stage = 0; stage < kStages - 2; ++stage) {
        load_stage(stage);
        cp_async_commit_group();
    }
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    const SmemDescriptor a = smem_descriptor<128, kAlong>(outputs), b = smem_descriptor<128, kAlong>(samples);
    float products[kSums];
    bool has_products = false;
    wgmma_fence();
#pragma unroll 1
    for (int stage = 0; stage * kStage < tiles; ++stage) {
        cp_async_wait_group<kStages - 3>();
        fence_proxy_async();
        wgmma_wait_group<1>();  // the stage before the last one is multiplied, so that another one may take its place
        __syncthreads();
        load_stage(stage + kStages - 2);
        cp_async_commit_group();
        const SmemDescriptor stage_a = behind(a, stage % kStages * kStage * kTileBytes);
#pragma unroll
        for (int tile = 0; tile < kStage; ++tile) {
            const int column = first_sample + (stage * kStage + tile) * 64 + group * kColumns;
            if (column > -kColumns && column < kSignal) {
                const SmemDescriptor own_a = behind(stage_a, tile * kTileBytes);
                const SmemDescriptor own_b = behind(b, static_cast<int>(column - begin) / 8 * kAlong);
#pragma unroll
                for (int i = 0; i < kRowSteps; ++i) {
                    wgmma_bf16<false, true, true>(products, behind(own_a, 256 * i), behind(own_b, 256 * i),
                                                  i > 0 || has_products);
                }
                has_products = true;
            }
        }
        wgmma_commit_group();
    }
    wgmma_wait_all(products);
    __syncthreads();  // all products are complete, and their sums may take the place of the samples

    float* const matrix = reinterpret_cast<float*>(samples);  // [64][kWidth + 1]
    const int lane = threadIdx.x % 32, own_row = threadIdx.x % 128 / 32 * 16 + lane / 4;
    float* const own = matrix + own_row * (kWidth + 1) + group * kColumns + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
        own[i % 4 / 2 * 8 * (kWidth + 1) + i / 4 * 8 + i % 2] = has_products ? products[i] : 0.0f;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kLags && first_tap + i < kTaps; i += kThreads) {
        float sum = 0.0f;
#pragma unroll 8
        for (int m = 0; m < 64; ++m) {
            sum += matrix[m * (kWidth + 1) + m + kLead + i];
        }
        if (!(fabsf(sum) <= 3.402823466e38f)) {
            const int end = first_output + 64 * kTiles;
            sum = sum_of_tap(signal, gradient, filter, first_row, first_tap + i, first_output, end);
        }
        const size_t part = first_row / 64 * kTimeParts + time_part;
        sums[(part * kTaps + first_tap + i) * kChannels + filter] = sum;
    }
}

constexpr int kParts = 16;  // of each signal, and of each block along it
constexpr size_t kPartPitch = 98304;  // sums of a part: of each channel for each tap
constexpr unsigned kWeights = 98304;  // elements of their gradient
constexpr int kFoldThreads = 256;

__device__ __forceinline__ Tap to_tap(float value) { return float_to_bfloat(value); }

// Adds up a sum of so many adjacent channels in each part.
template <int channels>
__device__ __forceinline__ float add_up(const float* sums) {
    float sum = 0.0f;
#pragma unroll 8
    for (int term = 0; term < channels * kParts; term += 1) {
        sum += __ldg(sums + term / channels * kPartPitch + term % channels);
    }
    return sum;
}

// Each thread adds up an element of a gradient: tap by tap of all filters.
extern "C" __global__ void __launch_bounds__(kFoldThreads)
filter1d_gradients_batch_fold(
    const float* __restrict__ sums,
    Tap* __restrict__ weights_gradient) {
    const unsigned element = blockIdx.x * kFoldThreads + threadIdx.x;
    const unsigned tap = element / 768, filter = element % 768;
    float sum = 0.0f;
    if (element < kWeights) {
        sum = add_up<1>(sums + tap * static_cast<size_t>(kChannels) + filter * 1);
    }
    if (element < kWeights) {
        weights_gradient[filter * static_cast<size_t>(kTaps) + tap] = to_tap(sum);
    }
}

