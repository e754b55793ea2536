// Matrix products of a warp or a warpgroup, which generated sources define with PTX for a GPU.
#pragma once

// Rounds towards zero, as tensor cores round a sum.
inline float cut_off(double sum) {
    const float nearest = static_cast<float>(sum);
    const bool is_beyond = fabs(static_cast<double>(nearest)) > fabs(sum) && isfinite(sum);
    return is_beyond ? nextafterf(nearest, 0.0f) : nearest;
}

// sums += a * b: mma.m16n8k16 with 16-bit floats in and floats out. Distribution over threads: PTX manual, matrix
// fragments for mma.m16n8k16. Products and their sum are computed in double and truncated once.
template <float (*kToFloat)(unsigned short)>
void multiply_add_16_bits(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    const int lane = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    double rows[2][16], columns[2][16];
    const auto unpack = [](double *pair, unsigned word) {
        pair[0] = static_cast<double>(kToFloat(static_cast<unsigned short>(word)));
        pair[1] = static_cast<double>(kToFloat(static_cast<unsigned short>(word >> 16)));
    };
    for (int holder = 0; holder < 4; ++holder) {  // the thread of its four that holds two neighbouring terms
        for (int r = 0; r < 4; ++r) {
            unpack(rows[r % 2] + r / 2 * 8 + holder * 2, __shfl_sync(0xffffffffu, a[r], lane / 4 * 4 + holder));
            unpack(columns[r % 2] + r / 2 * 8 + holder * 2,
                   __shfl_sync(0xffffffffu, b[r / 2], (lane % 4 * 2 + r % 2) * 4 + holder));
        }
    }
    for (int i = 0; i < 4; ++i) {
        double sum = static_cast<double>(sums[i]);
        for (int k = 0; k < 16; ++k) {
            sum += rows[i / 2][k] * columns[i % 2][k];
        }
        sums[i] = cut_off(sum);
    }
}
inline void mma_f16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    multiply_add_16_bits<half_to_float>(sums, a, b);
}
// a * b + c with fp16 accumulators, two of them a word: the words are those of adjacent columns, of row lane / 4 and of
// row lane / 4 + 8.
inline void mma_f16_f16(unsigned &d0, unsigned &d1, const unsigned (&a)[4], unsigned b0, unsigned b1, unsigned c0,
                        unsigned c1) {
    const auto element = [](unsigned word, int place) {
        return half_to_float(static_cast<unsigned short>(word >> 16 * place));
    };
    float sums[4] = {element(c0, 0), element(c0, 1), element(c1, 0), element(c1, 1)};
    const unsigned b[2] = {b0, b1};
    multiply_add_16_bits<half_to_float>(sums, a, b);
    d0 = floats_to_half2(sums[0], sums[1]);
    d1 = floats_to_half2(sums[2], sums[3]);
}
// Subtracts 1024 from each of two fp16 values: sub.rn.f16x2.
inline unsigned subtract_1024(unsigned halves) {
    const auto less = [](unsigned half) -> unsigned {
        return float_to_half(half_to_float(static_cast<unsigned short>(half)) - 1024.0f);
    };
    return less(halves >> 16) << 16 | less(halves & 0xffff);
}
inline float bits_to_float(unsigned short bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
inline void mma_bf16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    multiply_add_16_bits<bits_to_float>(sums, a, b);
}

