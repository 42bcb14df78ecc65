# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known about each NCCL environment variable: data only, the rules are in nccl_validate.

Read from the public NCCL sources and documentation up to 2.30.7, and for 2.31 and 2.32 from the binaries.
NCCL itself never reports an unknown name or a misread value, hence this table.
"""

from __future__ import annotations

from typing import NamedTuple


class Variable(NamedTuple):
    """One variable. `kind` decides how the value is checked; empty strings and tuples mean "nothing to say"."""

    kind: str  # bool01, bytes, enum, enum_flags, func_list, int, level_enum, list, path, string
    default: str
    since: str
    note: str
    if_wrong: str = ""  # what NCCL does with a bad value
    risk: str = ""
    mistaken_for: str = ""  # corrects what is often said of it
    choices: tuple = ()
    case_sensitive: bool = False
    low: int | None = None
    high: int | None = None
    multiple_of: int = 1
    power_of_two: bool = False
    prefixes: str = ""  # characters that may stand in front of a list
    legacy_ints: tuple = ()  # names behind the integers 0, 1, 2, ... where NCCL accepts both
    deprecated: str = ""
    removed: str = ""
    replaced_by: str = ""
    documented: bool = True


VARIABLES = {
    "NCCL_ALGO": Variable(
        kind="func_list",
        default="unset (cost model decides)",
        since="2.5",
        note=(
            "Algorithms allowed. Grammar from 2.24: [func:][^]a,b;func:[^]a - func AllReduce, AllGather, "
            "ReduceScatter, Broadcast, Reduce; only the first part may lack func. No blanks."
        ),
        if_wrong=(
            "Up to 2.23 unknown words skipped, Ring as fallback. 2.24+: WARN, ncclInvalidUsage. 2.31 source: "
            "with PROTO set too, functions ALGO omits get none."
        ),
        risk="A list without Ring leaves some collectives with no algorithm and fails them",
        mistaken_for=(
            "Ring is not the default: as long as this is unset, a cost model picks the algorithm for each function "
            "and each size."
        ),
        choices=("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"),
    ),
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS": Variable(
        kind="bool01",
        default="0",
        since="2.14",
        note=(
            "Give LL buffers to network send/recv too. In 2.14-2.15 source the name was misspelt "
            "(NCCL_NCCL_...), so this spelling works from 2.16."
        ),
        if_wrong="Only the integer 1 acts.",
        risk="Memory grows with ranks in all-to-all",
    ),
    "NCCL_BUFFSIZE": Variable(
        kind="bytes",
        default="4194304",
        since="<=2.3.5",
        note=(
            "Bytes of the Simple-protocol buffer of every connection (channel x peer), split in 8 steps. Also "
            "caps the P2P chunk size."
        ),
        if_wrong="No check: read as integer with no unit (4MB = 4), kept in a C int, so above 2147483647 wraps.",
        risk="Multiplies GPU memory per channel, peer and communicator; absurdly small values are accepted too",
        low=1,
        high=2147483647,
    ),
    "NCCL_CGA_CLUSTER_SIZE": Variable(
        kind="int",
        default="unset (config, else 4)",
        since="2.16",
        note="Thread block cluster size on sm90+; if it does not divide the grid, 1 is used.",
        if_wrong="Above 8: 8. Negative: ignored.",
        low=0,
        high=8,
    ),
    "NCCL_CHECKS_DISABLE": Variable(
        kind="bool01",
        default="0",
        since="2.0.5",
        note="Skipped argument checks in old releases.",
        if_wrong="Never read by any public source tag (2.3.5 and later): no effect, no message.",
        removed="<=2.3.5",
        replaced_by="NCCL_CHECK_POINTERS",
    ),
    "NCCL_CHECK_MODE": Variable(
        kind="enum",
        default="DEFAULT",
        since="2.29.7",
        note="Depth of argument checking: none, local pointers, or cross-rank consistency.",
        if_wrong="Unknown text is logged as set but leaves the mode unchanged.",
        risk="DEBUG_GLOBAL adds communication between ranks to each call",
        choices=("DEFAULT", "DEBUG_LOCAL", "DEBUG_GLOBAL"),
    ),
    "NCCL_CHECK_POINTERS": Variable(
        kind="bool01",
        default="0",
        since="2.2.12",
        note="Validates CUDA pointers on each call.",
        if_wrong="Only the integer 1 acts.",
        risk="Adds latency to each call",
        deprecated="2.29.7",
        replaced_by="NCCL_CHECK_MODE=DEBUG_LOCAL",
    ),
    "NCCL_CHUNK_SIZE": Variable(
        kind="bytes",
        default="0 = automatic",
        since="2.12.7",
        note="Fixes the chunk of send/recv operations.",
        if_wrong="No check.",
        risk="Overrides all chunk tuning, unchecked",
        low=0,
        high=2147483647,
        documented=False,
    ),
    "NCCL_COLLNET_ENABLE": Variable(
        kind="bool01",
        default="0",
        since="2.6",
        note="Allows CollNet algorithms (in-network reduction plugin, e.g. SHARP). Re-read for each communicator.",
        if_wrong="2.27+: an integer other than 0/1 becomes 0. 2.12.10-2.26: only the exact text 1 turns it on.",
        risk="Frameworks toggle it per communicator; do not pin it",
    ),
    "NCCL_COLLNET_NODE_THRESHOLD": Variable(
        kind="int",
        default="2",
        since="2.9.9",
        note="Fewest nodes a communicator needs before CollNet is kept.",
        if_wrong="Unchecked; very low or negative never disables it.",
        low=1,
        high=2147483647,
    ),
    "NCCL_COMM_BLOCKING": Variable(
        kind="bool01",
        default="unset (config, else blocking)",
        since="2.14",
        note="Overrides blocking mode of every communicator.",
        if_wrong="Other numbers are ignored.",
        risk="0 breaks callers that do not poll for completion",
    ),
    "NCCL_COMM_ID": Variable(
        kind="string",
        default="unset",
        since="<=2.3.5",
        note="Fixed host:port for bootstrap instead of a generated unique id.",
        if_wrong="Cannot be parsed or resolved: WARN and rc 4 from ncclGetUniqueId.",
        risk="One fixed port for every communicator and job",
        documented=False,
    ),
    "NCCL_COMM_SPLIT_SHARE_RESOURCES": Variable(
        kind="bool01",
        default="unset (config, else 0)",
        since="2.18.1",
        note="Split communicators share buffers with the parent.",
        if_wrong="Other numbers: INFO and 0.",
        risk="Changes memory use and concurrency of split communicators",
        documented=False,
    ),
    "NCCL_CONF_FILE": Variable(
        kind="path",
        default="$HOME/.nccl.conf (up to 2.29: home from passwd)",
        since="2.23",
        note="Replaces the per-user conf file; /etc/nccl.conf is read in any case. Must be in the real environment.",
        if_wrong=(
            "Unreadable file or ~ in the path: nothing read, no message, and the per-user file is skipped "
            "too. Empty = unset."
        ),
    ),
    "NCCL_CONNECT_ROUND_MAX_PEERS": Variable(
        kind="int",
        default="128",
        since="2.19.4",
        note="Peers connected per round during setup.",
        if_wrong="No check.",
        low=1,
        high=2147483647,
        documented=False,
    ),
    "NCCL_CROSS_NIC": Variable(
        kind="enum",
        default="2",
        since="2.5.6",
        note="Whether a ring or tree may switch NIC from node to node; no effect with one NIC or on a single node.",
        if_wrong=(
            "Not validated: other numbers behave like 0 in the ring search but do not count as disabled elsewhere."
        ),
        choices=("0", "1", "2"),
    ),
    "NCCL_CTA_POLICY": Variable(
        kind="enum_flags",
        default="DEFAULT",
        since="2.27",
        note=(
            "Communicator policy flags; names join with |. Names from 2.29, single digits are the older form "
            "(2 = ZERO from 2.28)."
        ),
        if_wrong=(
            "2.29+: unknown name or digit ignored with INFO. 2.27-2.28: out-of-range integer reset to "
            "DEFAULT. ZERO|EFFICIENCY: WARN, EFFICIENCY dropped."
        ),
        choices=("DEFAULT", "EFFICIENCY", "ZERO", "0", "1", "2"),
    ),
    "NCCL_CUMEM_ENABLE": Variable(
        kind="bool01",
        default="auto (2.19+); 0 in 2.18",
        since="2.18",
        note="Allocate through cuMem VMM calls. Prerequisite of lazy connect, MNNVL and symmetric memory. -2 = auto.",
        if_wrong="Any positive = on without testing support; negatives other than -2 = off.",
        risk="Frameworks may set it themselves; pinning changes their choice",
    ),
    "NCCL_CUMEM_HOST_ENABLE": Variable(
        kind="bool01",
        default="auto: 1 with driver >= 12.6 (2.24+); 0 in 2.23",
        since="2.23",
        note="Use cuMem for host buffers shared between processes instead of /dev/shm files. -1 = auto.",
        if_wrong="Even when forced on, a trial allocation runs; if it fails INFO and /dev/shm is used.",
        risk="Containers without NUMA permission (SYS_NICE) need the fallback",
    ),
    "NCCL_DEBUG": Variable(
        kind="enum",
        default="unset (silent)",
        since="<=2.3.5",
        note="Log level, each including the quieter ones. ATTN exists from 2.32, ABORT is accepted but undocumented.",
        if_wrong=(
            "Unknown word (3, ALL, inf) = silence, no message. Surrounding blanks are accepted only from 2.30.7."
        ),
        risk="INFO and TRACE flood production logs",
        choices=("VERSION", "WARN", "INFO", "TRACE", "ATTN", "ABORT"),
    ),
    "NCCL_DEBUG_FILE": Variable(
        kind="path",
        default="stdout",
        since="2.2.12",
        note=(
            "Log destination; %h host, %p pid. Opened only when the level is above VERSION; truncates an existing file."
        ),
        if_wrong="Cannot be opened: silently stays on stdout. ~ is not expanded.",
        risk="Same name for several ranks clobbers the log",
    ),
    "NCCL_DEBUG_LEVELS": Variable(
        kind="list",
        default="NONE",
        since="2.32",
        note="Extra log levels added to DEBUG; known from the 2.32.3 parameter dump only.",
        if_wrong="Typed parser: one unknown name restores the default.",
        choices=("VERSION", "WARN", "ATTN", "INFO", "ABORT", "TRACE", "ALL"),
        documented=False,
    ),
    "NCCL_DEBUG_SUBSYS": Variable(
        kind="list",
        default="INIT,BOOTSTRAP,ENV (up to 2.22: INIT,ENV)",
        since="2.3.4",
        note="Mask for INFO and TRACE lines; leading ^ inverts the whole list.",
        if_wrong=(
            "Before 2.30.7 unknown names are skipped (an all-unknown list = silence); from then one unknown "
            "name restores the default. Empty = silence."
        ),
        choices=(
            "INIT",
            "COLL",
            "P2P",
            "SHM",
            "NET",
            "GRAPH",
            "TUNING",
            "ENV",
            "ALLOC",
            "ALLOC_HOST",
            "CALL",
            "PROXY",
            "NVLS",
            "BOOTSTRAP",
            "REG",
            "PROFILE",
            "RAS",
            "DESTROY",
            "ALL",
        ),
        prefixes="^",
    ),
    "NCCL_DEBUG_TIMESTAMP_FORMAT": Variable(
        kind="string",
        default='"[%F %T] "',
        since="2.26",
        note="strftime pattern; %1f-%9f adds fractions once, underscores become blanks, empty removes the stamp.",
        if_wrong="Too long for the buffer: default pattern is used.",
    ),
    "NCCL_DEBUG_TIMESTAMP_LEVELS": Variable(
        kind="list",
        default="WARN (2.32: WARN,ATTN)",
        since="2.26",
        note="Which log levels carry a time stamp; leading ^ inverts.",
        if_wrong=(
            "Before 2.30.7 unknown levels are skipped; from then one unknown level restores the default. "
            "Empty = no stamps."
        ),
        choices=("VERSION", "WARN", "INFO", "ABORT", "TRACE", "ALL", "ATTN"),
        prefixes="^",
    ),
    "NCCL_DMABUF_ENABLE": Variable(
        kind="bool01",
        default="1",
        since="2.13",
        note="GPU Direct RDMA registration through Linux dma-buf when kernel, driver and NIC allow.",
        if_wrong="Only 0 disables; any nonzero leaves it on.",
    ),
    "NCCL_ENV_PLUGIN": Variable(
        kind="string",
        default="libnccl-env.so if found",
        since="2.28",
        note=(
            "Plugin that answers NCCL look-ups in place of getenv; public tags carry it from 2.28.7. Read "
            "with plain getenv."
        ),
        if_wrong="Library not found: INFO only, normal environment is used.",
        risk="Once loaded, values in os.environ or conf files may not be what NCCL sees",
    ),
    "NCCL_GDRCOPY_ENABLE": Variable(
        kind="bool01",
        default="0",
        since="2.9.6",
        note="Use GDRCopy for small control words. First documented with 2.31.",
        if_wrong='Only the integer 1 acts; "true" reads as 0.',
    ),
    "NCCL_GDRCOPY_FIFO_ENABLE": Variable(
        kind="bool01",
        default="1",
        since="2.9.6",
        note="With GDRCopy: put the work FIFO in mapped GPU memory. First documented with 2.31.",
        if_wrong="Only the integer 1 acts.",
    ),
    "NCCL_GDRCOPY_FLUSH_ENABLE": Variable(
        kind="bool01",
        default="0",
        since="2.9.6",
        note=(
            "With GDRCopy: flush received data by a mapped read instead of the plugin flush. First documented "
            "with 2.31."
        ),
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_GDRCOPY_SYNC_ENABLE": Variable(
        kind="bool01",
        default="1",
        since="2.12.7",
        note="With GDRCopy: keep network proxy head/tail words in mapped GPU memory. First documented with 2.31.",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_GDR_FLUSH_DISABLE": Variable(
        kind="bool01",
        default="0",
        since="<=2.3.5",
        note="Skips the flush after GPU Direct RDMA receives in the IB transport.",
        if_wrong="Any nonzero integer counts as on.",
        risk="Stale data may be read on GPUs that need the flush",
        documented=False,
    ),
    "NCCL_GRAPH_DUMP_FILE": Variable(
        kind="path",
        default="unset",
        since="2.6.4",
        note="Writes the computed rings and trees as XML, from rank GRAPH_DUMP_FILE_RANK.",
        if_wrong="Cannot be opened: INFO only, no dump.",
        risk="Diagnostics only; the output must not be fed back as GRAPH_FILE elsewhere",
        documented=False,
    ),
    "NCCL_GRAPH_DUMP_FILE_RANK": Variable(
        kind="int",
        default="0",
        since="2.6.4",
        note="Rank that writes GRAPH_DUMP_FILE.",
        if_wrong="A rank that does not exist writes nothing.",
        low=0,
        high=2147483647,
        documented=False,
    ),
    "NCCL_GRAPH_FILE": Variable(
        kind="path",
        default="unset",
        since="2.6.4",
        note="Loads rings and trees from XML and skips the search.",
        if_wrong=(
            "Missing file: WARN, ncclSystemError, init fails. A graph saved for another GPU count: init error "
            "(public reports)."
        ),
        risk="Never in production: valid for exactly one set of GPUs",
        documented=False,
    ),
    "NCCL_GRAPH_MIXING_SUPPORT": Variable(
        kind="bool01",
        default="1 (2.29+: unset leaves graphUsageMode 2)",
        since="2.13",
        note="Allow captured and plain NCCL calls, or parallel graphs, at the same time.",
        if_wrong="2.29+: other numbers ignored with INFO.",
        risk="0 with overlapping launches is unsupported and may hang",
    ),
    "NCCL_GRAPH_REGISTER": Variable(
        kind="bool01",
        default="1 (2.19+); 0 before",
        since="2.11",
        note="Register user buffers of collectives captured in CUDA graphs.",
        if_wrong="Any nonzero integer counts as on.",
        risk="Several GPUs per process plus capture may deadlock",
    ),
    "NCCL_GRAPH_STREAM_ORDERING": Variable(
        kind="bool01",
        default="1",
        since="2.30",
        note="Internal ordering of kernels during graph capture. Public tags have it from 2.30.7.",
        if_wrong="Other numbers ignored with INFO. 0 together with graph mixing: WARN and back to 1.",
        risk="0 shifts all serialisation duty to the application",
    ),
    "NCCL_HOSTID": Variable(
        kind="string",
        default="hostname plus boot id",
        since="2.5.6",
        note="Text hashed to decide which ranks share a host.",
        if_wrong="No check.",
        risk="Same text on two machines makes NCCL treat them as one host",
        documented=False,
    ),
    "NCCL_IB_ADAPTIVE_ROUTING": Variable(
        kind="bool01",
        default="1 on InfiniBand, 0 on RoCE",
        since="2.16",
        note="Marks devices as able to use adaptive routing transfers; needs a matching service level on the fabric.",
        if_wrong="Value is stored as given, any nonzero = on; -2 = automatic.",
    ),
    "NCCL_IB_ADDR_FAMILY": Variable(
        kind="enum",
        default="AF_INET",
        since="2.21",
        note="Address family wanted when the GID is picked automatically (IB_GID_INDEX unset).",
        if_wrong="Unknown or lower-case text: AF_INET stays in force without warning.",
        choices=("AF_INET", "AF_INET6"),
        case_sensitive=True,
    ),
    "NCCL_IB_ADDR_RANGE": Variable(
        kind="string",
        default="unset",
        since="2.21",
        note="CIDR filter (addr/len) for automatic GID choice; must match IB_ADDR_FAMILY.",
        if_wrong=(
            "Missing slash, address of the other family, or length over 32/128: the filter is dropped, INFO at most."
        ),
    ),
    "NCCL_IB_AR_THRESHOLD": Variable(
        kind="bytes",
        default="8192",
        since="2.6",
        note="Message size above which data and completion travel separately so that adaptive routing can be used.",
        if_wrong=(
            "Unchecked; -2 means default. Ignored (INFO) while IB_OOO_RQ is on. Above BUFFSIZE it never triggers."
        ),
        low=0,
        high=2147483647,
    ),
    "NCCL_IB_CUDA_SUPPORT": Variable(
        kind="bool01",
        default="auto",
        since="<=2.3.5",
        note="Old switch for GPU Direct RDMA.",
        if_wrong="Ignored without message since 2.4; use NET_GDR_LEVEL.",
        removed="2.4.0",
        replaced_by="NCCL_NET_GDR_LEVEL",
    ),
    "NCCL_IB_DISABLE": Variable(
        kind="bool01",
        default="0",
        since="<=2.3.5",
        note=(
            "Skips the built-in IB/RoCE transport; external network plugins are not affected. Irrelevant "
            "inside one node."
        ),
        if_wrong="Any nonzero integer disables, unlike P2P_DISABLE and SHM_DISABLE.",
        risk="Multi-node traffic falls back to TCP",
    ),
    "NCCL_IB_ECE_ENABLE": Variable(
        kind="bool01",
        default="1",
        since="2.23",
        note="Exchanges Enhanced Connection Establishment data between HCAs; content is up to the NIC firmware.",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_IB_FIFO_TC": Variable(
        kind="int",
        default="same as IB_TC",
        since="2.22.3",
        note="Separate traffic class for the small credit messages; Ethernet links only in the 2.30 source.",
        if_wrong="Unchecked. 2.22-2.23: 0 counts as not set; 2.24+: -1 does.",
        low=0,
        high=255,
    ),
    "NCCL_IB_GID_INDEX": Variable(
        kind="int",
        default="-1 = pick automatically (2.21+); 0 up to 2.20",
        since="2.1.4",
        note="Row of the GID table for RoCE; current source reads it for Ethernet link layer only.",
        if_wrong="Any negative means automatic. A row the port lacks is not caught here and fails when connecting.",
        risk="Wrong row differs per host and breaks RoCE connectivity",
        low=-1,
        high=255,
    ),
    "NCCL_IB_HCA": Variable(
        kind="list",
        default="all active ports",
        since="<=2.3.5",
        note=(
            "Selects RDMA devices for the built-in IB transport: name[:port[:rail[:plane]]], ^ excludes, = "
            "exact. Rail and plane fields from 2.30.7."
        ),
        if_wrong=(
            "No match is silent: IB reports no device and NCCL moves on to the next network, usually TCP. "
            "Entries past 32 are dropped."
        ),
        risk="A typo quietly turns RDMA into TCP sockets",
        prefixes="^=",
    ),
    "NCCL_IB_MERGE_NICS": Variable(
        kind="bool01",
        default="1",
        since="2.20",
        note="Merge ports of a dual-port NIC into one logical device.",
        if_wrong="Only 0 disables; any nonzero leaves it on.",
    ),
    "NCCL_IB_OOO_RQ": Variable(
        kind="bool01",
        default="0",
        since="2.30",
        note="Lets mlx5 receivers consume receive work requests out of order.",
        if_wrong=(
            "Any nonzero = on. Without adaptive routing or support on both ends: WARN, ncclInternalError when "
            "connecting."
        ),
        risk="Forcing it on unsupported NICs fails the job",
    ),
    "NCCL_IB_PCI_RELAXED_ORDERING": Variable(
        kind="enum",
        default="2",
        since="2.12",
        note="Relaxed ordering for IB memory registration: off, forced, automatic.",
        if_wrong=(
            "Other numbers act as 0. In the 2.30 source 1 and 2 take the same path, 1 does not fail when unsupported."
        ),
        choices=("0", "1", "2"),
    ),
    "NCCL_IB_PKEY": Variable(
        kind="int",
        default="0",
        since="2.8.3",
        note="Partition key table index of NCCL QPs.",
        if_wrong="Unchecked, handed to the QP attributes.",
        low=0,
        high=65535,
        documented=False,
    ),
    "NCCL_IB_QPS_PER_CONNECTION": Variable(
        kind="int",
        default="1",
        since="2.10",
        note="Queue pairs per connection, multiplied by the ports of a merged NIC.",
        if_wrong=(
            "No bound check found: more than 128 after multiplying overruns the 128-entry QP table; 0 leaves no QP."
        ),
        risk="Memory corruption above 128 divided by merged ports",
        low=1,
        high=128,
    ),
    "NCCL_IB_RETRY_CNT": Variable(
        kind="int",
        default="7",
        since="2.1.15",
        note="Verbs retry count before a QP error.",
        if_wrong="Unchecked, copied into the QP attributes; the verbs layer decides.",
        low=0,
        high=7,
    ),
    "NCCL_IB_RETURN_ASYNC_EVENTS": Variable(
        kind="bool01",
        default="1",
        since="2.23",
        note="Stop IB traffic with an error once a fatal asynchronous device event was seen.",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_IB_ROCE_VERSION_NUM": Variable(
        kind="enum",
        default="2",
        since="2.21",
        note="RoCE version preferred when the GID is picked automatically.",
        if_wrong="Other numbers match no GID, so no entry gets the preference.",
        choices=("1", "2"),
    ),
    "NCCL_IB_SL": Variable(
        kind="int",
        default="0 (2.26+: communicator traffic class if given, else 0)",
        since="2.1.4",
        note="InfiniBand service level of NCCL QPs.",
        if_wrong="Unchecked, handed to the QP attributes. From 2.26 the value -1 means not set.",
        low=0,
        high=15,
    ),
    "NCCL_IB_SPLIT_DATA_ON_QPS": Variable(
        kind="bool01",
        default="0 (2.20+); 1 in 2.18-2.19",
        since="2.18",
        note="Split each message over all QPs (1) or rotate messages over QPs (0).",
        if_wrong="In the 2.30 source only 1 selects splitting.",
    ),
    "NCCL_IB_TC": Variable(
        kind="int",
        default="0 (2.26+: communicator traffic class if given, else 0)",
        since="2.1.15",
        note="Traffic class byte; in the 2.30 source it is applied on Ethernet links only (RoCE).",
        if_wrong="Unchecked. From 2.26 the value -1 means not set.",
        low=0,
        high=255,
    ),
    "NCCL_IB_TIMEOUT": Variable(
        kind="int",
        default="20 (2.23+); 18 (2.14-2.22); 14 before",
        since="<=2.3.5",
        note="Exponent of the verbs ack time-out (4.096 us * 2^n) per retry, multiplied by IB_RETRY_CNT.",
        if_wrong=(
            "Unchecked, copied into the QP attributes; documented effect of 0 or 32 and more is an endless wait."
        ),
        risk="High values delay failure detection by minutes",
        low=0,
        high=31,
    ),
    "NCCL_IB_USE_INLINE": Variable(
        kind="bool01",
        default="0",
        since="2.8.3",
        note="Send the small control messages inline.",
        if_wrong="Any nonzero integer counts as on.",
        documented=False,
    ),
    "NCCL_IGNORE_COLLNET_MISMATCH": Variable(
        kind="bool01",
        default="0",
        since="2.30",
        note="Tolerate ranks that see different numbers of CollNet devices.",
        if_wrong="Any nonzero integer = tolerate.",
        risk="Hides a fabric misconfiguration that can fail later",
    ),
    "NCCL_IGNORE_CPU_AFFINITY": Variable(
        kind="bool01",
        default="0",
        since="2.4.6",
        note="Bind helper threads by GPU locality only, disregarding the affinity mask inherited from the job.",
        if_wrong="Any nonzero integer counts as on.",
        risk="Threads may leave the CPUs that the scheduler granted",
    ),
    "NCCL_IGNORE_DISABLED_P2P": Variable(
        kind="enum",
        default="0",
        since="2.12.7",
        note="1 silences the complaint when the driver reports P2P off; 2 skips the driver check, so P2P is assumed.",
        if_wrong="Other nonzero numbers act like 1.",
        risk="2 uses P2P the driver calls broken: hang or wrong data",
        choices=("0", "1", "2"),
        documented=False,
    ),
    "NCCL_IGNORE_NET_MISMATCH": Variable(
        kind="bool01",
        default="1",
        since="2.30",
        note="Tolerate ranks that see different numbers of network devices.",
        if_wrong="Any nonzero integer = tolerate; 0 makes a mismatch WARN and ncclSystemError at init.",
    ),
    "NCCL_IPC_USE_ABSTRACT_SOCKET": Variable(
        kind="bool01",
        default="1",
        since="2.29",
        note="Abstract Unix sockets for handle exchange between local ranks; 0 uses a socket file under /tmp.",
        if_wrong="Any nonzero integer counts as on.",
        risk="Abstract sockets are per network namespace, containers that differ there cannot talk",
    ),
    "NCCL_LAUNCH_MODE": Variable(
        kind="enum",
        default="PARALLEL",
        since="2.1.0",
        note="Kernel launch style for one process driving several GPUs.",
        if_wrong=(
            "2.9+: anything but GROUP is PARALLEL; up to 2.8 anything but PARALLEL was GROUP. Upper case "
            "required up to 2.12."
        ),
        choices=("PARALLEL", "GROUP"),
    ),
    "NCCL_LAUNCH_ORDER_IMPLICIT": Variable(
        kind="bool01",
        default="0",
        since="2.26",
        note="Order operations of different communicators on a device by host program order.",
        if_wrong="Any nonzero integer counts as on.",
        risk="Serialises on CUDA/driver below 12.3",
    ),
    "NCCL_LAUNCH_RACE_FATAL": Variable(
        kind="bool01",
        default="1",
        since="2.26",
        note="Report host threads racing to launch on one device as ncclInvalidUsage.",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_LEGACY_CUDA_REGISTER": Variable(
        kind="bool01",
        default="0",
        since="2.24",
        note="Also register plain cudaMalloc memory.",
        if_wrong="Any nonzero integer counts as on.",
        risk="Implicit synchronisation, possible hang",
    ),
    "NCCL_LL128_BUFFSIZE": Variable(
        kind="bytes",
        default="4915200",
        since="2.7.3",
        note="LL128-protocol buffer of every connection; allocated even when LL128 is off.",
        if_wrong="No check at all, kept in a C int; -2 = default.",
        risk="Undocumented; memory grows per channel, peer and communicator like BUFFSIZE",
        low=1,
        high=2147483647,
        documented=False,
    ),
    "NCCL_LL128_C2C": Variable(
        kind="bool01",
        default="1",
        since="2.27.3",
        note="Lets automatic LL128 extend to C2C and PXN paths on sm90+.",
        if_wrong="Any nonzero integer counts as on.",
        documented=False,
    ),
    "NCCL_LL128_NTHREADS": Variable(
        kind="int",
        default="640",
        since="2.5.6",
        note="CUDA threads per block for LL128 kernels.",
        if_wrong="Not a multiple of 32: 640. Above 640: 640. Below 160: 160. 0 or negative: default.",
        low=160,
        high=640,
        multiple_of=32,
        documented=False,
    ),
    "NCCL_LL_BUFFSIZE": Variable(
        kind="bytes",
        default="524288",
        since="2.7.3",
        note="LL-protocol buffer of every connection; allocated even when PROTO excludes LL.",
        if_wrong="No check at all, kept in a C int; -2 = default.",
        risk="Undocumented; memory grows per channel, peer and communicator like BUFFSIZE",
        low=1,
        high=2147483647,
        documented=False,
    ),
    "NCCL_LL_THRESHOLD": Variable(
        kind="bytes",
        default="depends on rank count",
        since="2.1",
        note="Old size limit for the LL protocol; the cost model and PROTO took over.",
        if_wrong="Ignored without message since 2.5.",
        removed="2.5",
        replaced_by="NCCL_PROTO",
    ),
    "NCCL_LOCAL_REGISTER": Variable(
        kind="bool01",
        default="1",
        since="2.19",
        note="Honour buffers that the application registered with ncclCommRegister.",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_MAX_CTAS": Variable(
        kind="int",
        default="unset (config, else 64; 32 before 2.25)",
        since="2.17",
        note="Most CUDA blocks per communicator; overrides the program config. With MAX_NCHANNELS the smaller wins.",
        if_wrong=(
            "Above the cap: capped. 0 or negative: ignored with INFO (2.25+), taken over unchecked in 2.20 source."
        ),
        risk="Too low starves bandwidth",
        low=1,
        high=64,
    ),
    "NCCL_MAX_NCHANNELS": Variable(
        kind="int",
        default="64 (2.25+); 32 (2.5-2.24)",
        since="2.5.0",
        note="Upper bound on channels, one CUDA block each. Alias MAX_NRINGS is used only when this is unset.",
        if_wrong="Above the cap: capped. Below 1: INFO and 1.",
        risk="Too low starves bandwidth",
        mistaken_for=(
            "16 is not the default: the cap is 64, and 32 before 2.25. 16 was the limit of the search for rings before "
            "2.25, and is the number of NVLS channels on sm90. Two GPUs on PCIe normally get 2 to 4."
        ),
        low=1,
        high=64,
        deprecated="2.17",
        replaced_by="NCCL_MAX_CTAS",
    ),
    "NCCL_MAX_NRINGS": Variable(
        kind="int",
        default="unset",
        since="2.0.5",
        note="Old name of MAX_NCHANNELS, still read when that is unset.",
        if_wrong="Same limits as MAX_NCHANNELS.",
        low=1,
        high=64,
        deprecated="2.5",
        replaced_by="NCCL_MAX_NCHANNELS",
        documented=False,
    ),
    "NCCL_MAX_P2P_NCHANNELS": Variable(
        kind="int",
        default="64 (2.25+); 32 before",
        since="2.7.3",
        note="Upper bound on channels for send/recv; rounded up to a power of two.",
        if_wrong="Not range-checked.",
        low=1,
        high=64,
        documented=False,
    ),
    "NCCL_MEM_SYNC_DOMAIN": Variable(
        kind="enum",
        default="1",
        since="2.16",
        note="CUDA memory sync domain of NCCL kernels (sm90+, CUDA 12+).",
        if_wrong="Unchecked, handed to the kernel launch attribute.",
        choices=("0", "1"),
    ),
    "NCCL_MIN_CTAS": Variable(
        kind="int",
        default="unset (config, else 1)",
        since="2.17",
        note="Fewest CUDA blocks; overrides the program config. With MIN_NCHANNELS the larger wins.",
        if_wrong=(
            "Above MAX_CTAS: lowered to it. 0 or negative: ignored with INFO (2.25+), taken over unchecked in "
            "2.20 source."
        ),
        risk="More SMs and buffer memory, slower small messages",
        low=1,
        high=64,
    ),
    "NCCL_MIN_NCHANNELS": Variable(
        kind="int",
        default="0 = no minimum",
        since="2.5.0",
        note=(
            "Lower bound on channels; rings are duplicated to reach it. Applied after MAX_NCHANNELS, so a "
            "larger MIN wins. Docs list up to 32."
        ),
        if_wrong="Above the cap (64 from 2.25, 32 before): capped, INFO. Negative: 0.",
        risk="More SMs and more buffer memory for every communicator",
        low=1,
        high=64,
        deprecated="2.17",
        replaced_by="NCCL_MIN_CTAS",
    ),
    "NCCL_MIN_NRINGS": Variable(
        kind="int",
        default="unset",
        since="2.2.0",
        note="Old name of MIN_NCHANNELS, still read when that is unset.",
        if_wrong="Same limits as MIN_NCHANNELS.",
        low=1,
        high=64,
        deprecated="2.5",
        replaced_by="NCCL_MIN_NCHANNELS",
        documented=False,
    ),
    "NCCL_MIN_P2P_NCHANNELS": Variable(
        kind="int",
        default="1",
        since="2.7.3",
        note="Lower bound on channels for send/recv; rounded up to a power of two.",
        if_wrong="Not range-checked.",
        risk="Raises memory of all-to-all: 12 MiB per channel and peer at default buffers",
        low=1,
        high=64,
        documented=False,
    ),
    "NCCL_MNNVL_CLIQUE_ID": Variable(
        kind="int",
        default="-1 = from fabric manager",
        since="2.25",
        note="Replaces the clique id to split a domain softly. Already in source 2.23.4.",
        if_wrong="Current source: -2 derives it from the rack serial number. No other check.",
        risk="Ranks with unequal values stop sharing NVLink",
    ),
    "NCCL_MNNVL_ENABLE": Variable(
        kind="enum",
        default="2",
        since="2.21",
        note="Multi-node NVLink. Needs cuMem and a working IMEX domain.",
        if_wrong="Other numbers act like 2. 1 requests it even on one node.",
        risk="A capable system with broken IMEX fails init unless this is 0",
        choices=("0", "1", "2"),
    ),
    "NCCL_MNNVL_UUID": Variable(
        kind="int",
        default="-1 = from fabric manager",
        since="2.25",
        note="Replaces the NVLink domain id (same 64 bits in both halves).",
        if_wrong="-1 cannot be used as an id; no other check.",
        risk="Wrong ids join GPUs that are not connected",
    ),
    "NCCL_MULTI_RANK_GPU_ENABLE": Variable(
        kind="bool01",
        default="0",
        since="2.30",
        note="Allows two ranks of one communicator on the same GPU or partition.",
        if_wrong="Any nonzero integer counts as on; when off, two ranks on one GPU fail init.",
        risk="Experimental; running out of SMs or memory hangs NCCL",
    ),
    "NCCL_NCHANNELS_PER_NET_PEER": Variable(
        kind="int",
        default="auto",
        since="2.12.7",
        note="Channels per remote peer for send/recv over the network.",
        if_wrong="2.28+: below 1 ignored with INFO.",
        low=1,
        high=64,
        documented=False,
    ),
    "NCCL_NET": Variable(
        kind="string",
        default="unset (best available)",
        since="2.10",
        note=(
            "Forces one network by name: IB, Socket, or the name a plugin reports. Overrides the netName of "
            "every communicator."
        ),
        if_wrong="No loaded network has that name: WARN, ncclInvalidUsage, communicator creation fails.",
        risk="Naming a plugin network makes single-node jobs fail where the plugin is absent",
    ),
    "NCCL_NETDEVS_POLICY": Variable(
        kind="enum",
        default="AUTO",
        since="2.28",
        note="How many local NICs each GPU may use: shared by topology, at most N, or all.",
        if_wrong="Unrecognised text or MAX with N below 1: INFO and AUTO.",
        choices=("AUTO", "ALL", "MAX:<n>"),
    ),
    "NCCL_NET_DISABLE_INTRA": Variable(
        kind="bool01",
        default="0 (2.12.10+)",
        since="2.12.7",
        note="Never route local GPU pairs through the NIC.",
        if_wrong="Only the integer 1 acts.",
        documented=False,
    ),
    "NCCL_NET_FORCE_FLUSH": Variable(
        kind="bool01",
        default="0 (2.19+); 1 in 2.15-2.18",
        since="2.15.1",
        note="Always flush after network receives, also on sm90+.",
        if_wrong="Any nonzero integer counts as on.",
        documented=False,
    ),
    "NCCL_NET_GDR_C2C": Variable(
        kind="bool01",
        default="1 (2.27+); 0 in 2.26",
        since="2.26",
        note="GPU Direct RDMA through a CPU that is tied to the GPU by C2C (Grace).",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_NET_GDR_LEVEL": Variable(
        kind="level_enum",
        default="PXB (2.30: P2C while NET_GDR_C2C is on)",
        since="2.3.4",
        note=(
            "Greatest GPU-NIC distance for GPU Direct RDMA. Called IB_GDR_LEVEL before 2.4. Ints 0-4 = "
            "LOC,PIX,PXB,PHB,SYS. NVL and others parse too."
        ),
        if_wrong="Case-sensitive; unknown text is silently ignored. Ints above 4 = SYS.",
        risk="Forcing a long distance can be slower than host staging",
        choices=("LOC", "PIX", "PXB", "PHB", "SYS"),
        case_sensitive=True,
        legacy_ints=("LOC", "PIX", "PXB", "PHB", "SYS"),
    ),
    "NCCL_NET_GDR_READ": Variable(
        kind="bool01",
        default="auto",
        since="<=2.3.5",
        note="GPU Direct RDMA for sends. Auto in source: on for sm80 and newer (2.19+), older GPUs only with NVLink.",
        if_wrong="Any positive = on; negative = auto.",
        risk="On PCIe-only hosts reads from GPU memory can be slower",
    ),
    "NCCL_NET_MERGE_LEVEL": Variable(
        kind="level_enum",
        default="PORT",
        since="2.24.3",
        note="Greatest distance at which NICs are merged into one virtual device.",
        if_wrong=(
            "Value must start with a name, case-sensitive; anything else counts as LOC, INFO in subsystem GRAPH."
        ),
        choices=("LOC", "PORT", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"),
        case_sensitive=True,
        documented=False,
    ),
    "NCCL_NET_MERGE_POLICY": Variable(
        kind="enum",
        default="ALL",
        since="2.30.5",
        note="Whether NIC merging may cross rails. First public tag 2.30.7.",
        if_wrong="Unknown text: WARN and ALL.",
        choices=("ALL", "RAIL"),
    ),
    "NCCL_NET_PLUGIN": Variable(
        kind="string",
        default="libnccl-net.so if found",
        since="2.11",
        note=(
            'Library name, path or suffix of network plugins; comma list from 2.27; "none" is a keyword from '
            "2.28 (before, just a name not found)."
        ),
        if_wrong="Library not found: INFO only, built-in IB/Socket are used.",
    ),
    "NCCL_NET_SHARED_BUFFERS": Variable(
        kind="bool01",
        default="1",
        since="2.8",
        note="One buffer pool for all remote send/recv peers instead of one buffer per peer.",
        if_wrong="Any nonzero integer counts as on; -2 = default.",
        risk="0 gives every remote peer its own buffers, memory rises accordingly",
    ),
    "NCCL_NET_SHARED_COMMS": Variable(
        kind="bool01",
        default="1",
        since="2.12",
        note="Share network connections between peers when PXN aggregates.",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_NO_CACHE": Variable(
        kind="list",
        default="unset",
        since="2.29.7",
        note="Full variable names, or ALL, whose values are re-read instead of cached.",
        if_wrong="Unknown names are kept and never match.",
        risk="Values may change between ranks or calls",
        documented=False,
    ),
    "NCCL_NSOCKS_PERTHREAD": Variable(
        kind="int",
        default="1; AWS 8",
        since="2.4.8",
        note="Sockets opened per helper thread; multiplied by SOCKET_NTHREADS, so it does nothing while that is 0.",
        if_wrong="Product with SOCKET_NTHREADS above 64: WARN and reduced. Negatives unchecked.",
        low=1,
        high=64,
    ),
    "NCCL_NTHREADS": Variable(
        kind="int",
        default="512; 256 for Ring/Simple when ring bandwidth is PCIe-class (<= 12 GB/s)",
        since="<=2.3.5",
        note=(
            "CUDA threads per block of Ring Simple/LL kernels, not CPU threads. 2.30: Tree and PAT run 640 "
            "regardless; NVLS, CollNet, LL128, send/recv ignore it."
        ),
        if_wrong="Not a multiple of 32: 512. Above 512: 512. Below 64: 64. 0 or negative: default. INFO only.",
        risk="Lower values cut bandwidth",
        mistaken_for=(
            "512 does not dedicate 512 CPU threads: these are CUDA threads of one block, and each channel is one block. "
            "512 is the default already, except 256 for Ring with Simple over slow PCIe. The threads on the CPU are "
            "SOCKET_NTHREADS."
        ),
        choices=("64", "128", "256", "512"),
        low=64,
        high=512,
    ),
    "NCCL_NVB_DISABLE": Variable(
        kind="bool01",
        default="0",
        since="2.11",
        note="No NVLink routing through a third GPU. Already in source 2.9.9.",
        if_wrong="Any nonzero integer disables.",
    ),
    "NCCL_NVB_PRECONNECT": Variable(
        kind="bool01",
        default="1",
        since="2.9.9",
        note="Connect GPUs reached through another GPU already at init.",
        if_wrong="Any nonzero integer counts as on.",
        documented=False,
    ),
    "NCCL_NVLS_CHUNKSIZE": Variable(
        kind="bytes",
        default="131072 (tuned per topology on sm100 multi-node)",
        since="2.21.5",
        note="NVLS step size; buffer per head = channels x 2 x 8 x this.",
        if_wrong="No check.",
        risk="NVLS buffer memory grows in proportion",
        low=1,
        high=2147483647,
        documented=False,
    ),
    "NCCL_NVLS_ENABLE": Variable(
        kind="enum",
        default="2 (2.18+)",
        since="2.17",
        note=(
            "NVLink SHARP multicast. Needs NVSwitch and sm90+; skipped for <=2 GPUs up to 2.27, for 1 GPU from 2.28."
        ),
        if_wrong="Any other nonzero acts like 1: multicast is assumed without asking the driver.",
        risk="Extra GPU memory; failed multicast allocation fails init (silent fallback only in 2.27-2.28)",
        choices=("0", "1", "2"),
    ),
    "NCCL_NVLS_NCHANNELS": Variable(
        kind="int",
        default="16 on sm90; 24 or 32 on sm100",
        since="2.17.1",
        note="Channels used by NVLS, clamped between MIN_CTAS and MAX_CTAS in the 2.30 source.",
        if_wrong="2.27+: 0 or negative = automatic with INFO.",
        risk="NVLS buffer memory grows in proportion",
        low=1,
        high=64,
        documented=False,
    ),
    "NCCL_NVTX_DISABLE": Variable(
        kind="bool01",
        default="0",
        since="2.28.3",
        note="No NVTX ranges from NCCL.",
        if_wrong="Any nonzero integer counts as on.",
        documented=False,
    ),
    "NCCL_OOB_NET_ENABLE": Variable(
        kind="bool01",
        default="0",
        since="2.23",
        note="Runs the init-time allgather over the NCCL network plugin instead of TCP.",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_OOB_NET_IFNAME": Variable(
        kind="list",
        default="device 0",
        since="2.23",
        note=(
            "Network device for that init traffic; read only when OOB_NET_ENABLE is on. Same ^ and = syntax "
            "as IB_HCA, first match wins."
        ),
        if_wrong="Nothing matches: WARN and ncclInvalidArgument, init fails.",
        prefixes="^=",
    ),
    "NCCL_P2P_DIRECT_DISABLE": Variable(
        kind="bool01",
        default="0",
        since="2.12.12",
        note="For GPUs driven by one process: do not touch peer user buffers directly, go through IPC-style buffers.",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_P2P_DISABLE": Variable(
        kind="bool01",
        default="0",
        since="<=2.3.5",
        note=(
            "Turns off direct GPU-to-GPU copies; traffic inside a node then goes through host memory (SHM). "
            "Beats P2P_LEVEL."
        ),
        if_wrong="Only the integer 1 acts (all source tags); 2, true or yes do nothing and say nothing.",
        risk="Removes NVLink and PCIe peer traffic, large slowdown",
    ),
    "NCCL_P2P_LEVEL": Variable(
        kind="level_enum",
        default="2.23+: PXB, but SYS on x86 AMD with <=2 GPUs; up to 2.22: PXB on Intel/ARM/Zhaoxin, SYS on AMD",
        since="2.3.4",
        note=(
            "Greatest GPU-to-GPU distance at which direct P2P is used. Legacy ints 0-4 = LOC,PIX,PXB,PHB,SYS. "
            "NVB,C2C,P2C,PXN also parse."
        ),
        if_wrong=(
            "Case-sensitive; unknown text (sys) is silently ignored. Ints above 4 = SYS. NVML must still "
            "report P2P as OK."
        ),
        risk="PHB/SYS on hosts with IOMMU or ACS redirect can hang the first collective",
        mistaken_for=(
            "SYS does not force traffic through system memory, it is the reverse: it permits direct P2P at any distance, "
            "also across the link between two sockets. Host memory is used where P2P is not: with LOC, with "
            "P2P_DISABLE=1, and beyond the level."
        ),
        choices=("LOC", "NVL", "PIX", "PXB", "PHB", "SYS"),
        case_sensitive=True,
        legacy_ints=("LOC", "PIX", "PXB", "PHB", "SYS"),
    ),
    "NCCL_P2P_LL_THRESHOLD": Variable(
        kind="bytes",
        default="16384",
        since="2.14",
        note="Per-channel payload up to which send/recv uses LL.",
        if_wrong="Unchecked; 0 or negative stops LL for non-empty messages.",
        low=0,
        high=2147483647,
    ),
    "NCCL_P2P_NET_CHUNKSIZE": Variable(
        kind="bytes",
        default="131072 (doubled on ARM with sm100+ in 2.30)",
        since="2.14",
        note="Chunk of send/recv over the network; sizes the shared network pool.",
        if_wrong="Unchecked below; larger than BUFFSIZE/8 is cut to BUFFSIZE/8.",
        risk="Raises network pool memory in step",
        low=1,
        high=2147483647,
    ),
    "NCCL_P2P_NVL_CHUNKSIZE": Variable(
        kind="bytes",
        default="524288",
        since="2.16.2",
        note="Send/recv chunk on a single node that is all NVLink.",
        if_wrong="Larger than BUFFSIZE/8 is cut to BUFFSIZE/8; no lower check.",
        low=1,
        high=2147483647,
        documented=False,
    ),
    "NCCL_P2P_PCI_CHUNKSIZE": Variable(
        kind="bytes",
        default="131072",
        since="2.16.2",
        note="Send/recv chunk on a single node without full NVLink.",
        if_wrong="Larger than BUFFSIZE/8 is cut to BUFFSIZE/8; no lower check.",
        low=1,
        high=2147483647,
        documented=False,
    ),
    "NCCL_P2P_PXN_LEVEL": Variable(
        kind="enum",
        default="2",
        since="2.12",
        note="Use of PXN for send/recv: never, when the far NIC is off the PCI switch, always.",
        if_wrong="Other numbers select neither mode, so no PXN proxy.",
        choices=("0", "1", "2"),
    ),
    "NCCL_P2P_READ_ENABLE": Variable(
        kind="bool01",
        default="auto: 1 for sm80 pairs on NVLink, else 0",
        since="2.7.3",
        note="Receiver reads from the sender instead of the sender writing; moves the Simple buffer to the sender.",
        if_wrong="Any value but -2 is taken as given, nonzero = read.",
        documented=False,
    ),
    "NCCL_P2P_USE_CUDA_MEMCPY": Variable(
        kind="bool01",
        default="0",
        since="2.13.4",
        note="Copy-engine transfers for P2P instead of SM copies.",
        if_wrong="Any nonzero integer counts as on.",
        risk="Experimental path",
        documented=False,
    ),
    "NCCL_PARAM_DUMP_ALL": Variable(
        kind="bool01",
        default="0",
        since="2.30.3",
        note="Makes ncclParamDumpAll() list private typed parameters; works without a GPU.",
        if_wrong="Only 1/T/TRUE/0/F/FALSE are read.",
        documented=False,
    ),
    "NCCL_PAT_ENABLE": Variable(
        kind="enum",
        default="2",
        since="2.23.4",
        note="PAT algorithm: off, on, automatic (one GPU per node).",
        if_wrong="Any number but 2 is taken as the on/off value.",
        choices=("0", "1", "2"),
        documented=False,
    ),
    "NCCL_PROFILER_PLUGIN": Variable(
        kind="string",
        default="libnccl-profiler.so if found",
        since="2.23.4",
        note=(
            "Library name, path or suffix of a profiler plugin; STATIC_PLUGIN looks in the program itself; "
            '"none" disables from 2.28.'
        ),
        if_wrong="Library not found: INFO only, no profiling.",
        risk="Adds overhead to every operation while loaded",
    ),
    "NCCL_PROTO": Variable(
        kind="func_list",
        default="LL,Simple plus LL128 where judged safe",
        since="2.5",
        note=(
            "Protocols allowed; same grammar as ALGO. Listing all three is not the default: it takes LL128 "
            "out of automatic mode."
        ),
        if_wrong=(
            "Up to 2.23 unknown words skipped; 2.24+: WARN, ncclInvalidUsage. Up to 2.30 a ^ list that omits "
            "LL128 forces it on; 2.31 source re-tests it."
        ),
        risk="LL128 forced on PCIe or untested paths can corrupt data; only ^LL128 is a safe workaround",
        choices=("LL", "LL128", "Simple"),
    ),
    "NCCL_PROXY_CPUSET": Variable(
        kind="string",
        default="unset",
        since="2.28.3",
        note="CPU list for the proxy threads.",
        if_wrong="Cannot be parsed: INFO and ignored.",
        documented=False,
    ),
    "NCCL_PXN_C2C": Variable(
        kind="bool01",
        default="1 (2.28+); 0 in 2.27",
        since="2.27",
        note="Allows PXN through a peer GPU reached by C2C plus PCIe.",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_PXN_DISABLE": Variable(
        kind="bool01",
        default="0",
        since="2.12",
        note="No use of a NIC attached to another GPU reached over NVLink.",
        if_wrong="Use 0 or 1 only: other numbers are half-applied, some code tests for 0 and some for 1.",
    ),
    "NCCL_RAS_ADDR": Variable(
        kind="string",
        default="localhost:28028",
        since="2.24",
        note="host:port of the RAS client socket; IPv6 in square brackets.",
        if_wrong="Unparsable or busy: INFO, no client socket, job goes on.",
        risk="A non-loopback address opens the query port to other hosts",
    ),
    "NCCL_RAS_ENABLE": Variable(
        kind="bool01",
        default="1",
        since="2.24",
        note="Background health-query thread and its TCP port (28028 on localhost).",
        if_wrong="Only the integer 1 keeps it on; 2 or text turns it off.",
    ),
    "NCCL_RAS_TIMEOUT_FACTOR": Variable(
        kind="int",
        default="1",
        since="2.24",
        note="Multiplies all RAS time-outs.",
        if_wrong="Unchecked: 0 or negative makes the time-outs expire at once.",
        low=1,
        high=2147483647,
    ),
    "NCCL_RUNTIME_CONNECT": Variable(
        kind="bool01",
        default="1",
        since="2.22",
        note="Connect channels at first use instead of init; effective only when all ranks have cuMem enabled.",
        if_wrong="Any nonzero integer counts as on.",
        risk="When on, memory seen right after init understates the peak",
    ),
    "NCCL_SET_STACK_SIZE": Variable(
        kind="bool01",
        default="0",
        since="2.9",
        note="Raise the CUDA stack limit once to the largest NCCL kernel need.",
        if_wrong="Only the integer 1 acts.",
    ),
    "NCCL_SET_THREAD_NAME": Variable(
        kind="bool01",
        default="0",
        since="2.12",
        note="Gives NCCL CPU threads readable names.",
        if_wrong=(
            "From 2.30.7 only 1/T/TRUE/0/F/FALSE are read, anything else = 0; before, only the integer 1 turned it on."
        ),
    ),
    "NCCL_SHM_DISABLE": Variable(
        kind="bool01",
        default="0",
        since="<=2.3.5",
        note=(
            "Turns off the host shared-memory transport between GPUs of a node; the network is then used "
            "where P2P is impossible."
        ),
        if_wrong="Only the integer 1 acts.",
        risk="With P2P off as well, local traffic goes through the NIC or TCP",
    ),
    "NCCL_SHM_LOCALITY": Variable(
        kind="enum",
        default="2",
        since="2.13.4",
        note="Side that owns the shared-memory buffers: 1 sender, 2 receiver.",
        if_wrong="Other numbers: WARN and 2.",
        choices=("1", "2"),
        documented=False,
    ),
    "NCCL_SHM_USE_CUDA_MEMCPY": Variable(
        kind="bool01",
        default="0",
        since="2.13.4",
        note="Copy-engine mode of the SHM transport.",
        if_wrong="Ignored without message from public tag 2.30.7 on.",
        removed="2.30.7",
        documented=False,
    ),
    "NCCL_SINGLE_RING_THRESHOLD": Variable(
        kind="bytes",
        default="262144 (sm70+); 131072",
        since="2.1",
        note="Old limit below which one ring was used.",
        if_wrong="Ignored without message since 2.3.",
        removed="2.3",
    ),
    "NCCL_SOCKET_FAMILY": Variable(
        kind="enum",
        default="unset (first usable family)",
        since="<=2.3.5",
        note="Restricts interface search to IPv4 or IPv6.",
        if_wrong="Any other text, lower case included, is logged as set yet has no effect (tested 2.21.5-2.32.3).",
        choices=("AF_INET", "AF_INET6"),
        case_sensitive=True,
    ),
    "NCCL_SOCKET_IFNAME": Variable(
        kind="list",
        default="auto (ib*, then others; docker/lo/virbr last)",
        since="<=2.3.5",
        note=(
            "Picks the IP interfaces for bootstrap, socket transport and IB out-of-band. Items are name "
            "prefixes; leading ^ excludes, leading = means exact."
        ),
        if_wrong=(
            "Nothing matches: WARN and ncclGetUniqueId fails (rc 3 on 2.21.5, rc 5 on 2.26.5-2.32.3). A value "
            "of 0 or 1 character is treated as unset."
        ),
        risk="One NIC name pushed to a mixed fleet stops every job on hosts lacking it",
        prefixes="^=",
    ),
    "NCCL_SOCKET_MAGIC": Variable(
        kind="int",
        default="0x564ab9f2fc4b9d6c",
        since="2.30.7",
        note=(
            "Handshake constant of internal TCP connections (socket plugin, IB bootstrap, RAS). Docs name no "
            "version; first public tag with it is 2.30.7."
        ),
        if_wrong=(
            "Text that is not wholly numeric: INFO line, built-in value kept. Decimal, 0x and leading-0 octal are read."
        ),
        risk="Ranks with different values cannot connect to each other",
        low=0,
        high=18446744073709551615,
    ),
    "NCCL_SOCKET_NTHREADS": Variable(
        kind="int",
        default="0 helpers per source (docs: 1); AWS 2; gVNIC 4",
        since="2.4.8",
        note=(
            "CPU helper threads per connection of the TCP socket transport only; this is the CPU-side knob "
            "that NTHREADS is mistaken for."
        ),
        if_wrong=(
            "Above 16: WARN and 16. Product with NSOCKS_PERTHREAD above 64: WARN, sockets per thread lowered. "
            "Negatives unchecked."
        ),
        low=1,
        high=16,
    ),
    "NCCL_SOCKET_POLL_TIMEOUT_MSEC": Variable(
        kind="int",
        default="0",
        since="2.28",
        note=(
            "Lets blocked socket progress sleep in poll() instead of spinning (0 = spin). Public source "
            "carries it from tag 2.29.2."
        ),
        if_wrong="Unchecked: a negative makes poll() wait with no limit.",
        low=0,
        high=2147483647,
    ),
    "NCCL_SOCKET_RETRY_CNT": Variable(
        kind="int",
        default="34",
        since="2.24",
        note="How many failed TCP connects (timed out, refused, unreachable) are retried before giving up.",
        if_wrong=(
            "Unchecked: 0 gives up at the first failure, a negative count is never reached, so retrying has no end."
        ),
        low=1,
        high=2147483647,
    ),
    "NCCL_SOCKET_RETRY_SLEEP_MSEC": Variable(
        kind="int",
        default="100",
        since="2.24",
        note="Base delay between connect retries; the n-th retry waits n times this.",
        if_wrong="Unchecked: 0 retries without pause, a negative turns into a very long unsigned sleep.",
        low=1,
        high=2147483647,
    ),
    "NCCL_SYM_GIN_KERNELS_ENABLE": Variable(
        kind="bool01",
        default="1",
        since="2.29.7",
        note="Symmetric kernels that use GPU-initiated networking. Docs call the version 2.29U1.",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_SYM_KERNEL": Variable(
        kind="string",
        default="unset",
        since="2.27.3",
        note=(
            "Picks one symmetric kernel by exact name; 2.31 source parses it like ALGO and it then clears the "
            "other algorithms."
        ),
        if_wrong="Up to 2.30 an unknown name leaves no symmetric kernel; 2.31+: WARN, ncclInvalidUsage.",
        risk="Only for experiments",
        documented=False,
    ),
    "NCCL_THREAD_THRESHOLDS": Variable(
        kind="string",
        default="built in",
        since="2.5.6",
        note=(
            "Six blank-separated sizes (tree LL LL128 Simple, ring LL LL128 Simple) that steer channel and "
            "thread reduction."
        ),
        if_wrong="Fields that do not parse or are negative keep their default.",
        risk="Only for experiments",
        documented=False,
    ),
    "NCCL_TOPO_DUMP_FILE": Variable(
        kind="path",
        default="unset",
        since="2.6",
        note="Writes the detected topology as XML, from rank TOPO_DUMP_FILE_RANK (default 0).",
        if_wrong="Cannot be opened: INFO only, no dump.",
        risk="Overwrites the file at each communicator init",
    ),
    "NCCL_TOPO_DUMP_FILE_RANK": Variable(
        kind="int",
        default="0",
        since="2.6.4",
        note="Rank that writes TOPO_DUMP_FILE.",
        if_wrong="A rank that does not exist writes nothing.",
        low=0,
        high=2147483647,
        documented=False,
    ),
    "NCCL_TOPO_FILE": Variable(
        kind="path",
        default="/var/run/nvidia-topologyd/virtualTopology.xml if present",
        since="2.6",
        note="XML loaded before topology detection; needed on VMs that hide PCI distances.",
        if_wrong=(
            "Missing file: WARN (2.21) or INFO (2.30), detection continues. File that does not parse: init error."
        ),
        risk="A file for another machine shape gives wrong paths or init errors",
    ),
    "NCCL_TREE_THRESHOLD": Variable(
        kind="bytes",
        default="depends on rank count",
        since="2.4",
        note="Old size limit between tree and ring; the cost model and ALGO took over.",
        if_wrong="Ignored without message since 2.5.",
        removed="2.5",
        replaced_by="NCCL_ALGO",
    ),
    "NCCL_TUNER_PLUGIN": Variable(
        kind="string",
        default="libnccl-tuner.so, else tuner symbols of the net plugin",
        since="2.19.1",
        note=(
            'Library name, path or suffix of the plugin that picks algorithm and protocol; "none" disables from 2.28.'
        ),
        if_wrong="Library not found: INFO only, built-in cost model is used.",
        risk="Some tuners (aws-ofi-nccl) refuse to run together with ALGO or PROTO",
    ),
    "NCCL_UID_STAGGER_RATE": Variable(
        kind="int",
        default="7000",
        since="2.23",
        note="Target connections per second used to compute the stagger delay.",
        if_wrong="Unchecked: 0 divides by zero, a negative yields a negative delay.",
        low=1,
        high=2147483647,
    ),
    "NCCL_UID_STAGGER_THRESHOLD": Variable(
        kind="int",
        default="256",
        since="2.23",
        note="Ranks per unique-id root above which start-up connections are spread over time.",
        if_wrong="Unchecked: 0 or negative always staggers.",
        low=1,
        high=2147483647,
    ),
    "NCCL_WARN_ENABLE_DEBUG_INFO": Variable(
        kind="bool01",
        default="0",
        since="2.19.4",
        note="Raises the log level to INFO after the first WARN.",
        if_wrong="From 2.30.7 only 1/T/TRUE/0/F/FALSE; before, any nonzero integer.",
        documented=False,
    ),
    "NCCL_WIN_ENABLE": Variable(
        kind="bool01",
        default="1",
        since="2.27",
        note="Symmetric window registration; needs cuMem and full P2P.",
        if_wrong="Any nonzero integer counts as on.",
    ),
    "NCCL_WORK_FIFO_BYTES": Variable(
        kind="bytes",
        default="1048576",
        since="2.22.3",
        note="Size of the work queue of a communicator.",
        if_wrong="Not a power of two: WARN and default. Above 1 GiB: 1 GiB.",
        low=1,
        high=1073741824,
        power_of_two=True,
        documented=False,
    ),
}

# The most channels that NCCL has, by its version; the newest comes first.
CHANNEL_CAPS = {">=2.25": 64, "<2.25": 32}

# What a connection takes beside its buffers, and the step in which NCCL allocates GPU memory.
CONNECTION_HEADER = 4096
ALLOCATION_UNIT = 2 * 1024 * 1024

# Functions that NCCL_ALGO and NCCL_PROTO can name in front of a colon.
FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")

# Names that people set and that no current libnccl reads: NAME -> (who reads it, what to use instead).
NOT_READ_BY_NCCL = {
    "NCCL_AGG_CHANNEL_SIZE": ("only NCCL 2.10 to 2.19 read it", ""),
    "NCCL_ASYNC_ERROR_HANDLING": ("PyTorch reads it, as the old name of TORCH_NCCL_ASYNC_ERROR_HANDLING", ""),
    "NCCL_AVOID_RECORD_STREAMS": ("nobody reads it; PyTorch reads only TORCH_NCCL_AVOID_RECORD_STREAMS", ""),
    "NCCL_BLOCKING_WAIT": ("PyTorch reads it, as the old name of TORCH_NCCL_BLOCKING_WAIT", ""),
    "NCCL_CHECKPOINT_KVS_PATH": ("the contributed nccl_checkpoint tool reads it", ""),
    "NCCL_CREATE_THREAD_CONTEXT": ("only NCCL 2.13 up to before 2.30.7 read it", ""),
    "NCCL_CUMEM_DISABLE": ("nobody reads it", "NCCL_CUMEM_ENABLE"),
    "NCCL_DEBUG_LEVEL": ("nobody reads it", "NCCL_DEBUG"),
    "NCCL_DESYNC_DEBUG": ("PyTorch reads it, as the old name of TORCH_NCCL_DESYNC_DEBUG", ""),
    "NCCL_ENABLE_TIMING": ("PyTorch reads it, as the old name of TORCH_NCCL_ENABLE_TIMING", ""),
    "NCCL_HOME": ("build scripts and Python bindings use it to find the library", ""),
    "NCCL_IBEXT_DISABLE": ("the HPC-X network plugin (nccl-rdma-sharp-plugins) reads it", ""),
    "NCCL_IB_ENABLE": ("nobody reads it", "NCCL_IB_DISABLE"),
    "NCCL_IB_GDR_LEVEL": ("only NCCL before 2.4 read it", "NCCL_NET_GDR_LEVEL"),
    "NCCL_MAX_P2P_PEERS": ("nobody reads it; one log text of NCCL spells NCCL_P2P_MAX_PEERS this way", ""),
    "NCCL_MNNVL": ("only NCCL 2.20 read it", "NCCL_MNNVL_ENABLE"),
    "NCCL_NCCL_ALLOC_P2P_NET_LL_BUFFERS": (
        "only NCCL 2.14 and 2.15 read this misspelt name",
        "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    ),
    "NCCL_NCHANNELS": ("nobody reads it", "NCCL_MAX_NCHANNELS or NCCL_MIN_NCHANNELS"),
    "NCCL_NVLS_DISABLE": ("nobody reads it", "NCCL_NVLS_ENABLE"),
    "NCCL_P2P_ENABLE": ("nobody reads it", "NCCL_P2P_DISABLE or NCCL_P2P_LEVEL"),
    "NCCL_PLUGIN_P2P": ("the HPC-X network plugin (nccl-rdma-sharp-plugins) reads it", ""),
    "NCCL_PROXY_PROFILE": ("only NCCL 2.12 to 2.22 read it", ""),
    "NCCL_RINGS": ("only NCCL before 2.5 read it", "NCCL_MAX_NCHANNELS"),
    "NCCL_SHM_ENABLE": ("nobody reads it", "NCCL_SHM_DISABLE"),
    "NCCL_SHM_MEMCPY_MODE": ("only NCCL 2.13 up to before 2.30.7 read it", ""),
    "NCCL_THREAD_THRESHOLD": ("only NCCL before 2.5 read it", "NCCL_THREAD_THRESHOLDS"),
    "NCCL_TIMEOUT": ("neither NCCL nor PyTorch reads it; PyTorch takes the timeout argument of init_process_group", ""),
    "NCCL_TUNER_CONFIG_FILE": ("only the example tuner plugin reads it", "NCCL_TUNER_PLUGIN"),
    "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": ("PyTorch reads it, as the old name of the TORCH_NCCL_ variable", ""),
    "NCCL_VERSION": ("container images and build scripts carry it as information", ""),
    "NCCL_WORK_FIFO_DEPTH": ("only NCCL 2.13 to 2.21 read it", "NCCL_WORK_FIFO_BYTES"),
}

# The same for whole families of names.
NOT_READ_BY_NCCL_PREFIXES = {
    "NCCL_EP_": "the contributed nccl_ep library reads it",
    "NCCL_FASTRAK_": "Google's GPUDirect-TCPXO network plugin reads it",
    "NCCL_INSPECTOR_": "the inspector profiler plugin reads it",
    "NCCL_PROFILER_CE_": "profiler plugins read it",
    "NCCL_PROFILE_": "the example profiler plugin reads it",
    "NCCL_RESHARD_": "the contributed nccl_m2n library reads it",
    "NCCL_SHARP_": "the HPC-X network plugin (nccl-rdma-sharp-plugins) reads it",
    "NCCL_TESTS_": "the nccl-tests programs read it",
    "NCCL_UCX_": "UCX inside the HPC-X network plugin reads it",
    "RCCL_": "AMD's RCCL reads it",
    "TORCH_NCCL_": "PyTorch reads it",
}
