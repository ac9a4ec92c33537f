"""--user, --caps, --no-new-privs, --confine-signals: what the command may do; and what treewrap
keeps for itself, run as root or with a capability of its file."""

import os
import pathlib
import signal
import struct
import subprocess

import pytest
import tw
from test_control import Place
from test_events import parse
from test_terminal import Terminal

KINDS = ["background", "setsid", "double", "group", "thread", "ignore", "stopped", "deep"]
OTHER = tw.USER
SHOWS = 'grep -E "^(Cap|NoNew)" /proc/self/status'

CHOWN, DAC_OVERRIDE, KILL, NET_BIND, SYS_NICE = 0, 1, 5, 10, 23

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


def lines_of(text):
    found = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        found[key] = int(value, 16) if key.startswith("Cap") else value.strip()
    return found


def caps_of(pid):
    text = tw.read_proc(pid, "status").decode()
    return {key: value for key, value in lines_of("\n".join(
        line for line in text.splitlines() if line.startswith("Cap"))).items()}


OWN = caps_of(os.getpid())


def bits(*capabilities):
    return sum(1 << capability for capability in capabilities)


def caps(permitted, effective=None, inheritable=0, bounding=None, ambient=0):
    return {"CapInh": inheritable, "CapPrm": permitted,
            "CapEff": permitted if effective is None else effective,
            "CapBnd": OWN["CapBnd"] if bounding is None else bounding, "CapAmb": ambient}


def exactly(*capabilities):
    some = bits(*capabilities)
    return caps(some, some, some, some, some)


TABLE = [
    # options; the command's sets; what treewrap has in effect, and what it keeps beside
    ([], lambda: caps(OWN["CapPrm"]), 0, 0),
    (["--user", "%d:%d" % (OTHER, OTHER)], lambda: caps(0), bits(KILL), 0),
    (["--user", "%d:%d" % (OTHER, OTHER), "--caps", "none"], lambda: exactly(), bits(KILL), 0),
    (["--user", "%d:%d" % (OTHER, OTHER), "--caps", "net_bind_service,CAP_CHOWN"],
     lambda: exactly(NET_BIND, CHOWN), bits(KILL), 0),
    (["--caps", "none"], lambda: exactly(), 0, 0),
    (["--caps", "kill"], lambda: exactly(KILL), 0, 0),
    (["--no-new-privs"], lambda: caps(OWN["CapPrm"]), 0, 0),
    (["--confine-signals"], lambda: caps(OWN["CapPrm"]), 0, 0),
    (["--contain", "cgroup"], lambda: caps(OWN["CapPrm"]), 0, bits(DAC_OVERRIDE)),
    (["--contain", "pidns", "--caps", "none"], lambda: exactly(), 0, 0),
    (["--contain", "pidns", "--user", "%d:%d" % (OTHER, OTHER)], lambda: caps(0), bits(KILL), 0),
]


@pytest.mark.parametrize("options, command, effective, beside", TABLE,
                         ids=[" ".join(row[0]).replace(str(OTHER), "other") for row in TABLE])
def test_what_each_has(options, command, effective, beside, mark):
    if "--confine-signals" in options and not can_confine():
        pytest.skip("this kernel has no scope for signals")
    process = tw.start(*options, "sh", "-c", SHOWS + "; echo ready; read line", mark,
                       stdin=subprocess.PIPE)
    text = b"".join(iter(process.stdout.readline, b"ready\n")).decode()
    found = lines_of(text)
    assert found.pop("NoNewPrivs") == str(int("--no-new-privs" in options))
    print("command", {key: hex(value) for key, value in found.items()})
    assert found == command()
    kept = bits(KILL, SYS_NICE) & OWN["CapPrm"] | beside
    for name, pid in (("shim", process.pid), ("reaper", tw.reaper_of(process))):
        # It lets go at the same time as the command is let go, not before.
        tw.until(lambda: caps_of(pid)["CapPrm"] == kept)
        print(name, {key: hex(value) for key, value in caps_of(pid).items()})
        tw.until(lambda: caps_of(pid) == caps(kept, effective))
        assert b"\nNoNewPrivs:\t1\n" in tw.read_proc(pid, "status")
    process.stdin.close()
    process.stdin = None
    assert tw.finish(process).status == 1


