"""--id and the control socket, spoken to directly: one line asks, one line of JSON answers."""

import fcntl
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest
import tw
from test_ctl import CTL
from test_events import parse

KINDS = ["background", "setsid", "double", "group", "thread", "ignore", "stopped", "deep", "nested"]


class Place:
    """A runtime directory of the test's own."""

    def __init__(self, path):
        self.path = path
        self.env = {"TREEWRAP_RUNTIME_DIR": str(path)}

    def start(self, name, *args, **keywords):
        return tw.start("--id", name, *args, env=self.env, **keywords)

    def connect(self, name):
        # Its path may be too long for an address.
        directory = os.open(self.path, os.O_PATH)
        try:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(30)
            connection.connect("/proc/self/fd/%d/%s.sock" % (directory, name))
        finally:
            os.close(directory)
        return connection

    def ask(self, name, request):
        with self.connect(name) as connection:
            connection.sendall(request.encode() + b"\n")
            return answer(connection)

    def names(self):
        return sorted(path.name for path in self.path.iterdir()) if self.path.exists() else []


def answer(connection):
    """The next line that comes, or None if none does any more."""
    line = b""
    while not line.endswith(b"\n"):
        got = connection.recv(1)
        if not got:
            return None
        line += got
    return json.loads(line)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "run")


@pytest.fixture
def common(mark):
    """A runtime directory that other users get at too, if its modes let them."""
    path = pathlib.Path("/var/tmp", mark + "-run")
    yield Place(path)
    shutil.rmtree(path, ignore_errors=True)


def finish(process, status):
    result = tw.finish(process)
    assert result.status == status, result
    return result


def start_reading(place):
    """The run "a", whose command reads a line, and is there."""
    process = place.start("a", "sh", "-c", "echo ready; read line", stdin=subprocess.PIPE)
    tw.ready(process)
    return process


def finish_reading(process):
    """No line comes."""
    process.stdin.close()
    process.stdin = None
    finish(process, 1)


def test_status(place, mark):
    process = place.start("build-7", "-t", "1h", tw.adversary("escape"), mark, "setsid", "background")
    tw.ready(process)
    command = tw.children(tw.reaper_of(process))[0]
    reply = place.ask("build-7", "status")
    assert 0 <= reply.pop("age") < 30
    assert reply == {"ok": True, "id": "build-7", "shim": process.pid, "pid": command,
                     "phase": "running", "contain": "tree", "timeout": 3600, "processes": 3,
                     "command": [tw.adversary("escape"), mark, "setsid", "background"]}
    assert os.stat(place.path).st_mode & 0o777 == 0o700
    assert os.stat(place.path / "build-7.sock").st_mode & 0o777 == 0o600
    assert place.ask("build-7", "stop")["ok"]
    finish(process, 129)


def test_tree(place, mark):
    process = place.start("a", tw.adversary("escape"), mark, "setsid", "background", "deep")
    tw.ready(process)
    reaper = tw.reaper_of(process)
    command = tw.children(reaper)[0]
    reply = place.ask("a", "tree")
    found = {entry["pid"]: entry for entry in reply["processes"]}
    assert (reply["id"], reply["reaper"], reply["pid"]) == ("a", reaper, command)
    assert sorted(found) == sorted(set(tw.marked(mark)) - {process.pid, reaper})
    assert reply["count"] == len(found) and "truncated" not in reply
    for pid, entry in found.items():
        parent = int(tw.read_proc(pid, "stat").rpartition(b")")[2].split()[1])
        assert entry["parent"] == parent
        assert entry["escaped"] == (os.getsid(pid) != os.getsid(process.pid))
        assert entry["command"] == "escape" and entry["state"] in "SR"
        assert 0 <= entry["age"] < 60 and 0 <= entry["cpu"] < 10
    assert sum(entry["escaped"] for entry in found.values()) >= 1
    # Parents come first.
    seen = {reaper}
    for entry in reply["processes"]:
        assert entry["parent"] in seen
        seen.add(entry["pid"])
    place.ask("a", "stop")
    finish(process, 129)


def test_a_tree_that_is_too_large_for_a_reply(place, mark):
    process = place.start("a", tw.adversary("crowd"), mark, "3000")
    tw.ready(process)
    reply = place.ask("a", "tree")
    assert reply["truncated"] is True and reply["count"] >= 3000
    assert 1000 < len(reply["processes"]) < 3000
    assert place.ask("a", "status")["processes"] == reply["count"]
    assert place.ask("a", "stop")["ok"]
    finish(process, 129)
    tw.assert_nothing_left(mark)


