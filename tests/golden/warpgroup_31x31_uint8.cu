// warpsmith filter2d_warpgroup
// problem: filter2d image=2000x3000 filter=31x31 planes=1 dtype=uint8 border=constant cval=0.0
// config:  ahead=0 block_groups=2 block_strips=1 columns=4 min_blocks=0 path=async prefetch=5 rows=46 store=plain weights=argument
//
// A row of the image times all rows of the filter at once. A warpgroup owns 64 segments of 8 adjacent outputs. A row of
// matrix A holds pixels of a segment; column 8r + n of matrix B weighs them for output n with row r of the filter. The
// products are added to the outputs in progress, of which one is complete. Both matrices are split into two parts of
// 11 bits, and products of both lesser parts left out. The outputs around the interior are computed one by one.

constexpr int kRows = 2000;  // of one plane of the image
constexpr int kColumns = 3000;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 3000;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 31;
constexpr int kFilterColumns = 31;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 3000;
constexpr int kBeforeRows = 15;  // of a window, above its output pixel
constexpr int kBeforeColumns = 15;  // and left of it

using Pixel = unsigned char;
using Result = unsigned char;

constexpr int kDepth = 40;  // pixels of a row of matrix A, from a segment's first one on
constexpr int kSteps = kDepth / 8;  // products that sum over them
constexpr int kThreadPixels = kDepth / 4;  // of a segment: four threads share it
constexpr int kBatches = 2;  // of the filter's rows, one after the other
constexpr int kMatrixRows = 16;  // rows of weights in matrix B: of one batch
constexpr int kProducts = 4 * kMatrixRows;  // of a thread: 2 outputs of 2 segments for each of them
constexpr int kLast = kFilterRows - 1;  // the row of a window that completes it
constexpr int kGroupColumns = 512;  // outputs of a warpgroup, across
constexpr int kThreadRows = 46;  // and down
constexpr int kPrefetch = 5;  // rows that are read ahead
constexpr int kCopyVector = 8;  // elements that a thread copies at once
constexpr int kLoadVector = 2;  // and that it loads at once
constexpr int kBlockGroups = 2;  // warpgroups across a block
constexpr int kBlockStrips = 1;  // and down
constexpr int kColumnBlocks = 3;  // blocks across the interior
constexpr int kStripBlocks = 43;  // and down
constexpr int kFrameBlocks = 598;  // blocks for the outputs around it, in all planes
constexpr int kFirstRow = 15;  // of the interior
constexpr int kInteriorRows = 1970;
constexpr int kFirstColumn = 16;  // of the interior, in elements
constexpr int kLead = 1;  // elements read before a segment's windows, so that loads and stores are aligned
constexpr int kLastColumn = 2472;  // where the last warpgroup begins, which may overlap the one before
constexpr int kInteriorGroups = 6;  // across it

__device__ constexpr int skew_of(int) { return 0; }  // rows of outputs all begin at kFirstColumn

__device__ __forceinline__ float to_float(unsigned char value) { return value; }

// To the nearest integer, half to even, in the lowest byte: 1.5 * 2^23 leaves a float no bits for fractions.
__device__ __forceinline__ unsigned rounded(float value) {
    return __float_as_uint(fminf(fmaxf(value, 0.0f), 255.0f) + 12582912.0f);
}

__device__ __forceinline__ Result to_result(float value) { return static_cast<Result>(rounded(value)); }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][r][s];
}

// One plane of the image, and one of its elements as float.
struct Plane {
    const Pixel* pixels;
};

__device__ __forceinline__ Plane plane_of(const Pixel* image, int plane) {
    return {image + plane * (kRows * kPitch)};
}

__device__ __forceinline__ float load(const Plane& plane, int row, int element) {
    return to_float(__ldg(plane.pixels + row * kPitch + element));
}

// k k k | a b c d | k k k
__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    const bool inside = row >= 0 && row < kRows && element >= 0 && element < kColumns * kChannels;
    return inside ? load(plane, row, element) : 0.0f;
}

constexpr int kRowOutputs = kOutputColumns * kChannels;
constexpr int kInteriorColumns = kLastColumn + kGroupColumns - kFirstColumn;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // of whole rows, above and below
constexpr int kFramePixels = 153040;  // of one plane

