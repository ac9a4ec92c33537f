"""How the command is started: as if treewrap were not there."""

import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest
import tw

FDS = tw.adversary("fds")


def lines(out, prefix):
    return [line for line in out.decode().splitlines() if line.startswith(prefix)]


def bare(command, **keywords):
    """The same without treewrap: what is to be expected."""
    keywords.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30,
                          **keywords)


def same_names(out):
    """Pipe numbers differ from run to run."""
    return [line.split(":")[0] for line in lines(out, "fd")]


@pytest.mark.parametrize("options", [
    [], ["-t", "60"], ["-v"], ["--watch-stdin"], ["--watch-parent"],
    ["--watch-pid", str(os.getpid())], ["-t", "60", "-v", "--watch-parent", "--stop-on", "USR1"]])
def test_no_descriptor_leaks_in(options):
    expected = bare([FDS])
    found = tw.run(*options, FDS)
    assert found.status == 0
    assert same_names(found.out) == same_names(expected.stdout)


def test_named_descriptors_are_kept_from_the_command():
    status, lifeline, other = os.pipe(), os.pipe(), os.pipe()
    result = tw.run("--status-fd", status[1], "--watch-fd", lifeline[0], FDS,
                    pass_fds=[status[1], lifeline[0], other[0]])
    numbers = [int(line.split()[1]) for line in lines(result.out, "fd")]
    assert numbers == [0, 1, 2, other[0]]
    for pair in (status, lifeline, other):
        [os.close(fd) for fd in pair]


def test_every_inherited_descriptor_arrives():
    pairs = [os.pipe() for _ in range(40)]
    fds = [pair[0] for pair in pairs]
    result = tw.run("-t", "60", FDS, pass_fds=fds)
    assert [int(line.split()[1]) for line in lines(result.out, "fd")] == [0, 1, 2] + fds
    [os.close(fd) for pair in pairs for fd in pair]


@pytest.mark.not_with("coverage", "the profiler's runtime sets a variable of its own")
def test_environment_and_directory(tmp_path):
    environment = {"A": "1", "B": "x y\nz", "PATH": os.environ["PATH"]}
    command = ["sh", "-c", "pwd; env -0; ulimit -a; umask"]
    expected = bare(command, cwd=tmp_path, env=environment)
    found = subprocess.run([tw.TREEWRAP, "-t", "60", *command], cwd=tmp_path, env=environment,
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    assert found.stdout == expected.stdout


def test_pid_variables():
    script = 'exec "$0" sh -c \'echo $LISTEN_PID $WATCHDOG_PID $OTHER_PID $$\''
    result = bare(["sh", "-c", "export LISTEN_PID=$$ WATCHDOG_PID=$$ OTHER_PID=$$; " + script,
                   tw.TREEWRAP])
    listen, watchdog, other, own = result.stdout.split()
    assert listen == watchdog == own != other
    result = tw.run("sh", "-c", "echo $LISTEN_PID $WATCHDOG_PID",
                    env={"LISTEN_PID": "1", "WATCHDOG_PID": "77"})
    assert result.out == b"1 77\n"


def start_with(setup, *args):
    """treewrap started with signals set up by SETUP, beside the command alone."""
    expected = bare([FDS], preexec_fn=setup)
    process = tw.start(*args, FDS, preexec_fn=setup)
    found = tw.finish(process)
    assert lines(found.out, "SigBlk") == lines(expected.stdout, "SigBlk")
    assert lines(found.out, "SigIgn") == lines(expected.stdout, "SigIgn")


def block_all_but_some():
    signal.pthread_sigmask(signal.SIG_SETMASK, set(range(1, 65)) - {2, 40})


def ignore_many():
    for signo in list(range(1, 32)) + [34, 40, 64]:
        if signo not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(signo, signal.SIG_IGN)


@pytest.mark.parametrize("setup", [
    lambda: None, block_all_but_some, ignore_many,
    lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)])
def test_mask_and_ignored_signals_arrive(setup):
    start_with(setup)


@pytest.mark.parametrize("setup", [
    block_all_but_some, ignore_many,
    lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)])
