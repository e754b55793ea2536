// warpsmith conv2d_mma
// problem: conv2d pass=wgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  min_blocks=1 splits=24 stages=2 taps=2 terms=128 warp_columns=32 warp_rows=32 warps_across=2 warps_down=2
//
// Gradient of the weights as GEMMs by mma.sync, one per tap: M counts channels of x, N channels of dy, K pixels of dy.
// A block computes kTileM x kTileN for each of kTaps taps, a warp kWarpM x kWarpN of one tap. The packed operands have
// the pixels of all images on one line, row by row and image by image, so that a tap reads pixel k + shift of x for
// every pixel k of dy. All threads fill the stages in shared memory by cp.async, each a span of x (A) and a tile of dy
// (B); one __syncthreads() per k tile separates readers from writers. Each split-K part stores its sums, which a second
// kernel adds.

constexpr int kTaps = 2;  // taps per block
constexpr int kWarpsM = 2 * kTaps;
constexpr int kWarpsN = 2;
constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kWarpM = 32;  // channels of x per warp
constexpr int kWarpN = 32;
constexpr int kMmasM = kWarpM / 16;  // MMAs of a warp along M
constexpr int kMmasN = kWarpN / 8;  // MMAs of a warp along N
constexpr int kAccumulators = 4 * kMmasN;  // per thread and 16 rows
constexpr int kSumSteps = 2;  // k16 steps that tensor cores sum before the accumulators are promoted

constexpr int kTileM = 64;  // channels of x per block, for each tap
constexpr int kTileN = kWarpN * kWarpsN;  // channels of dy per block
constexpr int kTilesN = 1;
constexpr int kTilesM = 1;  // tiles along M, per tap
constexpr int kTapSets = 5;
constexpr int kGroups = 1;
constexpr int kChannels = 64;  // channels of x per group
constexpr int kFilters = 64;  // channels of dy per group
constexpr int kTileK = 128;  // pixels of dy per stage
constexpr int kAllSteps = 813;  // k tiles of all splits
constexpr int kSplitSteps = 34;  // k tiles per split
constexpr int kParts = 2;  // 16-bit parts per number: high and low

// Shared memory, in bytes.
constexpr int kSpan = 183;  // pixels of x per stage
constexpr int kXVectors = kTileM / 8;
constexpr int kXAllVectors = 8;  // channel vectors of x per group
constexpr int kXStage = kParts * kXVectors * 16 * kSpan;
constexpr int kDyStage = kParts * kTileN / 8 * 16 * kTileK;
constexpr int kStage = kXStage + kDyStage;
constexpr int kStages = 2;
constexpr int kAStrideM = 16 * kSpan, kAStrideK = 128;  // from 8 channels, or pixels, to the next
constexpr int kBStrideN = kParts * 16 * kTileK, kBStrideK = 128;
constexpr int kAPart = kXVectors * kAStrideM, kBPart = 16 * kTileK;  // from high parts to low parts
constexpr int kSteps = kTileK / 16;  // k16 steps per stage

// Global memory, in channel vectors (uint4).
constexpr size_t kXVectorStride = 104235;  // from channel vector to channel vector
constexpr size_t kXPartStride = 833880;  // from high parts to low parts
constexpr int kDyStep = kTilesN * kDyStage / 16;  // from one k tile of all channels to the next

// The taps whose gradients a block computes, from one stage of x.
struct TapSet {
    int first;  // pixels from a pixel of dy to the first tap's pixel of x
    int shifts[kTaps];  // pixels from the first tap's pixels to those of each tap
    int weights[kTaps];  // place of each tap in the filter; -1: no tap
};
__constant__ TapSet kTapSet[kTapSets] = {
    {0, {0, 1}, {0, 1}},
    {2, {0, 55}, {2, 3}},
    {58, {0, 1}, {4, 5}},
    {114, {0, 1}, {6, 7}},
    {116, {0, 0}, {8, -1}},
};

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