// sums += a * b: mma.m16n8k32 with signed bytes in and integers out. Distribution over threads: PTX manual, matrix
// fragments for mma.m16n8k32. The sanitizers report a sum beyond 32 bits.
inline void mma_s8(int (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    const int lane = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    signed char rows[2][32], columns[2][32];
    for (int holder = 0; holder < 4; ++holder) {  // the thread of its four that holds four neighbouring terms
        for (int r = 0; r < 4; ++r) {
            const int first = r / 2 * 16 + holder * 4;
            const unsigned row = __shfl_sync(0xffffffffu, a[r], lane / 4 * 4 + holder);
            const unsigned column = __shfl_sync(0xffffffffu, b[r / 2], (lane % 4 * 2 + r % 2) * 4 + holder);
            memcpy(rows[r % 2] + first, &row, sizeof row);
            memcpy(columns[r % 2] + first, &column, sizeof column);
        }
    }
    for (int i = 0; i < 4; ++i) {
        for (int k = 0; k < 32; ++k) {
            sums[i] += rows[i / 2][k] * columns[i % 2][k];
        }
    }
}

// ldmatrix: four matrices of 8x8 16-bit numbers; lane l has the address of row l % 8 of matrix l / 8.
using SharedAddress = const char *;
inline SharedAddress shared_address(const void *shared) { return static_cast<SharedAddress>(shared); }
inline void load_matrices_of_16_bits(SharedAddress row, bool turned, unsigned *const (&words)[4]) {
    if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
        ::warpsmith_host::stop("ldmatrix_x4: a row of a matrix begins at a multiple of 16 bytes");
    }
    const int lane = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    const auto address = static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(row));
    for (int matrix = 0; matrix < 4; ++matrix) {
        unsigned short pair[2];
        for (int i = 0; i < 2; ++i) {
            const int own_row = turned ? lane % 4 * 2 + i : lane / 4, column = turned ? lane / 4 : lane % 4 * 2 + i;
            const auto from = __shfl_sync(0xffffffffu, address, 8 * matrix + own_row);
            memcpy(&pair[i], reinterpret_cast<const char *>(static_cast<uintptr_t>(from)) + 2 * column, sizeof pair[i]);
        }
        *words[matrix] = static_cast<unsigned>(pair[1]) << 16 | pair[0];
    }
}
inline void ldmatrix_x4(SharedAddress row, unsigned &first, unsigned &second, unsigned &third, unsigned &fourth) {
    load_matrices_of_16_bits(row, false, {&first, &second, &third, &fourth});
}
inline void ldmatrix_x4_trans(SharedAddress row, unsigned &first, unsigned &second, unsigned &third,
                                 unsigned &fourth) {
    load_matrices_of_16_bits(row, true, {&first, &second, &third, &fourth});
}

// The part of a tf32 number that a tensor core reads: the upper 19 bits.
inline double tf32(float value) {
    return static_cast<double>(__uint_as_float(__float_as_uint(value) & 0xffffe000u));
}

// sums += a * b: mma.m16n8k8 with tf32 numbers in and floats out. Distribution over threads: PTX manual, matrix
// fragments for mma.m16n8k8. Products and their sum are computed in double and rounded once.
inline void mma_tf32(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    const int lane = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    double rows[2][8], columns[2][8];
    for (int k = 0; k < 8; ++k) {
        for (int i = 0; i < 2; ++i) {
            const int row_holder = lane / 4 * 4 + k % 4, column_holder = (lane % 4 * 2 + i) * 4 + k % 4;
            rows[i][k] = tf32(__uint_as_float(__shfl_sync(0xffffffffu, a[k / 4 * 2 + i], row_holder)));
            columns[i][k] = tf32(__uint_as_float(__shfl_sync(0xffffffffu, b[k / 4], column_holder)));
        }
    }
    for (int i = 0; i < 4; ++i) {
        double sum = static_cast<double>(sums[i]);
        for (int k = 0; k < 8; ++k) {
            sum += rows[i / 2][k] * columns[i % 2][k];
        }
        sums[i] = static_cast<float>(sum);
    }
}

// Packs `low` and `high`, clamped to a byte each, below the lower half of `above`: cvt.pack.sat.u8.
inline unsigned cvt_pack_sat_u8(int low, int high, unsigned above) {
    const auto byte = [](int value) { return static_cast<unsigned>(value < 0 ? 0 : value > 255 ? 255 : value); };
    return above << 16 | byte(high) << 8 | byte(low);
}

// Stores the lowest byte of `bits`; on a GPU the store bypasses the caches.
inline void st_cs_u8(unsigned char* address, unsigned bits) {
    *address = static_cast<unsigned char>(bits);
}

