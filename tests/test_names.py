"""treewrap called as another program, side by side with that program.

What differs on purpose is said where it is tested: what is left, above all.
"""

import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
import tw

GNU = "/usr/bin/timeout"
STATUS = "grep -E 'Sig(Blk|Ign)' /proc/self/status"


def original(name):
    path = GNU if name == "timeout" else shutil.which(name)
    if path is None or not os.path.exists(path):
        pytest.skip("the original %s is not installed" % name)
    return path


def environment(**more):
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("DUMB_INIT_", "TINI_", "TREEWRAP_", "LC_", "LANG"))}
    return {**clean, "LC_ALL": "C", **more}


class Called:
    """PROGRAM under the name NAME; its output goes to files, which nobody waits for."""

    def __init__(self, tmp_path, program, name, args, env={}, **keywords):
        self.files = [tmp_path / ("%s-%d" % (tw.new_mark(), i)) for i in range(2)]
        keywords.setdefault("stdin", subprocess.DEVNULL)
        keywords.setdefault("start_new_session", True)
        with open(self.files[0], "wb") as out, open(self.files[1], "wb") as err:
            keywords.setdefault("stderr", err)
            self.process = subprocess.Popen(
                [name, *args], executable=program, stdout=out,
                env=environment(**env), **keywords)

    def out(self):
        return self.files[0].read_bytes()

    def ready(self, word=b"ready"):
        tw.until(lambda: word in self.out(), what="%r in the output" % word)

    def end(self):
        status = tw.wait_at_once(self.process, 20)
        err = re.sub(rb"(PID) \d+", rb"\1 N", self.files[1].read_bytes())
        # Two processes write: the order between them is nobody's promise.
        return status, self.out(), sorted(err.splitlines())


def both(tmp_path, name, args, mark, act=None, **keywords):
    """What the original and ours came to, and whether each of them has left something."""
    found = []
    for program in (original(name), tw.TREEWRAP):
        called = Called(tmp_path, program, name, [arg.replace("MARK", mark) for arg in args],
                        **keywords)
        if act is not None:
            called.ready()
            act(called.process)
        end = called.end()
        left = tw.marked(mark)
        # Whoever is just executing a program shows no command line, and is found later.
        tw.until(lambda: not [tw.kill(pid) for pid in tw.marked(mark)])
        tw.reap_adopted()
        # (What forks is there twice for a moment, by its command line.)
        found.append((end, min(len(left), 1)))
    return found


def sh(script):
    return ["sh", "-c", script]


def shell(script):
    """MARK is in its command line, and in that of what it forks."""
    return ["sh", "-c", script, "MARK"]


STUBBORN = "trap '' TERM; sleep 0.3; sleep 0.3; sleep 30"
SLEEPER = "exec sh -c 'sleep 30; :' MARK"  # what it runs has the mark as well

TIMEOUT = [
    # usage
    [], ["1"], ["-x", "1", "true"], ["--foo", "1", "true"], ["--kill-after"], ["-k"],
    ["--verbose=1", "1", "true"], ["--s", "foo", "1", "true"],
    # durations
    *[[word, "true"] for word in (
        "1", "1s", "1m", "1h", "1d", "0", ".5", "1.", "1e3", "0x1p3", " 1", "+1", "inf", "1e30d",
        "99999999999999999999", "1e400", "2.34e+5d", "9.999999999", "nan", "", "x", "1x", "1ms",
        "1.5.5", "1 s", "1sd", "42D", "5,5", "a'b\\c\n\x01\xff")],
    ["--", "-1", "true"], ["-1", "true"], ["--", "-0", "true"],
    ["0", *sh("sleep 0.2; exit 3")], ["-k", "0", "0", *sh("exit 3")],
    ["-k", "1e400", "1e400", *sh("exit 3")], ["-k", "x", "1", "true"],
    [".05m", *sh("exit 3")], ["0.00001h", "sleep", "9"], ["0.000001d", "sleep", "9"],
    # the command
    ["9", *sh("exit 33")], ["9", "nonesuch"], ["9", "/etc"], ["9", "/etc/passwd"], ["9", "."],
    ["9", "/etc/passwd/x"], ["9", ""], ["9", "--", "true"], ["--", "9", "true"],
    *[["9", *sh("kill -%s $$" % name)] for name in "TERM INT QUIT HUP KILL USR1 PIPE".split()],
    # the timeout
    [".1", "sleep", "9"], ["--foreground", ".1", "sleep", "9"],
    [".1", *sh("trap 'exit 5' TERM; sleep 1 & wait")],
    ["--preserve-status", ".1", *sh("trap 'exit 5' TERM; sleep 1 & wait")],
    ["--preserve-status", ".1", "sleep", "9"], ["--pre", "--fore", ".1", "sleep", "9"],
    # signals, and what -v says of them
    *[["-v", *more, "-s", name, ".1", "sleep", "0.5"] for more in ([], ["--foreground"])
      for name in ("HUP", "9", "INT", "sigterm", "SIGusr1", "137", "0", "EXIT", "RTMIN+2", "64",
                   "RTMAX-1", "40", "QUIT")],
    *[["-s", name, ".1", "sleep", "9"] for name in ("foo", "32", "65", "999", "-1", "1x", "SIG")],
    ["-v", ".1", "sleep", "9"], ["--verbose", "--signal=HUP", ".1", "sleep", "9"],
    ["-v", "-k", ".1", ".1", *sh(STUBBORN)], ["-v", "-k.1", "--foreground", ".1", *sh(STUBBORN)],
    ["-v", "-s0", "-k", ".1", ".1", "sleep", "9"], ["-v", "-k", "1", ".1", "sleep", "9"],
    ["--preserve-status", "-k", ".1", ".1", *sh(STUBBORN)],
    ["-s", "KILL", "--foreground", "--preserve-status", ".1", "sleep", "9"],
    ["-v", "-k", ".1", ".1", *sh("kill -STOP $$")], [".1", *sh("kill -STOP $$")],
    # the command has timeout for its parent (which has to know of its child first)
    *[["-v", *more, *sh("trap '' TERM; sleep .1; kill -%s $PPID; %s" % (name, rest))]
      for more, name, rest in ((["9"], "INT", "exec sleep 9"), (["9"], "ALRM", "exec sleep .4"),
                               (["-k", ".2", "9"], "TERM", "sleep .5; sleep 9"))],
]

