// Runs the threads of one block as fibers on one OS thread: schedules them, and implements barriers and warp
// operations.
//
// Threads start one after the other on the stack that is running. Only a thread that has to wait keeps its stack; the
// next thread then starts on another. So a warp that never waits costs no switch, and there are at most as many stacks
// as threads that wait at the same time.
#pragma once

namespace warpsmith_host {

struct Warp {
    unsigned live;           // lanes that have not exited, including those not yet started
    unsigned waiting;        // lanes that wait at a warp operation
    Fiber *lanes[warpSize];  // their fibers
};

class Block {
  public:
    explicit Block(Arena *arena) : arena_(arena) {
        native_.stack = nullptr;
        for (unsigned i = max_block_threads; i > 0; --i) free_[free_count_++] = i - 1;
    }
    ~Block() {
        free(published_);
        give_back(arena_);
    }
    Block(const Block &) = delete;

    // A block for this OS thread; null if there is no memory for it (see `take_arena`).
    static Block *make(bool waits) {
        Arena *const arena = take_arena(waits);
        if (arena == nullptr) return nullptr;
        Block *const block = new (std::nothrow) Block(arena);
        if (block == nullptr) give_back(arena);
        return block;
    }

    // Runs all threads of block `here.block`. `run_thread(kernel)` runs one thread.
    void run(void (*run_thread)(const void *), const void *kernel);

    unsigned barrier(bool predicate);  // returns the number of threads whose predicate held
    uint64_t exchange(Wait wait, unsigned mask, uint64_t value, int source);
    unsigned converged(int place);
    void poll();          // lets other threads run until one calls wake_pollers()
    void wake_pollers();
    void meet(unsigned number, unsigned threads);  // a barrier of some threads; max_barriers exist
    void publish(unsigned rank, unsigned blocks, const void *memory, size_t bytes);
    // Where the memory of block `rank` of the cluster keeps what the running block has at `own`.
    const void *published(const void *own, unsigned rank) const {
        return published_ + rank * published_bytes_ + (static_cast<const unsigned char *>(own) - published_from_);
    }
    unsigned lane() const { return current_->index % warpSize; }

  private:
    static void fiber_main();
    void run_unstarted();
    void exit_thread();
    void open_barrier();
    bool complete(Warp &warp, Wait wait, unsigned mask);
    bool open_active_masks();
    void hand_over(bool for_good);
    Fiber &next();
    void wake(Fiber &fiber) {
        fiber.wait = Wait::none;
        ready_[(ready_first_ + ready_count_++) % max_block_threads] = &fiber;
    }
    Warp &warp_of(const Fiber &fiber) { return warps_[fiber.index / warpSize]; }
    [[noreturn]] void report_deadlock();

    void (*run_thread_)(const void *);
    const void *kernel_;
    unsigned threads_, started_, live_;
    uint3 next_thread_;

