// Barriers in shared memory that count arrivals and bytes (mbarrier), and the bulk copies that complete on one.
// Generated sources define them with PTX for a GPU.
#pragma once

// A phase ends when all its arrivals have happened and all announced bytes have arrived.
struct Mbarrier {
    unsigned char expected, pending;  // arrivals of a phase
    unsigned short parity;            // parity of the phase that has not ended
    int bytes;                        // bytes that have not arrived
};
static_assert(sizeof(Mbarrier) == 8, "as large as on a GPU");

inline void mbarrier_init(Mbarrier *barrier, unsigned arrivals) {
    *barrier = {static_cast<unsigned char>(arrivals), static_cast<unsigned char>(arrivals), 0, 0};
}

namespace warpsmith_host {

inline void end_phase_if_done(Mbarrier *barrier) {
    if (barrier->pending > 0 || barrier->bytes != 0) return;
    barrier->pending = barrier->expected;
    barrier->parity ^= 1;
    running_block->wake_pollers();
}

}  // namespace warpsmith_host

inline void mbarrier_arrive(Mbarrier *barrier) {
    if (barrier->pending == 0) ::warpsmith_host::stop("mbarrier_arrive: more arrivals than the phase has");
    --barrier->pending;
    ::warpsmith_host::end_phase_if_done(barrier);
}
inline void mbarrier_arrive_expect_tx(Mbarrier *barrier, unsigned bytes) {
    barrier->bytes += static_cast<int>(bytes);
    mbarrier_arrive(barrier);
}
inline void bulk_load(void *shared, const void *global, unsigned bytes, Mbarrier *barrier) {
    copy_bulk(shared, global, bytes);
    barrier->bytes -= static_cast<int>(bytes);
    ::warpsmith_host::end_phase_if_done(barrier);
}
// A thread's own copies complete at once.
inline void cp_async_mbarrier_arrive(Mbarrier *barrier) { mbarrier_arrive(barrier); }
inline void mbarrier_wait_parity(const Mbarrier *barrier, unsigned parity) {
    while (static_cast<const volatile Mbarrier *>(barrier)->parity == parity) {
        ::warpsmith_host::running_block->poll();
    }
}

// setmaxnreg has no effect on a CPU.
template <int kRegisters> void setmaxnreg_dec() {}
template <int kRegisters> void setmaxnreg_inc() {}

// Barrier of a warpgroup's 128 threads, by the warpgroup's number in the block.
inline void sync_warpgroup(int number) { ::warpsmith_host::running_block->meet(static_cast<unsigned>(number), 128); }
// Barrier of the first kThreads threads of a block.
template <int kThreads> void sync_first_threads() { ::warpsmith_host::running_block->meet(0, kThreads); }
// The mbarriers are initialised. Here the warp that announces it waits for the others too, which makes no difference.
template <int kThreads> void announce_barriers() { ::warpsmith_host::running_block->meet(14, kThreads); }
template <int kThreads> void await_barriers() { ::warpsmith_host::running_block->meet(14, kThreads); }

// A cluster's blocks run one after the other, each to its end: all but the last leave a copy of their memory, and the
// last one does the work of all.
template <int kBlocks, int kThreads> void publish_to_cluster(const void *memory, int bytes, int rank) {
    sync_first_threads<kThreads>();
    if (::warpsmith_host::here.thread.x == 0) {
        ::warpsmith_host::running_block->publish(static_cast<unsigned>(rank), kBlocks, memory,
                                                 static_cast<size_t>(bytes));
    }
    sync_first_threads<kThreads>();
}
inline float4 load_from_block(const float *own, int rank) {
    return *static_cast<const float4 *>(
        ::warpsmith_host::running_block->published(own, static_cast<unsigned>(rank)));
}
template <int kBlocks> int first_of_share(int count, int rank) { return rank < kBlocks ? 0 : count; }
inline void sync_cluster() {}