DUMB_INIT = [
    [], ["--yolo", "true"], ["-r"], ["-x"], *[["-r", word, "true"] for word in (
        "", "herp", "herp:derp", "15", "15::12", "15:derp", "15:32", "0:1", "32:1", "15:-1",
        "15:12x", " 15: 12", "1:0")],
    ["-r", "15:12", "-r", "0", "true"],
    ["-v", "true"], ["--verbose", "-c", *sh("exit 3")], ["--single-child", *sh("exit 3")],
    ["-v", *sh("kill -9 $$")], ["nonesuch"], ["--", "nonesuch"], ["/etc"], ["-c", "/etc/passwd"],
    *[[*sh("kill -%s $$" % name)] for name in ("TERM", "INT", "QUIT", "HUP", "SEGV", "34")],
    ["--", *sh("exit 255")], ["-v", "-c", *sh("kill -USR1 $PPID; exec sleep .3")],
    ["-v", "-r", "10:0", *sh("kill -USR1 $PPID; sleep .3; exit 4")],
    ["-v", "-r", "10:2", *sh("trap 'exit 9' INT; kill -USR1 $PPID; sleep .3; sleep .3")],
    ["-r", "10:2", "-r", "15:0", *sh("trap 'exit 9' INT; kill -USR1 $PPID; sleep .3; sleep .3")],
    ["-r", "10:2", "-r", "10:0", *sh("kill -USR1 $PPID; sleep .3; exit 4")],
    ["pwd"], ["-c", "pwd"], ["ps", "-o", "pid=", "--ppid", "1", "-p", "0"],
]

# (Without -- it takes the command's options for its own, where the C library permits.)
TINI = [[*options, "--", *command] for options, command in (
    (["-s"], sh("exit 4")), (["-sg"], ["true"]), (["-s", "-e", "4"], sh("exit 4")),
    (["-s", "-e", "143"], sh("kill -TERM $$")), (["-s"], sh("kill -TERM $$")),
    (["-s"], sh("kill -KILL $$")), (["-s", "-p", "SIGTERM"], sh("exit 4")),
    (["-s", "-e", "4", "-e", "5"], sh("exit 5")), (["-sw"], sh("exit 4")), (["-s"], ["nonesuch"]),
    (["-s"], ["/etc"]))]

TABLE = [(name, args) for name, cases in (
    ("timeout", TIMEOUT), ("dumb-init", DUMB_INIT), ("tini", TINI)) for args in cases]


