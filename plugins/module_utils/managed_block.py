# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The managed block: the lines between two markers of a sitecustomize.py are ours, every other byte is foreign.

Works on bytes, because foreign code may be in any encoding that Python accepts.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

BEGIN = b"# >>> gpu_node.tuning: managed block, change the inventory instead >>>"
END = b"# <<< gpu_node.tuning <<<"
# Foreign code without a final newline gets one before the block; this remark lets the removal take it away again.
NEWLINE_ADDED = b" (a newline was added before this line)"


class Split(NamedTuple):
    """A file in three parts; ``before + after`` is the foreign code, byte for byte.

    ``body`` is what stands between the markers (bytes), None where there is no managed block.
    ``line`` is the number of the begin marker's line, counted from 1 (0 without a block).
    """

    before: bytes
    body: Optional[bytes]
    after: bytes
    line: int

    @property
    def foreign(self) -> bytes:
        return self.before + self.after

    @property
    def masked(self) -> bytes:
        """The foreign code with the block blanked out: line numbers are those of the file."""
        if self.body is None:
            return self.before
        separator = b"" if not self.before or self.before.endswith(b"\n") else b"\n"
        return self.before + separator + b"\n" * (self.body.count(b"\n") + 2) + self.after


def split(content: bytes, path: str) -> Split:
    """Cut ``content`` (bytes of the file ``path``) at the markers. Raises TuningError where the markers do not pair up."""
    lines = content.splitlines(keepends=True)
    begins = [number for number, line in enumerate(lines) if line.startswith(BEGIN)]
    ends = [number for number, line in enumerate(lines) if line.startswith(END)]
    if not begins and not ends:
        return Split(content, None, b"", 0)
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        found = ", ".join(str(number + 1) for number in sorted(begins + ends))
        raise TuningError(
            f"{path}: the markers of the managed block do not pair up (marker lines: {found}; legal: one begin, then one end). "
            f"Remove the marker lines and what stands between them by hand, then run again."
        )
    begin, end = begins[0], ends[0]
    before = b"".join(lines[:begin])
    if lines[begin].rstrip(b"\r\n").endswith(NEWLINE_ADDED):
        before = before[:-1]
    return Split(before, b"".join(lines[begin + 1 : end]), b"".join(lines[end + 1 :]), begin + 1)


def join(before: bytes, body: bytes, after: bytes) -> bytes:
    """Put ``body`` between the markers, after the foreign code ``before`` and before the foreign code ``after``."""
    if any(line.startswith((BEGIN, END)) for line in body.splitlines()):
        raise TuningError(
            "the rendered block contains a marker line of the managed block; take it out of the template."
        )
    begin = BEGIN
    if before and not before.endswith(b"\n"):
        before, begin = before + b"\n", BEGIN + NEWLINE_ADDED
    if not body.endswith(b"\n"):
        body += b"\n"
    return before + begin + b"\n" + body + END + b"\n" + after