__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
#endif

using Accumulators = float[kMmasM][kAccumulators];

// Offset in bytes of the row whose address a lane passes to ldmatrix. The four matrices of A follow each other along M
// first, those of B along K first.
__device__ __forceinline__ int row_of_a(int lane) {
    return lane / 8 % 2 * kAStrideM + lane / 16 * kAStrideK + lane % 8 * 16;
}
__device__ __forceinline__ int row_of_b(int lane) {
    return lane / 16 * kBStrideN + lane / 8 % 2 * kBStrideK + lane % 8 * 16;
}

// sums += fragment_a * fragment_b: one row of MMAs.
__device__ __forceinline__ void multiply_row(float (&sums)[kAccumulators], const unsigned (&fragment_a)[4],
                                             const unsigned (&fragment_b)[kMmasN][2]) {
#pragma unroll
    for (int n = 0; n < kMmasN; ++n) {
        mma_f16(reinterpret_cast<float(&)[4]>(sums[4 * n]), fragment_a, fragment_b[n]);
    }
}

// sums += the product of kSumSteps k16 steps.
__device__ __forceinline__ void add_products(Accumulators& sums, SharedAddress a, SharedAddress b) {
#pragma unroll
    for (int j = 0; j < kSumSteps; ++j) {
        unsigned fragment_b[kParts][kMmasN][2];
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
#pragma unroll
            for (int n = 0; n < kMmasN; n += 2) {
                ldmatrix_x4_trans(b + part * kBPart + 2 * j * kBStrideK + n * kBStrideN, fragment_b[part][n][0],
                                  fragment_b[part][n][1], fragment_b[part][n + 1][0], fragment_b[part][n + 1][1]);
            }
        }
#pragma unroll
        for (int i = 0; i < kMmasM; ++i) {
            unsigned fragment_a[kParts][4];
#pragma unroll
            for (int part = 0; part < kParts; ++part) {
                unsigned (&own)[4] = fragment_a[part];
                ldmatrix_x4_trans(a + part * kAPart + 2 * j * kAStrideK + 2 * i * kAStrideM, own[0], own[1], own[2],
                                  own[3]);
            }
            multiply_row(sums[i], fragment_a[1], fragment_b[0]);  // low parts first
            multiply_row(sums[i], fragment_a[0], fragment_b[1]);
            multiply_row(sums[i], fragment_a[0], fragment_b[0]);
        }
    }
}

// totals += the product of a stage. Tensor cores truncate sums where float32 rounds them, so kSumSteps k16 steps are
// summed in fresh accumulators, which are then added to the totals.
__device__ __forceinline__ void add_stage(Accumulators& totals, SharedAddress a, SharedAddress b) {
#pragma unroll 1  // unrolled, the next accumulators would be live together with these
    for (int j = 0; j < kSteps; j += kSumSteps) {
        Accumulators sums = {};
        add_products(sums, a + 2 * j * kAStrideK, b + 2 * j * kBStrideK);
#pragma unroll
        for (int i = 0; i < kMmasM; ++i) {
#pragma unroll
            for (int n = 0; n < kAccumulators; ++n) {
                totals[i][n] += sums[i][n];
            }
        }
    }
}

struct Tile {
    int column, row, group, taps, split;
};

__device__ __forceinline__ Tile tile_of(int i) {
    Tile tile;
    tile.taps = i % kTapSets;  // fastest: these blocks read the same pixels of x and dy
    i /= kTapSets;
    tile.column = i % kTilesN;
    i /= kTilesN;
    tile.row = i % kTilesM;
    i /= kTilesM;
    tile.group = i % kGroups;
    tile.split = i / kGroups;
    return tile;
}

