// warpsmith conv2d_mma
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1 bias=yes relu=yes
// config:  channels=64 min_blocks=2 reach=row stages=3 warp_columns=32 warp_rows=64 warps_across=2 warps_down=2
//
// Convolution as an implicit GEMM by mma.sync on 16-bit operands: M counts pixels of the result, N
// its channels, K taps and channels. A block computes a kTileM x kTileN tile, a warp kWarpM x kWarpN of it. The packed
// operand has the pixels of all images on one line, m = (image * kRowPitch + row) * kColumnPitch + column, with zeros
// between images: a tap reads pixel m + shift for every m. All threads fill the stages in shared memory by cp.async:
// spans of pixels (A), each for all taps that read it, and tiles of weights (B); one __syncthreads() per tap separates
// readers from writers.

constexpr int kWarpsM = 2;
constexpr int kWarpsN = 2;
constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kWarpM = 64;  // pixels per warp
constexpr int kWarpN = 32;
constexpr int kMmasM = kWarpM / 16;  // MMAs of a warp along M
constexpr int kMmasN = kWarpN / 8;  // MMAs of a warp along N
constexpr int kAccumulators = 4 * kMmasN;  // per thread and 16 rows
constexpr int kSumSteps = 2;  // k16 steps that tensor cores sum before the accumulators are promoted

constexpr int kTileM = kWarpM * kWarpsM;
constexpr int kTileN = kWarpN * kWarpsN;
constexpr int kTilesN = 1;
constexpr int kTilesM = 813;  // tiles along M, per phase
constexpr int kGroups = 1;
constexpr int kN = 64;  // channels of the result per group
constexpr int kRows = 56;  // rows of the result
constexpr int kColumns = 56;
constexpr int kRowPitch = 57;  // rows per image, rows between images included
constexpr int kColumnPitch = 57;  // pixels per row, pixels between rows included
constexpr int kM = 103968;  // pixels of all images, those between images included
constexpr int kChannelBlocks = 1;
constexpr int kVectors = 8;  // channel vectors (8 channels) per channel block
constexpr int kParts = 2;  // 16-bit parts per number: high and low
constexpr int kTaps = 9;

// Shared memory, in bytes.
constexpr int kSpan = 130;  // pixels per stage
constexpr int kPixelPitch = 16 * kSpan;
constexpr int kPixelStage = kParts * kVectors * kPixelPitch;
constexpr int kPixelStages = 2;
constexpr int kFilterPitch = 16 * kTileN;
constexpr int kFilterStage = kParts * kVectors * kFilterPitch;
constexpr int kStages = 3;  // stages of weights: taps in flight or being read
constexpr int kAStrideM = 128, kAStrideK = kPixelPitch;  // from 8 rows, or channels, to the next
constexpr int kBStrideN = 128, kBStrideK = kFilterPitch;
constexpr int kAPart = kVectors * kPixelPitch, kBPart = kVectors * kFilterPitch;  // from high parts to low parts
constexpr int kSteps = kVectors / 2;  // k16 steps per stage
constexpr int kStagingN = 16;  // columns of the epilogue staging tile
constexpr int kStagingPitch = kWarpM + 4;  // floats; padded against bank conflicts

// Global memory, in channel vectors (uint4).
constexpr size_t kVectorStride = 104182;  // from channel vector to channel vector
constexpr size_t kPartStride = 833456;  // from high parts to low parts

// A tap in the order of the mainloop. Consecutive taps may read the same stage of pixels.
struct Tap {
    int first;  // first pixel of the stage, relative to the tile's first m, planes one after the other
    int shift;  // pixels from the stage's first pixel to the tap's first one
    int weight;  // place in the filter
    bool begins, ends;  // whether it is the first, or last, tap that reads the stage
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
                ldmatrix_x4(b + part * kBPart + 2 * j * kBStrideK + n * kBStrideN, fragment_b[part][n][0],
                            fragment_b[part][n][1], fragment_b[part][n + 1][0], fragment_b[part][n + 1][1]);
            }
        }
