"""Forwarding: every signal that somebody sends to treewrap reaches the command, once."""

import os
import signal
import time

import pytest
import tw

ALL = [signo for signo in range(1, 65) if signo not in (
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD)]


def start(mark, *options, **keywords):
    process = tw.start(*options, tw.adversary("signals"), mark, **keywords)
    command = int(tw.ready(process).split()[1])
    return process, command


def received(process, command, count):
    """COUNT signals, and what follows them before the end, which should be nothing."""
    lines = [tw.ready(process, b"") for _ in range(count)]
    time.sleep(0.15)
    os.kill(command, signal.SIGKILL)
    lines = [tuple(map(int, line.split())) for line in lines + process.stdout.readlines()]
    process.wait(30)
    process.stderr.close()
    return lines


def raw_kill(pid, signo):
    """By system call: libc refuses two signals that it keeps for itself."""
    if tw._libc.syscall(62, pid, signo) != 0:
        raise OSError("kill")


def test_every_signal_once(mark):
    process, command = start(mark)
    for signo in ALL:
        raw_kill(process.pid, signo)
        # One at a time: the kernel keeps but one of each of the first 31, and a stop signal
        # takes back a SIGCONT that is still pending.
        tw.ready(process, b"%d " % signo)
    # Each has come, in order, and nothing comes twice.
    assert received(process, command, 0) == []


def test_ignored_and_blocked_at_start_are_forwarded(mark):
    def setup():
        for signo in (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, 40):
            signal.signal(signo, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2, 41])

    process, command = start(mark, preexec_fn=setup)
    signos = [signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, 40, 41]
    for signo in signos:
        os.kill(process.pid, signo)
    assert sorted(line[0] for line in received(process, command, len(signos))) == sorted(signos)


def test_queued_values(mark):
    process, command = start(mark)
    for value in range(200):
        tw.queue(process.pid, 40, value)
    tw.queue(process.pid, signal.SIGUSR1, -7)
    lines = received(process, command, 201)
    real_time = [line for line in lines if line[0] == 40]
    # In order, none lost, with what came along and who sent it (code -1 is SI_QUEUE).
    assert real_time == [(40, -1, value, os.getpid()) for value in range(200)]
    assert (signal.SIGUSR1, -1, -7, os.getpid()) in lines


def test_second_term_is_a_second_term(mark):
    process = tw.start("sh", "-c", "trap 'echo TERM' TERM; echo ready; "
                       "while :; do sleep 0.01; done", mark)
    tw.ready(process)
    for _ in range(3):
        process.terminate()
        assert process.stdout.readline() == b"TERM\n"
    process.send_signal(signal.SIGINT)
    assert tw.finish(process).status == -signal.SIGINT


def test_forwarding_goes_on_while_stopping(mark):
    process, command = start(mark, "-t", "1.5", "-k", "3")
    # The timeout's, in either order. Then ours.
    assert {tw.ready(process, b"1").split()[0] for _ in range(2)} == {b"15", b"18"}
    process.send_signal(signal.SIGUSR1)
    tw.ready(process, b"10 ")
    process.send_signal(signal.SIGTERM)
    tw.ready(process, b"15 ")
    assert process.stdout.read() == b""
    assert process.wait(30) == 124
    process.stderr.close()


RELATIVES = "for how in setsid env; do $how sh -c 'trap \"echo $1\" USR1; echo ready; " \
            "while :; do sleep 0.01; done' sh $how %s & done; " \
            "trap 'echo main' USR1; echo ready; while :; do sleep 0.01; done"


@pytest.mark.parametrize("options, expected", [
    (["--forward-to", "main"], [b"main"]),
    ([], [b"main"]),
    (["-g"], [b"env", b"main"]),
    (["--forward-to", "group"], [b"env", b"main"]),
    (["-g", "--process-group", "keep"], [b"env", b"main"]),
    (["--forward-to", "tree"], [b"env", b"main", b"setsid"])])