def test_a_command_line_that_is_too_large_for_a_reply(place):
    process = place.start("a", "sh", "-c", "read line", *(["x" * 100000] * 4), stdin=subprocess.PIPE)
    reply = tw.until(lambda: (place.path / "a.sock").exists() and place.ask("a", "status"))
    assert reply["truncated"] is True and reply["command"][:2] == ["sh", "-c"]
    assert len(reply["command"]) == 5
    finish_reading(process)


@pytest.mark.parametrize("options, cause", [([], "control"), (["-k", "0"], "control"),
                                            (["--contain", "cgroup"], "control")])
def test_stop_is_answered_when_the_tree_is_empty(place, mark, options, cause):
    if options == ["--contain", "cgroup"] and os.geteuid() != 0:
        pytest.skip("needs root, for a cgroup")
    process = place.start("a", "-k", "0.3", *options, tw.adversary("escape"), mark, *KINDS)
    tw.ready(process)
    with place.connect("a") as connection:
        connection.sendall(b"stop\n")
        reply = answer(connection)
        # At this moment; the name is free too.
        commands = [pid for pid in tw.marked(mark) if pid not in (process.pid, *tw.children(process.pid))]
        assert commands == [] and place.names() == []
    assert reply["ok"] and reply["id"] == "a" and reply["cause"] == cause
    assert reply["status"] == 129 and reply["survivors"] == [] and reply["killed"] >= 1
    finish(process, 129)


def test_stop_names_survivors(place, mark):
    with tw.v1_freezer(mark) as freeze:
        process = place.start("a", "-k", "0.1", "--verify-for", "1", tw.adversary("escape"), mark,
                              "setsid")
        tw.ready(process)
        victim = tw.children(tw.children(tw.reaper_of(process))[0])[0]
        freeze(victim)
        reply = place.ask("a", "stop")
        assert reply["ok"] and reply["status"] == 125
        assert reply["survivors"] == [{"pid": victim, "command": "escape", "state": "D",
                                       "reason": "frozen by its cgroup"}]
        assert process.wait(10) == 125
    process.stdout.close(), process.stderr.close()


def test_wait(place):
    process = place.start("a", "sh", "-c", "read line; exit 3", stdin=subprocess.PIPE)
    tw.until(lambda: (place.path / "a.sock").exists())
    with place.connect("a") as one, place.connect("a") as two:
        one.sendall(b"wait\n"), two.sendall(b"wait\n")
        # It is not stopped by that.
        assert place.ask("a", "status")["phase"] == "running"
        process.stdin.write(b"\n")
        for connection in (one, two):
            reply = answer(connection)
            assert (reply["cause"], reply["exit_code"], reply["status"]) == ("exit", 3, 3)
            assert answer(connection) is None
    finish(process, 3)


SAYS = "trap 'echo %s' USR1; echo ready; while ! read line; do :; done"


def test_signals_reach_the_tree_and_nobody_else(place, mark):
    """Also who has called setsid; the bystander, a run beside it with the same words, is left alone."""
    script = 'setsid sh -c "$0" & sh -c "$0" & eval "$0"'
    runs = []
    for name in ("a", "b"):
        runs.append(place.start(name, "sh", "-c", script, SAYS % name, mark, stdin=subprocess.PIPE))
        for _ in range(3):
            tw.ready(runs[-1])
    assert place.ask("a", "signal USR1") == {"ok": True, "signal": "SIGUSR1", "to": "tree",
                                             "reached": 3}
    for _ in range(3):
        assert tw.ready(runs[0], b"a") == b"a\n"
    assert place.ask("a", "signal 10 main") == {"ok": True, "signal": "SIGUSR1", "to": "main",
                                                "reached": 1}
    assert tw.ready(runs[0], b"a") == b"a\n"
    # Without a terminal the command's group is its own; who called setsid is not in it.
    assert place.ask("a", "signal sigusr1 group")["reached"] == 2
    for _ in range(2):
        assert tw.ready(runs[0], b"a") == b"a\n"
    assert place.ask("a", "signal KILL tree")["reached"] == 3
    finish(runs[0], 137)
    assert place.ask("b", "status")["processes"] == 3
    assert place.ask("b", "stop")["ok"]
    result = finish(runs[1], 129)
    assert result.out == b""


def test_events_tell_of_it(place):
    read, write = os.pipe()
    process = place.start("a", "--status-fd", write, "sh", "-c",
                          "trap : USR1; echo ready; while ! read line; do :; done", pass_fds=[write],
                          stdin=subprocess.PIPE)
    os.close(write)
    tw.ready(process)
    place.ask("a", "signal USR1")
    place.ask("a", "stop")
    finish(process, 129)
    with open(read, "rb") as file:
        start, sent, stop, end = parse(file.read())
    assert start["id"] == "a"
    assert (sent["event"], sent["signal"], sent["sender"], sent["to"]) == (
        "signal", "SIGUSR1", os.getpid(), "tree")
    assert (stop["cause"], end["cause"], end["status"]) == ("control", "control", 129)


