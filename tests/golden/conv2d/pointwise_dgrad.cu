// warpsmith conv2d_pointwise
// problem: conv2d pass=dgrad input=24x64x56x56 weight=256x64x1x1 precision=ieee stride=2x2
// config:  across=4 channels=32 columns=64 down=1 min_blocks=1 rows=64 stages=4 tiles=1 warps=4
//
// Convolution of one tap as a product of matrices by wgmma: A has pixels of all images and lies in registers, B has
// channels of the result and lies in shared memory, as fp16 parts that a block keeps for all its tiles. A warpgroup
// computes 64 pixels x kOwnRows channels. Each warp copies the float32 pixels of its 16 rows of A into its own stages
// by cp.async, and scales and splits them as it reads them, each pixel of kSumTerms channels by a power of two of its
// own, while tensor cores multiply the terms before. Warps meet in products alone.

constexpr int kDown = 1;  // warpgroups with the same pixels
constexpr int kAcross = 4;  // warpgroups with the same channels
constexpr int kThreads = 128 * kDown * kAcross;
constexpr int kOwnRows = 64;  // channels of the result
constexpr int kOwnColumns = 64;  // pixels of a warpgroup
constexpr int kWarpColumns = 16;
constexpr int kSums = kOwnRows / 2;  // per thread
constexpr int kTileRows = kDown * kOwnRows;
constexpr int kTileColumns = kAcross * kOwnColumns;
constexpr int kGroups = 1;  // groups of kTileRows channels of the result
constexpr int kColumnBlocks = 74;  // blocks of a group of channels: each takes every kColumnBlocks-th tile
constexpr int kColumnTiles = 74;  // of all images
constexpr int kResults = 64;  // channels of the result
constexpr int kTerms = 256;  // channels of the source
constexpr int kStageTerms = 32;
constexpr int kSumTerms = 32;  // terms that tensor cores sum before the sums are scaled back and promoted
constexpr int kStages = 4;
constexpr int kSteps = 8;  // stages per tile
constexpr int kColumns = 18816;  // pixels of all images
constexpr int kPlane = 784;  // pixels of an image
constexpr int kSourcePlane = kPlane;
constexpr int kResultPlane = 3136;
constexpr int kRowPixels = 28;  // pixels of a row
constexpr int kImageColumns = 56;  // columns of x
constexpr int kVector = 1;  // pixels side by side in the source, and in the result

// Shared memory: weights in vectors of 8 channels (16 bytes), each warp's stages, and the scales of the results.
constexpr int kWeightPitch = kTileRows + 1;  // vectors from 8 channels to the next; padded against bank conflicts
constexpr int kWeightVectors = 32 * kWeightPitch;  // per part
constexpr int kPitch = kWarpColumns + 4;  // floats; a warp reads 8 channels x 8 pixels without bank conflicts
constexpr int kStageFloats = kStageTerms * kPitch;

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// Makes writes to shared memory visible to wgmma; a barrier of the threads follows.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Matrix descriptor without swizzle, in units of 16 bytes: address, leading offset (core matrix to core matrix along K)
// and stride offset (along N). A core matrix has 8 columns of 8 terms, which are adjacent.
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

// sums = a * b, or sums += a * b if `add`: 64x16 by 16x64 fp16 with float32 accumulators, in the register layout of
// wgmma.m64n64k16. Asynchronous: no access to sums or a between wgmma_fence() and wgmma_wait_all().
__device__ __forceinline__ void wgmma_f16(float (&sums)[32], const unsigned (&a)[4], SmemDescriptor b, bool add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %37, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, { %32, %33, %34, %35 }, %36, add, 1, 1, 0; }"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all wgmma groups. Accumulators and matrices A are operands, so that the compiler reads and overwrites them
// only after the wait.
__device__ __forceinline__ void wgmma_wait_all(float (&sums)[32], unsigned (&a)[16]) {
    asm volatile(
        "wgmma.wait_group.sync.aligned 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31]),
"+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3]), "+r"(a[4]), "+r"(a[5]),
          "+r"(a[6]), "+r"(a[7]), "+r"(a[8]), "+r"(a[9]), "+r"(a[10]), "+r"(a[11]),
          "+r"(a[12]), "+r"(a[13]), "+r"(a[14]), "+r"(a[15])
        :
        : "memory");
}
#endif

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

