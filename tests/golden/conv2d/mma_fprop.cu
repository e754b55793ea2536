// warpsmith conv2d_mma
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1 bias=yes relu=yes
// config:  channels=64 min_blocks=2 reach=row stages=3 warp_columns=32 warp_rows=64 warps_across=2 warps_down=2
//
// kTilePositions results x kTileColumns channels a block, by products of the tensor cores. All images lie on one line of
// positions, so that a tap reads the run of pixels that lies `shift` positions further on.

constexpr int kWarpsDown = 2;
constexpr int kWarpsAcross = 2;
constexpr int kThreads = 32 * kWarpsDown * kWarpsAcross;
constexpr int kWarpRows = 64;  // positions
constexpr int kWarpColumns = 32;
constexpr int kTall = kWarpRows / 16;  // products of a warp, 16 rows each
constexpr int kWide = kWarpColumns / 8;  // and 8 columns
constexpr int kSums = 4 * kWide;  // of a thread, for each 16 rows
constexpr int kSumSteps = 2;  // of 16 terms, whose sum stays in the tensor cores

constexpr int kTilePositions = kWarpRows * kWarpsDown;
constexpr int kTileColumns = kWarpColumns * kWarpsAcross;  // channels of the result
constexpr int kTilesAcross = 1;
constexpr int kTilesDown = 813;  // of a phase
constexpr int kGroups = 1;
constexpr int kResults = 64;  // channels of the result, in a group
constexpr int kRows = 56;  // of the result
constexpr int kColumns = 56;
constexpr int kRowPitch = 57;  // positions of an image, in rows
constexpr int kColumnPitch = 57;  // and of a row
constexpr int kPositions = 103968;  // of all images
constexpr int kChannelBlocks = 1;
constexpr int kChunks = 8;  // of eight channels, in a block
constexpr int kParts = 2;  // of a number: high and low
constexpr int kTaps = 9;

// Shared memory, in bytes.
constexpr int kRun = 130;  // pixels of a chunk, which the taps of a stage read
constexpr int kPixelChunk = 16 * kRun;
constexpr int kPixelStage = kParts * kChunks * kPixelChunk;
constexpr int kPixelStages = 2;
constexpr int kFilterChunk = 16 * kTileColumns;
constexpr int kFilterStage = kParts * kChunks * kFilterChunk;
constexpr int kStages = 3;  // of weights; so many taps are on their way or read
constexpr int kAAcross = 128, kAAlong = kPixelChunk;  // from 8 positions, or channels, to the next ones
constexpr int kBAcross = 128, kBAlong = kFilterChunk;
constexpr int kAPart = kChunks * kPixelChunk, kBPart = kChunks * kFilterChunk;  // from high parts to low ones
constexpr int kSteps = kChunks / 2;  // of 16 terms
constexpr int kStagedColumns = 16;  // of results on their way out
constexpr int kStagedPitch = kWarpRows + 4;  // floats, so that what lanes write lies in banks of its own

// Global memory, in eight halves.
constexpr size_t kChunkLength = 104182;  // from chunk to chunk
constexpr size_t kPartLength = 833456;  // from high parts to low ones

// A tap: where its run of pixels begins within a stage, its place in a filter, and what it has to do with the stage.
struct Tap {
    int first;  // position of a stage's first pixel, from a tile's first result on
    int shift;  // positions from there to the tap's own pixels
    int weight;
    bool begins, ends;  // the first, and last, tap that reads the stage
};
__constant__ Tap kTap[] = {
    {0, 0, 0, true, false},
    {0, 1, 1, false, false},
    {0, 2, 2, false, true},
    {57, 0, 3, true, false},
    {57, 1, 4, false, false},
    {57, 2, 5, false, true},
    {114, 0, 6, true, false},
    {114, 1, 7, false, false},
    {114, 2, 8, false, true},
};

#ifndef WARPSMITH_ON_HOST  // the host device has its own
using SharedAddress = unsigned;  // in bytes; addresses of 32 bits take fewer instructions

__device__ __forceinline__ SharedAddress shared_address(const void* shared) {
    return static_cast<SharedAddress>(__cvta_generic_to_shared(shared));
}

