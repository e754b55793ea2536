// warpsmith filter1d_fft
// problem: filter1d signal=1024 taps=1024 batch=64 mode=causal dtype=bfloat16 channels=768 filters=768
// config:  lines=1 min_blocks=0 packing=half radices=16x8x8 store=plain threads=64 twiddles=powers weights=global
//
// Overlap-discard: blocks of 2048 samples, 1024 outputs each.
// Two adjacent samples are one complex number, so that a line has half as many as a block.
// A thread block transforms 1 lines in shared memory, multiplies them by the filter's
// spectrum, transforms them back and stores the outputs. Decimation in frequency leaves an order that
// decimation in time undoes; the filter's spectrum is made by the same passes.

constexpr int kSignal = 1024;  // samples of a channel
constexpr int kSpan = 1024;  // outputs of a channel
constexpr int kFirstLag = -1023;  // sample under tap 0 of the first output's window
constexpr int kThreads = 64;
constexpr int kLines = 1;  // lines of a thread block
constexpr int kPoints = 1024;  // complex numbers of a line
constexpr int kLineStep = 1024;  // outputs of a line
constexpr int kChannels = 768;

using Sample = unsigned short;  // bfloat16 bits
using Result = unsigned short;  // bfloat16 bits
using Tap = float;
using Number = float;  // a sample, or a sum, in registers
using Weight = float;  // a tap in registers

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

__device__ __forceinline__ Number to_number(Sample bits) { return bfloat_to_float(bits); }
__device__ __forceinline__ Weight to_weight(Tap element) { return element; }
__device__ __forceinline__ Result to_result(Number sum) { return float_to_bfloat(sum); }

__device__ __forceinline__ Number zero() { return 0.0f; }
__device__ __forceinline__ void add(Number part, Number& sum) { sum += part; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum = fmaf(weight, sample, sum);
}

constexpr int kTaps = 1024;

struct Weights {
    const Tap* taps;  // [filters][kTaps]
};

__device__ __forceinline__ Weight tap(const Weights& weights, int f, int k) {
    return to_weight(__ldg(weights.taps + static_cast<size_t>(f) * kTaps + k));
}

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ float2 operator*(float s, float2 a) { return make_float2(s * a.x, s * a.y); }
__device__ __forceinline__ float2 times_i(float2 a) { return make_float2(-a.y, a.x); }  // i a
__device__ __forceinline__ float2 times_minus_i(float2 a) { return make_float2(a.y, -a.x); }  // -i a
__device__ __forceinline__ float2 conjugate(float2 a) { return make_float2(a.x, -a.y); }
__device__ __forceinline__ float2 times(float2 a, float re, float im) {
    return make_float2(a.x * re - a.y * im, a.x * im + a.y * re);
}
__device__ __forceinline__ float2 times(float2 a, float2 b) { return times(a, b.x, b.y); }

__device__ __forceinline__ float2 swapped(float2 a) { return make_float2(a.y, a.x); }