// Output n of a plane's frame: first the rows above and below the interior, then what is left and right of it.
__device__ __forceinline__ void locate(int n, int& row, int& element) {
    if (n < kFrameRowPixels) {
        row = n / kRowOutputs;
        element = n - row * kRowOutputs;
        row += row < kFirstRow ? 0 : kInteriorRows;
        return;
    }
    constexpr int kSides = kRowOutputs > kInteriorColumns ? kRowOutputs - kInteriorColumns : 1;
    const int inside = (n - kFrameRowPixels) / kSides;
    element = n - kFrameRowPixels - inside * kSides;
    row = kFirstRow + inside;
    element += element < kFirstColumn + skew_of(inside) ? 0 : kInteriorColumns;
}

__device__ __forceinline__ void compute_frame(const Plane& plane, Result* __restrict__ result, const Weights& weights,
                                              int n) {
    int row, element;
    locate(n, row, element);
#pragma unroll 1
    for (int f = 0; f < kFilters; ++f) {
        float sum = 0.0f;
#pragma unroll kFilterColumns < 8 ? 8 : 4  // so many rows' loads are in flight together
        for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
                const float pixel = pixel_at(plane, row + r - kBeforeRows, element + (s - kBeforeColumns) * kChannels);
                sum = fmaf(tap(weights, f, r, s), pixel, sum);
            }
        }
        result[(f * kOutputRows + row) * kResultPitch + element] = to_result(sum);
    }
}

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Writes to shared memory become visible to the tensor cores; a barrier follows.
__device__ __forceinline__ void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// What a product needs to know of matrix B, in units of 16 bytes: where it lies, and how far apart core matrices are.
using MatrixB = unsigned long long;

__device__ __forceinline__ MatrixB matrix_b(const float* first) {
    const MatrixB address = __cvta_generic_to_shared(first);
    constexpr MatrixB kAcross = 8, kAlong = kAcross * 16;
    return (address & 0x3ffff) >> 4 | kAlong << 16 | kAcross << 32;
}

// The matrix that lies `elements` behind it.
__device__ __forceinline__ MatrixB behind(MatrixB matrix, int elements) { return matrix + elements / 4; }

// sums = a * b, or sums += a * b: 64x8 by 8x128 tf32 numbers into floats, spread over a warpgroup as PTX lays out
// wgmma.m64n128k8. Of a float it reads the upper 19 bits. It goes on in the background: between begin_products()
// and finish_products() nothing may touch sums.
template <bool kAdd>
__device__ __forceinline__ void multiply(float (&sums)[64], const float (&a)[4], MatrixB b) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %69, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
        "%60, %61, %62, %63"
        "}, { %64, %65, %66, %67 }, %68, add, 1, 1; }"
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
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "l"(b), "n"(kAdd ? 1 : 0));
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all of them.
__device__ __forceinline__ void finish_products(float (&sums)[64]) {
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

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// a + b, now: put off, it would take a move to have it in the register where the next row wants it.
__device__ __forceinline__ float add_now(float a, float b) {
    float sum;
    asm volatile("add.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
    return sum;
}
#endif

using Vector = unsigned short;
using StoreVector = unsigned short;

// A byte below the exponent of 2^23 is that much more than 2^23: one permutation and one addition a pixel.
__device__ __forceinline__ float byte_to_float(unsigned word, int i) {
    return __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 + i)) - 8388608.0f;
}

__device__ __forceinline__ void unpack(unsigned short vector, float* pixels) {
    pixels[0] = byte_to_float(vector, 0);
    pixels[1] = byte_to_float(vector, 1);
}

__device__ __forceinline__ unsigned pack_bytes(float a, float b, float c, float d) {
    const unsigned low = __byte_perm(rounded(a), rounded(b), 0x0040);
    return __byte_perm(low, __byte_perm(rounded(c), rounded(d), 0x0040), 0x5410);
}

__device__ __forceinline__ unsigned short pack(const float* sums) {
    return static_cast<unsigned short>(__byte_perm(rounded(sums[0]), rounded(sums[1]), 0x0040));
}

// A product reads the upper 19 bits of a float. Those of this one are the float's nearest number of 11 bits.
__device__ __forceinline__ float rounding_up(float value) { return __uint_as_float(__float_as_uint(value) + 0x1000u); }

__device__ __forceinline__ float to_tf32(float value) {
    return __uint_as_float(__float_as_uint(rounding_up(value)) & 0xffffe000u);
}

// Both parts of matrix B, in the order of its core matrices.
constexpr int kMatrix = kDepth * 8 * kMatrixRows;  // elements of a batch's

struct Factors {
    float high[kBatches * kMatrix];
    float low[kBatches * kMatrix];
};