def test_strange_signals_at_start_break_nothing(mark, setup):
    # The command can be ended by SIGKILL alone where it inherits that TERM is out.
    result = tw.finish(tw.start("-t", "0.2", "-k", "0.2", "sh", "-c", "sleep 100; :", mark,
                                preexec_fn=setup))
    assert result.status == 124
    tw.assert_nothing_left(mark)
    # (Not a shell, which would lose its own child's status.)
    result = tw.finish(tw.start("/usr/bin/env", "-i", "/bin/sh", "-c", "exit 33",
                                preexec_fn=setup))
    assert result.status == 33


def test_nohup(mark):
    process = tw.start(tw.adversary("escape"), mark,
                       preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    tw.ready(process)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert tw.finish(process).status == 143


def test_ignored_pipe_at_start(mark):
    """Neither ends treewrap, nor is the ignore lost on the way to the command."""
    read, write = os.pipe()
    os.close(read)
    process = tw.start("sh", "-c", "printf x 2>/dev/null; exit 4", mark, stdout=write,
                       restore_signals=False)
    os.close(write)
    assert tw.finish(process).status == 4


def test_producer_gets_its_sigpipe(mark):
    """treewrap has let go of standard input: with the command's own reading end closed, the
    producer is told at once, while the command runs."""
    process = tw.start("sh", "-c", "exec <&-; echo ready; exec sleep 60", mark,
                       stdin=subprocess.PIPE)
    tw.ready(process)
    with pytest.raises(BrokenPipeError):
        for _ in range(100):
            os.write(process.stdin.fileno(), b"x" * 4096)
            time.sleep(0.01)
    process.terminate()
    process.wait(30)


def test_reader_gets_its_end_of_file(mark):
    process = tw.start("sh", "-c", "exec >&-; exec sleep 60", mark)
    began = time.monotonic()
    assert process.stdout.read() == b""
    assert time.monotonic() - began < 10
    process.terminate()
    assert process.wait(30) == 143


def test_nothing_else_is_held(mark, tmp_path):
    """What the two processes hold while the command runs."""
    extra = os.pipe()
    process = tw.start("-t", "60", tw.adversary("escape"), mark, pass_fds=extra, cwd=tmp_path,
                       stdin=subprocess.PIPE)
    tw.ready(process)
    reaper = tw.reaper_of(process)
    command = tw.children(reaper)[0]
    holders = []
    for pid in (process.pid, reaper):
        # They let go in the moment after the exec, not before it.
        tw.until(lambda: os.readlink("/proc/%d/cwd" % pid) == "/", 1)
        for entry in pathlib.Path("/proc/%d/fd" % pid).iterdir():
            target = os.readlink(entry)
            if target.startswith("pipe:"):
                holders.append((pid, int(entry.name), target))
            else:
                assert target.startswith(("socket:", "anon_inode:[signalfd]", "anon_inode:[eventpoll]", "/proc")), target
    # Standard error, by one process, and no other pipe.
    assert holders == [(process.pid, 2, os.readlink("/proc/%d/fd/2" % command))]
    assert os.readlink("/proc/%d/cwd" % command) == str(tmp_path)
    process.terminate()
    process.wait(30)
    [os.close(fd) for fd in extra]


def test_lock_is_released(mark, tmp_path):
    lock = tmp_path / "lock"
    process = subprocess.Popen(
        ["flock", str(lock), "-c", "exec %s sh -c 'flock -u 3 2>/dev/null; exec 3>&-; echo ready; "
         "exec sleep 60' %s 3>>%s" % (tw.TREEWRAP, mark, lock)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    tw.ready(process)
    for pid in tw.marked(mark):
        tw.kill(pid, signal.SIGTERM)
    process.wait(30)


def test_mount_point_is_not_held(mark, tmp_path):
    """The working directory has been left: what the command leaves too can be unmounted."""
    process = tw.start("sh", "-c", "cd /; echo ready; exec sleep 60", mark, cwd=tmp_path)
    tw.ready(process)
    for pid in [process.pid, tw.reaper_of(process)]:
        tw.until(lambda: os.readlink("/proc/%d/cwd" % pid) == "/", 1)
    process.terminate()
    process.wait(30)


def test_inherited_socket_works():
    ours, theirs = socket.socketpair()
    result = tw.run("bash", "-c", "echo hello >&%d" % theirs.fileno(), pass_fds=[theirs.fileno()])
    assert result.status == 0
    assert ours.recv(10) == b"hello\n"


def test_jobserver(tmp_path):
    makefile = tmp_path / "Makefile"
    makefile.write_text("all: a b\n\t+%s $(MAKE) inner\na b:\ninner:\n\t@echo done\n" % tw.TREEWRAP)
    result = bare(["make", "-s", "-j2", "-C", str(tmp_path)],
                  env={"PATH": os.environ["PATH"]})
    assert result.stdout == b"done\n" and b"jobserver" not in result.stderr, result


def test_ordinary_user(mark):
    """No privilege is needed."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become an ordinary user")
    process = tw.start("-t", "1", "-k", "0.2", tw.adversary("escape"), mark, "setsid", "ignore",
                       "double", user=65534, group=65534, extra_groups=[], cwd="/")
    tw.ready(process)
    assert tw.finish(process).status == 124
    tw.assert_nothing_left(mark)


def test_no_controlling_terminal_means_own_group(mark):
    process = tw.start(tw.adversary("escape"), mark)
    tw.ready(process)
    command = tw.children(tw.reaper_of(process))[0]
    assert os.getpgid(command) == command
    process.terminate()
    process.wait(30)


@pytest.mark.parametrize("choice", ["new", "keep"])
def test_process_group_chosen(mark, choice):
    process = tw.start("--process-group", choice, tw.adversary("escape"), mark)
    tw.ready(process)
    command = tw.children(tw.reaper_of(process))[0]
    assert os.getpgid(command) == (command if choice == "new" else process.pid)
    process.terminate()
    process.wait(30)


FAN_CLASS_CONTENT, FAN_MARK_ADD, FAN_OPEN_EXEC_PERM, AT_FDCWD = 4, 1, 0x40000, -100


@pytest.fixture
def exec_hangs(tmp_path):
    """A program whose exec waits for the permission of a listener, who never gives it."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for fanotify")
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    listener = tw._libc.fanotify_init(FAN_CLASS_CONTENT, os.O_RDONLY)
    if listener < 0:
        pytest.skip("no fanotify here")
    if tw._libc.fanotify_mark(listener, FAN_MARK_ADD, ctypes.c_uint64(FAN_OPEN_EXEC_PERM),
                              AT_FDCWD, str(program).encode()) != 0:
        os.close(listener)
        pytest.skip("fanotify gives no permissions here")
    yield program
    os.close(listener)


def test_timeout_while_the_exec_hangs(exec_hangs):
    result = tw.run("-t", "0.2", "-k", "0.3", exec_hangs, limit=10)
    assert result.status == 124
    result = tw.run("-t", "0.2", "-k", "0", exec_hangs, limit=10)
    assert result.status == 124 and result.took < 4


def test_slow_exec_without_signalfd(exec_hangs):
    """That treewrap has to look again and again for signals is nothing to the exec."""
    began = time.monotonic()
    process = tw.start_with([tw.adversary("refuse"), 38, "signalfd4"], "-t", "0.7", "-k", "0",
                            exec_hangs)
    assert tw.finish(process, 10).status == 124
    assert time.monotonic() - began >= 0.7


def test_watch_while_the_exec_hangs(exec_hangs):
    process = tw.start("--watch-stdin", "-k", "0.3", exec_hangs, stdin=subprocess.PIPE)
    time.sleep(0.1)
    process.stdin.close()
    process.stdin = None
    assert tw.finish(process, 10).status == 129


def hanging(program, *options):
    """treewrap, where the command's exec has begun and hangs."""
    process = tw.start(*options, program)
    reaper = tw.reaper_of(process)
    command = tw.until(lambda: tw.children(reaper))[0]
    tw.until(lambda: tw.read_proc(command, "wchan") == b"fanotify_handle_event"
             or tw.state(command) == "D", what="an exec that hangs")
    return process


def test_signals_while_the_exec_hangs(exec_hangs):
    """They reach the command's process, which they end as they would without treewrap."""
    for signo in (signal.SIGTERM, signal.SIGUSR1, 40):
        process = hanging(exec_hangs)
        process.send_signal(signo)
        assert tw.finish(process, 10).status == 128 + signo
    process = hanging(exec_hangs, "--rewrite", "TERM:0")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGHUP)
    assert tw.finish(process, 10).status == 129
    process = hanging(exec_hangs, "--stop-on", "TERM", "-k", "0.2")
    process.send_signal(signal.SIGTERM)
    assert tw.finish(process, 10).status == 129
    process = hanging(exec_hangs, "--stop-on", "TERM", "-k", "0")
    process.send_signal(signal.SIGTERM)
    assert tw.finish(process, 10).status == 129


def test_signal_to_pid_1_while_the_exec_hangs(exec_hangs):
    process = tw.start_with(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"],
                            exec_hangs)
    pid_1 = tw.until(lambda: tw.children(process.pid))[0]
    command = tw.until(lambda: tw.children(pid_1))[0]
    tw.until(lambda: tw.read_proc(command, "wchan") == b"fanotify_handle_event"
             or tw.state(command) == "D", what="an exec that hangs")
    os.kill(pid_1, signal.SIGTERM)
    assert tw.finish(process, 10).status == 128 + signal.SIGTERM


def test_sigkill_while_the_exec_hangs(exec_hangs):
    process = tw.start(exec_hangs)
    reaper = tw.reaper_of(process)
    command = tw.until(lambda: tw.children(reaper))[0]
    time.sleep(0.1)
    process.kill()
    tw.wait_gone(reaper)
    assert not os.path.exists("/proc/%d" % command)
    process = tw.start(exec_hangs)
    reaper = tw.reaper_of(process)
    command = tw.until(lambda: tw.children(reaper))[0]
    time.sleep(0.1)
    tw.kill(reaper)
    assert tw.finish(process, 10).status == 125
    assert not os.path.exists("/proc/%d" % command)


def test_early_messages_leave_standard_error_to_the_command():
    result = tw.run("-v", "--watch-stdin", "sh", "-c", "echo mine >&2; exit 3")
    assert result.status == 3
    assert result.err.splitlines()[1:] == [b"mine"]


def test_script_without_interpreter_as_ordinary_user(tmp_path):
    """200 times: what fails in the reaper must not be taken for the failure of the exec, with
    which it shares its memory."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become an ordinary user")
    script = pathlib.Path("/var/tmp/%s" % tw.new_mark())
    script.write_text("exit 44\n")
    script.chmod(0o755)
    try:
        for _ in range(200):
            result = tw.run(script, user=65534, group=65534, extra_groups=[], cwd="/")
            assert result.status == 44, result
    finally:
        script.unlink()


def test_command_that_asks_to_be_traced():
    """Not our business: it runs as if nobody had answered."""
    keywords = {}
    if os.geteuid() == 0:
        # (The kernel refuses it where the parent has fewer capabilities.)
        keywords = dict(user=65534, group=65534, extra_groups=[], cwd="/")
    assert tw.run(tw.adversary("tracee"), **keywords).status == 9


@pytest.mark.parametrize("prefix", [[], ["nice", "-n", "5"], ["chrt", "-b", "0"], ["chrt", "-i", "0"],
                                    ["chrt", "-f", "3"], ["nice", "-n", "-3"]],
                         ids=["ordinary", "nice", "batch", "idle", "fifo", "unkind"])
@pytest.mark.parametrize("contain", ["tree", "cgroup"])
def test_the_commands_priority_is_the_callers(prefix, contain):
    """Whatever treewrap gives itself."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for some of them")
    # Policy, priority, niceness, and whether they are reset at a fork.
    show = ["/usr/bin/python3", "-c", "import os; p = os.sched_getscheduler(0); print(p & ~0x40000000, "
            "os.sched_getparam(0).sched_priority, os.getpriority(os.PRIO_PROCESS, 0), p >> 30)"]
    bare = subprocess.run([*prefix, *show], capture_output=True, check=True, timeout=tw.LIMIT).stdout
    assert tw.finish(tw.start_with(prefix, "--contain", contain, *show)).out == bare
