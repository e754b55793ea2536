// warpsmith filter1d_gradients_fft
// problem: filter1d signal=8192 taps=600 batch=64 mode=causal dtype=bfloat16 channels=768 filters=768
//          taps_dtype=bfloat16 pass=wgrad
// config:  min_blocks=3 prefetch=none radices=16x16x8 shares=1 twiddles=powers
//
// Gradients of 600 weights at a time, from tiles of 1440 outputs and samples beside them.
// Two tiles are the real and the imaginary part of a line. A thread block transforms the lines of its
// share, adds the products of their spectra in registers, and transforms the sum back. A second launch adds
// the shares.

constexpr int kSignal = 8192;  // samples of a row
constexpr int kOutputs = 8192;  // outputs of a row
constexpr int kFirstLag = -599;  // sample under tap 0 of the first output
constexpr int kTaps = 600;
constexpr unsigned kFilters = 768;
constexpr int kRows = 64;  // rows of a filter
constexpr unsigned kGroups = 1;  // groups of taps of a filter
constexpr int kLags = 600;  // taps of a group
constexpr int kShares = 1;  // thread blocks that share the lines of a group
constexpr int kThreads = 256;
constexpr int kPoints = 2048;  // of a line: the samples beside a tile
constexpr int kTile = 1440;  // outputs of a tile
constexpr int kTiles = 6;  // tiles of a row

using Sample = unsigned short;  // bfloat16 bits
using Gradient = unsigned short;  // bfloat16 bits
using Tap = unsigned short;  // bfloat16 bits

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
__device__ __forceinline__ void add_product(float2 a, float2 b, float2& sum) {
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.x = fmaf(-a.y, b.y, sum.x);
    sum.y = fmaf(a.x, b.y, sum.y);
    sum.y = fmaf(a.y, b.x, sum.y);
}

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

