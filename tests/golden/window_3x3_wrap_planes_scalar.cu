// warpsmith filter2d_window
// problem: filter2d image=333x517 filter=3x3 planes=3 dtype=float32 border=wrap
// config:  block_columns=64 block_strips=1 columns=1 load_vector=1 min_blocks=4 rows=12 store=plain store_vector=1 unroll=3 weights=argument
//
// A window that slides down in registers. Each thread owns kThreadColumns adjacent columns and walks down
// kThreadRows output rows. Every input row is read once, added into the outputs in progress, and the
// output that it completes is stored.

constexpr int kRows = 333;  // of one plane of the image
constexpr int kColumns = 517;
constexpr int kOutputRows = 333;
constexpr int kOutputColumns = 517;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kAnchorRow = 1;  // the tap that lies on the output pixel
constexpr int kAnchorColumn = 1;

constexpr int kThreadColumns = 1;  // outputs a thread, across
constexpr int kThreadRows = 12;  // and down
constexpr int kBlockColumns = 64;  // threads across a block
constexpr int kBlockStrips = 1;  // and down
constexpr int kColumnBlocks = 9;  // blocks across a plane
constexpr int kStripBlocks = 28;  // and down

// Where every pixel that a thread touches lies in the image: all its columns at once, no checks.
struct Interior {
    static constexpr int kWidth = kThreadColumns;
    static constexpr int kUnroll = 3;  // input rows in one turn of the loop
    static constexpr int kLead = 0;  // pixels left of the first tap, read to keep loads aligned
    static constexpr int kLoads = 3;  // float loads that cover a thread's part of a row
    static constexpr int kPixels = kLoads * 1;
};

// At the frame, with checks: column by column, so that a few slow threads do not set the registers of all.
struct Frame {
    static constexpr int kWidth = 1;
    static constexpr int kUnroll = 1;
    static constexpr int kLead = 0;
    static constexpr int kPixels = kFilterColumns;
};

struct Weights {
    float taps[kFilterRows][kFilterColumns];
};

__device__ __forceinline__ float tap(const Weights& weights, int r, int s) {
    return weights.taps[r][s];
}

// Where the border takes its pixel from: b c d | a b c d | a b c.
__device__ __forceinline__ int source_index(int i, int size) {
    i = i < 0 ? i + size : i;
    i = i >= size ? i - size : i;
    return min(max(i, 0), size - 1);
}

__device__ __forceinline__ float pixel_at(const float* __restrict__ plane, int row, int column) {
    return __ldg(plane + source_index(row, kRows) * kColumns + source_index(column, kColumns));
}

// Reads the pixels of a row that start at `column`.
__device__ __forceinline__ void load_row(Interior, float (&pixels)[Interior::kPixels],
                                         const float* __restrict__ plane, int row, int column) {
    const float* source = reinterpret_cast<const float*>(plane + row * kColumns + column);
#pragma unroll
    for (int i = 0; i < Interior::kLoads; ++i) {
        pixels[i] = __ldg(source + i);
    }
}

__device__ __forceinline__ void load_row(Frame, float (&pixels)[Frame::kPixels], const float* __restrict__ plane,
                                         int row, int column) {
#pragma unroll
    for (int i = 0; i < Frame::kPixels; ++i) {
        pixels[i] = pixel_at(plane, row, column + i);
    }
}

__device__ __forceinline__ void store_row(Interior, float* __restrict__ plane, const float (&sums)[Interior::kWidth],
                                          int row, int column) {
    float* target = plane + row * kOutputColumns + column;
#pragma unroll
    for (int c = 0; c < Interior::kWidth; c += 1) {
        const float done = sums[c];
        *reinterpret_cast<float*>(target + c) = done;
    }
}

__device__ __forceinline__ void store_row(Frame, float* __restrict__ plane, const float (&sums)[Frame::kWidth],
                                          int row, int column) {
    if (row < kOutputRows && column < kOutputColumns) {
        plane[row * kOutputColumns + column] = sums[0];
    }
}