@pytest.mark.parametrize("name, args", TABLE, ids=[" ".join([n, *a])[:60] for n, a in TABLE])
def test_side_by_side(tmp_path, mark, name, args):
    """Status, the signal that it died of, and output are the original's."""
    (theirs, _), (ours, _) = both(
        tmp_path, name, args, mark,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
    # What a C library says of a bad option, or of an errno, is that library's.
    if name == "tini" or not tw.is_dynamic(tw.TREEWRAP):
        assert ours[:2] == theirs[:2]
    else:
        assert ours == theirs


@pytest.mark.parametrize("args, status", [
    (["-p", ".1", *sh("trap 'exit 5' TERM; sleep 1 & wait")], 5),
    (["-f", "-p", ".1", "sleep", "9"], 143), (["-f", ".1", "sleep", "9"], 124)])
def test_short_options_of_later_versions(tmp_path, args, status):
    assert Called(tmp_path, tw.TREEWRAP, "timeout", args).end() == (status, b"", [])


def test_too_small_for_a_double_is_not_never(tmp_path):
    """Differs from 9.1, where it is."""
    assert Called(tmp_path, tw.TREEWRAP, "timeout", ["1e-400", "sleep", "9"]).end()[0] == 124


@pytest.mark.not_with("sanitize", "it lets nobody write a core")
def test_core_dumped(tmp_path, mark):
    """Where a core is to be had (the kernel's pattern may have it elsewhere) it is told."""
    limit = resource.getrlimit(resource.RLIMIT_CORE)[1]
    (theirs, _), (ours, _) = both(
        tmp_path, "timeout", ["9", *sh("kill -SEGV $$")], mark, cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (limit, limit)))
    assert ours == theirs and ours[0] == -signal.SIGSEGV
    if limit == 0:
        pytest.skip("no core may be written here")
    assert ours[2] == [b"timeout: the monitored command dumped core"]


@pytest.mark.parametrize("locale, quoted", [("C", b"'sleep'"),
                                            ("C.UTF-8", "\u2018sleep\u2019".encode())])
def test_quotes_of_the_locale(tmp_path, locale, quoted):
    line = b"timeout: sending signal TERM to command " + quoted
    for program in (GNU, tw.TREEWRAP):
        called = Called(tmp_path, program, "timeout", ["-v", ".1", "sleep", "9"],
                        env={"LC_ALL": locale})
        assert called.end() == (124, b"", [line]), program


# ---- what is left ----

# Background, another group, another session; and one that ignores what is polite.
LEAVERS = {
    "background": "sh -c 'sleep 30; :' MARK &",
    "group": "bash -c 'set -m; sh -c \"sleep 30; :\" MARK &';",
    "session": "setsid sh -c 'sleep 30; :' MARK &",
    "stubborn": "sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' MARK &",
}


@pytest.mark.parametrize("leaver, options, left", [
    ("background", [], 0), ("group", [], 1), ("session", [], 1), ("stubborn", [], 1),
    ("background", ["--foreground"], 1), ("session", ["--foreground"], 1),
    ("session", ["-k", ".1"], 1), ("session", ["-s", "KILL"], 1)])
def test_timeout_leaves_nothing(tmp_path, mark, leaver, options, left):
    """LEFT: what the original leaves of it."""
    args = [*options, ".3", *sh(LEAVERS[leaver] + " sleep 20")]
    (theirs, theirs_left), (ours, ours_left) = both(tmp_path, "timeout", args, mark)
    assert ours == theirs and (theirs_left, ours_left) == (left, 0)


@pytest.mark.parametrize("leaver", ["background", "session"])
def test_timeout_leaves_nothing_without_a_timeout(tmp_path, mark, leaver):
    args = ["9", *sh(LEAVERS[leaver] + " sleep 0.1; exit 3")]
    (theirs, theirs_left), (ours, ours_left) = both(tmp_path, "timeout", args, mark)
    assert ours == theirs == (3, b"", []) and (theirs_left, ours_left) == (1, 0)


@pytest.mark.parametrize("options, left", [(["--foreground"], 1), ([], 0)])
@pytest.mark.parametrize("duration, status", [(".3", 124), ("9", 0)])
def test_timeout_that_is_to_be_compatible(tmp_path, mark, options, left, duration, status):
    called = Called(tmp_path, tw.TREEWRAP, "timeout",
                    [*options, duration, *sh(LEAVERS["session"].replace("MARK", mark) +
                                             " [ %s = 9 ] || sleep 20" % duration)],
                    env={"TREEWRAP_TIMEOUT_COMPAT": "1"})
    assert called.end()[0] == status
    # (One that forks is there twice for a moment, and one that executes has no command line.)
    if left:
        tw.until(lambda: tw.marked(mark))
    else:
        tw.assert_nothing_left(mark)


