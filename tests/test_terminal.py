"""On a real terminal: a person who puts treewrap before a command must not notice it. What is
to be expected is shown without treewrap in the same test where that makes it plainer."""

import fcntl
import os
import pty
import random
import re
import select
import shlex
import signal
import struct
import subprocess
import termios
import time

import pytest
import tw

PROMPT = b"PROMPT> "


class Terminal:
    """A shell on a pseudo-terminal, driven by what a person would type."""

    def __init__(self, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(PS1=PROMPT.decode(), TERM="vt100", T=tw.TREEWRAP, HISTFILE="",
                              BIN=tw.BIN, LESS="-R")
            os.environ.pop("PROMPT_COMMAND", None)
            command = command or ("bash", "--norc", "--noprofile", "--noediting", "-i")
            os.execvp(command[0], command)
        self.seen = b""

    def read_until(self, pattern, limit=10):
        """Everything up to the end of what matches PATTERN."""
        deadline = time.monotonic() + limit
        while True:
            match = re.search(pattern, self.seen, re.S)
            if match:
                out, self.seen = self.seen[:match.end()], self.seen[match.end():]
                return out
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], (
                "no %r in %r" % (pattern, self.seen))
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            assert data, "the terminal is gone: %r" % self.seen
            self.seen += data

    def type(self, text):
        os.write(self.fd, text if isinstance(text, bytes) else text.encode())

    def prompt(self, limit=10):
        return self.read_until(re.escape(PROMPT), limit)

    def run(self, line, limit=10):
        """What LINE prints, up to the next prompt."""
        self.type(line + "\n")
        self.read_until(rb"\n", limit)
        return self.prompt(limit)[:-len(PROMPT)].replace(b"\r", b"")

    def foreground(self):
        return struct.unpack("i", fcntl.ioctl(self.fd, termios.TIOCGPGRP, b"\0" * 4))[0]

    def foreground_runs(self, name):
        """Waits until a job of NAME has the terminal and none of its processes is stopped."""
        def runs():
            group = self.foreground()
            members = [pid for pid in tw.pids() if tw.group(pid) == group]
            return (tw.read_proc(group, "comm") == b"%s\n" % name.encode() and members
                    and all(tw.state(pid) not in ("T", None) for pid in members))
        tw.until(runs, what="%s in the foreground" % name)

    def stop(self):
        self.type(b"\x1a")
        assert b"Stopped" in self.prompt()

    def check_shell(self, wrap):
        """An interactive shell behind WRAP has job control of its own."""
        self.type(wrap + " bash --norc --noprofile --noediting -i\n")
        assert b"job control" not in self.prompt()
        self.type("sleep 77\n")
        self.foreground_runs("sleep")
        self.stop()
        self.type("fg\n")
        self.foreground_runs("sleep")
        self.type(b"\x03")
        self.prompt()
        self.type("exit 4\n")
        self.prompt()
        assert self.run("echo $?") == b"4\n"

    def close(self):
        os.close(self.fd)
        deadline = time.monotonic() + 10
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.01)
        tw.reap_adopted()


@pytest.fixture
def terminal():
    made = Terminal()
    made.prompt()
    yield made
    made.close()


WRAP = pytest.mark.parametrize("wrap", ["", "$T "], ids=["bare", "treewrap"])


@WRAP
def test_ctrl_c_reaches_the_command_once(terminal, mark, wrap):
    terminal.type("%s$BIN/signals %s\n" % (wrap, mark))
    terminal.read_until(rb"ready \d+\r\n")
    for _ in range(3):
        terminal.type(b"\x03")
        terminal.read_until(rb"2 128 0 0\r\n")
        time.sleep(0.1)
    command = [pid for pid in tw.marked(mark) if tw.read_proc(pid, "comm") == b"signals\n"][0]
    os.kill(command, signal.SIGKILL)
    # Nothing but the end: no signal came twice.
    rest = terminal.prompt()
    assert b" 128 " not in rest


@WRAP
def test_ctrl_c_ends_a_loop(terminal, wrap):
    terminal.type("for i in 1 2 3; do echo round $i; %ssleep 5; done\n" % wrap)
    terminal.read_until(rb"round 1\r\n")
    time.sleep(0.3)
    terminal.type(b"\x03")
    assert b"round 2" not in terminal.prompt()
    assert terminal.run("echo $?") == b"130\n"