// exp(-2 pi i k q / 2048) for k = 1, 2, 4, 8, q = 0 to 127.
__device__ const float2 kTwiddles16x128[512] = {
{ 1.0f, 0.0f }, { 0.999995294f, -0.00306795676f }, { 0.999981175f, -0.00613588465f },
{ 0.999957645f, -0.00920375478f }, { 0.999924702f, -0.0122715383f }, { 0.999882347f, -0.0153392063f },
{ 0.999830582f, -0.0184067299f }, { 0.999769405f, -0.0214740803f }, { 0.999698819f, -0.0245412285f },
{ 0.999618822f, -0.0276081458f }, { 0.999529418f, -0.0306748032f }, { 0.999430605f, -0.0337411719f },
{ 0.999322385f, -0.0368072229f }, { 0.999204759f, -0.0398729276f }, { 0.999077728f, -0.0429382569f },
{ 0.998941293f, -0.0460031821f }, { 0.998795456f, -0.0490676743f }, { 0.998640218f, -0.0521317047f },
{ 0.998475581f, -0.0551952443f }, { 0.998301545f, -0.0582582645f }, { 0.998118113f, -0.0613207363f },
{ 0.997925286f, -0.0643826309f }, { 0.997723067f, -0.0674439196f }, { 0.997511456f, -0.0705045734f },
{ 0.997290457f, -0.0735645636f }, { 0.99706007f, -0.0766238614f }, { 0.996820299f, -0.079682438f },
{ 0.996571146f, -0.0827402645f }, { 0.996312612f, -0.0857973123f }, { 0.996044701f, -0.0888535526f },
{ 0.995767414f, -0.0919089565f }, { 0.995480755f, -0.0949634953f }, { 0.995184727f, -0.0980171403f },
{ 0.994879331f, -0.101069863f }, { 0.994564571f, -0.104121634f }, { 0.994240449f, -0.107172425f },
{ 0.99390697f, -0.110222207f }, { 0.993564136f, -0.113270952f }, { 0.993211949f, -0.116318631f },
{ 0.992850414f, -0.119365215f }, { 0.992479535f, -0.122410675f }, { 0.992099313f, -0.125454983f },
{ 0.991709754f, -0.128498111f }, { 0.99131086f, -0.131540029f }, { 0.990902635f, -0.134580709f },
{ 0.990485084f, -0.137620122f }, { 0.99005821f, -0.140658239f }, { 0.989622017f, -0.143695033f },
{ 0.98917651f, -0.146730474f }, { 0.988721692f, -0.149764535f }, { 0.988257568f, -0.152797185f },
{ 0.987784142f, -0.155828398f }, { 0.987301418f, -0.158858143f }, { 0.986809402f, -0.161886394f },
{ 0.986308097f, -0.16491312f }, { 0.985797509f, -0.167938295f }, { 0.985277642f, -0.170961889f },
{ 0.984748502f, -0.173983873f }, { 0.984210092f, -0.17700422f }, { 0.983662419f, -0.180022901f },
{ 0.983105487f, -0.183039888f }, { 0.982539302f, -0.186055152f }, { 0.981963869f, -0.189068664f },
{ 0.981379193f, -0.192080397f }, { 0.98078528f, -0.195090322f }, { 0.980182136f, -0.198098411f },
{ 0.979569766f, -0.201104635f }, { 0.978948175f, -0.204108966f }, { 0.978317371f, -0.207111376f },
{ 0.977677358f, -0.210111837f }, { 0.977028143f, -0.21311032f }, { 0.976369731f, -0.216106797f },
{ 0.97570213f, -0.21910124f }, { 0.975025345f, -0.222093621f }, { 0.974339383f, -0.225083911f },
{ 0.97364425f, -0.228072083f }, { 0.972939952f, -0.231058108f }, { 0.972226497f, -0.234041959f },
{ 0.971503891f, -0.237023606f }, { 0.970772141f, -0.240003022f }, { 0.970031253f, -0.24298018f },
{ 0.969281235f, -0.24595505f }, { 0.968522094f, -0.248927606f }, { 0.967753837f, -0.251897818f },
{ 0.966976471f, -0.25486566f }, { 0.966190003f, -0.257831102f }, { 0.965394442f, -0.260794118f },
{ 0.964589793f, -0.263754679f }, { 0.963776066f, -0.266712757f }, { 0.962953267f, -0.269668326f },
{ 0.962121404f, -0.272621355f }, { 0.961280486f, -0.275571819f }, { 0.960430519f, -0.278519689f },
{ 0.959571513f, -0.281464938f }, { 0.958703475f, -0.284407537f }, { 0.957826413f, -0.28734746f },
{ 0.956940336f, -0.290284677f }, { 0.956045251f, -0.293219163f }, { 0.955141168f, -0.296150888f },
{ 0.954228095f, -0.299079826f }, { 0.95330604f, -0.302005949f }, { 0.952375013f, -0.30492923f },
{ 0.951435021f, -0.30784964f }, { 0.950486074f, -0.310767153f }, { 0.949528181f, -0.31368174f },
{ 0.94856135f, -0.316593376f }, { 0.947585591f, -0.319502031f }, { 0.946600913f, -0.322407679f },
{ 0.945607325f, -0.325310292f }, { 0.944604837f, -0.328209844f }, { 0.943593458f, -0.331106306f },
{ 0.942573198f, -0.333999651f }, { 0.941544065f, -0.336889853f }, { 0.940506071f, -0.339776884f },
{ 0.939459224f, -0.342660717f }, { 0.938403534f, -0.345541325f }, { 0.937339012f, -0.34841868f },
{ 0.936265667f, -0.351292756f }, { 0.93518351f, -0.354163525f }, { 0.93409255f, -0.357030961f },
{ 0.932992799f, -0.359895037f }, { 0.931884266f, -0.362755724f }, { 0.930766961f, -0.365612998f },
{ 0.929640896f, -0.36846683f }, { 0.92850608f, -0.371317194f }, { 0.927362526f, -0.374164063f },
{ 0.926210242f, -0.37700741f }, { 0.925049241f, -0.379847209f }, { 1.0f, 0.0f },
{ 0.999981175f, -0.00613588465f }, { 0.999924702f, -0.0122715383f }, { 0.999830582f, -0.0184067299f },
{ 0.999698819f, -0.0245412285f }, { 0.999529418f, -0.0306748032f }, { 0.999322385f, -0.0368072229f },
{ 0.999077728f, -0.0429382569f }, { 0.998795456f, -0.0490676743f }, { 0.998475581f, -0.0551952443f },
{ 0.998118113f, -0.0613207363f }, { 0.997723067f, -0.0674439196f }, { 0.997290457f, -0.0735645636f },
{ 0.996820299f, -0.079682438f }, { 0.996312612f, -0.0857973123f }, { 0.995767414f, -0.0919089565f },
{ 0.995184727f, -0.0980171403f }, { 0.994564571f, -0.104121634f }, { 0.99390697f, -0.110222207f },
{ 0.993211949f, -0.116318631f }, { 0.992479535f, -0.122410675f }, { 0.991709754f, -0.128498111f },
{ 0.990902635f, -0.134580709f }, { 0.99005821f, -0.140658239f }, { 0.98917651f, -0.146730474f },
{ 0.988257568f, -0.152797185f }, { 0.987301418f, -0.158858143f }, { 0.986308097f, -0.16491312f },
{ 0.985277642f, -0.170961889f }, { 0.984210092f, -0.17700422f }, { 0.983105487f, -0.183039888f },
{ 0.981963869f, -0.189068664f }, { 0.98078528f, -0.195090322f }, { 0.979569766f, -0.201104635f },
{ 0.978317371f, -0.207111376f }, { 0.977028143f, -0.21311032f }, { 0.97570213f, -0.21910124f },
{ 0.974339383f, -0.225083911f }, { 0.972939952f, -0.231058108f }, { 0.971503891f, -0.237023606f },
{ 0.970031253f, -0.24298018f }, { 0.968522094f, -0.248927606f }, { 0.966976471f, -0.25486566f },
{ 0.965394442f, -0.260794118f }, { 0.963776066f, -0.266712757f }, { 0.962121404f, -0.272621355f },
{ 0.960430519f, -0.278519689f }, { 0.958703475f, -0.284407537f }, { 0.956940336f, -0.290284677f },
{ 0.955141168f, -0.296150888f }, { 0.95330604f, -0.302005949f }, { 0.951435021f, -0.30784964f },
{ 0.949528181f, -0.31368174f }, { 0.947585591f, -0.319502031f }, { 0.945607325f, -0.325310292f },
{ 0.943593458f, -0.331106306f }, { 0.941544065f, -0.336889853f }, { 0.939459224f, -0.342660717f },
{ 0.937339012f, -0.34841868f }, { 0.93518351f, -0.354163525f }, { 0.932992799f, -0.359895037f },
{ 0.930766961f, -0.365612998f }, { 0.92850608f, -0.371317194f }, { 0.926210242f, -0.37700741f },
{ 0.923879533f, -0.382683432f }, { 0.921514039f, -0.388345047f }, { 0.919113852f, -0.39399204f },
{ 0.91667906f, -0.3996242f }, { 0.914209756f, -0.405241314f }, { 0.911706032f, -0.410843171f },
{ 0.909167983f, -0.41642956f }, { 0.906595705f, -0.422000271f }, { 0.903989293f, -0.427555093f },
{ 0.901348847f, -0.433093819f }, { 0.898674466f, -0.438616239f }, { 0.89596625f, -0.444122145f },
{ 0.893224301f, -0.44961133f }, { 0.890448723f, -0.455083587f }, { 0.88763962f, -0.460538711f },
{ 0.884797098f, -0.465976496f }, { 0.881921264f, -0.471396737f }, { 0.879012226f, -0.47679923f },
{ 0.876070094f, -0.482183772f }, { 0.873094978f, -0.48755016f }, { 0.870086991f, -0.492898192f },
{ 0.867046246f, -0.498227667f }, { 0.863972856f, -0.503538384f }, { 0.860866939f, -0.508830143f },
{ 0.85772861f, -0.514102744f }, { 0.854557988f, -0.51935599f }, { 0.851355193f, -0.524589683f },
{ 0.848120345f, -0.529803625f }, { 0.844853565f, -0.53499762f }, { 0.841554977f, -0.540171473f },
{ 0.838224706f, -0.545324988f }, { 0.834862875f, -0.550457973f }, { 0.831469612f, -0.555570233f },
{ 0.828045045f, -0.560661576f }, { 0.824589303f, -0.565731811f }, { 0.821102515f, -0.570780746f },
{ 0.817584813f, -0.575808191f }, { 0.81403633f, -0.580813958f }, { 0.810457198f, -0.585797857f },
{ 0.806847554f, -0.590759702f }, { 0.803207531f, -0.595699304f }, { 0.799537269f, -0.600616479f },
{ 0.795836905f, -0.605511041f }, { 0.792106577f, -0.610382806f }, { 0.788346428f, -0.615231591f },
{ 0.784556597f, -0.620057212f }, { 0.780737229f, -0.624859488f }, { 0.776888466f, -0.629638239f },
{ 0.773010453f, -0.634393284f }, { 0.769103338f, -0.639124445f }, { 0.765167266f, -0.643831543f },
{ 0.761202385f, -0.648514401f }, { 0.757208847f, -0.653172843f }, { 0.753186799f, -0.657806693f },
{ 0.749136395f, -0.662415778f }, { 0.745057785f, -0.666999922f }, { 0.740951125f, -0.671558955f },
{ 0.736816569f, -0.676092704f }, { 0.732654272f, -0.680600998f }, { 0.72846439f, -0.685083668f },
{ 0.724247083f, -0.689540545f }, { 0.720002508f, -0.693971461f }, { 0.715730825f, -0.698376249f },
{ 0.711432196f, -0.702754744f }, { 1.0f, 0.0f }, { 0.999924702f, -0.0122715383f },
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
{ 0.724247083f, -0.689540545f }, { 0.715730825f, -0.698376249f }, { 0.707106781f, -0.707106781f },
{ 0.698376249f, -0.715730825f }, { 0.689540545f, -0.724247083f }, { 0.680600998f, -0.732654272f },
{ 0.671558955f, -0.740951125f }, { 0.662415778f, -0.749136395f }, { 0.653172843f, -0.757208847f },
{ 0.643831543f, -0.765167266f }, { 0.634393284f, -0.773010453f }, { 0.624859488f, -0.780737229f },
{ 0.615231591f, -0.788346428f }, { 0.605511041f, -0.795836905f }, { 0.595699304f, -0.803207531f },
{ 0.585797857f, -0.810457198f }, { 0.575808191f, -0.817584813f }, { 0.565731811f, -0.824589303f },
{ 0.555570233f, -0.831469612f }, { 0.545324988f, -0.838224706f }, { 0.53499762f, -0.844853565f },
{ 0.524589683f, -0.851355193f }, { 0.514102744f, -0.85772861f }, { 0.503538384f, -0.863972856f },
{ 0.492898192f, -0.870086991f }, { 0.482183772f, -0.876070094f }, { 0.471396737f, -0.881921264f },
{ 0.460538711f, -0.88763962f }, { 0.44961133f, -0.893224301f }, { 0.438616239f, -0.898674466f },
{ 0.427555093f, -0.903989293f }, { 0.41642956f, -0.909167983f }, { 0.405241314f, -0.914209756f },
{ 0.39399204f, -0.919113852f }, { 0.382683432f, -0.923879533f }, { 0.371317194f, -0.92850608f },
{ 0.359895037f, -0.932992799f }, { 0.34841868f, -0.937339012f }, { 0.336889853f, -0.941544065f },
{ 0.325310292f, -0.945607325f }, { 0.31368174f, -0.949528181f }, { 0.302005949f, -0.95330604f },
{ 0.290284677f, -0.956940336f }, { 0.278519689f, -0.960430519f }, { 0.266712757f, -0.963776066f },
{ 0.25486566f, -0.966976471f }, { 0.24298018f, -0.970031253f }, { 0.231058108f, -0.972939952f },
{ 0.21910124f, -0.97570213f }, { 0.207111376f, -0.978317371f }, { 0.195090322f, -0.98078528f },
{ 0.183039888f, -0.983105487f }, { 0.170961889f, -0.985277642f }, { 0.158858143f, -0.987301418f },
{ 0.146730474f, -0.98917651f }, { 0.134580709f, -0.990902635f }, { 0.122410675f, -0.992479535f },
{ 0.110222207f, -0.99390697f }, { 0.0980171403f, -0.995184727f }, { 0.0857973123f, -0.996312612f },
{ 0.0735645636f, -0.997290457f }, { 0.0613207363f, -0.998118113f }, { 0.0490676743f, -0.998795456f },
{ 0.0368072229f, -0.999322385f }, { 0.0245412285f, -0.999698819f }, { 0.0122715383f, -0.999924702f },
{ 1.0f, 0.0f }, { 0.999698819f, -0.0245412285f }, { 0.998795456f, -0.0490676743f },
{ 0.997290457f, -0.0735645636f }, { 0.995184727f, -0.0980171403f }, { 0.992479535f, -0.122410675f },
{ 0.98917651f, -0.146730474f }, { 0.985277642f, -0.170961889f }, { 0.98078528f, -0.195090322f },
{ 0.97570213f, -0.21910124f }, { 0.970031253f, -0.24298018f }, { 0.963776066f, -0.266712757f },
{ 0.956940336f, -0.290284677f }, { 0.949528181f, -0.31368174f }, { 0.941544065f, -0.336889853f },
{ 0.932992799f, -0.359895037f }, { 0.923879533f, -0.382683432f }, { 0.914209756f, -0.405241314f },
{ 0.903989293f, -0.427555093f }, { 0.893224301f, -0.44961133f }, { 0.881921264f, -0.471396737f },
{ 0.870086991f, -0.492898192f }, { 0.85772861f, -0.514102744f }, { 0.844853565f, -0.53499762f },
{ 0.831469612f, -0.555570233f }, { 0.817584813f, -0.575808191f }, { 0.803207531f, -0.595699304f },
{ 0.788346428f, -0.615231591f }, { 0.773010453f, -0.634393284f }, { 0.757208847f, -0.653172843f },
{ 0.740951125f, -0.671558955f }, { 0.724247083f, -0.689540545f }, { 0.707106781f, -0.707106781f },
{ 0.689540545f, -0.724247083f }, { 0.671558955f, -0.740951125f }, { 0.653172843f, -0.757208847f },
{ 0.634393284f, -0.773010453f }, { 0.615231591f, -0.788346428f }, { 0.595699304f, -0.803207531f },
{ 0.575808191f, -0.817584813f }, { 0.555570233f, -0.831469612f }, { 0.53499762f, -0.844853565f },
{ 0.514102744f, -0.85772861f }, { 0.492898192f, -0.870086991f }, { 0.471396737f, -0.881921264f },
{ 0.44961133f, -0.893224301f }, { 0.427555093f, -0.903989293f }, { 0.405241314f, -0.914209756f },
{ 0.382683432f, -0.923879533f }, { 0.359895037f, -0.932992799f }, { 0.336889853f, -0.941544065f },
{ 0.31368174f, -0.949528181f }, { 0.290284677f, -0.956940336f }, { 0.266712757f, -0.963776066f },
{ 0.24298018f, -0.970031253f }, { 0.21910124f, -0.97570213f }, { 0.195090322f, -0.98078528f },
{ 0.170961889f, -0.985277642f }, { 0.146730474f, -0.98917651f }, { 0.122410675f, -0.992479535f },
{ 0.0980171403f, -0.995184727f }, { 0.0735645636f, -0.997290457f }, { 0.0490676743f, -0.998795456f },
{ 0.0245412285f, -0.999698819f }, { 0.0f, -1.0f }, { -0.0245412285f, -0.999698819f },
{ -0.0490676743f, -0.998795456f }, { -0.0735645636f, -0.997290457f }, { -0.0980171403f, -0.995184727f },
{ -0.122410675f, -0.992479535f }, { -0.146730474f, -0.98917651f }, { -0.170961889f, -0.985277642f },
{ -0.195090322f, -0.98078528f }, { -0.21910124f, -0.97570213f }, { -0.24298018f, -0.970031253f },
{ -0.266712757f, -0.963776066f }, { -0.290284677f, -0.956940336f }, { -0.31368174f, -0.949528181f },
{ -0.336889853f, -0.941544065f }, { -0.359895037f, -0.932992799f }, { -0.382683432f, -0.923879533f },
{ -0.405241314f, -0.914209756f }, { -0.427555093f, -0.903989293f }, { -0.44961133f, -0.893224301f },
{ -0.471396737f, -0.881921264f }, { -0.492898192f, -0.870086991f }, { -0.514102744f, -0.85772861f },
{ -0.53499762f, -0.844853565f }, { -0.555570233f, -0.831469612f }, { -0.575808191f, -0.817584813f },
{ -0.595699304f, -0.803207531f }, { -0.615231591f, -0.788346428f }, { -0.634393284f, -0.773010453f },
{ -0.653172843f, -0.757208847f }, { -0.671558955f, -0.740951125f }, { -0.689540545f, -0.724247083f },
{ -0.707106781f, -0.707106781f }, { -0.724247083f, -0.689540545f }, { -0.740951125f, -0.671558955f },
{ -0.757208847f, -0.653172843f }, { -0.773010453f, -0.634393284f }, { -0.788346428f, -0.615231591f },
{ -0.803207531f, -0.595699304f }, { -0.817584813f, -0.575808191f }, { -0.831469612f, -0.555570233f },
{ -0.844853565f, -0.53499762f }, { -0.85772861f, -0.514102744f }, { -0.870086991f, -0.492898192f },
{ -0.881921264f, -0.471396737f }, { -0.893224301f, -0.44961133f }, { -0.903989293f, -0.427555093f },
{ -0.914209756f, -0.405241314f }, { -0.923879533f, -0.382683432f }, { -0.932992799f, -0.359895037f },
{ -0.941544065f, -0.336889853f }, { -0.949528181f, -0.31368174f }, { -0.956940336f, -0.290284677f },
{ -0.963776066f, -0.266712757f }, { -0.970031253f, -0.24298018f }, { -0.97570213f, -0.21910124f },
{ -0.98078528f, -0.195090322f }, { -0.985277642f, -0.170961889f }, { -0.98917651f, -0.146730474f },
{ -0.992479535f, -0.122410675f }, { -0.995184727f, -0.0980171403f }, { -0.997290457f, -0.0735645636f },
{ -0.998795456f, -0.0490676743f }, { -0.999698819f, -0.0245412285f },
};

