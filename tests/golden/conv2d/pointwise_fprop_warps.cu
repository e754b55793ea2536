// warpsmith conv2d_pointwise
// problem: conv2d pass=fprop input=24x64x56x56 weight=256x64x1x1 precision=ieee
// config:  across=2 channels=32 columns=32 down=4 min_blocks=1 rows=32 stages=4 tiles=9 warps=1
//
// Convolution of one tap as a product of matrices by mma.sync: rows are channels of the result, columns pixels of all
// images, terms channels of the source. A block keeps the weights of kTileRows channels in shared memory, as fp16
// parts,
// and computes tiles of kTileColumns pixels, a warp kOwnRows x kOwnColumns of a tile. All threads copy float32
// pixels into stages of kStageTerms channels by cp.async. Each warp splits a part of a stage into fp16 parts, each
// pixel
// of kSumTerms channels scaled by a power of two of its own, while the stage before is multiplied. One __syncthreads()
// per stage separates readers from writers.

constexpr int kDown = 4;  // warps of a block, below each other
constexpr int kAcross = 2;
constexpr int kThreads = 32 * kDown * kAcross;
constexpr int kOwnRows = 32;  // channels of the result
constexpr int kOwnColumns = 32;  // pixels
constexpr int kProductsDown = kOwnRows / 16;
constexpr int kColumnSteps = kOwnColumns / 8;  // a thread has two columns of each
constexpr int kTileRows = kDown * kOwnRows;
constexpr int kTileColumns = kAcross * kOwnColumns;
constexpr int kGroups = 2;  // groups of kTileRows channels of the result
constexpr int kColumnBlocks = 131;  // blocks of a group of channels: each takes every kColumnBlocks-th tile
constexpr int kColumnTiles = 1176;  // of all images
constexpr int kResults = 256;  // channels of the result
constexpr int kTerms = 64;  // channels of the source
constexpr int kStageTerms = 32;
constexpr int kSumTerms = 32;  // terms that tensor cores sum before the sums are scaled back and promoted
constexpr int kStages = 4;
constexpr int kSteps = 2;  // stages per tile
constexpr int kColumns = 75264;  // pixels of all images
constexpr int kPlane = 3136;  // pixels of an image
constexpr int kSourcePlane = kPlane;
constexpr int kResultPlane = kPlane;
constexpr int kVector = 4;  // pixels side by side in the source, and in the result

// Shared memory: weights and split pixels in vectors of 8 channels (16 bytes), the scales of the results, and stages.
constexpr int kWeightPitch = kTileRows + 1;  // vectors from 8 channels to the next; padded against bank conflicts
constexpr int kWeightVectors = 8 * kWeightPitch;  // per part
constexpr int kSplitVectors = kStageTerms / 8 * kTileColumns;  // per part of a stage
constexpr int kPitch = kTileColumns + 4;  // floats; a warp reads 8 channels x 8 pixels without bank conflicts
constexpr int kStageFloats = kStageTerms * kPitch;
constexpr int kUndoFloats = kStageTerms / kSumTerms * kTileColumns;  // per stage

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
    constexpr int kVectors = 8;
    // A warp reads the terms of a channel, which lie side by side, 2 floats per lane.
    constexpr int kFloats = 2, kLoads = 1, kAtOnce = 16, kWarps = kThreads / 32;
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int first = threadIdx.x / 32; first < kTileRows; first += kAtOnce * kWarps) {
        float numbers[kAtOnce][kLoads][kFloats];
#pragma unroll
        for (int i = 0; i < kAtOnce * kLoads; ++i) {
            const int row = first_row + first + i / kLoads * kWarps, term = kFloats * (i % kLoads * 32 + lane);
            float (&own)[kFloats] = numbers[i / kLoads][i % kLoads];
            const float* const source = w + row * kTerms + term;
            own[0] = row < kResults && term < kTerms ? __ldg(source) : 0.0f;
            own[1] = row < kResults && term + 1 < kTerms ? __ldg(source + 1) : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int row = first + i * kWarps;
            unsigned largest = 0;
#pragma unroll
            for (int n = 0; n < kLoads * kFloats; ++n) {
                largest = max(largest, magnitude_bits(numbers[i][n / kFloats][n % kFloats]));
            }
            const unsigned exponent = exponent_of(__reduce_max_sync(0xffffffffu, largest));
            const float scale = scale_of(exponent);
            if (row >= kTileRows) {
                break;  // the warp's last rows
            }
            unsigned* const target = reinterpret_cast<unsigned*>(weights + row);
#pragma unroll
            for (int n = 0; n < kLoads * kFloats; n += 2) {
                const float (&own)[kFloats] = numbers[i][n / kFloats];
                const int term = kFloats * (n / kFloats * 32 + lane) + n % kFloats;
                if (term < 8 * kVectors) {
                    const int place = term / 8 * 4 * kWeightPitch + term % 8 / 2;
                    unsigned high, low;
                    split(own[n % kFloats] * scale, own[n % kFloats + 1] * scale, high, low);
                    target[place] = high;
                    target[4 * kWeightVectors + place] = low;
                }
            }
            if (lane == 0) {
                powers[row] = exponent;
            }
        }
    }
}

