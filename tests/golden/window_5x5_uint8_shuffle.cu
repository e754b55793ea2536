// warpsmith filter2d_window
// problem: filter2d image=4320x7680 filter=5x5 planes=1 dtype=uint8 border=valid
// config:  block_columns=64 block_strips=2 columns=8 load=cached load_vector=8 method=direct min_blocks=0 order=rows path=shuffle prefetch=1 rows=8 store=streaming store_vector=4 tail=whole unroll=4 weights=argument
//
// A window that slides down in registers. Each thread owns kThreadColumns adjacent elements and walks down
// kThreadRows output rows. Every input row is read once and added into the outputs in progress; the output
// that it completes is stored. The outputs around, whose windows need care, are computed one by one.

constexpr int kRows = 4320;  // of one plane of the image
constexpr int kColumns = 7680;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 7680;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 5;
constexpr int kFilterColumns = 5;
constexpr int kOutputRows = kRows - kFilterRows + 1;
constexpr int kOutputColumns = kColumns - kFilterColumns + 1;
constexpr int kResultPitch = 7676;
constexpr int kBeforeRows = 0;  // of a window, above its output pixel
constexpr int kBeforeColumns = 0;  // and left of it

using Pixel = unsigned char;
using Result = unsigned char;

constexpr int kThreadColumns = 8;  // outputs a thread, across
constexpr int kThreadRows = 8;  // and down
constexpr int kUnroll = 4;  // input rows in one turn of the loop
constexpr int kInProgress = kFilterRows - 1 + kUnroll;  // output rows that a turn adds to
constexpr int kPrefetch = 1;  // rows that are read ahead
constexpr int kLoadVector = 8;  // elements in one load
constexpr int kStoreVector = 4;  // and in one store
constexpr int kLoads = 2;  // loads that cover a thread's part of a row
constexpr int kPixels = kLoads * kLoadVector;
constexpr int kBlockColumns = 64;  // threads across a block
constexpr int kBlockStrips = 2;  // and down
constexpr int kColumnBlocks = 15;  // blocks across the interior
constexpr int kStripBlocks = 270;  // and down
constexpr int kFrameBlocks = 135;  // blocks for the outputs around it, in all planes
constexpr int kFirstRow = 0;  // of the interior
constexpr int kInteriorRows = 4316;
constexpr int kFirstColumn = 0;  // of the interior, in elements, where a row is not skewed
constexpr int kInteriorThreads = 959;  // across it

// Elements read left of a row's first tap so that loads are aligned.
__device__ constexpr int lead_of(int) { return 0; }

// Elements that a row of outputs is moved right so that stores are aligned.
__device__ constexpr int skew_of(int) { return 0; }

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

// No window reaches outside the image.
__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, row, element);
}

constexpr int kRowOutputs = kOutputColumns * kChannels;
constexpr int kInteriorColumns = kInteriorThreads * kThreadColumns;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // of whole rows, above and below
constexpr int kFramePixels = 17264;  // of one plane

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

using Vector = uint2;
using StoreVector = unsigned;
using Sums = float[kFilters][kInProgress][kThreadColumns];

// A byte below the exponent of 2^23 is that much more than 2^23: one permutation and one addition a pixel.
__device__ __forceinline__ float byte_to_float(unsigned word, int i) {
    return __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 + i)) - 8388608.0f;
}

__device__ __forceinline__ void unpack(uint2 vector, float* pixels) {
    pixels[0] = byte_to_float(vector.x, 0);
    pixels[1] = byte_to_float(vector.x, 1);
    pixels[2] = byte_to_float(vector.x, 2);
    pixels[3] = byte_to_float(vector.x, 3);
    pixels[4] = byte_to_float(vector.y, 0);
    pixels[5] = byte_to_float(vector.y, 1);
    pixels[6] = byte_to_float(vector.y, 2);
    pixels[7] = byte_to_float(vector.y, 3);
}

__device__ __forceinline__ unsigned pack_bytes(float a, float b, float c, float d) {
    const unsigned low = __byte_perm(rounded(a), rounded(b), 0x0040);
    return __byte_perm(low, __byte_perm(rounded(c), rounded(d), 0x0040), 0x5410);
}

__device__ __forceinline__ unsigned pack(const float* sums) {
    return pack_bytes(sums[0], sums[1], sums[2], sums[3]);
}

// A thread's part of one row of the image, as it is stored.
struct Row {
    Vector vectors[kLoads];
    Vector beyond;  // what lies right of the warp, in its first threads
};