# ---- another user ----

@pytest.fixture
def database(tmp_path):
    """Runs treewrap where the user and group databases are these."""
    (tmp_path / "passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nalice:x:4001:4002:A:/home/alice:/bin/sh\n"
        "4001:x:4003:4004:digits:/home/digits:/bin/sh\n")
    (tmp_path / "group").write_text(
        "root:x:0:\nalice:x:4002:\nplay:x:4010:alice,bob\nwork:x:4011:alice\nother:x:4012:bob\n")
    (tmp_path / "nsswitch.conf").write_text("passwd: files\ngroup: files\n")
    script = "for f in passwd group nsswitch.conf; do mount --bind $0/$f /etc/$f; done; " \
             'exec "$@"'

    def run(*args):
        for name in ("passwd", "group", "nsswitch.conf"):
            if not os.path.exists("/etc/" + name):
                pytest.skip("there is no /etc/" + name)
        return subprocess.run(["unshare", "--mount", "sh", "-ec", script, tmp_path, tw.TREEWRAP, *args],
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=tw.LIMIT, text=True)
    return run


@pytest.mark.parametrize("word, uid, gid, groups, home", [
    ("alice", 4001, 4002, {4002, 4010, 4011}, "/home/alice alice alice"),
    ("alice:work", 4001, 4011, {4010, 4011}, "/home/alice alice alice"),
    ("alice:99", 4001, 99, {99, 4010, 4011}, "/home/alice alice alice"),
    ("4001", 4003, 4004, {4004}, "/home/digits 4001 4001"),
    ("4003:alice", 4003, 4002, {4002}, "/home/digits 4001 4001"),
    ("77:88", 77, 88, {88}, None), ("77:root", 77, 0, {0}, None),
    ("root", 0, 0, {0}, "/root root root"), ("4294967294:1", 4294967294, 1, {1}, None)])
def test_users(database, word, uid, gid, groups, home):
    result = database("--user", word, "sh", "-c", "id -u; id -g; id -G; echo $HOME $USER $LOGNAME")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert (int(lines[0]), int(lines[1]), set(map(int, lines[2].split()))) == (uid, gid, groups)
    before = " ".join(os.environ.get(name, "") for name in ("HOME", "USER", "LOGNAME"))
    assert lines[3].split() == (home or before).split()


@pytest.mark.parametrize("words, message", [
    (["--user", "bob"], "--user: 'bob' is not a user"),
    (["--user", ""], "--user: '' is not a user"),
    (["--user", ":5"], "--user: '' is not a user"),
    (["--user", "-1:5"], "--user: '-1' is not a user"),
    (["--user", "4294967295:5"], "--user: '4294967295' is not a user"),
    (["--user", "99999999999999999999:5"], "--user: '99999999999999999999' is not a user"),
    (["--user", "alice:nobody's"], "--user: 'nobody's' is not a group"),
    (["--user", "alice:"], "--user: '' is not a group"),
    (["--user", "77"], "--user: nothing is known of user 77: give his group, as 77:GROUP"),
    (["--user", "alice", "--user", "root"], "--user: 'root' is one too many"),
    (["--caps", "foo"], "--caps: 'foo' is not a capability"),
    (["--caps", ""], "--caps: '' is not a capability"),
    (["--caps", "chown,,kill"], "--caps: '' is not a capability"),
    (["--caps", "chown,none"], "--caps: 'none' is not a capability"),
    (["--caps", "none", "--caps", "kill"], "--caps: 'kill' is one too many")])
def test_bad_words(database, words, message):
    result = database(*words, "echo", "ran")
    assert (result.returncode, result.stdout, result.stderr) == (125, "", "treewrap: %s\n" % message)


@pytest.mark.parametrize("words, message", [
    (["--user", "0:0"], "--user: cannot set the groups: Operation not permitted"),
    (["--caps", "none"], "--caps: cannot cut the bounding set: Operation not permitted"),
    (["--caps", "chown"], "--caps: cannot cut the bounding set: Operation not permitted")])
