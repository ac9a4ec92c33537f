"""Where everything else has gone wrong already: nothing to be seen in /proc, no descriptors, no
processes, no memory to be had, and processes that nobody can end."""

import json
import os
import pathlib
import signal
import subprocess

import pytest
import tw

KINDS = ["background", "setsid", "double", "group", "thread", "name", "ignore", "stopped", "deep",
         "env"]


def need_root():
    if os.geteuid() != 0:
        pytest.skip("needs root, to make the surroundings")


def within(setup, *command, **keywords):
    """Runs COMMAND after the shell's SETUP, in a mount namespace of its own."""
    keywords.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen(["unshare", "--mount", "sh", "-ec", setup + '; exec "$@"', "sh",
                             *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            start_new_session=True, bufsize=0, **keywords)


# ---- /proc ----

WITHOUT = b"treewrap: /proc does not show our processes: they are found by waiting alone"
HIDDEN = b"treewrap: /proc hides the processes of other users: theirs are found only as their " \
         b"parents die"


@pytest.mark.parametrize("setup, user, said", [
    pytest.param("mount -t tmpfs none /proc", False, WITHOUT, marks=pytest.mark.not_with(
        "sanitize", "its runtime says on standard error that it misses /proc")),
    ("mount -t proc -o hidepid=2 none /proc", True, HIDDEN),
    ("mount -t proc -o hidepid=2 none /proc", False, None),
    ("mount -t proc -o subset=pid none /proc", False, None),
    ("mount -t proc -o subset=pid,hidepid=2 none /proc", True, HIDDEN)],
    ids=["none", "hidepid-user", "hidepid-root", "subset", "subset-hidepid-user"])
def test_proc_that_shows_less(mark, everybodys, setup, user, said):
    need_root()
    treewrap, escape = everybodys(tw.TREEWRAP, tw.adversary("escape"))
    become = tw.as_user() if user else []
    for options, status in ((["-t", "2.5"], 124), ([], 7)):
        process = within(setup, *become, treewrap, "-v", *options, "-k", "0.2", "--linger", "0",
                         escape, mark, *KINDS, *(["=", "exit", "7"] if status == 7 else []))
        assert process.wait(tw.LIMIT) == status
        # Looked for in our own /proc, which shows all.
        tw.assert_nothing_left(mark)
        lines = process.stderr.read().splitlines()
        assert lines.count(said) == 1 if said else not any(b"/proc" in line for line in lines)
        process.stdout.close(), process.stderr.close()
    process = within(setup, *become, treewrap, escape, mark, *KINDS)
    tw.ready(process)
    tw.kill(tw.reaper_of(process))
    assert process.wait(tw.LIMIT) == 125
    tw.assert_nothing_left(mark)
    assert process.stderr.read().count(b"\n") == 1
    process.stdout.close(), process.stderr.close()


def test_proc_of_another_namespace_with_the_same_number(mark):
    """There "self" is our own number by chance; what it shows are strangers."""
    need_root()
    result = subprocess.run(["unshare", "--pid", "--fork", "--kill-child",
                             tw.adversary("same_number"), tw.TREEWRAP, "-v", "sh", "-c",
                             "setsid sleep 99 & exit 5", mark],
                            stdin=subprocess.DEVNULL, capture_output=True, timeout=tw.LIMIT)
    assert result.returncode == 5, result
    assert WITHOUT in result.stderr.splitlines()


@pytest.fixture
def no_children_files(absent):
    return absent("children")


def test_no_children_files(mark, no_children_files):
    process = tw.start("-t", "2.5", "-k", "0.2", tw.adversary("escape"), mark, *KINDS,
                       env=no_children_files)
    tw.ready(process)
    assert tw.finish(process).status == 124
    tw.assert_nothing_left(mark)
    process = tw.start(tw.adversary("escape"), mark, *KINDS, env=no_children_files)
    tw.ready(process)
    tw.kill(tw.reaper_of(process))
    assert tw.finish(process).status == 125
    tw.assert_nothing_left(mark)


def test_no_children_files_and_large(mark, no_children_files):
    process = tw.start("-k", "30", "--stop-on", "TERM", tw.adversary("crowd"), mark, "300",
                       env=no_children_files)
    tw.ready(process)
    process.terminate()
    assert tw.finish(process).status == 129
    tw.assert_nothing_left(mark)


# ---- nothing to be had ----

@pytest.mark.parametrize("taken", range(14))
def test_descriptors_taken_by_the_caller(mark, tmp_path, taken):
    """Of 16 that may be open. Either nothing is run, or everything is as ever."""
    witness = tmp_path / "witness"
    command = 'prlimit --nofile=16:16 -- sh -c \'%s exec "$@"\' sh "$@"' % " ".join(
        "exec %d</dev/null;" % fd for fd in range(3, 3 + min(taken, 7)))
    # A shell's redirections go up to 9 only.
    extra = [os.open("/dev/null", os.O_RDONLY) for _ in range(max(0, taken - 7))]
    script = 'touch "$0"; exec "$@"'
    process = tw.start_with(["sh", "-c", command, "sh"], "-t", "2", "-k", "0.2", "sh", "-c", script,
                            witness, tw.adversary("escape"), mark, *KINDS, pass_fds=extra)
    [os.close(fd) for fd in extra]
    result = tw.finish(process)
    tw.assert_nothing_left(mark)
    if result.status == 125:
        assert result.err.count(b"\n") == 1 and b"Too many open files" in result.err
        assert not witness.exists()
        assert taken > 4
    else:
        assert (result.status, result.err) == (124, b"")
        assert witness.exists()
        assert taken < 13


@pytest.mark.parametrize("limit", range(1, 5))
def test_no_more_processes(mark, everybodys, tmp_path, limit):
    """RLIMIT_NPROC: treewrap itself is two processes."""
    need_root()
    treewrap, escape = everybodys(tw.TREEWRAP, tw.adversary("escape"))
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == 0 and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    witness = tmp_path / "witness"
    process = subprocess.Popen(
        [*map(str, tw.as_user("prlimit", "--nproc=%d:%d" % (limit, limit), "--", treewrap, "-t", "2",
                           "-k", "0.2", "sh", "-c", '>"$0"; exec "$@"', witness, escape, mark,
                           "setsid", "double"))],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True)
    result = tw.finish(process)
    tw.assert_nothing_left(mark)
    assert witness.exists() == (limit >= 3)
    if limit < 3:
        assert result.status == 125
        assert result.err.count(b"\n") == 1 and b"Resource temporarily unavailable" in result.err
    else:
        # The command itself may not be able to fork, and end.
        assert result.status == 124 or limit < 6


def test_pids_cgroup_full(mark, pids_limit):
    """From the start, and by the command."""
    for limit in range(1, 6):
        procs = pids_limit(limit)
        process = tw.start_with(["sh", "-c", 'echo 0 >"$0"; exec "$@"', procs], "-t", "2", "-k",
                                "0.2", tw.adversary("escape"), mark, "setsid", "double", "ignore")
        result = tw.finish(process)
        tw.assert_nothing_left(mark)
        if limit < 3:
            assert result.status == 125 and result.err.count(b"\n") == 1
    assert result.status in (124, 1)


@pytest.mark.not_with("sanitize", "its shadow of memory takes terabytes of addresses")
@pytest.mark.parametrize("megabytes", [8, 16, 64])
def test_little_address_space(mark, megabytes):
    size = megabytes << 20
    process = tw.start_with(["prlimit", "--as=%d:%d" % (size, size), "--"], "-t", "2", "-k", "0.2",
                            tw.adversary("escape"), mark, *[kind for kind in KINDS
                                                            if kind != "thread"])
    tw.ready(process)
    result = tw.finish(process)
    assert (result.status, result.err) == (124, b"")
    tw.assert_nothing_left(mark)


@pytest.fixture
def memory_limit(mark):
    """A cgroup of 12 MB; gives its cgroup.procs."""
    need_root()
    root = pathlib.Path("/sys/fs/cgroup/memory")
    if not (root / "cgroup.procs").exists():
        pytest.skip("no memory controller of cgroup v1 here")
    group = root / mark
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(12 << 20))
    yield group / "cgroup.procs"
    tw.until(lambda: not (group / "cgroup.procs").read_text(), what="an empty cgroup")
    tw.until(lambda: tw.try_rmdir(group), what="the cgroup's removal")


