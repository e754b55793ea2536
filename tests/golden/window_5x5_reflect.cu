// warpsmith filter2d_window
// problem: filter2d image=512x512 filter=5x5 planes=1 dtype=float32 border=reflect
// config:  block_columns=64 block_strips=2 columns=4 load=cached load_vector=4 method=direct min_blocks=0 order=rows
//          path=global prefetch=0 rows=1 store=streaming store_vector=4 tail=whole unroll=1 weights=argument
//
// Sliding window in registers. A thread computes a strip of kThreadColumns adjacent elements by kThreadRows rows. It
// reads each input row once and adds it to the accumulators of all output rows in progress, then stores the row that is
// complete. Blocks cover the interior of the image, columns first, then strips, then planes. The first kFrameBlocks
// blocks compute the frame around it, whose windows may reach outside the image, one output per thread.

constexpr int kRows = 512;  // rows of one plane of the image
constexpr int kColumns = 512;
constexpr int kChannels = 1;  // interleaved elements of a pixel
constexpr int kPitch = 512;  // elements from one row to the next
constexpr int kFilters = 1;
constexpr int kFilterRows = 5;
constexpr int kFilterColumns = 5;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 512;
constexpr int kBeforeRows = 2;  // rows of a window above its output pixel
constexpr int kBeforeColumns = 2;  // columns of a window left of it

using Pixel = float;
using Result = float;

constexpr int kThreadColumns = 4;  // output elements per thread in a row
constexpr int kThreadRows = 1;  // output rows per thread
constexpr int kUnroll = 1;  // input rows per iteration of the main loop
constexpr int kInProgress = kFilterRows - 1 + kUnroll;  // output rows that an iteration adds to
constexpr int kLoadVector = 4;  // elements per vector load
constexpr int kStoreVector = 4;  // elements per vector store
constexpr int kLoads = 3;  // vector loads that cover a thread's part of a row
constexpr int kPixels = kLoads * kLoadVector;
constexpr int kBlockColumns = 64;  // threads of a block in x
constexpr int kBlockStrips = 2;  // threads of a block in y, each with a strip of its own
constexpr int kColumnBlocks = 2;  // blocks across the interior
constexpr int kStripBlocks = 254;  // blocks down the interior
constexpr int kFrameBlocks = 48;  // blocks for the frames of all planes
constexpr int kFirstRow = 2;  // first output row of the interior
constexpr int kInteriorRows = 508;
constexpr int kFirstColumn = 4;  // first output element of the interior in a row without skew
constexpr int kInteriorThreads = 126;  // threads across the interior

// Elements left of a row's first tap that its aligned vector loads read too.
__device__ constexpr int lead_of(int) { return 2; }

// Elements by which a row of outputs is shifted right, so that vector stores are aligned.
__device__ constexpr int skew_of(int) { return 0; }

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][r][s];
}

// One plane of the image; load() returns one of its elements as float.
struct Plane {
    const Pixel* pixels;
};

__device__ __forceinline__ Plane plane_of(const Pixel* image, int plane) {
    return {image + plane * (kRows * kPitch)};
}

__device__ __forceinline__ float load(const Plane& plane, int row, int element) {
    return to_float(__ldg(plane.pixels + row * kPitch + element));
}

// Index of the pixel that border `reflect` repeats at index i: c b a | a b c d | d c b.
__device__ __forceinline__ int source_index(int i, int size) {
    i = i < 0 ? -1 - i : i;
    return i >= size ? 2 * size - 1 - i : i;
}

__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, source_index(row, kRows), source_index(element, kColumns));
}

constexpr int kRowOutputs = kOutputColumns * kChannels;
constexpr int kInteriorColumns = kInteriorThreads * kThreadColumns;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // above and below it
constexpr int kFramePixels = 6112;  // outputs of the frame of one plane

// Position of output n of a plane's frame: the rows above and below the interior come first, then the columns left and
// right of it.
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
#pragma unroll kFilterColumns < 8 ? 8 : 4  // rows of taps whose loads are in flight together
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

using Vector = float4;
using StoreVector = float4;
using Sums = float[kFilters][kInProgress][kThreadColumns];

__device__ __forceinline__ void unpack(float4 vector, float* pixels) {
    pixels[0] = vector.x;
    pixels[1] = vector.y;
    pixels[2] = vector.z;
    pixels[3] = vector.w;
}

__device__ __forceinline__ float4 pack(const float* sums) {
    return make_float4(sums[0], sums[1], sums[2], sums[3]);
}

// A thread's part of one image row, in the image's element type.
struct Row {
    Vector vectors[kLoads];
};

// Vector loads from global memory; `first` points to the first tap of the strip.
struct Rows {
    const Pixel* __restrict__ first;