// exp(-2 pi i k q / 128) for k = 1, 2, 4, 8, q = 0 to 7.
__device__ const float2 kTwiddles16x8[32] = {
{ 1.0f, 0.0f }, { 0.998795456f, -0.0490676743f }, { 0.995184727f, -0.0980171403f },
{ 0.98917651f, -0.146730474f }, { 0.98078528f, -0.195090322f }, { 0.970031253f, -0.24298018f },
{ 0.956940336f, -0.290284677f }, { 0.941544065f, -0.336889853f }, { 1.0f, 0.0f },
{ 0.995184727f, -0.0980171403f }, { 0.98078528f, -0.195090322f }, { 0.956940336f, -0.290284677f },
{ 0.923879533f, -0.382683432f }, { 0.881921264f, -0.471396737f }, { 0.831469612f, -0.555570233f },
{ 0.773010453f, -0.634393284f }, { 1.0f, 0.0f }, { 0.98078528f, -0.195090322f },
{ 0.923879533f, -0.382683432f }, { 0.831469612f, -0.555570233f }, { 0.707106781f, -0.707106781f },
{ 0.555570233f, -0.831469612f }, { 0.382683432f, -0.923879533f }, { 0.195090322f, -0.98078528f },
{ 1.0f, 0.0f }, { 0.923879533f, -0.382683432f }, { 0.707106781f, -0.707106781f },
{ 0.382683432f, -0.923879533f }, { 0.0f, -1.0f }, { -0.382683432f, -0.923879533f },
{ -0.707106781f, -0.707106781f }, { -0.923879533f, -0.382683432f },
};

