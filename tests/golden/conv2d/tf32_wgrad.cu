// warpsmith conv2d_warpgroup_tf32
// problem: conv2d pass=wgrad input=32x64x56x56 weight=128x64x3x3 precision=tf32 stride=2x2 padding=1x1 layout=nhwc
// config:  across=2 columns=32 down=2 min_blocks=1 rows=64 splits=2 stages=6
//
// Gradient of the weights as a product of matrices by mma.sync in TF32: rows are channels of dy, columns channels of x
// at a tap, terms pixels of dy of all images. A block computes kTileRows x kTileColumns, a warp kWarpRows x
// kWarpColumns of it. One more warp loads boxes of kPixels pixels and 32 channels by TMA, in im2col mode with zeros
// beyond the images, into 128-byte swizzled stages. Warps load four channels of a pixel at once, which are rows, or
// columns, of several products, and round them, while products of the numbers before are under way.
// Each of kSplits parts of a sum has blocks of its own; a second kernel adds the parts.

constexpr int kWarpsDown = 2;
constexpr int kWarpsAcross = 2;
constexpr int kWarps = kWarpsDown * kWarpsAcross;
constexpr int kThreads = 32 * kWarps + 32;  // one more warp copies
constexpr int kWarpRows = 64;
constexpr int kWarpColumns = 32;
constexpr int kMmasDown = kWarpRows / 16;
constexpr int kMmasAcross = kWarpColumns / 8;
constexpr int kTileRows = kWarpsDown * kWarpRows;
constexpr int kTileColumns = kWarpsAcross * kWarpColumns;
constexpr int kRowTiles = 1;
constexpr int kColumnTiles = 9;
constexpr int kFilters = 128;  // channels of dy
constexpr int kChannels = 64;  // channels of x
constexpr int kTaps = 9;
constexpr int kTapTiles = 1;  // tiles along the channels of x, for each tap
constexpr int kFilterColumns = 3;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kRowPixels = 28;  // pixels of a row of dy
constexpr int kPlane = 784;  // pixels of an image of dy
constexpr int kPixels = 32;  // per stage
constexpr int kStages = 6;
constexpr int kAllSteps = 784;  // stages of a whole sum
constexpr int kSplitSteps = 392;  // stages per part of a sum

// Shared memory, in bytes: stages of boxes of dy, then of x; a box has kPixels rows of 128 bytes.
constexpr int kRowBytes = 128;
constexpr int kBoxChannels = 32;
constexpr int kBox = kPixels * kRowBytes;
constexpr int kStageX = kTileRows / kBoxChannels * kBox;  // place of x
constexpr int kStage = kStageX + kTileColumns / kBoxChannels * kBox;
constexpr int kStepPixels = 8;  // that a product sums over
constexpr int kSteps = kPixels / kStepPixels;

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
using Mbarrier = unsigned long long;

