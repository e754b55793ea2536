// warpsmith conv2d_cufft
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  basis=60x60 calls=strided function=cgemm threads=256 transposers=8
//
// A matrix of complex numbers, transposed tile by tile through shared memory: rows are read and written whole.
constexpr long long kRows = 2048;
constexpr long long kColumns = 1860;
constexpr int kTile = 32;
constexpr int kTilesAcross = 59;
constexpr int kStep = 8;  // rows of a tile that the threads of a block copy at once

extern "C" __global__ void __launch_bounds__(kTile * kStep)
conv2d_cufft_transpose(const float2* __restrict__ from, float2* __restrict__ to) {
    __shared__ float2 tile[kTile][kTile + 1];  // a number more, so that a column lies in different banks
    const int across = threadIdx.x, down = threadIdx.y;
    const long long column = static_cast<long long>(blockIdx.x % kTilesAcross) * kTile;
    const long long row = static_cast<long long>(blockIdx.x / kTilesAcross) * kTile;
#pragma unroll
    for (int i = down; i < kTile; i += kStep) {
        if (row + i < kRows && column + across < kColumns) {
            tile[i][across] = from[(row + i) * kColumns + column + across];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = down; i < kTile; i += kStep) {
        if (column + i < kColumns && row + across < kRows) {
            to[(column + i) * kRows + row + across] = tile[across][i];
        }
    }
}
