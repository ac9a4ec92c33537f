"""--contain pidns: the kernel ends the tree with its process 1, the reaper."""

import os
import select
import signal
import subprocess
import time

import pytest
import tw
from test_contain import KINDS, record
from test_terminal import Terminal

USERS = pytest.mark.parametrize("user", [None, tw.USER], ids=["root", "user"])


@pytest.fixture
def pidns(mark, everybodys):
    """Starts treewrap with --contain pidns, as another user too."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    program, escape = everybodys(tw.TREEWRAP, tw.adversary("escape"))

    def start(user, *args, **keywords):
        return subprocess.Popen(
            [*(tw.as_user() if user else []), program, "--contain", "pidns", *map(str, args)],
            stdin=keywords.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, bufsize=0,
            start_new_session=keywords.pop("start_new_session", True), **keywords)

    start.escape = lambda *more: [escape, mark, *KINDS[:-1], *more]
    return start


@USERS
def test_pidns_statuses(pidns, user):
    for script, status in (("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137),
                           ("kill -INT $$", -signal.SIGINT)):
        assert tw.finish(pidns(user, "sh", "-c", script)).status == status
    assert tw.finish(pidns(user, "no-such-command")).status == 127
    assert tw.finish(pidns(user, "/etc")).status == 126


@USERS
def test_pidns_is_a_namespace(pidns, user):
    result = tw.finish(pidns(user, "sh", "-c", "echo $PPID; ls -d /proc/[0-9]* | wc -l; id -u; "
                             "grep -c ' /proc proc ' /proc/mounts"))
    parent, count, uid, mounts = result.out.split()
    assert (parent, uid, result.err) == (b"1", b"%d" % (user or 0), b"")
    assert int(count) <= 4
    # Nobody else sees its mounts.
    assert int(mounts) == tw.read_path("/proc/mounts").count(" /proc proc ") + 1


@USERS
def test_pidns_tells_numbers_as_we_see_them(pidns, user, mark):
    read, write = os.pipe()
    process = pidns(user, "--status-fd", write, "sh", "-c",
                    "trap 'exit 3' USR1; echo ready; while :; do sleep 0.01; done", mark,
                    pass_fds=[write])
    os.close(write)
    tw.ready(process)
    command = [pid for pid in tw.marked(mark)
               if tw.read_proc(pid, "cmdline").startswith(b"sh\0")][0]
    process.send_signal(signal.SIGUSR1)
    result, events = record(process, read)
    assert result.status == 3
    start, sent, end = events
    assert (start["pid"], start["shim"], start["contain"]) == (command, process.pid, "pidns")
    assert (sent["sender"], sent["signal"]) == (os.getpid(), "SIGUSR1")


@USERS
@pytest.mark.parametrize("how", ["timeout", "exit", "reaper", "shim", "group"])
def test_pidns_ends(pidns, user, how, mark):
    options, more = [], []
    if how == "timeout":
        options = ["-t", "3", "-k", "0.2"]
    elif how == "exit":
        options, more = ["-k", "0.2", "--linger", "0.05"], ["=", "exit", "7"]
    process = pidns(user, *options, *pidns.escape(*more))
    tw.ready(process)
    if how in ("timeout", "exit"):
        assert tw.finish(process).status == (124 if how == "timeout" else 7)
        tw.assert_nothing_left(mark)
        return
    reaper = tw.reaper_of(process)
    if how == "reaper":
        tw.kill(reaper)
        assert tw.finish(process).status == 125
    else:
        os.kill(process.pid, signal.SIGKILL) if how == "shim" else os.killpg(process.pid, 9)
        process.wait()
        tw.wait_gone(reaper)
        process.stdout.close(), process.stderr.close()
    tw.assert_nothing_left(mark)
    tw.reap_adopted()


@USERS
def test_pidns_watches(pidns, user, mark):
    process = pidns(user, "-k", "0.2", "--watch-stdin", *pidns.escape(), stdin=subprocess.PIPE)
    tw.ready(process)
    process.stdin.close()
    assert process.wait(30) == 129
    tw.assert_nothing_left(mark)
    process.stdout.close(), process.stderr.close()


def test_pidns_stops_and_continues(pidns):
    """Without a terminal; from inside the reaper cannot signal the shim."""
    job = {"start_new_session": False, "process_group": 0}
    for signo in ("TSTP", "STOP"):
        process = pidns(None, "sh", "-c", "kill -%s $$; exit 3" % signo, **job)
        tw.until(lambda: tw.state(process.pid) == "T")
        process.send_signal(signal.SIGCONT)
        assert tw.finish(process, 20).status == 3
    process = pidns(None, "-t", "2", "-k", "0", "sh", "-c", "kill -STOP $$; exit 3", **job)
    tw.until(lambda: tw.state(process.pid) == "T")
    assert tw.finish(process, 20).status == 124
    process = pidns(None, "sh", "-c", "kill -STOP $$; exit 3", **job)
    tw.until(lambda: tw.state(process.pid) == "T")
    # Continued by another than the shim: that is the shim's continuation too.
    os.kill(tw.children(tw.reaper_of(process))[0], signal.SIGCONT)
    assert tw.finish(process, 20).status == 3


def test_pidns_on_a_terminal(mark):
    terminal = Terminal()
    terminal.prompt()
    try:
        terminal.type("$T --contain pidns $BIN/escape %s setsid\n" % mark)
        terminal.read_until(rb"ready\r\n")
        for _ in range(3):
            terminal.stop()
            terminal.type("fg\n")
            terminal.read_until(rb"setsid[^\n]*\r\n")
            terminal.foreground_runs("treewrap")
        terminal.type(b"\x03")
        terminal.prompt()
        assert terminal.run("echo $?") == b"130\n"
        tw.until(lambda: not tw.marked(mark))
        terminal.type("$T --contain pidns sh -c 'echo ready; read line; echo \"<$line>\"'\n")
        terminal.read_until(rb"ready\r\n")
        terminal.type("hello\n")
        assert b"<hello>" in terminal.prompt()
        terminal.check_shell("$T --contain pidns")
        assert terminal.run("jobs") == b""
    finally:
        terminal.close()


def test_pidns_refused(pidns, mark):
    result = tw.finish(pidns(None, "--leftovers", "leave", "true"))
    assert result.status == 125 and b"--contain pidns" in result.err
    # Neither the right to one nor to a user namespace, in which there would be.
    result = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c",
         "echo 0 >/proc/sys/user/max_user_namespaces; echo 0 >/proc/sys/user/max_pid_namespaces; "
         'exec "$@"', "sh", tw.TREEWRAP, "--contain", "pidns", "echo", "ran"],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=tw.LIMIT)
    assert result.returncode == 125 and result.stdout == b""
    assert result.stderr.startswith(b"treewrap: --contain pidns: cannot make a PID namespace: ")
    assert result.stderr.count(b"\n") == 1


def test_pidns_without_a_proc_to_mount(everybodys):
    """Where /proc is partly covered, as in many containers, an ordinary user gets no new one."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to cover a part of /proc")
    program, = everybodys(tw.TREEWRAP)
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", 'mount -t tmpfs none /proc/irq; exec "$@"', "sh",
         *tw.as_user(program, "--contain", "pidns", "echo", "ran")], stdin=subprocess.DEVNULL,
        capture_output=True, timeout=tw.LIMIT)
    assert result.returncode == 125 and result.stdout == b""
    assert result.stderr == b"treewrap: --contain pidns: cannot mount a /proc: " \
                            b"Operation not permitted\n"


