// warpsmith conv2d_pointwise
// problem: conv2d pass=wgrad input=24x64x56x56 weight=256x64x1x1 precision=ieee
// config:  across=2 columns=32 down=4 min_blocks=1 rows=64 splits=131 stages=4
//
// Gradient of the weights of a layer of one tap, as a product of matrices by mma.sync on TF32: rows are channels of dy,
// columns channels of x, terms pixels of all images. A block computes kTileRows x kTileColumns, a warp kWarpRows x
// kWarpColumns of it. All threads copy stages of kPixels float32 pixels by cp.async.
// A factor is the sum of two TF32 numbers, and a product that of three of theirs.
// Each of kSplits parts of a sum has blocks of its own; a second kernel adds the parts.

constexpr int kWarpsDown = 4;
constexpr int kWarpsAcross = 2;
constexpr int kThreads = 32 * kWarpsDown * kWarpsAcross;
constexpr int kWarpRows = 64;
constexpr int kWarpColumns = 32;
constexpr int kMmasDown = kWarpRows / 16;
constexpr int kMmasAcross = kWarpColumns / 8;
constexpr int kTileRows = kWarpsDown * kWarpRows;
constexpr int kTileColumns = kWarpsAcross * kWarpColumns;
constexpr int kRowTiles = 1;
constexpr int kColumnTiles = 1;
constexpr int kFilters = 256;  // channels of dy
constexpr int kChannels = 64;  // channels of x
constexpr int kPixels = 32;  // per stage
constexpr int kStages = 4;
constexpr int kAllSteps = 2352;  // stages of a whole sum
constexpr int kSplitSteps = 18;  // stages per part of a sum
constexpr int kAllPixels = 75264;  // of all images
constexpr int kPlane = 3136;  // pixels of an image of dy
constexpr int kSourcePlane = 3136;  // pixels of an image of x

// Shared memory: stages of rows of dy, then of x.
constexpr int kPitch = 36;  // floats; a warp reads 8 rows x 4 pixels without bank conflicts
constexpr int kStageFloats = (kTileRows + kTileColumns) * kPitch;

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// sums += a * b: 16x8 by 8x8 TF32 with float32 accumulators, in the register layout of mma.m16n8k8. The hardware
// ignores the lower 13 bits of a float.
__device__ __forceinline__ void mma_tf32(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, "
        "{ %8, %9 }, { %0, %1, %2, %3 };"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
template <int kBytes>
__device__ __forceinline__ void cp_async_or_zero(bool wanted, bool has_source, void* shared, const void* global) {
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const int read = has_source ? kBytes : 0;
    if constexpr (kBytes == 16) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16, %3; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)), "r"(read) : "memory");
    } else {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3, %4; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)), "n"(kBytes), "r"(read) : "memory");
    }
}

__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
#endif

// Copies kVector pixels of rows of an operand, whose first row is `source`, to rows of a stage.
template <int kVector, int kRows>
__device__ __forceinline__ void copy_rows(float* target, const float* __restrict__ source, bool is_pixel, int rows,
                                          int plane) {
    constexpr int kVectors = kPixels / kVector, kAtOnce = kThreads / kVectors;
    const int first = threadIdx.x / kVectors;
#pragma unroll
    for (int row = 0; row < kRows; row += kAtOnce) {
        const int own = row + first;
        const bool is_wanted = is_pixel && own < rows;
        cp_async_or_zero<4 * kVector>(kRows % kAtOnce == 0 || own < kRows, is_wanted,
                                      target + own * kPitch + threadIdx.x % kVectors * kVector,
                                      is_wanted ? source + static_cast<size_t>(own) * plane : source);
    }
}

// Offset of a pixel, counted over all images, in an operand; 0 behind the last image.
__device__ __forceinline__ size_t dy_offset(int pixel) {
    return pixel < kAllPixels ? static_cast<size_t>(pixel / kPlane) * (kFilters * kPlane) + pixel % kPlane : 0;
}
__device__ __forceinline__ size_t x_offset(int pixel) {
    const int place = pixel % kPlane;
    const int offset = place;
    return pixel < kAllPixels ? static_cast<size_t>(pixel / kPlane) * (kChannels * kSourcePlane) + offset : 0;
}

// Begins to copy a stage, if the block has it; the copies are a group either way.
__device__ __forceinline__ void copy_stage(int step, int last, float* stage, const float* __restrict__ x,
                                           const float* __restrict__ dy, int first_row, int first_column) {
    if (step < last) {
        constexpr int kVector = 4, kSourceVector = 4;
        const int pixel = step * kPixels + threadIdx.x % (kPixels / kVector) * kVector;
        copy_rows<kVector, kTileRows>(stage, dy + dy_offset(pixel) + first_row * kPlane, pixel < kAllPixels,
                                      kFilters - first_row, kPlane);
        const int source = step * kPixels + threadIdx.x % (kPixels / kSourceVector) * kSourceVector;
        copy_rows<kSourceVector, kTileColumns>(stage + kTileRows * kPitch,
                                               x + x_offset(source) + first_column * kSourcePlane,
                                               source < kAllPixels, kChannels - first_column, kSourcePlane);
    }
    cp_async_commit_group();
}