// What a thread copies next: kVector pixels of some channels of a stage.
struct CopyState {
    const float* pixels;  // the thread's first pixel of the first channel that is copied; nullptr behind the last image
    int tile, step, stage;
};

// The first channel of a pixel, as a column of the product; nullptr behind the last image.
__device__ __forceinline__ const float* pixels_of(const float* __restrict__ x, int column) {
    const int image = column / kPlane, pixel = column % kPlane;
    if (column >= kColumns) {
        return nullptr;
    }
    return x + static_cast<size_t>(image) * (kTerms * kSourcePlane) + pixel;
}

// Begins to copy the next stage of the block, if there is one; the copies are a group either way.
__device__ __forceinline__ void copy_next(CopyState& next, float* stages, const float* __restrict__ x) {
    constexpr int kVectors = kTileColumns / kVector;  // per channel
    constexpr int kRowsAtOnce = kThreads / kVectors;
    if (next.tile < kColumnTiles) {
        const int first = threadIdx.x / kVectors;
        float* const target = stages + next.stage * kStageFloats + threadIdx.x % kVectors * kVector;
#pragma unroll
        for (int row = 0; row < kStageTerms; row += kRowsAtOnce) {
            const int own = row + first, term = next.step * kStageTerms + own;
            const bool is_pixel = next.pixels != nullptr;
            cp_async_or_zero<4 * kVector>(true, is_pixel, target + own * kPitch,
                                          is_pixel ? next.pixels + static_cast<size_t>(term) * kSourcePlane : x);
        }
        next.stage = next.stage + 1 == kStages ? 0 : next.stage + 1;
        if (++next.step == kSteps) {
            next.step = 0;
            next.tile += kColumnBlocks;
            next.pixels = pixels_of(x, next.tile * kTileColumns + threadIdx.x % kVectors * kVector);
        }
    }
    cp_async_commit_group();
}

// A stage as operands of mma: vectors of 8 channels, high parts first, and what scales sums back. Of 16 pixels, those
// with
// an even number come first: columns 2 n and 2 n + 1 are column n of two products, so that a thread, which has two
// columns of each product, has four adjacent pixels.
struct SplitStage {
    uint4* vectors;
    float* undo;
};

// Splits kSumTerms channels of 8 pixels; a thread has a pixel of each second pair of channels of 8.
__device__ __forceinline__ void split_part(const float* from, const SplitStage& to, int part, int term) {
    const int lane = threadIdx.x % 32, first = part * 8;
    const float* const own = from + (term + lane % 4 * 2) * kPitch + first + lane / 4;
    float pixels[kSumTerms / 8][2];
    float largest[1] = {};
#pragma unroll
    for (int k = 0; k < kSumTerms / 4; ++k) {
        pixels[k / 2][k % 2] = own[(k / 2 * 8 + k % 2) * kPitch];
        largest[0] = fmaxf(largest[0], fabsf(pixels[k / 2][k % 2]));
    }
#pragma unroll
    for (int n = 0; n < 1; ++n) {
        largest[n] = fmaxf(largest[n], __shfl_xor_sync(0xffffffffu, largest[n], 1));
        largest[n] = fmaxf(largest[n], __shfl_xor_sync(0xffffffffu, largest[n], 2));
        const unsigned exponent = exponent_of(__float_as_uint(largest[n]));
        const float scale = scale_of(exponent);
        const int column = first / 16 * 16 + lane / 4 % 2 * 8 + first % 16 / 2 + lane / 8;
        unsigned* const target = reinterpret_cast<unsigned*>(to.vectors + term / 8 * kTileColumns + column) + lane % 4;
#pragma unroll
        for (int k = 0; k < kSumTerms / 8; ++k) {
            unsigned high, low;
            split(pixels[k][0] * scale, pixels[k][1] * scale, high, low);
            target[4 * k * kTileColumns] = high;
            target[4 * (kSplitVectors + k * kTileColumns)] = low;
        }
        if (lane % 4 == 0) {
            // 2^-14 less than the scale: sums are then those of weights with a largest magnitude of about one.
            to.undo[term / kSumTerms * kTileColumns + column] = __uint_as_float(exponent - 28 * kOneExponent);
        }
    }
}

