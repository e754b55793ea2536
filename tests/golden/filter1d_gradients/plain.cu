// warpsmith filter1d_gradients_plain
// problem: filter1d signal=8192 taps=4 batch=8 mode=causal dtype=bfloat16 channels=2048 filters=2048 bias=yes
//          activation=silu pass=backward
// config:  threads=256
//
// Gradients with one sum per thread or block; samples, taps and gradients are read from global memory where they are
// used. The baseline that a tuned kernel has to beat.

constexpr int kSignal = 8192;  // samples of a channel
constexpr int kOutputs = 8192;  // outputs of a channel
constexpr int kFirstLag = -3;  // sample under tap 0 of the first output
constexpr int kChannels = 2048;
constexpr int kTaps = 4;
constexpr int kThreads = 256;
constexpr int kTermsInSequence = 256;  // longer sums are sums of such partial sums

using Sample = unsigned short;  // bfloat16 bits
using Gradient = unsigned short;  // bfloat16 bits
using Tap = float;

// A bfloat16 is the upper half of a float.
__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// Rounds to nearest even; a NaN stays a NaN.
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return static_cast<unsigned short>(value != value ? 0x7fffu : rounded >> 16);
#endif
}

__device__ __forceinline__ float to_number(Sample bits) { return bfloat_to_float(bits); }

__device__ __forceinline__ float to_gradient(Gradient bits) { return bfloat_to_float(bits); }

__device__ __forceinline__ float to_weight(Tap bits) { return bits; }

__device__ __forceinline__ Sample to_sample(float value) { return float_to_bfloat(value); }

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
__device__ __forceinline__ float exp2_approximate(float value) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value));
    return power;
}

__device__ __forceinline__ float reciprocal_approximate(float value) {
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(value));
    return reciprocal;
}
#endif

constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

// Slope of SiLU at x: s + x * s * (1 - s), where s = 1 / (1 + exp(-x)). `exponent` is -x * log2(e), which is what
// exp(-x) is a power of 2 of: taps and bias are multiplied by -log2(e) once, and not each sum.
__device__ __forceinline__ float slope(float exponent) {
    const float s = reciprocal_approximate(1.0f + exp2_approximate(exponent));  // 0 if the power is infinite
    return s * fmaf(exponent, fmaf(kLn2, s, -kLn2), 1.0f);
}

// A time of a channel of a signal of the batch.
struct Place {
    int time;
    int channel;
    long long batch;

    // Place of element `index` of an array without gaps with so many times of a channel.
    __device__ __forceinline__ Place(unsigned index, int times) {
        time = index % times;
        channel = index / times % kChannels;
        batch = index / times / kChannels;
    }
};

__device__ __forceinline__ long long signal_offset(long long batch, int channel, int time) {
    return batch * 16777216ll + channel * 8192ll + time;
}

__device__ __forceinline__ long long gradient_offset(long long batch, int channel, int time) {
    return batch * 16777216ll + channel * 8192ll + time;
}

// Offset in the array of gradients times slopes, which has no gaps.
__device__ __forceinline__ long long sloped_offset(long long batch, int channel, int time) {
    return (batch * kChannels + channel) * kOutputs + time;
}

__device__ __forceinline__ float tap(const Tap* weights, int filter, int k) {
    return to_weight(__ldg(weights + static_cast<size_t>(filter) * kTaps + k));
}

// Each thread multiplies an element of the result's gradient by the activation's slope at that output.
extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_gradients_plain_slopes(
    const Sample* __restrict__ signal,
    const Tap* __restrict__ weights,
    const Tap* __restrict__ bias,
    const Gradient* __restrict__ gradient,
    float* __restrict__ sloped) {
    const unsigned index = blockIdx.x * kThreads + threadIdx.x;
    if (index >= 134217728ull) {
        return;
    }
    const Place place(index, kOutputs);
    const int filter = place.channel;
    const Sample* samples = signal + signal_offset(place.batch, place.channel, 0);
    const int lag = kFirstLag + place.time;
    const int first = max(-lag, static_cast<int>(0)), end = min(kSignal - lag, static_cast<int>(kTaps));
    float sum = 0.0f;
    for (int start = first; start < end; start += kTermsInSequence) {
        const int stop = min(start + kTermsInSequence, end);
        float part = 0.0f;
        for (int k = start; k < stop; ++k) {
            const float other = to_number(__ldg(samples + lag + k));
            part = fmaf(tap(weights, filter, static_cast<int>(k)), other, part);
        }
        sum += part;
    }
    sum += to_weight(__ldg(bias + place.channel));
    const float own = to_gradient(__ldg(gradient + gradient_offset(place.batch, place.channel, place.time)));
    sloped[index] = own * slope(-kLog2E * sum);
}