@pytest.mark.parametrize("request_, error", [
    ("", "unknown request: ''"), ("halt", "unknown request: 'halt'"),
    ("STOP", "unknown request: 'STOP'"), ("stop now", "too many words in the request: 'stop'"),
    ("signal", "not a signal"), ("signal FOO", "not a signal: 'FOO'"),
    ("signal 0", "not a signal: '0'"), ("signal TERM all", "not one of main, group and tree: 'all'"),
    ("signal TERM tree tree", "too many words in the request: 'signal'"),
    ("stop\0", "unknown request: 'stop?'"), ("\"\x01\\", "unknown request: '\"\x01\\'"),
    ("a" * 4000, "unknown request: '%s'" % ("a" * 80))])
def test_bad_requests(place, request_, error):
    process = start_reading(place)
    assert place.ask("a", request_) == {"ok": False, "error": error}
    assert place.ask("a", "status")["ok"]
    finish_reading(process)


# ---- clients that misbehave ----

def test_several_requests_at_once(place):
    process = start_reading(place)
    with place.connect("a") as connection:
        connection.sendall(b"status\nfoo\ntree\nwa")
        assert [answer(connection)["ok"] for _ in range(3)] == [True, False, True]
        connection.sendall(b"it\nstatus\n")
        process.stdin.write(b"\n")
        assert answer(connection)["status"] == 0
        assert answer(connection) is None
    finish(process, 0)


def test_half_closed(place):
    """As by a client that sends all it has and shuts down its side."""
    process = start_reading(place)
    with place.connect("a") as connection:
        connection.sendall(b"status\ntree\n")
        connection.shutdown(socket.SHUT_WR)
        assert answer(connection)["phase"] == "running" and answer(connection)["count"] == 1
        assert answer(connection) is None
    with place.connect("a") as connection:
        connection.sendall(b"stop\n")
        connection.shutdown(socket.SHUT_WR)
        assert answer(connection)["status"] == 129
    finish(process, 129)


def test_who_asks_and_goes(place):
    process = place.start("a", "sleep", "60")
    tw.until(lambda: (place.path / "a.sock").exists())
    with place.connect("a") as connection:
        connection.sendall(b"stop\n")
    finish(process, 129)


def flood(place):
    """Half a line, a MiB without a newline, one that never reads, many that say nothing."""
    half = place.connect("a")
    half.sendall(b"sta")
    endless = place.connect("a")
    endless.settimeout(0.3)
    try:
        endless.sendall(b"x" * (1 << 20))
    except (BrokenPipeError, ConnectionResetError, TimeoutError):
        pass
    deaf = place.connect("a")
    deaf.settimeout(0.3)
    try:
        deaf.sendall(b"tree\n" * 100000)
    except TimeoutError:
        pass
    return [half, endless, deaf] + [place.connect("a") for _ in range(9)]


def test_none_holds_up_another_or_the_deadline(place, mark):
    process = place.start("a", "-t", "4", "-k", "0.2", tw.adversary("escape"), mark, *KINDS)
    began = time.monotonic()
    tw.ready(process)
    with place.connect("a") as waiting:
        waiting.sendall(b"wait\n")
        others = flood(place)
        # They were too many for it more than once: who waits keeps its place.
        others += flood(place)
        for _ in range(5):
            assert place.ask("a", "status")["ok"]
            assert place.ask("a", "signal CONT main")["reached"] == 1
        reply = answer(waiting)
        assert (reply["cause"], reply["status"]) == ("timeout", 124) and 4 <= reply["at"] < 7
    finish(process, 124)
    assert time.monotonic() - began < 10
    tw.assert_nothing_left(mark)
    for other in others:
        other.close()


def test_a_request_that_is_too_long(place):
    process = start_reading(place)
    with place.connect("a") as connection:
        connection.sendall(b"x" * 4096)
        assert answer(connection) == {"ok": False, "error": "the request is too long"}
        assert answer(connection) is None
    with place.connect("a") as connection:
        connection.sendall(b"x" * 4095 + b"\n")
        assert answer(connection)["error"].startswith("unknown request")
    finish_reading(process)


