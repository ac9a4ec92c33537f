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


def victims_of(target, process):
    """The ids to kill at one time, the first child being the reaper once it is there."""
    reaper = tw.children(process.pid)[:1]
    if target == "reaper":
        return reaper
    return [process.pid]


@pytest.mark.parametrize("target", ["shim", "reaper", "shim's group", "reaper's group",
                                    "command's group"])
def test_killed_at_a_random_moment(target):
    print("SEED=%d" % SEED)
    rng = random.Random("%d %s" % (SEED, target))
    for turn in range(ROUNDS if target in ("shim", "reaper") else ROUNDS // 2):
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
            deadline = time.monotonic() + 1
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
    process = tw.start("-t", "0.4", "sleep", "100")
    tw.reaper_of(process)
    time.sleep(0.1)
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
