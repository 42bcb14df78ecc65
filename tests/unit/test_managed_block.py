# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every byte outside the markers is somebody else's and comes back as it was."""

from __future__ import annotations

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.managed_block import (
    BEGIN,
    END,
    NEWLINE_ADDED,
    join,
    split,
)
from hypothesis import example, given
from hypothesis import strategies as st

BODY = b"import os\n\nos.environ['NCCL_PROTO'] = 'LL'\n"
FOREIGN = {
    "empty": b"",
    "one line": b"import sys\n",
    "no final newline": b"import sys",
    "CRLF": b"import sys\r\nimport os\r\n",
    "CRLF, no final newline": b"import sys\r\nimport os",
    "ends in CR": b"import sys\r",
    "BOM": b"\xef\xbb\xbfimport sys\n",
    "BOM only": b"\xef\xbb\xbf",
    "latin-1": b"# -*- coding: latin-1 -*-\nname = '\xe9'\n",
    "NUL and high bytes": b"\0\xff\xfe\n\x0b\x0c\x1c\x85",
    "blank lines": b"\n\n\n",
    "a marker inside a line": b"x = '" + BEGIN + b"'\n",
    "the remark alone": NEWLINE_ADDED,
}


def without_markers(content: bytes) -> bool:
    return not any(line.startswith((BEGIN, END)) for line in content.splitlines())


pieces = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"import os", b"\xef\xbb\xbf", b"#", b" ", NEWLINE_ADDED, BEGIN[:-1], b" " + BEGIN, b"\0"]
)
foreign_bytes = st.one_of(st.binary(), st.lists(st.one_of(pieces, st.binary(max_size=4))).map(b"".join)).filter(
    without_markers
)
bodies = st.lists(st.sampled_from([b"import os", b"", b"  x = 1", b"# remark"]), min_size=1).map(b"\n".join)


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN)
def test_foreign_bytes_come_back(foreign):
    joined = join(foreign, BODY, b"")
    parts = split(joined, "f")
    assert parts.foreign == foreign
    assert parts.body == BODY
    assert joined.splitlines()[parts.line - 1].startswith(BEGIN)
    assert joined.endswith(END + b"\n")


@given(before=foreign_bytes, body=bodies, after=foreign_bytes)
@example(before=b"x\r", body=b"y", after=b"\n")
@example(before=b"", body=b"", after=b"")
def test_join_then_split_is_the_identity(before, body, after):
    joined = join(before, body, after)
    parts = split(joined, "f")
    assert (parts.before, parts.after) == (before, after)
    assert parts.body in (body, body + b"\n")
    assert parts.body.endswith(b"\n")
    assert join(parts.before, parts.body, parts.after) == joined


@given(foreign=foreign_bytes)
def test_a_file_without_a_block_is_all_foreign(foreign):
    parts = split(foreign, "f")
    assert (parts.foreign, parts.masked, parts.body, parts.line) == (foreign, foreign, None, 0)


@given(before=foreign_bytes, body=bodies, after=foreign_bytes)
def test_masking_keeps_every_line_where_it_is(before, body, after):
    joined = join(before, body, after)
    parts = split(joined, "f")
    shown, masked = joined.splitlines(), parts.masked.splitlines()
    assert len(shown) == len(masked)
    ours = range(parts.line - 1, parts.line + 1 + parts.body.count(b"\n"))
    for number, line in enumerate(shown):
        assert masked[number] == (b"" if number in ours else line)


def test_a_block_whose_lines_were_changed_to_crlf_is_still_found():
    parts = split(join(b"import sys\n", BODY, b"x = 1\n").replace(b"\n", b"\r\n"), "f")
    assert parts.before == b"import sys\r\n"
    assert parts.body == BODY.replace(b"\n", b"\r\n")
    assert parts.after == b"x = 1\r\n"


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ([BEGIN], "1"),
        ([b"x = 1", END], "2"),
        ([END, BEGIN], "1, 2"),
        ([BEGIN, b"", BEGIN, END], "1, 3, 4"),
        ([BEGIN, END, END], "1, 2, 3"),
        ([BEGIN, END, b"", BEGIN, END], "1, 2, 4, 5"),
    ],
)
def test_markers_that_do_not_pair_up_are_refused_with_their_lines(lines, named):
    with pytest.raises(
        TuningError, match=f"^/x/sitecustomize.py: .*do not pair up .*marker lines: {named};.*run again"
    ):
        split(b"\n".join(lines), "/x/sitecustomize.py")


@pytest.mark.parametrize("marker", [BEGIN, END, BEGIN + NEWLINE_ADDED])
def test_a_body_with_a_marker_line_is_refused(marker):
    with pytest.raises(TuningError, match="contains a marker line"):
        join(b"", b"import os\n" + marker + b"\n", b"")


def test_a_body_without_final_newline_gets_one():
    assert join(b"", b"import os", b"") == BEGIN + b"\nimport os\n" + END + b"\n"


def test_only_a_missing_newline_is_added_and_taken_away_again():
    assert NEWLINE_ADDED not in join(b"import sys\n", BODY, b"")
    assert join(b"import sys", BODY, b"").startswith(b"import sys\n" + BEGIN + NEWLINE_ADDED + b"\n")