// Warpgroup matrix products, wgmma.m64nNk8 with tf32 inputs. They complete at once, which is one of the orders that PTX
// allows.
inline void wgmma_fence() {}
inline void wgmma_commit_group() {}
template <int kSums> void wgmma_wait_all(float (&)[kSums]) {}
template <int kSums, int kOperands> void wgmma_wait_all(float (&)[kSums], unsigned (&)[kOperands]) {}
template <int kSums, int kSteps> void wgmma_wait_all(float (&)[kSums], float (&)[kSteps][4]) {}
template <int kSteps> void wgmma_wait_but_last(float (&)[kSteps][4]) {}
template <int kGroups> void wgmma_wait_group() {}

// Matrix B in shared memory: core matrices of 8 columns by 4 elements; those of the first 4 elements come first.
using SmemDescriptorB = const float *;
inline SmemDescriptorB smem_descriptor_b(const float *first) { return first; }
inline SmemDescriptorB behind(SmemDescriptorB matrix, int elements) { return matrix + elements; }

// sums = a * b, or sums += a * b. Distribution over threads: PTX manual, matrix fragments for wgmma.m64nNk8. Each
// number is truncated to its upper 19 bits; products and their sum are computed in double and rounded once.
template <bool kAdd, int kSums> void multiply(float (&sums)[kSums], const float (&a)[4], SmemDescriptorB b) {
    const int lane = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    double rows[2][8];
    for (int k = 0; k < 8; ++k) {
        for (int i = 0; i < 2; ++i) {
            rows[i][k] = tf32(__shfl_sync(0xffffffffu, a[k / 4 * 2 + i], lane / 4 * 4 + k % 4));
        }
    }
    for (int n = 0; n < kSums; ++n) {
        const int column = n / 4 * 8 + lane % 4 * 2 + n % 2;
        double sum = kAdd ? static_cast<double>(sums[n]) : 0.0;
        for (int k = 0; k < 8; ++k) {
            sum += rows[n % 4 / 2][k] * tf32(b[k / 4 * (8 * kSums) + column * 4 + k % 4]);
        }
        sums[n] = static_cast<float>(sum);
    }
}

// An fp16 matrix in shared memory, as a wgmma.m64nNk16 descriptor addresses it. Without a swizzle it has core matrices
// of 8 x 8: `along` is their distance in bytes along K (the descriptor's leading offset), and `across` their distance
// along M or N (its stride offset). With the 128-byte swizzle it has lines of 64 terms, or, if it is transposed, lines
// of 64 rows or columns, and `across` is the distance in bytes to the next 64. The swizzle permutes the 16-byte chunks
// of a line by the line's address.
struct SmemDescriptor {
    const char *first;
    int along, across;
    bool is_swizzled = false;

    // Bits of one term (K) and one place: a row of A, or a column of B. `turned`: the matrix is transposed (MN-major),
    // so that neighbouring places, not terms, are adjacent.
    unsigned short at(int term, int place, bool turned) const {
        if (is_swizzled) {
            const int further = turned ? place / 64 * across + term * 128 + place % 64 * 2 : place * 128 + term * 2;
            const uintptr_t address = reinterpret_cast<uintptr_t>(first) + static_cast<uintptr_t>(further);
            unsigned short found;
            memcpy(&found, reinterpret_cast<const char *>(address ^ (address >> 7 & 7) << 4), sizeof found);
            return found;
        }
        const int row = turned ? term % 8 : place % 8, column = turned ? place % 8 : term % 8;
        unsigned short bits;
        memcpy(&bits, first + term / 8 * along + place / 8 * across + row * 16 + column * 2, sizeof bits);
        return bits;
    }
};
template <int kAlong, int kAcross> SmemDescriptor smem_descriptor(const void *first) {
    static_assert(kAlong % 16 == 0 && kAcross % 16 == 0, "descriptors count 16 bytes");
    static_assert(kAlong < 1 << 18 && kAcross < 1 << 18, "descriptors have 14 bits for a count");
    if (reinterpret_cast<uintptr_t>(first) % 16 != 0) {
        ::warpsmith_host::stop("halves: a matrix in shared memory begins at a multiple of 16 bytes");
    }
    return {static_cast<const char *>(first), kAlong, kAcross};
}
template <int kFurther = 16> SmemDescriptor swizzled_smem_descriptor(const void *first) {
    static_assert(kFurther % 16 == 0 && kFurther < 1 << 18, "descriptors have 14 bits for a count of 16 bytes");
    return {static_cast<const char *>(first), 0, kFurther, true};
}
inline SmemDescriptor behind(SmemDescriptor matrix, int bytes) {
    return {matrix.first + bytes, matrix.along, matrix.across, matrix.is_swizzled};
}