    __device__ __forceinline__ Row read(int row, int k) const {
        Row part;
        const Vector* vectors = reinterpret_cast<const Vector*>(first + row * kPitch - lead_of(k));
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            part.vectors[i] = __ldg(vectors + i);
        }
        return part;
    }
};

// Stores output row j of an iteration for each filter; `target` is its address for the first filter, without skew.
__device__ __forceinline__ void store_row(Result* __restrict__ target, const Sums& sums, int j) {
#pragma unroll
    for (int f = 0; f < kFilters; ++f) {
        StoreVector* vectors = reinterpret_cast<StoreVector*>(target + f * (kOutputRows * kResultPitch) + skew_of(j));
#pragma unroll
        for (int i = 0; i < kThreadColumns / kStoreVector; ++i) {
            __stcs(vectors + i, pack(sums[f][j] + i * kStoreVector));
        }
    }
}

template <int kWidth>
__device__ __forceinline__ void add_tap(float (&sums)[kWidth], const float* pixels, float weight) {
#pragma unroll
    for (int c = 0; c < kWidth; ++c) {
        sums[c] = fmaf(weight, pixels[c], sums[c]);
    }
}

// Adds row k of an iteration to the output rows in progress, the oldest first: filter rows `first` to `last` - 1, since
// the others belong to outputs outside the strip.
__device__ __forceinline__ void add_row(Sums& sums, const Row& part,
                                        const Weights& weights, int k, int first, int last) {
    float pixels[kPixels];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        unpack(part.vectors[i], pixels + i * kLoadVector);
    }

#pragma unroll
    for (int r = kFilterRows - 1; r >= 0; --r) {
        if (r < first || r >= last) {
            continue;
        }
#pragma unroll
        for (int f = 0; f < kFilters; ++f) {
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
                const float* from = pixels + lead_of(k) + skew_of(k - r) + s * kChannels;
                add_tap(sums[f][k - r], from, tap(weights, f, r, s));
            }
        }
    }
}

// Moves the window down by `rows`: accumulators shift up by as many rows, and new ones start at zero.
__device__ __forceinline__ void advance(Sums& sums, int rows) {
#pragma unroll
    for (int f = 0; f < kFilters; ++f) {
#pragma unroll
        for (int j = 0; j < kInProgress; ++j) {
#pragma unroll
            for (int c = 0; c < kThreadColumns; ++c) {
                sums[f][j][c] = j + rows < kInProgress ? sums[f][j + rows][c] : 0.0f;
            }
        }
    }
}

// Computes a strip of `rows` output rows; `target` is its first output.
__device__ __forceinline__ void slide(Rows source, Result* __restrict__ target,
                                      const Weights& weights, int rows) {
    constexpr int kLast = kFilterRows - 1;  // the row of a window that completes it
    Sums sums = {};

    // Prologue: the input rows before the first complete window.
#pragma unroll
    for (int k = 0; k < kLast; ++k) {
        add_row(sums, source.read(k, k), weights, k, 0, k + 1);
    }

    int done = 0;
#pragma unroll 1
    for (; done < rows; done += kUnroll) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            add_row(sums, source.read(kLast + done + u, kLast + u), weights, kLast + u,
                    0, kFilterRows);
            store_row(target + (done + u) * kResultPitch, sums, u);
        }
        advance(sums, kUnroll);
    }
}

extern "C" __global__ void __launch_bounds__(kBlockColumns * kBlockStrips)
filter2d_window(const Pixel* __restrict__ image, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    constexpr int kResultPlane = kFilters * kOutputRows * kResultPitch;
    // The frame's blocks are the slowest, so they start first and leave no tail at the end of the grid.
    if (blockIdx.x < kFrameBlocks) {
        const int n = (blockIdx.x * kBlockStrips + threadIdx.y) * kBlockColumns + threadIdx.x;
        const int plane = n / kFramePixels;
        if (plane < 1) {
            compute_frame(plane_of(image, plane), result + plane * kResultPlane, weights, n % kFramePixels);
        }
        return;
    }
    const int block = blockIdx.x - kFrameBlocks;
    const int first_thread = block % kColumnBlocks * kBlockColumns;
    const int first_row = block / kColumnBlocks % kStripBlocks * (kBlockStrips * kThreadRows);
    const int plane = block / (kColumnBlocks * kStripBlocks);
    const Plane pixels = plane_of(image, plane);
    const int thread = first_thread + threadIdx.x;
    const int inside = first_row + threadIdx.y * kThreadRows;
    if (thread >= kInteriorThreads || inside >= kInteriorRows) {
        return;
    }
    constexpr int rows = kThreadRows;
    const int row = kFirstRow + inside;
    const int element = kFirstColumn + thread * kThreadColumns;
    Result* target = result + plane * kResultPlane + row * kResultPitch + element;
    const Pixel* first = pixels.pixels + (row - kBeforeRows) * kPitch + element - kBeforeColumns * kChannels;
    slide({first}, target, weights, rows);
}