def test_what_left_the_group_is_signalled_after_the_command(tmp_path, mark):
    """A command that takes its time to end finds its helpers alive meanwhile."""
    helper = "trap 'echo helper; exit' TERM; echo ready; while :; do sleep 0.01; done"
    script = "setsid sh -c \"$HELPER\" MARK & " \
             "trap 'sleep 0.4; echo command; exit 7' TERM; while :; do sleep 0.01; done"
    called = Called(tmp_path, tw.TREEWRAP, "timeout",
                    ["--preserve-status", "1", *sh(script.replace("MARK", mark))],
                    env={"HELPER": helper})
    assert called.end()[:2] == (7, b"ready\ncommand\nhelper\n")
    tw.assert_nothing_left(mark)


def test_no_end_but_the_commands_without_kill_after(tmp_path, mark):
    """timeout without -k waits for as long as the command takes: longer than our five seconds."""
    script = "trap '' TERM; echo ready; for i in $(seq 60); do sleep 0.1; done; echo done; exit 7"
    called = Called(tmp_path, tw.TREEWRAP, "timeout", [".1", *sh(script)])
    assert called.end() == (124, b"ready\ndone\n", [])


@pytest.mark.parametrize("options, left", [([], 0), (["-c"], 1)])
def test_dumb_init_leaves_nothing(tmp_path, mark, options, left):
    args = [*options, *sh(LEAVERS["background"] + " exit 3")]
    (theirs, _), (ours, ours_left) = both(tmp_path, "dumb-init", args, mark)
    # (What it has sent SIGTERM may be dying still when the original returns.)
    assert ours == theirs == (3, b"", []) and ours_left == 0
    (_, theirs_left), (_, ours_left) = both(
        tmp_path, "dumb-init", [*options, *sh(LEAVERS["session"] + " sleep 0.3")], mark)
    assert (theirs_left, ours_left) == (1, 0)


@pytest.mark.parametrize("name, args", [("timeout", ["30"]), ("timeout", ["--foreground", "30"]),
                                        ("dumb-init", []), ("dumb-init", ["-c"])])
def test_killed(tmp_path, mark, name, args):
    script = "setsid sh -c 'sleep 30; :' MARK & echo ready; sleep 30"
    called = Called(tmp_path, tw.TREEWRAP, name, [*args, *sh(script.replace("MARK", mark))])
    called.ready()
    reaper = tw.reaper_of(called.process)
    called.process.kill()
    called.process.wait()
    tw.wait_gone(reaper)
    tw.assert_nothing_left(mark)
    tw.reap_adopted()


# ---- signals ----

@pytest.mark.parametrize("options", [[], ["-k", ".1"], ["--foreground"],
                                     ["--foreground", "-k", ".1"], ["-s", "USR1"]])
@pytest.mark.parametrize("signo", ["TERM", "INT", "QUIT", "HUP", "ALRM"])
@pytest.mark.parametrize("script", ["echo ready; exec sleep 20",
                                    "trap '' TERM INT QUIT HUP USR1; echo ready; sleep .5; exit 6"])
def test_signals_to_timeout(tmp_path, mark, options, signo, script):
    def act(process):
        time.sleep(0.05)  # the original has its handlers before the command runs, but no clock
        process.send_signal(getattr(signal, "SIG" + signo))

    # The group's leader gets the original's SIGKILL itself; sleep(1) with it.
    (theirs, _), (ours, _) = both(tmp_path, "timeout", ["-v", *options, "9", *sh(script)], mark,
                                  act)
    assert ours == theirs


@pytest.mark.parametrize("how", ["timeout", "TERM", "ALRM"])
def test_timeout_in_timeout(tmp_path, mark, how):
    """The inner one has a group of its own: what the outer one sends is for it alone."""
    def act(process):
        time.sleep(0.1)
        if how != "timeout":
            process.send_signal(getattr(signal, "SIG" + how))

    script = "trap 'echo ALRM' ALRM; trap 'echo TERM; exit 5' TERM; trap 'echo INT; exit 4' INT; " \
             "echo ready; while :; do sleep 0.01; done"
    for signo in ("ALRM", "HUP"):
        args = ["-s", signo, ".3" if how == "timeout" else "9", "timeout", "-s", "INT", "9",
                *sh(script)]
        (theirs, _), (ours, _) = both(tmp_path, "timeout", args, mark, act)
        # (Whether the shell has something to say of its sleep(1) is chance.)
        assert ours[:2] == theirs[:2]


@pytest.mark.parametrize("name, args", [("timeout", ["9"]), ("timeout", ["--foreground", "9"]),
                                        ("timeout", ["-s", "USR1", "9"]), ("dumb-init", []),
                                        ("dumb-init", ["-c"])])
