"""A process that has loaded the libraries, from which the jobs of a run are forked.

Loading pandas, torch, transformers and scikit-learn takes a job 1 to 8 seconds of a core, and most
jobs of a small study compute for less. So a run starts one process that loads them once (`start`).
Scripts import this module first. If there is such a process, the script hands itself over there:
the process forks, the fork runs the script from its first line, and the script's own process waits
and ends as the fork does. Without it, the script goes on by itself, and makes the same bytes.

Of the project, what every job does before and after its work is loaded as well (`isotropy.job`),
and what it reads each time, the code and the installed packages, has been read (`Preload`). A fork
drops what it has of the project if a module has changed since. Where something has been installed
since, or the script belongs to another checkout, the script goes on by itself. The server computes
nothing.

There is no fork server on a cluster, in conda environments (whose libraries are others), for a few
jobs, where there is a GPU (a fork could not use it), or outside Linux.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import traceback
import weakref
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any, NoReturn

VARIABLE = "ISOTROPY_FORKSERVER"
"""Environment variable that names the socket."""

PRELOADED = (
    "snakemake.iocontainers",
    "snakemake.logging",
    "pydantic",
    "pandas",
    "pandera.pandas",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_pdf",
    "matplotlib.backends.backend_svg",
    "scipy.stats",
    "torch",
    "safetensors.torch",
    "numba",
    "sklearn.cluster",
    "sklearn.linear_model",
    "sklearn.neighbors",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
)
"""Libraries of the jobs, in the order in which a study needs them."""

PACKAGE = "isotropy"
FOLDER = Path(__file__).resolve().parent
JOB = f"{PACKAGE}.job"
MIN_JOBS = 12
"""A run of fewer jobs is over before loading pays."""
GPU = Path("/dev/nvidiactl")
STARTED = b"started\n"
TIMEOUT = 30.0  # seconds for a library that is being loaded


def start(n_jobs: int) -> None:
    """Start the process for a run of `n_jobs` local jobs, if it is worth it; it ends with the
    run.
    """
    os.environ.pop(VARIABLE, None)  # that of a run in which this one was started
    if n_jobs < MIN_JOBS or sys.platform != "linux" or GPU.exists():
        return
    folder = tempfile.mkdtemp(prefix="isotropy-")  # for this user alone
    path = f"{folder}/socket"
    process = subprocess.Popen(
        # Not from the working folder, in which modules of other people may lie
        [sys.executable, "-P", "-m", "isotropy.forkserver", path],
        stdin=subprocess.DEVNULL,
        # Threads of linear algebra would be lost in forks; each job starts its own.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    os.environ[VARIABLE] = path

    def stop() -> None:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)


def hand_over() -> None:
    """Let the fork server run this process's script, and end as it does; return if there is
    none.
    """
    # What a script loads is no garbage, and looking for it takes a quarter of the time: `Job`
    # enables it when its work begins.
    gc.disable()
    path = os.environ.pop(VARIABLE, None)
    if path is None:
        return
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT)
        try:
            connection.connect(path)
            _send(connection)
            started = connection.recv(len(STARTED), socket.MSG_WAITALL) == STARTED
        except OSError:
            return
        if not started:
            return
        # Ctrl-C in a terminal reaches the fork as well, which has files to remove.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        connection.settimeout(None)
        code = b""
        while part := connection.recv(16):
            code += part
    if not code:  # killed
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(int(code))


def _send(connection: socket.socket) -> None:
    """Send what the script stands in: arguments, folder, environment, terminal."""
    state = {
        "origin": _origin(),
        "argv": sys.argv,
        "path": sys.path,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }
    data = json.dumps(state).encode()
    socket.send_fds(connection, [len(data).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(data)


def _origin() -> list[str]:
    """The environment and the checkout of this process."""
    return [sys.prefix, str(FOLDER)]


class Preload:
    """What is loaded for all forks, and the state of the files before it was."""

    def __init__(self) -> None:
        self._installed = _installed()
        self._modules = _modules()

    def steps(self) -> Iterator[bool]:
        """Load the libraries, then `isotropy.job`, and read what every job reads, bit by bit. What
        cannot be loaded is left to the jobs that need it, which say so.
        """
        for name in PRELOADED:
            with suppress(Exception):
                import_module(name)
            yield True
        with suppress(Exception):
            for _ in import_module(JOB).read_ahead():
                yield True

    def is_of_what_is_installed(self) -> bool:
        """Whether no package was installed, replaced or removed since."""
        return _installed() == self._installed

    def drop_if_changed(self) -> None:
        """In a fork: drop the project's modules if one of them has changed. The script then imports
        them again.
        """
        if _modules() != self._modules:
            invalidate_caches()
            for name in [n for n in sys.modules if n.partition(".")[0] == PACKAGE]:
                del sys.modules[name]


def _installed() -> dict[str, int]:
    """When the folders of installed packages were last written to."""
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return {path: os.stat(path).st_mtime_ns for path in paths if os.path.isdir(path)}


def _modules() -> dict[str, tuple[int, ...]]:
    """State of each module of the project."""
    found: dict[str, tuple[int, ...]] = {}
    for folder, _, names in os.walk(FOLDER):
        for path in (f"{folder}/{name}" for name in names if name.endswith(".py")):
            with suppress(OSError):  # removed at the time
                stat = os.stat(path)
                found[path] = stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino
    return found


def _serve(path: str, preload: Preload) -> tuple[dict[str, Any], socket.socket] | None:
    """Load the libraries and fork for each script that asks, while the run lives.

    Returns:
        In a fork, what the script stands in, and the connection to its process; None at the end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # libraries that are loaded are no garbage
    run, steps, more = os.getppid(), preload.steps(), True
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(socket.SOMAXCONN)
        while os.getppid() == run:
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if select.select([listener], [], [], 0 if more else 1)[0]:
                asked = _fork(listener, preload)
                if asked is not None:
                    return asked
            elif more:
                more = next(steps, False)
    return None