@pytest.mark.not_with("sanitize", "its shadow of memory alone fills the cgroup")
def test_memory_cgroup_at_its_limit(mark, memory_limit):
    """Whom the kernel ends then is its choice, treewrap's processes are the smallest. Nothing is
    left at the end, whoever it was."""
    process = tw.start_with(["sh", "-c", 'echo 0 >"$0"; exec "$@"', memory_limit], "-t", "3", "-k",
                            "0.2", tw.adversary("hog"), mark)
    tw.ready(process)
    result = tw.finish(process)
    tw.assert_nothing_left(mark)
    assert result.status in (124, 137)


def test_status_to_a_file_that_may_not_grow(mark, tmp_path):
    path = tmp_path / "events"
    with open(path, "w") as file:
        process = tw.start_with(["prlimit", "--fsize=0:0", "--"], "-v", "-t", "2", "-k", "0.2",
                                "--status-fd", file.fileno(), tw.adversary("escape"), mark, *KINDS,
                                pass_fds=[file.fileno()], stderr=file)
    tw.ready(process)
    assert process.wait(tw.LIMIT) == 124
    tw.assert_nothing_left(mark)
    assert path.read_text() == ""
    process.stdout.close()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_streams_closed_at_start(mark, closed):
    process = tw.start_with(["sh", "-c", 'exec "$@" %s' % closed, "sh"], "-t", "1", "-k", "0.2",
                            tw.adversary("escape"), mark, *KINDS)
    assert tw.finish(process).status == 124
    tw.assert_nothing_left(mark)
    process = tw.start_with(["sh", "-c", 'exec "$@" %s' % closed, "sh"], "/bin/sh", "-c",
                            "ls -l /proc/self/fd >/dev/full || exit 3; exit 4", mark)
    assert tw.finish(process).status == 3