// The threads of a block share the work.
__device__ __forceinline__ void split(const Weights& weights, Factors& factors) {
    const int thread = threadIdx.y * (128 * kBlockGroups) + threadIdx.x;
    for (int i = thread; i < kBatches * kMatrix; i += 128 * kBlockGroups * kBlockStrips) {
        const int holder = i % 4, column = i / 4 % (8 * kMatrixRows), part = i % kMatrix / (32 * kMatrixRows);
        const int away = holder * kThreadPixels + part - kLead - column % 8;  // elements from the output's first tap
        const int s = away / kChannels;
        const int r = i / kMatrix * kMatrixRows + column / 8;  // the last batch may have more rows than are left
        const bool is_tap = r < kFilterRows && away >= 0 && away % kChannels == 0 && s < kFilterColumns;
        const float value = is_tap ? tap(weights, 0, is_tap ? r : 0, is_tap ? s : 0) : 0.0f;
        factors.high[i] = to_tf32(value);
        const float rest = value - to_tf32(value);
        factors.low[i] = rest == rest ? to_tf32(rest) : rest;  // where a weight is not a number, results are none either
    }
}

// A thread's pixels of two segments in one row of the image, as they are stored.
struct Row {
    Vector vectors[2][kThreadPixels / kLoadVector];
};

__device__ __forceinline__ Row read(const Pixel* __restrict__ source) {
    Row row;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < kThreadPixels / kLoadVector; ++j) {
            row.vectors[i][j] = reinterpret_cast<const Vector*>(source + i * 64)[j];
        }
    }
    return row;
}

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Copies past the registers where `wanted` holds, without a branch; the thread goes on at once.
template <int kBytes>
__device__ __forceinline__ void copy_async_if(bool wanted, void* shared, const void* global) {
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (kBytes == 16) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)) : "memory");
    } else {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)), "n"(kBytes) : "memory");
    }
}

__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
#endif

constexpr int kRowPixels = 120 + kDepth;  // that a warp needs of a row
constexpr int kSlots = kPrefetch + 1;

// A strip's rows, by way of a ring in shared memory that each warp fills for itself: no warp ever waits for another.
struct Rows {
    const Pixel* __restrict__ source;  // what the thread copies of the row that is asked for next
    Pixel* copied;                     // where to, in the first slot
    const Pixel* pixels;               // the thread's pixels there
    int remaining;                     // rows to be asked for; then the last one again, since a branch costs more
    int asked, next;                   // slots, in elements

    __device__ __forceinline__ void request() {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < kRowPixels; i += 32 * kCopyVector) {
            const bool is_needed = i + lane * kCopyVector < kRowPixels;
            copy_async_if<kCopyVector * sizeof(Pixel)>(is_needed, copied + asked + i, source + i);
        }
        copy_async_commit();
        source += --remaining > 0 ? kPitch : 0;
        asked = asked == (kSlots - 1) * kRowPixels ? 0 : asked + kRowPixels;
    }

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int k = 0; k < kPrefetch; ++k) {
            request();
        }
    }

    __device__ __forceinline__ Row read_next() {
        copy_async_wait<kPrefetch - 1>();
        __syncwarp();  // the whole warp has its part of this row, and is done with the row before
        const Row row = read(pixels + next);
        next = next == (kSlots - 1) * kRowPixels ? 0 : next + kRowPixels;
        return row;
    }
};

// A thread's part of matrix A for each product. The order of the
// pixels that are summed over is free, as long as both matrices agree on it: a thread's two of a product are adjacent.
struct Segments {
    float high[kSteps][4];
};

__device__ __forceinline__ Segments segments_of(const Row& row) {
    Segments segments;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        float pixels[kThreadPixels];
#pragma unroll
        for (int j = 0; j < kThreadPixels / kLoadVector; ++j) {
            unpack(row.vectors[i][j], pixels + j * kLoadVector);
        }
#pragma unroll
        for (int j = 0; j < kThreadPixels; ++j) {
            segments.high[j / 2][j % 2 * 2 + i] = pixels[j];
        }
    }
    return segments;
}

// Starts the products of a row of the image with each row of weights, the lesser ones first: the tensor cores round
// towards zero, by more the larger a sum is.
__device__ __forceinline__ void multiply(float (&products)[kProducts], const Segments& segments, MatrixB high,
                                         MatrixB low) {
    constexpr int kStep = 8 * 8 * kMatrixRows;  // elements of matrix B
    begin_products();
    multiply<false>(products, segments.high[0], low);
#pragma unroll
    for (int i = 1; i < kSteps; ++i) {
        multiply<true>(products, segments.high[i], behind(low, i * kStep));
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
        multiply<true>(products, segments.high[i], behind(high, i * kStep));
    }
    commit_products();
}

