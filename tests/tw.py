"""What the tests share: starting treewrap, and seeing what it has left.

The promise is tested at the moment treewrap returns. Processes are known by a mark in
their command line. Besides, the test's process is a subreaper: whatever escapes comes to
it as an orphan, marked or not.
"""

import contextlib
import ctypes
import ctypes.util
import errno
import functools
import itertools
import os
import pathlib
import random
import select
import signal
import subprocess
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TREEWRAP = os.environ.get("TREEWRAP", os.path.join(ROOT, "treewrap"))
COMM = os.path.basename(TREEWRAP)[:15].encode()  # of the shim; the reaper takes its own
BIN = os.path.join(ROOT, "tests", "bin")
LIMIT = 60  # seconds that any one run may take
USER = 20000 + os.getpid() % 10000  # an ordinary one, no other test's: limits count by user

_numbers = itertools.count()
_libc = ctypes.CDLL(None, use_errno=True)


def adversary(name):
    return os.path.join(BIN, name)


def new_mark():
    return "mark-%d-%d-%08x" % (os.getpid(), next(_numbers), random.getrandbits(32))


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read_proc(pid, name):
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def read_path(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def marked(mark):
    """The processes with MARK in their command line that live (a zombie has none)."""
    return [pid for pid in pids() if mark.encode() in read_proc(pid, "cmdline")]


def state(pid):
    line = read_proc(pid, "stat")
    return line.rpartition(b")")[2].split()[0].decode() if line else None


def group(pid):
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def children(pid):
    found = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            found += read_proc(pid, "task/%s/children" % task).split()
    except FileNotFoundError:
        pass
    return [int(child) for child in found]


def describe(found):
    return ["%d %s %s" % (pid, state(pid), read_proc(pid, "cmdline").replace(b"\0", b" "))
            for pid in found]


def assert_nothing_left(mark):
    left = marked(mark)
    assert not left, "left: %s" % describe(left)


def reap_adopted():
    """Fetches the orphans that have come to us and died. Returns their ids."""
    reaped = []
    try:
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return reaped
            reaped.append(pid)
    except ChildProcessError:
        return reaped


def try_rmdir(path):
    try:
        os.rmdir(path)
        return True
    except OSError:
        return False


@contextlib.contextmanager
def v1_freezer(name):
    """Gives what puts a process to where SIGKILL does not end it. Ends when all such have died."""
    top = pathlib.Path("/sys/fs/cgroup/freezer")
    if os.geteuid() != 0 or not (top / "cgroup.procs").exists():
        pytest.skip("needs root and a v1 freezer")
    group = top / name
    group.mkdir()

    def freeze(pid):
        (group / "cgroup.procs").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")
    try:
        yield freeze
    finally:
        (group / "freezer.state").write_text("THAWED")
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()
        reap_adopted()


def is_dynamic(program):
    with open(program, "rb") as file:
        return b"ld-linux" in file.read(4096)


def as_user(*command):
    return ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", *command]


def start(*args, **keywords):
    """Starts treewrap with ARGS. No terminal, no input, and output by pipe."""
    return start_with([], *args, **keywords)


def start_with(prefix, *args, **keywords):
    """The same, by way of a command that is put before it."""
    keywords.setdefault("stdin", subprocess.DEVNULL)
    keywords.setdefault("stdout", subprocess.PIPE)
    keywords.setdefault("stderr", subprocess.PIPE)
    keywords.setdefault("start_new_session", True)
    keywords.setdefault("bufsize", 0)  # so that select tells of every line
    keywords["env"] = dict(os.environ, TREEWRAP=TREEWRAP, **keywords.get("env", {}))
    return subprocess.Popen([*map(str, prefix), TREEWRAP, *map(str, args)], **keywords)


class Result:
    def __init__(self, status, out, err, took):
        self.status, self.out, self.err, self.took = status, out, err, took

    def __repr__(self):
        return "status %s after %.3f s\nout: %r\nerr: %r" % (
            self.status, self.took, self.out, self.err)


def finish(process, limit=LIMIT):
    began = time.monotonic()
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        found = describe([process.pid] + children(process.pid))
        process.kill()
        raise AssertionError("no end after %d s: %s" % (limit, found))
    return Result(process.returncode, out, err, time.monotonic() - began)


def run(*args, limit=LIMIT, **keywords):
    began = time.monotonic()
    result = finish(start(*args, **keywords), limit)
    result.took = time.monotonic() - began
    return result


def ready(process, word=b"ready", limit=30):
    """Waits for the command to say that it is in place. Returns its line."""
    assert select.select([process.stdout], [], [], limit)[0], "the command is not ready"
    line = process.stdout.readline()
    assert line.startswith(word), (line, process.stderr.read())
    return line


def reaper_of(process):
    """The reaper's id: the shim has no other child."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = children(process.pid)
        if found:
            return found[0]
        time.sleep(0.001)
    raise AssertionError("no reaper")


def kill(pid, signo=signal.SIGKILL):
    try:
        os.kill(pid, signo)
    except ProcessLookupError:
        pass


def wait_at_once(process, limit=LIMIT):
    """The status as soon as there is one: subprocess looks every 50 ms."""
    fd = os.pidfd_open(process.pid)
    try:
        assert select.select([fd], [], [], limit)[0], "no end after %d s" % limit
    finally:
        os.close(fd)
    return process.wait()


def wait_gone(pid, limit=10.0):
    """Waits until PID, an orphan of ours or a stranger, has ended."""
    deadline = time.monotonic() + limit
    try:
        fd = os.pidfd_open(pid)
    except OSError as error:
        assert error.errno == errno.ESRCH
        return
    try:
        assert select.select([fd], [], [], max(0, deadline - time.monotonic()))[0], (
            "process %d lives: %s" % (pid, describe([pid])))
    finally:
        os.close(fd)


def assert_nothing_outlives(process, reaper, mark):
    """Kills the shim; when the reaper, its second process, has returned too, all is gone."""
    process.kill()
    process.wait()
    wait_gone(reaper)
    assert_nothing_left(mark)
    reap_adopted()
    process.stdout.close(), process.stderr.close()


def end(found):
    """Ends strangers or orphans of ours, and their children, whom nobody would know again."""
    for pid in found + [child for pid in found for child in children(pid)]:
        kill(pid)
        wait_gone(pid)
    reap_adopted()


def queue(pid, signo, value):
    class Sigval(ctypes.Union):
        _fields_ = [("sival_int", ctypes.c_int), ("sival_ptr", ctypes.c_void_p)]

    if _libc.sigqueue(pid, signo, Sigval(sival_int=value)) != 0:
        raise OSError(ctypes.get_errno(), "sigqueue")


def until(condition, limit=10.0, what="it"):
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.002)
    raise AssertionError("%s has not come about after %.1f s" % (what, limit))


@functools.lru_cache
def can_trace():
    return subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "true"],
                          capture_output=True).returncode == 0


def inject(call, what, when=None, path=None, more=()):
    """strace(1) does WHAT to CALL in each process, at its occurrence WHEN if that is given."""
    if not can_trace():
        pytest.skip("nothing can be traced here")
    return ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null",
            *more, *(["-P", path] if path else []),
            "-e", "trace=" + call, "-e", "signal=none",
            "-e", "inject=%s:%s%s" % (call, what, ":when=%s" % when if when else "")]