// Adds one input row, weighted with row r of the filter, to one row of outputs in progress.
template <typename Part>
__device__ __forceinline__ void accumulate(float (&sums)[Part::kWidth], const float (&pixels)[Part::kPixels],
                                           const Weights& weights, int r) {
#pragma unroll
    for (int s = 0; s < kFilterColumns; ++s) {
        const float weight = tap(weights, r, s);
#pragma unroll
        for (int c = 0; c < Part::kWidth; ++c) {
            sums[c] = fmaf(weight, pixels[Part::kLead + c + s], sums[c]);
        }
    }
}

// sums[j] is the j-th output row in progress: its first input row is j rows behind the newest one read.
template <typename Part>
__device__ __forceinline__ void slide(const float* __restrict__ image, float* __restrict__ result,
                                      const Weights& weights, int row, int column) {
    constexpr int kInProgress = kFilterRows - 1 + Part::kUnroll;
    const int first_row = row - kAnchorRow;
    const int first_column = column - kAnchorColumn - Part::kLead;
    float sums[kInProgress][Part::kWidth] = {};

    // The rows above the first complete window.
#pragma unroll
    for (int i = 0; i < kFilterRows - 1; ++i) {
        float pixels[Part::kPixels];
        load_row(Part(), pixels, image, first_row + i, first_column);
#pragma unroll
        for (int r = 0; r <= i; ++r) {
            accumulate<Part>(sums[i - r], pixels, weights, r);
        }
    }

#pragma unroll 1
    for (int done = 0; done < kThreadRows; done += Part::kUnroll) {
#pragma unroll
        for (int u = 0; u < Part::kUnroll; ++u) {
            float pixels[Part::kPixels];
            load_row(Part(), pixels, image, first_row + kFilterRows - 1 + done + u, first_column);
#pragma unroll
            for (int r = 0; r < kFilterRows; ++r) {
                accumulate<Part>(sums[u + kFilterRows - 1 - r], pixels, weights, r);
            }
            store_row(Part(), result, sums[u], row + done + u, column);
        }
        // Turn the window: what was in progress moves up, and new outputs start from nothing.
#pragma unroll
        for (int j = 0; j < kInProgress; ++j) {
#pragma unroll
            for (int c = 0; c < Part::kWidth; ++c) {
                sums[j][c] = j + Part::kUnroll < kInProgress ? sums[j + Part::kUnroll][c] : 0.0f;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kBlockColumns * kBlockStrips, 4)
filter2d_window(const float* __restrict__ image, float* __restrict__ result, const __grid_constant__ Weights weights) {
    const int column_block = blockIdx.x % kColumnBlocks;
    // The bottom strip is the slow one, with bounds checks: it goes first, so that nobody waits for it at the end.
    const int strip_block = (blockIdx.x / kColumnBlocks + kStripBlocks - 1) % kStripBlocks;
    const int plane = blockIdx.x / (kColumnBlocks * kStripBlocks);
    const int column = (column_block * kBlockColumns + threadIdx.x) * kThreadColumns;
    const int row = (strip_block * kBlockStrips + threadIdx.y) * kThreadRows;
    if (column >= kOutputColumns || row >= kOutputRows) {
        return;
    }
    const float* source = image + plane * (kRows * kColumns);
    float* target = result + plane * (kOutputRows * kOutputColumns);

    const int top = row - kAnchorRow;
    const int left = column - kAnchorColumn - Interior::kLead;
    const bool interior = top >= 0 && top + kThreadRows + kFilterRows - 1 <= kRows &&
                          left >= 0 && left + Interior::kPixels <= kColumns &&
                          row + kThreadRows <= kOutputRows && column + kThreadColumns <= kOutputColumns;
    if (interior) {
        slide<Interior>(source, target, weights, row, column);
    } else {
#pragma unroll 1
        for (int c = 0; c < kThreadColumns; ++c) {
            slide<Frame>(source, target, weights, row, column + c);
        }
    }
}