constexpr float kScale = 0.00048828125f;  // undoes the factor of the forward and the inverse transform

// Number of a row of a filter among the channels of all signals.
__device__ __forceinline__ size_t place_of(int filter, int row) {
    return static_cast<size_t>(row) * 768 + filter;
}

// Place in shared memory where an item of the last pass begins.
__device__ __forceinline__ int last_place(int line, int item) {
    const int p = item;
    return line * 2063 + p % 16u * 129 + p / 16u * 8;
}

// Lines whose tiles a thread block multiplies. `first` is the sample under the group's first tap of the first output.
struct Share {
    int filter, first_tap;
    int first;
    int first_tile, tiles;  // tiles of each row that meet samples
    int begin, end;
};

__device__ __forceinline__ Share share_of(unsigned block) {
    const unsigned share = block % kShares;
    const int group = static_cast<int>(block / kShares % kGroups);
    const int first = kFirstLag + static_cast<int>(group) * kLags;
    // Tiles before `begin` and from `end` on meet no sample.
    constexpr int kReach = kLags + kTile - 1;
    const int begin = first + kReach > 0 ? 0 : static_cast<int>(-(first + kReach) / kTile) + 1;
    const int stop = first < kSignal ? (kSignal - first - 1) / kTile + 1 : 0;
    const int tiles = max(0, static_cast<int>(stop < kTiles ? stop : kTiles) - begin);
    const long long lines = (static_cast<long long>(kRows) * tiles + 1) / 2;
    return {static_cast<int>(block / kShares / kGroups), group * kLags, first, begin, tiles,
            static_cast<int>(lines * share / kShares), static_cast<int>(lines * (share + 1) / kShares)};
}

