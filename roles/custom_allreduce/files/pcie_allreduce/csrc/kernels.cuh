// Copyright: gpu_node.tuning contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
//
// What protocol.h leaves open, for the GPU: how words travel, how sums are rounded, how long a wait lasts.
#pragma once

#include "pcie_allreduce.h"
#include "protocol.h"

namespace pcar {

// Pinned host memory, so that the host can read it, and end all waits, while a kernel spins.
struct Alarm {
    volatile int code;
    volatile int peer;
    volatile unsigned long long call;
    volatile int abandon;
};

struct Call {
    Post post;
    Tensor tensor;
    State *state;
    Alarm *alarm;
    uint64_t patience;  // nanoseconds
};

constexpr uint32_t ABANDONED = 1000;
constexpr uint64_t LONG_WAIT = 1000000;  // nanoseconds

struct Gpu {
    State *state;
    Alarm *alarm;
    uint64_t patience;

    __device__ __forceinline__ Word take(const Word *at) const {
        Word word;
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(word.lane[0]), "=r"(word.lane[1]), "=r"(word.lane[2]), "=r"(word.lane[3])
                     : "l"(at));
        return word;
    }

    __device__ __forceinline__ void put(Word *at, const Word &word) const {
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(word.lane[0]), "r"(word.lane[1]),
                     "r"(word.lane[2]), "r"(word.lane[3])
                     : "memory");
    }

    // A posted store: nothing waits for it. In a vector access each lane is an access of its own for the memory model.
    __device__ __forceinline__ void push(Word *at, const Word &word) const {
        asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(word.lane[0]), "r"(word.lane[1]),
                     "r"(word.lane[2]), "r"(word.lane[3])
                     : "memory");
    }

    __device__ __forceinline__ void clear(Word *at) const { push(at, empty()); }

    // Predicated, not branched, so that the loads of several words are in flight together.
    __device__ __forceinline__ void poll(Word &word, const Word *at, bool missing) const {
        asm volatile("{\n"
                     "  .reg .pred missing;\n"
                     "  setp.ne.u32 missing, %5, 0;\n"
                     "  @missing ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
                     "}"
                     : "+r"(word.lane[0]), "+r"(word.lane[1]), "+r"(word.lane[2]), "+r"(word.lane[3])
                     : "l"(at), "r"(static_cast<uint32_t>(missing))
                     : "memory");
    }

    __device__ __forceinline__ uint32_t arrive(uint32_t *counter, uint32_t blocks) const {
        return atomicInc(counter, blocks - 1);  // back at zero after the last block
    }

    __device__ __forceinline__ void turn(State *of, uint32_t next, uint32_t extent) const {
        of->turn = next;
        of->extent = extent;
        atomicAdd(reinterpret_cast<unsigned long long *>(&of->calls), 1ull);  // not a load that would have to be waited for
    }

    __device__ __forceinline__ void turn_of_pull(State *of, uint32_t next, uint32_t extent, uint32_t before) const {
        of->pull_turn = next;
        of->pull_extent = extent;
        of->pull_extent_before = before;
        atomicAdd(reinterpret_cast<unsigned long long *>(&of->calls), 1ull);
    }

    // The clock is not read before a wait has become long: the first look costs nothing that a call in time would notice.
    __device__ __forceinline__ bool gives_up(uint32_t spin, uint64_t &since, uint32_t peer, uint32_t eighths) const {
        if (spin % 128 != 127) return false;
        uint64_t now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (since == 0) since = now;
        if (*static_cast<volatile uint32_t *>(&state->failed) != 0) return true;
        // The alarm lies in the host's memory. Thousands of threads that read it at once take tens of microseconds; the other ranks
        // would wait as long for this one, and then do the same.
        if (now - since > LONG_WAIT && alarm->abandon != 0) {
            atomicCAS(&state->failed, 0u, ABANDONED);
            return true;
        }
        if (now - since < patience / 8 * eighths) return false;
        if (atomicCAS(&state->failed, 0u, peer + 1) == 0) {
            alarm->peer = static_cast<int>(peer);
            alarm->call = *static_cast<volatile uint64_t *>(&state->calls) + 1;
            __threadfence_system();
            alarm->code = PCAR_EWATCHDOG;
        }
        return true;
    }
};

