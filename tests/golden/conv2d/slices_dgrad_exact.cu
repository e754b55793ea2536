// warpsmith conv2d_slices
// problem: conv2d pass=dgrad input=32x64x56x56 weight=128x64x3x3 precision=ieee stride=2x2 padding=1x1
//
// All results of images where the range of dy or w is too wide for three digits: a thread a result, in double precision, whose
// sum has the same order whatever the tile was. Else nothing.
constexpr int kThreads = 256;
constexpr int kBlocks = 1056;
constexpr int kGroups = 1;
constexpr int kSummed = 128;  // channels of a group that a result sums over
constexpr int kResults = 64;  // and channels of the result
constexpr int kRows = 56;  // of the result
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
constexpr int kRowPitch = 29;  // positions of an image, in rows
constexpr int kColumnPitch = 29;  // and of a row
constexpr int kPositions = 26912;  // of all images
constexpr int kPhases = 4;  // of the result, with taps of their own
constexpr int kPhaseColumns = 2;
constexpr int kPhaseRows = 2;

constexpr int kLines = kGroups * kResults * kPhases;
constexpr int kPositionBlocks = (kPositions + kThreads - 1) / kThreads;  // a thread each

// A tap: which row and column it reads for the first row and column of an image, and where its weight is.
struct Tap {
    int row, column;  // of dy
    int weight;  // elements of w
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
constexpr int kRowStep = 1;  // of dy, from row to row of a phase
constexpr int kColumnStep = 1;

struct Tile {
    int group, phase;
};

// Where a position's results are: that of the first channel.
__device__ __forceinline__ float* target_of(int position, const Tile& tile, float* dx) {
    const int image = position / (kRowPitch * kColumnPitch), place = position % (kRowPitch * kColumnPitch);
    const int row = place / kColumnPitch * kPhaseRows + tile.phase / kPhaseColumns;
    const int column = place % kColumnPitch * kPhaseColumns + tile.phase % kPhaseColumns;
    if (position >= kPositions || row >= kRows || column >= kColumns) {
        return nullptr;  // between images
    }
    const size_t first = (static_cast<size_t>(image) * kGroups + tile.group) * kResults;
    return dx + (first * kRows + row) * kColumns + column;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_slices_exact(const int* __restrict__ range, const float* __restrict__ dy, const float* __restrict__ w, float* __restrict__ dx) {
    constexpr int kImages = 32;
    const int* const is_wide = range + kImages + 1;
    int any = 0;
    for (int i = threadIdx.x; i < kImages; i += kThreads) {
        any |= is_wide[i];
    }
    if (__syncthreads_or(any) == 0) {
        return;
    }
    for (int i = blockIdx.x; i < kLines * kPositionBlocks; i += kBlocks) {
        const int position = i % kPositionBlocks * kThreads + threadIdx.x, line = i / kPositionBlocks;
        const int phase = line % kPhases, own = line / kPhases % kResults;
        Tile tile;
        tile.group = line / kPhases / kResults;
        tile.phase = phase;
        float* const target = target_of(position, tile, dx);
        if (target == nullptr || is_wide[position / (kRowPitch * kColumnPitch)] == 0) {
            continue;
        }
        const int image = position / (kRowPitch * kColumnPitch), place = position % (kRowPitch * kColumnPitch);
        const float* const pixels = dy + image * kImageStride + static_cast<size_t>(tile.group) * kSummed * kChannelStride;
        const float* const weights = w + tile.group * kGroupStride + own * kResultStride;
        double sum = 0.0;
        for (int t = kFirstTap[phase]; t < kFirstTap[phase + 1]; ++t) {
            const int row = place / kColumnPitch * kRowStep + kTap[t].row;
            const int column = place % kColumnPitch * kColumnStep + kTap[t].column;
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
