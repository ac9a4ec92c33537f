"""--contain cgroup: what is in the run's own cgroup goes with it, descendant or not; and no cgroup
is left behind. --contain pidns: the kernel ends the tree with its process 1, the reaper."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
import tw
from test_terminal import Terminal

KINDS = ["background", "setsid", "double", "group", "thread", "ignore", "stopped", "deep", "nested"]


def hierarchy():
    for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        if os.path.exists(root + "/cgroup.controllers"):
            return pathlib.Path(root)
    return None


@pytest.fixture
def group(mark):
    """A cgroup of the test's own, for all that it starts."""
    if os.geteuid() != 0 or hierarchy() is None:
        pytest.skip("needs root and a cgroup v2 hierarchy")
    path = hierarchy() / mark
    path.mkdir()
    yield path
    tw.until(lambda: tw.try_rmdir(path), what="an empty cgroup: nothing of treewrap's is in it")


def in_group(path, *args, **keywords):
    return tw.start_with(["sh", "-c", 'echo 0 >"$0/cgroup.procs"; exec "$@"', path], *args,
                         **keywords)


def below(path):
    return [entry.name for entry in path.iterdir() if entry.is_dir()]


def assert_all_gone(path, mark):
    assert below(path) == []
    tw.assert_nothing_left(mark)


def record(process, read):
    result = tw.finish(process)
    with open(read, "rb") as file:
        return result, [json.loads(line) for line in file.read().splitlines()]


def test_born_into_it(group, mark):
    read, write = os.pipe()
    process = in_group(group, "--contain", "cgroup", "--status-fd", write, "sh", "-c",
                       "cat /proc/self/cgroup; exit 3", pass_fds=[write])
    os.close(write)
    result, events = record(process, read)
    assert below(group) == []
    place = [line for line in result.out.decode().splitlines() if line.startswith("0::")][0]
    assert place.startswith("0::/%s/treewrap-" % mark)
    assert result.status == 3 and result.err == b""
    assert events[0]["contain"] == "cgroup" and events[-1]["cgroup_cpu"] >= 0


def end_by_timeout(group, mark, *options):
    process = in_group(group, *options, "-t", "3", "-k", "0.2", tw.adversary("escape"), mark, *KINDS)
    tw.ready(process)
    return tw.finish(process).status, 124


def end_by_exit(group, mark, *options):
    process = in_group(group, *options, "-k", "0.2", "--linger", "0.05", tw.adversary("escape"), mark,
                       *KINDS, "=", "exit", "7")
    return tw.finish(process).status, 7


def end_at_once(group, mark, *options):
    process = in_group(group, *options, "-k", "0", "--stop-on", "USR1", tw.adversary("escape"), mark,
                       *KINDS)
    tw.ready(process)
    process.send_signal(signal.SIGUSR1)
    return tw.finish(process).status, 129


def end_by_reaper_death(group, mark, *options):
    process = in_group(group, *options, tw.adversary("escape"), mark, *KINDS)
    tw.ready(process)
    tw.kill(tw.reaper_of(process))
    return tw.finish(process).status, 125


def end_by_shim_death(group, mark, *options):
    process = in_group(group, *options, tw.adversary("escape"), mark, *KINDS)
    tw.ready(process)
    reaper = tw.reaper_of(process)
    process.kill()
    process.wait()
    tw.wait_gone(reaper)
    tw.reap_adopted()
    process.stdout.close(), process.stderr.close()
    return 0, 0


WAYS = [end_by_timeout, end_by_exit, end_at_once, end_by_reaper_death, end_by_shim_death]


@pytest.mark.parametrize("way", WAYS)
def test_ends(group, mark, way):
    status, expected = way(group, mark, "--contain", "cgroup")
    assert_all_gone(group, mark)
    assert status == expected


@pytest.mark.parametrize("way", WAYS)
def test_ends_where_there_is_no_cgroup_kill(group, mark, way, absent, monkeypatch):
    """Before Linux 5.14: they are frozen and killed one by one."""
    for name, value in absent("cgroup.kill").items():
        monkeypatch.setenv(name, value)
    status, expected = way(group, mark, "--contain", "cgroup")
    assert_all_gone(group, mark)
    assert status == expected