__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ void mbarrier_init(Mbarrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes initialised mbarriers visible to the async proxy; __syncthreads() follows.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void mbarrier_arrive(Mbarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and raises the phase's expected transaction count by `bytes`.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(Mbarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Copies `bytes`, a multiple of 16, between 16-byte aligned addresses; completion is counted on the mbarrier.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, unsigned bytes, Mbarrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// Waits until the phase of this parity is complete. A wait for parity 1 on a new mbarrier returns at once: the phase
// before the first counts as complete.
__device__ __forceinline__ void mbarrier_wait_parity(const Mbarrier* barrier, unsigned parity) {
    asm volatile(
        "{ .reg .pred done; "
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; "
        "@!done bra again; }"
        ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device runs one launch after the other
// Lets the next launch begin once all blocks of this one have begun.
__device__ __forceinline__ void let_next_launch_begin() { asm volatile("griddepcontrol.launch_dependents;"); }

// Waits until the launch before has ended and its results can be read.
__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#endif

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// The producer warp has initialised the mbarriers; it does not wait for the consumer warps. kThreads counts all of
// them.
template <int kThreads> __device__ __forceinline__ void announce_barriers() {
    asm volatile("bar.arrive 15, %0;" ::"n"(kThreads) : "memory");
}

// Waits in a consumer warp until the mbarriers are initialised.
template <int kThreads> __device__ __forceinline__ void await_barriers() {
    asm volatile("bar.sync 15, %0;" ::"n"(kThreads) : "memory");
}
#endif

// The next stage of a circular pipeline, and the parity of its mbarrier phase.
template <int kStages> struct PipelineState {
    int number = 0;
    unsigned parity = 0;
    __device__ __forceinline__ void advance() {
        if (++number == kStages) {
            number = 0;
            parity ^= 1;
        }
    }
};

// A full barrier completes with the producer's one arrival and its expected bytes, an empty barrier with one arrival of
// each consumer warp.
template <int kStages>
__device__ __forceinline__ void init_barriers(Mbarrier (&full)[kStages], Mbarrier (&empty)[kStages], int warps) {
    for (int stage = 0; stage < kStages; ++stage) {
        mbarrier_init(&full[stage], 1);
        mbarrier_init(&empty[stage], warps);
    }
}

struct Barriers {
    Mbarrier full[kStages], empty[kStages];
};

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
struct __align__(64) TensorMap {  // CUtensorMap of cuda.h
    char bytes[128];
};

// Loads the map's number of pixels, in order from pixel (row, column) of `image` on, each shifted by rows_on rows and
// columns_on columns: the map's number of channels from `channel` on. Completion is counted on the mbarrier.
__device__ __forceinline__ void tma_load_im2col(void* shared, const TensorMap& map, int channel, int column, int row,
                                                int image, int columns_on, int rows_on, Mbarrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, { %2, %3, %4, %5 }], [%6], { %7, %8 };"
        ::"r"(shared_address(shared)), "l"(&map), "r"(channel), "r"(column), "r"(row), "r"(image),
          "r"(shared_address(barrier)), "h"(static_cast<unsigned short>(columns_on)),
          "h"(static_cast<unsigned short>(rows_on))
        : "memory");
}

// Fetches the map itself, which the first load would wait for.
__device__ __forceinline__ void prefetch(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// True in one thread of a warp. Unlike a lane's number it tells the compiler that one thread executes what follows.
__device__ __forceinline__ bool is_elected() {
    unsigned elected;
    asm volatile("{ .reg .pred elected; elect.sync _|elected, 0xffffffff; selp.u32 %0, 1, 0, elected; }"
                 : "=r"(elected));
    return elected != 0;
}
#endif

// One thread issues all TMA loads of a block's stages.
__device__ __forceinline__ void copy_stages(const TensorMap& x, const TensorMap& dy, int first_row, int first_channel,
                                            int tap, int first, int last, char* memory, Barriers& barriers) {
    const int rows_on = tap / kFilterColumns * kDilationRows, columns_on = tap % kFilterColumns * kDilationColumns;
    PipelineState<kStages> next;
#pragma unroll 1
    for (int step = first; step < last; ++step) {
        const int image = step * kPixels / kPlane, place = step * kPixels % kPlane;
        const int row = place / kRowPixels, column = place % kRowPixels;
        const int x_column = column * 2 - 1, x_row = row * 2 - 1;
        char* const stage = memory + next.number * kStage;
        Mbarrier* const full = &barriers.full[next.number];
        mbarrier_wait_parity(&barriers.empty[next.number], next.parity ^ 1);
        mbarrier_arrive_expect_tx(full, kStage);
#pragma unroll
        for (int i = 0; i < kTileRows / kBoxChannels; ++i) {
            tma_load_im2col(stage + i * kBox, dy, first_row + i * kBoxChannels, column, row, image, 0, 0, full);
        }
#pragma unroll
        for (int i = 0; i < kTileColumns / kBoxChannels; ++i) {
            tma_load_im2col(stage + kStageX + i * kBox, x, first_channel + i * kBoxChannels, x_column, x_row, image,
                            columns_on, rows_on, full);
        }
        next.advance();
    }
}

// A warp's numbers of eight pixels, of which a lane has an even and an odd one: four adjacent channels of each box.
struct Numbers {
    float4 dy[kWarpRows / kBoxChannels][2], x[kWarpColumns / kBoxChannels][2];
};

// Loads numbers of eight pixels. `places` are those of the lane's pixels in a box, in bytes. Eight adjacent lanes read
// 16 bytes each from different banks.
__device__ __forceinline__ void load(Numbers& numbers, const char* dy, const char* x, const int (&places)[2]) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int i = 0; i < kWarpRows / kBoxChannels; ++i) {
            numbers.dy[i][j] = *reinterpret_cast<const float4*>(dy + i * kBox + places[j]);
        }
#pragma unroll
        for (int i = 0; i < kWarpColumns / kBoxChannels; ++i) {
            numbers.x[i][j] = *reinterpret_cast<const float4*>(x + i * kBox + places[j]);
        }
    }
}