def test_twelve_wait_and_no_more(place):
    """So that somebody can still look and stop; and when all others stop it, nobody more is let in."""
    process = place.start("a", "-k", "30", "sh", "-c", "trap '' TERM; echo ready; read line",
                          stdin=subprocess.PIPE)
    tw.ready(process)
    waiting = [place.connect("a") for _ in range(12)]
    for connection in waiting:
        connection.sendall(b"wait\n")
    # All are heard when this is, if not before.
    assert tw.until(lambda: place.ask("a", "status"))["ok"]
    with place.connect("a") as one_more:
        one_more.sendall(b"wait\n")
        assert answer(one_more) == {"ok": False, "error": "too many wait already"}
        one_more.sendall(b"status\n")
        assert answer(one_more)["ok"]
    for _ in range(4):
        waiting.append(place.connect("a"))
        waiting[-1].sendall(b"stop\n")
    with place.connect("a") as one_more:
        assert answer(one_more) == {"ok": False, "error": "too many clients wait for this run"}
    process.stdin.write(b"\n")
    for connection in waiting:
        assert answer(connection)["cause"] == "control"
        connection.close()
    finish(process, 129)


def has_sent(connection, request):
    try:
        connection.sendall(request)
        return True
    except BrokenPipeError:
        return False


def test_all_who_stop_it_at_once_are_answered(place):
    """Also who comes while it is ending; it is too late when what is sent does not arrive."""
    for _ in range(10):
        process = place.start("a", "-k", "0", "sh", "-c", "echo ready; read line", stdin=subprocess.PIPE)
        tw.ready(process)
        connections = [place.connect("a") for _ in range(12)]
        asking = [connection for connection in connections if has_sent(connection, b"stop\n")]
        for connection in asking:
            assert answer(connection)["cause"] == "control"
        for connection in connections:
            connection.close()
        finish(process, 129)


def test_a_long_last_reply_is_whole(place, mark):
    process = place.start("a", "-k", "0", tw.adversary("crowd"), mark, "1500")
    tw.ready(process)
    with place.connect("a") as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b"tree\nstop\n")
        time.sleep(0.3)
        assert len(answer(slow)["processes"]) > 1000
        assert answer(slow)["cause"] == "control"
    finish(process, 129)


def send_lingering(connection, seconds, text):
    """Sends over it a TCP socket whose end, with what it has not sent yet, takes so long."""
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.create_connection(listener.getsockname())
    peer, _ = listener.accept()
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
    sender.setblocking(False)
    try:
        while True:
            sender.send(b"x" * 65536)
    except BlockingIOError:
        pass
    socket.send_fds(connection, [text], [sender.fileno()])
    sender.close()
    return [listener, peer]


@pytest.mark.parametrize("how", ["request", "part", "close", "after", "no place"])
def test_descriptors_that_a_client_sends_do_not_hold_the_run(place, mark, how):
    """To let go of one may take as long as the sender likes."""
    process = place.start("a", "-t", "2", "-k", "0", "sh", "-c", "echo ready; exec sleep 60", mark)
    began = time.monotonic()
    tw.ready(process)
    if how == "no place":
        others = [place.connect("a") for _ in range(40)]
    connection = place.connect("a")
    if how == "after":
        connection.sendall(b"status\n")
        assert answer(connection)["ok"]
        connection.sendall(b"x" * 100)
    kept = send_lingering(connection, 20, b"st" if how in ("part", "close") else b"status\n")
    if how == "close":
        connection.close()
    elif how != "no place":
        connection.settimeout(0.5)
        try:
            answer(connection)
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            pass
    with place.connect("a") as other:
        other.sendall(b"status\n")
        assert answer(other)["ok"]
        other.sendall(b"wait\n")
        assert answer(other)["status"] == 124
    finish(process, 124)
    assert time.monotonic() - began < 6
    connection.close()
    for one in kept + (others if how == "no place" else []):
        one.close()