// Splits the warp's part of kSumTerms channels of a stage.
__device__ __forceinline__ void split_terms(const float* from, const SplitStage& to, int term) {
    constexpr int kWarps = kThreads / 32, kAll = kTileColumns / 8;
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int part = 0; part < kAll; part += kWarps) {
        if (kAll % kWarps == 0 || part + warp < kAll) {
            split_part(from, to, part + warp, term);
        }
    }
}

using Totals = float[kProductsDown][4 * kColumnSteps];

// totals += sums, scaled back; `undo` belongs to the thread's first column.
__device__ __forceinline__ void promote(float (&totals)[4 * kColumnSteps], const float (&sums)[4 * kColumnSteps],
                                        const float* undo) {
#pragma unroll
    for (int n = 0; n < kColumnSteps; ++n) {
        const float2 own = *reinterpret_cast<const float2*>(undo + 8 * n);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            totals[4 * n + j] = fmaf(sums[4 * n + j], j % 2 ? own.y : own.x, totals[4 * n + j]);
        }
    }
}

// totals += weights * pixels, for kSumTerms terms. Small products come first: tensor cores truncate sums.
__device__ __forceinline__ void multiply(Totals& totals, SharedAddress weights, SharedAddress pixels,
                                         const float* undo) {
    unsigned high_pixels[kSumTerms / 16][kColumnSteps][2], low_pixels[kSumTerms / 16][kColumnSteps][2];
#pragma unroll
    for (int k = 0; k < kSumTerms / 16; ++k) {
#pragma unroll
        for (int n = 0; n < kColumnSteps; n += 2) {
            const SharedAddress own = pixels + 16 * (2 * k * kTileColumns + 8 * n);
            ldmatrix_x4(own, high_pixels[k][n][0], high_pixels[k][n][1], high_pixels[k][n + 1][0],
                        high_pixels[k][n + 1][1]);
            ldmatrix_x4(own + 16 * kSplitVectors, low_pixels[k][n][0], low_pixels[k][n][1], low_pixels[k][n + 1][0],
                        low_pixels[k][n + 1][1]);
        }
    }
#pragma unroll
    for (int i = 0; i < kProductsDown; ++i) {
        float sums[4 * kColumnSteps] = {};
#pragma unroll
        for (int k = 0; k < kSumTerms / 16; ++k) {
            unsigned high[4], low[4];
            const SharedAddress own = weights + 16 * (2 * k * kWeightPitch + 16 * i);
            ldmatrix_x4(own, high[0], high[1], high[2], high[3]);
            ldmatrix_x4(own + 16 * kWeightVectors, low[0], low[1], low[2], low[3]);
#pragma unroll
            for (int n = 0; n < kColumnSteps; ++n) {
                mma_f16(reinterpret_cast<float(&)[4]>(sums[4 * n]), low, high_pixels[k][n]);
            }
#pragma unroll
            for (int n = 0; n < kColumnSteps; ++n) {
                mma_f16(reinterpret_cast<float(&)[4]>(sums[4 * n]), high, low_pixels[k][n]);
            }
#pragma unroll
            for (int n = 0; n < kColumnSteps; ++n) {
                mma_f16(reinterpret_cast<float(&)[4]>(sums[4 * n]), high, high_pixels[k][n]);
            }
        }
        promote(totals[i], sums, undo);
    }
}

