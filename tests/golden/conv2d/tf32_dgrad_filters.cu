// warpsmith conv2d_warpgroup_tf32
// problem: conv2d pass=dgrad input=32x64x56x56 weight=128x64x3x3 precision=tf32 stride=2x2 padding=1x1 layout=nhwc
//
// Packs the weights as float32 numbers, rounded to TF32 in the order in which the GEMM's mainloop reads them as B:
// [group][tile of N][channel block][tap][part][channel vector][column][channel].
// A channel vector is four channels that are summed over; each thread packs one.
constexpr int kThreads = 256;

constexpr int kSummed = 128;  // channels per group that a result sums over
constexpr int kN = 64;  // channels of the result per group
constexpr int kFilterColumns = 3;
constexpr int kTaps = 9;
constexpr int kGroupStride = 73728;  // elements of w
constexpr int kSummedStride = 576;  // strides of w, in elements
constexpr int kResultStride = 1;
constexpr int kRowStride = 192;
constexpr int kColumnStride = 64;
constexpr int kTileN = 64;  // channels of the result per tile
constexpr int kTilesN = 1;
constexpr int kVectors = 8;  // channel vectors (four channels) per channel block
constexpr int kBlocks = 4;  // channel blocks per group
constexpr int kParts = 1;
constexpr int kAllThreads = 18432;

#ifndef WARPSMITH_ON_HOST  // the host device runs one launch after the other
// Lets the next launch begin once all blocks of this one have begun.
__device__ __forceinline__ void let_next_launch_begin() { asm volatile("griddepcontrol.launch_dependents;"); }

// Waits until the launch before has ended and its results can be read.
__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#endif

// The nearest TF32 number: the upper 19 bits of a float. Tensor cores ignore the lower 13 bits.
__device__ __forceinline__ float rounded(float number) {
    const unsigned bits = __float_as_uint(number);
    return fabsf(number) < __uint_as_float(0x7f800000u) ? __uint_as_float(bits + 0x1000u) : number;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_tf32_pack_w(const float* __restrict__ w, float4* __restrict__ packed) {
    let_next_launch_begin();
    int thread = blockIdx.x * kThreads + threadIdx.x;
    if (thread >= kAllThreads) {
        return;
    }
    // Adjacent threads read adjacent weights: taps vary fastest, then the next inner dimension of w.
    const int tap = thread % kTaps;
    thread /= kTaps;
    const int column = thread % (kTilesN * kTileN);
    thread /= kTilesN * kTileN;
    const int vector = thread % (kBlocks * kVectors), group = thread / (kBlocks * kVectors);
    const int channel = 4 * vector;
    size_t tile = group * kTilesN + column / kTileN;
    tile = (tile * kBlocks + vector / kVectors) * kTaps + tap;
    float4* own = packed + (tile * (kParts * kVectors) + vector % kVectors) * kTileN + column % kTileN;
    const auto* source = w + group * kGroupStride + channel * kSummedStride + column * kResultStride +
                         tap / kFilterColumns * kRowStride + tap % kFilterColumns * kColumnStride;
    float numbers[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        numbers[i] = column < kN && channel + i < kSummed
                         ? rounded(source[i * kSummedStride])
                         : 0.0f;
    }
    *own = make_float4(numbers[0], numbers[1], numbers[2], numbers[3]);

}