@WRAP
def test_ctrl_backslash(terminal, wrap):
    terminal.run("ulimit -c 0")
    terminal.type("%ssleep 5\n" % wrap)
    time.sleep(0.3)
    terminal.type(b"\x1c")
    assert b"Quit" in terminal.prompt()
    assert terminal.run("echo $?") == b"131\n"


CATCHES_INT = "import signal, sys, time; " \
              "signal.signal(2, lambda *_: (print(\"got int\"), sys.exit(3))); " \
              "print(\"ready\", flush=True); [time.sleep(0.05) for _ in range(2000)]"


@WRAP
def test_ctrl_z_bg_fg(terminal, mark, wrap):
    # (Not a shell: one that is about to start a program cannot stop.)
    terminal.type("%s/usr/bin/python3 -c '%s' %s\n" % (wrap, CATCHES_INT, mark))
    terminal.read_until(rb"ready\r\n")
    for _ in range(3):
        terminal.stop()
        assert b"Stopped" in terminal.run("jobs")
        before = {pid for pid in tw.marked(mark)}
        assert all(tw.state(pid) == "T" for pid in before
                   if tw.read_proc(pid, "comm") != b"tree-reaper\n")
        terminal.run("bg")
        tw.until(lambda: all(tw.state(pid) != "T" for pid in tw.marked(mark)))
        assert b"Running" in terminal.run("jobs")
        terminal.type(b"fg\n")
        terminal.foreground_runs("treewrap" if wrap else "python3")
    terminal.type(b"\x1a")
    terminal.prompt()
    terminal.type(b"fg\n")
    terminal.foreground_runs("treewrap" if wrap else "python3")
    terminal.type(b"\x03")
    assert terminal.prompt().count(b"^Cgot int\r\n") == 1
    assert terminal.run("echo $?") == b"3\n"
    assert terminal.run("jobs") == b""
    tw.assert_nothing_left(mark)


@WRAP
def test_ctrl_z_many_times(terminal, mark, wrap):
    """The race between stop and continue."""
    shell = terminal.foreground()
    # (Not a shell: one that is about to start a program cannot stop.)
    terminal.type("%s$BIN/escape %s\n" % (wrap, mark))
    terminal.read_until(rb"ready\r\n")
    for turn in range(100):
        terminal.type(b"\x1a")
        assert b"Stopped" in terminal.prompt(), turn
        terminal.type(b"fg\n")
        # Until the shell has continued it, Ctrl-Z would be lost without treewrap too.
        command = [pid for pid in tw.marked(mark) if tw.read_proc(pid, "comm") == b"escape\n"][0]
        tw.until(lambda: terminal.foreground() != shell and tw.state(command) != "T")
        terminal.seen = b""
        time.sleep(0.001 * (turn % 10))
    time.sleep(0.1)
    terminal.type(b"\x03")
    terminal.prompt()
    tw.assert_nothing_left(mark)


@WRAP
def test_a_command_that_ignores_ctrl_z(terminal, mark, wrap):
    terminal.type("%ssh -c 'trap \"\" TSTP; echo ready; sleep 0.5; echo done' %s\n" % (wrap, mark))
    terminal.read_until(rb"ready\r\n")
    terminal.type(b"\x1a")
    out = terminal.prompt()
    assert b"done" in out and b"Stopped" not in out


def test_ctrl_z_inside_a_shell_inside_treewrap(terminal, mark):
    terminal.check_shell("$T --")


@WRAP
def test_ctrl_z_of_a_pipeline(terminal, mark, wrap):
    terminal.type("sh -c 'echo ready; sleep 60' %s | %scat | %scat\n" % (mark, wrap, wrap))
    terminal.read_until(rb"ready\r\n")
    time.sleep(0.3)
    terminal.stop()
    terminal.type("fg\n")
    terminal.foreground_runs("sh")
    terminal.type(b"\x03")
    terminal.prompt()
    assert terminal.run("jobs") == b""
    tw.until(lambda: not tw.marked(mark))


def test_timeout_during_a_stop(terminal, mark):
    terminal.type("$T -t 2 $BIN/escape %s\n" % mark)
    terminal.read_until(rb"ready\r\n")
    terminal.stop()
    tw.until(lambda: not tw.marked(mark), 8)
    assert b"Exit 124" in terminal.run("sleep 0.2; jobs")


