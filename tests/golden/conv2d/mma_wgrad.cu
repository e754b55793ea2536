// warpsmith conv2d_mma
// problem: conv2d pass=wgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  min_blocks=1 splits=24 stages=2 taps=2 terms=128 warp_columns=32 warp_rows=32 warps_across=2 warps_down=2
//
// The gradient of kTaps taps' weights for kTileRows channels of x and kTileColumns of dy a block, by products of the tensor
// cores. All images lie on one line of positions, along which products sum: a tap reads the run of x that lies `shift`
// positions further on than that of dy.

constexpr int kTaps = 2;  // of a block
constexpr int kWarpsDown = 2 * kTaps;
constexpr int kWarpsAcross = 2;
constexpr int kThreads = 32 * kWarpsDown * kWarpsAcross;
constexpr int kWarpRows = 32;  // channels of x
constexpr int kWarpColumns = 32;
constexpr int kTall = kWarpRows / 16;  // products of a warp, 16 rows each
constexpr int kWide = kWarpColumns / 8;  // and 8 columns
constexpr int kSums = 4 * kWide;  // of a thread, for each 16 rows
constexpr int kSumSteps = 2;  // of 16 terms, whose sum stays in the tensor cores

constexpr int kTileRows = 64;  // channels of x, for each tap
constexpr int kTileColumns = kWarpColumns * kWarpsAcross;  // channels of dy
constexpr int kTilesAcross = 1;
constexpr int kTilesDown = 1;  // of the channels of x
constexpr int kTapSets = 5;
constexpr int kGroups = 1;
constexpr int kChannels = 64;  // of x, in a group
constexpr int kFilters = 64;  // and so channels of dy
constexpr int kTerms = 128;  // positions of a stage
constexpr int kAllSteps = 813;  // stages that a sum goes through
constexpr int kSplitSteps = 34;  // and each of its parts
constexpr int kParts = 2;  // of a number: high and low

// Shared memory, in bytes.
constexpr int kRun = 183;  // pixels of a chunk, which the taps of a block read
constexpr int kXChunks = kTileRows / 8;
constexpr int kXAllChunks = 8;  // of a group
constexpr int kXStage = kParts * kXChunks * 16 * kRun;
constexpr int kDyStage = kParts * kTileColumns / 8 * 16 * kTerms;
constexpr int kStage = kXStage + kDyStage;
constexpr int kStages = 2;
constexpr int kAAcross = 16 * kRun, kAAlong = 128;  // from 8 channels, or positions, to the next ones
constexpr int kBAcross = kParts * 16 * kTerms, kBAlong = 128;
constexpr int kAPart = kXChunks * kAAcross, kBPart = 16 * kTerms;  // from high parts to low ones
constexpr int kSteps = kTerms / 16;  // of 16 terms

// Global memory, in eight halves.
constexpr size_t kXChunkLength = 104235;  // from chunk to chunk
constexpr size_t kXPartLength = 833880;  // from high parts to low ones
constexpr int kDyStep = kTilesAcross * kDyStage / 16;  // from all chunks of a stage to those of the next one

// Taps of a block.
struct TapSet {
    int first;  // of x, from a position of dy
    int shifts[kTaps];  // from there
    int weights[kTaps];  // places in the filter; -1 where there is no tap
};
__constant__ TapSet kTapSet[kTapSets] = {
    {0, {0, 1}, {0, 1}},
    {2, {0, 55}, {2, 3}},
    {58, {0, 1}, {4, 5}},
    {114, {0, 1}, {6, 7}},
    {116, {0, 0}, {8, -1}},
};

#ifndef WARPSMITH_ON_HOST  // the host device has its own
using SharedAddress = unsigned;  // in bytes; addresses of 32 bits take fewer instructions

__device__ __forceinline__ SharedAddress shared_address(const void* shared) {
    return static_cast<SharedAddress>(__cvta_generic_to_shared(shared));
}

// Four matrices of 8x8 numbers of 16 bits, spread over a warp as mma takes them, turned over. Lane l has the address of row
// l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4_trans(SharedAddress row, unsigned& first, unsigned& second, unsigned& third, unsigned& fourth) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3 }, [%4];"
                 : "=r"(first), "=r"(second), "=r"(third), "=r"(fourth) : "r"(row));
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// sums += a * b, 16x16 halves by 16x8 halves into 16x8 floats, spread over a warp as PTX lays out mma.m16n8k16.
__device__ __forceinline__ void mma_f16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, "
        "{ %8, %9 }, { %0, %1, %2, %3 };"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Copies past the registers; the thread goes on at once.
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

using Sums = float[kTall][kSums];

// The bytes from where a warp's matrices begin to the row whose address a lane has: of A matrices follow each other across
// first, of B along the terms.
__device__ __forceinline__ int row_of_a(int lane) { return lane / 8 % 2 * kAAcross + lane / 16 * kAAlong + lane % 8 * 16; }
__device__ __forceinline__ int row_of_b(int lane) { return lane / 16 * kBAcross + lane / 8 % 2 * kBAlong + lane % 8 * 16; }

// sums += rows * columns, of all columns of a warp.
__device__ __forceinline__ void multiply_row(float (&sums)[kSums], const unsigned (&rows)[4], const unsigned (&columns)[kWide][2]) {
#pragma unroll
    for (int n = 0; n < kWide; ++n) {
        mma_f16(reinterpret_cast<float(&)[4]>(sums[4 * n]), rows, columns[n]);
    }
}