// In-register DFTs of one thread, in place and in natural order: argument k returns frequency k.
__device__ __forceinline__ void dft2(float2& x0, float2& x1) {
    const float2 sum = x0 + x1;
    x1 = x0 - x1;
    x0 = sum;
}
__device__ __forceinline__ void dft4(float2& x0, float2& x1, float2& x2, float2& x3) {
    const float2 even = x0 + x2, odd = x1 + x3, across = x0 - x2;
    const float2 rotated = times_minus_i(x1 - x3);
    x0 = even + odd;
    x2 = even - odd;
    x1 = across + rotated;
    x3 = across - rotated;
}
__device__ __forceinline__ void dft8(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7) {
    dft2(x0, x4);
    dft2(x1, x5);
    dft2(x2, x6);
    dft2(x3, x7);
    x5 = times(x5, 0.707106781f, -0.707106781f);
    x6 = times_minus_i(x6);
    x7 = times(x7, -0.707106781f, -0.707106781f);
    dft4(x0, x1, x2, x3);
    dft4(x4, x5, x6, x7);
    const float2 y4 = x4, y1 = x1, y5 = x5, y2 = x2, y6 = x6, y3 = x3;
    x1 = y4;
    x2 = y1;
    x3 = y5;
    x4 = y2;
    x5 = y6;
    x6 = y3;
}
__device__ __forceinline__ void dft16(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15) {
    dft4(x0, x4, x8, x12);
    dft4(x1, x5, x9, x13);
    dft4(x2, x6, x10, x14);
    dft4(x3, x7, x11, x15);
    x5 = times(x5, 0.923879533f, -0.382683432f);
    x6 = times(x6, 0.707106781f, -0.707106781f);
    x7 = times(x7, 0.382683432f, -0.923879533f);
    x9 = times(x9, 0.707106781f, -0.707106781f);
    x10 = times_minus_i(x10);
    x11 = times(x11, -0.707106781f, -0.707106781f);
    x13 = times(x13, 0.382683432f, -0.923879533f);
    x14 = times(x14, -0.707106781f, -0.707106781f);
    x15 = times(x15, -0.923879533f, 0.382683432f);
    dft4(x0, x1, x2, x3);
    dft4(x4, x5, x6, x7);
    dft4(x8, x9, x10, x11);
    dft4(x12, x13, x14, x15);
    const float2 y4 = x4, y8 = x8, y12 = x12, y1 = x1, y9 = x9, y13 = x13, y2 = x2, y6 = x6, y14 = x14, y3 =
        x3, y7 = x7, y11 = x11;
    x1 = y4;
    x2 = y8;
    x3 = y12;
    x4 = y1;
    x6 = y9;
    x7 = y13;
    x8 = y2;
    x9 = y6;
    x11 = y14;
    x12 = y3;
    x13 = y7;
    x14 = y11;
}

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// Earlier digits of the items of a pass, in an order in which half a warp has no two elements in one bank.
template <unsigned kLater> __device__ __forceinline__ int spread(unsigned number) {
    constexpr unsigned kGroup = 16 / kLater;
    return static_cast<int>(number % kGroup * kLater + number / kGroup % kLater + number / 16 * 16);
}