// Conversions in PTX: the headers of the 16-bit types would take longer to compile than all of this.
//
// `two` adds both numbers of a lane without the way through float: a sum of two 16-bit numbers that is rounded to float and then to 16 bits
// is what one rounding gives, because float has more than twice their bits and two to spare. The second instruction makes -0.0 +0.0.
struct Bf16 {
    static constexpr bool adds_two = true;
    static __device__ __forceinline__ uint32_t two(uint32_t one, uint32_t other) {
        uint32_t sum;
        asm("{\n"
            "  .reg .b32 sum;\n"
            "  fma.rn.bf16x2 sum, %1, %3, %2;\n"
            "  fma.rn.bf16x2 %0, sum, %3, %4;\n"
            "}"
            : "=r"(sum)
            : "r"(one), "r"(other), "r"(0x3F803F80u), "r"(0u));
        return sum;
    }
    static constexpr uint32_t per_lane = 2, bytes = 2, minus_zero = 0x80008000u;
    static __device__ __forceinline__ float value(uint32_t lane, uint32_t part) {
        return __uint_as_float(part == 0 ? lane << 16 : lane & 0xFFFF0000u);
    }
    static __device__ __forceinline__ uint32_t rounded(const float *sum) {
        uint32_t lane;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(lane) : "f"(sum[1]), "f"(sum[0]));
        return lane;
    }
};

struct Fp16 {
    static constexpr bool adds_two = true;
    static __device__ __forceinline__ uint32_t two(uint32_t one, uint32_t other) {
        uint32_t sum;
        asm("{\n"
            "  .reg .b32 sum;\n"
            "  add.rn.f16x2 sum, %1, %2;\n"
            "  add.rn.f16x2 %0, sum, %3;\n"
            "}"
            : "=r"(sum)
            : "r"(one), "r"(other), "r"(0u));
        return sum;
    }
    static constexpr uint32_t per_lane = 2, bytes = 2, minus_zero = 0x80008000u;
    static __device__ __forceinline__ float value(uint32_t lane, uint32_t part) {
        float wide;
        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(static_cast<uint16_t>(part == 0 ? lane : lane >> 16)));
        return wide;
    }
    static __device__ __forceinline__ uint32_t rounded(const float *sum) {
        uint32_t lane;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(lane) : "f"(sum[1]), "f"(sum[0]));
        return lane;
    }
};

struct Fp32 {
    static constexpr bool adds_two = false;
    static constexpr uint32_t per_lane = 1, bytes = 4, minus_zero = 0x80000000u;
    static __device__ __forceinline__ float value(uint32_t lane, uint32_t) { return __uint_as_float(lane); }
    static __device__ __forceinline__ uint32_t rounded(const float *sum) { return __float_as_uint(sum[0]); }
};