    Fiber native_;  // the OS thread's own stack
    Fiber *current_;
    Fiber *origin_;  // the fiber that the last switch left
    Arena *const arena_;
    unsigned free_[max_block_threads];  // indices of free stacks
    unsigned free_count_ = 0;
    Fiber *ready_[max_block_threads];  // a ring buffer
    unsigned ready_first_, ready_count_;
    Fiber *at_barrier_[max_block_threads];
    unsigned at_barrier_count_;
    Fiber *polling_[max_block_threads];
    unsigned polling_count_;
    static constexpr unsigned max_barriers = 15;
    unsigned met_[max_barriers];  // arrivals since the block began
    unsigned char *published_ = nullptr;  // memory of all blocks of a cluster, one after the other
    const unsigned char *published_from_ = nullptr;
    size_t published_bytes_ = 0;  // of a block
    unsigned predicates_, predicates_result_;
    Warp warps_[max_block_threads / warpSize];
};

static thread_local Block *running_block;

inline void Block::run(void (*run_thread)(const void *), const void *kernel) {
    run_thread_ = run_thread, kernel_ = kernel;
    threads_ = live_ = here.block_size.x * here.block_size.y * here.block_size.z;
    started_ = ready_first_ = ready_count_ = at_barrier_count_ = polling_count_ = predicates_ = 0;
    for (unsigned &met : met_) met = 0;
    next_thread_ = {0, 0, 0};
    for (unsigned first = 0; first < threads_; first += warpSize) {
        const unsigned lanes = threads_ - first < warpSize ? threads_ - first : warpSize;
        warps_[first / warpSize].live = lanes == warpSize ? ~0u : (1u << lanes) - 1;
        warps_[first / warpSize].waiting = 0;
    }
    running_block = this;
    current_ = &native_;
    run_unstarted();
    if (live_ > 0) hand_over(false);  // returns when the last thread has exited
}

inline void Block::run_unstarted() {
    while (started_ < threads_) {
        Fiber &fiber = *current_;
        fiber.index = started_++;
        fiber.thread = next_thread_;
        fiber.wait = Wait::none;
        if (++next_thread_.x == here.block_size.x) {
            next_thread_.x = 0;
            if (++next_thread_.y == here.block_size.y) next_thread_.y = 0, ++next_thread_.z;
        }
        here.thread = fiber.thread;
        run_thread_(kernel_);
        exit_thread();
    }
}

inline void Block::fiber_main() {
    Block &block = *running_block;
    arrive(*block.current_, *block.origin_);
    block.run_unstarted();
    block.free_[block.free_count_++] = block.current_->number;
    block.hand_over(true);
}

// An exited thread counts as arrived, at barriers and at warp operations.
inline void Block::exit_thread() {
    Fiber &fiber = *current_;
    --live_;
    if (at_barrier_count_ > 0 && at_barrier_count_ == live_) open_barrier();
    Warp &warp = warp_of(fiber);
    warp.live &= ~(1u << fiber.index % warpSize);
    for (unsigned left = warp.waiting; left != 0; left &= warp.waiting & (left - 1)) {
        const Fiber &waiting = *warp.lanes[__builtin_ctz(left)];
        complete(warp, waiting.wait, waiting.mask);
    }
}

// Switches from the running fiber to the next runnable one. Returns when this fiber is resumed.
inline void Block::hand_over(bool for_good) {
    Fiber &from = *current_;
    Fiber &to = next();
    if (&to == &from) return;
    origin_ = &from;
    current_ = &to;
    depart(from, to, for_good);
    arrive(from, *origin_);
    here.thread = from.thread;
}

// Runnable threads come before threads that have not started, so that fewer stacks are in use at a time.
inline Fiber &Block::next() {
    if (ready_count_ == 0 && started_ < threads_) return prepare(*arena_, free_[--free_count_], fiber_main);
    if (ready_count_ == 0 && live_ == 0) return native_;
    if (ready_count_ == 0 && !open_active_masks()) report_deadlock();
    Fiber &fiber = *ready_[ready_first_];
    ready_first_ = (ready_first_ + 1) % max_block_threads;
    --ready_count_;
    return fiber;
}

inline unsigned Block::barrier(bool predicate) {
    Fiber &me = *current_;
    predicates_ += predicate;
    me.wait = Wait::syncthreads;
    at_barrier_[at_barrier_count_++] = &me;
    if (at_barrier_count_ == live_) open_barrier();
    hand_over(false);
    return predicates_result_;
}

inline void Block::open_barrier() {
    predicates_result_ = predicates_;
    predicates_ = 0;
    for (unsigned i = 0; i < at_barrier_count_; ++i) wake(*at_barrier_[i]);
    at_barrier_count_ = 0;
}

inline void Block::poll() {
    current_->wait = Wait::phase;
    polling_[polling_count_++] = current_;
    hand_over(false);
}

inline void Block::wake_pollers() {
    for (unsigned i = 0; i < polling_count_; ++i) wake(*polling_[i]);
    polling_count_ = 0;
}

inline void Block::meet(unsigned number, unsigned threads) {
    if (number >= max_barriers) stop("a block has no more than 15 barriers of some threads");
    const unsigned mine = met_[number]++ / threads;
    if (met_[number] % threads == 0) wake_pollers();
    while (met_[number] / threads == mine) poll();
}

// Copies a block's memory for later blocks of its cluster, which run on the same OS thread.
inline void Block::publish(unsigned rank, unsigned blocks, const void *memory, size_t bytes) {
    if (published_bytes_ != bytes || published_ == nullptr) {
        free(published_);
        published_ = static_cast<unsigned char *>(malloc(blocks * bytes));
        if (published_ == nullptr) stop("there is no memory for the blocks of a cluster");
        published_bytes_ = bytes;
    }
    published_from_ = static_cast<const unsigned char *>(memory);
    memcpy(published_ + rank * bytes, memory, bytes);
}

inline uint64_t Block::exchange(Wait wait, unsigned mask, uint64_t value, int source) {
    Fiber &me = *current_;
    Warp &warp = warp_of(me);
    const unsigned bit = 1u << lane();
    if (!(mask & bit)) stop("a thread calls a warp operation with a mask that leaves the thread itself out");
    me.wait = wait, me.mask = mask, me.value = value, me.source = source;
    warp.waiting |= bit;
    warp.lanes[lane()] = &me;
    complete(warp, wait, mask);
    hand_over(false);
    return me.result;
}

// Carries out the operation and wakes its lanes, if all live lanes of `mask` wait for it.
inline bool Block::complete(Warp &warp, Wait wait, unsigned mask) {
    const unsigned group = mask & warp.live;
    if (wait == Wait::activemask || (warp.waiting & group) != group) return false;
    unsigned held = 0;
    for (unsigned left = group; left != 0; left &= left - 1) {
        const Fiber &fiber = *warp.lanes[__builtin_ctz(left)];
        if (fiber.wait != wait || fiber.mask != mask) return false;
        if (fiber.value != 0) held |= left & -left;
    }
    const bool is_vote = wait == Wait::ballot || wait == Wait::any || wait == Wait::all;
    warp.waiting &= ~group;
    for (unsigned left = group; left != 0; left &= left - 1) {
        Fiber &fiber = *warp.lanes[__builtin_ctz(left)];
        // CUDA leaves the result open if the source lane takes no part; here the reader keeps its own value.
        const bool has_source = group >> fiber.source & 1;
        fiber.result = is_vote ? held : has_source ? warp.lanes[fiber.source]->value : fiber.value;
    }
    for (unsigned left = group; left != 0; left &= left - 1) wake(*warp.lanes[__builtin_ctz(left)]);
    return true;
}

// CUDA leaves open which threads have converged at an __activemask. Here they are all threads of a warp that reach it
// at the same place before the whole block has to wait.
inline unsigned Block::converged(int place) {
    Fiber &me = *current_;
    Warp &warp = warp_of(me);
    me.wait = Wait::activemask, me.mask = 0, me.source = place;
    warp.waiting |= 1u << lane();
    warp.lanes[lane()] = &me;
    hand_over(false);
    return static_cast<unsigned>(me.result);
}

inline bool Block::open_active_masks() {
    bool any = false;
    for (unsigned w = 0; w * warpSize < threads_; ++w) {
        Warp &warp = warps_[w];
        unsigned group = 0;
        int place = 0;
        for (unsigned left = warp.waiting; left != 0; left &= left - 1) {
            const Fiber &fiber = *warp.lanes[__builtin_ctz(left)];
            if (fiber.wait != Wait::activemask || (group != 0 && fiber.source != place)) continue;
            place = fiber.source;
            group |= left & -left;
        }
        warp.waiting &= ~group;
        for (unsigned left = group; left != 0; left &= left - 1) {
            Fiber &fiber = *warp.lanes[__builtin_ctz(left)];
            fiber.result = group;
            wake(fiber);
        }
        any |= group != 0;
    }
    return any;
}

inline void Block::report_deadlock() {
    const Fiber *waiting = at_barrier_count_ > 0 ? at_barrier_[0] : nullptr;
    const unsigned in_warps = live_ - at_barrier_count_ - polling_count_;
    const Fiber *in_warp = nullptr;
    for (unsigned w = 0; w * warpSize < threads_ && in_warp == nullptr; ++w) {
        if (warps_[w].waiting != 0) in_warp = warps_[w].lanes[__builtin_ctz(warps_[w].waiting)];
    }
    char message[512];
    int used = snprintf(message, sizeof message, "deadlock:");
    if (waiting != nullptr) {
        used += snprintf(message + used, sizeof message - used,
                         " %u threads wait at __syncthreads, thread (%u,%u,%u) first;", at_barrier_count_,
                         waiting->thread.x, waiting->thread.y, waiting->thread.z);
    }
    if (polling_count_ > 0) {
        const uint3 &first = polling_[0]->thread;
        used += snprintf(message + used, sizeof message - used,
                         " %u threads wait for the phase of a barrier, thread (%u,%u,%u) first;", polling_count_,
                         first.x, first.y, first.z);
    }
    if (in_warp != nullptr) {
        snprintf(message + used, sizeof message - used,
                 " %u threads wait at warp operations, thread (%u,%u,%u) first, at %s for lanes 0x%08x", in_warps,
                 in_warp->thread.x, in_warp->thread.y, in_warp->thread.z, name_of(in_warp->wait), in_warp->mask);
    }
    stop(message);
}

}  // namespace warpsmith_host