// exp(-2 pi i k q / 1024) for k = 1, 2, 4, 8, q = 0 to 63.
__device__ const float2 kTwiddles16x64[256] = {
{ 1.0f, 0.0f }, { 0.999981175f, -0.00613588465f }, { 0.999924702f, -0.0122715383f },
{ 0.999830582f, -0.0184067299f }, { 0.999698819f, -0.0245412285f }, { 0.999529418f, -0.0306748032f },
{ 0.999322385f, -0.0368072229f }, { 0.999077728f, -0.0429382569f }, { 0.998795456f, -0.0490676743f },
{ 0.998475581f, -0.0551952443f }, { 0.998118113f, -0.0613207363f }, { 0.997723067f, -0.0674439196f },
{ 0.997290457f, -0.0735645636f }, { 0.996820299f, -0.079682438f }, { 0.996312612f, -0.0857973123f },
{ 0.995767414f, -0.0919089565f }, { 0.995184727f, -0.0980171403f }, { 0.994564571f, -0.104121634f },
{ 0.99390697f, -0.110222207f }, { 0.993211949f, -0.116318631f }, { 0.992479535f, -0.122410675f },
{ 0.991709754f, -0.128498111f }, { 0.990902635f, -0.134580709f }, { 0.99005821f, -0.140658239f },
{ 0.98917651f, -0.146730474f }, { 0.988257568f, -0.152797185f }, { 0.987301418f, -0.158858143f },
{ 0.986308097f, -0.16491312f }, { 0.985277642f, -0.170961889f }, { 0.984210092f, -0.17700422f },
{ 0.983105487f, -0.183039888f }, { 0.981963869f, -0.189068664f }, { 0.98078528f, -0.195090322f },
{ 0.979569766f, -0.201104635f }, { 0.978317371f, -0.207111376f }, { 0.977028143f, -0.21311032f },
{ 0.97570213f, -0.21910124f }, { 0.974339383f, -0.225083911f }, { 0.972939952f, -0.231058108f },
{ 0.971503891f, -0.237023606f }, { 0.970031253f, -0.24298018f }, { 0.968522094f, -0.248927606f },
{ 0.966976471f, -0.25486566f }, { 0.965394442f, -0.260794118f }, { 0.963776066f, -0.266712757f },
{ 0.962121404f, -0.272621355f }, { 0.960430519f, -0.278519689f }, { 0.958703475f, -0.284407537f },
{ 0.956940336f, -0.290284677f }, { 0.955141168f, -0.296150888f }, { 0.95330604f, -0.302005949f },
{ 0.951435021f, -0.30784964f }, { 0.949528181f, -0.31368174f }, { 0.947585591f, -0.319502031f },
{ 0.945607325f, -0.325310292f }, { 0.943593458f, -0.331106306f }, { 0.941544065f, -0.336889853f },
{ 0.939459224f, -0.342660717f }, { 0.937339012f, -0.34841868f }, { 0.93518351f, -0.354163525f },
{ 0.932992799f, -0.359895037f }, { 0.930766961f, -0.365612998f }, { 0.92850608f, -0.371317194f },
{ 0.926210242f, -0.37700741f }, { 1.0f, 0.0f }, { 0.999924702f, -0.0122715383f },
{ 0.999698819f, -0.0245412285f }, { 0.999322385f, -0.0368072229f }, { 0.998795456f, -0.0490676743f },
{ 0.998118113f, -0.0613207363f }, { 0.997290457f, -0.0735645636f }, { 0.996312612f, -0.0857973123f },
{ 0.995184727f, -0.0980171403f }, { 0.99390697f, -0.110222207f }, { 0.992479535f, -0.122410675f },
{ 0.990902635f, -0.134580709f }, { 0.98917651f, -0.146730474f }, { 0.987301418f, -0.158858143f },
{ 0.985277642f, -0.170961889f }, { 0.983105487f, -0.183039888f }, { 0.98078528f, -0.195090322f },
{ 0.978317371f, -0.207111376f }, { 0.97570213f, -0.21910124f }, { 0.972939952f, -0.231058108f },
{ 0.970031253f, -0.24298018f }, { 0.966976471f, -0.25486566f }, { 0.963776066f, -0.266712757f },
{ 0.960430519f, -0.278519689f }, { 0.956940336f, -0.290284677f }, { 0.95330604f, -0.302005949f },
{ 0.949528181f, -0.31368174f }, { 0.945607325f, -0.325310292f }, { 0.941544065f, -0.336889853f },
{ 0.937339012f, -0.34841868f }, { 0.932992799f, -0.359895037f }, { 0.92850608f, -0.371317194f },
{ 0.923879533f, -0.382683432f }, { 0.919113852f, -0.39399204f }, { 0.914209756f, -0.405241314f },
{ 0.909167983f, -0.41642956f }, { 0.903989293f, -0.427555093f }, { 0.898674466f, -0.438616239f },
{ 0.893224301f, -0.44961133f }, { 0.88763962f, -0.460538711f }, { 0.881921264f, -0.471396737f },
{ 0.876070094f, -0.482183772f }, { 0.870086991f, -0.492898192f }, { 0.863972856f, -0.503538384f },
{ 0.85772861f, -0.514102744f }, { 0.851355193f, -0.524589683f }, { 0.844853565f, -0.53499762f },
{ 0.838224706f, -0.545324988f }, { 0.831469612f, -0.555570233f }, { 0.824589303f, -0.565731811f },
{ 0.817584813f, -0.575808191f }, { 0.810457198f, -0.585797857f }, { 0.803207531f, -0.595699304f },
{ 0.795836905f, -0.605511041f }, { 0.788346428f, -0.615231591f }, { 0.780737229f, -0.624859488f },
{ 0.773010453f, -0.634393284f }, { 0.765167266f, -0.643831543f }, { 0.757208847f, -0.653172843f },
{ 0.749136395f, -0.662415778f }, { 0.740951125f, -0.671558955f }, { 0.732654272f, -0.680600998f },
{ 0.724247083f, -0.689540545f }, { 0.715730825f, -0.698376249f }, { 1.0f, 0.0f },
{ 0.999698819f, -0.0245412285f }, { 0.998795456f, -0.0490676743f }, { 0.997290457f, -0.0735645636f },
{ 0.995184727f, -0.0980171403f }, { 0.992479535f, -0.122410675f }, { 0.98917651f, -0.146730474f },
{ 0.985277642f, -0.170961889f }, { 0.98078528f, -0.195090322f }, { 0.97570213f, -0.21910124f },
{ 0.970031253f, -0.24298018f }, { 0.963776066f, -0.266712757f }, { 0.956940336f, -0.290284677f },
{ 0.949528181f, -0.31368174f }, { 0.941544065f, -0.336889853f }, { 0.932992799f, -0.359895037f },
{ 0.923879533f, -0.382683432f }, { 0.914209756f, -0.405241314f }, { 0.903989293f, -0.427555093f },
{ 0.893224301f, -0.44961133f }, { 0.881921264f, -0.471396737f }, { 0.870086991f, -0.492898192f },
{ 0.85772861f, -0.514102744f }, { 0.844853565f, -0.53499762f }, { 0.831469612f, -0.555570233f },
{ 0.817584813f, -0.575808191f }, { 0.803207531f, -0.595699304f }, { 0.788346428f, -0.615231591f },
{ 0.773010453f, -0.634393284f }, { 0.757208847f, -0.653172843f }, { 0.740951125f, -0.671558955f },
{ 0.724247083f, -0.689540545f }, { 0.707106781f, -0.707106781f }, { 0.689540545f, -0.724247083f },
{ 0.671558955f, -0.740951125f }, { 0.653172843f, -0.757208847f }, { 0.634393284f, -0.773010453f },
{ 0.615231591f, -0.788346428f }, { 0.595699304f, -0.803207531f }, { 0.575808191f, -0.817584813f },
{ 0.555570233f, -0.831469612f }, { 0.53499762f, -0.844853565f }, { 0.514102744f, -0.85772861f },
{ 0.492898192f, -0.870086991f }, { 0.471396737f, -0.881921264f }, { 0.44961133f, -0.893224301f },
{ 0.427555093f, -0.903989293f }, { 0.405241314f, -0.914209756f }, { 0.382683432f, -0.923879533f },
{ 0.359895037f, -0.932992799f }, { 0.336889853f, -0.941544065f }, { 0.31368174f, -0.949528181f },
{ 0.290284677f, -0.956940336f }, { 0.266712757f, -0.963776066f }, { 0.24298018f, -0.970031253f },
{ 0.21910124f, -0.97570213f }, { 0.195090322f, -0.98078528f }, { 0.170961889f, -0.985277642f },
{ 0.146730474f, -0.98917651f }, { 0.122410675f, -0.992479535f }, { 0.0980171403f, -0.995184727f },
{ 0.0735645636f, -0.997290457f }, { 0.0490676743f, -0.998795456f }, { 0.0245412285f, -0.999698819f },
{ 1.0f, 0.0f }, { 0.998795456f, -0.0490676743f }, { 0.995184727f, -0.0980171403f },
{ 0.98917651f, -0.146730474f }, { 0.98078528f, -0.195090322f }, { 0.970031253f, -0.24298018f },
{ 0.956940336f, -0.290284677f }, { 0.941544065f, -0.336889853f }, { 0.923879533f, -0.382683432f },
{ 0.903989293f, -0.427555093f }, { 0.881921264f, -0.471396737f }, { 0.85772861f, -0.514102744f },
{ 0.831469612f, -0.555570233f }, { 0.803207531f, -0.595699304f }, { 0.773010453f, -0.634393284f },
{ 0.740951125f, -0.671558955f }, { 0.707106781f, -0.707106781f }, { 0.671558955f, -0.740951125f },
{ 0.634393284f, -0.773010453f }, { 0.595699304f, -0.803207531f }, { 0.555570233f, -0.831469612f },
{ 0.514102744f, -0.85772861f }, { 0.471396737f, -0.881921264f }, { 0.427555093f, -0.903989293f },
{ 0.382683432f, -0.923879533f }, { 0.336889853f, -0.941544065f }, { 0.290284677f, -0.956940336f },
{ 0.24298018f, -0.970031253f }, { 0.195090322f, -0.98078528f }, { 0.146730474f, -0.98917651f },
{ 0.0980171403f, -0.995184727f }, { 0.0490676743f, -0.998795456f }, { 0.0f, -1.0f },
{ -0.0490676743f, -0.998795456f }, { -0.0980171403f, -0.995184727f }, { -0.146730474f, -0.98917651f },
{ -0.195090322f, -0.98078528f }, { -0.24298018f, -0.970031253f }, { -0.290284677f, -0.956940336f },
{ -0.336889853f, -0.941544065f }, { -0.382683432f, -0.923879533f }, { -0.427555093f, -0.903989293f },
{ -0.471396737f, -0.881921264f }, { -0.514102744f, -0.85772861f }, { -0.555570233f, -0.831469612f },
{ -0.595699304f, -0.803207531f }, { -0.634393284f, -0.773010453f }, { -0.671558955f, -0.740951125f },
{ -0.707106781f, -0.707106781f }, { -0.740951125f, -0.671558955f }, { -0.773010453f, -0.634393284f },
{ -0.803207531f, -0.595699304f }, { -0.831469612f, -0.555570233f }, { -0.85772861f, -0.514102744f },
{ -0.881921264f, -0.471396737f }, { -0.903989293f, -0.427555093f }, { -0.923879533f, -0.382683432f },
{ -0.941544065f, -0.336889853f }, { -0.956940336f, -0.290284677f }, { -0.970031253f, -0.24298018f },
{ -0.98078528f, -0.195090322f }, { -0.98917651f, -0.146730474f }, { -0.995184727f, -0.0980171403f },
{ -0.998795456f, -0.0490676743f },
};

