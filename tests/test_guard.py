"""Each of the two processes guards the other: SIGKILL at random moments of a run."""

import os
import random
import signal
import subprocess
import time

import pytest
import tw

ROUNDS = int(os.environ.get("ROUNDS", "200"))
SEED = int(os.environ.get("SEED", random.SystemRandom().getrandbits(32)))
TREE = ["sh", "-c", "setsid sleep 100 $0 & (setsid sh -c 'sleep 100 & sleep 100' $0 &) ; "
                    "trap '' TERM; sh -c 'sleep 100; :' $0 & sleep 0.02; "
                    "setsid sh -c 'sleep 100; :' $0"]


def moment(rng):
    """From before the reaper is there until well into the command's life."""
    return rng.choice([0, rng.uniform(0, 0.003), rng.uniform(0, 0.012), rng.uniform(0, 0.04)])


def sleep_until(when):
    """Exactly: a sleep of the system's would be too coarse."""
    while time.monotonic() < when:
        pass


@pytest.mark.parametrize("target", ["shim", "reaper", "shim's group", "reaper's group",
                                    "command's group"])
def test_killed_at_a_random_moment(target):
    print("SEED=%d" % SEED)
    rng = random.Random("%d %s" % (SEED, target))
    for turn in range(ROUNDS):
        mark = tw.new_mark()
        command = [TREE[0], TREE[1], TREE[2], mark]
        began = time.monotonic()
        process = tw.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        sleep_until(began + moment(rng))
        reapers = tw.children(process.pid)[:1]
        commands = [pid for reaper in reapers for pid in tw.children(reaper)[:1]]
        if target == "shim":
            process.kill()
        elif target == "shim's group":
            os.killpg(process.pid, signal.SIGKILL)
        elif target == "reaper":
            [tw.kill(pid) for pid in reapers]
        elif target == "reaper's group":
            # Before it has a group of its own it is in the shim's, which is started in one
            # of its own too: never ours.
            for pid in reapers:
                group = os.getpgid(pid) if os.path.exists("/proc/%d" % pid) else 0
                if group:
                    os.killpg(group, signal.SIGKILL)
        else:
            for pid in commands:
                try:
                    group = os.getpgid(pid)
                    if group not in (process.pid, os.getpgrp()):
                        os.killpg(group, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        process.send_signal(signal.SIGTERM) if process.poll() is None else None
        if process.poll() is None and target not in ("shim", "shim's group"):
            # Nothing may have been there to kill yet: end the run otherwise.
            deadline = time.monotonic() + 0.2
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            if process.poll() is None:
                process.kill()
        process.wait(30)
        for pid in reapers:
            tw.wait_gone(pid)
        # The reaper may have been born after we looked.
        tw.until(lambda: not tw.marked(mark), 5, "round %d: the end of %s" % (
            turn, tw.describe(tw.marked(mark))))
        tw.reap_adopted()


def test_stopped_shim_is_continued_at_the_end(mark):
    process = tw.start("-t", "1.5", "sh", "-c", "echo ready; sleep 100")
    tw.ready(process)
    process.send_signal(signal.SIGSTOP)
    tw.until(lambda: tw.state(process.pid) == "T")
    result = tw.finish(process, 10)
    assert result.status == 124


def test_stopped_reaper_is_continued_by_the_shim(mark):
    process = tw.start("-t", "0.5", "sleep", "100")
    reaper = tw.reaper_of(process)
    for _ in range(20):
        tw.kill(reaper, signal.SIGSTOP)
        time.sleep(0.01)
    assert tw.finish(process, 10).status == 124


def test_reaper_killed_is_said(mark):
    process = tw.start(tw.adversary("escape"), mark, "setsid", "ignore")
    tw.ready(process)
    tw.kill(tw.reaper_of(process))
    result = tw.finish(process)
    assert result.status == 125
    assert result.err == b"treewrap: the reaper was killed by SIGKILL; what it left has been ended\n"


def test_reaper_killed_when_it_has_told_the_end():
    """There is one end all the same, and it is what treewrap exits with."""
    for _ in range(50):
        ours, theirs = os.pipe()
        process = tw.start("--status-fd", theirs, "sh", "-c", "read x; exit 3",
                           stdin=subprocess.PIPE, pass_fds=[theirs])
        os.close(theirs)
        reaper = tw.reaper_of(process)
        process.stdin.close()
        process.stdin = None
        told = b""
        while b'"end"' not in told:
            told += os.read(ours, 65536)
        tw.kill(reaper)
        status = tw.finish(process).status
        told += os.read(ours, 65536)
        os.close(ours)
        assert told.count(b'"end"') == 1 and status == 3, (told, status)


def test_two_names_and_two_groups(mark):
    process = tw.start("sleep", "100")
    reaper = tw.reaper_of(process)
    command = tw.until(lambda: tw.children(reaper))[0]
    tw.until(lambda: tw.read_proc(command, "comm") == b"sleep\n")
    groups = [os.getpgid(pid) for pid in (process.pid, reaper, command)]
    assert len(set(groups)) == 3
    assert tw.read_proc(process.pid, "comm") == b"treewrap\n"
    assert b"treewrap" not in tw.read_proc(reaper, "comm")
    process.kill()
    process.wait()
    tw.wait_gone(reaper)


def test_both_killed_at_once_takes_the_command_along(mark):
    """The last resort: the command itself dies with its parent."""
    for _ in range(20):
        process = tw.start(tw.adversary("escape"), mark)
        tw.ready(process)
        reaper = tw.reaper_of(process)
        command = tw.children(reaper)[0]
        os.kill(process.pid, signal.SIGSTOP)  # so that it cannot act
        os.kill(reaper, signal.SIGKILL)
        os.kill(process.pid, signal.SIGKILL)
        tw.wait_gone(command)
        process.wait()
        tw.reap_adopted()


# ---- stopped at the wrong moment ----

def stubborn(mark, *options):
    """A tree that has to be killed; with its three ids: shim, reaper, command."""
    process = tw.start(*options, tw.adversary("escape"), mark, "setsid", "ignore", "double")
    tw.ready(process)
    reaper = tw.reaper_of(process)
    return process, reaper, tw.children(reaper)[0]


def stop(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
        tw.until(lambda: tw.state(pid) in "TZ")


def test_shim_and_command_stopped_when_the_timeout_comes(mark):
    """The shim must not stop once more for what the reaper told it before it ended."""
    for order in ("shim first", "command first", "together"):
        process, reaper, command = stubborn(mark, "-t", "0.7", "-k", "0.1")
        if order == "command first":
            os.kill(command, signal.SIGSTOP)
        stop(process.pid)
        os.kill(command, signal.SIGSTOP)
        assert tw.finish(process, 10).status == 124
        tw.assert_nothing_left(mark)


@pytest.mark.parametrize("how", ["stopped", "stopped with the command"])
def test_reaper_killed_while_the_shim_is_stopped(mark, how):
    process, reaper, command = stubborn(mark)
    if how == "stopped":
        stop(process.pid)
    else:
        os.kill(command, signal.SIGSTOP)
        tw.until(lambda: tw.state(process.pid) == "T")
    os.kill(reaper, signal.SIGKILL)
    assert tw.finish(process, 10).status == 125
    tw.assert_nothing_left(mark)


def test_all_stopped_and_the_shim_killed(mark):
    """A killer that stops everything first, then kills from the top."""
    process, reaper, command = stubborn(mark)
    stop(process.pid, reaper)
    tw.assert_nothing_outlives(process, reaper, mark)


# ---- the relay: children from before the exec ----

def start_with_children(mark, tmp_path, *options):
    """bash that becomes treewrap by exec, with two children; their ids and treewrap's."""
    out = tmp_path / "out"
    script = "(sleep 0.2; setsid sleep 40.5 & sleep 0.3) & exec \"$@\" > >(tee %s)" % out
    process = subprocess.Popen(["bash", "-c", script, "bash", tw.TREEWRAP, *options,
                                tw.adversary("escape"), mark, "setsid", "ignore", "double"],
                               start_new_session=True, stdin=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    tw.until(lambda: out.exists() and b"ready" in out.read_bytes(), what="ready")
    # The sleep becomes an orphan; it comes to us, not to treewrap.
    orphan = tw.until(lambda: [pid for pid in tw.children(os.getpid())
                               if b"40.5" in tw.read_proc(pid, "cmdline")])[0]
    shim = [pid for pid in tw.children(process.pid) if tw.read_proc(pid, "comm") == b"treewrap\n"]
    assert len(shim) == 1
    return process, shim[0], tw.children(shim[0])[0], orphan


@pytest.mark.parametrize("victim", ["relay", "shim", "reaper", "nobody"])
def test_exec_with_children_of_its_own(mark, tmp_path, victim):
    """What a shell had started before it became treewrap is not treewrap's to end, and what
    it started as treewrap is, whoever of the three is killed."""
    process, shim, reaper, orphan = start_with_children(mark, tmp_path, "-k", "0.1", "--stop-on",
                                                        "USR1")
    if victim == "nobody":
        process.send_signal(signal.SIGUSR1)
    else:
        os.kill({"relay": process.pid, "shim": shim, "reaper": reaper}[victim], signal.SIGKILL)
    status = process.wait(10)
    assert status == {"relay": -9, "shim": -9, "reaper": 125, "nobody": 129}[victim]
    tw.wait_gone(reaper)
    tw.reap_adopted()
    # (The process substitution has the mark too, and ends with its input.)
    tw.until(lambda: not tw.marked(mark), 5)
    assert tw.state(orphan) in "SR"
    os.kill(orphan, signal.SIGKILL)
    process.stderr.close()


def test_relay_passes_everything_on(mark):
    process = tw.start("true")
    tw.finish(process)
    process = subprocess.Popen(["bash", "-c", 'sleep 50 >/dev/null & exec "$@"', "bash", tw.TREEWRAP,
                                tw.adversary("signals"), mark], stdout=subprocess.PIPE,
                               start_new_session=True, bufsize=0)
    command = int(tw.ready(process).split()[1])
    for signo in (1, 2, 15, 40, 64):
        os.kill(process.pid, signo)
        tw.ready(process, b"%d " % signo)
    tw.queue(process.pid, 41, 7)
    tw.ready(process, b"41 -1 7 %d\n" % os.getpid())
    os.kill(command, signal.SIGKILL)
    assert process.stdout.read() == b""
    assert process.wait(10) == 137
    for pid in tw.children(os.getpid()):
        tw.kill(pid)


def test_relay_dies_of_the_signal(mark):
    process = subprocess.run(["bash", "-c", 'sleep 0.1 & exec "$@"', "bash", tw.TREEWRAP, "sh",
                              "-c", "kill -INT $$"], timeout=20)
    assert process.returncode == -signal.SIGINT


def test_tstp_stops_without_a_terminal():
    """In a group of its own the command can be stopped as it can in the caller's."""
    process = subprocess.Popen([tw.TREEWRAP, "sh", "-c", "kill -TSTP $$; exit 3"],
                               process_group=0, stdin=subprocess.DEVNULL)
    tw.until(lambda: tw.state(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    assert process.wait(10) == 3


def test_group_killed_before_the_reaper_has_left_it(mark):
    """So long no command runs: it could have put somebody out of the group's reach."""
    process = subprocess.Popen(
        [*tw.inject("setsid", "delay_enter=1000000", more=["-DD"]), tw.TREEWRAP, "--process-group", "keep",
         tw.adversary("escape"), mark, "group"], process_group=0, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE)
    tw.until(lambda: tw.children(process.pid) and tw.children(tw.children(process.pid)[0]))
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGKILL)
    tw.finish(process)
    assert not [pid for pid in tw.marked(mark) if tw.read_proc(pid, "comm") != b"strace\n"]