constexpr int kNeighbours = kLoads - 1;  // threads to the right whose pixels a thread needs
constexpr int kWords = 3;  // of 4 bytes, of a row that a thread needs

// From global memory once a warp: one load a thread. The first threads also load what lies right of the warp.
struct Rows {
    const Pixel* __restrict__ first;  // tap of the strip
    bool lends;                       // whether the thread loads what lies right of the warp

    __device__ __forceinline__ Row read(int row, int k) const {
        const Vector* source = reinterpret_cast<const Vector*>(first + row * kPitch - lead_of(k));
        Row part;
        part.vectors[0] = __ldg(source);
        if (lends) {
            part.beyond = __ldg(source + 32);
        }
        return part;
    }
};

// The row with what the neighbours to the right have loaded.
__device__ __forceinline__ Row exchanged(Row part) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 1; i < kLoads; ++i) {
        if (i * 2 < kWords) {
            const auto lent = lane < i ? part.beyond.x : part.vectors[0].x;
            part.vectors[i].x = __shfl_sync(0xffffffff, lent, (lane + i) % 32);
        }
        if (i * 2 + 1 < kWords) {
            const auto lent = lane < i ? part.beyond.y : part.vectors[0].y;
            part.vectors[i].y = __shfl_sync(0xffffffff, lent, (lane + i) % 32);
        }
    }
    return part;
}

// Stores row j of a turn, for each filter; `target` is where an unskewed row of the first filter would be stored.
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

// Adds row k of a turn to the outputs in progress, from the oldest to the newest: filter rows `first` to `last` - 1,
// since the others lie outside the strip.
__device__ __forceinline__ void add_row(Sums& sums, const Row& part, const Weights& weights, int k, int first, int last) {
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
__device__ __forceinline__ void slide(Rows source, Result* __restrict__ target, const Weights& weights, int rows, bool active) {
    constexpr int kLast = kFilterRows - 1;  // a window's last row completes it
    Sums sums = {};
    Row ahead[kPrefetch + 1];
#pragma unroll
    for (int k = 0; k < kPrefetch; ++k) {
        ahead[k] = source.read(k, k);
    }

    // The rows above the first complete window.
#pragma unroll
    for (int k = 0; k < kLast; ++k) {
        ahead[(k + kPrefetch) % (kPrefetch + 1)] = source.read(k + kPrefetch, k + kPrefetch);
        add_row(sums, exchanged(ahead[(k) % (kPrefetch + 1)]), weights, k, 0, k + 1);
    }

    int done = 0;
#pragma unroll 1
    for (; done < rows; done += kUnroll) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (done + u + kPrefetch < rows) {
                ahead[(kLast + u + kPrefetch) % (kPrefetch + 1)] =
                    source.read(kLast + done + u + kPrefetch, kLast + u + kPrefetch);
            }
            add_row(sums, exchanged(ahead[(kLast + u) % (kPrefetch + 1)]), weights, kLast + u, 0, kFilterRows);
            if (active) {
                store_row(target + (done + u) * kResultPitch, sums, u);
            }
}
        advance(sums, kUnroll);
    }
}

extern "C" __global__ void __launch_bounds__(kBlockColumns * kBlockStrips)
filter2d_window(const Pixel* __restrict__ image, Result* __restrict__ result, const __grid_constant__ Weights weights) {
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
    const int lane = threadIdx.x % 32;  // a warp's threads lie side by side
    if (thread - lane >= kInteriorThreads || inside >= kInteriorRows) {
        return;
    }
    const int rows = min(kThreadRows, kInteriorRows - inside);
    const int row = kFirstRow + inside;
    const int element = kFirstColumn + thread * kThreadColumns;
    Result* target = result + plane * kResultPlane + row * kResultPitch + element;
    const Pixel* first = pixels.pixels + (row - kBeforeRows) * kPitch + element - kBeforeColumns * kChannels;
    const int working = min(32, kInteriorThreads - (thread - lane));
    const int vectors = (working - 1) * kThreadColumns / kLoadVector + kLoads;  // that they need of a row
    // Idle threads read what the last one that is needed reads.
    const int idle = max(0, lane - (vectors - 1));
    const Rows source{first - idle * kThreadColumns, lane < kNeighbours && 32 + lane < vectors};
    const Weights kept = weights;  // read once: a barrier would have them read again
    slide(source, target, kept, rows, lane < working);
}