// exp(-2 pi i k q / 64) for k = 1, 2, 4, q = 0 to 7.
__device__ const float2 kTwiddles8x8[24] = {
{ 1.0f, 0.0f }, { 0.995184727f, -0.0980171403f }, { 0.98078528f, -0.195090322f },
{ 0.956940336f, -0.290284677f }, { 0.923879533f, -0.382683432f }, { 0.881921264f, -0.471396737f },
{ 0.831469612f, -0.555570233f }, { 0.773010453f, -0.634393284f }, { 1.0f, 0.0f },
{ 0.98078528f, -0.195090322f }, { 0.923879533f, -0.382683432f }, { 0.831469612f, -0.555570233f },
{ 0.707106781f, -0.707106781f }, { 0.555570233f, -0.831469612f }, { 0.382683432f, -0.923879533f },
{ 0.195090322f, -0.98078528f }, { 1.0f, 0.0f }, { 0.923879533f, -0.382683432f },
{ 0.707106781f, -0.707106781f }, { 0.382683432f, -0.923879533f }, { 0.0f, -1.0f },
{ -0.382683432f, -0.923879533f }, { -0.707106781f, -0.707106781f }, { -0.923879533f, -0.382683432f },
};

// A line of this thread block: a block of a channel's outputs.
struct Line {
    const Sample* samples;  // of the channel
    Result* results;  // of the channel
    int output;  // first output
    int channel;
};