// Two TF32 numbers whose sum is a number: the nearest one, and the rest. TF32 is the upper 19 bits of a float.
__device__ __forceinline__ void split(float number, unsigned& nearest, unsigned& rest) {
    nearest = (__float_as_uint(number) + 0x1000u) & 0xffffe000u;
    rest = __float_as_uint(number - __uint_as_float(nearest));  // NaN, if the number is not finite
}

using Totals = float[kMmasDown][kMmasAcross][4];

// totals += the product of eight pixels. Tensor cores truncate the terms of a sum to the precision of its largest one,
// so
// that sums of eight terms leave them. Small products come first.
__device__ __forceinline__ void add_products(Totals& totals, const float* own_dy, const float* own_x) {
    unsigned x[kMmasAcross][2], x_rest[kMmasAcross][2];
#pragma unroll
    for (int n = 0; n < kMmasAcross; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float number = own_x[8 * n * kPitch + 4 * j];
            split(number, x[n][j], x_rest[n][j]);
        }
    }
#pragma unroll
    for (int i = 0; i < kMmasDown; ++i) {
        unsigned dy[4], dy_rest[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float number = own_dy[(16 * i + j % 2 * 8) * kPitch + j / 2 * 4];
            split(number, dy[j], dy_rest[j]);
        }
        float sums[kMmasAcross][4] = {};
#pragma unroll
        for (int n = 0; n < kMmasAcross; ++n) {
            mma_tf32(sums[n], dy_rest, x[n]);
        }
#pragma unroll
        for (int n = 0; n < kMmasAcross; ++n) {
            mma_tf32(sums[n], dy, x_rest[n]);
        }
#pragma unroll
        for (int n = 0; n < kMmasAcross; ++n) {
            mma_tf32(sums[n], dy, x[n]);
        }
#pragma unroll
        for (int n = 0; n < kMmasAcross; ++n) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                totals[i][n][j] += sums[n][j];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_pointwise(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts) {
    extern __shared__ __align__(128) float4 shared[];
    float* const stages = reinterpret_cast<float*>(shared);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first_row = blockIdx.x % kRowTiles * kTileRows;  // fastest: these blocks read the same pixels
    const int first_column = blockIdx.x / kRowTiles % kColumnTiles * kTileColumns;
    const int split = blockIdx.x / (kRowTiles * kColumnTiles);
    const int first = split * kSplitSteps, last = min(first + kSplitSteps, kAllSteps);
#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) {
        copy_stage(first + stage, last, stages + stage * kStageFloats, x, dy, first_row, first_column);
    }
    const int warp_row = warp % kWarpsDown * kWarpRows, warp_column = warp / kWarpsDown * kWarpColumns;
    const float* const own_dy = stages + (warp_row + lane / 4) * kPitch + lane % 4;
    const float* const own_x = stages + (kTileRows + warp_column + lane / 4) * kPitch + lane % 4;
    Totals totals = {};
    int stage = 0;
#pragma unroll 1
    for (int step = first; step < last; ++step) {
        cp_async_wait_group<kStages - 2>();
        __syncthreads();  // the copies of all threads are complete, and no thread reads the stage that is filled next
        copy_stage(step + kStages - 1, last, stages + (stage == 0 ? kStages - 1 : stage - 1) * kStageFloats, x, dy,
                   first_row, first_column);
#pragma unroll 2
        for (int pixel = 0; pixel < kPixels; pixel += 8) {
            add_products(totals, own_dy + stage * kStageFloats + pixel, own_x + stage * kStageFloats + pixel);
        }
        stage = stage + 1 == kStages ? 0 : stage + 1;
    }
#pragma unroll
    for (int i = 0; i < 2 * kMmasDown; ++i) {
        const int row = first_row + warp_row + lane / 4 + 8 * i;
        if (row >= kFilters) {
            continue;
        }
        float* const own = parts + split * static_cast<size_t>(kFilters * kChannels) + row * kChannels;
#pragma unroll
        for (int n = 0; n < kMmasAcross; ++n) {
            const int column = first_column + warp_column + 8 * n + lane % 4 * 2;
            const float (&sums)[4] = totals[i / 2][n];
            if (column < kChannels) {
                // The compiler would split an assignment into two stores.
                __stcg(reinterpret_cast<float2*>(own + column), make_float2(sums[i % 2 * 2], sums[i % 2 * 2 + 1]));
            }
        }
    }
}