#pragma unroll
        for (int i = 0; i < kMmasM; ++i) {
            unsigned fragment_a[kParts][4];
#pragma unroll
            for (int part = 0; part < kParts; ++part) {
                unsigned (&own)[4] = fragment_a[part];
                ldmatrix_x4(a + part * kAPart + 2 * j * kAStrideK + 2 * i * kAStrideM, own[0], own[1], own[2],
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

// sum * 2^power; the power may lie beyond the range of a float, so it is applied in two factors.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

// Exponent of the power of two that scales the results of row m back: that of its image and that of the weights.
__device__ __forceinline__ int power_of(int m, const int* __restrict__ pixel_powers, int filter_power) {
    const int image = min(m / (kRowPitch * kColumnPitch), 31);  // rows from kM on are not stored
    return -__ldg(pixel_powers + image) - filter_power;
}

// relu(NaN) is NaN, as in PyTorch; fmaxf would return 0.
__device__ __forceinline__ float relu(float sum) { return sum < 0.0f ? 0.0f : sum; }

struct Tile {
    int column, m, group;
};

__device__ __forceinline__ Tile tile_of(int i) {
    Tile tile;
    tile.column = i % kTilesN;  // fastest: tiles of the same m read the same pixels
    i /= kTilesN;
    tile.m = i % kTilesM * kTileM;
    tile.group = i / kTilesM;
    return tile;
}

// The next copies: the weights of a tap, and the pixels if the tap is the first to read them.
struct CopyState {
    const uint4* pixels;  // channel block, from the tile's first m on
    const uint4* filters;
    int tap, pixel_stage, filter_stage;
};

__device__ __forceinline__ void copy_next(CopyState& next, char* memory, int first_tap, int last_tap) {
    const Tap tap = kTap[next.tap];
    if (tap.begins) {
        next.pixel_stage = next.pixel_stage + 1 == kPixelStages ? 0 : next.pixel_stage + 1;
        char* const target = memory + next.pixel_stage * kPixelStage;
        const uint4* const source = next.pixels + tap.first;
        for (int i = threadIdx.x; i < kParts * kVectors * kSpan; i += kThreads) {
            const int line = i / kSpan;
            cp_async<16>(target + 16 * i,
                         source + line / kVectors * kPartStride + line % kVectors * kVectorStride + i % kSpan);
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
        next.pixels += kVectors * kVectorStride;
        next.filters += kTaps * (kFilterStage / 16);
    }
}

// Address of the result of row m, first channel of the tile's group; nullptr if m is no pixel of the result.
__device__ __forceinline__ float* target_of(int m, const Tile& tile,
                                              float* y) {
    const int image = m / (kRowPitch * kColumnPitch), offset = m % (kRowPitch * kColumnPitch);
    const int row = offset / kColumnPitch, column = offset % kColumnPitch;
    if (m >= kM || row >= kRows || column >= kColumns) {
        return nullptr;  // between rows or images
    }
    const size_t first = (static_cast<size_t>(image) * kGroups + tile.group) * kN;
    return y + (first * kRows + row) * kColumns + column;
}

// Epilogue: stores a warp's accumulators through the staging tile, kStagingN channels at a time. Adjacent lanes then
// store adjacent pixels: a warp writes runs of 32 pixels instead of 8.
__device__ __forceinline__ void store(const Accumulators& sums, const Tile& tile, int first_m,
                                      int first_n,
                                      const int* __restrict__ pixel_powers, int filter_power, float* staging,
                                      const float* __restrict__ b, float* __restrict__ y) {
    const int lane = threadIdx.x % 32;
    float* targets[kWarpM / 32];
#pragma unroll
    for (int part = 0; part < kWarpM / 32; ++part) {
        targets[part] = target_of(first_m + 32 * part + lane, tile, y);
    }
    float* const own = staging + lane % 4 * 2 * kStagingPitch + lane / 4;
    int powers[kMmasM][2];
#pragma unroll
    for (int i = 0; i < kMmasM; ++i) {
        powers[i][0] = power_of(first_m + lane / 4 + 16 * i, pixel_powers, filter_power);
        powers[i][1] = power_of(first_m + lane / 4 + 16 * i + 8, pixel_powers, filter_power);
    }
#pragma unroll
    for (int first = 0; first < kWarpN; first += kStagingN) {
        __syncwarp();  // the previous channels have been stored
#pragma unroll
        for (int i = 0; i < kMmasM; ++i) {
#pragma unroll
            for (int n = 0; n < kStagingN / 2; ++n) {
                own[(n / 4 * 8 + n % 2) * kStagingPitch + 16 * i + n % 4 / 2 * 8] =
                    scaled(sums[i][first / 2 + n], powers[i][n % 4 / 2]);
            }
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < kStagingN; ++i) {
            const int column = first_n + first + i;
            const float bias = __ldg(b + tile.group * kN + column);
#pragma unroll
            for (int part = 0; part < kWarpM / 32; ++part) {
                if (targets[part] != nullptr) {
                    const float sum = staging[i * kStagingPitch + 32 * part + lane];
                    targets[part][column * (kRows * kColumns)] = relu(sum + bias);
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
    const int warp_m = warp % kWarpsM * kWarpM, first_n = warp / kWarpsM * kWarpN;
    const Tile tile = tile_of(blockIdx.x);
    const int first_tap = 0, last_tap = kTaps;
    const int steps = (last_tap - first_tap) * kChannelBlocks;
    CopyState next = {
        pixels + tile.group * kChannelBlocks * kVectors * kVectorStride + tile.m,
        filters +
            static_cast<size_t>(tile.group * kTilesN + tile.column) * kChannelBlocks * kTaps * (kFilterStage / 16),
        first_tap, kPixelStages - 1, 0,
    };
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
        if (step < steps) {
            copy_next(next, memory, first_tap, last_tap);
        }
        cp_async_commit_group();
    }
    const SharedAddress own_pixels = shared_address(memory) + (16 * warp_m + row_of_a(lane));
    const SharedAddress own_filters =
        shared_address(memory) + (kPixelStages * kPixelStage + 16 * first_n + row_of_b(lane));
    int t = first_tap, pixel_stage = kPixelStages - 1, filter_stage = 0;
    Accumulators totals = {};
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        cp_async_wait_group<kStages - 2>();
        __syncthreads();  // the copies of all threads are complete, and no thread reads the stages that are filled next
        if (step + kStages - 1 < steps) {
            copy_next(next, memory, first_tap, last_tap);
        }
        cp_async_commit_group();
        if (kTap[t].begins) {
            pixel_stage = pixel_stage + 1 == kPixelStages ? 0 : pixel_stage + 1;
        }
        add_stage(totals, own_pixels + (pixel_stage * kPixelStage + 16 * kTap[t].shift),
                  own_filters + filter_stage * kFilterStage);
        filter_stage = filter_stage + 1 == kStages ? 0 : filter_stage + 1;
        t = t + 1 == last_tap ? first_tap : t + 1;
    }
    __syncthreads();  // no thread reads the last stage, whose memory the staging tile takes
    store(totals, tile, tile.m + warp_m, tile.column * kTileN + first_n, pixel_powers, *filter_power,
          reinterpret_cast<float*>(memory) + warp * (kStagingN * kStagingPitch), b, y);
}