constexpr unsigned kExponent = 0x7f800000u, kOneExponent = 1u << 23;

// Magnitude as bits, which sort as magnitudes do.
__device__ __forceinline__ unsigned magnitude_bits(float number) { return __float_as_uint(fabsf(number)); }

// Exponent bits of the largest magnitude, those of 2^-98 at least: what undoes its scale is then a normal number.
__device__ __forceinline__ unsigned exponent_of(unsigned largest) {
    return max(largest & kExponent, 29 * kOneExponent);
}

// The power of two by which numbers up to that exponent are multiplied before they are split.
__device__ __forceinline__ float scale_of(unsigned exponent) { return __uint_as_float(268 * kOneExponent - exponent); }

// Two scaled numbers as high + low: high are the nearest fp16 numbers, low the rests. A rest is at most 8; infinity has
// a
// NaN as its rest, which becomes 16, so that infinity stays infinity.
__device__ __forceinline__ void split(float first, float second, unsigned& high, unsigned& low) {
    high = floats_to_half2(first, second);
    const float first_rest = first - half_to_float(static_cast<unsigned short>(high));
    const float second_rest = second - half_to_float(static_cast<unsigned short>(high >> 16));
    low = floats_to_half2(fminf(first_rest, 16.0f), fminf(second_rest, 16.0f));
}

// Converts the weights of the block's channels to fp16 parts, each channel scaled by a power of two of its own;
// `powers`
// gets what scales its results back. Several loads of a thread are in flight at once.
__device__ __forceinline__ void load_weights(const float* __restrict__ w, int first_row, uint4* weights,
                                             unsigned* powers) {
    constexpr int kVectors = 32;
    // Adjacent threads read adjacent channels of the result, which lie side by side: 8 terms of a channel at a time.
    constexpr int kAll = kVectors * kTileRows, kAtOnce = 4;
    float numbers[kAtOnce][8];
    const auto load = [&](int first) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int own = first + i * kThreads, row = first_row + own % kTileRows, term = own / kTileRows * 8;
#pragma unroll
            for (int n = 0; n < 8; ++n) {
                const bool is_weight = own < kAll && term + n < kTerms && row < kResults;
                numbers[i][n] = is_weight ? __ldg(w + (term + n) * kResults + row) : 0.0f;
            }
        }
    };
    for (int i = threadIdx.x; i < kTileRows; i += kThreads) {
        powers[i] = 0;
    }
    __syncthreads();
#pragma unroll 1
    for (int first = threadIdx.x; first < kAll; first += kAtOnce * kThreads) {
        load(first);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            unsigned largest = 0;
#pragma unroll
            for (int n = 0; n < 8; ++n) {
                largest = max(largest, magnitude_bits(numbers[i][n]));
            }
            if (first + i * kThreads < kAll) {
                atomicMax(&powers[(first + i * kThreads) % kTileRows], largest);
            }
        }
    }
    __syncthreads();