// Four matrices of 8x8 numbers of 16 bits, spread over a warp as mma takes them. Lane l has the address of row
// l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4(SharedAddress row, unsigned& first, unsigned& second, unsigned& third, unsigned& fourth) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];"
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
                ldmatrix_x4(b + part * kBPart + 2 * j * kBAlong + n * kBAcross, columns[part][n][0], columns[part][n][1],
                            columns[part][n + 1][0], columns[part][n + 1][1]);
            }
        }
#pragma unroll
        for (int i = 0; i < kTall; ++i) {
            unsigned rows[kParts][4];
#pragma unroll
            for (int part = 0; part < kParts; ++part) {
                unsigned (&own)[4] = rows[part];
                ldmatrix_x4(a + part * kAPart + 2 * j * kAAlong + 2 * i * kAAcross, own[0], own[1], own[2], own[3]);
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

// A sum times two to a power that may be beyond a float's.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

// 2 to which power scales back a position's results: of its image, and of the weights.
__device__ __forceinline__ int power_of(int position, const int* __restrict__ pixel_powers, int filter_power) {
    const int image = min(position / (kRowPitch * kColumnPitch), 31);  // those behind are not stored
    return -__ldg(pixel_powers + image) - filter_power;
}

// The ReLU of a NaN is a NaN, as in PyTorch; fmaxf would make it 0.
__device__ __forceinline__ float finished(float sum) { return sum < 0.0f ? 0.0f : sum; }

struct Tile {
    int column, position, group;
};

__device__ __forceinline__ Tile tile_of(int i) {
    Tile tile;
    tile.column = i % kTilesAcross;  // fastest: these tiles read the same pixels
    i /= kTilesAcross;
    tile.position = i % kTilesDown * kTilePositions;
    tile.group = i / kTilesDown;
    return tile;
}

// What is copied next: the weights of a tap, and the pixels that it is the first to read.
struct Copies {
    const uint4* pixels;  // of the block of channels, from the tile's first position on
    const uint4* filters;
    int tap, pixel_stage, filter_stage;
};

__device__ __forceinline__ void copy_next(Copies& next, char* memory, int first_tap, int last_tap) {
    const Tap tap = kTap[next.tap];
    if (tap.begins) {
        next.pixel_stage = next.pixel_stage + 1 == kPixelStages ? 0 : next.pixel_stage + 1;
        char* const target = memory + next.pixel_stage * kPixelStage;
        const uint4* const source = next.pixels + tap.first;
        for (int i = threadIdx.x; i < kParts * kChunks * kRun; i += kThreads) {
            const int line = i / kRun;
            cp_async<16>(target + 16 * i, source + line / kChunks * kPartLength + line % kChunks * kChunkLength + i % kRun);
        }
    }
    char* const target = memory + kPixelStages * kPixelStage + next.filter_stage * kFilterStage;
    const uint4* const source = next.filters + tap.weight * (kFilterStage / 16);
#pragma unroll
    for (int i = 0; i < kFilterStage / 16; i += kThreads) {
        if (kFilterStage / 16 % kThreads == 0 || i + threadIdx.x < kFilterStage / 16) {
            cp_async<16>(target + 16 * (i + threadIdx.x), source + i + threadIdx.x);
        }
    }
    next.filter_stage = next.filter_stage + 1 == kStages ? 0 : next.filter_stage + 1;
    if (++next.tap == last_tap) {
        next.tap = first_tap;
        next.pixels += kChunks * kChunkLength;
        next.filters += kTaps * (kFilterStage / 16);
    }
}

// Where a position's results are: that of the first channel.
__device__ __forceinline__ float* target_of(int position, const Tile& tile, float* y) {
    const int image = position / (kRowPitch * kColumnPitch), place = position % (kRowPitch * kColumnPitch);
    const int row = place / kColumnPitch, column = place % kColumnPitch;
    if (position >= kPositions || row >= kRows || column >= kColumns) {
        return nullptr;  // between images
    }
    const size_t first = (static_cast<size_t>(image) * kGroups + tile.group) * kResults;
    return y + (first * kRows + row) * kColumns + column;
}

// Stores a warp's sums, kStagedColumns channels at a time by way of shared memory: neighbouring lanes then store
// neighbouring positions, a line of memory rather than a sector of four.
__device__ __forceinline__ void store(const Sums& sums, const Tile& tile, int first_position, int first_column, const int* __restrict__ pixel_powers, int filter_power, float* staged, const float* __restrict__ b, float* __restrict__ y) {
    const int lane = threadIdx.x % 32;
    float* targets[kWarpRows / 32];
#pragma unroll
    for (int part = 0; part < kWarpRows / 32; ++part) {
        targets[part] = target_of(first_position + 32 * part + lane, tile, y);
    }
    float* const own = staged + lane % 4 * 2 * kStagedPitch + lane / 4;
    int powers[kTall][2];
#pragma unroll
    for (int i = 0; i < kTall; ++i) {
        powers[i][0] = power_of(first_position + lane / 4 + 16 * i, pixel_powers, filter_power);
        powers[i][1] = power_of(first_position + lane / 4 + 16 * i + 8, pixel_powers, filter_power);
    }
#pragma unroll
    for (int first = 0; first < kWarpColumns; first += kStagedColumns) {
        __syncwarp();  // what was staged before has been stored
#pragma unroll
        for (int i = 0; i < kTall; ++i) {
#pragma unroll
            for (int n = 0; n < kStagedColumns / 2; ++n) {
                own[(n / 4 * 8 + n % 2) * kStagedPitch + 16 * i + n % 4 / 2 * 8] = scaled(sums[i][first / 2 + n], powers[i][n % 4 / 2]);
            }
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < kStagedColumns; ++i) {
            const int column = first_column + first + i;
            const float bias = __ldg(b + tile.group * kResults + column);
#pragma unroll
            for (int part = 0; part < kWarpRows / 32; ++part) {
                if (targets[part] != nullptr) {
                    const float sum = staged[i * kStagedPitch + 32 * part + lane];
                    targets[part][column * (kRows * kColumns)] = finished(sum + bias);
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 2)
conv2d_mma(const uint4* __restrict__ pixels, const uint4* __restrict__ filters,
           const int* __restrict__ pixel_powers, const int* __restrict__ filter_power,
           const float* __restrict__ b, float* __restrict__ y) {
    extern __shared__ __align__(128) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first_row = warp % kWarpsDown * kWarpRows, first_column = warp / kWarpsDown * kWarpColumns;
    const Tile tile = tile_of(blockIdx.x);
    const int first_tap = 0, last_tap = kTaps;
    const int steps = (last_tap - first_tap) * kChannelBlocks;
    Copies next = {
        pixels + tile.group * kChannelBlocks * kChunks * kChunkLength + tile.position,
        filters + static_cast<size_t>(tile.group * kTilesAcross + tile.column) * kChannelBlocks * kTaps * (kFilterStage / 16),
        first_tap, kPixelStages - 1, 0,
    };
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
        if (step < steps) {
            copy_next(next, memory, first_tap, last_tap);
        }
        cp_async_commit_group();
    }
    const SharedAddress own_pixels = shared_address(memory) + (16 * first_row + row_of_a(lane));
    const SharedAddress own_filters = shared_address(memory) + (kPixelStages * kPixelStage + 16 * first_column + row_of_b(lane));
    int t = first_tap, pixel_stage = kPixelStages - 1, filter_stage = 0;
    Sums totals = {};
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        cp_async_wait_group<kStages - 2>();
        __syncthreads();  // what all threads have copied is there, and all have read the stages that are filled next
        if (step + kStages - 1 < steps) {
            copy_next(next, memory, first_tap, last_tap);
        }
        cp_async_commit_group();
        if (kTap[t].begins) {
            pixel_stage = pixel_stage + 1 == kPixelStages ? 0 : pixel_stage + 1;
        }
        add_stage(totals, own_pixels + (pixel_stage * kPixelStage + 16 * kTap[t].shift), own_filters + filter_stage * kFilterStage);
        filter_stage = filter_stage + 1 == kStages ? 0 : filter_stage + 1;
        t = t + 1 == last_tap ? first_tap : t + 1;
    }
    __syncthreads();  // all have read the last stage, where results are staged now
    store(totals, tile, tile.position + first_row, tile.column * kTileColumns + first_column, pixel_powers, *filter_power,
          reinterpret_cast<float*>(memory) + warp * (kStagedColumns * kStagedPitch), b, y);
}
