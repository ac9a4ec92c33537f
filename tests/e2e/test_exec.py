"""The exec servers of examples/, each driven with curl, and with sockets where curl cannot.

The promise of all four: a response ends within timeout + kill-after + MARGIN, and when it has,
nothing of its run is left; nor is soon after a client or the server itself has gone."""

import ctypes
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
import tw

SERVERS = {
    "python": ["/usr/bin/python3", "examples/python/server.py"],
    "node": ["node", "examples/node/server.js"],
    "go": ["build/examples/server-go"],
    "rust": ["build/examples/server-rust"],
}
MARGIN = 1  # seconds
ESCAPE = tw.adversary("escape")
SYS_PIDFD_GETFD = 438


class Response:
    """What POST /exec came to: the command's output, and the result on the last line."""

    def __init__(self, body, took):
        assert body.endswith(b"\n")
        self.output, _, line = body[:-1].rpartition(b"\n")
        self.result, self.took = json.loads(line), took
        assert self.result["event"] == "end"

    def cause(self):
        return self.result["cause"]


class Exec:
    """A POST /exec under way: a curl."""

    def __init__(self, server, command, stdout=subprocess.PIPE, **options):
        self.heads = server.directory / tw.new_mark()
        self.body = b""
        request = server.directory / tw.new_mark()  # curl's own command line has no mark
        request.write_text(json.dumps(dict(command=command, **options)))
        self.began = time.monotonic()
        self.curl = server.start_curl("-D", self.heads, "--data-binary", "@%s" % request,
                                      server.url + "/exec", stdout=stdout)
        found = tw.until(lambda: re.search("(?i)^X-Exec-Id: (exec-[0-9a-f]{16})$",
                                           tw.read_path(self.heads), re.M), what="a run")
        self.id = found[1]

    def wait_for(self, text):
        while text not in self.body:
            more = self.curl.stdout.read(65536)
            assert more, self.body
            self.body += more

    def finish(self):
        for more in iter(lambda: self.curl.stdout.read(65536), b""):
            self.body += more
        took = time.monotonic() - self.began
        assert tw.wait_at_once(self.curl) == 0, self.body
        self.curl.stdout.close()
        return Response(self.body, took)


class Server:
    def __init__(self, kind, directory, treewrap=tw.TREEWRAP):
        self.kind, self.directory = kind, directory
        self.errors = open(directory / "errors", "w+b")
        self.process = subprocess.Popen(
            [*SERVERS[kind], "0"], cwd=tw.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=self.errors, start_new_session=True, bufsize=0,
            env=dict(os.environ, TREEWRAP=treewrap, TREEWRAP_RUNTIME_DIR=str(directory / "run")))
        self.url = tw.ready(self.process, b"listening on ").split()[-1].decode()
        self.port = int(self.url.rpartition(":")[2])

    def start_curl(self, *args, stdout=subprocess.PIPE):
        # -N: what comes is passed on at once; 18 if the last chunk does not come.
        return subprocess.Popen(["curl", "-sS", "-N", "--noproxy", "*", "--max-time", str(tw.LIMIT),
                                 *map(str, args)], stdin=subprocess.DEVNULL, stdout=stdout, bufsize=0)

    def exec(self, command, **options):
        return Exec(self, command, **options)

    def ask(self, method, path, body=b""):
        """The status and the answer of a small request."""
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        curl = self.start_curl("-X", method, "--path-as-is", "--data-binary", body.decode(),
                               "-w", "%{http_code}", self.url + path)
        out = curl.communicate(timeout=tw.LIMIT)[0].decode()
        assert curl.returncode == 0, out
        return int(out[-3:]), json.loads(out[:-3])

    def control(self, run, line):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(tw.LIMIT)
        connection.connect(str(self.directory / "run" / (run + ".sock")))
        connection.sendall(line + b"\n")
        return connection

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.seek(0)
        with self.errors:
            return self.errors.read()


