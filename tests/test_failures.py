"""What fails under treewrap's feet: system calls that are refused or fail once, tables that
are full, things that are gone. It starts nothing, or it keeps its promise; it never hangs."""

import errno
import json
import os
import pathlib
import signal
import subprocess

import pytest
import tw

STREAMS = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
           "start_new_session": True, "bufsize": 0}
ESCAPE = [tw.adversary("escape")]


def refuse(error, calls):
    return [tw.adversary("refuse"), str(getattr(errno, error)), calls]


def start(*words, **keywords):
    return subprocess.Popen([*map(str, words)], **{**STREAMS, **keywords})


def run(*words, **keywords):
    return tw.finish(start(*words, **keywords))


# ---- it cannot start: one line, 125, and nothing has been run ----

@pytest.mark.parametrize("error, calls, options, said", [
    ("EMFILE", "socketpair", [], "cannot make a socket pair: Too many open files"),
    ("EAGAIN", "clone", [], "cannot fork: Resource temporarily unavailable"),
    ("EMFILE", "signalfd4", [], "cannot open a signalfd: Too many open files"),
    ("EINVAL", "subreaper", [], "this kernel knows no subreapers: run treewrap as PID 1, or use --contain pidns"),
    ("EMFILE", "pipe2", [], "cannot run 'echo': Too many open files"),
    ("EAGAIN", "clone_vm", [], "cannot run 'echo': Resource temporarily unavailable"),
    ("EMFILE", "pidfd_open", ["--watch-parent"],
     "--watch-parent: cannot watch process %d: Too many open files" % os.getpid()),
    ("EMFILE", "pidfd_open", ["--watch-pid", "1"],
     "--watch-pid: cannot watch process 1: Too many open files"),
], ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "")
def test_cannot_start(error, calls, options, said):
    result = run(*refuse(error, calls), tw.TREEWRAP, *options, "echo", "ran")
    assert (result.status, result.out, result.err.decode()) == (
        125, b"", "treewrap: %s\n" % said)


def test_relay_cannot_fork():
    result = run("bash", "-c", 'read < <(echo) & exec "$@"', "bash", *refuse("EAGAIN", "clone"),
                 tw.TREEWRAP, "echo", "ran")
    assert (result.status, result.out) == (125, b"")
    assert result.err == b"treewrap: cannot fork: Resource temporarily unavailable\n"


def test_subreaper_refused_to_the_reaper_alone():
    result = run(*tw.inject("prctl", "error=EINVAL", 3), tw.TREEWRAP, "echo", "ran")
    assert (result.status, result.out) == (125, b"")


@pytest.mark.parametrize("relay", [False, True])
def test_parent_gone_before_birth(relay):
    """The number of the parent is not what it was: the command is not run."""
    before = 'sleep 1 >/dev/null 2>&1 & exec "$@"' if relay else 'exec "$@"'
    result = run(*tw.inject("getppid", "retval=999999"), "bash", "-c", before, "bash", tw.TREEWRAP,
                 "echo", "ran")
    assert (result.status, result.out) == (125, b"")


