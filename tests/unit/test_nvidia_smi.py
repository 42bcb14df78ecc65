# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-smi prints, from a real recording, older drivers' spellings, and text that is none of it."""

from __future__ import annotations

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing
from ansible_collections.gpu_node.tuning.plugins.module_utils.nvidia_smi import (
    parse_compute_capabilities,
    parse_query,
    pci_address,
)
from hypothesis import given
from hypothesis import strategies as st

from .recorded_nodes import HARDWARE, answer_or_reason

REAL = (HARDWARE / "h200-x2" / "nvidia-smi-q.xml").read_text(encoding="utf-8")
LOG = "<nvidia_smi_log><driver_version>535.1</driver_version>%s</nvidia_smi_log>"


def gpu_of(inside):
    (gpu,) = parse_query(LOG % f"<gpu id='00000000:3B:00.0'>{inside}</gpu>")["gpus"]
    return gpu


def test_a_real_answer():
    answer = parse_query(REAL)
    assert (answer["driver_version"], answer["cuda_version"], len(answer["gpus"])) == ("580.159.04", "13.0", 2)


def test_power_limits_of_older_drivers():
    old = "<power_readings><power_limit>300.00 W</power_limit><max_power_limit>350 W</max_power_limit></power_readings>"
    assert gpu_of(old)["power_limit_watts"] == {"current": 300.0, "max": 350.0}


def test_a_gpu_that_says_nothing():
    gpu = gpu_of("")
    assert (gpu["index"], gpu["pci_address"]) == (0, "0000:3b:00.0")
    known = {key for key, value in gpu.items() if value is not None and not isinstance(value, dict)}
    assert known == {"index", "pci_address"}
    assert gpu["link"] == {"generation": {"current": None, "max": None}, "width": {"current": None, "max": None}}
    assert gpu["memory_mib"] == gpu["bar1_mib"] == {"total": None, "used": None, "free": None}


@pytest.mark.parametrize(
    "text", ["N/A", "[N/A]", "", " ", "Unknown Error", "1.5 MiB", "-1 MiB", "\u0661\u0662 MiB", "1e9 MiB", "9" * 40]
)
def test_what_is_no_amount_of_memory(text):
    assert gpu_of(f"<fb_memory_usage><total>{text}</total></fb_memory_usage>")["memory_mib"]["total"] is None


@pytest.mark.parametrize(
    ("text", "switch"),
    [("Enabled", True), ("Disabled", False), ("N/A", None), ("Requested functionality has been deprecated", None)],
)
def test_switches(text, switch):
    assert gpu_of(f"<ecc_mode><current_ecc>{text}</current_ecc></ecc_mode>")["ecc"] is switch


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no whole XML document"),
        ("No devices were found\n", "no whole XML document.*No devices were found"),
        (REAL[:-5], "no whole XML document"),
        ("<html/>", "not of nvidia-smi; its root element is 'html'"),
        ('<!DOCTYPE x [<!ENTITY a "aaaa">]><nvidia_smi_log>&a;</nvidia_smi_log>', "entities"),
        (LOG % "<attached_gpus>2</attached_gpus><gpu/>", "says that 2 GPUs are attached, and describes 1"),
    ],
)
def test_what_is_no_answer(text, reason):
    with pytest.raises(SourceMissing, match=reason):
        parse_query(text)


@given(st.integers(min_value=0, max_value=len(REAL.strip()) - 1))
def test_a_document_that_was_cut_off_anywhere(length):
    with pytest.raises(SourceMissing):
        parse_query(REAL[:length])


@given(st.text() | st.text(alphabet="<>/&;![]gpu \n").map(LOG.__mod__))
def test_any_text_gives_data_or_says_why(text):
    for parse in (parse_query, parse_compute_capabilities):
        assert answer_or_reason(parse, text)


def test_compute_capabilities():
    assert parse_compute_capabilities("index, compute_cap\n0, 9.0\n11, 12.0\n") == {0: "9.0", 11: "12.0"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "index, compute_cap\n",
        "index, compute_cap\n0, [N/A]\n",
        'Field "compute_cap" is not a valid field to query.\n',
        "index, compute_cap\n0, 9.0\n1",
    ],
)
def test_what_is_no_table_of_compute_capabilities(text):
    with pytest.raises(SourceMissing, match="no table of index and compute capability"):
        parse_compute_capabilities(text)


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("0009:01:1F.7", "0009:01:1f.7"),
        ("3B:00.0", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_pci_address(bus_id, address):
    assert pci_address(bus_id) == address
