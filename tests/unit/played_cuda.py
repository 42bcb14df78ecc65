# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver played in Python: contexts, memory, and the two kernels, which run when their context is waited for, as real ones may."""

from __future__ import annotations

import ctypes
import re

from ansible_collections.gpu_node.tuning.plugins.module_utils import p2p_probe_program as program

ENTRY = re.compile(r"\.entry (\w+)\(([^)]*)\)")
PARAMETER = re.compile(r"\.param \.(u32|u64) (\w+)")
TYPES = {"u32": ctypes.c_uint32, "u64": ctypes.c_uint64}
NAMES = {
    2: b"CUDA_ERROR_OUT_OF_MEMORY",
    100: b"CUDA_ERROR_NO_DEVICE",
    101: b"CUDA_ERROR_INVALID_DEVICE",
    217: b"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
    719: b"CUDA_ERROR_LAUNCH_FAILED",
}


class PlayedCuda:
    """``fails``: call to the status that it returns. ``spoil_copy``, ``lose_store`` (words) and ``lose_flag`` (blocks): what goes wrong."""

    def __init__(self, gpus=2, peers=True, fails=None, spoil_copy=(), lose_store=(), lose_flag=()):
        self.gpus, self.peers, self.fails = gpus, peers, fails or {}
        self.spoil_copy, self.lose_store, self.lose_flag = set(spoil_copy), set(lose_store), set(lose_flag)
        self.contexts, self.destroyed, self.enabled = {}, [], set()
        self.memory, self.waiting, self.calls = {}, [], []
        self.current = None
        self.parameters = {name: PARAMETER.findall(found) for name, found in ENTRY.findall(program.KERNELS)}

    def __getattribute__(self, name):
        if not name.startswith("cu") or name in ("current", "cuGetErrorName"):
            return super().__getattribute__(name)
        types = program.SIGNATURES[name]

        def call(*arguments):
            self.calls.append(name)
            assert len(arguments) == len(types), f"{name} takes {len(types)} arguments"
            if name in self.fails:
                return self.fails[name]
            return super(PlayedCuda, self).__getattribute__(name)(*arguments) or 0

        return call

    def cuGetErrorName(self, status, name):
        name._obj.value = NAMES.get(status)
        return 0 if status in NAMES else 1

    def cuInit(self, flags):
        return 0 if self.gpus else 100

    def cuDeviceGetCount(self, count):
        count._obj.value = self.gpus

    def cuDeviceGet(self, device, index):
        device._obj.value = index

    def cuDeviceGetName(self, name, length, device):
        name.value = b"Played GPU"

    def cuDeviceGetPCIBusId(self, address, length, device):
        address.value = b"0000:0A:0%d.0" % device

    def cuDeviceGetByPCIBusId(self, device, address):
        index = int(re.fullmatch(rb"0000:0a:0(\d)\.0", address)[1])
        device._obj.value = index
        return 0 if index < self.gpus else 101

    def cuDeviceCanAccessPeer(self, possible, device, peer):
        assert device != peer
        possible._obj.value = int(self.peers)

    def cuCtxCreate_v2(self, context, flags, device):
        context._obj.value = 0x1000 + len(self.contexts)
        self.contexts[context._obj.value] = device
        self.current = context._obj.value

    def cuCtxDestroy_v2(self, context):
        assert context.value in self.contexts
        self.destroyed.append(context.value)

    def cuCtxSetCurrent(self, context):
        self.current = context.value

    def cuCtxEnablePeerAccess(self, peer, flags):
        self.enabled.add((self.current, peer.value))

    def cuCtxSynchronize(self):
        mine = [kernel for kernel in self.waiting if kernel[0] == self.current]
        self.waiting = [kernel for kernel in self.waiting if kernel[0] != self.current]
        for context, name, arguments in mine:
            getattr(self, name)(context, **arguments)

    def cuMemAlloc_v2(self, address, size):
        address._obj.value = 0x7F0000000000 + 0x1000000 * len(self.memory)
        self.memory[address._obj.value] = (self.current, bytearray(size))

    def cuMemsetD32_v2(self, address, value, count):
        self._mine(address)[: count * 4] = value.to_bytes(4, "little") * count

    def cuMemcpyHtoD_v2(self, address, host, size):
        self._mine(address)[:size] = ctypes.string_at(host, size)

    def cuMemcpyDtoH_v2(self, host, address, size):
        ctypes.memmove(host, bytes(self._mine(address)[:size]), size)

    def cuMemcpyPeer(self, destination, destination_context, source, source_context, size):
        assert self.memory[destination][0] == destination_context.value
        assert self.memory[source][0] == source_context.value
        target = self.memory[destination][1]
        target[:size] = self.memory[source][1][:size]
        for word in self.spoil_copy:
            target[word * 4 : word * 4 + 4] = bytes(4)

    def cuModuleLoadData(self, module, image):
        module._obj.value = self.current
        assert b".entry" in image

    def cuModuleGetFunction(self, function, module, name):
        assert module.value == self.current, "the module of another context"
        function._obj.value = 1 + list(self.parameters).index(name.decode())

    def cuLaunchKernel(self, function, *rest):
        pointers = rest[-2]
        name = list(self.parameters)[function.value - 1]
        assert len(pointers) == len(self.parameters[name])
        arguments = {
            parameter: ctypes.cast(pointer, ctypes.POINTER(TYPES[kind]))[0]
            for pointer, (kind, parameter) in zip(pointers, self.parameters[name], strict=True)
        }
        self.waiting.append((self.current, name, dict(arguments, grid=rest[0], threads=rest[3])))

    def store_words(self, context, words, flags, count, seed, token, grid, threads):
        assert (context, self.memory[words][0]) in self.enabled, "stores into memory that is not mapped"
        target = self.memory[words][1]
        stored = program.pattern(count * 4, seed)
        for word in range(count):
            if word not in self.lose_store:
                target[word * 4 : word * 4 + 4] = stored[word].to_bytes(4, "little")
        for block in set(range(grid)) - self.lose_flag:
            self.memory[flags][1][block * 4 : block * 4 + 4] = token.to_bytes(4, "little")

    def poll_words(self, context, words, flags, result, blocks, count, seed, token, rounds, grid, threads):
        assert grid == 1
        assert blocks <= threads
        assert 0 < rounds < 2**32
        if any(self._word(flags, block) != token for block in range(blocks)):
            return
        expected = program.pattern(count * 4, seed)
        wrong = [word for word in range(count) if self._word(words, word) != expected[word]]
        answer = (1, len(wrong), wrong[0] if wrong else 0xFFFFFFFF)
        self.memory[result][1][:] = b"".join(number.to_bytes(4, "little") for number in answer)

    def _mine(self, address):
        context, content = self.memory[address]
        assert context == self.current, "memory of another context"
        return content

    def _word(self, address, index):
        return int.from_bytes(self.memory[address][1][index * 4 : index * 4 + 4], "little")
