// warpsmith conv2d_cufft
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  basis=60x60 calls=strided function=cgemm threads=256 transposers=8
//
// Transposes a complex matrix. A block transposes one kTile x kTile tile through shared memory, so that both its loads
// and its stores are contiguous along rows.
constexpr long long kRows = 2048;
constexpr long long kColumns = 1860;
constexpr int kTile = 32;
constexpr int kTilesAcross = 59;
constexpr int kBlockRows = 8;  // rows of a tile that a block copies per iteration

extern "C" __global__ void __launch_bounds__(kTile * kBlockRows)
conv2d_cufft_transpose(const float2* __restrict__ from, float2* __restrict__ to) {
    __shared__ float2 tile[kTile][kTile + 1];  // one column of padding avoids bank conflicts of column reads
    const int across = threadIdx.x, down = threadIdx.y;
    const long long column = static_cast<long long>(blockIdx.x % kTilesAcross) * kTile;
    const long long row = static_cast<long long>(blockIdx.x / kTilesAcross) * kTile;
#pragma unroll
    for (int i = down; i < kTile; i += kBlockRows) {
        if (row + i < kRows && column + across < kColumns) {
            tile[i][across] = from[(row + i) * kColumns + column + across];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = down; i < kTile; i += kBlockRows) {
        if (column + i < kColumns && row + across < kRows) {
            to[(column + i) * kRows + row + across] = tile[across][i];
        }
    }
}