@WRAP
def test_reads_the_terminal(terminal, wrap):
    terminal.type("%ssh -c 'echo ready; read line; echo \"<$line>\"'\n" % wrap)
    terminal.read_until(rb"ready\r\n")
    terminal.type("hello\n")
    assert b"<hello>" in terminal.prompt()
    assert b"speed" in terminal.run("%ssh -c 'stty -a </dev/tty'" % wrap)


@WRAP
def test_never_stopped_in_the_foreground(terminal, wrap):
    terminal.run("stty tostop")
    assert terminal.run("echo x | %scat" % wrap) == b"x\n"
    assert b"999" in terminal.run("%sseq 1000 | cat" % wrap)
    assert b"speed" in terminal.run("true | %sstty -a </dev/tty" % wrap)
    assert terminal.run("jobs") == b""


@pytest.mark.parametrize("line", ["seq 100 >{0}; cat {0} | $T less", "$T seq 100000 | less",
                                  "seq 100 >{0}; $T less {0}"])
def test_less(terminal, tmp_path, line):
    terminal.type(line.format(tmp_path / "f") + "\n")
    terminal.read_until(rb"1[^\n]*\r\n2[^\n]*\r\n3[^\n]*\r\n")
    time.sleep(0.2)
    terminal.type("q")
    terminal.prompt()
    assert terminal.run("jobs") == b""


def test_foreground_group_is_never_changed(terminal, mark):
    shell = terminal.foreground()
    terminal.type("$T sh -c 'echo ready; sleep 0.3' %s\n" % mark)
    terminal.read_until(rb"ready\r\n")
    job = terminal.foreground()
    assert job == os.getpgid([pid for pid in tw.marked(mark)
                              if tw.read_proc(pid, "comm") == b"treewrap\n"][0])
    terminal.prompt()
    assert terminal.foreground() == shell != job


@WRAP
def test_background_job_that_reads_is_stopped(terminal, mark, wrap):
    terminal.run("%scat &" % wrap)
    tw.until(lambda: b"Stopped" in terminal.run("jobs"))
    terminal.type("fg\n")
    terminal.read_until(rb"cat\r\n")
    terminal.type("line\n")
    terminal.read_until(rb"line\r\nline\r\n")
    terminal.type(b"\x04")
    terminal.prompt()
    assert terminal.run("jobs") == b""


def test_closing_the_terminal_ends_the_tree(mark):
    for options, command in (("", "sh -c 'echo ready; sleep 60; :'"),
                             ("--watch-stdin -k 0.2",
                              "sh -c 'trap \"\" HUP TERM; echo ready; while :; do sleep 1; done'")):
        terminal = Terminal()
        terminal.prompt()
        terminal.type("$T %s %s %s\n" % (options, command, mark))
        terminal.read_until(rb"ready\r\n")
        terminal.close()
        tw.until(lambda: not tw.marked(mark), 5)


def test_window_size_reaches_the_command(terminal, mark):
    terminal.type("$T $BIN/signals %s\n" % mark)
    terminal.read_until(rb"ready \d+\r\n")
    fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    terminal.read_until(rb"28 128 0 0\r\n")
    command = [pid for pid in tw.marked(mark) if tw.read_proc(pid, "comm") == b"signals\n"][0]
    time.sleep(0.1)
    os.kill(command, signal.SIGKILL)
    assert b"28 " not in terminal.prompt()


def test_kill_of_the_job(terminal, mark):
    terminal.type("$T $BIN/escape %s setsid ignore double &\n" % mark)
    terminal.read_until(rb"ready\r\n")
    terminal.run("kill -9 %1; wait")
    tw.until(lambda: not tw.marked(mark), 5)


def test_messages_to_the_terminal(terminal):
    """The reaper is in a background group: with tostop, its writing must not stop it."""
    terminal.run("stty tostop")
    assert b"treewrap: stopping" in terminal.run("$T -v -t 0.2 sleep 5")
    assert terminal.run("jobs") == b""


