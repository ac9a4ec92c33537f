"""The caller goes away: each watch ends the tree, and nothing is ever read from it."""

import json
import os
import pty
import signal
import socket
import subprocess
import time

import pytest
import tw

# Escapees that ignore all polite signals: the whole ladder is needed.
LADDER = ["-k", "0.2"]


def tree(mark):
    return [tw.adversary("escape"), mark, "setsid", "ignore", "double"]


def start(mark, *options, **keywords):
    """treewrap with a status pipe; .events() gives its records once it has ended."""
    read, write = os.pipe()
    keywords["pass_fds"] = [*keywords.get("pass_fds", []), write]
    process = tw.start(*LADDER, "--status-fd", write, *options, *tree(mark), **keywords)
    os.close(write)

    def events():
        with open(read, "rb") as file:
            return [json.loads(line) for line in file.read().splitlines()]

    process.events = events
    return process


def assert_ended(process, mark, cause, limit=20):
    began = time.monotonic()
    assert process.wait(limit) == 129
    tw.assert_nothing_left(mark)
    assert time.monotonic() - began < limit
    end = process.events()[-1]
    assert (end["event"], end["cause"], end["status"]) == ("end", cause, 129)
    process.stdout.close(), process.stderr.close()


@pytest.mark.parametrize("unread", [b"", b"not read by anybody" * 100])
def test_stdin_pipe(mark, unread):
    process = start(mark, "--watch-stdin", stdin=subprocess.PIPE)
    tw.ready(process)
    os.write(process.stdin.fileno(), unread)
    time.sleep(0.1)
    assert process.poll() is None
    process.stdin.close()
    assert_ended(process, mark, "stdin")


@pytest.mark.parametrize("how", ["close", "half-close"])
@pytest.mark.parametrize("unread", [b"", b"x" * 1000])
@pytest.mark.parametrize("family", ["unix", "tcp"])
def test_stdin_socket(mark, how, unread, family):
    if family == "unix":
        ours, theirs = socket.socketpair()
    else:
        listener = socket.create_server(("127.0.0.1", 0))
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        listener.close()
    process = start(mark, "--watch-stdin", stdin=theirs)
    theirs.close()
    tw.ready(process)
    ours.sendall(unread)
    time.sleep(0.1)
    assert process.poll() is None
    ours.shutdown(socket.SHUT_WR) if how == "half-close" else ours.close()
    assert_ended(process, mark, "stdin")


def test_stdin_terminal(mark):
    master, slave = pty.openpty()
    process = start(mark, "--watch-stdin", stdin=slave)
    os.close(slave)
    tw.ready(process)
    os.write(master, b"typed, not read\n")
    time.sleep(0.1)
    assert process.poll() is None
    os.close(master)
    assert_ended(process, mark, "stdin")


def test_stdin_that_is_hung_up_before_start(mark):
    process = start(mark, "--watch-stdin", stdin=subprocess.PIPE)
    process.stdin.close()
    assert_ended(process, mark, "stdin")


@pytest.mark.parametrize("path", ["/dev/null", "/etc/passwd"])
def test_stdin_that_never_hangs_up(path):
    with open(path) as file:
        result = tw.run("-v", "--watch-stdin", "sh", "-c", "sleep 0.1; exit 3", stdin=file)
    assert result.status == 3
    assert result.err.startswith(b"treewrap: --watch-stdin: standard input is no pipe")


def test_stdin_closed():
    result = subprocess.run(["sh", "-c", '"$0" --watch-stdin true <&-', tw.TREEWRAP],
                            capture_output=True, timeout=30)
    assert result.returncode == 125 and result.stderr.count(b"\n") == 1


