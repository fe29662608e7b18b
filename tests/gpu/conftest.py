"""Says on which device the tests of this folder run."""

from __future__ import annotations

import torch


def pytest_report_header() -> str:
    gpu = torch.cuda.is_available()
    return f"device: {torch.cuda.get_device_name() if gpu else 'CPU, since torch sees no GPU'}"