// sums = a * b, or sums += a * b if `add` is set; -a * b instead of a * b if kNegated. Products and their sum are
// computed in double and truncated once.
template <float (*kToFloat)(unsigned short), bool kNegated, bool kTurnedA, bool kTurnedB, int kSums>
void multiply_16_bits(float (&sums)[kSums], SmemDescriptor a, SmemDescriptor b, bool add) {
    const int thread = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
    const int lane = thread % 32, row = thread % 128 / 32 * 16 + lane / 4;
    double rows[2][16];
    for (int k = 0; k < 16; ++k) {
        for (int i = 0; i < 2; ++i) {
            const double value = static_cast<double>(kToFloat(a.at(k, row + 8 * i, kTurnedA)));
            rows[i][k] = kNegated ? -value : value;
        }
    }
    for (int n = 0; n < kSums; n += 4) {
        for (int i = 0; i < 2; ++i) {
            const int column = n / 4 * 8 + lane % 4 * 2 + i;
            double first = add ? static_cast<double>(sums[n + i]) : 0.0;
            double second = add ? static_cast<double>(sums[n + 2 + i]) : 0.0;
            for (int k = 0; k < 16; ++k) {
                const double value = static_cast<double>(kToFloat(b.at(k, column, kTurnedB)));
                first += rows[0][k] * value;
                second += rows[1][k] * value;
            }
            sums[n + i] = cut_off(first);
            sums[n + 2 + i] = cut_off(second);
        }
    }
}

template <bool kNegated, bool kTurnedA, bool kTurnedB, int kSums>
void wgmma_f16(float (&sums)[kSums], SmemDescriptor a, SmemDescriptor b, bool add) {
    multiply_16_bits<half_to_float, kNegated, kTurnedA, kTurnedB>(sums, a, b, add);
}
template <bool kNegated, bool kTurnedA, bool kTurnedB, int kSums>
void wgmma_bf16(float (&sums)[kSums], SmemDescriptor a, SmemDescriptor b, bool add) {
    multiply_16_bits<bits_to_float, kNegated, kTurnedA, kTurnedB>(sums, a, b, add);
}

// The same with matrix A in registers, as wgmma.m64nNk16 distributes it, and a K-major matrix B.
template <int kSums> void wgmma_f16(float (&sums)[kSums], const unsigned (&a)[4], SmemDescriptor b, bool add) {
    const int lane = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    double rows[2][16];
    for (int k = 0; k < 16; ++k) {
        for (int i = 0; i < 2; ++i) {
            const unsigned pair = __shfl_sync(0xffffffffu, a[k / 8 * 2 + i], lane / 4 * 4 + k % 8 / 2);
            rows[i][k] = static_cast<double>(half_to_float(static_cast<unsigned short>(pair >> k % 2 * 16)));
        }
    }
    for (int n = 0; n < kSums; ++n) {
        const int column = n / 4 * 8 + lane % 4 * 2 + n % 2;
        double sum = add ? static_cast<double>(sums[n]) : 0.0;
        for (int k = 0; k < 16; ++k) {
            sum += rows[n % 4 / 2][k] * static_cast<double>(half_to_float(b.at(k, column, false)));
        }
        sums[n] = cut_off(sum);
    }
}

inline float add_in_order(float a, float b) { return __fadd_rn(a, b); }
inline float mov_in_order(float product) { return product; }
inline float fma_in_order(float a, float b, float c) { return fmaf(a, b, c); }