// A tile of outputs of a row and the samples beside it.
struct Tile {
    const Sample* samples;  // the one at place 0, which may lie outside of the signal
    const Gradient* outputs;
    int first;  // number of this sample in its row
    int count;  // outputs, 0 for a tile behind the last one
    bool is_inside;  // true if all samples are in the signal
};

__device__ __forceinline__ Tile tile_of(const Share& share, const Sample* signal, const Gradient* gradient,
                                        int number) {
    const int row = number / share.tiles, tile = share.first_tile + number % share.tiles;
    if (row >= kRows) {
        return {signal, gradient, kSignal, 0, false};
    }
    const size_t place = place_of(share.filter, row);
    const int start = static_cast<int>(tile) * kTile, first = share.first + start;
    return {signal + place * 8192 + first, gradient + place * 8192 + start, first,
            static_cast<int>(min(static_cast<int>(kTile), kOutputs - start)),
            first >= 0 && first + kPoints <= kSignal};
}

// Sample at a place of a tile; 0 outside of the signal.
__device__ __forceinline__ float sample_of(const Tile& tile, int place) {
    // Converted behind the condition: ptxas would keep a predicate for each load until its conversion, and wait.
    const bool is_inside = static_cast<unsigned>(tile.first + place) < kSignal;
    return to_number(is_inside ? __ldg(tile.samples + place) : Sample{});
}