// Adds the products of a row with a batch of the filter's rows, from row `first` on, to the outputs in progress: with the
// last batch, which comes first, one is complete, and with row 0 another begins.
__device__ __forceinline__ void advance(float (&sums)[kLast][4], const float (&products)[kProducts],
                                        float (&complete)[4], int first) {
#pragma unroll
    for (int j = kMatrixRows - 1; j >= 0; --j) {
        const int r = first + j;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (r == kLast) {
                complete[i] = sums[0][i] + products[j * 4 + i];
            } else if (r > 0 && r < kLast) {
                sums[kLast - r - 1][i] = add_now(sums[kLast - r][i], products[j * 4 + i]);
            } else if (r == 0) {
                sums[kLast - 1][i] = products[j * 4 + i];
            }
        }
    }
}

// Stores two outputs of each segment.
__device__ __forceinline__ void store(Result* __restrict__ target, const float (&outputs)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        StoreVector* vector = reinterpret_cast<StoreVector*>(target + i / 2 * 64 + i % 2);
        *vector = pack(outputs + i);
    }
}

// Walks down a strip of `rows` output rows. `target` is the thread's first output.
__device__ __forceinline__ void slide(Rows source, Result* __restrict__ target, const Factors& factors, int rows) {
    const MatrixB high = matrix_b(factors.high), low = matrix_b(factors.low);
    float sums[kLast][4] = {};  // of the outputs in progress
    source.begin();
#pragma unroll 1
    for (int k = -kLast; k < rows; ++k) {
        const Segments segments = segments_of(source.read_next());
        float complete[4];
#pragma unroll
        for (int batch = kBatches - 1; batch >= 0; --batch) {
            float products[kProducts];
            multiply(products, segments, behind(high, batch * kMatrix), behind(low, batch * kMatrix));
            if (batch == kBatches - 1) {
                source.request();
            }
            finish_products(products);
            advance(sums, products, complete, batch * kMatrixRows);
        }
        if (k >= 0) {
            store(target, complete);
            target += kResultPitch;
        }
    }
}

extern "C" __global__ void __launch_bounds__(128 * kBlockGroups * kBlockStrips)
filter2d_warpgroup(const Pixel* __restrict__ image, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    constexpr int kResultPlane = kOutputRows * kResultPitch;
    // The frame is the slow part, pixel by pixel: it goes first, so that nobody waits for it at the end.
    if (blockIdx.x < kFrameBlocks) {
        const int n = (blockIdx.x * kBlockStrips + threadIdx.y) * (128 * kBlockGroups) + threadIdx.x;
        const int plane = n / kFramePixels;
        if (plane < 1) {
            compute_frame(plane_of(image, plane), result + plane * kResultPlane, weights, n % kFramePixels);
        }
        return;
    }
    const int block = blockIdx.x - kFrameBlocks;
    extern __shared__ __align__(128) float asked_for[];  // more than a kernel has by itself
    Factors& factors = *reinterpret_cast<Factors*>(asked_for);
    split(weights, factors);
    show_to_products();
    __syncthreads();
    // From the first thread of a warp, so that the compiler knows that all of them go the same way.
    const int here = __shfl_sync(0xffffffffu, threadIdx.y * kBlockGroups + threadIdx.x / 128, 0);
    const int group = block % kColumnBlocks * kBlockGroups + here % kBlockGroups;
    const int inside = (block / kColumnBlocks % kStripBlocks * kBlockStrips + here / kBlockGroups) * kThreadRows;
    const int plane = block / (kColumnBlocks * kStripBlocks);
    if (group >= kInteriorGroups || inside >= kInteriorRows) {
        return;
    }
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const int element = min(kFirstColumn + group * kGroupColumns, kLastColumn) + warp * 128;
    const int rows = min(kThreadRows, kInteriorRows - inside);
    const int row = kFirstRow + inside;
    const Pixel* first = plane_of(image, plane).pixels + element - kBeforeColumns * kChannels - kLead +
                         (row - kBeforeRows) * kPitch;
    __shared__ __align__(16) Pixel rings[kBlockGroups * kBlockStrips * 4][kSlots * kRowPixels];
    Pixel* ring = rings[here * 4 + warp];
    const Rows source{first + lane * kCopyVector, ring + lane * kCopyVector,
                      ring + lane / 4 * 8 + lane % 4 * kThreadPixels, rows + kLast, 0, 0};
    Result* target = result + plane * kResultPlane + row * kResultPitch + element + lane / 4 * 8 + lane % 4 * 2;
    slide(source, target, factors, rows);
}
