// warpsmith conv2d_pointwise
// problem: conv2d pass=wgrad input=24x64x56x56 weight=256x64x1x1 precision=ieee
//
// Adds up the parts of each weight's sum in a fixed order: adjacent threads have adjacent weights, and kGroups threads
// a
// weight's parts, each every kGroups-th one.
constexpr int kLanes = 32;
constexpr int kGroups = 8;
constexpr int kParts = 131;
constexpr int kWeights = 16384;

extern "C" __global__ void __launch_bounds__(kLanes * kGroups)
conv2d_pointwise_sum(const float* __restrict__ parts, float* __restrict__ dw) {
    __shared__ float sums[kGroups][kLanes];
    const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes, weight = blockIdx.x * kLanes + lane;
    float sum = 0.0f;
    if (weight < kWeights) {
#pragma unroll 16
        for (int part = group; part < kParts; part += kGroups) {
            sum += parts[static_cast<size_t>(part) * kWeights + weight];
        }
    }
    sums[group][lane] = sum;
    __syncthreads();
    if (group == 0 && weight < kWeights) {
#pragma unroll
        for (int other = 1; other < kGroups; ++other) {
            sum += sums[other][lane];
        }
        dw[weight] = sum;
    }
}