def test_one_end_when_the_reaper_is_killed_at_the_end(place):
    """It is killed while it tells its last clients."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(60):
        read, write = os.pipe()
        process = place.start("a", "-k", "0", "--status-fd", write, "sh", "-c", "echo ready; read line",
                              stdin=subprocess.PIPE, pass_fds=[write])
        os.close(write)
        tw.ready(process)
        reaper = tw.reaper_of(process)
        with place.connect("a") as connection:
            connection.sendall(b"stop\n")
            time.sleep(chance.random() * 0.004)
            tw.kill(reaper)
        result = tw.finish(process)
        with open(read, "rb") as file:
            end = [event for event in map(json.loads, file.read().splitlines())
                   if event["event"] == "end"]
        assert len(end) == 1 and end[0]["status"] == result.status, (end, result)
        assert result.status in (125, 129) and place.names() == []


@pytest.mark.parametrize("limit, served", [(13, 3), (11, 3)])
def test_without_descriptors_for_clients(place, mark, limit, served):
    """Some are left for the end of the tree, and the reaper does not turn in circles."""
    process = tw.start_with(["sh", "-c", 'ulimit -n %d; exec "$@"' % limit, "sh"], "--id", "a", "-t",
                            "6", "-k", "0", tw.adversary("escape"), mark, "setsid", "double", "deep",
                            env=place.env)
    tw.ready(process)
    reaper = tw.reaper_of(process)
    clients = []
    for _ in range(20):
        clients.append(place.connect("a"))
        try:
            clients[-1].sendall(b"wait\n")
        except BrokenPipeError:
            pass
    time.sleep(0.5)
    ticks = sum(map(int, tw.read_proc(reaper, "stat").rpartition(b")")[2].split()[11:13]))
    result = finish(process, 124)
    assert result.err == b"" and result.took < 20
    tw.assert_nothing_left(mark)
    assert ticks < 50
    answers = [answer_or_reset(client) for client in clients]
    assert len([reply for reply in answers if reply and reply["ok"]]) == served
    assert {reply["error"] for reply in answers if reply and not reply["ok"]} == {
        "no descriptors are left for more clients"}
    for client in clients:
        client.close()


def answer_or_reset(client):
    try:
        return answer(client)
    except ConnectionResetError:
        return None


# ---- who may ----

def ask_as(user, place, name, request):
    script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(20)\n" \
             "s.connect(sys.argv[1])\ntry: s.sendall(sys.argv[2].encode() + b'\\n')\n" \
             "except BrokenPipeError: pass\n" \
             "sys.stdout.write(s.makefile().readline())"
    prefix = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"] if user else []
    result = subprocess.run([*prefix, "/usr/bin/python3", "-c", script,
                             "%s/%s.sock" % (place.path, name), request], capture_output=True, cwd="/",
                            timeout=tw.LIMIT)
    return json.loads(result.stdout) if result.returncode == 0 and result.stdout else result.stderr


def start_as(user, program, place, *args):
    prefix = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"] if user else []
    return subprocess.Popen([*prefix, program, "--id", "a", *args], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, cwd="/",
                            env=dict(os.environ, **place.env), start_new_session=True)


@pytest.mark.parametrize("contain", ["tree", "pidns"])
@pytest.mark.parametrize("user", [None, tw.USER], ids=["root", "user"])
def test_another_user_is_refused(common, mark, everybodys, contain, user):
    """Whatever the modes are. Root is not."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    program, = everybodys(tw.TREEWRAP)
    process = start_as(user, program, common, "--contain", contain, "sh", "-c",
                       "echo ready; exec sleep 60", mark)
    tw.ready(process)
    other = tw.USER + 1
    assert b"Permission denied" in ask_as(other, common, "a", "stop")
    os.chmod(common.path, 0o755)
    assert b"Permission denied" in ask_as(other, common, "a", "stop")
    os.chmod(common.path / "a.sock", 0o666)
    assert ask_as(other, common, "a", "stop") == {"ok": False, "error": "this run is another user's"}
    if user:
        assert ask_as(user, common, "a", "status")["processes"] == 1
    os.chmod(common.path / "a.sock", 0o600)
    reply = ask_as(None, common, "a", "tree")
    reaper = tw.reaper_of(process)
    assert [entry["pid"] for entry in reply["processes"]] == tw.children(reaper) == [reply["pid"]]
    assert reply["reaper"] == reply["processes"][0]["parent"] == reaper
    assert ask_as(None, common, "a", "stop")["status"] == 129
    finish(process, 129)


@pytest.mark.parametrize("spoil, reason", [
    (lambda path: path.symlink_to("/tmp"), "it is no directory, or a symbolic link"),
    (lambda path: path.write_text(""), "it is no directory, or a symbolic link"),
    (lambda path: (path.mkdir(), path.chmod(0o720)), "its mode is not 0700"),
    (lambda path: (path.mkdir(), path.chmod(0o755)), "its mode is not 0700"),
    (lambda path: (path.mkdir(), path.chmod(0o500)), "its mode is not 0700"),
    (lambda path: (path.mkdir(), os.chown(path, tw.USER, -1)), "it is another user's")],
    ids=["symlink", "file", "group", "others", "locked", "owner"])
def test_directories_that_are_refused(place, spoil, reason):
    if os.geteuid() != 0 and "another" in reason:
        pytest.skip("needs root, to give a directory away")
    spoil(place.path)
    result = finish(place.start("a", "echo", "ran"), 125)
    assert result.err.decode() == "treewrap: --id: %s: %s\n" % (place.path, reason)
    assert result.out == b""