@pytest.mark.parametrize("answer", ["1", "38"])
def test_without_clone3(group, mark, answer):
    process = tw.start_with(["sh", "-c", 'echo 0 >"$0/cgroup.procs"; exec "$@"', group,
                             tw.adversary("refuse"), answer, "clone3"], "--contain", "cgroup",
                            "sh", "-c", "cat /proc/self/cgroup; setsid sleep 60 & exit 4", mark)
    result = tw.finish(process)
    assert b"/treewrap-" in result.out and (result.status, result.err) == (4, b"")
    assert_all_gone(group, mark)


def test_who_is_no_descendant_any_more(group, mark):
    """It has joined another PID namespace, whose process 1 is its parent now."""
    other = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "sh", "-c",
                              "echo ready; exec sleep 60"], stdout=subprocess.PIPE)
    tw.ready(other)
    inside = tw.until(lambda: tw.children(other.pid))[0]
    escape = "nsenter --target %d --pid -- setsid --fork sh -c 'echo ready; exec sleep 60' %s" % (
        inside, mark)
    try:
        for options, status, more in (
                (["-k", "5"], 3, "exit 3"), (["-k", "0.2", "-t", "3"], 124, "sleep 60")):
            process = in_group(group, "--contain", "cgroup", *options, "sh", "-c",
                               "%s; while ! read line; do sleep 0.01; done; %s" % (escape, more),
                               mark, stdin=subprocess.PIPE)
            tw.ready(process)
            process.stdin.write(b"\n")
            assert tw.finish(process).status == status
            assert_all_gone(group, mark)
    finally:
        other.kill(), other.wait(), other.stdout.close()


def test_leftovers_are_counted(group, mark):
    read, write = os.pipe()
    process = in_group(group, "--contain", "cgroup", "--status-fd", write, "--leftovers", "fail",
                       "sh", "-c", "setsid sleep 60 & setsid sleep 60 & exit 0", mark,
                       pass_fds=[write])
    os.close(write)
    result, events = record(process, read)
    assert result.status == 123 and events[-1]["leftovers"] == 2
    assert_all_gone(group, mark)


def test_leftovers_that_stay_keep_their_cgroup(group, mark):
    process = in_group(group, "--contain", "cgroup", "--leftovers", "leave", "-v", "sh", "-c",
                       "setsid sleep 60.%d </dev/null >/dev/null 2>&1 & echo $!; exit 5" %
                       os.getpid(), mark)
    result = tw.finish(process)
    assert result.status == 5 and b"stays" in result.err
    assert len(below(group)) == 1
    os.kill(int(result.out), signal.SIGKILL)
    tw.until(lambda: b"populated 0" in (group / "cgroup.events").read_bytes())
    # The next run clears it away.
    assert tw.finish(in_group(group, "--contain", "cgroup", "true")).status == 0
    assert below(group) == []


def test_both_killed(group, mark):
    """Then the cgroup is left, and empty once the command's PDEATHSIG has done its work."""
    process = in_group(group, "--contain", "cgroup", "sh", "-c", "echo ready; exec sleep 60", mark)
    tw.ready(process)
    reaper = tw.reaper_of(process)
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(reaper, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGKILL)
    os.kill(reaper, signal.SIGKILL)
    process.wait()
    tw.wait_gone(reaper)
    tw.until(lambda: b"populated 0" in (group / "cgroup.events").read_bytes())
    assert tw.finish(in_group(group, "--contain", "cgroup", "true")).status == 0
    assert_all_gone(group, mark)
    process.stdout.close(), process.stderr.close()


def test_cgroups_that_the_command_makes(group, mark):
    script = 'own=%s/$(sed -n "s/^0:://p" /proc/self/cgroup); mkdir -p $own/a/b $own/c || exit 9; ' \
             'setsid sh -c "echo 0 >$own/a/b/cgroup.procs; echo ready; exec sleep 60" & ' \
             'read line; exit 6' % hierarchy()
    process = in_group(group, "--contain", "cgroup", "-k", "0.1", "sh", "-c", script, mark,
                       stdin=subprocess.PIPE)
    tw.ready(process)
    process.stdin.write(b"\n")
    assert tw.finish(process).status == 6
    assert_all_gone(group, mark)