def test_every_byte_reaches_the_command():
    """All that was sent before the hangup is the command's to read, if it is quick enough:
    treewrap takes none of it."""
    for size in (1, 4096, 60000):
        data = os.urandom(size)
        # It ignores TERM from the start, so that it has --kill-after to read.
        process = tw.start("--watch-stdin", "-k", "10", "sh", "-c", "cat; sleep 0.5; exit 3",
                           stdin=subprocess.PIPE,
                           preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
        out, err = process.communicate(data, timeout=30)
        assert out == data
        assert process.returncode == 129


def test_watch_fd(mark):
    ours, theirs = socket.socketpair()
    process = start(mark, "--watch-fd", theirs.fileno(), pass_fds=[theirs.fileno()])
    theirs.close()
    tw.ready(process)
    time.sleep(0.1)
    assert process.poll() is None
    ours.close()
    assert_ended(process, mark, "fd")


def test_several_watches_any_of_which_ends_it(mark):
    pipes = [os.pipe() for _ in range(8)]
    options = [word for read, _ in pipes for word in ("--watch-fd", read)]
    process = start(mark, *options, "--watch-parent", "--watch-stdin", "--watch-pid", os.getpid(),
                    pass_fds=[read for read, _ in pipes], stdin=subprocess.PIPE)
    [os.close(read) for read, _ in pipes]
    tw.ready(process)
    os.close(pipes[5][1])
    assert_ended(process, mark, "fd")
    [os.close(write) for i, (_, write) in enumerate(pipes) if i != 5]


def test_watch_pid(mark):
    other = subprocess.Popen(["sleep", "60"])
    process = start(mark, "--watch-pid", other.pid)
    tw.ready(process)
    time.sleep(0.1)
    assert process.poll() is None
    other.kill()
    # Its death counts, not that somebody fetches it.
    assert_ended(process, mark, "pid")
    other.wait()


def test_watch_pid_that_is_gone(tmp_path):
    other = subprocess.Popen(["true"])
    tw.until(lambda: tw.state(other.pid) == "Z")
    for waited in (False, True):
        if waited:
            other.wait()
        witness = tmp_path / "witness"
        read, write = os.pipe()
        result = tw.run("--watch-pid", other.pid, "--status-fd", write, "touch", witness,
                        pass_fds=[write])
        os.close(write)
        assert result.status == 129
        assert b"is gone already" in result.err
        assert not witness.exists()
        with open(read, "rb") as file:
            events = [json.loads(line) for line in file.read().splitlines()]
        assert [event["event"] for event in events] == ["end"]
        assert events[0]["cause"] == "pid"
    assert tw.run("-e", "129", "--watch-pid", other.pid, "true").status == 0


PARENT = """
import os, subprocess, sys
fds = [int(sys.argv[1])]
process = subprocess.Popen([{treewrap!r}, "-k", "0.2", "--watch-parent", "--status-fd", sys.argv[1],
                            *sys.argv[2:]], pass_fds=fds, stdout=1)
print(process.pid, flush=True)
input()
"""


def start_child_of_another(mark, *options):
    read, write = os.pipe()
    parent = subprocess.Popen(
        ["/usr/bin/python3", "-c", PARENT.format(treewrap=tw.TREEWRAP), str(write), *options,
         *tree(mark)], pass_fds=[write], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.close(write)
    first, second = parent.stdout.readline(), parent.stdout.readline()
    pid = int(first if first != b"ready\n" else second)
    return parent, pid, read


def test_parent_killed_under_a_subreaper(mark):
    """We are the subreaper: the orphaned treewrap's parent becomes us, not process 1."""
    parent, pid, read = start_child_of_another(mark)
    parent.kill()
    parent.wait()
    _, status = os.waitpid(pid, 0)
    tw.assert_nothing_left(mark)
    assert os.waitstatus_to_exitcode(status) == 129
    with open(read, "rb") as file:
        end = json.loads(file.read().splitlines()[-1])
    assert end["cause"] == "parent"
    parent.stdout.close(), parent.stdin.close()


def test_lifeline_that_leaked(mark):
    """Somebody else holds the lifeline's other end: it never hangs up, the parent's end counts."""
    lifeline = os.pipe()
    os.set_inheritable(lifeline[0], True)
    holder = subprocess.Popen(["sleep", "60"], pass_fds=[lifeline[1]])
    read, write = os.pipe()
    parent = subprocess.Popen(
        ["/usr/bin/python3", "-c", PARENT.format(treewrap=tw.TREEWRAP).replace(
            "fds = [", "fds = [%d, " % lifeline[0]), str(write), "--watch-fd", str(lifeline[0]),
         *tree(mark)], pass_fds=[write, lifeline[0]], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
    os.close(write), os.close(lifeline[0]), os.close(lifeline[1])
    first, second = parent.stdout.readline(), parent.stdout.readline()
    parent.kill()
    parent.wait()
    _, status = os.waitpid(int(first if first != b"ready\n" else second), 0)
    tw.assert_nothing_left(mark)
    assert os.waitstatus_to_exitcode(status) == 129
    with open(read, "rb") as file:
        assert json.loads(file.read().splitlines()[-1])["cause"] == "parent"
    holder.kill(), holder.wait()
    parent.stdout.close(), parent.stdin.close()


THREADS = """
import subprocess, sys, threading, time
statuses = []
def run(processes):
    processes.append(subprocess.Popen([sys.argv[1], "--watch-parent", "sh", "-c", "sleep 0.15; exit 7"]))
for _ in range(20):
    processes = []
    for _ in range(10):
        thread = threading.Thread(target=run, args=[processes])
        thread.start()
        thread.join()  # the thread has ended, the process lives on
    statuses += [process.wait() for process in processes]
print(len(statuses), set(statuses))
"""


def test_a_thread_that_ends_is_not_the_parent():
    """200 rounds: the thread that started treewrap ends, and nothing happens."""
    result = subprocess.run(["/usr/bin/python3", "-c", THREADS, tw.TREEWRAP],
                            capture_output=True, timeout=60)
    assert result.stdout == b"200 {7}\n", result


def test_parent_outside_the_namespace(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, for a PID namespace")
    inside = ["unshare", "--pid", "--fork", "--mount-proc", tw.TREEWRAP, "--watch-parent"]
    result = subprocess.run([*inside, "touch", tmp_path / "witness"], capture_output=True,
                            stdin=subprocess.PIPE, timeout=30)
    assert result.returncode == 125 and b"--watch-stdin" in result.stderr
    assert not (tmp_path / "witness").exists()
    process = subprocess.Popen([*inside, "--watch-stdin", "sh", "-c", "sleep 0.3; exit 3"],
                               stderr=subprocess.PIPE, stdin=subprocess.PIPE)
    assert process.wait(30) == 3 and b"cannot be watched" in process.stderr.read()
    process.stderr.close(), process.stdin.close()


def test_stop_on(mark):
    process = start(mark, "--stop-on", "usr1,SIGHUP", "--stop-on", "RTMIN+5")
    tw.ready(process)
    os.kill(process.pid, 39)
    assert_ended(process, mark, "signal")


def test_stop_on_the_second_time_is_forwarded(mark):
    process = tw.start("-k", "5", "--stop-on", "USR1", tw.adversary("signals"), mark)
    command = int(tw.ready(process).split()[1])
    process.send_signal(signal.SIGUSR1)
    assert {tw.ready(process, b"1").split()[0] for _ in range(2)} == {b"15", b"18"}
    process.send_signal(signal.SIGUSR1)
    tw.ready(process, b"10 ")
    os.kill(command, signal.SIGKILL)
    assert process.stdout.read() == b""
    assert process.wait(30) == 129
    process.stderr.close()


def test_preserve_status(mark):
    process = tw.start("--preserve-status", "--stop-on", "USR1", "sh", "-c",
                       "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done", mark)
    tw.ready(process)
    process.send_signal(signal.SIGUSR1)
    assert tw.finish(process).status == 9