def test_ctrl_z_behind_a_relay(terminal, mark):
    """Where a shell with children has become treewrap."""
    terminal.type("bash -c 'sleep 50 & exec $T $BIN/escape %s setsid'\n" % mark)
    terminal.read_until(rb"ready\r\n")
    for _ in range(5):
        terminal.stop()
        terminal.type(b"fg\n")
        terminal.read_until(rb"setsid[^\n]*\r\n")
        terminal.foreground_runs("treewrap")
    terminal.type(b"\x03")
    terminal.prompt()
    assert terminal.run("echo $?") == b"130\n"
    tw.until(lambda: not tw.marked(mark), 5)


def test_group_led_from_outside_the_namespace(terminal):
    """The group's leader is in another PID namespace: here it has no number to rejoin it by."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for a PID namespace")
    terminal.type("unshare --pid --fork --mount-proc sh -c '$T cat; echo rc=$?'\n")
    time.sleep(0.5)
    terminal.type("hello\n")
    terminal.read_until(rb"hello\r\nhello\r\n")
    terminal.type(b"\x04")
    assert b"rc=0" in terminal.prompt()


COUNTS_CONT = "import signal, sys, time; n = []; " \
              "signal.signal(18, lambda *_: (n.append(1), print(\"cont\", flush=True))); " \
              "signal.signal(2, lambda *_: (print(\"count\", len(n)), sys.exit(3))); " \
              "print(\"ready\", flush=True); [time.sleep(0.05) for _ in range(2000)]"


@WRAP
def test_fg_continues_once(terminal, mark, wrap):
    terminal.type("%s/usr/bin/python3 -c '%s' %s\n" % (wrap, COUNTS_CONT, mark))
    terminal.read_until(rb"ready\r\n")
    for _ in range(3):
        terminal.stop()
        terminal.type(b"fg\n")
        terminal.read_until(rb"cont\r\n")
        terminal.foreground_runs("treewrap" if wrap else "python3")
        time.sleep(0.1)
    terminal.type(b"\x03")
    assert b"count 3\r\n" in terminal.prompt()


def test_continue_of_treewrap_alone(terminal, mark):
    """A SIGCONT that treewrap alone gets is for the command, however that was stopped."""
    terminal.type("$T $BIN/escape %s &\n" % mark)
    terminal.read_until(rb"ready\r\n")
    shim = [pid for pid in tw.marked(mark) if tw.read_proc(pid, "comm") == b"treewrap\n"][0]
    command = [pid for pid in tw.marked(mark) if tw.read_proc(pid, "comm") == b"escape\n"][0]
    for signo in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGSTOP):
        os.kill(command, signo)
        tw.until(lambda: tw.state(shim) == tw.state(command) == "T")
        os.kill(shim, signal.SIGCONT)
        tw.until(lambda: tw.state(shim) != "T" and tw.state(command) != "T")
        time.sleep(0.05)


WRAP_LIST = pytest.mark.parametrize("wrap", [[], [tw.TREEWRAP]], ids=["bare", "treewrap"])


@WRAP_LIST
def test_ctrl_z_where_nobody_could_continue(wrap):
    """As the session's leader (a terminal's own program): Ctrl-Z does nothing there."""
    terminal = Terminal(*wrap, "sh", "-c", "echo ready; sleep 0.3; echo done")
    terminal.read_until(rb"ready\r\n")
    terminal.type(b"\x1a")
    terminal.read_until(rb"done\r\n")
    terminal.close()


def test_ctrl_z_at_any_moment_where_nobody_could_continue():
    """Before the command's birth, before its exec, before the reaper has left the session."""
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    for number in range(60):
        terminal = Terminal("sh", "-c", "printf X; exec $T sh -c 'sleep 0.01; echo done'")
        terminal.read_until(b"X")
        moment = time.monotonic() + rng.uniform(0, 0.002)
        while time.monotonic() < moment:  # a sleep would be longer
            pass
        terminal.type(b"\x1a")
        try:
            terminal.read_until(rb"done\r\n")
        except AssertionError:
            pytest.fail("round %d of seed %d" % (number, seed))
        finally:
            terminal.close()


@WRAP_LIST
def test_hangup_of_the_session_leader(wrap, tmp_path):
    """The kernel tells a hangup to the leader alone, which the command is without treewrap."""
    witness = tmp_path / "witness"
    terminal = Terminal(*wrap, "sh", "-c", "trap 'echo hup >%s; exit' HUP; echo ready; "
                        "while :; do sleep 0.01; done" % witness)
    terminal.read_until(rb"ready\r\n")
    terminal.close()
    assert witness.read_text() == "hup\n"