def test_ignored_at_start(tmp_path, mark, name, args):
    """The command gets what the original gives it."""
    def ignore():
        for signo in range(1, 32):
            if signo not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(signo, signal.SIG_IGN)

    (theirs, _), (ours, _) = both(tmp_path, name, [*args, *sh(STATUS)], mark, preexec_fn=ignore)
    assert ours == theirs and b"SigIgn" in ours[1]


@pytest.mark.parametrize("name, args", [("timeout", ["9"]), ("dumb-init", [])])
def test_blocked_at_start(tmp_path, mark, name, args):
    def block():
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))

    (theirs, _), (ours, _) = both(tmp_path, name, [*args, *sh(STATUS)], mark, preexec_fn=block)
    assert ours == theirs and b"SigBlk" in ours[1]


def test_timeout_with_its_clock_blocked(tmp_path, mark):
    def block():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGCHLD])

    (theirs, _), (ours, _) = both(tmp_path, "timeout", [".1", "sleep", "9"], mark,
                                  preexec_fn=block)
    assert ours == theirs and ours[0] == 124


def test_nobody_reads_the_diagnostics(tmp_path, mark):
    """The original dies of SIGPIPE there, and leaves the command."""
    read, write = os.pipe()
    os.close(read)
    called = Called(tmp_path, tw.TREEWRAP, "timeout",
                    ["-v", ".1", "sh", "-c", "sleep 30; :", mark], stderr=write)
    os.close(write)
    assert called.end()[0] == 124
    tw.assert_nothing_left(mark)


GROUPS = "import os; print(os.getpgrp() == os.getppid(), " \
         "os.getpgrp() == int(os.environ['CALLER']), os.getsid(0) == os.getpid(), " \
         "os.getsid(0) == int(os.environ['SESSION']))"


@pytest.mark.parametrize("name, args", [("timeout", ["9"]), ("timeout", ["--foreground", "9"]),
                                        ("dumb-init", []), ("dumb-init", ["-c"])])
def test_group_and_session(tmp_path, mark, name, args):
    """Whose group the command is in. (The first of these says whether its parent leads it: ours
    is the second process, of which the caller knows nothing.)"""
    (theirs, _), (ours, _) = both(
        tmp_path, name, [*args, sys.executable, "-c", GROUPS], mark, start_new_session=False,
        env={"CALLER": str(os.getpgrp()), "SESSION": str(os.getsid(0))})
    assert ours[1].split()[1:] == theirs[1].split()[1:] and ours[0] == theirs[0] == 0


def test_the_callers_signal_to_timeouts_group(tmp_path):
    """kill -- -PID of timeout reaches the command: it leads the group."""
    for program in (GNU, tw.TREEWRAP):
        called = Called(tmp_path, program, "timeout", ["9", *sh(
            "trap 'echo got; exit 4' USR2; trap '' TERM; echo ready; while :; do sleep .01; done")],
            start_new_session=False)
        called.ready()
        assert os.getpgid(called.process.pid) == called.process.pid
        group = [pid for pid in tw.pids() if tw.group(pid) == called.process.pid]
        assert len(group) >= 2, program
        for pid in group:
            if pid != called.process.pid:
                tw.kill(pid, signal.SIGUSR2)
        status, out, _ = called.end()
        assert status == 4 and b"got" in out


# ---- dumb-init: the session, its terminal, and stops ----

def test_dumb_init_is_in_the_root_directory(tmp_path):
    for program in (original("dumb-init"), tw.TREEWRAP):
        called = Called(tmp_path, program, "dumb-init", sh("pwd; echo ready; read x; sleep 1"),
                        cwd=tmp_path, stdin=subprocess.PIPE)
        called.ready()
        assert os.readlink("/proc/%d/cwd" % called.process.pid) == "/"
        assert called.out().startswith(str(tmp_path).encode())
        called.process.stdin.close()
        assert called.end()[0] == 0


TERMINAL = "import os; print('mine', os.getsid(0) == os.getpid(), " \
           "os.tcgetpgrp(0) == os.getpgrp(), os.ttyname(0) != '')"


