/* Copyright: gpu_node.tuning contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * All-reduce of small tensors between the GPUs of one host. Every function returns 0 or a negative PCAR_E code, and
 * pcar_last_error() then says in one sentence what was wrong, for the calling thread.
 */
#ifndef PCIE_ALLREDUCE_H
#define PCIE_ALLREDUCE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PCAR_ABI 2

enum { PCAR_BF16 = 0, PCAR_FP16 = 1, PCAR_FP32 = 2 };
enum { PCAR_ONE_SHOT = 0, PCAR_TWO_SHOT = 1, PCAR_ONE_SHOT_PULL = 2, PCAR_ISLANDS = 3 }; /* islands: world 8 */
enum { PCAR_PEER = 0, PCAR_HOST_STAGED = 1 };

enum {
    PCAR_EARGUMENT = -1,  /* a value that is not legal */
    PCAR_ECUDA = -2,      /* CUDA refused; the sentence has its words */
    PCAR_ESYSTEM = -3,    /* the operating system refused */
    PCAR_EHANDLE = -4,    /* a handle of pcar_import does not fit */
    PCAR_ESTATE = -5,     /* called out of order */
    PCAR_EALGORITHM = -6, /* no such algorithm, or not for this world */
    PCAR_ESIZE = -7,      /* longer than pcar_max_bytes */
    PCAR_EALIGN = -8,     /* a pointer is not aligned to 16 bytes */
    PCAR_EWATCHDOG = -9   /* a peer did not answer in time; stays until pcar_reset_status */
};

#if defined(__GNUC__)
#define PCAR_API __attribute__((visibility("default")))
#else
#define PCAR_API
#endif

PCAR_API int pcar_abi(void);
PCAR_API const char *pcar_last_error(void);

/* world 2 to 8. slot_bytes: the longest one-shot call; the inbox takes (3 * world + 4) * slot_bytes. watchdog_seconds > 0. */
PCAR_API int pcar_create(void **self, int rank, int world, size_t slot_bytes, int transport, int device, double watchdog_seconds);
PCAR_API size_t pcar_handle_bytes(void);
PCAR_API int pcar_export(void *self, void *handle);
/* handles: world * pcar_handle_bytes() in rank order. No rank may call pcar_probe or pcar_all_reduce before all have returned from here. */
PCAR_API int pcar_import(void *self, const void *handles);
/* Collective: whether what the other ranks store arrives here, within `seconds` of which the call takes little more. missing and wrong: bit n for
 * rank n. It leaves words in the inbox, so pcar_reset_status has to follow before any pcar_all_reduce. */
PCAR_API int pcar_probe(void *self, double seconds, unsigned *missing, unsigned *wrong);
PCAR_API int pcar_max_bytes(void *self, int algorithm, size_t *bytes);

/* Sum over all ranks, out of place or in place (output == input). Asynchronous; may be captured into a graph. All ranks make the same
 * calls in the same order, one after the other. A call on another stream than the call before (which still exists) waits for that on the GPU; two
 * streams of one capture are refused. Replays are not seen here: who launches a graph on another stream has to order it. count: elements; blocks, threads: 0
 * picks. Nothing beyond the last element is written. What a failed call could not compute is NaN in its output. */
PCAR_API int pcar_all_reduce(void *self, const void *input, void *output, size_t count, int dtype, int algorithm, int blocks,
                             int threads, void *stream);

/* Reads host memory: answers while the GPU waits. code: 0 or PCAR_EWATCHDOG; then peer is the rank that was waited for, and epoch the
 * number of the call. */
PCAR_API int pcar_status(void *self, int *code, int *peer, unsigned long long *epoch);
/* Collective: the streams of all ranks are idle before the first rank calls it (a late store would stay in an inbox that was cleared), and no rank
 * calls pcar_all_reduce before all have returned. */
PCAR_API int pcar_reset_status(void *self);
/* Kernels of this communicator that still wait give up at once; the other ranks' watchdogs then end their waits. Takes a few seconds at most,
 * whatever else the GPU does: memory that a rank of another process still has open after a second, or that a GPU that is not idle would make
 * this wait for, stays until the process ends. Ranks of one process have no call in flight when the first of them is destroyed. */
PCAR_API int pcar_destroy(void *self);

#ifdef __cplusplus
}
#endif
#endif
