"""Variables of a run of tune.yml with another profile than the shipped one."""

from __future__ import annotations

FEWER = {
    "profile": "fewer",
    "tuning_profiles": {
        "fewer": {
            "summary": "for this test",
            "status": "experimental",
            "env": {"NCCL_PROTO": {"value": "Simple", "reason": "another value than the known-good one"}},
        }
    },
}
FEWER_VALUES = {"NCCL_PROTO": "Simple"}