def test_a_slash_at_the_end_follows_no_link(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    for name, status in (("link//", 125), ("real//", 0)):
        finish(tw.start("--id", "a", "true", env={"TREEWRAP_RUNTIME_DIR": "%s/%s" % (tmp_path, name)}),
               status)


def test_an_umask_does_not_lock_us_out(place):
    for _ in range(2):
        result = finish(tw.start_with(["sh", "-c", 'umask 0777; exec "$@"', "sh"], "--id", "a", "sh", "-c",
                                      "umask", env=place.env), 0)
        assert result.out == b"0777\n" and os.stat(place.path).st_mode & 0o777 == 0o700


def test_somebody_holds_the_lock(place):
    place.path.mkdir(mode=0o700)
    held = os.open(place.path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    result = finish(place.start("a", "echo", "ran"), 125)
    assert result.out == b"" and result.err.decode() == \
        "treewrap: --id: %s: somebody holds its lock\n" % place.path
    os.close(held)


def test_no_place_for_it(place, tmp_path):
    for path, reason in ((tmp_path / "no" / "where", "No such file or directory"),
                         ("/proc/treewrap", "No such file or directory")):
        result = finish(tw.start("--id", "a", "echo", "ran", env={"TREEWRAP_RUNTIME_DIR": str(path)}), 125)
        assert result.err.decode() == "treewrap: --id: %s: %s\n" % (path, reason)
        assert result.out == b""
    result = finish(tw.start("--id", "a", "true", env={"TREEWRAP_RUNTIME_DIR": "/" + 2000 * "x"}), 125)
    assert result.err == b"treewrap: --id: the path of the runtime directory is too long\n"


@pytest.mark.parametrize("there", [True, False])
def test_on_a_read_only_file_system(tmp_path, there):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount")
    make = "mkdir -m 700 $0/run;" if there else ""
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", "mount -t tmpfs none $0; %s mount -o remount,ro $0; "
         'export TREEWRAP_RUNTIME_DIR=$0/run; exec "$@"' % make, tmp_path, tw.TREEWRAP, "--id", "a",
         "echo", "ran"], capture_output=True, timeout=tw.LIMIT, stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stdout) == (125, b"")
    assert result.stderr.decode() == "treewrap: --id: %s/run: Read-only file system\n" % tmp_path


def test_where_it_is(tmp_path, everybodys, mark):
    """$XDG_RUNTIME_DIR/treewrap, else /run/treewrap for root and /tmp/treewrap-UID for others."""
    show = ["sh", "-c", 'test -S "$0/$TREEWRAP_ID.sock" && echo "$TREEWRAP_ID"']
    env = {key: value for key, value in os.environ.items() if key not in ("TREEWRAP_RUNTIME_DIR",
                                                                          "XDG_RUNTIME_DIR")}

    def run(prefix, program, place, **more):
        return subprocess.run([*prefix, program, "--id", mark, *show, place], env={**env, **more},
                              capture_output=True, timeout=tw.LIMIT, stdin=subprocess.DEVNULL, cwd="/")

    result = run([], tw.TREEWRAP, tmp_path / "treewrap", XDG_RUNTIME_DIR=str(tmp_path))
    assert (result.returncode, result.stdout, result.stderr) == (0, mark.encode() + b"\n", b"")
    if os.geteuid() != 0:
        return
    program, = everybodys(tw.TREEWRAP)
    for prefix, place in (([], "/run/treewrap"), (tw.as_user(), "/tmp/treewrap-%d" % tw.USER)):
        was_there = os.path.exists(place)
        result = run(prefix, program, place, TREEWRAP_RUNTIME_DIR="")
        assert (result.returncode, result.stdout, result.stderr) == (0, mark.encode() + b"\n", b"")
        if not was_there:
            os.rmdir(place)


# ---- names ----

@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a..b", ".a", "-a", "a b", "a\nb", "ä",
                                  "x" * 65, "a*"])
def test_bad_names(place, name):
    result = finish(place.start(name, "echo", "ran"), 125)
    assert result.out == b"" and place.names() == []
    assert result.err.count(b"\n") == 1 + name.count("\n")
    assert result.err.startswith(b"treewrap: --id: '%s' is not a name" % name.encode())


def test_good_names(place):
    for name in ("a", "7", "x" * 64, "_", "build-7.2_x", "A-", "a."):
        result = finish(place.start(name, "sh", "-c", "echo $TREEWRAP_ID; ls $0", place.path), 0)
        assert result.out.decode().split() == [name, name + ".sock"]
        assert place.names() == []