def _fork(listener: socket.socket, preload: Preload) -> tuple[dict[str, Any], socket.socket] | None:
    """Fork for one script; None in the server itself."""
    connection, _ = listener.accept()
    fds: list[int] = []
    try:
        connection.settimeout(TIMEOUT)
        head, fds, _, _ = socket.recv_fds(connection, 8, 3)
        data = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        state = json.loads(data)
        gc.freeze()  # a fork that looks for garbage among what it shares would copy all of it
        fits = state["origin"] == _origin() and preload.is_of_what_is_installed()
        if fits and len(fds) == 3 and os.fork() == 0:
            listener.close()
            for target, fd in enumerate(fds):
                os.dup2(fd, target)
            connection.settimeout(None)
            return state, connection.dup()
    except (OSError, ValueError):
        pass  # the script's process sees the end of the connection, and goes on by itself
    finally:
        for fd in fds:
            os.close(fd)
        connection.close()
    return None


def _run(state: dict[str, Any], connection: socket.socket) -> int:
    """Run a script where its own process stands; return its exit code."""
    _leave_to_the_server()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(state["environment"])
    os.chdir(state["folder"])
    sys.argv, sys.path[:] = state["argv"], state["path"]
    connection.sendall(STARTED)
    threading.Thread(target=_die_with, args=(connection,), daemon=True).start()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        traceback.print_exc()
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _leave_to_the_server() -> None:
    """Forget what libraries of the server would do at the end: they tidy up what other forks use,
    such as temporary folders, and torch takes 40 ms. What a script may count on stays.
    """
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
    for module, function in (("logging", "shutdown"), ("multiprocessing.util", "_exit_function")):
        if module in sys.modules:
            atexit.register(getattr(sys.modules[module], function))


def _die_with(connection: socket.socket) -> None:
    """Kill this process when the script's own has ended: it was killed."""
    with suppress(OSError):
        connection.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


def _main(path: str) -> NoReturn:
    preload = Preload()
    asked = _serve(path, preload)
    if asked is None:
        sys.exit()
    preload.drop_if_changed()
    code = _run(*asked)
    with suppress(OSError):
        asked[1].sendall(str(code).encode())
    # The interpreter's shutdown takes a fork longer than most jobs, since it copies the pages that
    # it writes to. So only what comes before it: waiting for threads, exit functions, flushing.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # which closes the connection: the script's process waits for it


if __name__ == "__main__":
    _main(sys.argv[1])
else:
    hand_over()
