# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of the systemd unit of SGLang, and of the drop-in of one instance. Text out; nothing here opens a file."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_instance import systemd_word

UNIT = "/etc/systemd/system/sglang@.service"
DEVICES_UNIT = "/etc/systemd/system/sglang-devices.service"
LOADS = 3  # starts that may fail before systemd gives up
CACHE = "/var/cache/sglang"  # with the instance's name: its home directory
PAUSE = 30  # seconds between two starts
REAP = 60  # seconds that SGLang takes to end its processes once the last request is done
# What systemd puts in place of a path's beginning with ProtectHome=tmpfs.
HIDDEN = ("/home", "/root", "/run/user")
# The kernel's names of NVIDIA's devices; one that a driver does not have is passed over.
DEVICES = ("nvidia", "nvidia-frontend", "nvidia-uvm", "nvidia-caps", "nvidia-caps-imex-channels", "nvidia-nvswitch")


# The third layer of the read-back: NCCL's own words, one file a rank. A tuning that declares one of them wins.
NCCL_LOG = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,ENV",
    "NCCL_DEBUG_FILE": "%t/sglang/%i/nccl.%%h.%%p.log",
}


class Settings(NamedTuple):
    """``interpreter``: absolute path; ``program``: what runs before a start; times in seconds."""

    interpreter: str
    program: str
    user: str
    group: str
    start_timeout: int
    drain_timeout: int


def unit_text(settings: Settings) -> str:
    python, program = systemd_word(settings.interpreter), systemd_word(settings.program)
    nccl_log = "\n".join(f"Environment={name}={value}" for name, value in NCCL_LOG.items())
    devices = "\n".join(f"DeviceAllow=char-{name} rw" for name in DEVICES)
    return f"""[Unit]
Description=SGLang instance %i
After=network-online.target nvidia-persistenced.service nvidia-fabricmanager.service sglang-devices.service
Wants=network-online.target sglang-devices.service
# Longer than {LOADS} loads of the weights: systemd gives up on an instance that cannot start, and not on one that fails once a day.
StartLimitIntervalSec={LOADS * (settings.start_timeout + PAUSE)}
StartLimitBurst={LOADS}

[Service]
# SGLang does not tell systemd when it is ready.
Type=exec
User={settings.user}
Group={settings.group}
WorkingDirectory=%S/sglang/%i
ExecStartPre={python} {program} /etc/gpu_node_tuning/sglang/%i.json
{exec_start(settings.interpreter)}
TimeoutStartSec={settings.start_timeout}
# A signal to every process would look like a crash to SGLang: only the main process gets it, lets the running requests end, and stops the others.
KillMode=mixed
TimeoutStopSec={settings.drain_timeout + REAP}
Restart=on-failure
RestartSec={PAUSE}
# 2: an option is wrong. 3: the warm-up was answered by another server on this port.
RestartPreventExitStatus=2 3
OOMPolicy=stop

LimitMEMLOCK=infinity
LimitNOFILE=1048576
TasksMax=infinity

RuntimeDirectory=sglang/%i
RuntimeDirectoryMode=0700
StateDirectory=sglang/%i
StateDirectoryMode=0750
# Compiled kernels: SGLang's libraries keep them below the home directory.
CacheDirectory=sglang/%i
CacheDirectoryMode=0750
UMask=0077
Environment=HOME=%C/sglang/%i
Environment=PYTHONUNBUFFERED=1
# Without these a crash is noticed a minute later.
Environment=SGLANG_CUDA_COREDUMP_BEFORE_CRASH=0
Environment=SGLANG_PYSPY_DUMP_BEFORE_CRASH=0
# The third layer of the read-back: NCCL's own words, one file a rank.
{nccl_log}

# No MemoryDenyWriteExecute: kernels are compiled at run time. No RemoveIPC: it would take the shared memory of other instances too.
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=tmpfs
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
DevicePolicy=closed
{devices}
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
# Netlink: NCCL asks for the network interfaces.
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""


def devices_unit_text() -> str:
    """A unit of its own, because what an instance may do with devices holds for its ExecStartPre= too, and is settled before that runs."""
    return """[Unit]
Description=NVIDIA's devices for the instances of SGLang
After=systemd-modules-load.service nvidia-persistenced.service

[Service]
# Without new privileges CUDA cannot make its devices, and after a boot nobody may have made them. Each start of an instance asks again.
Type=oneshot
# A driver that hangs must not keep an instance waiting for ever: without devices it says so itself.
TimeoutStartSec=60
ExecStart=-/bin/sh -c "if command -v nvidia-modprobe; then nvidia-modprobe -u -c 0; fi"
"""


def home_of(name: str) -> str:
    """What the unit sets as HOME: CacheDirectory= of the instance."""
    return f"{CACHE}/{name}"


def exec_start(interpreter: str) -> str:
    return f"ExecStart={systemd_word(interpreter)} -m sglang.launch_server --config ${{RUNTIME_DIRECTORY}}/config.yaml"


def drop_in_text(plan: dict, settings: Settings, paths: list) -> str:
    """``paths``: what the instance reads."""
    lines = ["[Unit]", f"Description=SGLang instance {plan['name']} on port {plan['port']}", "", "[Service]"]
    lines += [
        f"Environment={systemd_word(f'{name}={value}', in_command=False)}"
        for name, value in sorted(plan["environment"].items())
    ]
    more = plan["command"][plan["command"].index("--config") + 2 :]
    if more:
        # What the file cannot carry in this version of SGLang.
        words = " ".join(systemd_word(part) for part in more)
        lines += ["ExecStart=", f"{exec_start(settings.interpreter)} {words}"]
    hidden = [path for path in [settings.interpreter, *paths] if path.startswith(tuple(f"{top}/" for top in HIDDEN))]
    lines += [
        f"BindReadOnlyPaths={_one_path(path)}" for path in dict.fromkeys(_visible(path, settings) for path in hidden)
    ]
    return "\n".join(lines) + "\n"


def _one_path(path: str) -> str:
    """In quotes where it has a colon, which would end the first of two paths."""
    word = systemd_word(path, in_command=False)
    return f'"{word}"' if ":" in word and not word.startswith('"') else word


def _visible(path: str, settings: Settings) -> str:
    """What has to be seen for ``path`` to be of use: of an interpreter its whole environment."""
    return path.rpartition("/bin/")[0] if path == settings.interpreter else path
