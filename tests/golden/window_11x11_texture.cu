// warpsmith filter2d_window
// problem: filter2d image=720x1281 filter=11x11 planes=1 dtype=float32 border=reflect
// config:  block_columns=64 block_strips=1 columns=4 load=cached load_vector=1 method=direct min_blocks=0 order=rows path=texture prefetch=0 rows=24 store=plain store_vector=1 tail=whole unroll=1 weights=constant
//
// A window that slides down in registers. Each thread owns kThreadColumns adjacent elements and walks down
// kThreadRows output rows. Every input row is read once and added into the outputs in progress; the output
// that it completes is stored. The outputs around, whose windows need care, are computed one by one.

constexpr int kRows = 720;  // of one plane of the image
constexpr int kColumns = 1281;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 1281;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 11;
constexpr int kFilterColumns = 11;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 1281;
constexpr int kBeforeRows = 5;  // of a window, above its output pixel
constexpr int kBeforeColumns = 5;  // and left of it

using Pixel = float;
using Result = float;

constexpr int kThreadColumns = 4;  // outputs a thread, across
constexpr int kThreadRows = 24;  // and down
constexpr int kUnroll = 1;  // input rows in one turn of the loop
constexpr int kInProgress = kFilterRows - 1 + kUnroll;  // output rows that a turn adds to
constexpr int kLoadVector = 1;  // elements in one load
constexpr int kStoreVector = 1;  // and in one store
constexpr int kLoads = 14;  // loads that cover a thread's part of a row
constexpr int kPixels = kLoads * kLoadVector;
constexpr int kBlockColumns = 64;  // threads across a block
constexpr int kBlockStrips = 1;  // and down
constexpr int kColumnBlocks = 5;  // blocks across the interior
constexpr int kStripBlocks = 30;  // and down
constexpr int kFrameBlocks = 345;  // blocks for the outputs around it, in all planes
constexpr int kFirstRow = 5;  // of the interior
constexpr int kInteriorRows = 710;
constexpr int kFirstColumn = 5;  // of the interior, in elements, where a row is not skewed
constexpr int kInteriorThreads = 317;  // across it

// Elements read left of a row's first tap so that loads are aligned.
__device__ constexpr int lead_of(int) { return 0; }

// Elements that a row of outputs is moved right so that stores are aligned.
__device__ constexpr int skew_of(int) { return 0; }

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

__constant__ Weights weights;

__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][r][s];
}

// One plane of the image, and one of its elements as float.
struct Plane {
    cudaTextureObject_t texture;
    int first;  // element of the plane in the texture
};

__device__ __forceinline__ Plane plane_of(cudaTextureObject_t image, int plane) {
    return {image, plane * (kRows * kPitch)};
}

__device__ __forceinline__ float load(const Plane& plane, int row, int element) {
    return tex1Dfetch<Pixel>(plane.texture, plane.first + row * kPitch + element);
}

// Where the border takes its pixel from: c b a | a b c d | d c b.
__device__ __forceinline__ int source_index(int i, int size) {
    i = i < 0 ? -1 - i : i;
    return i >= size ? 2 * size - 1 - i : i;
}

__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, source_index(row, kRows), source_index(element, kColumns));
}

constexpr int kRowOutputs = kOutputColumns * kChannels;
constexpr int kInteriorColumns = kInteriorThreads * kThreadColumns;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // of whole rows, above and below
constexpr int kFramePixels = 22040;  // of one plane

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

using Vector = float;
using StoreVector = float;
using Sums = float[kFilters][kInProgress][kThreadColumns];

__device__ __forceinline__ void unpack(float vector, float* pixels) {
    pixels[0] = vector;
}

__device__ __forceinline__ float pack(const float* sums) {
    return to_result(sums[0]);
}

// A thread's part of one row of the image, as it is stored.
struct Row {
    Vector vectors[kLoads];
};

// Through the texture, element by element; (row, element) is the first tap of the strip.
struct Rows {
    Plane plane;
    int row;
    int element;

    __device__ __forceinline__ Row read(int i, int) const {
        Row part;
#pragma unroll
        for (int n = 0; n < kLoads; ++n) {
            part.vectors[n] = load(plane, row + i, element + n);
        }
        return part;
    }
};

// Stores row j of a turn, for each filter; `target` is where an unskewed row of the first filter would be stored.
__device__ __forceinline__ void store_row(Result* __restrict__ target, const Sums& sums, int j) {
#pragma unroll
    for (int f = 0; f < kFilters; ++f) {
        StoreVector* vectors = reinterpret_cast<StoreVector*>(target + f * (kOutputRows * kResultPitch) + skew_of(j));
#pragma unroll
        for (int i = 0; i < kThreadColumns / kStoreVector; ++i) {
            vectors[i] = pack(sums[f][j] + i * kStoreVector);
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

// Adds row k of a turn to the outputs in progress, from the oldest to the newest: filter rows `first` to `last` - 1,
// since the others lie outside the strip.
__device__ __forceinline__ void add_row(Sums& sums, const Row& part, int k, int first, int last) {
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

// The window moves on by `rows`: what was in progress moves up, and new outputs start from nothing.
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

// Walks down a strip of `rows` output rows, of which `target` is the first.
__device__ __forceinline__ void slide(Rows source, Result* __restrict__ target, int rows) {
    constexpr int kLast = kFilterRows - 1;  // a window's last row completes it
    Sums sums = {};

    // The rows above the first complete window.
    // From threadIdx.z on, which is 0: from a constant on the compiler unrolls the loop, whatever the pragma says.
#pragma unroll 1
    for (int k = threadIdx.z; k < kLast; ++k) {
        add_row(sums, source.read(k, k), kLast, 0, k + 1);
        advance(sums, 1);
    }

    int done = 0;
#pragma unroll 1
    for (; done < rows; done += kUnroll) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            add_row(sums, source.read(kLast + done + u, kLast + u), kLast + u, 0, kFilterRows);
            store_row(target + (done + u) * kResultPitch, sums, u);
}
        advance(sums, kUnroll);
    }
}

extern "C" __global__ void __launch_bounds__(kBlockColumns * kBlockStrips)
filter2d_window(cudaTextureObject_t image, Result* __restrict__ result) {
    constexpr int kResultPlane = kFilters * kOutputRows * kResultPitch;
    // The frame is the slow part, pixel by pixel: it goes first, so that nobody waits for it at the end.
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
    const int rows = min(kThreadRows, kInteriorRows - inside);
    const int row = kFirstRow + inside;
    const int element = kFirstColumn + thread * kThreadColumns;
    Result* target = result + plane * kResultPlane + row * kResultPitch + element;
    slide({pixels, row - kBeforeRows, element - kBeforeColumns * kChannels}, target, rows);
}