__device__ __forceinline__ Line line_of(const Sample* signal, Result* result, int line) {
    const unsigned number = blockIdx.x;
    const size_t row = number;
    return {signal + row * 1024, result + row * 1024,
            0, static_cast<int>(row % kChannels)};
}

// Sample `at` of a channel; 0 outside of it.
__device__ __forceinline__ Number sample_at(const Sample* samples, int at) {
    // Converted behind the condition: ptxas would keep a predicate for each load until its conversion, and wait.
    const bool is_inside = static_cast<unsigned>(at) < kSignal;
    return to_number(is_inside ? __ldg(samples + at) : Sample{});
}

using Pair = unsigned;  // bits of two adjacent samples

__device__ __forceinline__ float2 to_pair(Pair bits) {
    return make_float2(to_number(static_cast<Sample>(bits & 0xffffu)), to_number(static_cast<Sample>(bits >> 16)));
}

// Stores output `at` of a channel. `check` is NaN once an output is not finite.
__device__ __forceinline__ void store(
    const Line& own, int at, Number sum, float& check) {
    check = fmaf(0.0f, sum, check);
    *(own.results + at) = to_result(sum);
}

// Stores outputs `at`, which is even, and `at` + 1.
__device__ __forceinline__ void store_pair(
    const Line& own, int at, float sum, float next, float& check) {
    check = fmaf(0.0f, sum, fmaf(0.0f, next, check));
    const unsigned both = to_result(sum) | static_cast<unsigned>(to_result(next)) << 16;
    *reinterpret_cast<unsigned*>(own.results + at) = both;
}

