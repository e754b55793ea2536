// Matrix products of a warp, as generated sources define them with PTX for a GPU.
#pragma once

// sums += a * b: mma.m16n8k16 with halves in and floats out. Which thread holds what: PTX manual, matrix fragments for
// mma.m16n8k16. Products and their sum are taken in double and rounded once.
inline void multiply_add(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    const int lane = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    for (int i = 0; i < 4; ++i) {
        double sum = static_cast<double>(sums[i]);
        for (int k = 0; k < 16; ++k) {
            const int holder = k % 8 / 2;  // of its four, the thread with these elements
            const unsigned left = __shfl_sync(0xffffffffu, a[i / 2 + k / 8 * 2], lane / 4 * 4 + holder);
            const unsigned right = __shfl_sync(0xffffffffu, b[k / 8], (lane % 4 * 2 + i % 2) * 4 + holder);
            const int shift = k % 2 * 16;
            sum += static_cast<double>(half_to_float(static_cast<unsigned short>(left >> shift))) *
                   static_cast<double>(half_to_float(static_cast<unsigned short>(right >> shift)));
        }
        sums[i] = static_cast<float>(sum);
    }
}

// `low` and `high`, clamped to a byte each, below the lower half of `above`: cvt.pack.sat.u8.
inline unsigned saturated_bytes(int low, int high, unsigned above) {
    const auto byte = [](int value) { return static_cast<unsigned>(value < 0 ? 0 : value > 255 ? 255 : value); };
    return above << 16 | byte(high) << 8 | byte(low);
}

// Stores the lowest byte of `bits`, past the caches on a GPU.
inline void store_byte_streaming(unsigned char* address, unsigned bits) {
    *address = static_cast<unsigned char>(bits);
}