// Output at a place of a tile; 0 behind its last one.
__device__ __forceinline__ float output_of(const Tile& tile, int place) {
    return to_gradient(place < tile.count ? __ldg(tile.outputs + place) : Gradient{});
}

// Sum of the tap at `lag` of a group over the tiles of a share, pair by pair: a transform spreads a NaN or an infinity
// over all taps, also those that do not meet it.
__device__ __noinline__ float sum_of_tap(const Sample* signal, const Gradient* gradient, int lag) {
    const Share share = share_of(blockIdx.x);
    constexpr int kChain = 256;  // terms added in sequence; longer sums are sums of such partial sums
    float sum = 0.0f;
    for (int number = 2 * share.begin; number < 2 * share.end; ++number) {
        const Tile tile = tile_of(share, signal, gradient, number);
        const int first = tile.first + lag;
        const int begin = static_cast<int>(max(static_cast<int>(0), -first));
        const int end = static_cast<int>(min(static_cast<int>(tile.count), kSignal - first));
        for (int start = begin; start < end; start += kChain) {
            float part = 0.0f;
            for (int t = start; t < min(start + kChain, end); ++t) {
                part = fmaf(to_gradient(__ldg(tile.outputs + t)), to_number(__ldg(tile.samples + (lag + t))), part);
            }
            sum += part;
        }
    }
    return sum;
}