// Rounded numbers in the registers of mma.m16n8k8: a lane's four channels of dy are two rows of two products, those of
// x a column of four products.
struct Factors {
    unsigned dy[kMmasDown][4], x[kMmasAcross][2];
};

// Half a unit of TF32, which rounds four numbers to the nearest if it is added to their bits: tensor cores ignore the
// lower 13. Infinity and NaN remain what they are: beside one, or beyond 2^126, where the sum overflows, it is 0.
__device__ __forceinline__ unsigned half_unit(const float4& own) {
    const float sum = (fabsf(own.x) + fabsf(own.y)) + (fabsf(own.z) + fabsf(own.w));
    return sum < __uint_as_float(0x7f800000u) ? 0x1000u : 0u;
}

__device__ __forceinline__ void round(Factors& factors, const Numbers& numbers) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int i = 0; i < kWarpRows / kBoxChannels; ++i) {
            const float4 own = numbers.dy[i][j];
            const unsigned half = half_unit(own);
            unsigned (&first)[4] = factors.dy[2 * i];
            unsigned (&second)[4] = factors.dy[2 * i + 1];
            first[2 * j] = __float_as_uint(own.x) + half;
            first[2 * j + 1] = __float_as_uint(own.y) + half;
            second[2 * j] = __float_as_uint(own.z) + half;
            second[2 * j + 1] = __float_as_uint(own.w) + half;
        }
#pragma unroll
        for (int i = 0; i < kWarpColumns / kBoxChannels; ++i) {
            const float4 own = numbers.x[i][j];
            const unsigned half = half_unit(own);
            factors.x[4 * i][j] = __float_as_uint(own.x) + half;
            factors.x[4 * i + 1][j] = __float_as_uint(own.y) + half;
            factors.x[4 * i + 2][j] = __float_as_uint(own.z) + half;
            factors.x[4 * i + 3][j] = __float_as_uint(own.w) + half;
        }
    }
}

// Lets a stage be filled again once its last numbers are loaded. An arrival does not wait for loads before it, so that
// the numbers themselves tell which lane arrives.
__device__ __forceinline__ void release(Mbarrier* empty, const Factors& factors, int lane) {
    unsigned bits = 0;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int i = 0; i < kMmasDown; i += 2) {
            bits ^= factors.dy[i][2 * j];
        }
#pragma unroll
        for (int n = 0; n < kMmasAcross; n += 4) {
            bits ^= factors.x[n][j];
        }
    }
    if (lane == __popc(__ballot_sync(0xffffffffu, bits & 1)) % 32) {
        mbarrier_arrive(empty);
    }
}

using Totals = float[kMmasDown][kMmasAcross][4];

// totals += the product of eight pixels, in half of the rows.
__device__ __forceinline__ void add_products(Totals& totals, const Factors& factors, int half) {
#pragma unroll
    for (int i = half * (kMmasDown / 2); i < (half + 1) * (kMmasDown / 2); ++i) {
#pragma unroll
        for (int n = 0; n < kMmasAcross; ++n) {
            mma_tf32(totals[i][n], factors.dy[i], factors.x[n]);
        }
    }
}