def in_terminal(program, name, args, act=lambda pid, fd: None):
    """Runs it as the leader of a terminal's session. Its status and what is on the screen."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(program, [name, *args], environment())
    screen = b""
    try:
        while True:
            try:
                got = os.read(fd, 4096)
            except OSError:
                break
            if not got:
                break
            screen += got
            if b"ready" in screen:
                act(pid, fd)
                act = lambda pid, fd: None  # noqa: E731
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screen
    finally:
        os.close(fd)


@pytest.mark.parametrize("args", [[], ["-c"]])
def test_dumb_init_gives_its_terminal_away(args):
    found = [in_terminal(program, "dumb-init", [*args, sys.executable, "-c", TERMINAL])
             for program in (original("dumb-init"), tw.TREEWRAP)]
    assert found[0] == found[1] and found[0][0] == 0 and b"mine" in found[0][1]


def test_dumb_init_at_ctrl_c():
    script = "trap 'echo got; exit 4' INT; echo ready; while :; do sleep 0.01; done"
    for program in (original("dumb-init"), tw.TREEWRAP):
        status, screen = in_terminal(program, "dumb-init", sh(script),
                                     lambda pid, fd: os.write(fd, b"\x03"))
        assert status == 4 and screen.count(b"got") == 1, screen


# From a shell without job control timeout is not in the foreground: what reads there stops.
@pytest.mark.parametrize("script, keys, expected", [
    ("timeout 1.4 sh -c 'echo ready; read x; echo got-$x'; echo status-$?", b"word\n",
     b"status-124"),
    ("timeout --foreground 9 sh -c 'echo ready; read x; echo got-$x'; echo status-$?", b"word\n",
     b"got-word\r\nstatus-0"),
    ("timeout --foreground 9 sh -c 'trap \"echo got; exit 4\" INT; echo ready; sleep 3'; "
     "echo status-$?", b"\x03", b"got\r\nstatus-4"),
    ("exec timeout 9 sh -c 'trap \"echo got; exit 4\" INT; echo ready; sleep 3'", b"\x03", b"got"),
    ("exec timeout -v 9 sh -c 'trap \"sleep .3; exit 4\" INT; echo ready; sleep 3'", b"\x03",
     b"sending signal INT"),
    ("exec timeout -k .1 9 sh -c 'trap \"\" INT; echo ready; sleep 3'", b"\x03", b""),
    ("exec timeout 1.4 sh -c 'echo ready; sleep 3'", b"\x1a", b""),
])
def test_timeout_in_a_terminal(tmp_path, script, keys, expected):
    found = []
    for program in (GNU, tw.TREEWRAP):
        directory = tmp_path / os.path.basename(program)
        directory.mkdir()
        (directory / "timeout").symlink_to(program)
        full = "PATH=%s:$PATH; trap : INT; %s" % (directory, script)
        found.append(in_terminal("/bin/bash", "bash", ["-c", full],
                                 lambda pid, fd: time.sleep(0.2) or os.write(fd, keys)))
    # (From the original the command may get the terminal's signal a second time.)
    (theirs, their_screen), (ours, our_screen) = found
    words = [set(screen.replace(b"^C", b" ").split()) for screen in (our_screen, their_screen)]
    assert ours == theirs and words[0] == words[1], found
    assert expected in our_screen


@pytest.mark.parametrize("signo", ["TSTP", "TTIN", "TTOU"])
def test_dumb_init_stops_and_goes_on(tmp_path, mark, signo):
    for program in (original("dumb-init"), tw.TREEWRAP):
        # (It does not fork: whoever waits for its vfork(2), stopped before its exec, cannot stop.)
        called = Called(tmp_path, program, "dumb-init", ["sh", "-c", "echo ready; read x", mark],
                        stdin=subprocess.PIPE)
        called.ready()
        command, = [pid for pid in tw.marked(mark)
                    if tw.read_proc(pid, "cmdline").startswith(b"sh\0")]
        os.kill(called.process.pid, getattr(signal, "SIG" + signo))
        tw.until(lambda: tw.state(command) == "T" and tw.state(called.process.pid) == "T")
        os.kill(called.process.pid, signal.SIGCONT)
        tw.until(lambda: tw.state(command) != "T" and tw.state(called.process.pid) != "T")
        os.kill(called.process.pid, signal.SIGTERM)
        assert called.end()[0] == 143
        called.process.stdin.close()
        tw.until(lambda: not tw.marked(mark))


@pytest.mark.parametrize("variables, first", [
    ({"DUMB_INIT_DEBUG": "1"}, b"[dumb-init] Running in debug mode."),
    ({"DUMB_INIT_DEBUG": "1", "DUMB_INIT_SETSID": "0"}, b"[dumb-init] Not running in setsid mode."),
    ({"DUMB_INIT_DEBUG": "0"}, None), ({"DUMB_INIT_SETSID": "0"}, None), ({}, None)])
def test_dumb_inits_variables(tmp_path, mark, variables, first):
    script = "import os; print(os.getsid(0) == os.getpid())"
    (theirs, _), (ours, _) = both(tmp_path, "dumb-init", [sys.executable, "-c", script], mark,
                                  env=variables)
    # (Without a terminal it tells an errno, in the C library's words.)
    assert ours[:2] == theirs[:2] and (first is None or first in ours[2])
    assert tw.is_dynamic(tw.TREEWRAP) <= (ours == theirs)


# ---- help, versions, names ----

@pytest.mark.parametrize("name, options", [
    ("timeout", "-k --kill-after -s --signal -f --foreground -p --preserve-status -v --verbose"),
    ("dumb-init", "-c --single-child -r --rewrite -v --verbose -h --help -V --version")])
def test_help(tmp_path, name, options):
    status, out, err = Called(tmp_path, tw.TREEWRAP, name, ["--help"]).end()
    text = out or b"\n".join(err)
    assert status == 0
    assert set(options.split()) <= set(re.findall(r"--?[A-Za-z-]+", text.decode()))
    # As with the original, standard output for one, standard error for the other.
    assert (out == b"") == (name == "dumb-init")


def test_versions(tmp_path):
    assert b"GNU coreutils" in Called(tmp_path, tw.TREEWRAP, "timeout", ["--version"]).end()[1]
    for option in ("-V", "--version"):
        status, out, err = Called(tmp_path, tw.TREEWRAP, "dumb-init", [option]).end()
        assert status == 0 and out == b"" and err[0].startswith(b"dumb-init v1.2.5")


@pytest.mark.parametrize("name", ["docker-init", "catatonit", "tini"])
def test_version_as_docker_reads_it(tmp_path, name):
    """docker info takes "tini version X", and behind " - git." a commit without a dot."""
    status, out, err = Called(tmp_path, tw.TREEWRAP, name, ["--version"]).end()
    version, _, commit = out.decode().strip().partition(" - ")
    assert status == 0 and err == [] and version.startswith("tini version 0.1.0")
    assert commit.startswith("git.") and commit.count(".") == 1 and len(commit) <= 4 + 7


@pytest.mark.parametrize("name", ["docker-init", "catatonit", "tini"])
def test_inits_take_our_command_line(tmp_path, name):
    for args in (["--"], ["-s", "--"], ["-t", "9"], []):
        assert Called(tmp_path, tw.TREEWRAP, name, [*args, *sh("exit 4")]).end()[0] == 4


def test_by_link_and_by_option(tmp_path):
    link = tmp_path / "timeout"
    link.symlink_to(tw.TREEWRAP)
    env = environment()
    for words, called in (([link], str(link)), ([tw.TREEWRAP, "--as", "timeout"], "timeout"),
                          ([tw.TREEWRAP, "--as=timeout"], "timeout")):
        result = subprocess.run([*words, "-v", ".1", "sleep", "9"], capture_output=True, env=env,
                                timeout=20)
        assert result.returncode == 124
        assert result.stderr.decode() == \
            "%s: sending signal TERM to command 'sleep'\n" % called
    # A link's name says which command line it is: --as is not of it.
    assert subprocess.run([link, "--as", "dumb-init", "true"], capture_output=True, env=env,
                          timeout=20).returncode == 125
    dumb_init = subprocess.run([tw.TREEWRAP, "--as", "dumb-init", "nonesuch"], env=env,
                               capture_output=True, timeout=20)
    assert (dumb_init.returncode, dumb_init.stderr) == (
        2, b"[dumb-init] nonesuch: No such file or directory\n")


@pytest.mark.parametrize("args", [["--as"], ["--as", "nohup", "true"], ["--as="],
                                  ["-t", "1", "--as", "timeout", "true"]])
def test_bad_as(args):
    result = tw.run(*args)
    assert result.status == 125 and b"--as" in result.err and result.err.count(b"\n") == 1


def test_install_names(tmp_path):
    make = ["make", "-s", "-C", tw.ROOT, "DESTDIR=%s" % tmp_path, "PREFIX=/usr"]
    env = {name: os.environ[name] for name in ("PATH",)}
    subprocess.run([*make, "install"], check=True, capture_output=True, timeout=60, env=env)
    assert sorted(os.listdir(tmp_path / "usr/bin")) == ["treewrap", "treewrapctl"]
    subprocess.run([*make, "install-names", "DIR=/names"], check=True, capture_output=True,
                   timeout=60, env=env)
    links = {path.name: os.readlink(path) for path in (tmp_path / "names").iterdir()}
    assert links == dict.fromkeys(["timeout", "dumb-init", "docker-init", "catatonit", "tini"],
                                  "/usr/bin/treewrap")
    assert subprocess.run([*make, "install-names"], capture_output=True, timeout=60,
                          env=env).returncode != 0


# ---- real scripts ----

SUITE = r"""
ok=0 bad=0
check() { want=$1; shift; "$@" >>log 2>&1 </dev/null; got=$?
          if [ $got = $want ]; then ok=$((ok + 1))
          else bad=$((bad + 1)); echo "$got not $want: $*"; fi; }