def test_nothing_to_watch_a_process_by():
    """Neither pidfds nor /proc."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount")
    result = run("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh",
                 *refuse("EPERM", "pidfd_open"), tw.TREEWRAP, "--watch-pid", "1", "echo", "ran")
    assert (result.status, result.out) == (125, b"")
    assert b"--watch-pid: cannot watch process 1: Operation not permitted\n" in result.err


@pytest.mark.parametrize("when", [2, 5, 6, 7, 8, 9])  # 1, 3 and 4 are the shell's
def test_no_descriptors_where_streams_are_closed(when):
    """What is opened gets their numbers, and has to be moved away from there."""
    result = run(*tw.inject("fcntl", "error=EMFILE", when), "sh", "-c", 'exec "$@" <&- >&-',
                 "sh", tw.TREEWRAP, "sh", "-c", "exit 3")
    assert result.status == 3 or (result.status == 125 and result.err), result


def test_watched_parent_gone_at_start():
    result = run(*tw.inject("getppid", "retval=999999", 2), tw.TREEWRAP, "--watch-parent", "echo")
    assert (result.status, result.out) == (125, b"")
    assert b"is gone already" in result.err


def test_watch_fd_that_cannot_be_polled():
    fd = os.open("/", os.O_PATH)
    result = tw.run("--watch-fd", fd, "echo", "ran", pass_fds=[fd])
    os.close(fd)
    assert (result.status, result.out) == (125, b"")
    assert result.err.decode() == "treewrap: --watch-fd: descriptor %d cannot be polled\n" % fd


def test_executable_in_path_that_is_being_written(tmp_path):
    """Unlike a file that may not be run it ends the search, as with execvp(3)."""
    (tmp_path / "tool").write_bytes(pathlib.Path("/bin/true").read_bytes())
    (tmp_path / "tool").chmod(0o755)
    with open(tmp_path / "tool", "ab"):
        result = tw.run("tool", env={"PATH": "%s:/bin" % tmp_path})
    assert result.status == 126
    assert result.err == b"treewrap: cannot run 'tool': Text file busy\n"


def test_report_of_a_failed_exec_that_fails():
    """The reaper then sees a command that has ended by itself, by the same status."""
    result = run(*tw.inject("write", "error=EPIPE"), tw.TREEWRAP, "./not-there")
    assert result.status == 125


# ---- there is another way ----

def test_memory_shared_with_threads_only():
    """As in qemu-user: the command is born with a copy."""
    result = run(*refuse("EINVAL", "clone_vm"), tw.TREEWRAP, "sh", "-c", "echo ran; exit 3")
    assert (result.status, result.out, result.err) == (3, b"ran\n", b"")
    assert run(*refuse("EINVAL", "clone_vm"), tw.TREEWRAP, "./not-there").status == 127


@pytest.mark.parametrize("error", ["EACCES", "EIO"])
def test_terminal_that_cannot_be_asked_for(error):
    result = run(*tw.inject("openat", "error=" + error, path="/dev/tty"), tw.TREEWRAP, "sh", "-c",
                 'test "$(ps -o pgid= -p $$ | tr -d " ")" = $$ && echo own')
    assert (result.status, result.out) == (0, b"own\n")


def test_stop_without_pidfds(mark):
    """The shim is stopped by number."""
    process = start(*refuse("ENOSYS", "pidfd_open"), tw.TREEWRAP, "sh", "-c",
                    "kill -STOP $$; exit 3", mark)
    tw.until(lambda: tw.state(process.pid) == "T", what="the stop")
    process.send_signal(signal.SIGCONT)
    assert tw.finish(process).status == 3


def test_no_place_in_priority(mark):
    process = start(*refuse("EPERM", "sched_setscheduler"), tw.TREEWRAP, "-t", "0.5", "-k", "0.2",
                    *ESCAPE, mark, "setsid", "ignore")
    assert tw.finish(process).status == 124
    tw.assert_nothing_left(mark)


@pytest.mark.parametrize("room", ["room", "full"])
def test_standard_error_that_cannot_be_made_ours(room):
    """It may then be written to only when it says that there is room."""
    read, write = os.pipe()
    if room == "full":
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(write, True)
    process = start(*refuse("EMFILE", "dup3"), tw.TREEWRAP, "-v", "-t", "0.2", "sleep", "60",
                    stderr=write)
    os.close(write)
    assert process.wait(30) == 124
    out = b""
    while chunk := os.read(read, 65536):
        out += chunk
    os.close(read), process.stdout.close()
    assert (b"stopping 1 process: timeout\n" in out) == (room == "room")


def test_poll_fails(mark):
    """No memory for it: everything is looked at all the same."""
    result = run(*tw.inject("ppoll", "error=ENOMEM", "2..50"), tw.TREEWRAP, "-t", "0.5", "-k", "0.2",
                 *ESCAPE, mark, "setsid", "ignore")
    assert result.status == 124
    tw.assert_nothing_left(mark)


@pytest.mark.parametrize("call, error, last", [
    ("openat", "EMFILE", 8), ("pread64", "EIO", 6), ("ppoll", "ENOMEM", 4), ("poll", "ENOMEM", 2),
    ("pidfd_open", "EMFILE", 4), ("sendto", "ENOBUFS", 2), ("readlinkat", "EACCES", 1),
    ("newfstatat", "ENOENT", 7), ("setsid", "EPERM", 1), ("fcntl", "EMFILE", 3),
    ("chdir", "EACCES", 1), ("capset", "EPERM", 4), ("setpgid", "EPERM", 1),
])
def test_one_call_fails_at_any_time(mark, call, error, last):
    """It is overcome, or treewrap fails and says so; nothing is left and nothing hangs."""
    for when in range(1, last + 1):
        result = run(*tw.inject(call, "error=" + error, when), tw.TREEWRAP, "-k", "0.2", "--linger",
                     "0", *ESCAPE, mark, "setsid", "double", "=", "exit", "7")
        # The first may be the loader's.
        if b"shared librar" not in result.err:
            assert result.status == 7 or (result.status == 125 and result.err), (when, result)
        tw.assert_nothing_left(mark)


@pytest.mark.parametrize("when", [1, 2])
def test_child_that_cannot_be_waited_for(mark, when):
    """The kernel does not do so; but 0 were a guess."""
    result = run(*tw.inject("waitid", "error=ECHILD", when), tw.TREEWRAP, *ESCAPE, mark)
    assert result.status == 125
    tw.assert_nothing_left(mark)


def test_end_that_is_not_proven():
    """The kernel never says that there is no child, and nobody is seen: one at least is left."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for a PID namespace")
    result = run(tw.adversary("refuse"), "0", "waitid_all", "unshare", "--pid", "--fork", "--mount-proc",
                 "--kill-child", tw.TREEWRAP, "-t", "0.2", "-k", "0", "--verify-for", "0.3",
                 "sleep", "60")
    assert result.status == 125
    assert result.err == b"treewrap: 1 process left after SIGKILL and 300 ms\n"