def test_what_cannot_be_had_is_refused(everybodys, words, message, mark):
    """And nothing is run."""
    program, = everybodys(tw.TREEWRAP)
    read, write = os.pipe()
    result = subprocess.run(tw.as_user(program, "--status-fd", str(write), *words, "echo", "ran"),
                            capture_output=True, stdin=subprocess.DEVNULL, timeout=tw.LIMIT,
                            pass_fds=[write])
    os.close(write)
    assert (result.returncode, result.stdout) == (125, b"")
    assert result.stderr.decode() == "treewrap: cannot run 'echo': %s\n" % message
    with open(read, "rb") as file:
        end, = parse(file.read())
    assert (end["cause"], end["status"]) == ("exec-failed", 125)


def test_a_capability_that_root_has_not():
    result = tw.finish(tw.start_with(
        ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "sh", "-c", 'exec "$@"', "sh"],
        "--caps", "sys_admin", "echo", "ran"))
    assert (result.status, result.out) == (125, b"")
    assert result.err == b"treewrap: cannot run 'echo': --caps: cannot have exactly these: " \
                         b"Operation not permitted\n"


def test_root_who_may_not_kill_gives_it_to_nobody_else():
    without = ["setpriv", "--bounding-set=-kill", "--inh-caps=-kill", "sh", "-c", 'exec "$@"', "sh"]
    result = tw.finish(tw.start_with(without, "--user", "7:7", "echo", "ran"))
    assert (result.status, result.out) == (125, b"")
    assert b"--user: '7:7' cannot be had without CAP_KILL" in result.err
    assert tw.finish(tw.start_with(without, "--user", "0:0", "echo", "ran")).out == b"ran\n"


@pytest.mark.parametrize("contain", ["tree", "cgroup", "pidns"])
@pytest.mark.parametrize("how", ["timeout", "exit", "shim", "reaper"])
def test_the_tree_of_another_user_ends(mark, everybodys, contain, how):
    escape, = everybodys(tw.adversary("escape"))
    options = {"timeout": ["-t", "3", "-k", "0.2"], "exit": ["-k", "0.2", "--linger", "0.05"]}
    more = ["=", "exit", "7"] if how == "exit" else []
    process = tw.start("--contain", contain, *options.get(how, []), "--user",
                       "%d:%d" % (OTHER, OTHER), escape, mark, *KINDS, *more)
    tw.ready(process)
    reaper = tw.reaper_of(process)
    if how == "shim":
        tw.assert_nothing_outlives(process, reaper, mark)
        return
    if how == "reaper":
        tw.kill(reaper)
    assert tw.finish(process).status == {"timeout": 124, "exit": 7, "reaper": 125}[how]
    tw.assert_nothing_left(mark)


def test_signals_reach_another_user(mark):
    process = tw.start("--user", "%d:%d" % (OTHER, OTHER), "sh", "-c",
                       "trap 'echo got it' USR1; echo ready; while ! read line; do :; done", mark,
                       stdin=subprocess.PIPE)
    tw.ready(process)
    process.send_signal(signal.SIGUSR1)
    tw.ready(process, b"got it")
    process.stdin.write(b"\n")
    assert tw.finish(process).status == 0


def test_both_killed(mark):
    """The command of another user dies by our death all the same."""
    process = tw.start("--user", "%d:%d" % (OTHER, OTHER), "sh", "-c", "echo ready; read line", mark,
                       stdin=subprocess.PIPE)
    tw.ready(process)
    reaper = tw.reaper_of(process)
    command = tw.until(lambda: tw.children(reaper))[0]
    tw.until(lambda: caps_of(reaper)["CapEff"] == bits(KILL))
    os.kill(process.pid, signal.SIGSTOP), os.kill(reaper, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGKILL), os.kill(reaper, signal.SIGKILL)
    process.wait()
    tw.wait_gone(command)
    tw.reap_adopted()
    process.stdout.close(), process.stderr.close(), process.stdin.close()