def test_nested(group, mark):
    inner = [tw.TREEWRAP, "--contain", "cgroup"]
    process = in_group(group, "--contain", "cgroup", "-t", "3", "-k", "0", *inner, *inner,
                       tw.adversary("escape"), mark, *KINDS)
    tw.ready(process)
    assert tw.finish(process).status == 124
    assert_all_gone(group, mark)


def test_twenty_at_once(group, mark):
    processes = [in_group(group, "--contain", "cgroup", "-t", "4", "-k", "0.2", "sh", "-c",
                          "setsid sleep 60 & exit $0" if i % 2 else "setsid sleep 60 & sleep 60", i,
                          mark) for i in range(20)]
    for i, process in enumerate(processes):
        assert tw.finish(process).status == (i if i % 2 else 124)
    assert_all_gone(group, mark)


@pytest.mark.parametrize("contain", ["cgroup", "auto"])
def test_delegated_to_a_user(group, mark, contain, everybodys):
    """As systemd does it: the cgroup and its files are the user's, and an attribute says so."""
    own = group / "own"
    own.mkdir()
    os.setxattr(own, "user.delegate", b"1")
    for path in (own, own / "cgroup.procs", own / "cgroup.subtree_control", own / "cgroup.threads"):
        os.chown(path, tw.USER, tw.USER)
    program, = everybodys(tw.TREEWRAP)
    try:
        process = subprocess.run(
            ["sh", "-c", 'echo 0 >"$0/cgroup.procs"; exec "$@"', own,
             *tw.as_user(program, "--contain", contain, "sh", "-c",
                         "cat /proc/self/cgroup; setsid sleep 60 & exit 7", mark)],
            capture_output=True, stdin=subprocess.DEVNULL, timeout=tw.LIMIT)
        assert process.returncode == 7 and b"/own/treewrap-" in process.stdout, process
        assert below(own) == []
    finally:
        own.rmdir()


@pytest.mark.parametrize("setup, reason", [
    ("", b"no right to this cgroup's processes: Permission denied"),
    ("umount -l {root}", b"cgroup v2 is not mounted where it can be seen"),
    ("mount -o remount,bind,ro {root}", b"cgroup v2 is mounted read-only"),
    ("mkdir -p /run/systemd; mount -t tmpfs none /run/systemd; mkdir /run/systemd/system",
     b"this cgroup is not delegated to us")])
def test_refused_where_it_cannot_be_had(group, everybodys, setup, reason):
    user = tw.as_user() if not setup else []
    program, = everybodys(tw.TREEWRAP)
    had_run_systemd = os.path.exists("/run/systemd")
    try:
        for contain, status in (("cgroup", 125), ("auto", 0)):
            result = subprocess.run(
                ["unshare", "--mount", "sh", "-ec", 'echo 0 >"$0/cgroup.procs"; %s; exec "$@"' % (
                    setup.format(root=hierarchy()) or ":"), group, *user, program, "--contain",
                 contain, "echo", "ran"], capture_output=True, stdin=subprocess.DEVNULL,
                timeout=tw.LIMIT)
            assert result.returncode == status, result
            if contain == "cgroup":
                assert reason in result.stderr and result.stderr.count(b"\n") == 1
                assert result.stdout == b""
            else:
                assert (result.stdout, result.stderr) == (b"ran\n", b"")
            assert below(group) == []
    finally:
        if not had_run_systemd:
            tw.try_rmdir("/run/systemd")


def test_as_pid_1(group, mark):
    result = subprocess.run(
        ["sh", "-c", 'echo 0 >"$0/cgroup.procs"; exec "$@"', group, "unshare", "--pid", "--fork",
         "--mount-proc", tw.TREEWRAP, "--contain", "cgroup", "-t", "1", "-k", "0.2", "sh", "-c",
         "setsid sleep 60 & sleep 60", mark], capture_output=True, stdin=subprocess.DEVNULL,
        timeout=tw.LIMIT)
    assert (result.returncode, result.stderr) == (124, b"")
    assert_all_gone(group, mark)