# ---- keys that are struck before the command runs ----

def slow(call, what):
    """Treewrap, slow at CALL in each process. Its tracer is nobody's child and in no group."""
    return " ".join(shlex.quote(word) for word in tw.inject(call, what, more=["-DD"])) + " $T "


def shim_before_birth(terminal):
    """Whether the shim has blocked all signals and borne nobody yet."""
    found = [pid for pid in tw.pids() if tw.group(pid) == terminal.foreground()
             and tw.read_proc(pid, "comm").strip() == tw.COMM]
    return bool(found and not tw.children(found[0])
                and re.search(rb"SigBlk:\tf", tw.read_proc(found[0], "status")))


def reaper_before_birth(terminal):
    found = [pid for pid in tw.pids() if tw.group(pid) == terminal.foreground()
             and tw.read_proc(pid, "comm") == b"tree-reaper\n"]
    return bool(found and not tw.children(found[0]))


BIRTH = pytest.mark.parametrize("call, is_there", [
    ("socketpair", shim_before_birth), ("pipe2", reaper_before_birth)], ids=["shim", "reaper"])


@BIRTH
def test_ctrl_c_before_the_birth(terminal, call, is_there):
    terminal.type(slow(call, "delay_exit=1000000") + "sleep 60\n")
    tw.until(lambda: is_there(terminal), what="the moment before the birth")
    terminal.type(b"\x03")
    terminal.prompt()
    assert terminal.run("echo $?") == b"130\n"


@BIRTH
def test_ctrl_z_before_the_birth(terminal, call, is_there):
    terminal.type(slow(call, "delay_exit=1000000") + "sh -c 'echo done'\n")
    tw.until(lambda: is_there(terminal), what="the moment before the birth")
    terminal.stop()
    terminal.type(b"fg\n")
    terminal.read_until(rb"\ndone\r\n")
    terminal.prompt()


def test_ctrl_z_before_the_exec(terminal):
    """The shell must hear of it, or it waits for ever."""
    terminal.run("PATH=/nonexistent:/nowhere:$PATH")
    terminal.type(slow("execve", "delay_enter=1000000:when=2") + "sh -c 'echo done'\n")

    def is_there():
        return any(tw.read_proc(pid, "comm") == b"tree-reaper\n" and
                   tw.group(child) == terminal.foreground()
                   for pid in tw.pids() for child in tw.children(pid))
    tw.until(is_there, what="the command's process")
    terminal.stop()
    terminal.type(b"fg\n")
    terminal.read_until(rb"\ndone\r\n")
    terminal.prompt()


# ---- stop and go within less than a moment ----

@pytest.mark.parametrize("options", [[], ["--process-group", "keep"]], ids=["own group", "shared"])
@pytest.mark.parametrize("second", [signal.SIGTSTP, signal.SIGCONT], ids=["stop", "go"])
def test_two_signals_at_once(mark, options, second):
    """One may take the other back before it has been read. Then all are stopped, or none."""
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    process = tw.start(*options, tw.adversary("escape"), mark, start_new_session=False, process_group=0)
    tw.ready(process)
    command, = tw.children(tw.reaper_of(process))

    def stopped():
        return [tw.state(pid) == "T" for pid in (process.pid, command)]

    def settled(*allowed):
        try:
            tw.until(lambda: stopped() in [[then, then] for then in allowed], 5)
        except AssertionError:
            pytest.fail("stopped: %s; round %d of seed %d" % (stopped(), number, seed))
    for number in range(80):
        os.killpg(process.pid, signal.SIGTSTP)
        if second == signal.SIGTSTP:
            settled(True)
            os.killpg(process.pid, signal.SIGCONT)
        moment = time.monotonic() + rng.uniform(0, 0.0003)
        while time.monotonic() < moment:
            pass
        os.killpg(process.pid, second)
        time.sleep(0.02)
        settled(True, False)
        os.killpg(process.pid, signal.SIGCONT)
        settled(False)
        time.sleep(0.02)
    process.terminate()
    tw.finish(process)
