# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes out is what NCCL reads; everything else is refused with the words to write instead."""

from __future__ import annotations

import collections
import re

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_catalogue import (
    NOT_READ_BY_NCCL,
    NOT_READ_BY_NCCL_PREFIXES,
    VARIABLES,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_validate import (
    InvalidEnvironment,
    check_env,
    legal_values,
    validate_env,
)
from hypothesis import given
from hypothesis import strategies as st

KNOWN_GOOD = {
    "NCCL_PROTO": "LL",
    "NCCL_ALGO": "Ring",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_MAX_NCHANNELS": 16,
    "NCCL_BUFFSIZE": 16777216,
    "NCCL_NTHREADS": 512,
}


class TaggedText(str):
    """Ansible passes subclasses of str; one may even lie about its text."""

    def __str__(self):
        return "not the text"

    def __repr__(self):
        raise RuntimeError("no repr")


class TaggedInt(int):
    """Ansible passes subclasses of int too."""


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no repr")

    __hash__ = None


def refusal(name, value):
    with pytest.raises(InvalidEnvironment) as caught:
        validate_env({name: value})
    return str(caught.value)


ACCEPTED = [
    # integers
    ("NCCL_BUFFSIZE", 16777216, "16777216"),
    ("NCCL_BUFFSIZE", "16777216", "16777216"),
    ("NCCL_BUFFSIZE", TaggedInt(16777216), "16777216"),
    ("NCCL_BUFFSIZE", TaggedText("16777216"), "16777216"),
    ("NCCL_BUFFSIZE", 0x10, "16"),
    ("NCCL_BUFFSIZE", 2147483647, "2147483647"),
    ("NCCL_IB_GID_INDEX", -1, "-1"),
    ("NCCL_IB_GID_INDEX", "-1", "-1"),
    ("NCCL_IB_DISABLE", 0, "0"),
    ("NCCL_IB_DISABLE", "1", "1"),
    ("NCCL_NVLS_ENABLE", 2, "2"),
    ("NCCL_NTHREADS", 64, "64"),
    ("NCCL_NTHREADS", "256", "256"),
    ("NCCL_LL128_NTHREADS", 320, "320"),
    ("NCCL_WORK_FIFO_BYTES", 1048576, "1048576"),
    ("NCCL_SOCKET_MAGIC", 2**64 - 1, "18446744073709551615"),
    ("NCCL_MNNVL_UUID", -(2**63), "-9223372036854775808"),
    # words
    ("NCCL_P2P_LEVEL", "SYS", "SYS"),
    ("NCCL_P2P_LEVEL", "sys", "SYS"),
    ("NCCL_P2P_LEVEL", TaggedText("sys"), "SYS"),
    ("NCCL_P2P_LEVEL", 0, "LOC"),
    ("NCCL_P2P_LEVEL", "3", "PHB"),
    ("NCCL_NET_MERGE_LEVEL", "port", "PORT"),
    ("NCCL_SOCKET_FAMILY", "af_inet6", "AF_INET6"),
    ("NCCL_DEBUG", "info", "INFO"),
    ("NCCL_CTA_POLICY", "zero", "ZERO"),
    ("NCCL_CTA_POLICY", "default|zero", "DEFAULT|ZERO"),
    ("NCCL_CTA_POLICY", 2, "2"),
    ("NCCL_NETDEVS_POLICY", "max:2", "MAX:2"),
    # lists
    ("NCCL_PROTO", "ll,SIMPLE", "LL,Simple"),
    ("NCCL_PROTO", "^LL128", "^LL128"),
    ("NCCL_PROTO", "allreduce:ll;Broadcast:^ll128", "AllReduce:LL;Broadcast:^LL128"),
    ("NCCL_PROTO", "LL;AllGather:Simple", "LL;AllGather:Simple"),
    ("NCCL_ALGO", "ring,tree", "Ring,Tree"),
    ("NCCL_DEBUG_SUBSYS", "^init,coll", "^INIT,COLL"),
    ("NCCL_SOCKET_IFNAME", "=eth0,eth1", "=eth0,eth1"),
    ("NCCL_SOCKET_IFNAME", "^docker,lo", "^docker,lo"),
    ("NCCL_IB_HCA", "^=mlx5_0:1,mlx5_1:1", "^=mlx5_0:1,mlx5_1:1"),
    ("NCCL_NO_CACHE", "NCCL_PROTO,NCCL_ALGO", "NCCL_PROTO,NCCL_ALGO"),
    ("NCCL_NO_CACHE", "ALL", "ALL"),
    # free text
    ("NCCL_DEBUG_TIMESTAMP_FORMAT", "[%F %T] ", "[%F %T] "),
    ("NCCL_DEBUG_FILE", "/var/log/nccl/%h.%p", "/var/log/nccl/%h.%p"),
    ("NCCL_TOPO_FILE", "/a folder/topo.xml", "/a folder/topo.xml"),
    ("NCCL_HOSTID", 5, "5"),
    ("NCCL_RAS_ADDR", "[::1]:28028", "[::1]:28028"),
    ("NCCL_COMM_ID", "10.0.0.1:4000", "10.0.0.1:4000"),
    ("NCCL_IB_ADDR_RANGE", "10.0.0.0/8", "10.0.0.0/8"),
    ("NCCL_THREAD_THRESHOLDS", "8 8 8 8 8 8", "8 8 8 8 8 8"),
]


@pytest.mark.parametrize(("name", "value", "expected"), ACCEPTED)
def test_accepted_values_go_out_in_their_canonical_form(name, value, expected):
    result = validate_env({name: value})
    assert result == {name: expected}
    assert type(result[name]) is str


NUMBERS = [
    # (value, what to write)
    ("4MB", "Write 4194304 "),
    ("4mb", "Write 4194304 "),
    ("4 MB", "Write 4194304 "),
    ("4M", "Write 4194304 "),
    ("4MiB", "Write 4194304 "),
    ("512K", "Write 524288 "),
    ("1GB", "Write 1073741824 "),
    ("0.5G", "Write 536870912 "),
    ("100B", "Write 100 "),
    ("8GB", "Write 2147483647 or less (8589934592 is too large)"),
    ("0x10", "Write 16."),
    ("0X1F", "Write 31."),
    ("0b11", "Write 3."),
    ("0o17", "Write 15."),
    ("010", "Write 10, or 8 if octal was meant."),
    ("007", "Write 7."),
    ("089", "Write 89."),
    ("1e6", "Write 1000000."),
    ("1.5e3", "Write 1500."),
    ("1.0", "Write 1."),
    ("4_194_304", "Write 4194304."),
    ("4,194,304", "Write 4194304."),
    ("+5", "Write 5."),
    (" 2", "Write 2."),
    ("2 ", "Write 2."),
    ("2\n", "Write 2."),
    ("2\0", "Write 2."),
    ('"2"', "Write 2."),
    ("'4MB'", "Write 4194304 "),
    ('"""2"""', "Write 2."),
    ("-5", "Write 1 or more."),
    (0, "Write 1 or more."),
    (2147483648, "Write 2147483647 or less."),
    ("99999999999", "Write 2147483647 or less."),
    (1e6, "Write 1000000 (digits only"),
    (1.5, "Write a whole number"),
    (float("inf"), "Write a whole number"),
    (float("nan"), "Write a whole number"),
    (True, "Write a whole number"),
    ("true", "Write a whole number"),
    ("", "leave the variable out"),
    ("   ", "leave the variable out"),
    ("1.9", "Write a legal value"),
    ("1e-3", "Write a legal value"),
    ("1e400", "Write a legal value"),
    ("abc", "Write a legal value"),
    ("\uff14", "Write a legal value"),
    ("\u0664", "Write a legal value"),
    ("4\u00b5", "Write a legal value"),
    pytest.param("9" * 5000, "Write a legal value", id="long"),
    pytest.param(10**5000, "Write 2147483647 or less.", id="huge"),
    (None, "remove NCCL_BUFFSIZE with null in nccl_env_overrides"),
    ([4], "Write a legal value"),
    ({"value": 4}, "Write a legal value"),
    (b"4", "Write a legal value"),
    (Unprintable(), "Write a legal value"),
]


@pytest.mark.parametrize(("value", "write"), NUMBERS)
def test_a_number_that_nccl_would_misread_is_refused(value, write):
    message = refusal("NCCL_BUFFSIZE", value)
    assert message.startswith("NCCL_BUFFSIZE=")
    assert "Legal: a whole number from 1 to 2147483647 (bytes)." in message
    assert write in message
    assert "\n" not in message
    assert len(message) < 600


@pytest.mark.parametrize(
    ("value", "write"),
    [
        (True, 1),
        (False, 0),
        ("true", 1),
        ("Yes", 1),
        ("ON", 1),
        ("no", 0),
        ("off", 0),
        ("False", 0),
        (2, 1),
        (-1, 0),
        ("2", 1),
        (1.0, 1),
        ("01", 1),
    ],
)
def test_a_switch_is_0_or_1(value, write):
    message = refusal("NCCL_IB_DISABLE", value)
    assert "Legal: 0, 1." in message
    assert re.search(rf"Write {write}\b", message)


def test_a_boolean_says_why():
    assert "NCCL reads the word as 0" in refusal("NCCL_IB_DISABLE", True)


@pytest.mark.parametrize(
    ("value", "write"),
    [(100, "64 or 128"), ("100", "64 or 128"), (96, "64 or 128"), (0, "64"), (1024, "512"), (63, "64")],
)
def test_the_thread_counts_are_those_of_the_documentation(value, write):
    message = refusal("NCCL_NTHREADS", value)
    assert "Legal: 64, 128, 256, 512." in message
    assert f"Write {write}." in message


WORDS = [
    ("NCCL_P2P_LEVEL", "SYSTEM", "Legal: LOC, NVL, PIX, PXB, PHB, SYS"),
    ("NCCL_P2P_LEVEL", 5, "Write SYS."),
    ("NCCL_P2P_LEVEL", "01", "Legal: LOC"),
    ("NCCL_P2P_LEVEL", True, "in quotes"),
    ("NCCL_P2P_LEVEL", " SYS", "Write SYS."),
    ("NCCL_P2P_LEVEL", "SYS\n", "Write SYS."),
    ("NCCL_P2P_LEVEL", "", "empty value still counts as set"),
    ("NCCL_NET_MERGE_LEVEL", 2, "Legal: LOC, PORT"),
    ("NCCL_DEBUG", 3, "Legal: VERSION, WARN"),
    ("NCCL_DEBUG", "INF", "Write INFO."),
    ("NCCL_DEBUG", "INFO ", "Write INFO."),
    ("NCCL_CTA_POLICY", 3, "Legal: one or more of"),
    ("NCCL_CTA_POLICY", "ZERO|EFFICIENCY", "Write ZERO or EFFICIENCY."),
    ("NCCL_CTA_POLICY", "zero | default", "Write ZERO|DEFAULT."),
    ("NCCL_NETDEVS_POLICY", "MAX:0", "Legal: AUTO, ALL, MAX:n"),
    ("NCCL_PROTO", "LL, Simple", "Write LL,Simple."),
    ("NCCL_PROTO", ["LL", "Simple"], "Write LL,Simple."),
    ("NCCL_PROTO", "Smiple", "Write Simple in its place."),
    ("NCCL_PROTO", "LL, Smiple", "Write Simple in its place."),
    ("NCCL_PROTO", "LL,", "an empty token"),
    ("NCCL_PROTO", "^", "an empty token"),
    ("NCCL_PROTO", "LL;", "Write LL."),
    ("NCCL_PROTO", "^LL,LL128,Simple", "nothing is left"),
    ("NCCL_PROTO", "AllReduce:LL;Simple", "only the first part may lack a function"),
    ("NCCL_PROTO", "AllReduce:LL;AllReduce:Simple", "named twice"),
    ("NCCL_PROTO", "Allred:LL", "Write AllReduce in its place."),
    ("NCCL_PROTO", 'L"L', "contains '\"'"),
    ("NCCL_PROTO", "LL\\", "contains '\\\\'"),
    ("NCCL_PROTO", 'LL"""\nimport os', "no NCCL value needs quotes"),
    ("NCCL_PROTO", "LL\0", "Write LL."),
    ("NCCL_PROTO", None, "with null in nccl_env_overrides"),
    ("NCCL_PROTO", 1.5, "as a quoted string"),
    ("NCCL_PROTO", {}, "as a quoted string"),
    ("NCCL_DEBUG_SUBSYS", "INIT, COLL", "Write INIT,COLL."),
    ("NCCL_DEBUG_SUBSYS", "COL", "Write COLL in its place."),
    ("NCCL_SOCKET_IFNAME", "eth0,,eth1", "Write eth0,eth1."),
    ("NCCL_SOCKET_IFNAME", "e", "one character"),
    ("NCCL_SOCKET_IFNAME", "^=^eth0", "Write ^eth0."),
    ("NCCL_SOCKET_IFNAME", "ethé", "printable ASCII"),
    ("NCCL_NO_CACHE", "NCCL_PROT", "NCCL_PROTO"),
    ("NCCL_DEBUG_FILE", "~/nccl.log", "starts with /"),
    ("NCCL_DEBUG_FILE", "nccl.log", "starts with /"),
    pytest.param("NCCL_DEBUG_FILE", "/x" * 600, "a shorter value", id="long"),
    ("NCCL_RAS_ADDR", "localhost", "host:port"),
    ("NCCL_RAS_ADDR", "localhost:70000", "host:port"),
    ("NCCL_IB_ADDR_RANGE", "10.0.0.0", "10.0.0.0/8"),
    ("NCCL_IB_ADDR_RANGE", "10.0.0.0/40", "10.0.0.0/8"),
    ("NCCL_THREAD_THRESHOLDS", "1 2 3", "six whole numbers"),
    ("NCCL_WORK_FIFO_BYTES", 3000000, "Write 2097152 or 4194304."),
    ("NCCL_LL128_NTHREADS", 200, "Write 192 or 224."),
]


@pytest.mark.parametrize(("name", "value", "text"), WORDS)
def test_a_word_that_nccl_would_misread_is_refused(name, value, text):
    message = refusal(name, value)
    assert message.startswith(f"{name}=")
    assert text in message
    assert " Legal: " in message
    assert " Write " in message
    assert "\n" not in message


NAMES = [
    ("NCCL_BUFSIZE", "did you mean NCCL_BUFFSIZE"),
    ("NCCL_MAX_CHANNELS", "did you mean NCCL_MAX_NCHANNELS"),
    ("nccl_proto", "did you mean NCCL_PROTO?"),
    ("PROTO", "did you mean NCCL_PROTO?"),
    (" NCCL_PROTO", "did you mean NCCL_PROTO?"),
    ("NCCL_RINGS", "Write NCCL_MAX_NCHANNELS instead."),
    ("NCCL_P2P_ENABLE", "Write NCCL_P2P_DISABLE"),
    ("NCCL_ASYNC_ERROR_HANDLING", "PyTorch reads it"),
    ("TORCH_NCCL_BLOCKING_WAIT", "PyTorch reads it"),
    ("NCCL_TESTS_DEVICE", "nccl-tests"),
    ("NCCL_TREE_THRESHOLD", "NCCL 2.5 and later do not read it. Write NCCL_ALGO instead."),
    ("NCCL_CHECKS_DISABLE", "no known NCCL release reads it"),
    ("CUDA_VISIBLE_DEVICES", "unknown variable"),
    ("", "unknown variable"),
    ("NCCL_X\nY", "'NCCL_X\\nY'=1"),
    pytest.param("N" * 100000, "unknown variable", id="long"),
    (3, "must be a string"),
    (None, "must be a string"),
    (True, "must be a string"),
    ((1, 2), "must be a string"),
]


@pytest.mark.parametrize(("name", "text"), NAMES)
def test_a_name_that_nccl_does_not_read_is_refused(name, text):
    message = refusal(name, 1)
    assert text in message
    assert "\n" not in message
    assert len(message) < 600


@pytest.mark.parametrize("env", [None, [], "NCCL_PROTO=LL", 3, {"a"}])
def test_the_environment_is_a_mapping(env):
    with pytest.raises(InvalidEnvironment, match="must be a mapping"):
        validate_env(env)


def test_every_mapping_will_do():
    env = collections.ChainMap({"NCCL_PROTO": "LL"}, {"NCCL_ALGO": "ring"})
    assert validate_env(env) == {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}


def test_the_known_good_set_and_its_order():
    result = validate_env(KNOWN_GOOD)
    assert list(result) == sorted(KNOWN_GOOD)
    assert set(result.values()) == {"LL", "Ring", "SYS", "16", "16777216", "512"}


def test_all_faults_come_in_one_message_one_line_each():
    env = {"NCCL_NTHREADS": 100, "NCCL_BUFFSIZE": "4MB", "NCCL_PROTOO": "LL", "NCCL_ALGO": "Ring"}
    with pytest.raises(InvalidEnvironment) as caught:
        validate_env(env)
    lines = str(caught.value).splitlines()
    assert lines[0] == "3 faults in the NCCL environment (NCCL_BUFFSIZE, NCCL_NTHREADS, NCCL_PROTOO):"
    assert [line.partition("=")[0] for line in lines[1:]] == ["- NCCL_BUFFSIZE", "- NCCL_NTHREADS", "- NCCL_PROTOO"]
    with pytest.raises(InvalidEnvironment) as again:
        validate_env(dict(reversed(env.items())))
    assert str(again.value) == str(caught.value)


def test_a_thousand_faults_stay_readable():
    with pytest.raises(InvalidEnvironment) as caught:
        validate_env({f"NCCL_NO_SUCH_{number}": 1 for number in range(1000)})
    lines = str(caught.value).splitlines()
    assert len(lines) == 52
    assert lines[-1] == "- ... and 950 more"


CONFLICTS = [
    ({"NCCL_MIN_NCHANNELS": 32, "NCCL_MAX_NCHANNELS": 16}, "NCCL_MIN_NCHANNELS=32: larger than NCCL_MAX_NCHANNELS=16"),
    ({"NCCL_MIN_CTAS": "8", "NCCL_MAX_CTAS": 4}, "NCCL_MIN_CTAS=8: larger than NCCL_MAX_CTAS=4"),
    ({"NCCL_MIN_CTAS": 8, "NCCL_MAX_NCHANNELS": 4}, "NCCL_MIN_CTAS=8: larger than NCCL_MAX_NCHANNELS=4"),
    ({"NCCL_MIN_P2P_NCHANNELS": 9, "NCCL_MAX_P2P_NCHANNELS": 8}, "larger than NCCL_MAX_P2P_NCHANNELS=8"),
    ({"NCCL_SOCKET_NTHREADS": 16, "NCCL_NSOCKS_PERTHREAD": 8}, "Write 4 or less."),
]


@pytest.mark.parametrize(("env", "text"), CONFLICTS)
def test_values_that_contradict_each_other_are_refused(env, text):
    with pytest.raises(InvalidEnvironment, match=re.escape(text)):
        validate_env(env)


@pytest.mark.parametrize(
    "env",
    [{"NCCL_MIN_NCHANNELS": 16, "NCCL_MAX_NCHANNELS": 16}, {"NCCL_SOCKET_NTHREADS": 8, "NCCL_NSOCKS_PERTHREAD": 8}],
)
def test_values_at_the_bound_are_accepted(env):
    assert len(validate_env(env)) == 2


WARNED = [
    ("NCCL_MAX_NCHANNELS", 16, "deprecated since NCCL 2.17 and still read; its successor is NCCL_MAX_CTAS"),
    ("NCCL_P2P_LEVEL", "sys", "written as SYS"),
    ("NCCL_P2P_LEVEL", 4, "written as SYS"),
    ("NCCL_PROTO", "LL128", "can corrupt data"),
    ("NCCL_PROTO", "^LL", "can corrupt data"),
    ("NCCL_ALGO", "Tree", "without Ring"),
    ("NCCL_ALGO", "^Ring", "without Ring"),
    ("NCCL_BUFFSIZE", 4, "only 4 bytes"),
]


@pytest.mark.parametrize(("name", "value", "text"), WARNED)
def test_what_is_accepted_with_a_warning(name, value, text):
    canonical, errors, warnings = check_env({name: value})
    assert canonical
    assert not errors
    assert [warning.variable for warning in warnings] == [name]
    assert text in str(warnings[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [("NCCL_PROTO", "^LL128"), ("NCCL_PROTO", "LL,Simple"), ("NCCL_ALGO", "Ring"), ("NCCL_ALGO", "^NVLS")],
)
def test_what_is_accepted_without_a_warning(name, value):
    assert check_env({name: value})[1:] == ([], [])


# --- the catalogue --------------------------------------------------------------------------------------------------


def test_the_catalogue_does_not_contradict_itself():
    for name, variable in VARIABLES.items():
        assert re.fullmatch(r"NCCL_[A-Z0-9_]+", name)
        assert variable.note
        assert (variable.low is None) == (variable.high is None)
        if variable.kind in ("enum", "level_enum", "enum_flags", "func_list"):
            assert variable.choices
        if variable.replaced_by:
            assert variable.replaced_by.partition("=")[0] in VARIABLES
    assert not set(VARIABLES) & set(NOT_READ_BY_NCCL)
    assert not any(name.startswith(tuple(NOT_READ_BY_NCCL_PREFIXES)) for name in VARIABLES)


@pytest.mark.parametrize("name", sorted(name for name, variable in VARIABLES.items() if not variable.removed))
def test_every_choice_of_the_catalogue_is_its_own_canonical_form(name):
    variable = VARIABLES[name]
    assert legal_values(name)
    if variable.kind == "bool01":
        values = ["0", "1"]
    elif name == "NCCL_NETDEVS_POLICY":
        values = ["AUTO", "ALL", "MAX:1"]
    else:
        values = variable.choices or [str(bound) for bound in (variable.low, variable.high) if bound is not None]
    for value in values:
        assert validate_env({name: value}) == {name: value}


NEVER = ["", " ", "a\nb", "a\0b", 'a"b', "a'b", "a\\b", '"""', "\u00e9", "\x7f", None, True, 1.5, [], {}, Unprintable()]


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_no_variable_lets_these_through(name):
    for value in NEVER:
        canonical, errors, _warnings = check_env({name: value})
        assert not canonical, f"{name} lets {value!r} through"
        assert len(errors) == 1


# --- properties -----------------------------------------------------------------------------------------------------

SCALARS = st.one_of(
    st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.binary(), st.lists(st.text(), max_size=3)
)
LIKELY = st.one_of(
    st.integers(-2, 1100).map(str),
    st.from_regex(r"\A[\^]?(AllReduce:)?(LL|LL128|Simple|ring|Tree|SYS|sys|INFO|NVLS)(,(LL|Ring|Simple|COLL))?\Z"),
    st.from_regex(r"\A[0-9]{1,4}[ _.,]?[0-9]{0,3}(e[0-9])?[kMG]?i?B?\Z"),
    SCALARS,
)
ENVIRONMENTS = st.dictionaries(
    st.one_of(st.sampled_from(sorted(VARIABLES)), st.text(), st.integers()), LIKELY, max_size=8
)


@given(ENVIRONMENTS)
def test_the_output_is_printable_ascii_and_stays_as_it_is(env):
    canonical, errors, warnings = check_env(env)
    for name, value in canonical.items():
        assert type(name) is str
        assert type(value) is str
        assert re.fullmatch(r"[\x20-\x7e]+", value)
        assert not set(value) & set("\"'\\")
    for finding in errors + warnings:
        assert finding.message.isprintable()
    if not errors:
        assert validate_env(canonical) == canonical


@given(
    st.sampled_from(
        sorted(name for name, variable in VARIABLES.items() if variable.kind in ("bool01", "int", "bytes"))
    ),
    LIKELY,
)
def test_a_number_goes_out_as_nccl_reads_it(name, value):
    canonical, _errors, _warnings = check_env({name: value})
    if canonical:
        text = canonical[name]
        assert text == str(int(text))
        assert int(text) == int(value)


@given(st.integers(1, 2147483647))
def test_a_unit_is_always_answered_with_a_number_that_is_accepted(number):
    for unit, factor in (("K", 2**10), ("MB", 2**20), ("GiB", 2**30)):
        proposal = re.search(r"Write ([0-9]+)", refusal("NCCL_BUFFSIZE", f"{number}{unit}")).group(1)
        assert int(proposal) == min(number * factor, 2147483647)
        assert validate_env({"NCCL_BUFFSIZE": proposal})
