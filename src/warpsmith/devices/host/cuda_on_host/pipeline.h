// Barriers in shared memory that count arrivals and bytes (mbarrier), and the bulk copies that complete on one.
// Generated sources define them with PTX for a GPU.
#pragma once

// A phase ends when all its arrivals have happened and all announced bytes have arrived.
struct PhaseBarrier {
    unsigned char expected, pending;  // arrivals of a phase
    unsigned short parity;            // parity of the phase that has not ended
    int bytes;                        // bytes that have not arrived
};
static_assert(sizeof(PhaseBarrier) == 8, "as large as on a GPU");

inline void begin_barrier(PhaseBarrier *barrier, unsigned arrivals) {
    *barrier = {static_cast<unsigned char>(arrivals), static_cast<unsigned char>(arrivals), 0, 0};
}
inline void show_barriers() {}

namespace warpsmith_host {

inline void end_phase_if_done(PhaseBarrier *barrier) {
    if (barrier->pending > 0 || barrier->bytes != 0) return;
    barrier->pending = barrier->expected;
    barrier->parity ^= 1;
    running_block->wake_pollers();
}

}  // namespace warpsmith_host

inline void arrive_at(PhaseBarrier *barrier) {
    if (barrier->pending == 0) ::warpsmith_host::stop("arrive_at: more arrivals than the phase has");
    --barrier->pending;
    ::warpsmith_host::end_phase_if_done(barrier);
}
inline void arrive_with_bytes(PhaseBarrier *barrier, unsigned bytes) {
    barrier->bytes += static_cast<int>(bytes);
    arrive_at(barrier);
}
inline void copy_bulk_to(void *shared, const void *global, unsigned bytes, PhaseBarrier *barrier) {
    copy_bulk(shared, global, bytes);
    barrier->bytes -= static_cast<int>(bytes);
    ::warpsmith_host::end_phase_if_done(barrier);
}
// A thread's own copies complete at once.
inline void arrive_with_copies(PhaseBarrier *barrier) { arrive_at(barrier); }
inline void wait_for_phase(const PhaseBarrier *barrier, unsigned parity) {
    while (static_cast<const volatile PhaseBarrier *>(barrier)->parity == parity) {
        ::warpsmith_host::running_block->poll();
    }
}

// setmaxnreg has no effect on a CPU.
template <int kRegisters> void keep_registers() {}
template <int kRegisters> void take_registers() {}

// Barrier of a warpgroup's 128 threads, by the warpgroup's number in the block.
inline void sync_warpgroup(int number) { ::warpsmith_host::running_block->meet(static_cast<unsigned>(number), 128); }