def test_names_are_made_up(place):
    runs = [place.start("auto", "sh", "-c", "echo ready $TREEWRAP_ID; read line; exit 4",
                        stdin=subprocess.PIPE) for _ in range(5)]
    names = [tw.ready(process).split()[1].decode() for process in runs]
    assert len(set(names)) == 5 and all(name.startswith("sh-") for name in names)
    for name, process in zip(names, runs):
        assert place.ask(name, "status")["shim"] == process.pid
        process.stdin.write(b"\n")
        finish(process, 4)
    assert place.names() == []
    for command in ("./a b%", "/bin/echo"):
        result = tw.finish(place.start("auto", "--status-fd", "2", command))
        assert result.status in (127, 0)
    # The same number in two PID namespaces.
    runs = [tw.start_with(["unshare", "--pid", "--fork", "--mount-proc"], "--id", "auto", "sh", "-c",
                          "echo ready $TREEWRAP_ID; read line", env=place.env, stdin=subprocess.PIPE)
            for _ in range(3)] if os.geteuid() == 0 else []
    names = [tw.ready(process).split()[1] for process in runs]
    assert sorted(names) == sorted([b"sh-1", b"sh-1-1", b"sh-1-2"][:len(runs)])
    for process in runs:
        process.stdin.write(b"\n")
        finish(process, 0)
    assert place.names() == []