// Sums of a group's taps over the lines of a share.
extern "C" __global__ void __launch_bounds__(kThreads, 3)
filter1d_gradients_fft(
    const Sample* __restrict__ signal,
    const Gradient* __restrict__ gradient,
    float* __restrict__ sums) {
    extern __shared__ __align__(16) float2 tile[];  // a line of samples and a line of outputs
    const Share share = share_of(blockIdx.x);
    float2 total[8];  // spectrum of the sums
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        total[k] = make_float2(0.0f, 0.0f);
    }
    // The loop counts down: with a known number of lines, counted up, ptxas keeps addresses of all lines and spills.
#pragma unroll 1
    for (int left = share.end - share.begin; left > 0; --left) {
        const int number = share.end - left;
        const Tile one = tile_of(share, signal, gradient, 2 * number);
        const Tile other = tile_of(share, signal, gradient, 2 * number + 1);
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < 256u; i += 256) {
            const int line = i / 128u, item = i % 128u;
            const int q = item;
            float2* const element = tile + line * 2063 + q;
            float2 v[16];
            if (line == 0) {
                if (one.is_inside && other.is_inside) {
#pragma unroll
                    for (int k = 0; k < 16; ++k) {
                        const int place = k * 128 + item;
                        v[k] = make_float2(to_number(__ldg(one.samples + place)),
                                           to_number(__ldg(other.samples + place)));
                    }
                } else {
#pragma unroll
                    for (int k = 0; k < 16; ++k) {
                        const int place = k * 128 + item;
                        v[k] = make_float2(sample_of(one, place), sample_of(other, place));
                    }
                }
            } else {
                if (one.count == kTile && other.count == kTile) {
#pragma unroll
                    for (int k = 0; k < 11; ++k) {
                        const int place = k * 128 + item;
                        v[k] = make_float2(to_gradient(__ldg(one.outputs + place)),
                                           to_gradient(__ldg(other.outputs + place)));
                    }
#pragma unroll
                    for (int k = 11; k < 12; ++k) {
                        const int place = k * 128 + item;
                        v[k] = make_float2(output_of(one, place),
                                           output_of(other, place));
                    }
                } else {
#pragma unroll
                    for (int k = 0; k < 12; ++k) {
                        const int place = k * 128 + item;
                        v[k] = make_float2(output_of(one, place),
                                           output_of(other, place));
                    }
                }
#pragma unroll
                for (int k = 12; k < 16; ++k) {
                    v[k] = make_float2(0.0f, 0.0f);
                }
            }
            dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
                v[15]);
            const float2 w1 = kTwiddles16x128[q];
            const float2 w2 = kTwiddles16x128[128 + q];
            const float2 w3 = times(w2, w1);
            const float2 w4 = kTwiddles16x128[256 + q];
            const float2 w5 = times(w4, w1);
            const float2 w6 = times(w4, w2);
            const float2 w7 = times(w4, w3);
            const float2 w8 = kTwiddles16x128[384 + q];
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
                element[k * 129] = v[k];
            }
        }
        __syncthreads();
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < 256u; i += 256) {
            const int line = i / 128u, item = i % 128u;
            const int p = spread<8>(item / 8u), q = item % 8u;
            float2* const element = tile + line * 2063 + p * 129 + q;
            float2 v[16];
#pragma unroll
            for (int k = 0; k < 16; ++k) {
                v[k] = element[k * 8];
            }
            dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14],
                v[15]);
            const float2 w1 = kTwiddles16x8[q];
            const float2 w2 = kTwiddles16x8[8 + q];
            const float2 w3 = times(w2, w1);
            const float2 w4 = kTwiddles16x8[16 + q];
            const float2 w5 = times(w4, w1);
            const float2 w6 = times(w4, w2);
            const float2 w7 = times(w4, w3);
            const float2 w8 = kTwiddles16x8[24 + q];
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
                element[k * 8] = v[k];
            }
        }
        __syncthreads();
        const float2* const element = tile + last_place(0, threadIdx.x);
        const float2* const factor = tile + last_place(1, threadIdx.x);
        float2 v[8], u[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 1];
            u[k] = factor[k * 1];
        }
        __syncthreads();  // the next lines take their place
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        dft8(u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7]);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            add_product(v[k], conjugate(u[k]), total[k]);
        }
    }
    // Real and imaginary parts are swapped from here on, so that the forward DFTs compute the inverse.
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        total[k] = swapped(total[k]);
    }
    dft8(total[0], total[1], total[2], total[3], total[4], total[5], total[6], total[7]);
    float2* const element = tile + last_place(0, threadIdx.x);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        element[k * 1] = total[k];
    }
    __syncthreads();
    const size_t row = static_cast<size_t>(blockIdx.x % kShares) * kFilters + share.filter;
    float* const own = sums + row * kTaps + share.first_tap;
    const int taps = min(kLags, kTaps - share.first_tap);
    bool is_finite = true;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 256) {
        const int line = i / 128u, item = i % 128u;
        const int p = spread<8>(item / 8u), q = item % 8u;
        float2* const element = tile + line * 2063 + p * 129 + q;
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = element[k * 8];
        }
        const float2 w1 = kTwiddles16x8[q];
        const float2 w2 = kTwiddles16x8[8 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles16x8[16 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles16x8[24 + q];
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
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            element[k * 8] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 128u; i += 256) {
        const int line = i / 128u, item = i % 128u;
        const int q = item;
        float2* const element = tile + line * 2063 + q;
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = element[k * 129];
        }
        const float2 w1 = kTwiddles16x128[q];
        const float2 w2 = kTwiddles16x128[128 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles16x128[256 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles16x128[384 + q];
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
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            const int lag = k * 128 + item;
            if (lag < taps) {
                own[lag] = kScale * v[k].y;
                is_finite = is_finite && fabsf(kScale * v[k].y) <= 3.402823466e38f;
            }
        }
    }
    if (__syncthreads_or(!is_finite)) {
        for (int lag = threadIdx.x; lag < taps; lag += kThreads) {
            own[lag] = sum_of_tap(signal, gradient, lag);
        }
    }
}

constexpr int kParts = 1;  // of each signal, and of each block along it
constexpr size_t kPartPitch = 460800;  // sums of a part: of each tap for each filter
constexpr unsigned kWeights = 460800;  // elements of their gradient
constexpr int kFoldThreads = 256;

__device__ __forceinline__ Tap to_tap(float value) { return float_to_bfloat(value); }

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

// Each thread adds up an element of a gradient: tap by tap of all filters.
extern "C" __global__ void __launch_bounds__(kFoldThreads)
filter1d_gradients_fft_fold(
    const float* __restrict__ sums,
    Tap* __restrict__ weights_gradient) {
    const unsigned element = blockIdx.x * kFoldThreads + threadIdx.x;
    const unsigned tap = element % 600, filter = element / 600;
    float sum = 0.0f;
    if (element < kWeights) {
        sum = add_up<1>(sums + element);
    }
    if (element < kWeights) {
        weights_gradient[filter * static_cast<size_t>(kTaps) + tap] = to_tap(sum);
    }
}