# ---- limits and races of its own ----

def test_two_reasons_to_stop(mark):
    """The first counts; the second finds that the tree is being stopped."""
    process = tw.start("--watch-stdin", "-t", "1", "-k", "2", *ESCAPE, mark, "ignore",
                       stdin=subprocess.PIPE)
    tw.ready(process)
    process.stdin.close()
    process.stdin = None
    assert tw.finish(process).status == 129
    tw.assert_nothing_left(mark)


def test_ladder_longer_than_time():
    assert tw.run("-k", "106000d", "--signal", "TERM", "--signal", "INT", "sh", "-c",
                  "exit 3").status == 3


def test_stop_behind_a_relay():
    """A SIGSTOP of the command's reaches the caller as a stop."""
    process = start("bash", "-c", 'sleep 60 >/dev/null 2>&1 & exec "$@"', "bash", tw.TREEWRAP, "sh",
                    "-c", "kill -STOP $$; exit 3", start_new_session=False, process_group=0)
    tw.until(lambda: tw.state(process.pid) == "T", what="the stop")
    tw.until(lambda: [state for child in tw.children(process.pid) for state in tw.state(child)
                      if tw.read_proc(child, "comm") == b"treewrap\n"] == ["T"], what="the shim's")
    os.killpg(process.pid, signal.SIGCONT)
    assert tw.finish(process).status == 3


def test_leftover_that_is_a_zombie_is_none(mark):
    result = tw.run("-v", "--linger", "0", "-k", "0", "sh", "-c",
                    "sh -c 'true & exec sleep 100' %s & "
                    "until grep -qs 'Z' $(printf '/proc/%%s/stat ' $(cat "
                    "/proc/$!/task/$!/children)); do :; done; exit 0" % mark)
    assert b"left 1 process (sleep)" in result.err
    tw.assert_nothing_left(mark)


def test_names_of_leftovers_that_do_not_fit(mark, tmp_path):
    """All are counted, as many are named as there is room for."""
    (tmp_path / "named").mkdir()
    os.mkfifo(tmp_path / "fifo")
    read, write = os.pipe()
    result = tw.run("--status-fd", write, "--linger", "0", "-k", "0", "sh", "-c",
                    "for i in $(seq 40); do (printf '%s' >/proc/self/comm; : >named/$i; "
                    "read _ <>fifo) & done; "
                    "until [ $(ls named | wc -l) = 40 ]; do sleep 0.02; done" % ("\\1" * 15),
                    mark, pass_fds=[write], cwd=tmp_path)
    os.close(write)
    with open(read, "rb") as file:
        end = json.loads(file.read().splitlines()[-1])
    assert (result.status, end["leftovers"]) == (0, 40)
    assert 10 < len(end["leftover_names"]) < 40
    assert set(end["leftover_names"]) == {"\1" * 15}
    tw.assert_nothing_left(mark)


def test_stopped_command_as_pid_1():
    if os.geteuid() != 0:
        pytest.skip("needs root, for a PID namespace")
    result = run("unshare", "--pid", "--fork", "--mount-proc", tw.TREEWRAP, "sh", "-c",
                 "(until grep -q 'State:.T' /proc/$$/status; do :; done; kill -CONT $$) & "
                 "kill -STOP $$; exit 3")
    assert result.status == 3


# ---- kernels without children files ----

def test_without_children_files_to_the_tree(absent):
    process = tw.start("--forward-to", "tree", "sh", "-c",
                       "sh -c 'trap \"exit 0\" USR1; echo ready; while :; do sleep 0.01; done' & "
                       "trap 'wait; exit 5' USR1; echo ready; while :; do sleep 0.01; done",
                       env=absent("children"))
    tw.ready(process), tw.ready(process)
    process.send_signal(signal.SIGUSR1)
    assert tw.finish(process).status == 5


def test_without_proc_and_with_high_numbers(mark):
    if os.geteuid() != 0:
        pytest.skip("needs root, for a PID namespace")
    script = 'echo 60000 >/proc/sys/kernel/ns_last_pid && "$@"; echo "status $?"; ' \
             'kill -0 -1 2>/dev/null && echo left; exit 0'
    result = run("unshare", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh",
                 tw.TREEWRAP, "-k", "0.2", "--verify-for", "50", "sh", "-c",
                 "setsid sleep 99 & exit 3")
    assert result.out == b"status 3\n", result