// In float, from rank 0 upwards on every rank, rounded once: so every rank has the same bits. From +0.0, so a sum that is zero is +0.0
// whatever the signs of its zeros.
template <class Type> struct Sum {
    static constexpr uint32_t minus_zero = Type::minus_zero, wide = Type::per_lane;

    template <uint32_t W> static __device__ __forceinline__ Word of(const Word (&word)[W]) {
        Word sum;
        if constexpr (W == 2 && Type::adds_two) {
            PCAR_UNROLL
            for (int lane = 0; lane < 4; ++lane) sum.lane[lane] = Type::two(word[0].lane[lane], word[1].lane[lane]);
        } else {
            PCAR_UNROLL
            for (int lane = 0; lane < 4; ++lane) {
                float part[Type::per_lane];
                PCAR_UNROLL
                for (uint32_t n = 0; n < Type::per_lane; ++n) {
                    part[n] = 0.0f;
                    PCAR_UNROLL
                    for (uint32_t source = 0; source < W; ++source)
                        part[n] = __fadd_rn(part[n], Type::value(word[source].lane[lane], n));
                }
                sum.lane[lane] = Type::rounded(part);
            }
        }
        return sum;
    }

    // The same without rounding: `wide` words of float.
    template <uint32_t N> static __device__ __forceinline__ void in_float(const Word (&word)[N], Word (&sum)[wide]) {
        PCAR_UNROLL
        for (uint32_t n = 0; n < 4 * wide; ++n) {
            float part = 0.0f;
            PCAR_UNROLL
            for (uint32_t source = 0; source < N; ++source)
                part = __fadd_rn(part, Type::value(word[source].lane[n / wide], n % wide));
            sum[n / 4].lane[n % 4] = __float_as_uint(part);
        }
    }

    static __device__ __forceinline__ Word of_two(const Word (&low)[wide], const Word (&high)[wide]) {
        Word sum;
        PCAR_UNROLL
        for (uint32_t lane = 0; lane < 4; ++lane) {
            float part[wide];
            PCAR_UNROLL
            for (uint32_t n = 0; n < wide; ++n) {
                const uint32_t at = lane * wide + n;
                part[n] = __fadd_rn(__uint_as_float(low[at / 4].lane[at % 4]), __uint_as_float(high[at / 4].lane[at % 4]));
            }
            sum.lane[lane] = Type::rounded(part);
        }
        return sum;
    }
};

constexpr int MAX_THREADS = 512;

template <class Rules, int algorithm> struct Chosen { using Type = typename Rules::OneShot; };
template <class Rules> struct Chosen<Rules, PCAR_TWO_SHOT> { using Type = typename Rules::TwoShot; };
template <class Rules> struct Chosen<Rules, PCAR_ONE_SHOT_PULL> { using Type = typename Rules::Pull; };
template <class Rules> struct Chosen<Rules, PCAR_ISLANDS> { using Type = typename Rules::Islands; };

__device__ __forceinline__ void read_state(const State *state, State &seen, bool pulls) {
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(seen.turn), "=r"(seen.extent), "=r"(seen.failed), "=r"(seen.arrived)
                 : "l"(state));
    if (pulls)
        asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4 + 16];"
                     : "=r"(seen.pull_turn), "=r"(seen.pull_extent), "=r"(seen.pull_extent_before), "=r"(seen.unused)
                     : "l"(state));
}

template <class Type, uint32_t W, int algorithm>
__global__ void __launch_bounds__(MAX_THREADS, 1) all_reduce(const __grid_constant__ Call call) {
    using Rules = Protocol<W, Sum<Type>, Gpu>;
    using Algorithm = typename Chosen<Rules, algorithm>::Type;
    const Share share{blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x};
    State seen;
    read_state(call.state, seen, algorithm == PCAR_ONE_SHOT_PULL);
    Gpu gpu{call.state, call.alarm, call.patience};
    const auto first = Algorithm::load(gpu, call.post, call.tensor, share.first, share);
    if (seen.failed != 0) {
        Output output = {empty(), 0};
        PCAR_ROLLED
        for (uint32_t at = share.first; at < call.tensor.words; at += share.stride)
            output.write(gpu, call.tensor, at, not_a_number());
        return output.finish(call.tensor);
    }
    Algorithm::send(gpu, call.post, call.tensor, seen, share, first);
    Algorithm::clear(gpu, call.post, seen, share);
    __syncthreads();
    uint32_t order = 0;
    if (threadIdx.x == 0) order = Rules::arrive(gpu, call.state, gridDim.x);
    Algorithm::receive(gpu, call.post, call.tensor, seen, share, first);
    if (threadIdx.x == 0 && Rules::turns(order, gridDim.x)) Algorithm::leave(gpu, call.state, seen, Algorithm::extent(call.tensor));
}

}  // namespace pcar