#pragma unroll 1
    for (int first = threadIdx.x; first < kAll; first += kAtOnce * kThreads) {
        if (kAll > kAtOnce * kThreads) {
            load(first);
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int own = first + i * kThreads, row = own % kTileRows;
            if (own < kAll) {
                const float scale = scale_of(exponent_of(powers[row]));
                unsigned high[4], low[4];
#pragma unroll
                for (int n = 0; n < 4; ++n) {
                    split(numbers[i][2 * n] * scale, numbers[i][2 * n + 1] * scale, high[n], low[n]);
                }
                uint4* const target = weights + own / kTileRows * kWeightPitch + row;
                target[0] = make_uint4(high[0], high[1], high[2], high[3]);
                target[kWeightVectors] = make_uint4(low[0], low[1], low[2], low[3]);
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kTileRows; i += kThreads) {
        powers[i] = exponent_of(powers[i]);
    }
    fence_proxy_async();  // before the next barrier: tensor cores read what was written
}

// The first channel of a pixel, as a column of the product; nullptr behind the last image.
__device__ __forceinline__ const float* pixels_of(const float* __restrict__ dy, int column) {
    const int image = column / kPlane, pixel = column % kPlane;
    if (column >= kColumns) {
        return nullptr;
    }
    return dy + static_cast<size_t>(image) * (kTerms * kSourcePlane) + pixel;
}

// What a lane copies next: kVector pixels of some channels of the warp's pixels.
struct CopyState {
    const float* pixels;  // the lane's first pixel of the first channel; nullptr behind the last image
    int tile, step, stage;
};

// First pixel of a warp in a tile.
__device__ __forceinline__ int first_column_of(int tile) {
    const int warp = threadIdx.x / 32;
    return tile * kTileColumns + warp / (4 * kDown) * kOwnColumns + warp % 4 * kWarpColumns;
}

// Begins to copy the next stage of the warp, if there is one; the copies are a group either way.
__device__ __forceinline__ void copy_next(CopyState& next, float* stages, const float* __restrict__ dy) {
    constexpr int kVectors = kWarpColumns / kVector;  // per channel
    constexpr int kRowsAtOnce = 32 / kVectors;
    const int lane = threadIdx.x % 32;
    if (next.tile < kColumnTiles) {
        float* const target = stages + next.stage * kStageFloats + lane % kVectors * kVector;
#pragma unroll
        for (int row = 0; row < kStageTerms; row += kRowsAtOnce) {
            const int own = row + lane / kVectors, term = next.step * kStageTerms + own;
            const bool is_pixel = next.pixels != nullptr;
            cp_async_or_zero<4 * kVector>(true, is_pixel, target + own * kPitch,
                                          is_pixel ? next.pixels + static_cast<size_t>(term) * kSourcePlane : dy);
        }
        next.stage = next.stage + 1 == kStages ? 0 : next.stage + 1;
        if (++next.step == kSteps) {
            next.step = 0;
            next.tile += kColumnBlocks;
            next.pixels = pixels_of(dy, first_column_of(next.tile) + lane % kVectors * kVector);
        }
    }
    cp_async_commit_group();
}

// kSumTerms terms of the warp's pixels as operand A of wgmma. Of 16 pixels, the even ones are rows 0 to 7, the odd ones
// rows 8 to 15, so that a thread has two adjacent pixels.
struct Operands {
    unsigned parts[2][kSumTerms / 16][4];  // high and low
    float undo[2];  // what scales the sums of both pixels back
};

// Scales and splits terms; `own` is the thread's first pixel of the first term.
__device__ __forceinline__ Operands operands_of(const float* own) {
    Operands operands;
    float2 pixels[kSumTerms / 8][2];
    float largest[2] = {};
#pragma unroll
    for (int k = 0; k < kSumTerms / 4; ++k) {
        float2& two = pixels[k / 2][k % 2];
        two = *reinterpret_cast<const float2*>(own + (k / 2 * 8 + k % 2) * kPitch);
        largest[0] = fmaxf(largest[0], fabsf(two.x));
        largest[1] = fmaxf(largest[1], fabsf(two.y));
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        largest[n] = fmaxf(largest[n], __shfl_xor_sync(0xffffffffu, largest[n], 1));
        largest[n] = fmaxf(largest[n], __shfl_xor_sync(0xffffffffu, largest[n], 2));
        const unsigned exponent = exponent_of(__float_as_uint(largest[n]));
        const float scale = scale_of(exponent);
#pragma unroll
        for (int k = 0; k < kSumTerms / 8; ++k) {
            const float2 (&two)[2] = pixels[k];
            split((n ? two[0].y : two[0].x) * scale, (n ? two[1].y : two[1].x) * scale,
                  operands.parts[0][k / 2][k % 2 * 2 + n], operands.parts[1][k / 2][k % 2 * 2 + n]);
        }
        // 2^-14 less than the scale: sums are then those of weights with a largest magnitude of about one.
        operands.undo[n] = __uint_as_float(exponent - 28 * kOneExponent);
    }
    return operands;
}

// Begins sums = pixels * weights, for kSumTerms terms. Small products come first: tensor cores truncate sums.
__device__ __forceinline__ void begin_products(float (&sums)[kSums], const Operands& pixels, SmemDescriptor weights) {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kSumTerms / 16; ++k) {
        const SmemDescriptor own = behind(weights, 16 * 2 * k * kWeightPitch);
        wgmma_f16(sums, pixels.parts[1][k], own, k > 0);
        wgmma_f16(sums, pixels.parts[0][k], behind(own, 16 * kWeightVectors), true);
    }
#pragma unroll
    for (int k = 0; k < kSumTerms / 16; ++k) {
        wgmma_f16(sums, pixels.parts[0][k], behind(weights, 16 * 2 * k * kWeightPitch), true);
    }
    wgmma_commit_group();
}