@pytest.fixture
def directory():
    # Short: a socket's address has 107 bytes.
    path = pathlib.Path(tempfile.mkdtemp(prefix="exec-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=SERVERS)
def server(request, directory):
    made = Server(request.param, directory)
    try:
        yield made
        if made.process.poll() is None:
            tw.until(lambda: not tw.children(made.process.pid), what="the end of its runs")
        assert not list(directory.glob("run/*"))
    finally:
        said = made.end()
        tw.reap_adopted()
    assert said == b""  # neither complaints nor traces of exceptions


def answer(connection):
    with connection, connection.makefile("rb") as file:
        return json.loads(file.readline())


def assert_gone_within(mark, seconds):
    """Including treewrap itself."""
    tw.until(lambda: not tw.marked(mark), limit=seconds, what="the end of %s" % mark)


def of_the_tree(mark):
    """Without treewrap's own two."""
    return [pid for pid in tw.marked(mark)
            if tw.read_proc(pid, "comm").strip() not in (tw.COMM, b"tree-reaper")]


def hold_stdout(pid):
    """A descriptor of ours for what PID has as its standard output."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(pid)
    held = libc.syscall(SYS_PIDFD_GETFD, pidfd, 1, 0)
    os.close(pidfd)
    assert held >= 0, os.strerror(ctypes.get_errno())
    return held


def test_the_command_as_a_text_and_as_words(server):
    response = server.exec("echo one; echo two >&2; exit 7").finish()
    assert response.output == b"one\ntwo\n"
    result = response.result
    assert (result["cause"], result["exit_code"], result["signal"], result["status"]) == (
        "exit", 7, None, 7)
    response = server.exec(["printf", "%s|", "a b", "", "\"\\\t\n$x", "\u00e9\U0001f600"]).finish()
    assert response.output == "a b||\"\\\t\n$x|\u00e9\U0001f600|".encode()
    assert response.result["exit_code"] == 0
    assert server.exec(["printf", "%s", "x" * 100000]).finish().output == b"x" * 100000


def test_a_command_that_cannot_be_started(server, directory):
    (directory / "long").write_text(json.dumps({"command": ["true", "x" * 200000]}))
    status, reply = server.ask("POST", "/exec", b"@%s/long" % os.fsencode(directory))
    assert (status, reply["ok"]) == (500, False) and reply["error"]


def test_output_is_passed_on_as_it_is(server):
    assert server.exec(r"printf '\000\377\r\n\n'").finish().output == b"\0\xff\r\n\n"
    assert server.exec("true").finish().output == b""
    assert server.exec("seq 300000").finish().output == b"".join(
        b"%d\n" % i for i in range(1, 300001))


def test_output_comes_while_the_command_runs(server, directory):
    run = server.exec("echo first; until [ -e %s/go ]; do sleep 0.02; done; echo second" % directory)
    run.wait_for(b"first\n")
    assert run.body == b"first\n"
    (directory / "go").touch()
    assert run.finish().output == b"first\nsecond\n"


def test_a_timeout_is_not_an_exit_with_124(server):
    own = server.exec("exit 124").finish().result
    assert (own["cause"], own["exit_code"], own["status"]) == ("exit", 124, 124)
    stopped = server.exec("sleep 100", timeout=0.2).finish().result
    assert (stopped["cause"], stopped["exit_code"], stopped["signal"], stopped["status"]) == (
        "timeout", None, "SIGTERM", 124)
    both = server.exec("trap 'exit 124' TERM; while :; do sleep 0.01; done", timeout=0.2).finish().result
    assert (both["cause"], both["exit_code"], both["status"]) == ("timeout", 124, 124)


def test_a_command_that_is_not_there(server):
    result = server.exec(["/not/there"]).finish().result
    assert (result["cause"], result["exit_code"], result["status"]) == ("exec-failed", None, 127)


SHAPES = [["background"], ["setsid"], ["ignore"],
          ["background", "setsid", "double", "stopped", "deep", "nested", "ignore"]]


# All children have the command's standard output, and hold it open.
@pytest.mark.parametrize("shape", SHAPES, ids="-".join)
def test_timeout(server, mark, shape):
    kill_after = 0.5 if "ignore" in shape else 20
    run = server.exec([ESCAPE, mark, *shape], timeout=0.5, kill_after=kill_after)
    run.wait_for(b"ready\n")
    assert len(of_the_tree(mark)) > len(shape)
    response = run.finish()
    tw.assert_nothing_left(mark)
    assert response.output == b"ready\n"
    assert (response.cause(), response.result["status"]) == ("timeout", 124)
    assert 0.5 <= response.took <= 0.5 + ("ignore" in shape) * kill_after + MARGIN
    assert (response.result["killed"] > 0) == ("ignore" in shape)


@pytest.mark.parametrize("shape", SHAPES, ids="-".join)
def test_the_command_ends_before_what_it_has_started(server, mark, shape):
    kill_after = 0.5 if "ignore" in shape else 20
    response = server.exec([ESCAPE, mark, *shape, "=", "exit", "3"], kill_after=kill_after).finish()
    tw.assert_nothing_left(mark)
    assert response.output == b"ready\n"
    assert (response.cause(), response.result["exit_code"]) == ("exit", 3)
    assert response.result["leftovers"] >= len(shape)
    assert response.took <= ("ignore" in shape) * kill_after + MARGIN


def test_the_server_is_killed(server, mark):
    run = server.exec([ESCAPE, mark, "background", "setsid", "ignore"], timeout=100, kill_after=0.5)
    run.wait_for(b"ready\n")
    server.process.kill()
    assert_gone_within(mark, 0.5 + MARGIN)
    assert tw.wait_at_once(run.curl) == 18  # no last chunk: there is no result
    run.curl.stdout.close()


@pytest.mark.parametrize("kind", ["quiet", "flood", "blocked"])
def test_the_client_is_gone(server, mark, kind):
    command = {"quiet": [ESCAPE, mark, "background", "setsid", "ignore"]}.get(
        kind, ["sh", "-c", '%s "$0" setsid ignore & exec yes "$0"' % ESCAPE, mark])
    run = server.exec(command, timeout=100, kill_after=0.5,
                      stdout=subprocess.DEVNULL if kind == "flood" else subprocess.PIPE)
    tw.until(lambda: len(of_the_tree(mark)) == 4, what="all of it")
    waits = server.control(run.id, b"wait")
    run.curl.kill()
    assert_gone_within(mark, 0.5 + MARGIN)
    assert answer(waits)["cause"] == "fd"
    run.curl.wait()
    assert server.exec("echo on").finish().output == b"on\n"


def test_two_at_once_of_which_one_is_stopped(server, mark, directory):
    one = server.exec([ESCAPE, mark + "-one", "background", "setsid", "ignore"], timeout=100, kill_after=0.5)
    two = server.exec(["sh", "-c", "echo begun; until [ -e %s/go ]; do sleep 0.02; done; echo done" % directory,
                       mark + "-two"], timeout=100)
    one.wait_for(b"ready\n")
    two.wait_for(b"begun\n")
    began = time.monotonic()
    status, reply = server.ask("DELETE", "/exec/" + one.id)
    took = time.monotonic() - began
    assert not of_the_tree(mark + "-one") and of_the_tree(mark + "-two")
    assert (status, reply["ok"], reply["cause"], reply["id"]) == (200, True, "control", one.id)
    assert 0.5 <= took <= 0.5 + MARGIN
    stopped = one.finish()
    tw.assert_nothing_left(mark + "-one")
    assert (stopped.cause(), stopped.result["status"]) == ("control", 129)
    assert stopped.result["cause"] == reply["cause"] and stopped.output == b"ready\n"
    (directory / "go").touch()
    response = two.finish()
    assert (response.output, response.cause(), response.result["exit_code"]) == (b"begun\ndone\n", "exit", 0)
    assert server.ask("DELETE", "/exec/" + one.id)[0] == 404


def test_a_signal_reaches_the_tree(server, mark):
    child = "trap 'echo child' USR1; echo c; until [ -e /dev/null/no ]; do sleep 0.02; done"
    run = server.exec(["sh", "-c", """sh -c "$1" "$0" & trap 'echo main; exit 5' USR1; echo m
                       while :; do sleep 0.02; done""", mark, child], kill_after=0.2)
    run.wait_for(b"m\n"), run.wait_for(b"c\n")
    status, reply = server.ask("POST", "/exec/%s/signal" % run.id, {"signal": "USR1"})
    assert (status, reply["ok"], reply["signal"], reply["to"]) == (200, True, "SIGUSR1", "tree")
    assert reply["reached"] >= 2
    response = run.finish()
    assert {b"main", b"child"} <= set(response.output.split(b"\n"))
    assert (response.cause(), response.result["exit_code"]) == ("exit", 5)


def test_what_is_refused(server, mark):
    for body in (b"", b"[]", b"{", b"[" * 100000, b'{"command":"\\ud800"', b'{"command":"a\nb"}', b'{"command":"true"} x', {}, {"command": []}, {"command": None},
                 {"command": ["true", 1]}, {"command": ["true", None]},
                 {"command": ["true", {}]}, {"command": "a\0b"}, {"command": 1},
                 {"command": "true", "timeout": 0}, {"command": "true", "timeout": -1},
                 {"command": "true", "timeout": "1"}, {"command": "true", "timeout": 1e9},
                 {"command": "true", "kill_after": -1}, {"command": "true", "kill_after": True},
                 b'{"command":"true","timeout":1e999}'):
        status, reply = server.ask("POST", "/exec", body)
        assert (status, reply["ok"]) == (400, False) and reply["error"], (body, reply)
    run = server.exec([ESCAPE, mark], kill_after=0)
    for name in ("TERM\nstop", "TERM main", "", "NOSUCH", "0", 15, None):
        assert server.ask("POST", "/exec/%s/signal" % run.id, {"signal": name})[0] == 400, name
    none = "/exec/exec-0123456789abcdef"
    for method, path in (("DELETE", none), ("DELETE", "/exec/../run/" + run.id), ("DELETE", "/exec"),
                         ("DELETE", "/exec/" + run.id + "/signal"), ("GET", "/exec"), ("POST", "/"),
                         ("DELETE", "/exec/" + run.id + "%0a"), ("DELETE", "/exec/" + run.id + "/")):
        assert server.ask(method, path)[0] in (404, 501), (method, path)
    assert server.ask("POST", none + "/signal", {"signal": "TERM"})[0] == 404
    assert of_the_tree(mark)
    assert server.ask("DELETE", "/exec/" + run.id)[0] == 200
    assert run.finish().cause() == "control"


@pytest.mark.parametrize("victims, cause", [(["shim"], "shim-killed"), (["reaper"], "reaper-killed"),
                                            (["shim", "reaper"], "lost")])
def test_treewrap_is_killed(server, mark, victims, cause):
    # Without both, the command alone is sure to end.
    shape = ["setsid", "ignore"] if cause != "lost" else []
    run = server.exec([ESCAPE, mark, *shape], timeout=100)
    run.wait_for(b"ready\n")
    shim, = tw.children(server.process.pid)
    found = {"shim": shim, "reaper": tw.children(shim)[0]}
    for signo in (signal.SIGSTOP, signal.SIGKILL):
        for victim in victims:
            os.kill(found[victim], signo)
    response = run.finish()
    tw.assert_nothing_left(mark)
    assert response.cause() == cause and response.output.startswith(b"ready\n")
    if cause == "lost":  # nobody was left to remove it
        assert server.ask("DELETE", "/exec/" + run.id)[0] == 404
        (server.directory / "run" / (run.id + ".sock")).unlink()


def test_standard_output_is_held_by_a_stranger(server, directory):
    run = server.exec("echo $$; until [ -e %s/go ]; do sleep 0.02; done; echo done" % directory)
    run.wait_for(b"\n")
    held = hold_stdout(int(run.body))
    began = time.monotonic()
    (directory / "go").touch()
    response = run.finish()
    assert time.monotonic() - began <= MARGIN
    assert response.output.endswith(b"done\n") and response.cause() == "exit"
    os.close(held)


def test_a_client_that_does_not_read_yet(server, mark):
    """It holds up nobody but itself, and misses nothing."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=tw.LIMIT)
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sock.settimeout(tw.LIMIT)
    connection.sock.connect(("127.0.0.1", server.port))
    connection.request("POST", "/exec", json.dumps(
        {"command": ["seq", "-f", mark + " %.0f", "999999999"], "timeout": 0.7, "kill_after": 0.5}))
    tw.until(lambda: of_the_tree(mark), what="the command")
    assert_gone_within(mark, 0.7 + 0.5 + MARGIN)
    assert server.exec("echo on").finish().output == b"on\n"
    response = Response(connection.getresponse().read(), None)
    assert response.cause() == "timeout"
    lines = response.output.split(b"\n")[:-1]  # the last one may not be whole
    assert len(lines) > 1000 and lines == [b"%s %d" % (mark.encode(), i + 1) for i in range(len(lines))]
    connection.close()


def test_no_descriptor_is_left_open(server):
    def several():
        for _ in range(5):
            assert server.exec("echo on").finish().output == b"on\n"
            run = server.exec("echo on; sleep 100", kill_after=0.2)
            run.wait_for(b"on\n")
            run.curl.kill(), run.curl.wait(), run.curl.stdout.close()
        tw.until(lambda: not tw.children(server.process.pid), what="the end of the runs")

    several()
    before = server.descriptors()
    several()
    tw.until(lambda: server.descriptors() <= before, what="as few descriptors as before")


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("treewrap, error", [("/not/there", "/not/there"), (tw.TREEWRAP, "treewrap: ")],
                         ids=["treewrap", "directory"])
def test_what_is_needed_is_not_there(kind, directory, treewrap, error):
    (directory / "run").touch()
    server = Server(kind, directory, treewrap)
    try:
        status, reply = server.ask("POST", "/exec", {"command": "true"})
        assert (status, reply["ok"]) == (500, False) and error in reply["error"]
    finally:
        said = server.end()
    assert said == b""
