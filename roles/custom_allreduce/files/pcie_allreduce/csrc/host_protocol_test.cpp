// Copyright: gpu_node.tuning contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
//
// protocol.h on CPU threads, one a rank. The words travel worse than on any GPU: every lane of a store to a peer lies in a queue and lands
// when chance takes it out, out of order, also long after the call that sent it; clearing lands as late as the end of its call. Every
// output is compared bit by bit. Then each rule is broken in turn, and the same run has to notice.
//
// Usage: host_protocol_test CALLS SEED, CALLS being those of all ranks and worlds together. Build with -fsanitize=thread.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "protocol.h"

using namespace pcar;

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t SLOT_WORDS = 24;
constexpr uint32_t MAX_BLOCKS = 3;
constexpr uint32_t MINUS_ZERO = 0x80000000u;
constexpr uint32_t GUARD = 0x5AFE0000u, GUARDS = 8;  // lanes behind the last element, which nobody may write

struct Random {
    uint64_t state;
    uint32_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<uint32_t>(state >> 32);
    }
    uint32_t below(uint32_t bound) { return next() % bound; }
};

uint32_t load_lane(const uint32_t *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
void store_lane(uint32_t *at, uint32_t value) { __atomic_store_n(at, value, __ATOMIC_RELAXED); }

// What all ranks of one run share.
struct Run {
    std::atomic<bool> stop{false};
    std::atomic<uint32_t> wrong{0}, lost{0};
    double patience;
};

// Memory as protocol.h wants it, for one rank.
struct Network {
    struct Store {
        uint32_t *at;
        uint32_t value;
    };
    Run &run;
    Random random;
    std::vector<Store> on_the_way, clearing;

    Network(Run &shared, uint64_t seed) : run(shared), random{seed} {}

    Word take(const Word *at) { return *at; }
    void put(Word *at, const Word &word) { *at = word; }

    void push(Word *at, const Word &word) {
        const bool late = random.below(2) == 0;
        for (uint32_t n = 0; n < 4; ++n) {
            if (late) on_the_way.push_back({&at->lane[n], word.lane[n]});
            else store_lane(&at->lane[n], word.lane[n]);
        }
    }

    void clear(Word *at) {
        for (uint32_t n = 0; n < 4; ++n) clearing.push_back({&at->lane[n], 0});
    }

    void poll(Word &word, const Word *at, bool missing) {
        if (!missing) return;
        const uint32_t first = random.next();
        for (uint32_t n = 0; n < 4; ++n) word.lane[(first + n) % 4] = load_lane(&at->lane[(first + n) % 4]);
    }

    uint32_t arrive(uint32_t *counter, uint32_t blocks) {
        const uint32_t order = *counter;
        *counter = order + 1 >= blocks ? 0 : order + 1;
        return order;
    }

    void turn(State *state, uint32_t next, uint32_t extent) {
        state->turn = next;
        state->extent = extent;
        state->calls += 1;
    }

    void turn_of_pull(State *state, uint32_t next, uint32_t extent, uint32_t before) {
        state->pull_turn = next;
        state->pull_extent = extent;
        state->pull_extent_before = before;
        state->calls += 1;
    }

    bool gives_up(uint32_t spin, uint64_t &since, uint32_t, uint32_t) {
        land(on_the_way, 1 + random.below(8));
        if (random.below(4) == 0) land(clearing, 1 + random.below(4));
        if (spin % 4 == 3) std::this_thread::yield();
        if (spin % 64 != 63) return false;
        if (run.stop) return true;
        const uint64_t now = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
        if (since == 0) since = now;
        if (static_cast<double>(now - since) * 1e-9 < run.patience) return false;
        run.lost += 1;
        run.stop = true;
        return true;
    }

    void land(std::vector<Store> &queue, size_t most) {
        for (; most > 0 && !queue.empty(); --most) {
            std::swap(queue[random.below(static_cast<uint32_t>(queue.size()))], queue.back());
            store_lane(queue.back().at, queue.back().value);
            queue.pop_back();
        }
    }

    // A call has retired: what it wrote to its own memory is there. What it sent may still be on its way.
    void retire() { land(clearing, clearing.size()); }

    void stall() {
        if (random.below(16) == 0)
            for (uint32_t n = random.below(12); n > 0; --n) std::this_thread::yield();
        if (random.below(4096) == 0) usleep(random.below(400));
    }
};

struct FloatSum {
    static constexpr uint32_t minus_zero = MINUS_ZERO, wide = 1;
    template <uint32_t N> static void in_float(const Word (&word)[N], Word (&sum)[1]) { sum[0] = of(word); }
    static Word of_two(const Word (&low)[1], const Word (&high)[1]) {
        const Word both[2] = {low[0], high[0]};
        return of(both);
    }
    template <uint32_t W> static Word of(const Word (&word)[W]) {
        Word sum;
        for (int lane = 0; lane < 4; ++lane) {
            float total = 0.0f;
            for (uint32_t source = 0; source < W; ++source) {
                float part;
                memcpy(&part, &word[source].lane[lane], sizeof part);
                total += part;
            }
            memcpy(&sum.lane[lane], &total, sizeof total);
        }
        return sum;
    }
};

// What differs from call to call; the same on every rank.
struct Plan {
    uint32_t words, tail, blocks, algorithm;
    bool in_place, zeros;
};

uint64_t mixed(uint64_t seed, uint64_t call) {
    uint64_t value = seed * 0x9E3779B97F4A7C15ull + call * 0xBF58476D1CE4E5B9ull + 1;
    value ^= value >> 29;
    value *= 0x94D049BB133111EBull;
    return (value ^ value >> 32) | 1;
}

Plan plan_of(uint64_t seed, uint64_t call, uint32_t world) {
    Random random{mixed(seed, call)};
    random.next();
    Plan plan;
    plan.algorithm = random.below(world == 8 ? 4 : 3);
    plan.words = 1 + random.below(random.below(4) == 0 ? SLOT_WORDS : 6);
    plan.tail = 4 * (1 + random.below(4));
    plan.blocks = 1 + random.below(MAX_BLOCKS);
    plan.in_place = random.below(2) != 0;
    plan.zeros = random.below(8) == 0;
    return plan;
}

// Small whole numbers, so that sums are exact; zeros of both signs among them.
uint32_t value_of(const Plan &plan, uint64_t call, uint32_t rank, uint32_t at) {
    const uint32_t mix = static_cast<uint32_t>(call * 2654435761u) ^ rank * 40503u ^ at * 2246822519u;
    if (plan.zeros || mix % 5 == 0) return mix % 3 == 0 ? MINUS_ZERO : 0;
    const float value = static_cast<float>(static_cast<int>(mix >> 8 & 31) - 16);
    uint32_t lane;
    memcpy(&lane, &value, sizeof lane);
    return lane;
}

// Each block has a turn of its own: the broken rule that hangs or mixes up calls when the grid changes.
struct TurnOfBlock : Sound {
    static constexpr bool own_turn = true;
};

template <class Rules> constexpr bool own_turn() { return std::is_same<Rules, TurnOfBlock>::value; }

template <uint32_t W, class Rules> struct Rank {
    using Calls = Protocol<W, FloatSum, Network, Rules>;
    Run &run;
    Network network;
    Post post;
    State state[MAX_BLOCKS] = {};
    uint64_t seed;

    Rank(Run &shared, const Post &where, uint64_t number)
        : run(shared), network(shared, mixed(number, where.rank + 77)), post(where), seed(number) {}

    void work(uint64_t calls) {
        for (uint64_t call = 0; call < calls && !run.stop; ++call) {
            network.stall();
            one_call(call);
            network.retire();
        }
        network.land(network.on_the_way, network.on_the_way.size());
    }

    void one_call(uint64_t call) {
        const Plan plan = plan_of(seed, call, W);
        Word input[SLOT_WORDS + GUARDS / 4], output[SLOT_WORDS + GUARDS / 4];
        const uint32_t lanes = (plan.words - 1) * 4 + plan.tail / 4;
        for (uint32_t at = 0; at < lanes; ++at) input[at / 4].lane[at % 4] = value_of(plan, call, post.rank, at);
        for (uint32_t at = lanes; at < lanes + GUARDS; ++at) input[at / 4].lane[at % 4] = output[at / 4].lane[at % 4] = GUARD + at;
        const Tensor tensor = tensor_of(input, plan.in_place ? input : output, lanes * 4);
        if (plan.algorithm == 0) reduce<typename Calls::OneShot>(tensor, plan);
        else if (plan.algorithm == 1) reduce<typename Calls::TwoShot>(tensor, plan);
        else if (plan.algorithm == 2) reduce<typename Calls::Pull>(tensor, plan);
        else if constexpr (W == 8) reduce<typename Calls::Islands>(tensor, plan);
        if (run.stop) return;
        for (uint32_t at = 0; at < lanes + GUARDS; ++at)
            if (static_cast<Word *>(tensor.output)[at / 4].lane[at % 4] != (at < lanes ? expected(plan, call, at) : GUARD + at)) {
                run.wrong += 1;
                run.stop = true;
                return;
            }
    }

    // The blocks of a grid: all at once, or each one when the one before is done, as on a GPU that has room for one only.
    template <class Algorithm> void reduce(const Tensor &tensor, const Plan &plan) {
        const bool together = network.random.below(2) != 0;
        State seen[MAX_BLOCKS];
        uint32_t order[MAX_BLOCKS];
        const auto end = [&](uint32_t block) {
            const Share share{block, plan.blocks};
            Algorithm::receive(network, post, tensor, seen[block], share,
                               Algorithm::load(network, post, tensor, share.first, share));
            if (Calls::turns(order[block], counted(plan)))
                Algorithm::leave(network, kept(block), seen[block], Algorithm::extent(tensor));
        };
        for (uint32_t block = 0; block < plan.blocks; ++block) {
            const Share share{block, plan.blocks};
            seen[block] = *kept(block);
            Algorithm::send(network, post, tensor, seen[block], share,
                            Algorithm::load(network, post, tensor, share.first, share));
            Algorithm::clear(network, post, seen[block], share);
            order[block] = Calls::arrive(network, kept(block), counted(plan));
            network.stall();
            if (!together) end(block);
        }
        for (uint32_t block = 0; together && block < plan.blocks; ++block) end(block);
    }

    State *kept(uint32_t block) { return &state[own_turn<Rules>() ? block : 0]; }
    uint32_t counted(const Plan &plan) const { return own_turn<Rules>() ? 1 : plan.blocks; }

    uint32_t expected(const Plan &plan, uint64_t call, uint32_t at) const {
        Word all[W];
        for (uint32_t rank = 0; rank < W; ++rank) all[rank] = filled(value_of(plan, call, rank, at));
        return FloatSum::of(all).lane[0];
    }
};

struct Verdict {
    uint32_t wrong, lost;
    bool caught() const { return wrong + lost > 0; }
};

template <uint32_t W, class Rules> Verdict run_world(uint64_t calls, uint64_t seed, double patience) {
    Run run;
    run.patience = patience;
    std::vector<std::vector<Word>> inbox(W, std::vector<Word>(slots_of(W) * SLOT_WORDS, empty()));
    std::vector<Rank<W, Rules> *> ranks;
    for (uint32_t rank = 0; rank < W; ++rank) {
        Post post = {};
        post.rank = rank;
        post.slot_words = SLOT_WORDS;
        post.inbox = inbox[rank].data();
        for (uint32_t steps = 1; steps < W; ++steps) post.peer[steps - 1] = inbox[(rank + steps) % W].data();
        ranks.push_back(new Rank<W, Rules>(run, post, seed));
    }
    std::vector<std::thread> threads;
    for (auto *rank : ranks) threads.emplace_back([rank, calls] { rank->work(calls); });
    for (auto &thread : threads) thread.join();
    for (auto *rank : ranks) delete rank;
    return {run.wrong, run.lost};
}

struct OneBuffer : Sound {
    static constexpr uint32_t buffers = 1;
};
struct TwoBuffers : Sound {
    static constexpr uint32_t buffers = 2;
};
struct ThreeOutboxes : Sound {
    static constexpr uint32_t outboxes = 3;
};
struct NeverCleared : Sound {
    static constexpr bool clears = false;
};
struct ZeroAsItIs : Sound {
    static constexpr bool hides_zero = false;
};
struct LastLaneTells : Sound {
    static constexpr bool asks_every_lane = false;
};
struct FirstBlockTurns : Sound {
    static constexpr bool last_block_turns = false;
};

int failures = 0;
uint64_t calls_made = 0;  // by the ranks of sound runs

void hold(bool holds, const char *what) {
    printf("%s  %s\n", holds ? "ok    " : "FAILED", what);
    fflush(stdout);
    failures += holds ? 0 : 1;
}

template <uint32_t W> void sound(uint64_t calls, uint64_t seed) {
    const auto started = Clock::now();
    const Verdict verdict = run_world<W, Sound>(calls, seed, 60);
    const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
    calls_made += W * calls;
    char what[120];
    snprintf(what, sizeof what, "%u ranks, %llu calls each: %u wrong, %u without an answer (%.1f s)", W,
             static_cast<unsigned long long>(calls), verdict.wrong, verdict.lost, seconds);
    hold(!verdict.caught(), what);
}

// Chance decides when a broken rule shows; several seeds make it certain in practice.
template <uint32_t W, class Rules> void broken(const char *rule, uint64_t seed) {
    Verdict verdict = {0, 0};
    uint64_t tries = 0;
    while (tries < 20 && !verdict.caught()) verdict = run_world<W, Rules>(5000, seed + ++tries, 0.5);
    char what[160];
    snprintf(what, sizeof what, "caught with %u ranks: %s (%s, try %llu)", W, rule,
             verdict.wrong ? "wrong sum" : verdict.lost ? "no answer" : "NOT CAUGHT", static_cast<unsigned long long>(tries));
    hold(verdict.caught(), what);
}

template <uint32_t W> void all_broken(uint64_t seed) {
    broken<W, OneBuffer>("one buffer", seed);
    broken<W, TwoBuffers>("two buffers, cleared a call later", seed);
    broken<W, ThreeOutboxes>("three outboxes", seed);
    broken<W, NeverCleared>("buffers are not cleared", seed);
    broken<W, ZeroAsItIs>("zero is sent as it is", seed);
    broken<W, LastLaneTells>("one lane tells for the whole word", seed);
    broken<W, FirstBlockTurns>("the first block changes the turn", seed);
    broken<W, TurnOfBlock>("a turn for each block", seed);
}

void zeros_come_back() {
    bool same = true, never_empty = true;
    for (const uint32_t lane : {0u, MINUS_ZERO, 0x80008000u, 1u, 0x3F80u, 0x7FFF7FFFu, 0x7F800000u, 0xFF80FF80u, 0x7FC00000u}) {
        same = same && show_sum(hide_sum<Sound>(filled(lane))).lane[0] == lane;
        never_empty = never_empty && whole<Sound>(hide_sum<Sound>(filled(lane))) && whole<Sound>(hide<Sound>(filled(lane), MINUS_ZERO));
    }
    hold(same, "a sum that is hidden and shown again has the same bits, zeros, infinities and NaN included");
    hold(never_empty, "no word that is sent has an empty lane");
    hold(show_sum(hide_sum<Sound>(filled(MARK))).lane[0] == OTHER_NAN, "a sum that looks like the mark arrives as another NaN");
}

}  // namespace

int main(int argc, char **argv) {
    const uint64_t calls = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1000000;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
    // Large worlds take longer for a call, so the small ones make up the number: 1000 calls of a rank for every thousand asked for.
    const uint64_t part = calls / 1000;
    zeros_come_back();
    sound<2>(250 * part, seed);
    sound<3>(70 * part, seed);
    sound<4>(35 * part, seed);
    sound<5>(12 * part, seed);
    sound<6>(6 * part, seed);
    sound<7>(2 * part, seed);
    sound<8>(5 * part, seed);
    printf("%llu calls in total\n", static_cast<unsigned long long>(calls_made));
    all_broken<2>(seed);
    all_broken<5>(seed);
    all_broken<8>(seed);
    printf("%d failed\n", failures);
    return failures == 0 ? 0 : 1;
}
