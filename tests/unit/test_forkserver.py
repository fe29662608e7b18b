"""Scripts that a fork server runs: they see, print and end as they would by themselves."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isotropy import forkserver

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork servers run on Linux alone")

LOADED = "fractions"  # quick to load, and nothing that Python loads itself
SERVER = f"""
import sys
from isotropy import forkserver
forkserver.PRELOADED = ("broken_library", "tidy_library", "no_such_library", {LOADED!r})
forkserver._main(sys.argv[1])
"""
BROKEN = "raise RuntimeError('it needs a file that is not there')"
TIDY = """
import atexit, weakref
kept = {1}
weakref.finalize(kept, print, "finalized what belongs to the server")
atexit.register(print, "an exit function of the server")
"""


def until(ready: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One whose libraries are as libraries can be."""
    (tmp_path / "broken_library.py").write_text(BROKEN)
    (tmp_path / "tidy_library.py").write_text(TIDY)
    command = [sys.executable, "-c", SERVER, str(tmp_path / "socket")]
    process = subprocess.Popen(command, cwd=tmp_path)
    until((tmp_path / "socket").exists)
    yield process
    process.kill()
    process.wait()


def script(tmp_path: Path, text: str) -> list[str]:
    """The command of a script that first hands itself over."""
    path = tmp_path / "script.py"
    path.write_text("import isotropy.forkserver\nimport os, sys, time\n" + text)
    return [sys.executable, str(path), "an argument"]


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, forkserver.VARIABLE: str(tmp_path / "socket"), "MARKED": "\udcff"}


def run(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        script(tmp_path, text),
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )


SAYS = f"""
import json
here = [os.getcwd(), sys.argv[1:], os.environ.get("MARKED"), __name__, sys.stdin.read()]
loaded = {LOADED!r} in sys.modules
print(json.dumps([os.getppid(), loaded, {forkserver.VARIABLE!r} in os.environ, here]))
print("a warning", file=sys.stderr)
"""


def test_a_fork_stands_where_the_script_stood(
    tmp_path: Path, server: subprocess.Popen[bytes]
) -> None:
    until(lambda: f'"{LOADED}"' in run(tmp_path, NAMES).stdout)
    for _ in range(3):
        done = run(tmp_path, SAYS)
        parent, loaded, handed_on, here = json.loads(done.stdout)
        assert (parent, loaded, handed_on) == (server.pid, True, False)
        assert here == [str(tmp_path), ["an argument"], "\udcff", "__main__", ""]
        assert (done.returncode, done.stderr) == (0, "a warning\n")


def test_a_fork_searches_for_no_garbage_among_what_is_loaded(
    tmp_path: Path, server: subprocess.Popen[bytes]
) -> None:
    """Nor for any while it loads more: `Job` enables it (`test_job.py`)."""
    done = run(tmp_path, "import gc\nprint(gc.isenabled(), gc.get_freeze_count() > 1000)")
    assert done.stdout == "False True\n"


NAMES = "import json\nprint(json.dumps(list(sys.modules)))"
LINGERS = """
import atexit, threading, weakref
def late():
    time.sleep(0.5)
    print("from a thread")
kept = {1}
weakref.finalize(kept, print, ", finalized", end="")
atexit.register(print, "at the end", end="")
threading.Thread(target=late).start()
print("from the script")
"""


def test_a_fork_ends_as_a_script_does(tmp_path: Path, server: subprocess.Popen[bytes]) -> None:
    """After its threads, then its own exit functions, none of the server's libraries; and what it
    printed is there."""
    expected = "from the script\nfrom a thread\nat the end, finalized"
    until(lambda: '"tidy_library"' in run(tmp_path, NAMES).stdout)
    done = run(tmp_path, LINGERS)
    assert (done.stdout, done.stderr) == (expected, "")
    server.kill()
    server.wait()
    assert run(tmp_path, LINGERS).stdout == expected


ASKS = """
from pathlib import Path
loaded = "isotropy.job" in sys.modules
from isotropy import job
from isotropy.provenance import code
known = code._source.cache_info().currsize
print(loaded, known, getattr(job, "EDITED", None), Path(job.__file__).parents[1])
"""


