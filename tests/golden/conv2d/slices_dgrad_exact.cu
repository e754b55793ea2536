// warpsmith conv2d_slices
// problem: conv2d pass=dgrad input=32x64x56x56 weight=128x64x3x3 precision=ieee stride=2x2 padding=1x1
//
// Fallback of the Ozaki scheme: computes all results of the images where the range of dy or w is too wide for
// three int8 slices, one per thread, in double precision, in an order that does not depend on the config. Otherwise it
// does nothing.
constexpr int kThreads = 256;
constexpr int kBlocks = 1056;
constexpr int kGroups = 1;
constexpr int kSummed = 128;  // channels per group that a result sums over
constexpr int kN = 64;  // channels of the result per group
constexpr int kRows = 56;  // rows of the result
constexpr int kColumns = 56;
constexpr int kSourceRows = 28;
constexpr int kSourceColumns = 28;
constexpr size_t kImageStride = 100352;  // elements of dy
constexpr size_t kChannelStride = 784;
constexpr int kRowStride = 28;
constexpr int kColumnStride = 1;
constexpr int kGroupStride = 73728;  // elements of w
constexpr int kSummedStride = 576;
constexpr int kResultStride = 9;
constexpr int kFilterRowStride = 3;
constexpr int kFilterColumnStride = 1;
constexpr int kRowPitch = 29;  // rows per image, rows between images included
constexpr int kColumnPitch = 29;  // pixels per row, pixels between rows included
constexpr int kM = 26912;  // pixels of all images, those between images included
constexpr int kPhases = 4;  // phases of a strided gradient: results with the same taps
constexpr int kPhaseColumns = 2;
constexpr int kPhaseRows = 2;

constexpr int kPlanes = kGroups * kN * kPhases;
constexpr int kMBlocks = (kM + kThreads - 1) / kThreads;  // blocks along M, one row per thread

// A tap: the row and column that it reads for row and column 0 of its phase, and its weight.
struct Tap {
    int row, column;  // in dy
    int weight;  // offset in w, in elements
};
__constant__ Tap kTap[] = {
    {0, 0, 1 * kFilterRowStride + 1 * kFilterColumnStride},
    {0, 0, 1 * kFilterRowStride + 2 * kFilterColumnStride},
    {0, 1, 1 * kFilterRowStride + 0 * kFilterColumnStride},
    {0, 0, 2 * kFilterRowStride + 1 * kFilterColumnStride},
    {1, 0, 0 * kFilterRowStride + 1 * kFilterColumnStride},
    {0, 0, 2 * kFilterRowStride + 2 * kFilterColumnStride},
    {0, 1, 2 * kFilterRowStride + 0 * kFilterColumnStride},
    {1, 0, 0 * kFilterRowStride + 2 * kFilterColumnStride},
    {1, 1, 0 * kFilterRowStride + 0 * kFilterColumnStride},
};
__constant__ int kFirstTap[kPhases + 1] = {0, 1, 3, 5, 9};
constexpr int kRowStep = 1;  // rows of dy from row to row of a phase
constexpr int kColumnStep = 1;

struct Tile {
    int group, phase;
};

// Address of the result of row m, first channel of the tile's group; nullptr if m is no pixel of the result.
__device__ __forceinline__ float* target_of(int m, const Tile& tile,
                                              float* dx) {
    const int image = m / (kRowPitch * kColumnPitch), offset = m % (kRowPitch * kColumnPitch);
    const int row = offset / kColumnPitch * kPhaseRows + tile.phase / kPhaseColumns;
    const int column = offset % kColumnPitch * kPhaseColumns + tile.phase % kPhaseColumns;
    if (m >= kM || row >= kRows || column >= kColumns) {
        return nullptr;  // between rows or images
    }
    const size_t first = (static_cast<size_t>(image) * kGroups + tile.group) * kN;
    return dx + (first * kRows + row) * kColumns + column;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_slices_exact(const int* __restrict__ range, const float* __restrict__ dy,
                    const float* __restrict__ w, float* __restrict__ dx) {
    constexpr int kImages = 32;
    const int* const is_wide = range + kImages + 1;
    int any = 0;
    for (int i = threadIdx.x; i < kImages; i += kThreads) {
        any |= is_wide[i];
    }
    if (__syncthreads_or(any) == 0) {
        return;
    }
    for (int i = blockIdx.x; i < kPlanes * kMBlocks; i += kBlocks) {
        const int m = i % kMBlocks * kThreads + threadIdx.x, line = i / kMBlocks;
        const int phase = line % kPhases, own = line / kPhases % kN;
        Tile tile;
        tile.group = line / kPhases / kN;
        tile.phase = phase;
        float* const target = target_of(m, tile, dx);
        if (target == nullptr || is_wide[m / (kRowPitch * kColumnPitch)] == 0) {
            continue;
        }
        const int image = m / (kRowPitch * kColumnPitch), offset = m % (kRowPitch * kColumnPitch);
        const float* const pixels =
            dy + image * kImageStride + static_cast<size_t>(tile.group) * kSummed * kChannelStride;
        const float* const weights = w + tile.group * kGroupStride + own * kResultStride;
        double sum = 0.0;
        for (int t = kFirstTap[phase]; t < kFirstTap[phase + 1]; ++t) {
            const int row = offset / kColumnPitch * kRowStep + kTap[t].row;
            const int column = offset % kColumnPitch * kColumnStep + kTap[t].column;
            if (row < 0 || row >= kSourceRows || column < 0 || column >= kSourceColumns) {
                continue;
            }
#pragma unroll 4
            for (int c = 0; c < kSummed; ++c) {
                const float pixel = pixels[c * kChannelStride + row * kRowStride + column * kColumnStride];
                sum += static_cast<double>(pixel) * weights[c * kSummedStride + kTap[t].weight];
            }
        }
        const float total = static_cast<float>(sum);
        target[own * (kRows * kColumns)] = total;
    }
}
