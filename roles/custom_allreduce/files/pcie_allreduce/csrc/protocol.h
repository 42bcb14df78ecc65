// Copyright: gpu_node.tuning contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
//
// The protocol of the all-reduce: who writes which word of whose memory, when, and how a reader knows that a word is there.
// Written once; the kernels and the test on CPU threads compile this same text. docs/custom_allreduce.md has the picture and the proof.
//
// Every rank owns an inbox of three buffers, each with one slot a source. A call uses one buffer; `turn` says which. A sender stores
// words into the slots that bear its rank in the inboxes of others; a reader polls its own inbox only. An empty lane is zero, and no
// sender ever stores a zero lane: so the data say themselves that they are there, each lane of four bytes for itself. The memory
// models of CUDA and of C++ promise that much for aligned four bytes, and nothing here needs wider stores to stay whole or in order.
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define PCAR_FN __host__ __device__ __forceinline__
#else
#define PCAR_FN inline
#endif
#ifdef __CUDA_ARCH__
#define PCAR_UNROLL _Pragma("unroll")
#define PCAR_ROLLED _Pragma("unroll 1")  // instructions have to be fetched too, and a call is over in the time of a few misses
#else
#define PCAR_UNROLL
#define PCAR_ROLLED
#endif

namespace pcar {

constexpr uint32_t MAX_WORLD = 8;
constexpr uint32_t BUFFERS = 3;
constexpr uint32_t OUTBOXES = 4;

// Slots of an inbox with its outboxes.
constexpr uint32_t slots_of(uint32_t world) { return BUFFERS * world + OUTBOXES; }

struct alignas(16) Word {
    uint32_t lane[4];
};

// What a rank keeps for itself between calls. The first sixteen bytes are read at once when a block starts.
struct alignas(16) State {
    uint32_t turn;     // buffer of this call
    uint32_t extent;   // words of each slot that the call before used, and that this call clears
    uint32_t failed;   // not zero after an error: nothing is sent any more
    uint32_t arrived;  // blocks of this call that have read the line above
    // The same for calls that pull, which take turns of their own; the second sixteen bytes.
    uint32_t pull_turn;
    uint32_t pull_extent;         // of the call before
    uint32_t pull_extent_before;  // of the call before that, which this call clears
    uint32_t unused;
    uint64_t calls;  // for reports only
};

struct Post {
    Word *inbox;
    Word *peer[MAX_WORLD - 1];  // inboxes of rank+1, rank+2, ...: no two ranks send to the same one first
    uint32_t rank;
    uint32_t slot_words;
};

// The rules, each with a name, so that the test can break one at a time and see that it is missed.
struct Sound {
    // Three: a call clears the buffer of the call before while it waits. With two, a peer that is one call ahead writes there already.
    static constexpr uint32_t buffers = BUFFERS;
    // Four: the words of a pull are read by all others, so it takes a call more until it is known that all have.
    static constexpr uint32_t outboxes = OUTBOXES;
    static constexpr bool clears = true;
    static constexpr bool hides_zero = true;
    static constexpr bool asks_every_lane = true;
    static constexpr bool last_block_turns = true;
};

// Stands for a zero lane of a sum on its way to the others. NaN in every type; a sum that has these very bits is sent as another NaN.
constexpr uint32_t MARK = 0xFFFFFFFFu;
constexpr uint32_t OTHER_NAN = 0x7FFF7FFFu;

PCAR_FN Word filled(uint32_t lane) { return Word{{lane, lane, lane, lane}}; }
PCAR_FN Word empty() { return filled(0); }
PCAR_FN Word nothing_to_wait_for() { return filled(1); }
PCAR_FN Word not_a_number() { return filled(MARK); }

// A partial sum may lose the sign of its zeros: sums start at +0.0, so they do not depend on it.
template <class Rules> PCAR_FN Word hide(Word word, uint32_t minus_zero) {
    PCAR_UNROLL
    for (int n = 0; n < 4; ++n) word.lane[n] = Rules::hides_zero && word.lane[n] == 0 ? minus_zero : word.lane[n];
    return word;
}

// A finished sum goes into the output of all ranks, so its zeros have to come back as they were.
template <class Rules> PCAR_FN Word hide_sum(Word word) {
    PCAR_UNROLL
    for (int n = 0; n < 4; ++n) {
        const uint32_t lane = word.lane[n] == MARK ? OTHER_NAN : word.lane[n];
        word.lane[n] = Rules::hides_zero && lane == 0 ? MARK : lane;
    }
    return word;
}

PCAR_FN Word show_sum(Word word) {
    PCAR_UNROLL
    for (int n = 0; n < 4; ++n) word.lane[n] = word.lane[n] == MARK ? 0 : word.lane[n];
    return word;
}

template <class Rules> PCAR_FN bool whole(const Word &word) {
    if (!Rules::asks_every_lane) return word.lane[3] != 0;
    return word.lane[0] != 0 && word.lane[1] != 0 && word.lane[2] != 0 && word.lane[3] != 0;
}

// The tensor of a call, seen as words. Where the last one is a part, it is read as if it were whole: sixteen aligned bytes never reach into
// another page, and what they hold beyond the end is never written.
struct Tensor {
    const void *input;
    void *output;    // may be the input
    uint32_t words;  // the part included
    uint32_t whole;
    uint32_t tail;  // bytes of the part