def test_a_fork_forgets_code_that_has_changed(tmp_path: Path, project: Path) -> None:
    """What every job needs of the project is loaded before, and loaded anew after an edit."""
    shutil.copytree(project / "isotropy", tmp_path / "isotropy")
    own = {**environment(tmp_path), "PYTHONPATH": str(tmp_path)}

    def said() -> list[str]:
        done = subprocess.run(
            script(tmp_path, ASKS), env=own, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split(maxsplit=3)

    command = [sys.executable, "-c", SERVER, str(tmp_path / "socket")]
    with subprocess.Popen(command, env=own, cwd=tmp_path) as process:
        try:
            until((tmp_path / "socket").exists)
            until(lambda: said()[0] == "True")
            until(lambda: int(said()[1]) == len(list((tmp_path / "isotropy").rglob("*.py"))))
            assert said()[2:] == ["None", f"{tmp_path}\n"]
            with (tmp_path / "isotropy/job.py").open("a") as stream:
                stream.write("\nEDITED = True\n")
            assert said() == ["False", "0", "True", f"{tmp_path}\n"]
        finally:
            process.kill()


def test_changes_of_modules_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file of the same size and time, a file more, a file less."""
    monkeypatch.setattr(forkserver, "FOLDER", tmp_path)
    module = tmp_path / "metrics/module.py"
    module.parent.mkdir()
    module.write_text("a = 1\n")
    seen = [forkserver._modules()]
    stat = module.stat()
    other = tmp_path / "other"
    other.write_text("a = 2\n")
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(module)
    seen.append(forkserver._modules())
    (tmp_path / "added.py").write_text("")
    seen.append(forkserver._modules())
    module.unlink()
    seen.append(forkserver._modules())
    assert all(one != next_one for one, next_one in itertools.pairwise(seen))
    (tmp_path / "notes.txt").write_text("")
    assert forkserver._modules() == seen[-1]


def test_scripts_run_by_themselves_once_something_is_installed(tmp_path: Path) -> None:
    """Their records name what is installed, and the server has what was."""
    (tmp_path / "packages").mkdir()
    elsewhere = f"import sysconfig\nsysconfig.get_path = lambda name: 'packages'\n{SERVER}"
    command = [sys.executable, "-c", elsewhere, str(tmp_path / "socket")]
    with subprocess.Popen(command, cwd=tmp_path) as process:
        try:
            until((tmp_path / "socket").exists)
            assert json.loads(run(tmp_path, SAYS).stdout)[0] == process.pid
            (tmp_path / "packages/another").mkdir()
            assert json.loads(run(tmp_path, SAYS).stdout)[0] == os.getpid()
        finally:
            process.kill()


@pytest.mark.usefixtures("server")
def test_scripts_of_another_checkout_run_by_themselves(tmp_path: Path, project: Path) -> None:
    (tmp_path / "other/isotropy").mkdir(parents=True)
    for name in ("__init__.py", "forkserver.py"):
        shutil.copy(project / "isotropy" / name, tmp_path / "other/isotropy")
    says = SAYS + "print(isotropy.__file__)"
    own = {**environment(tmp_path), "PYTHONPATH": str(tmp_path / "other")}
    command = script(tmp_path, says)
    done = subprocess.run(
        command, cwd=tmp_path, env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    answer, file = done.stdout.splitlines()
    assert json.loads(answer)[:2] == [os.getpid(), False]
    assert file == str(tmp_path / "other/isotropy/__init__.py")


def test_without_a_server_scripts_run_by_themselves(tmp_path: Path) -> None:
    """No socket, one that nobody listens at, and one of another environment."""
    assert json.loads(run(tmp_path, SAYS).stdout)[0] == os.getpid()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "socket"))
        assert json.loads(run(tmp_path, SAYS).stdout)[0] == os.getpid()
    (tmp_path / "socket").unlink()
    other = SERVER.replace("forkserver._main", "sys.prefix = '/other'; forkserver._main")
    with subprocess.Popen([sys.executable, "-c", other, str(tmp_path / "socket")]) as process:
        until((tmp_path / "socket").exists)
        assert json.loads(run(tmp_path, SAYS).stdout)[:2] == [os.getpid(), False]
        process.kill()


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('one sentence')", 1, "one sentence\n"),
        ("raise ValueError('wrong')", 1, "ValueError: wrong\n"),
        ("os.kill(os.getpid(), 9)", -9, ""),
    ],
)
@pytest.mark.usefixtures("server")
def test_ends_alike(tmp_path: Path, text: str, code: int, said: str) -> None:
    done = run(tmp_path, text)
    assert done.returncode == code
    assert done.stderr.endswith(said)


NOTE = "open('pid', 'w').write(str(os.getpid()) + '.')"


def started(tmp_path: Path, text: str) -> subprocess.Popen[bytes]:
    """A script in a process group of its own, once it has written its process number."""
    process = subprocess.Popen(
        script(tmp_path, f"note = {NOTE!r}\n{text}"),
        cwd=tmp_path,
        env=environment(tmp_path),
        stderr=subprocess.DEVNULL,
    )
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("."))
    return process


@pytest.mark.usefixtures("server")
def test_a_fork_dies_with_the_process_of_its_script(tmp_path: Path) -> None:
    process = started(tmp_path, "exec(note)\ntime.sleep(60)")
    fork = int((tmp_path / "pid").read_text().rstrip("."))
    assert fork != process.pid
    process.kill()
    process.wait()
    until(lambda: not Path(f"/proc/{fork}").exists() or "Z" in state_of(fork))


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]


def ignores_interrupts(pid: int) -> bool:
    ignored = Path(f"/proc/{pid}/status").read_text().partition("SigIgn:")[2].split()[0]
    return bool(int(ignored, 16) >> (signal.SIGINT - 1) & 1)


@pytest.mark.usefixtures("server")
def test_an_interrupt_leaves_time_to_clean_up(tmp_path: Path) -> None:
    """Ctrl-C reaches the script's process and the fork: the first waits for the second."""
    text = """
try:
    exec(note)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.5)
    open("cleaned", "w").close()
    raise
"""
    process = started(tmp_path, text)
    until(lambda: ignores_interrupts(process.pid))
    process.send_signal(signal.SIGINT)
    os.kill(int((tmp_path / "pid").read_text().rstrip(".")), signal.SIGINT)
    assert process.wait(30) == 128 + signal.SIGINT
    assert (tmp_path / "cleaned").exists()


def test_a_server_ends_with_its_run(tmp_path: Path) -> None:
    """Also where the run was killed."""
    program = f"""
import os, subprocess, sys, time
server = subprocess.Popen([sys.executable, "-c", {SERVER!r}, {str(tmp_path / "socket")!r}])
print(server.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        server = int(process.stdout.readline())
        until((tmp_path / "socket").exists)
        process.kill()
    until(lambda: not Path(f"/proc/{server}").exists() or "Z" in state_of(server))


def test_a_run_of_few_jobs_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it use that of a run around it."""
    monkeypatch.setenv(forkserver.VARIABLE, "another")
    forkserver.start(forkserver.MIN_JOBS - 1)
    assert forkserver.VARIABLE not in os.environ