# ---- what cannot be ended ----

def events(read):
    with open(read, "rb") as file:
        return [json.loads(line) for line in file.read().splitlines()]


@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
def test_uninterruptible_sleep(mark, everybodys, tmp_path, user):
    """In a file system that does not answer. Its wait channel is told to whoever may read it; the
    zombie beside it is no survivor. Long enough to find that nothing dies any more."""
    need_root()
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no FUSE in this kernel")
    treewrap, cat = everybodys(tw.TREEWRAP, "/bin/cat")
    directory = pathlib.Path("/var/tmp", mark + "-stalled")
    directory.mkdir()
    server = subprocess.Popen([tw.adversary("stall"), directory], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, bufsize=0)
    read, write = os.pipe()
    try:
        tw.ready(server)
        process = subprocess.Popen(
            [*map(str, tw.as_user() if user else []), treewrap, "--stop-on", "USR1", "-k", "0.2",
             "--verify-for", "3", "--status-fd", str(write), "sh", "-c",
             'true & exec "$0" "$1"', cat, str(directory / mark)],
            pass_fds=[write], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, start_new_session=True)
        os.close(write)
        tw.ready(server, b"stalled")
        process.send_signal(signal.SIGUSR1)
        assert process.wait(20) == 125
    finally:
        # Lets it go, which then dies of the SIGKILL that it has had.
        server.stdin.close()
        server.wait(10)
        directory.rmdir()
    end = events(read)[-1]
    assert [survivor["state"] for survivor in end["survivors"]] == ["D"]
    reason = end["survivors"][0]["reason"]
    assert reason.startswith("uninterruptible sleep")
    assert reason == "uninterruptible sleep in request_wait_answer" or not user
    assert ("survived SIGKILL: " + reason).encode() in process.stderr.read()
    assert end["status"] == 125 and end["at"] >= 3.2
    process.stderr.close(), server.stdout.close()
    tw.until(lambda: not tw.marked(mark))
    tw.reap_adopted()


def test_frozen_by_cgroup_v2(mark):
    """There SIGKILL reaches the frozen: nobody survives."""
    need_root()
    for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        if os.path.exists(root + "/cgroup.controllers"):
            break
    else:
        pytest.skip("no cgroup v2 here")
    group = pathlib.Path(root, mark)
    group.mkdir()
    try:
        process = tw.start("-k", "0.2", "--stop-on", "USR1", tw.adversary("escape"), mark, "setsid",
                           "ignore")
        tw.ready(process)
        victims = tw.children(tw.children(tw.reaper_of(process))[0])
        for victim in victims:
            (group / "cgroup.procs").write_text(str(victim))
        (group / "cgroup.freeze").write_text("1")
        process.send_signal(signal.SIGUSR1)
        assert process.wait(20) == 129
        tw.assert_nothing_left(mark)
    finally:
        (group / "cgroup.freeze").write_text("0")
        tw.until(lambda: tw.try_rmdir(group))
    process.stdout.close(), process.stderr.close()


def test_who_would_hold_the_reaper(mark, everybodys):
    """By ptrace, as the same user: while it is held no deadline would hold."""
    need_root()
    treewrap, seize = everybodys(tw.TREEWRAP, tw.adversary("seize"))
    process = subprocess.Popen([*map(str, tw.as_user()), treewrap, "-t", "3", "-k", "0", seize, mark],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0,
                               start_new_session=True)
    tw.ready(process)
    tw.ready(process, b"refused")
    assert process.wait(15) == 124
    tw.assert_nothing_left(mark)
    process.stdout.close()