def test_auto_without_subreapers(mark):
    process = tw.start_with([tw.adversary("refuse"), "22", "subreaper"], "--contain", "auto", "-t",
                            "6", "-k", "0.2", tw.adversary("escape"), mark, *KINDS[:-1])
    tw.ready(process)
    result = tw.finish(process)
    assert (result.status, result.err) == (124, b"")
    tw.assert_nothing_left(mark)


def test_pidns_fork_bomb(pidns, mark, pids_limit):
    procs = pids_limit(500)
    process = subprocess.Popen(
        ["sh", "-c", 'echo 0 >"$0"; exec "$@"', procs, tw.TREEWRAP, "--contain", "pidns", "-t", "2",
         "-k", "0", tw.adversary("bomb"), mark, "setsid"], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert tw.finish(process).status == 124
    tw.assert_nothing_left(mark)


@USERS
def test_killed_with_its_group_it_tells_the_end(pidns, user, mark):
    """Without a terminal too the reaper is not in the shim's group once the command runs."""
    read, write = os.pipe()
    process = pidns(user, "--status-fd", write, *pidns.escape(), pass_fds=[write])
    os.close(write)
    tw.ready(process)
    reaper = tw.reaper_of(process)
    tw.until(lambda: tw.group(reaper) not in (process.pid, None))
    os.killpg(process.pid, signal.SIGKILL)
    result, events = record(process, read)
    tw.wait_gone(reaper)
    assert [event["cause"] for event in events if event["event"] == "end"] == ["shim-killed"]
    tw.assert_nothing_left(mark)
    tw.reap_adopted()


def test_a_namespace_that_cannot_end(pidns, mark):
    """A process that came in from outside, and whose parent there does not fetch its status."""
    read, write = os.pipe()
    process = pidns(None, "--verify-for", "1", "--status-fd", write, "sh", "-c",
                    "echo ready; exec sleep 60", mark, pass_fds=[write])
    os.close(write)
    tw.ready(process)
    reaper = tw.reaper_of(process)
    guest = subprocess.Popen(["nsenter", "--target", str(reaper), "--pid", "--", "sh", "-c",
                              "echo ready; exec sleep 60"], stdout=subprocess.PIPE, bufsize=0)
    tw.ready(guest)
    try:
        guest.send_signal(signal.SIGSTOP)
        tw.until(lambda: tw.state(guest.pid) == "T")
        tw.kill(reaper)
        result, events = record(process, read)
        assert result.status == 125
        assert result.err.endswith(b"the reaper was killed by SIGKILL; what it left has not been ended\n")
        end, = [event for event in events if event["event"] == "end"]
        assert end["cause"] == "reaper-killed" and end["survivors"]
    finally:
        guest.kill(), guest.wait(), guest.stdout.close()
    tw.assert_nothing_left(mark)


def test_group_means_the_group(pidns, mark):
    """Also where the command shares the shim's, which has no number inside."""
    script = "trap 'echo got %s' USR1; echo ready; while ! read -r x; do :; done"
    process = pidns(None, "-g", "--process-group", "keep", "sh", "-c",
                    "setsid sh -c \"%s\" other & %s; wait" % (script % "$0", script % "main"), mark,
                    stdin=subprocess.PIPE)
    tw.ready(process), tw.ready(process)
    process.send_signal(signal.SIGUSR1)
    assert select.select([process.stdout], [], [], 10)[0]
    assert process.stdout.readline() == b"got main\n"
    # The other would have got it at the same time.
    assert not select.select([process.stdout], [], [], 0.3)[0]
    process.kill(), process.wait()
    process.stdout.close(), process.stderr.close(), process.stdin.close()


def test_a_message_does_not_continue_a_stopped_shim(pidns, mark):
    process = pidns(None, "-w", "sh", "-c",
                    "(setsid sh -c 'sleep 0.7 & exit' &); sleep 0.1; kill -STOP $$; exit 3", mark,
                    start_new_session=False, process_group=0)
    tw.until(lambda: tw.state(process.pid) == "T")
    # Two orphans end; the second while all are stopped.
    line = tw.until(lambda: process.stderr.readline())
    assert line.startswith(b"treewrap: reaped orphan ")
    line = tw.until(lambda: process.stderr.readline())
    tw.until(lambda: tw.state(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    assert tw.finish(process, 20).status == 3


@USERS
def test_in_a_chroot_that_is_no_mount_point(pidns, user, tmp_path, mark, everybodys):
    root = tmp_path / "root"
    for name in ("usr", "proc", "dev", "t"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        if os.path.islink("/" + name):
            os.symlink("usr/" + name, root / name)
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    program = everybodys(tw.TREEWRAP)[-1]
    script = 'mount --bind /usr $0/usr; mount --bind /dev $0/dev; mount --bind /var/tmp $0/t; ' \
             'mount -t proc none $0/proc; exec chroot %s $0 "$@"' % (
                 "--userspec %d:%d" % (user, user) if user else "")
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script, root, "/t/" + os.path.basename(program),
         "--contain", "pidns", "sh", "-c", "echo $PPID; exit 4", mark], capture_output=True,
        stdin=subprocess.DEVNULL, timeout=tw.LIMIT)
    if user:
        # The kernel makes no user namespace in a chroot.
        assert result.returncode == 125 and b"cannot make a PID namespace" in result.stderr
    else:
        assert (result.returncode, result.stdout, result.stderr) == (4, b"1\n", b"")
    tw.assert_nothing_left(mark)