PRIES = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for pid in map(int, sys.argv[1:]):
    for signo in (0, 9, 15, 19):  # SIGCONT the kernel lets through within a session
        try:
            os.kill(pid, signo)
            print("signalled")
        except PermissionError:
            pass
    for request in (16, 0x4206):  # PTRACE_ATTACH, PTRACE_SEIZE
        if libc.ptrace(request, pid, None, None) == 0:
            print("traced")
    for name in ("mem", "environ", "maps", "auxv", "fd/0", "stack", "syscall", "personality", "cwd/"):
        try:
            open("/proc/%d/%s" % (pid, name), "rb").read(1)
            print("read", name)
        except OSError:
            pass
    for name in ("exe", "root", "cwd"):
        try:
            os.readlink("/proc/%d/%s" % (pid, name))
            print("followed", name)
        except OSError:
            pass
    try:
        os.listdir("/proc/%d/fd" % pid)
        print("listed")
    except OSError:
        pass
    if libc.setpriority(0, pid, 19) == 0 or libc.sched_setaffinity(pid, 8, b"\\1" * 8) == 0:
        print("slowed down")
"""


def test_another_user_gets_at_neither_of_ours(mark):
    script = 'echo ready; read shim; exec /usr/bin/python3 -c "$0" $shim $PPID'
    process = tw.start("--user", "%d:%d" % (OTHER, OTHER), "sh", "-c", script, PRIES, mark,
                       stdin=subprocess.PIPE, cwd="/")
    tw.ready(process)
    process.stdin.write(b"%d\n" % process.pid)
    result = tw.finish(process)
    assert (result.status, result.out, result.err) == (0, b"", b"")


@pytest.mark.parametrize("contain", ["tree", "cgroup"])
def test_another_user_kills_all_that_he_can(mark, contain, everybodys):
    escape, = everybodys(tw.adversary("escape"))
    user = OTHER + 10000  # nobody else's while this runs
    read, write = os.pipe()
    process = tw.start("--contain", contain, "--user", "%d:%d" % (user, user), "--status-fd", write,
                       "-k", "0.3", "sh", "-c", '"$0" "$@" & read line; kill -9 -1; exit 3', escape,
                       mark, *KINDS, stdin=subprocess.PIPE, pass_fds=[write])
    os.close(write)
    bystander = subprocess.Popen(["sleep", "60"], user=user, group=user, extra_groups=[])
    tw.ready(process)
    process.stdin.write(b"\n")
    result = tw.finish(process)
    # In his own right he has killed all of his, the bystander too; the shell lives (dash's kill -1
    # spares who calls).
    assert bystander.wait(10) == -signal.SIGKILL
    with open(read, "rb") as file:
        end = parse(file.read())[-1]
    assert result.status == end["status"] == 3 and end["cause"] == "exit"
    tw.assert_nothing_left(mark)


# ---- no new privileges ----

def test_no_new_privileges(everybodys, mark):
    """A set-user-ID program gains nothing."""
    helper, = everybodys(tw.adversary("rootly"))
    os.chmod(helper, 0o4755)
    user = ["--user", "%d:%d" % (OTHER, OTHER)]
    assert tw.finish(tw.start("--no-new-privs", *user, helper, mark)).status == 1
    process = tw.start(*user, "-k", "0.2", "--stop-on", "USR1", helper, mark)
    tw.ready(process)
    # As root we end it all the same.
    process.send_signal(signal.SIGUSR1)
    assert tw.finish(process).status == 129
    tw.assert_nothing_left(mark)


# ---- a capability of the file ----

@pytest.fixture
def capable(everybodys):
    """treewrap as by `setcap cap_kill=p`, for an ordinary user."""
    program, = everybodys(tw.TREEWRAP)
    os.setxattr(program, "security.capability", struct.pack("<IIIII", 0x02000000, bits(KILL), 0, 0, 0))
    return program


@pytest.fixture
def rootly(everybodys):
    helper = everybodys(tw.adversary("rootly"))[-1]
    os.chmod(helper, 0o4755)
    return helper


def start_capable(program, *args, **keywords):
    return subprocess.Popen(tw.as_user(program, *map(str, args)), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, bufsize=0, cwd="/",
                            start_new_session=True, **keywords)


@pytest.mark.parametrize("how", ["timeout", "at once", "reaper", "shim"])
def test_with_the_files_capability_what_has_become_root_ends(capable, rootly, mark, how):
    options = {"timeout": ["-t", "1.5", "-k", "0.2"], "at once": ["-t", "1.5", "-k", "0"]}
    process = start_capable(capable, *options.get(how, []), "sh", "-c", '"$0" "$1" & "$0" "$1"', rootly,
                            mark)
    tw.ready(process), tw.ready(process)
    reaper = tw.reaper_of(process)
    for pid in (process.pid, reaper):
        tw.until(lambda: caps_of(pid) == caps(bits(KILL), 0))
    if how == "shim":
        tw.assert_nothing_outlives(process, reaper, mark)
        return
    if how == "reaper":
        tw.kill(reaper)
    assert tw.finish(process).status == (125 if how == "reaper" else 124)
    tw.assert_nothing_left(mark)


def test_with_the_files_capability_nothing_else_is_gained(capable, rootly, mark, tmp_path):
    """Signals that come to treewrap, or are asked for, go on with the user's own right alone."""
    place = Place(pathlib.Path("/tmp/treewrap-%d" % OTHER))
    was_there = place.path.exists()
    process = start_capable(capable, "--id", mark, "-k", "0.2", "--forward-to", "tree", rootly, mark,
                            env={**os.environ, "TREEWRAP_RUNTIME_DIR": str(tmp_path),
                                 "XDG_RUNTIME_DIR": str(tmp_path)})
    tw.ready(process)
    # The variables have not steered it.
    assert place.ask(mark, "signal USR1") == {"ok": True, "signal": "SIGUSR1", "to": "tree", "reached": 0}
    assert place.ask(mark, "signal KILL main")["reached"] == 0
    process.send_signal(signal.SIGUSR1)
    assert place.ask(mark, "status")["processes"] == 2
    assert place.ask(mark, "stop")["survivors"] == []
    assert tw.finish(process).status == 129
    tw.assert_nothing_left(mark)
    if not was_there:
        place.path.rmdir()