def test_two_runs_race_for_a_name(place):
    """Of eight that start at once one wins, also where a stale socket lies."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(25):
        if chance.random() < 0.5:
            place.path.mkdir(mode=0o700, exist_ok=True)
            stale = socket.socket(socket.AF_UNIX)
            directory = os.open(place.path, os.O_PATH)
            stale.bind("/proc/self/fd/%d/a.sock" % directory)
            os.close(directory), stale.close()
        runs = [place.start("a", "sh", "-c", "read line; exit 4", stdin=subprocess.PIPE)
                for _ in range(8)]
        tw.until(lambda: sum(process.poll() is None for process in runs) == 1)
        winner, = [process for process in runs if process.poll() is None]
        assert place.ask("a", "status")["shim"] == winner.pid
        winner.stdin.write(b"\n")
        for process in runs:
            if process is winner:
                finish(process, 4)
            else:
                assert finish(process, 125).err == b"treewrap: --id: 'a' is the id of another run\n"
        assert place.names() == []


@pytest.mark.parametrize("make", [lambda path: path.write_text("x"), lambda path: path.mkdir(),
                                  lambda path: path.symlink_to("b.sock")],
                         ids=["file", "directory", "symlink"])
def test_what_is_no_socket_is_left_alone(place, make):
    place.path.mkdir(mode=0o700)
    make(place.path / "a.sock")
    assert finish(place.start("a", "echo", "ran"), 125).err == \
        b"treewrap: --id: 'a' is the id of another run\n"
    assert place.names() == ["a.sock"]


def test_after_sigkill_of_both(place, mark):
    process = place.start("a", "sh", "-c", "echo ready; exec sleep 60", mark)
    tw.ready(process)
    reaper = tw.reaper_of(process)
    os.kill(process.pid, signal.SIGSTOP), os.kill(reaper, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGKILL), os.kill(reaper, signal.SIGKILL)
    process.wait()
    tw.wait_gone(reaper)
    tw.reap_adopted()
    process.stdout.close(), process.stderr.close()
    assert place.names() == ["a.sock"]
    assert finish(place.start("a", "sh", "-c", "exit 4"), 4).err == b""
    assert place.names() == []


def test_the_reaper_is_killed(place, mark):
    process = place.start("a", tw.adversary("escape"), mark, *KINDS)
    tw.ready(process)
    with place.connect("a") as connection:
        connection.sendall(b"wait\n")
        assert place.ask("a", "status")["ok"]
        tw.kill(tw.reaper_of(process))
        assert answer_or_reset(connection) is None
    finish(process, 125)
    assert place.names() == []
    tw.assert_nothing_left(mark)


def test_the_reaper_is_killed_and_something_stays(place, mark):
    """The shim has taken over, and tells of the end."""
    with tw.v1_freezer(mark) as freeze:
        process = place.start("a", "-k", "60", "--verify-for", "2", tw.adversary("escape"), mark,
                              "ignore", "setsid")
        tw.ready(process)
        reaper = tw.reaper_of(process)
        victim = tw.children(tw.children(reaper)[0])[0]
        freeze(victim)
        client = subprocess.Popen([CTL, "stop", "a"], env={**os.environ, **place.env},
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        tw.until(lambda: place.ask("a", "status")["phase"] == "stopping")
        tw.kill(reaper)
        out, err = client.communicate(timeout=tw.LIMIT)
        assert client.returncode == 1 and b"process %d (escape), state D, has survived" % victim in err
        assert process.wait(10) == 125
    assert place.names() == []
    process.stdout.close(), process.stderr.close()


def test_the_shim_is_killed(place, mark):
    process = place.start("a", tw.adversary("escape"), mark, *KINDS)
    tw.ready(process)
    reaper = tw.reaper_of(process)
    with place.connect("a") as connection:
        connection.sendall(b"wait\n")
        assert place.ask("a", "status")["ok"]
        process.kill()
        reply = answer(connection)
        assert reply["cause"] == "shim-killed"
    process.wait()
    tw.wait_gone(reaper)
    assert place.names() == []
    tw.assert_nothing_left(mark)
    tw.reap_adopted()
    process.stdout.close(), process.stderr.close()


def test_a_stopped_run_is_stopped(place, mark):
    """Also when treewrap itself has been stopped with its command, as by Ctrl-Z."""
    process = place.start("a", "-k", "1", "sh", "-c", "echo ready; kill -STOP $$; sleep 60", mark,
                          start_new_session=False, process_group=0)
    tw.ready(process)
    tw.until(lambda: tw.state(process.pid) == "T")
    assert place.ask("a", "stop")["status"] == 129
    finish(process, 129)


def test_nothing_of_it_leaks_into_the_command(place):
    result = finish(place.start("a", "sh", "-c", "ls /proc/self/fd | wc -l; umask"), 0)
    assert result.out.split() == [b"4", b"%04o" % current_umask()]
    result = finish(tw.start("sh", "-c", "echo ${TREEWRAP_ID-none}"), 0)
    assert result.out == b"none\n"


def current_umask():
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def test_leftovers_that_stay(place, mark):
    """The run is over, and with it its name."""
    process = place.start("a", "--leftovers", "leave", "sh", "-c",
                          "setsid sleep 60 >/dev/null 2>&1 & echo $!; exit 4", mark)
    result = finish(process, 4)
    assert place.names() == []
    os.kill(int(result.out), signal.SIGKILL)
    os.waitpid(int(result.out), 0)


def test_the_start_fails(place):
    assert b"not found" in finish(place.start("a", "no-such-command"), 127).err
    assert place.names() == []
    for call in ("clone", "clone_vm", "socketpair", "subreaper"):
        process = tw.start_with([tw.adversary("refuse"), "11", call], "--id", "a", "echo", "ran",
                                env=place.env)
        finish(process, 125)
        assert place.names() == []


def test_as_pid_1(place, mark):
    if os.geteuid() != 0:
        pytest.skip("needs root, for a PID namespace")
    process = tw.start_with(["unshare", "--pid", "--fork", "--mount-proc"], "--id", "a", "-k", "0.2",
                            tw.adversary("escape"), mark, *KINDS, env=place.env)
    tw.ready(process)
    # Numbers are those of its namespace.
    reply = place.ask("a", "status")
    assert (reply["shim"], reply["phase"]) == (1, "running")
    assert place.ask("a", "stop")["cause"] == "control"
    finish(process, 129)
    tw.assert_nothing_left(mark)
    assert place.names() == []


def test_nested(place, mark):
    """Each has its own, and the inner one goes with the outer."""
    process = place.start("outer", tw.TREEWRAP, "--id", "inner", "sh", "-c",
                          "echo ready $TREEWRAP_ID; sleep 60", mark)
    assert tw.ready(process) == b"ready inner\n"
    assert place.names() == ["inner.sock", "outer.sock"]
    tw.until(lambda: place.ask("inner", "status")["processes"] == 2)
    assert place.ask("outer", "status")["processes"] == 4
    assert place.ask("outer", "stop")["ok"]
    finish(process, 129)
    tw.assert_nothing_left(mark)
    assert place.names() == []


NODE = """
const net = require('net');
const socket = net.connect(process.argv[2]);
let text = '';
socket.on('data', data => {
  text += data;
  for (let end; (end = text.indexOf('\\n')) >= 0; text = text.slice(end + 1)) {
    const reply = JSON.parse(text.slice(0, end));
    if (reply.phase) socket.write('stop\\n');
    else console.log(reply.cause, reply.status);
  }
});
socket.write('status\\n');
"""


def test_a_link_leads_to_no_other_run(place, common, mark):
    """Asked for by treewrapctl, as root in a user's directory, say."""
    process = start_reading(place)
    common.path.mkdir(mode=0o700)
    (common.path / "x.sock").symlink_to(place.path / "a.sock")
    result = subprocess.run([CTL, "stop", "x"], env={**os.environ, **common.env}, capture_output=True,
                            timeout=tw.LIMIT)
    assert result.returncode == 1 and result.stdout == b""
    assert place.ask("a", "status")["phase"] == "running"
    process.stdin.write(b"\n")
    finish(process, 0)


def test_a_client_in_node(common, mark):
    process = common.start("a", tw.adversary("escape"), mark, *KINDS)
    tw.ready(process)
    result = subprocess.run(["node", "-", common.path / "a.sock"], input=NODE.encode(),
                            capture_output=True, timeout=tw.LIMIT)
    assert (result.stdout, result.stderr) == (b"control 129\n", b"")
    finish(process, 129)
    tw.assert_nothing_left(mark)