// True if a stored output is finite, and thus unaffected by samples outside its window.
__device__ __forceinline__ bool is_settled(Result stored) {
    return (stored & 0x7f80) != 0x7f80;
}

// Sum of the window at sample `lag` by its taps alone.
__device__ __forceinline__ Number sum_of_window(const Sample* samples, const Weights& weights, int f, int lag) {
    const int first = lag < 0 ? static_cast<int>(-lag) : 0;
    const int end = kSignal - lag < kTaps ? static_cast<int>(kSignal - lag) : kTaps;
    Number sum = zero();
    constexpr int kChain = 256;  // taps added in sequence; longer sums are sums of such partial sums
    for (int start = first; start < end; start += kChain) {
        Number part = zero();
        for (int k = start; k < min(start + kChain, end); ++k) {
            multiply_add(tap(weights, f, k), sample_at(samples, lag + k), part);
        }
        add(part, sum);
    }
    return sum;
}

// Recomputes the outputs of this thread block that are not finite: a NaN or an infinity spreads over its whole line.
__device__ __forceinline__ void repair(
    const Sample* signal, Result* result, const Weights weights) {
    for (int line = 0; line < kLines; ++line) {
        const Line own = line_of(signal, result, line);
        for (int n = threadIdx.x; n < kLineStep && own.output + n < kSpan; n += kThreads) {
            const int at = own.output + n;
            Result* const target = own.results + at;
            if (!is_settled(*target)) {
                const Number sum = sum_of_window(own.samples, weights, own.channel, kFirstLag + at);
                *target = to_result(sum);
            }
        }
    }
}

// exp(pi i angle).
__device__ __forceinline__ float2 exp_pi_i(float angle) {
    float2 root;
    sincospif(angle, &root.y, &root.x);
    return root;
}

// exp(-2 pi i k / 8) for k = 0 to 7.
__device__ const float2 kRoots[8] = {
{ 1.0f, 0.0f }, { 0.707106781f, -0.707106781f }, { 0.0f, -1.0f },
{ -0.707106781f, -0.707106781f }, { -1.0f, 0.0f }, { -0.707106781f, 0.707106781f },
{ 0.0f, 1.0f }, { 0.707106781f, 0.707106781f },
};

// Factors of frequencies k and -k from the transforms of the filter's taps there, and from `root`, exp(-2 pi i k /
// kPoints): A and B of k, and A of -k.
__device__ __forceinline__ void factors_of(
    float2 value, float2 partner, float2 root, float2& a, float2& b, float2& partner_a) {
    const float2 sum = 0.5f * (value + conjugate(partner)), difference = 0.25f * (value - conjugate(partner));
    const float2 turned = times(difference, root);
    a = 0.0009765625f * (sum + difference - turned);
    b = 0.0009765625f * (difference + turned);
    partner_a = 0.0009765625f * conjugate(sum - difference + turned);
}