def test_with_the_files_capability_the_environment_does_not_steer(capable, mark):
    """TINI_KILL_PROCESS_GROUP would send it to the group, TINI_VERBOSITY tell of it."""
    script = "trap got=1 USR1; sleep 60 & echo ready; until [ $got ]; do sleep 0.01; done; " \
             "kill -0 $! && echo lives; exit 3"
    process = start_capable(capable, "-k", "0.2", "--linger", "0", "sh", "-c", script, mark,
                            env={**os.environ, "TINI_KILL_PROCESS_GROUP": "1", "TINI_VERBOSITY": "3"})
    tw.ready(process)
    process.send_signal(signal.SIGUSR1)
    result = tw.finish(process)
    assert (result.status, result.out, result.err) == (3, b"lives\n", b"")


def test_with_the_files_capability_descriptors_are_opened(capable):
    """0 to 2, if they were closed: nothing that we open gets their numbers."""
    result = subprocess.run(
        ["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", *tw.as_user(capable, "sh", "-c", "exec 3>&1; " +
         "readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 >/var/tmp/$0; exit 3",
         "fds-%d" % os.getpid())], timeout=tw.LIMIT)
    path = pathlib.Path("/var/tmp/fds-%d" % os.getpid())
    found = path.read_text().split()
    path.unlink()
    assert result.returncode == 3 and len(found) == 3
    assert all(name in ("/dev/null", "/dev/full") or name == str(path) for name in found)


def test_with_the_files_capability_the_command_gets_none(capable):
    process = start_capable(capable, "sh", "-c", SHOWS)
    found = lines_of(tw.finish(process).out.decode())
    assert (found["CapPrm"], found["CapEff"], found["CapInh"], found["CapAmb"]) == (0, 0, 0, 0)


def test_with_the_files_capability_in_a_namespace(capable, mark):
    process = start_capable(capable, "--contain", "pidns", "-t", "1.5", "-k", "0.2", "sh", "-c",
                            "echo ready $PPID; setsid sleep 60 & sleep 60", mark)
    assert tw.ready(process) == b"ready 1\n"
    assert tw.finish(process).status == 124
    tw.assert_nothing_left(mark)


# ---- confined signals ----

def can_confine():
    import ctypes
    return ctypes.CDLL(None).syscall(444, None, 0, 1) >= 6


confines = pytest.mark.skipif(not can_confine(), reason="this kernel has no scope for signals")
USERS = pytest.mark.parametrize("user", [None, OTHER], ids=["root", "user"])