for i in $(seq 10); do
    check 0 timeout 10 true
    check 1 timeout 10 false
    check 124 timeout 0.05 sleep 5
    check 137 timeout -s KILL 0.05 sleep 5
    check 127 timeout 5 no-such-command
    check 3 sh -c 'echo "exit 3" | timeout 5 sh'
    check 0 sh -c '[ "$(timeout 5 echo word)" = word ]'
    check 124 timeout --foreground 0.05 sh -c 'sleep 5 & wait'
    check 0 timeout 10 timeout 5 true
    check 124 timeout 10 timeout 0.05 sleep 5
done
# With time for a trap to be set, on a busy machine too.
check 137 timeout -k 0.05 1 sh -c 'trap "" TERM; sleep 1.5; sleep 5'
check 7 timeout --preserve-status 1 sh -c 'trap "exit 7" TERM; sleep 1.5 & wait'
echo "$ok ok, $bad bad"
"""


def test_a_suite_that_uses_timeout_a_hundred_times(tmp_path):
    for program in (GNU, tw.TREEWRAP):
        directory = tmp_path / os.path.basename(program)
        directory.mkdir()
        (directory / "timeout").symlink_to(program)
        env = environment(PATH="%s:%s" % (directory, os.environ["PATH"]))
        result = subprocess.run(["sh", "-c", SUITE], cwd=directory, env=env, capture_output=True,
                                timeout=50, start_new_session=True)
        assert result.stdout.splitlines()[-1] == b"102 ok, 0 bad", result.stdout
    tw.reap_adopted()


def libraries(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", listed)


@pytest.fixture(params=["dumb-init", "treewrap"])
def image(tmp_path, request):
    """A root directory with a shell and the program as /usr/bin/dumb-init; its path."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for unshare and chroot")
    program = tw.TREEWRAP if request.param == "treewrap" else original("dumb-init")
    root = tmp_path / "image"
    files = {"/usr/bin/dumb-init": program}
    for tool in ("/bin/sh", "/bin/sleep", "/bin/echo", "/bin/cat"):
        files[tool] = tool
    for path in list(files.values()):
        files.update({library: library for library in libraries(path)})
    for to, source in files.items():
        target = pathlib.Path(str(root) + to)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    for directory in ("proc", "tmp", "dev"):
        (root / directory).mkdir()
    (root / "dev/null").touch()  # a shell opens it for what it puts in the background
    return root, program == tw.TREEWRAP