// Filters frequencies k and -k, and swaps real and imaginary parts, so that the forward DFTs compute the inverse.
__device__ __forceinline__ void filter_both(float2& value, float2& partner, float2 a, float2 b, float2 partner_a) {
    const float2 first = times(a, value) + times(b, conjugate(partner));
    partner = swapped(times(partner_a, partner) - conjugate(times(b, value)));
    value = swapped(first);
}

// The same for a frequency that is its own partner.
__device__ __forceinline__ void filter_alone(float2& value, float2 a, float2 b) {
    value = swapped(times(a, value) + times(b, conjugate(value)));
}

// Place in shared memory where an item of the last pass begins.
__device__ __forceinline__ int last_place(int line, int item) {
    const int p = item;
    return line * 1039 + p % 16u * 65 + p / 16u * 8;
}

// Spectra of the filters, a line each, scaled, in the order in which the filtering kernel reads them.
// Copies the taps too, for outputs that are summed again: a plan with bound weights launches this once.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
filter1d_fft_spectrum(float2* __restrict__ spectra, const Weights weights, Tap* __restrict__ taps) {
    extern __shared__ __align__(16) float2 tile[];
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i / 64u, item = i % 64u;
        const int q = item;
        float2* const element = tile + line * 1039 + q;
        float2 v[16];
        const int f = min(static_cast<int>(blockIdx.x) * kLines + line, 767);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            const int place = k * 64 + item;
            v[k] = make_float2(0.0f, 0.0f);
            const int even = 2 * (kPoints - place) - 1, odd = 2 * (kPoints - place) - 2;
            if (even < kTaps) {
                v[k].x = tap(weights, f, even);
            }
            if (odd < kTaps) {
                v[k].y = tap(weights, f, odd);
            }
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
        const float2 w1 = kTwiddles16x64[q];
        const float2 w2 = kTwiddles16x64[64 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles16x64[128 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles16x64[192 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            element[k * 65] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 64) {
        const int line = i / 128u, item = i % 128u;
        const int p = spread<8>(item / 8u), q = item % 8u;
        float2* const element = tile + line * 1039 + p * 65 + q;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 8];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x8[q];
        const float2 w2 = kTwiddles8x8[8 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x8[16 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 8] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i / 64u, h = i % 64u;
        const int partner = h == 0 ? 64 : 128 - h;
        float2* const element = tile + last_place(line, h);
        float2* const partner_element = tile + last_place(line, partner);
        float2 u[8], v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            u[k] = element[k * 1];
            v[k] = partner_element[k * 1];
        }
        dft8(u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7]);
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const int f = static_cast<int>(blockIdx.x) * kLines + line;
        float2* const factors = spectra + static_cast<size_t>(f) * 2048;
        float2 a, b, partner_a;
        const float2 first_root = exp_pi_i(-2.0f / kPoints * static_cast<float>(h > 0 ? h : partner));
        if (h > 0) {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                factors_of(u[k], v[7 - k], times(first_root, kRoots[k]), a, b, partner_a);
                factors[k * 128 + h] = a;
                factors[kPoints + k * 128 + h] = b;
                factors[(7 - k) * 128 + partner] = partner_a;
            }
        } else {
#pragma unroll
            for (int k = 0; k <= 4; ++k) {
                factors_of(u[k], u[(8 - k) % 8], kRoots[k], a, b, partner_a);
                factors[(8 - k) % 8 * 128] = partner_a;
                factors[k * 128] = a;
                factors[kPoints + k * 128] = b;
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                factors_of(v[k], v[7 - k], times(first_root, kRoots[k]), a, b, partner_a);
                factors[k * 128 + partner] = a;
                factors[kPoints + k * 128 + partner] = b;
                factors[(7 - k) * 128 + partner] = partner_a;
            }
        }
    }
    const size_t all = static_cast<size_t>(gridDim.x) * kThreads;
    for (size_t i = blockIdx.x * static_cast<size_t>(kThreads) + threadIdx.x; i < 786432ull; i += all) {
        taps[i] = weights.taps[i];
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_fft(const Sample* __restrict__ signal, Result* __restrict__ result,
             const float2* __restrict__ spectra, const Weights weights) {
    extern __shared__ __align__(16) float2 tile[];
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i / 64u, item = i % 64u;
        const int q = item;
        float2* const element = tile + line * 1039 + q;
        float2 v[16];
        const Line own = line_of(signal, result, line);
        // A channel is one block, so that it is known which elements are samples.
        const Sample* const samples = own.samples;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = make_float2(0.0f, 0.0f);
        }
#pragma unroll
        for (int k = 8; k < 16; ++k) {
            const int place = 2 * (k * 64 + item) - 1024;
            v[k] = to_pair(__ldg(reinterpret_cast<const Pair*>(samples + place)));
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
        const float2 w1 = kTwiddles16x64[q];
        const float2 w2 = kTwiddles16x64[64 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles16x64[128 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles16x64[192 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            element[k * 65] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 64) {
        const int line = i / 128u, item = i % 128u;
        const int p = spread<8>(item / 8u), q = item % 8u;
        float2* const element = tile + line * 1039 + p * 65 + q;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 8];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x8[q];
        const float2 w2 = kTwiddles8x8[8 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x8[16 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 8] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i / 64u, h = i % 64u;
        const int partner = h == 0 ? 64 : 128 - h;
        float2* const element = tile + last_place(line, h);
        float2* const partner_element = tile + last_place(line, partner);
        float2 u[8], v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            u[k] = element[k * 1];
            v[k] = partner_element[k * 1];
        }
        dft8(u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7]);
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const int channel = line_of(signal, result, line).channel;
        const float2* const factors = spectra + static_cast<size_t>(channel) * 2048;
        if (h > 0) {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                filter_both(u[k], v[7 - k], __ldg(factors + (k * 128 + h)),
                            __ldg(factors + (kPoints + k * 128 + h)),
                            __ldg(factors + ((7 - k) * 128 + partner)));
            }
        } else {
            filter_alone(u[0], __ldg(factors), __ldg(factors + kPoints));
            filter_alone(u[4], __ldg(factors + 512), __ldg(factors + (kPoints + 512)));
#pragma unroll
            for (int k = 1; k < 4; ++k) {
                filter_both(u[k], u[8 - k], __ldg(factors + k * 128),
                            __ldg(factors + (kPoints + k * 128)), __ldg(factors + (8 - k) * 128));
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                filter_both(v[k], v[7 - k], __ldg(factors + (k * 128 + partner)),
                            __ldg(factors + (kPoints + k * 128 + partner)),
                            __ldg(factors + ((7 - k) * 128 + partner)));
            }
        }
        dft8(u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7]);
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);