// Stores a lane's sums: four adjacent rows and eight adjacent columns of each box, four columns at once. The compiler
// would split an assignment into four stores.
__device__ __forceinline__ void store(const Totals& totals, int row, int channel, float* __restrict__ sums) {
#pragma unroll
    for (int i = 0; i < 2 * kMmasDown; ++i) {
        const int filter = row + i / 4 * kBoxChannels + i % 4;
        if (filter >= kFilters) {
            continue;
        }
#pragma unroll
        for (int n = 0; n < kMmasAcross / 2; ++n) {
            const int first = channel + n / 2 * kBoxChannels + n % 2 * 4, own = i % 2 * 2 + n % 2;
            const float (&products)[kMmasAcross][4] = totals[i / 2];
            if (first < kChannels) {
                __stcg(reinterpret_cast<float4*>(sums + filter * (kTaps * kChannels) + first),
                       make_float4(products[n / 2 * 4][own], products[n / 2 * 4 + 1][own],
                                   products[n / 2 * 4 + 2][own], products[n / 2 * 4 + 3][own]));
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_warpgroup_tf32(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap dy,
                      float* __restrict__ parts) {
    extern __shared__ __align__(1024) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    Barriers& barriers = *reinterpret_cast<Barriers*>(memory + kStages * kStage);
    let_next_launch_begin();
    const int first_row = blockIdx.x % kRowTiles * kTileRows;  // fastest: these blocks read the same pixels
    const int column_tile = blockIdx.x / kRowTiles % kColumnTiles;
    const int tap = column_tile / kTapTiles, first_channel = column_tile % kTapTiles * kTileColumns;
    const int split = blockIdx.x / (kRowTiles * kColumnTiles);
    const int first = split * kSplitSteps, last = min(first + kSplitSteps, kAllSteps);
    const int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp == kWarps) {
        if (is_elected()) {
            prefetch(x);
            prefetch(dy);
            init_barriers(barriers.full, barriers.empty, kWarps);
            fence_proxy_async();
        }
        __syncwarp();
        announce_barriers<kThreads>();
        wait_for_launch_before();
        if (is_elected()) {
            copy_stages(x, dy, first_row, first_channel, tap, first, last, memory, barriers);
        }
        return;
    }
    wait_for_launch_before();  // it may read what this one writes
    await_barriers<kThreads>();
    const int warp_row = warp % kWarpsDown * kWarpRows, warp_column = warp / kWarpsDown * kWarpColumns;
    const char* const own_dy = memory + warp_row / kBoxChannels * kBox;
    const char* const own_x = memory + kStageX + warp_column / kBoxChannels * kBox;
    const int pixel = lane % 4 * 2, even = pixel * kRowBytes + (lane / 4 ^ pixel) * 16;
    const int places[2] = {even, even ^ (kRowBytes + 16)};  // an odd pixel is the next one, swizzled as such
    Totals totals = {};
    Numbers numbers;
    Factors factors[2];  // of even and of odd steps
    PipelineState<kStages> next;
    mbarrier_wait_parity(&barriers.full[0], 0);
    load(numbers, own_dy, own_x, places);
    round(factors[0], numbers);
#pragma unroll 1
    for (int step = first; step < last; ++step) {
        const int stage = next.number;
        next.advance();
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
            const bool is_last = i + 1 == kSteps;
            const int here = is_last ? next.number * kStage : stage * kStage + (i + 1) * (kStepPixels * kRowBytes);
            if (is_last && step + 1 < last) {
                mbarrier_wait_parity(&barriers.full[next.number], next.parity);
            }
            if (!is_last || step + 1 < last) {
                load(numbers, own_dy + here, own_x + here, places);
            }
            Factors& own = factors[i % 2];
            Factors& other = factors[1 - i % 2];
            add_products(totals, own, 0);
            round(other, numbers);
            add_products(totals, own, 1);
            if (i + 2 == kSteps) {
                release(&barriers.empty[stage], other, lane);
            }
        }
    }
    float* const sums = parts + split * static_cast<size_t>(kFilters * kTaps * kChannels) + tap * kChannels;
    store(totals, first_row + warp_row + lane / 4 * 4, first_channel + warp_column + lane % 4 * 8, sums);
}