// Each thread computes the gradient of a sample: the sum over k of tap k times the gradient of output sample - lag - k.
extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_gradients_plain_signal(
    const float* __restrict__ sloped,
    const Tap* __restrict__ weights,
    Sample* __restrict__ signal_gradient) {
    const unsigned index = blockIdx.x * kThreads + threadIdx.x;
    if (index >= 134217728ull) {
        return;
    }
    const Place place(index, kSignal);
    const int filter = place.channel;
    const int output = place.time - kFirstLag;  // the one whose window begins at this sample
    const int first = max(output - (kOutputs - 1), static_cast<int>(0)), end = min(output + 1, static_cast<int>(kTaps));
    float sum = 0.0f;
    for (int start = first; start < end; start += kTermsInSequence) {
        const int stop = min(start + kTermsInSequence, end);
        float part = 0.0f;
        for (int k = start; k < stop; ++k) {
            const float other = sloped[sloped_offset(place.batch, place.channel, output - k)];
            part = fmaf(tap(weights, filter, static_cast<int>(k)), other, part);
        }
        sum += part;
    }
signal_gradient[signal_offset(place.batch, place.channel, place.time)] = to_sample(sum);
}

// Each block adds up gradients times samples for one tap of a channel, or gradients for its bias.
extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_gradients_plain_sums(
    const Sample* __restrict__ signal,
    const float* __restrict__ sloped,
    float* __restrict__ sums) {
    const int channel = blockIdx.x % kChannels;
    const int item = blockIdx.x / kChannels % 5;
    const long long part_number = blockIdx.x / kChannels / 5;
    const long long batch = part_number / 1;
    const int from = part_number % 1 * 65536ll;
    const int lag = kFirstLag + item;  // sample under this tap of output 0
    // Outputs whose sample is outside of the signal add nothing to a tap's sum.
    const bool is_bias = item == kTaps;
    const int first = is_bias ? from : max(from, -lag);
    const int end = min(min(kOutputs, from + 65536), is_bias ? kOutputs : kSignal - lag);
    float sum = 0.0f;
    for (int output = first + static_cast<int>(threadIdx.x); output < end; output += kThreads) {
        const float own = sloped[sloped_offset(batch, channel, output)];
        if (is_bias) {
            sum += own;
            continue;
        }
        sum = fmaf(own, to_number(__ldg(signal + signal_offset(batch, channel, lag + output))), sum);
    }
    __shared__ float tree[kThreads];
    tree[threadIdx.x] = sum;
    for (int half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            tree[threadIdx.x] += tree[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = tree[0];
    }
}

constexpr int kParts = 8;  // of each signal, and of each block along it
constexpr size_t kPartPitch = 10240;  // sums of a part: of each channel for each tap, then for the bias
constexpr unsigned kWeights = 8192;  // elements of their gradient
constexpr int kFoldThreads = 256;

__device__ __forceinline__ Tap to_tap(float value) { return value; }

// Adds up a sum of so many adjacent channels in each part.
template <int channels>
__device__ __forceinline__ float add_up(const float* sums) {
    float sum = 0.0f;
#pragma unroll 8
    for (int term = 0; term < channels * kParts; term += 1) {
        sum += __ldg(sums + term / channels * kPartPitch + term % channels);
    }
    return sum;
}

// Each thread adds up an element of a gradient: tap by tap of all filters, then the biases.
extern "C" __global__ void __launch_bounds__(kFoldThreads)
filter1d_gradients_plain_fold(
    const float* __restrict__ sums,
    Tap* __restrict__ weights_gradient,
    Tap* __restrict__ bias_gradient) {
    const unsigned element = blockIdx.x * kFoldThreads + threadIdx.x;
    const unsigned tap = element / 2048, filter = element % 2048;
    float sum = 0.0f;
    if (element < kWeights) {
        sum = add_up<1>(sums + tap * static_cast<size_t>(kChannels) + filter * 1);
    } else if (element < kWeights + kChannels) {
        sum = add_up<1>(sums + kTaps * static_cast<size_t>(kChannels) + (element - kWeights));
    }
    if (element < kWeights) {
        weights_gradient[filter * static_cast<size_t>(kTaps) + tap] = to_tap(sum);
    } else if (element < kWeights + kChannels) {
        bias_gradient[element - kWeights] = to_tap(sum);
    }
}