@pytest.fixture
def confined(everybodys, mark):
    program, patricide = everybodys(tw.TREEWRAP, tw.adversary("patricide"))

    def start(user, *args, **keywords):
        prefix = tw.as_user() if user else []
        keywords.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([*prefix, program, "--confine-signals", *map(str, args)], bufsize=0,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                                start_new_session=True, **keywords)

    start.patricide = patricide
    return start


@confines
@USERS
@pytest.mark.parametrize("script, status", [
    ("kill -9 -1; exit 3", 3), ("kill -9 $PPID; exit 3", 3), ("kill -9 0", 137),
    ("pkill -9 -u $(id -u); exit 3", 137), ("kill -STOP $PPID; exit 3", 3),
    ("kill -9 $1 $PPID; exit 3", 3)])
def test_confined(confined, mark, user, script, status):
    """Treewrap, its caller and a bystander of the same user outlive it, and the status is right.
    (In a namespace, for as root the bystanders were everybody.)"""
    bystander = "%s sleep 30 & by=$!" % " ".join(tw.as_user() if user else [])
    command = confined(user, "true").args
    inside = '%s; "$@"; echo status $?; kill -0 $by && echo lives; kill -9 $by' % bystander
    process = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", inside, "sh", *command[:-1], "-k",
         "0.3", "sh", "-c", "sleep 30 & " + script, mark, "1"],
        capture_output=True, stdin=subprocess.DEVNULL, timeout=tw.LIMIT)
    assert b"status %d\n" % status in process.stdout and b"lives\n" in process.stdout, process
    tw.assert_nothing_left(mark)


@confines
@USERS
@pytest.mark.parametrize("more", [[], ["stop"], ["fork"], ["stop", "fork"]])
def test_confined_patricide(confined, mark, user, more):
    process = confined(user, "-t", "2", "-k", "0.2", confined.patricide, mark, "2", *more)
    result = tw.finish(process)
    assert result.status in (124, 0, 1), result
    assert b"killed" not in result.err
    tw.assert_nothing_left(mark)


@confines
@USERS
def test_confined_takes_no_more_than_it_must(confined, user):
    """Only who has no privilege gives up new ones for it."""
    found = lines_of(tw.finish(confined(user, "sh", "-c", SHOWS)).out.decode())
    assert found["NoNewPrivs"] == ("1" if user else "0")
    assert (found["CapPrm"] == OWN["CapPrm"]) == (user is None)


@confines
@USERS
def test_confined_it_works_as_ever_inside(confined, user, mark):
    script = 'trap "echo got it" USR1; sleep 60 & kill $!; wait $!; echo $?; kill -USR1 $$; ' \
             'setsid sh -c "kill -USR1 $$"; "$0" --confine-signals -t 0.3 -k 0 sleep 60; echo $?'
    process = confined(user, "sh", "-c", script)
    process.kill(), process.wait(), process.stdout.close(), process.stderr.close()
    program = process.args[process.args.index("--confine-signals") - 1]
    result = tw.finish(confined(user, "sh", "-c", script, program, mark))
    assert result.out.split() == [b"143", b"got", b"it", b"got", b"it", b"124"], result
    tw.assert_nothing_left(mark)


@confines
def test_confined_on_a_terminal():
    terminal = Terminal()
    terminal.prompt()
    try:
        terminal.check_shell("$T --confine-signals")
        terminal.type("$T --confine-signals sh -c 'echo rea''dy; exec sleep 77'\n")
        terminal.read_until(rb"ready\r\n")
        for _ in range(3):
            terminal.stop()
            terminal.type("fg\n")
            terminal.read_until(rb"sleep 77[^\n]*\r\n")
            terminal.foreground_runs("treewrap")
        terminal.type(b"\x03")
        terminal.prompt()
        assert terminal.run("echo $?") == b"130\n"
        assert terminal.run("jobs") == b""
    finally:
        terminal.close()


def test_confined_is_refused_where_it_cannot_be_had():
    result = tw.finish(tw.start_with([tw.adversary("refuse"), "38", "landlock"], "--confine-signals",
                                     "echo", "ran"))
    assert (result.status, result.out) == (125, b"")
    assert result.err.startswith(b"treewrap: --confine-signals: this kernel cannot confine signals")