// Stores the results of a warp: a thread has two adjacent pixels of two of eight channels.
__device__ __forceinline__ void store(const float (&totals)[kSums], int first_row, int first_column,
                                      const unsigned* powers, float* __restrict__ dx) {
    const int lane = threadIdx.x % 32;
    const int column = first_column + lane / 4 * 2, image = column / kPlane, pixel = column % kPlane;
    if (column >= kColumns) {
        return;
    }
    // Each pixel is the first one of two columns and two rows, whose others no pixel of dy reaches.
    const int place = pixel / kRowPixels * (2 * kImageColumns) + pixel % kRowPixels * 2;
    float* const target = dx + static_cast<size_t>(image) * (kResults * kResultPlane) + place;
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
        const int own = i / 4 * 8 + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int row = first_row + own + n;
            const float undo = __uint_as_float(powers[row % kTileRows]);
            const float first = totals[i + n] * undo;
            const float second = totals[i + n + 2] * undo;
            const float beside = 0.0f;
            float4* const own_row = reinterpret_cast<float4*>(target) + row * (kResultPlane / 4);
            own_row[0] = make_float4(first, beside, second, beside);
            own_row[kImageColumns / 4] = make_float4(beside, beside, beside, beside);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_pointwise(const float* __restrict__ dy, const float* __restrict__ w, float* __restrict__ dx) {
    extern __shared__ __align__(128) float4 shared[];
    uint4* const weights = reinterpret_cast<uint4*>(shared);
    float* const all_stages = reinterpret_cast<float*>(weights + 2 * kWeightVectors);
    unsigned* const powers = reinterpret_cast<unsigned*>(all_stages + kThreads / 32 * kStages * kStageFloats);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, own_row = warp / 4 % kDown * kOwnRows;
    const int first_row = blockIdx.x % kGroups * kTileRows, first_tile = blockIdx.x / kGroups;
    float* const stages = all_stages + warp * kStages * kStageFloats;
    const int first_pixel = first_column_of(first_tile) + lane % (kWarpColumns / kVector) * kVector;
    CopyState next = {pixels_of(dy, first_pixel), first_tile, 0, 0};
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
        copy_next(next, stages, dy);
    }
    load_weights(w, first_row, weights, powers);
    __syncthreads();
    const SmemDescriptor own_weights = smem_descriptor<16 * kWeightPitch, 128>(weights + own_row);
    const float* const own_pixels = stages + lane % 4 * 2 * kPitch + lane / 4 * 2;
    cp_async_wait_group<kStages - 1>();
    __syncwarp();  // the copies of all lanes have arrived
    Operands operands = operands_of(own_pixels);
    float totals[kSums] = {};
    int stage = 0, step = 0;
#pragma unroll 1
    for (int tile = first_tile; tile < kColumnTiles;) {
#pragma unroll
        for (int term = 0; term < kStageTerms; term += kSumTerms) {
            float sums[kSums];
            begin_products(sums, operands,
                           behind(own_weights, 16 * (step * (kStageTerms / 8) + term / 8) * kWeightPitch));
            if (term + kSumTerms == kStageTerms) {
                stage = stage + 1 == kStages ? 0 : stage + 1;
                cp_async_wait_group<kStages - 2>();
                __syncwarp();  // the next stage has arrived, and no lane reads the stage that is filled now
                copy_next(next, stages, dy);
            }
            const Operands following =
                operands_of(own_pixels + stage * kStageFloats + (term + kSumTerms) % kStageTerms * kPitch);
            wgmma_wait_all(sums, reinterpret_cast<unsigned(&)[2 * kSumTerms / 4]>(operands.parts));
#pragma unroll
            for (int n = 0; n < kSums; ++n) {
                totals[n] = fmaf(sums[n], operands.undo[n / 2 % 2], totals[n]);
            }
            operands = following;
        }
        if (++step == kSteps) {
            store(totals, first_row + own_row, first_column_of(tile), powers, dx);
            step = 0;
            tile += kColumnBlocks;
#pragma unroll
            for (int n = 0; n < kSums; ++n) {
                totals[n] = 0.0f;
            }
        }
    }
}