def test_in_a_cgroup_namespace(group, mark):
    """A container's: its root is a cgroup that may be written to, so it has been left to it."""
    inside = group / "container"
    inside.mkdir()
    script = 'mount -t cgroup2 none "$0"; exec "$@"'
    try:
        for contain in ("cgroup", "auto"):
            result = subprocess.run(
                ["sh", "-c", 'echo 0 >"$0/cgroup.procs"; exec "$@"', inside, "unshare", "--cgroup",
                 "--mount", "sh", "-ec", script, "/sys/fs/cgroup", tw.TREEWRAP, "--contain", contain,
                 "sh", "-c", "cat /proc/self/cgroup; setsid sleep 60 & exit 4", mark],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=tw.LIMIT)
            assert (result.returncode, result.stderr) == (4, b"")
            assert b"\n0::/treewrap-" in result.stdout
            assert below(inside) == []
    finally:
        tw.until(lambda: tw.try_rmdir(inside))


def test_by_a_bind_mount(group, mark, tmp_path):
    """With a blank in its name, and the only one that shows the hierarchy."""
    place = tmp_path / "a b"
    place.mkdir()
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", 'echo 0 >"$0/cgroup.procs"; mount --bind "$0" "$1"; '
         'umount -l %s; shift; exec "$@"' % hierarchy(), group, place, tw.TREEWRAP, "--contain",
         "cgroup", "sh", "-c", "cat /proc/self/cgroup; exit 4"], stdin=subprocess.DEVNULL,
        capture_output=True, timeout=tw.LIMIT)
    assert (result.returncode, result.stderr) == (4, b"")
    assert b"0::/%s/treewrap-" % mark.encode() in result.stdout
    assert below(group) == []


def kill_by_cgroup(group, procs, bomb, grown):
    """The seconds that the kernel takes by itself."""
    cage = group / "cage"
    cage.mkdir()
    process = subprocess.Popen(["sh", "-c", JOIN, procs, cage, *bomb], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    grown()
    began = time.monotonic()
    (cage / "cgroup.kill").write_text("1")
    process.wait()
    tw.until(lambda: b"populated 0" in (cage / "cgroup.events").read_bytes(), 30)
    took = time.monotonic() - began
    tw.reap_adopted()
    tw.until(lambda: tw.try_rmdir(cage))
    return took


def kill_by_pidns(group, procs, bomb, grown):
    process = subprocess.Popen(["sh", "-c", JOIN, procs, group, "unshare", "--pid", "--fork",
                                "--mount-proc", *bomb], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    grown()
    began = time.monotonic()
    tw.kill(tw.children(process.pid)[0])
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        # Process 1 kills the others only when it has given back its own memory, and for that
        # it may have to wait for them: a minute and more has been seen.
        (group / "cgroup.kill").write_text("1")
        process.wait()
        return 5
    return time.monotonic() - began


JOIN = 'echo 0 >"$0"; echo 0 >"$1/cgroup.procs"; shift; exec "$@"'


@pytest.mark.heavy
@pytest.mark.parametrize("contain, kill", [("cgroup", kill_by_cgroup), ("pidns", kill_by_pidns)])
def test_fork_bomb_against_the_kernel(group, mark, pids_limit, contain, kill):
    """Held at 2,000 processes: gone within one and a half times what the kernel's own kill takes.
    The machine may be busy with something else: one try out of eight will do."""
    procs = pids_limit(2000)
    bomb = [tw.adversary("bomb"), mark, "setsid"]
    pids = procs.parent / "pids.current"

    def grown():
        tw.until(lambda: int(pids.read_text()) >= 1990, 30, "a grown bomb")

    ratios = []
    for _ in range(8):
        kernel = kill(group, procs, bomb, grown)
        tw.until(lambda: not tw.reap_adopted() and int(pids.read_text()) == 0, 30,
                 "room for the next")
        process = tw.start_with(["sh", "-c", JOIN, procs, group], "--contain", contain, "-k", "0",
                                "--stop-on", "USR1", *bomb)
        grown()
        began = time.monotonic()
        process.send_signal(signal.SIGUSR1)
        assert process.wait(30) == 129
        ours = time.monotonic() - began
        assert_all_gone(group, mark)
        process.stdout.close(), process.stderr.close()
        ratios.append(ours / kernel)
        print("kernel %.3f s, treewrap %.3f s" % (kernel, ours))
        if ratios[-1] < 1.5:
            return
    raise AssertionError(ratios)


# ---- pidns ----

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