#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 1] = u[k];
            partner_element[k * 1] = v[k];
        }
    }
    __syncthreads();
    float check = 0.0f;  // NaN once an output is not finite
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 64) {
        const int line = i / 128u, item = i % 128u;
        const int p = spread<8>(item / 8u), q = item % 8u;
        float2* const element = tile + line * 1039 + p * 65 + q;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 8];
        }
        const float2 w1 = kTwiddles8x8[q];
        const float2 w2 = kTwiddles8x8[8 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x8[16 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 8] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 64u; i += 64) {
        const int line = i / 64u, item = i % 64u;
        const int q = item;
        float2* const element = tile + line * 1039 + q;
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = element[k * 65];
        }
        const float2 w1 = kTwiddles16x64[q];
        const float2 w2 = kTwiddles16x64[64 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles16x64[128 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles16x64[192 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
            v[15]);
        const Line own = line_of(signal, result, line);
        if (own.output + kLineStep <= kSpan) {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                const int place = 2 * (k * 64 + item);
                store_pair(own, own.output + place, v[k].y, v[k].x, check);
            }
        } else {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                const int place = 2 * (k * 64 + item);
                if (own.output + place < kSpan) {
                    store(own, own.output + place, v[k].y, check);
                }
                if (own.output + (place + 1) < kSpan) {
                    store(own, own.output + (place + 1), v[k].x, check);
                }
            }
        }
    }
    if (__syncthreads_or(check != 0.0f)) {
        repair(signal, result, weights);
    }
}