// Issues the copies of a stage: the span of x, and the tile of dy.
__device__ __forceinline__ void copy_stage(char* memory, const uint4* __restrict__ x, const uint4* __restrict__ dy,
                                           int first_vector) {
    for (int i = threadIdx.x; i < kParts * kXVectors * kSpan; i += kThreads) {
        const int line = i / kSpan;
        const int vector = first_vector + line % kXVectors;
        cp_async<16>(memory + 16 * i, x + line / kXVectors * kXPartStride + vector * kXVectorStride + i % kSpan);
    }
#pragma unroll
    for (int i = 0; i < kDyStage / 16; i += kThreads) {
        if (kDyStage / 16 % kThreads == 0 || i + threadIdx.x < kDyStage / 16) {
            cp_async<16>(memory + kXStage + 16 * (i + threadIdx.x), dy + i + threadIdx.x);
        }
    }
}

// Epilogue: stores the partial sums of 16 channels of x, [split][tap][group][channel of x][channel of dy].
__device__ __forceinline__ void store(const float (&sums)[kAccumulators], const Tile& tile, int weight, int first_m,
                                      int first_n, float* __restrict__ parts) {
    const int lane = threadIdx.x % 32;
    const int column = tile.column * kTileN + first_n + lane % 4 * 2;
    const int row = tile.row * kTileM + first_m + lane / 4;
    size_t first = static_cast<size_t>(tile.split) * 9 + weight;
    first = (first * kGroups + tile.group) * kChannels;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (row + 8 * half >= kChannels) {
            continue;
        }
        float* target = parts + (first + row + 8 * half) * kFilters + column;
#pragma unroll
        for (int i = 0; i < kAccumulators; i += 4) {
            if (column + i / 4 * 8 < kFilters) {
                *reinterpret_cast<float2*>(target + i / 4 * 8) =
                    make_float2(sums[i + 2 * half], sums[i + 2 * half + 1]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_mma(const uint4* __restrict__ x, const uint4* __restrict__ dy, float* __restrict__ parts) {
    extern __shared__ __align__(128) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int own_tap = warp % kTaps;
    const int first_m = warp % kWarpsM / kTaps * kWarpM, first_n = warp / kWarpsM * kWarpN;
    const Tile tile = tile_of(blockIdx.x);
    const int first_step = tile.split * kSplitSteps;
    const int steps = min(kSplitSteps, kAllSteps - first_step);
    const int first_vector = tile.row * kXVectors;
    x += tile.group * kXAllVectors * kXVectorStride + kTapSet[tile.taps].first + first_step * kTileK;
    dy += static_cast<size_t>(tile.group * kAllSteps + first_step) * kDyStep + tile.column * (kDyStage / 16);
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
        if (step < steps) {
            copy_stage(memory + step * kStage, x, dy, first_vector);
        }
        cp_async_commit_group();
        x += kTileK;
        dy += kDyStep;
    }
    const SharedAddress own_x =
        shared_address(memory) +
        (first_m / 8 * kAStrideM + 16 * kTapSet[tile.taps].shifts[own_tap] + row_of_a(lane));
    const SharedAddress own_dy = shared_address(memory) + (kXStage + first_n / 8 * kBStrideN + row_of_b(lane));
    int read = 0, filled = kStages - 1;  // stages that are read and filled next
    Accumulators totals = {};
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        cp_async_wait_group<kStages - 2>();
        __syncthreads();  // the copies of all threads are complete, and no thread reads the stage that is filled next
        if (step + kStages - 1 < steps) {
            copy_stage(memory + filled * kStage, x, dy, first_vector);
        }
        cp_async_commit_group();
        x += kTileK;
        dy += kDyStep;
        add_stage(totals, own_x + read * kStage, own_dy + read * kStage);
        read = read + 1 == kStages ? 0 : read + 1;
        filled = filled + 1 == kStages ? 0 : filled + 1;
    }
    const int weight = kTapSet[tile.taps].weights[own_tap];
    if (weight >= 0) {
#pragma unroll
        for (int i = 0; i < kMmasM; ++i) {
            store(totals[i], tile, weight, first_m + 16 * i, first_n, parts);
        }
    }
}
