"""System calls that old kernels do not have and that filters refuse: there is another way for
each, and the promise stays the same."""

import errno
import os
import signal
import subprocess

import pytest
import tw

CALLS = ["pidfd_open", "pidfd_send_signal", "close_range", "clone3", "pidfd_info",
         "timerfd_create", "signalfd4"]
KINDS = ["background", "setsid", "double", "group", "name", "ignore", "stopped", "deep", "env"]
# glibc cannot make threads where clone3 is refused by EPERM.
THREADS = ["thread", "leaderless"]


ALL = ",".join(CALLS)
# Both answers are taken alike: with one of them, each call alone is for make chaos.
ANSWERS = [("ENOSYS", call) for call in CALLS] + [("ENOSYS", ALL), ("EPERM", ALL)] + [
    pytest.param(("EPERM", call), marks=pytest.mark.long) for call in CALLS]


@pytest.fixture(params=ANSWERS,
                ids=lambda param: "%s-%s" % (param[0], param[1] if "," not in param[1] else "all"))
def refused(request):
    answer, calls = request.param

    prefix = [tw.adversary("refuse"), str(getattr(errno, answer)), calls]

    def start(*args):
        return tw.start_with(prefix, *args)

    start.command = lambda *args: [*prefix, tw.TREEWRAP, *map(str, args)]
    threads = [] if answer == "EPERM" and "clone3" in calls else THREADS
    start.escape = lambda mark, *more: [tw.adversary("escape"), mark, *KINDS, *threads, *more]
    return start


def test_timeout(refused, mark):
    process = refused("-t", "2.5", "-k", "0.2", *refused.escape(mark))
    tw.ready(process)
    result = tw.finish(process, 20)
    assert (result.status, result.err) == (124, b"")
    tw.assert_nothing_left(mark)


def test_leftovers(refused, mark):
    process = refused("-k", "0.2", "--linger", "0", *refused.escape(mark, "=", "exit", "7"))
    assert tw.finish(process, 20).status == 7
    tw.assert_nothing_left(mark)


def test_reaper_killed(refused, mark):
    process = refused(*refused.escape(mark))
    tw.ready(process)
    tw.kill(tw.reaper_of(process))
    assert tw.finish(process, 20).status == 125
    tw.assert_nothing_left(mark)


def test_shim_killed_and_stopped(refused, mark):
    process = refused(*refused.escape(mark))
    tw.ready(process)
    reaper = tw.reaper_of(process)
    process.send_signal(signal.SIGSTOP)
    tw.assert_nothing_outlives(process, reaper, mark)


def test_forwarded_to_all(refused, mark):
    process = refused("--forward-to", "tree", "sh", "-c",
                      "setsid sh -c 'trap \"exit 0\" USR1; echo ready; while :; do sleep 0.01; "
                      "done' %s & trap 'wait; exit 5' USR1; echo ready; while :; do sleep 0.01; "
                      "done" % mark)
    tw.ready(process), tw.ready(process)
    process.send_signal(signal.SIGUSR1)
    assert tw.finish(process, 20).status == 5
    tw.assert_nothing_left(mark)


def test_nothing_is_held_or_leaked(refused):
    process = refused(tw.adversary("fds"))
    out = tw.finish(process, 20).out.decode()
    assert [line.split()[1] for line in out.splitlines() if line.startswith("fd")] == [
        "0", "1", "2"]
    process = refused("sh", "-c", "exec >&-; exec sleep 30")
    assert process.stdout.read() == b""
    process.terminate()
    assert process.wait(10) == 143
    process.stderr.close()


def test_watch_pid(refused, mark):
    """Without pidfds, by its directory in /proc: it stays that process's."""
    other = subprocess.Popen(["sleep", "60"])
    process = refused("-k", "0.2", "--watch-pid", other.pid, *refused.escape(mark))
    tw.ready(process)
    other.kill()
    # Its death counts, not that somebody fetches it.
    assert process.wait(20) == 129
    tw.assert_nothing_left(mark)
    assert tw.finish(refused("--watch-pid", other.pid, "echo", "ran"), 20).out == b""
    other.wait()
    assert tw.finish(refused("--watch-pid", other.pid, "echo", "ran"), 20).out == b""
    process.stdout.close(), process.stderr.close()


def test_watch_parent(refused, mark):
    parent = subprocess.Popen(["bash", "-c", '"$@" & echo pid $!; read line', "bash",
                               *refused.command("-k", "0.2", "--watch-parent",
                                                *refused.escape(mark))],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    lines = [tw.ready(parent, b""), tw.ready(parent, b"")]
    pid = int(next(line for line in lines if line.startswith(b"pid")).split()[1])
    parent.kill(), parent.wait()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 129
    tw.assert_nothing_left(mark)
    parent.stdin.close(), parent.stdout.close()


def test_queued_values(refused, mark):
    process = refused(tw.adversary("signals"), mark)
    command = int(tw.ready(process).split()[1])
    for value in range(20):
        tw.queue(process.pid, 40, value)
    for value in range(20):
        assert tw.ready(process, b"40").split()[:3] == [b"40", b"-1", b"%d" % value]
    tw.kill(command)
    assert process.wait(20) == 137
    process.stdout.close(), process.stderr.close()