@pytest.mark.parametrize("queued", [False, True])
def test_forward_to(mark, options, expected, queued):
    process = tw.start(*options, "sh", "-c", RELATIVES % mark)
    [tw.ready(process) for _ in range(3)]
    time.sleep(0.05)
    if queued:
        tw.queue(process.pid, signal.SIGUSR1, 5)
    else:
        process.send_signal(signal.SIGUSR1)
    # The sleeps between, which do not trap it, die of it where they are meant too.
    out = [tw.ready(process, b"") for _ in expected]
    time.sleep(0.1)
    process.kill()
    process.wait()
    out = sorted(b"".join(out + process.stdout.readlines()).split())
    assert out == expected
    process.stderr.close()
    tw.until(lambda: not tw.marked(mark))


def test_group_of_the_caller_is_spared(mark):
    """-g where the command shares the group: only members of the tree are meant."""
    import subprocess
    script = "trap 'echo hit' USR1; %s -g --process-group keep %s %s & echo $!; " \
             "read -t 20 line; kill -USR1 $!; read -t 20 line; kill -KILL $!; " \
             "echo end" % (tw.TREEWRAP, tw.adversary("signals"), mark)
    process = subprocess.Popen(["bash", "-c", script], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    assert process.stdout.readline().startswith(b"ready")
    process.stdin.write(b"go\n"), process.stdin.flush()
    assert process.stdout.readline().startswith(b"10 0")
    out, _ = process.communicate(b"go\n", timeout=30)
    assert b"hit" not in out and out.endswith(b"end\n")
    tw.until(lambda: not tw.marked(mark))


@pytest.mark.parametrize("rewrite, send, expected", [
    ("TERM:INT", signal.SIGTERM, [2]),
    ("15:2", signal.SIGTERM, [2]),
    ("TERM:RTMIN+3", signal.SIGTERM, [37]),
    ("TERM:0", signal.SIGTERM, []),
    ("TERM:INT", signal.SIGHUP, [1])])
def test_rewrite(mark, rewrite, send, expected):
    process, command = start(mark, "--rewrite", rewrite)
    process.send_signal(send)
    assert [line[0] for line in received(process, command, len(expected))] == expected


def test_rewritten_with_its_value(mark):
    process, command = start(mark, "--rewrite", "USR1:RTMIN+3")
    tw.queue(process.pid, signal.SIGUSR1, 99)
    assert received(process, command, 1) == [(37, -1, 99, os.getpid())]


def test_leftovers_get_what_the_command_would_have_got(mark):
    """With --leftovers wait the command may be gone for long."""
    process = tw.start("--leftovers", "wait", "sh", "-c",
                       "setsid sh -c 'trap \"echo got; exit\" TERM; echo ready $$; "
                       "while :; do sleep 0.01; done' %s & exit 4" % mark)
    orphan = int(tw.ready(process).split()[1])
    reaper = tw.reaper_of(process)
    # The command has been reaped, the other has been handed to the reaper.
    tw.until(lambda: tw.children(reaper) == [orphan])
    process.terminate()
    result = tw.finish(process, 10)
    assert (result.out, result.status) == (b"got\n", 4)


def test_group_kill_reaches_the_command_once(mark):
    process, command = start(mark)
    os.killpg(process.pid, signal.SIGINT)
    assert [line[0] for line in received(process, command, 1)] == [2]


def test_kill_0_in_the_command_stays_there(mark):
    result = tw.run("sh", "-c", "trap 'kill 0' EXIT; sleep 60 & exit 3", mark)
    assert result.status in (143, 3)


def test_flood(mark):
    """Signals by the thousand hold up neither the deadline nor the end."""
    process, command = start(mark, "-t", "0.6", "-k", "0.2")
    began = time.monotonic()
    while process.poll() is None and time.monotonic() - began < 20:
        for _ in range(50):
            try:
                tw.queue(process.pid, 40, 1)
            except OSError:
                break
    assert process.wait(30) == 124
    assert time.monotonic() - began < 15
    process.stdout.close(), process.stderr.close()