# It is process 1 there: an image's entry point that starts a service, and ends it politely.
ENTRY = "cd /tmp; sleep 300 & trap 'echo stopping; wait; exit 5' TERM; " \
        "(sleep 0.1 &) ; echo ready; wait $!; wait"


@pytest.mark.not_with("coverage", "where it counts is not in the image")
@pytest.mark.not_with("sanitize", "it needs /proc to start")
@pytest.mark.parametrize("rewrite", [[], ["--rewrite", "2:15"]])
def test_an_image_made_for_dumb_init(tmp_path, image, rewrite):
    root, _ = image
    called = Called(tmp_path, "/usr/bin/unshare", "unshare",
                    ["--pid", "--fork", "--kill-child", "--root", str(root),
                     "/usr/bin/dumb-init", *rewrite, "--", "/bin/sh", "-c", ENTRY])
    called.ready()
    first = tw.until(lambda: tw.children(called.process.pid))[0]
    # Stopped as docker does it: from outside, process 1 alone.
    os.kill(first, signal.SIGINT if rewrite else signal.SIGTERM)
    # (What the shell says of its signalled job is the shell's.)
    assert called.end()[:2] == (5, b"ready\nstopping\n")


@pytest.mark.not_with("coverage", "where it counts is not in the image")
@pytest.mark.not_with("sanitize", "it needs /proc to start")
def test_an_image_whose_service_leaves_something(tmp_path, image):
    """As process 1 either leaves nothing; ours lets it end politely."""
    root, ours = image
    script = "(trap 'sleep 0.2; echo polite; exit' TERM; echo child; " \
             "while :; do sleep 0.01; done) & sleep 0.3; echo ready; exit 3"
    called = Called(tmp_path, "/usr/bin/unshare", "unshare",
                    ["--pid", "--fork", "--kill-child", "--root", str(root),
                     "/usr/bin/dumb-init", "/bin/sh", "-c", script])
    status, out, _ = called.end()
    assert status == 3 and out == b"child\nready\n" + (b"polite\n" if ours else b"")