    template <class Memory> PCAR_FN Word read(Memory &memory, uint32_t at) const {
        return at < words ? memory.take(static_cast<const Word *>(input) + at) : empty();
    }
};

PCAR_FN Tensor tensor_of(const void *input, void *output, uint64_t bytes) {
    const uint32_t whole = static_cast<uint32_t>(bytes / sizeof(Word)), tail = static_cast<uint32_t>(bytes % sizeof(Word));
    return Tensor{input, output, whole + (tail != 0), whole, tail};
}

// The part is kept until the end, so that the code for it is there once and not in every loop.
struct Output {
    Word part;
    uint32_t has_part;

    template <class Memory> PCAR_FN void write(Memory &memory, const Tensor &tensor, uint32_t at, const Word &word) {
        if (at < tensor.whole) return memory.put(static_cast<Word *>(tensor.output) + at, word);
        if (at >= tensor.words) return;
        part = word;
        has_part = 1;
    }

    PCAR_FN void finish(const Tensor &tensor) const {
        if (has_part == 0) return;
        uint16_t *half = reinterpret_cast<uint16_t *>(static_cast<Word *>(tensor.output) + tensor.whole);
        PCAR_UNROLL
        for (uint32_t n = 0; n < 7; ++n)
            if (2 * n < tensor.tail) half[n] = static_cast<uint16_t>(part.lane[n / 2] >> (n % 2 * 16));
    }
};

// The share of one thread: `first`, `first + stride`, ... of the words (one-shot) or of the columns (two-shot).
struct Share {
    uint32_t first;
    uint32_t stride;
};

// Memory says how words travel: take, put (tensor), push (to a peer), poll (own inbox), clear (own inbox), gives_up (how long a wait may
// last). Sum adds W words in the order of the ranks, rounds once, and knows the minus_zero of its type.
template <uint32_t W, class Sum, class Memory, class Rules = Sound> struct Protocol {
    // With more ranks the words of the peers are loads enough to have in flight at once.
    static constexpr uint32_t BATCH = W == 2 ? 2 : 1;

    static PCAR_FN uint32_t ahead(uint32_t turn, uint32_t steps, uint32_t of) { return (turn + steps) % of; }
    static PCAR_FN uint32_t chunk_of(uint32_t words) { return (words + W - 1) / W; }
    static PCAR_FN uint32_t next_rank(uint32_t rank, uint32_t steps) {
        return rank + steps >= W ? rank + steps - W : rank + steps;
    }
    // The W - 1 other ranks in the order of their numbers.
    static PCAR_FN uint32_t other(uint32_t rank, uint32_t n) { return n < rank ? n : n + 1; }

    // Everybody's word in the order of the ranks; indices known to the compiler, or the words would leave the registers.
    static PCAR_FN Word added(const Word *others, const Word &mine, uint32_t rank) {
        Word all[W];
        PCAR_UNROLL
        for (uint32_t source = 0; source < W; ++source) {
            if (source == rank) all[source] = mine;
            else if (source > 0 && source > rank) all[source] = others[source - 1];
            else all[source] = others[source < W - 1 ? source : W - 2];
        }
        return Sum::of(all);
    }

    static PCAR_FN Word *slot(Word *inbox, const Post &post, uint32_t turn, uint32_t source) {
        return inbox + static_cast<uint64_t>(turn * W + source) * post.slot_words;
    }

    // An outbox lies behind the buffers of its owner's inbox.
    static PCAR_FN Word *outbox(Word *inbox, const Post &post, uint32_t turn) {
        return inbox + static_cast<uint64_t>(BUFFERS * W + turn) * post.slot_words;
    }

    // Poll until every word is whole. Hops that others build on get fewer eighths of the patience, so that who is silent itself is named, and
    // not who waits for it. False when the watchdog, or another thread's, has ended the wait.
    template <uint32_t N, class At, class From>
    static PCAR_FN bool await(Memory &memory, Word (&word)[N], At at, From from, uint32_t eighths) {
        uint64_t since = 0;
        PCAR_ROLLED
        for (uint32_t spin = 0;; ++spin) {
            PCAR_UNROLL
            for (uint32_t n = 0; n < N; ++n) memory.poll(word[n], at(n), !whole<Rules>(word[n]));
            uint32_t missing = N;
            PCAR_UNROLL
            for (uint32_t n = 0; n < N; ++n)
                if (!whole<Rules>(word[n])) missing = n;
            if (missing == N) return true;
            if (memory.gives_up(spin, since, from(missing), eighths)) return false;
        }
    }

    // By one thread of a block after the whole block has read the state; `leave` is for the end of the block. In two parts, because the
    // answer takes a while and nothing before the end needs it. The turn changes once a call, whatever the grid.
    static PCAR_FN uint32_t arrive(Memory &memory, State *state, uint32_t blocks) { return memory.arrive(&state->arrived, blocks); }
    static PCAR_FN bool turns(uint32_t order, uint32_t blocks) { return order == (Rules::last_block_turns ? blocks - 1 : 0); }

    struct Push {
        // Every word of the buffer that the call before has read. Nobody writes there before this call has retired on every rank.
        static PCAR_FN void clear(Memory &memory, const Post &post, const State &seen, Share share) {
            if (!Rules::clears) return;
            const uint32_t before = ahead(seen.turn, Rules::buffers - 1, Rules::buffers);
            PCAR_ROLLED
            for (uint32_t steps = 1; steps < W; ++steps) {
                Word *old = slot(post.inbox, post, before, next_rank(post.rank, steps));
                PCAR_ROLLED
                for (uint32_t at = share.first; at < seen.extent; at += share.stride) memory.clear(old + at);
            }
        }

        static PCAR_FN void leave(Memory &memory, State *state, const State &seen, uint32_t extent) {
            memory.turn(state, ahead(seen.turn, 1, Rules::buffers), extent);
        }
    };

    // One-shot: every rank sends its words to all others, and every rank adds all.
    struct OneShot : Push {
        struct Load {
            Word word[BATCH];
        };

        static PCAR_FN uint32_t extent(const Tensor &tensor) { return tensor.words; }

        // The first load needs nothing that the state says, so both are in flight together.
        static PCAR_FN Load load(Memory &memory, const Post &, const Tensor &tensor, uint32_t at, Share share) {
            Load load;
            PCAR_UNROLL
            for (uint32_t n = 0; n < BATCH; ++n) load.word[n] = tensor.read(memory, at + n * share.stride);
            return load;
        }

        static PCAR_FN void
        send(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share, Load ready) {
            PCAR_ROLLED
            for (uint32_t at = share.first; at < tensor.words; at += BATCH * share.stride) {
                PCAR_UNROLL
                for (uint32_t to = 0; to < W - 1; ++to) {
                    Word *target = slot(post.peer[to], post, seen.turn, post.rank);
                    PCAR_UNROLL
                    for (uint32_t n = 0; n < BATCH; ++n)
                        if (at + n * share.stride < tensor.words)
                            memory.push(target + at + n * share.stride, hide<Rules>(ready.word[n], Sum::minus_zero));
                }
                ready = load(memory, post, tensor, at + BATCH * share.stride, share);
            }
        }

        // `mine`: what load() gave for share.first. Most threads have no more than that, and need not read it again.
        static PCAR_FN void
        receive(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share, Load mine) {
            bool well = true;
            Output output = {empty(), 0};
            PCAR_ROLLED
            for (uint32_t at = share.first; at < tensor.words; at += BATCH * share.stride) {
                Word word[BATCH * (W - 1)];
                PCAR_UNROLL
                for (uint32_t n = 0; n < BATCH * (W - 1); ++n)
                    word[n] = at + n / (W - 1) * share.stride < tensor.words ? empty() : nothing_to_wait_for();
                const auto from = [&](uint32_t n) { return other(post.rank, n % (W - 1)); };
                const auto place = [&](uint32_t n) {
                    return slot(post.inbox, post, seen.turn, from(n)) + at + n / (W - 1) * share.stride;
                };
                well = well && await(memory, word, place, from, 8);
                PCAR_UNROLL
                for (uint32_t n = 0; n < BATCH; ++n)
                    output.write(memory, tensor, at + n * share.stride,
                                 well ? added(word + n * (W - 1), mine.word[n], post.rank) : not_a_number());
                mine = load(memory, post, tensor, at + BATCH * share.stride, share);
            }
            output.finish(tensor);
        }
    };

    // Two-shot: rank p owns chunk p. Everybody sends it their part of the chunk, it adds them and sends the sum to all. A thread handles
    // one column, that is the same word of every chunk, in both hops, so threads never wait for each other.
    // A slot holds the parts in its first `chunk` words and the sums in the next.
    struct TwoShot : Push {
        struct Load {
            Word word[W - 1];
        };

        static PCAR_FN uint32_t extent(const Tensor &tensor) { return 2 * chunk_of(tensor.words); }

        static PCAR_FN Load load(Memory &memory, const Post &post, const Tensor &tensor, uint32_t column, Share) {
            const uint32_t chunk = chunk_of(tensor.words);
            Load load;
            PCAR_UNROLL
            for (uint32_t to = 0; to < W - 1; ++to)
                load.word[to] = column < chunk
                                    ? tensor.read(memory, next_rank(post.rank, to + 1) * chunk + column)
                                    : empty();
            return load;
        }

        static PCAR_FN void
        send(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share, Load ready) {
            const uint32_t chunk = chunk_of(tensor.words);
            PCAR_ROLLED
            for (uint32_t column = share.first; column < chunk; column += share.stride) {
                PCAR_UNROLL
                for (uint32_t to = 0; to < W - 1; ++to)
                    if (next_rank(post.rank, to + 1) * chunk + column < tensor.words)
                        memory.push(slot(post.peer[to], post, seen.turn, post.rank) + column,
                                    hide<Rules>(ready.word[to], Sum::minus_zero));
                ready = load(memory, post, tensor, column + share.stride, share);
            }
        }

        static PCAR_FN void
        receive(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share, Load) {
            Output output = {empty(), 0};
            const bool well = add(memory, post, tensor, seen, share, output);
            gather(memory, post, tensor, seen, share, output, well);
            output.finish(tensor);
        }

        static PCAR_FN bool
        add(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share, Output &output) {
            const uint32_t chunk = chunk_of(tensor.words), begin = post.rank * chunk;
            bool well = true;
            PCAR_ROLLED
            for (uint32_t column = share.first; column < chunk && begin + column < tensor.words; column += share.stride) {
                const Word mine = tensor.read(memory, begin + column);
                Word word[W - 1];
                PCAR_UNROLL
                for (uint32_t n = 0; n < W - 1; ++n) word[n] = empty();
                const auto from = [&](uint32_t n) { return other(post.rank, n); };
                const auto place = [&](uint32_t n) { return slot(post.inbox, post, seen.turn, from(n)) + column; };
                well = well && await(memory, word, place, from, 7);
                if (!well) {
                    output.write(memory, tensor, begin + column, not_a_number());
                    continue;
                }
                const Word sum = hide_sum<Rules>(added(word, mine, post.rank));
                PCAR_UNROLL
                for (uint32_t to = 0; to < W - 1; ++to)
                    memory.push(slot(post.peer[to], post, seen.turn, post.rank) + chunk + column, sum);
                output.write(memory, tensor, begin + column, show_sum(sum));
            }
            return well;
        }

        static PCAR_FN void
        gather(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share, Output &output, bool well) {
            const uint32_t chunk = chunk_of(tensor.words);
            PCAR_ROLLED
            for (uint32_t column = share.first; column < chunk; column += share.stride) {
                Word word[W - 1];
                const auto from = [&](uint32_t n) { return next_rank(post.rank, n + 1); };
                const auto place = [&](uint32_t n) { return slot(post.inbox, post, seen.turn, from(n)) + chunk + column; };
                PCAR_UNROLL
                for (uint32_t n = 0; n < W - 1; ++n)
                    word[n] = from(n) * chunk + column < tensor.words ? empty() : nothing_to_wait_for();
                well = well && await(memory, word, place, from, 8);
                PCAR_UNROLL
                for (uint32_t n = 0; n < W - 1; ++n) {
                    const uint32_t at = from(n) * chunk + column;
                    output.write(memory, tensor, at, well ? show_sum(word[n]) : not_a_number());
                }
            }
        }
    };

    // One-shot by reading: a rank stores its words once, into an outbox of its own, and the others poll them there. For memory that is
    // written slowly from afar, and for memory of the host, where one store serves all readers.
    struct Pull {
        struct Load {
            Word word;
        };

        static PCAR_FN uint32_t extent(const Tensor &tensor) { return tensor.words; }

        static PCAR_FN Load load(Memory &memory, const Post &, const Tensor &tensor, uint32_t at, Share) {
            return Load{tensor.read(memory, at)};
        }

        static PCAR_FN void
        send(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share, Load ready) {
            Word *target = outbox(post.inbox, post, seen.pull_turn);
            PCAR_ROLLED
            for (uint32_t at = share.first; at < tensor.words; at += share.stride) {
                memory.push(target + at, hide<Rules>(ready.word, Sum::minus_zero));
                ready = load(memory, post, tensor, at + share.stride, share);
            }
        }

        // What was stored two pulls ago. All have begun the pull before, and so have read it; none reads there before this call has retired.
        static PCAR_FN void clear(Memory &memory, const Post &post, const State &seen, Share share) {
            if (!Rules::clears) return;
            Word *old = outbox(post.inbox, post, ahead(seen.pull_turn, Rules::outboxes - 2, Rules::outboxes));
            PCAR_ROLLED
            for (uint32_t at = share.first; at < seen.pull_extent_before; at += share.stride) memory.clear(old + at);
        }

        static PCAR_FN void
        receive(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share, Load mine) {
            bool well = true;
            Output output = {empty(), 0};
            PCAR_ROLLED
            for (uint32_t at = share.first; at < tensor.words; at += share.stride) {
                Word word[W - 1];
                PCAR_UNROLL
                for (uint32_t n = 0; n < W - 1; ++n) word[n] = empty();
                const auto from = [&](uint32_t n) { return other(post.rank, n); };
                const auto place = [&](uint32_t n) {
                    const uint32_t steps = n < post.rank ? n + W - post.rank : n + 1 - post.rank;
                    return outbox(post.peer[steps - 1], post, seen.pull_turn) + at;
                };
                well = well && await(memory, word, place, from, 8);
                output.write(memory, tensor, at, well ? added(word, mine.word, post.rank) : not_a_number());
                mine = load(memory, post, tensor, at + share.stride, share);
            }
            output.finish(tensor);
        }

        static PCAR_FN void leave(Memory &memory, State *state, const State &seen, uint32_t extent) {
            memory.turn_of_pull(state, ahead(seen.pull_turn, 1, Rules::outboxes), extent, seen.pull_extent);
        }
    };

    // Two-shot for two islands of four, in which only one pair of ranks in each direction talks across for a chunk. A chunk has an owner in each
    // island; the two owners swap what their islands add up to, in float32 so that there is one rounding only, and both finish the sum.
    // A slot holds parts, then sums of an island (`wide` words for one), then sums. The own slot keeps the own island's sums between hops.
    struct Islands : Push {
        static constexpr uint32_t HALF = W / 2, WIDE = Sum::wide;

        struct Load {
            Word word[HALF - 1];
        };

        static PCAR_FN uint32_t chunk_in(const Tensor &tensor) { return (tensor.words + HALF - 1) / HALF; }
        static PCAR_FN uint32_t extent(const Tensor &tensor) { return (2 + WIDE) * chunk_in(tensor); }
        static PCAR_FN uint32_t neighbour(uint32_t rank, uint32_t steps) { return rank / HALF * HALF + (rank + steps) % HALF; }
        static PCAR_FN uint32_t twin(uint32_t rank) { return next_rank(rank, HALF); }
        static PCAR_FN Word *inbox_of(const Post &post, uint32_t rank) {
            return post.peer[(rank + W - post.rank) % W - 1];
        }

        static PCAR_FN Load load(Memory &memory, const Post &post, const Tensor &tensor, uint32_t column, Share) {
            const uint32_t chunk = chunk_in(tensor);
            Load load;
            PCAR_UNROLL
            for (uint32_t to = 0; to < HALF - 1; ++to)
                load.word[to] = column < chunk
                                    ? tensor.read(memory, neighbour(post.rank, to + 1) % HALF * chunk + column)
                                    : empty();
            return load;
        }

        static PCAR_FN void
        send(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share, Load ready) {
            const uint32_t chunk = chunk_in(tensor);
            PCAR_ROLLED
            for (uint32_t column = share.first; column < chunk; column += share.stride) {
                PCAR_UNROLL
                for (uint32_t to = 0; to < HALF - 1; ++to) {
                    const uint32_t owner = neighbour(post.rank, to + 1);
                    if (owner % HALF * chunk + column < tensor.words)
                        memory.push(slot(inbox_of(post, owner), post, seen.turn, post.rank) + column,
                                    hide<Rules>(ready.word[to], Sum::minus_zero));
                }
                ready = load(memory, post, tensor, column + share.stride, share);
            }
        }

        static PCAR_FN void
        receive(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share, Load) {
            Output output = {empty(), 0};
            bool well = add(memory, post, tensor, seen, share);
            well = finish(memory, post, tensor, seen, share, output, well);
            gather(memory, post, tensor, seen, share, output, well);
            output.finish(tensor);
        }

        static PCAR_FN bool add(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share) {
            const uint32_t chunk = chunk_in(tensor), local = post.rank % HALF, begin = local * chunk;
            bool well = true;
            PCAR_ROLLED
            for (uint32_t column = share.first; column < chunk && begin + column < tensor.words; column += share.stride) {
                Word word[HALF];
                const Word mine = tensor.read(memory, begin + column);
                PCAR_UNROLL
                for (uint32_t n = 0; n < HALF; ++n) word[n] = n == local ? nothing_to_wait_for() : empty();
                const auto from = [&](uint32_t n) { return post.rank - local + n; };
                const auto place = [&](uint32_t n) { return slot(post.inbox, post, seen.turn, from(n)) + column; };
                well = well && await(memory, word, place, from, 6);
                if (!well) break;
                PCAR_UNROLL
                for (uint32_t n = 0; n < HALF; ++n)
                    if (n == local) word[n] = mine;
                Word island[WIDE];
                Sum::in_float(word, island);
                PCAR_UNROLL
                for (uint32_t n = 0; n < WIDE; ++n) {
                    const uint32_t at = chunk + column * WIDE + n;
                    const Word hidden = hide_sum<Rules>(island[n]);
                    memory.push(slot(inbox_of(post, twin(post.rank)), post, seen.turn, post.rank) + at, hidden);
                    memory.put(slot(post.inbox, post, seen.turn, post.rank) + at, show_sum(hidden));
                }
            }
            return well;
        }

        static PCAR_FN bool finish(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share,
                                   Output &output, bool well) {
            const uint32_t chunk = chunk_in(tensor), begin = post.rank % HALF * chunk;
            PCAR_ROLLED
            for (uint32_t column = share.first; column < chunk && begin + column < tensor.words; column += share.stride) {
                Word theirs[WIDE], ours[WIDE];
                PCAR_UNROLL
                for (uint32_t n = 0; n < WIDE; ++n) theirs[n] = empty();
                const auto from = [&](uint32_t) { return twin(post.rank); };
                const auto place = [&](uint32_t n) {
                    return slot(post.inbox, post, seen.turn, twin(post.rank)) + chunk + column * WIDE + n;
                };
                well = well && await(memory, theirs, place, from, 7);
                if (!well) {
                    output.write(memory, tensor, begin + column, not_a_number());
                    continue;
                }
                PCAR_UNROLL
                for (uint32_t n = 0; n < WIDE; ++n) {
                    ours[n] = memory.take(slot(post.inbox, post, seen.turn, post.rank) + chunk + column * WIDE + n);
                    theirs[n] = show_sum(theirs[n]);
                }
                // The lower island first, on both sides.
                const Word sum = hide_sum<Rules>(post.rank < HALF ? Sum::of_two(ours, theirs) : Sum::of_two(theirs, ours));
                PCAR_UNROLL
                for (uint32_t to = 0; to < HALF - 1; ++to)
                    memory.push(slot(inbox_of(post, neighbour(post.rank, to + 1)), post, seen.turn, post.rank) +
                                    (1 + WIDE) * chunk + column,
                                sum);
                output.write(memory, tensor, begin + column, show_sum(sum));
            }
            return well;
        }

        static PCAR_FN void gather(Memory &memory, const Post &post, const Tensor &tensor, const State &seen, Share share,
                                   Output &output, bool well) {
            const uint32_t chunk = chunk_in(tensor);
            PCAR_ROLLED
            for (uint32_t column = share.first; column < chunk; column += share.stride) {
                Word word[HALF - 1];
                const auto from = [&](uint32_t n) { return neighbour(post.rank, n + 1); };
                const auto place = [&](uint32_t n) {
                    return slot(post.inbox, post, seen.turn, from(n)) + (1 + WIDE) * chunk + column;
                };
                PCAR_UNROLL
                for (uint32_t n = 0; n < HALF - 1; ++n)
                    word[n] = from(n) % HALF * chunk + column < tensor.words ? empty() : nothing_to_wait_for();
                well = well && await(memory, word, place, from, 8);
                PCAR_UNROLL
                for (uint32_t n = 0; n < HALF - 1; ++n)
                    output.write(memory, tensor, from(n) % HALF * chunk + column, well ? show_sum(word[n]) : not_a_number());
            }
        }
    };
};

}  // namespace pcar
