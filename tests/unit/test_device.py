"""GPUs of one machine are shared out to processes, one each; here by their names, without GPUs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

TAKES_ONE = """
import sys, time
from pathlib import Path
from isotropy.device import hold_one
print(hold_one(["GPU-a", "GPU-b"], Path(sys.argv[1]) / "locks"), flush=True)
time.sleep(60)
"""


def taker(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", TAKES_ONE, str(folder)], stdout=subprocess.PIPE, text=True)


def taken(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_two_processes_never_take_the_same(tmp_path: Path) -> None:
    first, second = taker(tmp_path), taker(tmp_path)
    third = None
    try:
        assert {taken(first), taken(second)} == {"0", "1"}
        third = taker(tmp_path)
        first.send_signal(signal.SIGKILL)  # what a killed job held is free again
        first.wait()
        assert taken(third) in {"0", "1"}
        assert second.poll() is None
    finally:
        for process in filter(None, (first, second, third)):
            process.kill()
            process.wait()


def test_the_third_waits(tmp_path: Path) -> None:
    holders = [taker(tmp_path), taker(tmp_path)]
    late = None
    try:
        held = [taken(holder) for holder in holders]
        late = taker(tmp_path)
        try:
            late.wait(6)
        except subprocess.TimeoutExpired:
            holders[1].kill()
            holders[1].wait()
        assert taken(late) == held[1]
    finally:
        for process in filter(None, (*holders, late)):
            process.kill()
            process.wait()