// sums += kSumSteps products.
__device__ __forceinline__ void add_products(Sums& sums, SharedAddress a, SharedAddress b) {
#pragma unroll
    for (int j = 0; j < kSumSteps; ++j) {
        unsigned columns[kParts][kWide][2];
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
#pragma unroll
            for (int n = 0; n < kWide; n += 2) {
                ldmatrix_x4_trans(b + part * kBPart + 2 * j * kBAlong + n * kBAcross, columns[part][n][0], columns[part][n][1],
                                  columns[part][n + 1][0], columns[part][n + 1][1]);
            }
        }
#pragma unroll
        for (int i = 0; i < kTall; ++i) {
            unsigned rows[kParts][4];
#pragma unroll
            for (int part = 0; part < kParts; ++part) {
                unsigned (&own)[4] = rows[part];
                ldmatrix_x4_trans(a + part * kAPart + 2 * j * kAAlong + 2 * i * kAAcross, own[0], own[1], own[2], own[3]);
            }
            multiply_row(sums[i], rows[1], columns[0]);  // low parts first
            multiply_row(sums[i], rows[0], columns[1]);
            multiply_row(sums[i], rows[0], columns[0]);
        }
    }
}

// totals += what a stage gives. kSumSteps products are added up apart: tensor cores cut off what float32 rounds.
__device__ __forceinline__ void add_stage(Sums& totals, SharedAddress a, SharedAddress b) {
#pragma unroll 1  // or the next sums begin before these are added, and take registers beside them
    for (int j = 0; j < kSteps; j += kSumSteps) {
        Sums sums = {};
        add_products(sums, a + 2 * j * kAAlong, b + 2 * j * kBAlong);
#pragma unroll
        for (int i = 0; i < kTall; ++i) {
#pragma unroll
            for (int n = 0; n < kSums; ++n) {
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
    tile.taps = i % kTapSets;  // fastest: these blocks read the same pixels
    i /= kTapSets;
    tile.column = i % kTilesAcross;
    i /= kTilesAcross;
    tile.row = i % kTilesDown;
    i /= kTilesDown;
    tile.group = i % kGroups;
    tile.split = i / kGroups;
    return tile;
}

// Copies what a stage reads: x from its first position on, and a piece of dy.
__device__ __forceinline__ void copy_stage(char* memory, const uint4* __restrict__ x, const uint4* __restrict__ dy, int first_chunk) {
    for (int i = threadIdx.x; i < kParts * kXChunks * kRun; i += kThreads) {
        const int line = i / kRun;
        const int chunk = first_chunk + line % kXChunks;
        cp_async<16>(memory + 16 * i, x + line / kXChunks * kXPartLength + chunk * kXChunkLength + i % kRun);
    }
#pragma unroll
    for (int i = 0; i < kDyStage / 16; i += kThreads) {
        if (kDyStage / 16 % kThreads == 0 || i + threadIdx.x < kDyStage / 16) {
            cp_async<16>(memory + kXStage + 16 * (i + threadIdx.x), dy + i + threadIdx.x);
        }
    }
}

// Stores a thread's sums of 16 channels of x, of a split and a tap.
__device__ __forceinline__ void store(const float (&sums)[kSums], const Tile& tile, int weight, int first_row, int first_column,
                                      float* __restrict__ parts) {
    const int lane = threadIdx.x % 32;
    const int column = tile.column * kTileColumns + first_column + lane % 4 * 2;
    const int row = tile.row * kTileRows + first_row + lane / 4;
    size_t first = static_cast<size_t>(tile.split) * 9 + weight;
    first = (first * kGroups + tile.group) * kChannels;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (row + 8 * half >= kChannels) {
            continue;
        }
        float* target = parts + (first + row + 8 * half) * kFilters + column;
#pragma unroll
        for (int i = 0; i < kSums; i += 4) {
            if (column + i / 4 * 8 < kFilters) {
                *reinterpret_cast<float2*>(target + i / 4 * 8) = make_float2(sums[i + 2 * half], sums[i + 2 * half + 1]);
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
    const int first_row = warp % kWarpsDown / kTaps * kWarpRows, first_column = warp / kWarpsDown * kWarpColumns;
    const Tile tile = tile_of(blockIdx.x);
    const int first_step = tile.split * kSplitSteps;
    const int steps = min(kSplitSteps, kAllSteps - first_step);
    const int first_chunk = tile.row * kXChunks;
    x += tile.group * kXAllChunks * kXChunkLength + kTapSet[tile.taps].first + first_step * kTerms;
    dy += static_cast<size_t>(tile.group * kAllSteps + first_step) * kDyStep + tile.column * (kDyStage / 16);
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
        if (step < steps) {
            copy_stage(memory + step * kStage, x, dy, first_chunk);
        }
        cp_async_commit_group();
        x += kTerms;
        dy += kDyStep;
    }
    const SharedAddress own_x = shared_address(memory) + (first_row / 8 * kAAcross + 16 * kTapSet[tile.taps].shifts[own_tap] + row_of_a(lane));
    const SharedAddress own_dy = shared_address(memory) + (kXStage + first_column / 8 * kBAcross + row_of_b(lane));
    int read = 0, filled = kStages - 1;  // stages
    Sums totals = {};
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        cp_async_wait_group<kStages - 2>();
        __syncthreads();  // what all threads have copied is there, and all have read the stage that is filled next
        if (step + kStages - 1 < steps) {
            copy_stage(memory + filled * kStage, x, dy, first_chunk);
        }
        cp_async_commit_group();
        x += kTerms;
        dy += kDyStep;
        add_stage(totals, own_x + read * kStage, own_dy + read * kStage);
        read = read + 1 == kStages ? 0 : read + 1;
        filled = filled + 1 == kStages ? 0 : filled + 1;
    }
    const int weight = kTapSet[tile.taps].weights[own_tap];
    if (weight >= 0) {
#pragma unroll
        for (int i = 0; i < kTall; ++i) {
            store(totals[i], tile, weight, first_row + 16 * i, first_column, parts);
        }
    }
}