// Stores the results of a warp, 16 rows of each product: a thread has four adjacent pixels of each channel.
__device__ __forceinline__ void store(const Totals& totals, int first_row, int first_column, const unsigned* powers,
                                      float* __restrict__ y) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int pair = 0; pair < kColumnSteps; pair += 2) {
#pragma unroll
        for (int first = 0; first < 4; first += kVector) {
            const int column = first_column + 8 * pair + lane % 4 * 4 + first;
            const int image = column / kPlane, pixel = column % kPlane;
            if (column >= kColumns) {
                continue;
            }
            float* const target = y + static_cast<size_t>(image) * (kResults * kResultPlane) + pixel;
#pragma unroll
            for (int half = 0; half < 2 * kProductsDown; ++half) {
                const int own = lane / 4 + 8 * half, row = first_row % kTileRows + own;
                const float undo = __uint_as_float(powers[row]);
                float results[kVector];
#pragma unroll
                for (int n = 0; n < kVector; ++n) {
                    const float sum = totals[half / 2][4 * (pair + (first + n) % 2) + half % 2 * 2 + (first + n) / 2];
                    results[n] = sum * undo;
                }
                reinterpret_cast<float4*>(target)[(first_row + own) * (kResultPlane / kVector)] =
                    make_float4(results[0], results[1], results[2], results[3]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_pointwise(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y) {
    extern __shared__ __align__(128) float4 shared[];
    uint4* const weights = reinterpret_cast<uint4*>(shared);
    uint4* const split_vectors = weights + 2 * kWeightVectors;
    float* const stages = reinterpret_cast<float*>(split_vectors + 2 * 2 * kSplitVectors);
    float* const undo = stages + kStages * kStageFloats;
    unsigned* const powers = reinterpret_cast<unsigned*>(undo + 2 * kUndoFloats);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int own_row = warp % kDown * kOwnRows, own_column = warp / kDown * kOwnColumns;
    const int first_row = blockIdx.x % kGroups * kTileRows, first_tile = blockIdx.x / kGroups;
    const int first_pixel = first_tile * kTileColumns + threadIdx.x % (kTileColumns / kVector) * kVector;
    CopyState next = {pixels_of(x, first_pixel), first_tile, 0, 0};
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
        copy_next(next, stages, x);
    }
    load_weights(w, first_row, weights, powers);
    cp_async_wait_group<kStages - 1>();
    __syncthreads();  // the first stage has arrived
#pragma unroll
    for (int term = 0; term < kStageTerms; term += kSumTerms) {
        split_terms(stages, {split_vectors, undo}, term);
    }
    const SharedAddress own_weights = shared_address(weights) + 16 * (lane / 16 * kWeightPitch + own_row + lane % 16);
    const SharedAddress own_pixels = shared_address(split_vectors) +
                                     16 * (lane / 8 % 2 * kTileColumns + own_column + lane / 16 * 8 + lane % 8);
    const bool splits_first = warp / 4 % 2 == 0;  // of two warps of a scheduler, one splits while the other multiplies
    Totals totals = {};
    int stage = 0, step = 0;
#pragma unroll 1
    for (int tile = first_tile, i = 0; tile < kColumnTiles; ++i) {
        stage = stage + 1 == kStages ? 0 : stage + 1;
        cp_async_wait_group<kStages - 2>();
        __syncthreads();  // the next stage has arrived, this one is split, and nobody reads those that are filled now
        copy_next(next, stages, x);
        const float* const next_stage = stages + stage * kStageFloats;
        const SplitStage next_split = {split_vectors + (i + 1) % 2 * (2 * kSplitVectors),
                                       undo + (i + 1) % 2 * kUndoFloats};
        const float* const own_undo = undo + i % 2 * kUndoFloats + own_column + lane % 4 * 2;
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {
            if ((half == 0) == splits_first) {
#pragma unroll
                for (int term = 0; term < kStageTerms; term += kSumTerms) {
                    split_terms(next_stage, next_split, term);
                }
                continue;
            }
#pragma unroll
            for (int term = 0; term < kStageTerms; term += kSumTerms) {
                multiply(totals, own_weights + 16 * (step * (kStageTerms / 8) + term / 8) * kWeightPitch,
                         own_pixels + 16 * (i % 2 * (2 * kSplitVectors) + term / 8 * kTileColumns),
                         own_undo + term / kSumTerms * kTileColumns);
            }
        }
        if (++step == kSteps) {
            store(totals, first_row + own_row, tile * kTileColumns + own_column, powers, y);
            step = 0;
            tile += kColumnBlocks;
#pragma unroll
            for (int j = 0; j < kProductsDown * 4 * kColumnSteps; ++j) {
                totals[j / (4 * kColumnSteps)][j % (4 * kColumnSteps)] = 0.0f;
            }
        }
    }
}
