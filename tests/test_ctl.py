"""treewrapctl against servers that the tests play: well-behaved ones, for what is printed, and
hostile and broken ones, for what must not happen. Each has a socket in a directory of its own.

Heavy are those in which a server, a thread of ours, has to answer within the second of a list."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import pytest
import tw

CTL = os.environ.get("TREEWRAPCTL", os.path.join(tw.ROOT, "treewrapctl"))
LIMIT = 30
UTF8 = {"LC_ALL": "C.UTF-8"}

STATUS = {"ok": True, "id": "build-7", "shim": 812, "pid": 814, "phase": "running",
          "contain": "tree", "age": 12.345, "timeout": 30.000, "processes": 9,
          "command": ["make", "-j8"]}
END = {"ok": True, "id": "build-7", "cause": "control", "exit_code": None, "signal": "SIGTERM",
       "core": False, "status": 129, "at": 35.004, "leftovers": 0, "leftover_names": [],
       "killed": 2, "reaped": 11, "survivors": [], "user": 1.2, "system": 0.31,
       "max_rss_kib": 48212}
SURVIVOR = {"pid": 9, "command": "nfsd", "state": "D",
            "reason": "uninterruptible sleep in nfs_wait_bit"}


def process(pid, parent, command, escaped=False, state="S", age=12.3, cpu=0.12):
    return {"pid": pid, "parent": parent, "escaped": escaped, "state": state, "age": age,
            "cpu": cpu, "command": command}


def tree(*processes, **keys):
    return dict({"ok": True, "id": "build-7", "reaper": 813, "pid": 814, "age": 12.345,
                 "count": len(processes), "processes": list(processes)}, **keys)


class Runs:
    """Servers for runs, in threads of ours."""

    def __init__(self, path):
        self.path = path
        self.asked = {}  # name: the lines that it was sent
        self.stopping = threading.Event()
        self.sockets, self.threads = [], []

    def listen(self, name, backlog=16):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path / (name + ".sock")))
        listener.listen(backlog)
        self.sockets.append(listener)
        return listener

    def serve(self, name, behave):
        """BEHAVE gets each connection, when its request has come."""
        listener = self.listen(name)
        listener.settimeout(0.05)
        self.asked[name] = []

        def work():
            while not self.stopping.is_set():
                try:
                    connection, _ = listener.accept()
                except socket.timeout:
                    continue
                connection.settimeout(LIMIT)
                with connection:
                    try:
                        self.asked[name].append(connection.makefile("rb").readline())
                        behave(connection)
                    except OSError:
                        pass

        self.threads.append(threading.Thread(target=work, daemon=True))
        self.threads[-1].start()

    def answer(self, name, reply):
        """Serves a run that says REPLY: bytes as they are, anything else as JSON."""
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode() + b"\n"
        self.serve(name, lambda connection: connection.sendall(data))

    def silent(self, name):
        self.serve(name, lambda connection: self.stopping.wait(LIMIT))

    def stale(self, name):
        listener = self.listen(name)
        listener.close()

    def has(self, name):
        return (self.path / (name + ".sock")).exists()

    def environment(self, extra=None):
        return dict({"PATH": os.environ["PATH"], "TREEWRAP_RUNTIME_DIR": str(self.path)},
                    **(extra or {}))

    def start(self, *args, env=None, **keywords):
        keywords.setdefault("stdin", subprocess.DEVNULL)
        keywords.setdefault("stdout", subprocess.PIPE)
        keywords.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([CTL, *args], env=self.environment(env), **keywords)

    def ctl(self, *args, **keywords):
        return tw.finish(self.start(*args, **keywords), LIMIT)

    def close(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(LIMIT)
        for listener in self.sockets:
            listener.close()


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "runtime"
    path.mkdir(mode=0o700)
    servers = Runs(path)
    yield servers
    servers.close()


def good(result):
    assert result.status == 0 and result.err == b"", result
    return result.out.decode()


def failed(result, *words):
    """It says why in one line, and nothing else."""
    assert result.status == 1 and result.out == b"", result
    assert result.err.startswith(b"treewrapctl: ") and result.err.count(b"\n") == 1, result
    for word in words:
        assert word in result.err.decode(), result


# ---- what is asked


@pytest.mark.parametrize("args, line", [
    (["status", "build-7"], b"status\n"),
    (["tree", "build-7"], b"tree\n"),
    (["stop", "build-7"], b"stop\n"),
    (["wait", "build-7"], b"wait\n"),
    (["signal", "build-7", "TERM"], b"signal TERM tree\n"),
    (["signal", "build-7", "15", "--to", "main"], b"signal 15 main\n"),
    (["--to=group", "signal", "build-7", "sigRTMIN+3"], b"signal sigRTMIN+3 group\n"),
    (["signal", "--to", "tree", "build-7", "--json", "nonsense"], b"signal nonsense tree\n"),
    (["signal", "build-7", "--", "-9"], b"signal -9 tree\n"),
    (["--", "status", "build-7"], b"status\n"),
])
@pytest.mark.parametrize("env", [{}, {"POSIXLY_CORRECT": "1"}])
def test_request(runs, args, line, env):
    runs.answer("build-7", {"ok": False, "error": "enough"})
    assert runs.ctl(*args, env=env).status == 1
    assert runs.asked["build-7"] == [line]


@pytest.mark.parametrize("word, args", [
    ("no command", []),
    ("no command", ["--json"]),
    ("--bogus", ["--bogus", "list"]),
    ("-Z", ["list", "-Z"]),
    ("-9", ["signal", "x", "-9"]),
    ("--json=1", ["--json=1", "list"]),
    ("--to", ["signal", "x", "TERM", "--to"]),
    ("'all'", ["signal", "x", "TERM", "--to", "all"]),
    ("'tree'", ["stop", "x", "--to", "tree"]),
    ("'main'", ["--to", "main", "list"]),
    ("'kill'", ["kill", "x"]),
    ("''", [""]),
    ("'x'", ["list", "x"]),
    ("'y'", ["stop", "x", "y"]),
    ("'z'", ["signal", "x", "TERM", "z"]),
    ("ID", ["status"]),
    ("ID", ["signal"]),
    ("SIGNAL", ["signal", "x"]),
    ("''", ["status", ""]),
    ("'../x'", ["status", "../x"]),
    ("'.x'", ["status", ".x"]),
    ("'a..b'", ["status", "a..b"]),
    ("'a b'", ["status", "a b"]),
    ("x" * 65, ["status", "x" * 65]),
    ("'a?[1m'", ["status", "a\x1b[1m"]),
    ("'a?b'", ["status", "a\nb"]),
    ("'TERM main'", ["signal", "x", "TERM main"]),
    ("'TERM?'", ["signal", "x", "TERM\n"]),
    ("''", ["signal", "x", ""]),
    ("9" * 33, ["signal", "x", "9" * 33]),
])
def test_misuse(runs, word, args):
    runs.answer("x", STATUS)
    result = runs.ctl(*args)
    assert result.status == 2 and result.out == b"", result
    assert result.err.startswith(b"treewrapctl: ") and result.err.count(b"\n") == 1
    assert word in result.err.decode()
    assert runs.asked["x"] == []


def test_help_and_version(runs):
    assert good(runs.ctl("--help")).startswith("usage: treewrapctl ")
    assert good(runs.ctl("-h")) == good(runs.ctl("status", "--help"))
    assert re.fullmatch(r"treewrapctl \d+\.\d+\.\d+\n", good(runs.ctl("--version")))


# ---- whom there is to ask


@pytest.mark.parametrize("command", ["status", "tree", "stop", "wait"])
def test_no_such_run(runs, command):
    failed(runs.ctl(command, "nobody"), "no run has the id 'nobody'")


def test_no_directory(runs, tmp_path):
    env = {"TREEWRAP_RUNTIME_DIR": str(tmp_path / "none")}
    failed(runs.ctl("status", "x", env=env), "no run has the id 'x'")
    assert good(runs.ctl("list", env=env)) == ""
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("args", [["list"], ["stop", "x"]])
def test_directory_of_no_good(runs, args):
    runs.answer("x", END)
    runs.path.chmod(0o770)
    failed(runs.ctl(*args), str(runs.path), "its mode is not 0700")
    assert runs.asked["x"] == []


def test_stale_socket_is_cleared(runs):
    runs.stale("old")
    failed(runs.ctl("stop", "old"), "no run has the id 'old'")
    assert not runs.has("old")


def test_file_that_is_no_socket_stays(runs):
    (runs.path / "notes.sock").write_text("mine")
    failed(runs.ctl("status", "notes"), "no run has the id 'notes'")
    assert good(runs.ctl("list")) == ""
    assert (runs.path / "notes.sock").read_text() == "mine"


def test_socket_of_another_kind(runs):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(runs.path / "x.sock"))
        failed(runs.ctl("status", "x"), "status x: Protocol wrong type for socket")
        result = runs.ctl("list")
        assert result.out.split()[5:] == [b"x", b"?", b"?", b"?", b"?"]
        assert result.status == 0 and result.err.count(b"\n") == 1


def test_full_queue_is_waited_for(runs):
    listener = runs.listen("busy", 0)
    first = socket.socket(socket.AF_UNIX)
    first.connect(str(runs.path / "busy.sock"))
    process = runs.start("wait", "busy")
    time.sleep(0.3)
    assert process.poll() is None
    listener.accept()[0].close()
    with listener.accept()[0] as connection:
        assert connection.recv(100) == b"wait\n"
        connection.sendall(json.dumps(END).encode() + b"\n")
    assert good(tw.finish(process, LIMIT)).startswith("busy: ended")
    first.close()


# ---- list


@pytest.mark.heavy
def test_list(runs):
    runs.answer("build-7", STATUS)
    runs.answer("a", dict(STATUS, pid=None, age=3725.9, processes=1, command=["x", "y"],
                          truncated=True))
    runs.answer("B", dict(STATUS, pid=4194304, age=300000, timeout=None))
    runs.stale("old")
    runs.listen(".hidden")
    runs.listen("bad name")
    (runs.path / "other").write_text("")
    assert good(runs.ctl("list")).splitlines() == [
        "ID           PID    AGE  PROCESSES  COMMAND",
        "B        4194304  3d11h          9  make -j8",
        "a              -  1h02m          1  x y ...",
        "build-7      814    12s          9  make -j8",
    ]
    assert not runs.has("old") and runs.has(".hidden")


def test_list_of_nothing(runs):
    assert good(runs.ctl("list")) == ""
    assert good(runs.ctl("--json", "list")) == ""


@pytest.mark.heavy
def test_list_json(runs):
    runs.answer("b", STATUS)
    line = b'{ "ok":true,\t"new":[1.50],' + json.dumps(STATUS).encode()[1:]
    runs.answer("a", line + b"\n")
    out = good(runs.ctl("list", "--json")).splitlines()
    assert out[0].encode() == line.replace(b"\t", b" ")
    assert json.loads(out[1]) == STATUS and len(out) == 2


@pytest.mark.heavy
def test_list_asks_all_at_once(runs):
    for number in range(10):
        runs.silent("silent-%d" % number)
    runs.listen("deaf")
    runs.answer("well", STATUS)
    result = runs.ctl("list")
    assert result.status == 0 and 0.9 < result.took < 5
    lines = result.out.decode().splitlines()
    assert len(lines) == 13
    assert lines[1].split() == ["deaf", "?", "?", "?", "?"]
    assert lines[-1].split() == ["well", "814", "12s", "9", "make", "-j8"]
    complaints = result.err.decode().splitlines()
    assert len(complaints) == 11
    assert complaints[0] == "treewrapctl: list deaf: no answer within 1 s"


@pytest.mark.heavy
def test_list_goes_on_past_the_broken(runs):
    runs.answer("a", b"garbage\n")
    runs.answer("b", {"ok": False, "error": "no"})
    runs.answer("c", dict(STATUS, age="old"))
    runs.serve("d", lambda connection: None)
    runs.answer("e", STATUS)
    result = runs.ctl("list")
    assert result.status == 0
    assert [line.split()[:2] for line in result.out.decode().splitlines()[1:]] == [
        ["a", "?"], ["b", "?"], ["c", "?"], ["d", "?"], ["e", "814"]]
    assert len(result.err.splitlines()) == 4


@pytest.mark.heavy
def test_list_leaves_out_what_ends_meanwhile(runs):
    def die(connection):
        (runs.path / "brief.sock").unlink()

    runs.serve("brief", die)
    assert good(runs.ctl("list")) == ""


@pytest.mark.heavy
def test_list_of_more_runs_than_descriptors(runs):
    names = ["r%03d" % number for number in range(150)]
    for name in names:
        runs.stale(name)
    runs.answer("zz", STATUS)
    process = subprocess.run(["prlimit", "--nofile=40:80", CTL, "list"], capture_output=True,
                             env=runs.environment(), timeout=LIMIT, stdin=subprocess.DEVNULL)
    assert process.returncode == 0 and process.stderr == b""
    assert process.stdout.split()[-6] == b"zz"
    assert not any(runs.has(name) for name in names)


# ---- status, signal, stop, wait


def test_status(runs):
    runs.answer("build-7", STATUS)
    assert good(runs.ctl("status", "build-7")).splitlines() == [
        "id         build-7",
        "pid        814",
        "phase      running",
        "age        12.345 s",
        "timeout    17.655 s left of 30.000 s",
        "processes  9",
        "contain    tree",
        "command    make -j8",
    ]


def test_status_without_some(runs):
    runs.answer("x", dict(STATUS, pid=None, timeout=None, truncated=True, age=5))
    lines = dict(line.split(None, 1) for line in good(runs.ctl("status", "x")).splitlines())
    assert (lines["pid"], lines["timeout"], lines["command"]) == ("ended", "none", "make -j8 ...")
    assert lines["age"] == "5.000 s"


@pytest.mark.parametrize("command, reply", [
    ("status", STATUS), ("tree", tree(process(814, 813, "make"))), ("stop", END), ("wait", END)])
def test_json(runs, command, reply):
    line = json.dumps(dict(reply, new="\u00e9\x7f"), ensure_ascii=False, separators=(" , ", " :"))
    runs.answer("x", line.encode() + b"\nanother line\n")
    out = good(runs.ctl(command, "x", "--json"))
    assert out == line.replace("\x7f", "\\u007f") + "\n"


@pytest.mark.parametrize("reached, text", [
    (3, "SIGTERM to 3 processes\n"), (1, "SIGTERM to 1 process\n"), (0, "SIGTERM to 0 processes\n")])
def test_signal(runs, reached, text):
    runs.answer("x", {"ok": True, "signal": "SIGTERM", "to": "tree", "reached": reached})
    assert good(runs.ctl("signal", "x", "TERM")) == text


@pytest.mark.parametrize("command", ["stop", "wait"])
def test_end(runs, command):
    runs.answer("build-7", END)
    runs.answer("other", dict(END, cause="exit", killed=0, at=3))
    assert good(runs.ctl(command, "build-7")) == (
        "build-7: ended (control) after 35.004 s, 2 killed by SIGKILL\n")
    assert good(runs.ctl(command, "other")) == "other: ended (exit) after 3.000 s\n"


def test_survivors(runs):
    second = dict(SURVIVOR, pid=10, command="a\nb\x1b[2J")
    reply = dict(END, survivors=[SURVIVOR, second])
    runs.answer("x", reply)
    result = runs.ctl("stop", "x")
    assert result.status == 1 and result.out == b""
    assert result.err.decode().splitlines() == [
        "treewrapctl: x: process 9 (nfsd), state D, has survived: "
        "uninterruptible sleep in nfs_wait_bit",
        "treewrapctl: x: process 10 (a?b?[2J), state D, has survived: "
        "uninterruptible sleep in nfs_wait_bit"]
    result = runs.ctl("stop", "x", "--json")
    assert result.status == 1 and json.loads(result.out) == reply
    assert len(result.err.splitlines()) == 2


def test_refused(runs):
    runs.answer("x", {"ok": False, "error": "'FOO' is not a signal"})
    failed(runs.ctl("signal", "x", "FOO"), "signal x: refused: 'FOO' is not a signal")
    result = runs.ctl("signal", "x", "FOO", "--json")
    assert result.status == 1 and json.loads(result.out)["ok"] is False
    assert result.err.count(b"\n") == 1


def test_refused_before_it_was_asked(runs):
    listener = runs.listen("x")
    process = runs.start("status", "x")
    connection, _ = listener.accept()
    connection.sendall(b'{"ok":false,"error":"too many"}\n')
    connection.close()
    failed(tw.finish(process, LIMIT), "refused: too many")


@pytest.mark.parametrize("command", ["stop", "wait"])
def test_run_that_is_killed_meanwhile(runs, command):
    runs.serve("x", lambda connection: time.sleep(0.1))
    failed(runs.ctl(command, "x"), command + " x", "hung up without a reply")


def test_end_by_signal_while_waiting(runs):
    runs.silent("x")
    process = runs.start("wait", "x")
    tw.until(lambda: runs.asked["x"], what="the request")
    process.send_signal(signal.SIGTERM)
    assert tw.finish(process, LIMIT).status == -signal.SIGTERM


def test_stopped_and_continued_while_waiting(runs):
    go = threading.Event()
    runs.serve("x", lambda connection: (
        go.wait(LIMIT), connection.sendall(json.dumps(END).encode() + b"\n")))
    process = runs.start("wait", "x")
    tw.until(lambda: runs.asked["x"], what="the request")
    process.send_signal(signal.SIGSTOP)
    tw.until(lambda: tw.state(process.pid) == "T", what="a stop")
    process.send_signal(signal.SIGCONT)
    go.set()
    good(tw.finish(process, LIMIT))


# ---- tree


TREE = tree(process(814, 813, "make -j8"),
            process(815, 814, "sh -c 'x'"),
            process(900, 814, "daemon", escaped=True, state="R", age=3700, cpu=123.456),
            process(816, 815, "cc x.c"),
            process(817, 815, "cc y.c", age=0.1, cpu=0),
            process(818, 816, "cc1 x.c"),
            process(950, 813, "orphan", escaped=True), count=9, truncated=True)


def test_tree(runs):
    runs.answer("build-7", TREE)
    assert good(runs.ctl("tree", "build-7", env=UTF8)) == """\
build-7: 9 processes, 12 s, make -j8
PID  STATE    AGE     CPU  COMMAND
814  S        12s    0.12  make -j8
815  S        12s    0.12  |- sh -c 'x'
816  S        12s    0.12  |  |- cc x.c
818  S        12s    0.12  |  |  `- cc1 x.c
817  S         0s    0.00  |  `- cc y.c
900  R      1h01m  123.46  `- * daemon
950  S        12s    0.12  * orphan
2 more did not fit into the reply
* in another session
"""


def test_tree_of_one_and_of_none(runs):
    runs.answer("x", tree(process(814, 813, "make"), age=300))
    runs.answer("y", tree(pid=None))
    runs.answer("z", tree(process(814, 813, "make"), count=2))
    assert "fit" not in good(runs.ctl("tree", "z"))
    assert good(runs.ctl("tree", "x")).splitlines()[0] == "x: 1 process, 5m00s, make"
    assert good(runs.ctl("tree", "y")) == "y: 0 processes, 12 s\n"


def drawn(out):
    """The numbers in the order in which they are drawn, and the lines before their commands."""
    rows = [line.split(None, 4) for line in out.splitlines()[2:] if not line.startswith("*")]
    return [int(row[0]) for row in rows], [row[4] for row in rows]


@pytest.mark.parametrize("parents, order", [
    ({1: 1}, [1]),
    ({1: 2, 2: 1}, [1, 2]),
    ({1: 3, 2: 1, 3: 2}, [1, 2, 3]),
    ({2: 1, 1: 9}, [2, 1]),
    ({1: 0, 2: 1, 3: 2, 4: 1, 5: 3}, [1, 2, 3, 5, 4]),
])
def test_tree_with_parents_of_no_good(runs, parents, order):
    runs.answer("x", tree(*(process(pid, parent, "c") for pid, parent in parents.items())))
    assert drawn(good(runs.ctl("tree", "x")))[0] == order


def test_tree_with_a_number_twice(runs):
    runs.answer("x", tree(*(process(pid, parent, "c")
                            for pid, parent in [(5, 5), (5, 5), (5, 6), (6, 5), (6, 6)])))
    assert drawn(good(runs.ctl("tree", "x")))[0] == [5, 5, 6, 6, 5]


@pytest.mark.parametrize("kind", ["chain", "comb", "fan"])
def test_tree_of_thousands(runs, kind):
    count = 8000
    parent = {"chain": lambda n: n - 1, "comb": lambda n: max(n - 2, 1), "fan": lambda n: 1}[kind]
    runs.answer("x", tree(*(process(n, parent(n), "c", age=1, cpu=0)
                            for n in range(1, count + 1))))
    result = runs.ctl("tree", "x")
    numbers, commands = drawn(good(result))
    assert sorted(numbers) == list(range(1, count + 1)) and len(result.out) < 16e6
    if kind == "chain":
        assert commands[256] == "`- c"
        assert commands[257] == "`- [+1] c"
        assert commands[-1] == "`- [+%d] c" % (count - 257)


# ---- on a terminal


class Screen:
    """What the program prints on a terminal so wide."""

    def __init__(self, runs, *args, columns=80, env=None):
        self.pid, fd = pty.fork()
        if self.pid == 0:
            # The size is set before the program is there.
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.execve(CTL, [CTL, *args], runs.environment(dict({"TERM": "xterm"}, **(env or {}))))
        self.raw, deadline = b"", time.monotonic() + LIMIT
        while True:
            assert select.select([fd], [], [], max(0, deadline - time.monotonic()))[0], self.raw
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.raw += data
        os.close(fd)
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.text = re.sub(rb"\x1b\[[0-9;]*m", b"", self.raw).decode().replace("\r\n", "\n")
        self.lines = self.text.splitlines()


def test_terminal_tree(runs):
    runs.answer("build-7", TREE)
    screen = Screen(runs, "tree", "build-7", env=UTF8)
    assert screen.text == """\
build-7: 9 processes, 12 s, make -j8
PID  STATE    AGE     CPU  COMMAND
814  S        12s    0.12  make -j8
815  S        12s    0.12  ├─ sh -c 'x'
816  S        12s    0.12  │  ├─ cc x.c
818  S        12s    0.12  │  │  └─ cc1 x.c
817  S         0s    0.00  │  └─ cc y.c
900  R      1h01m  123.46  └─ * daemon
950  S        12s    0.12  * orphan
2 more did not fit into the reply
* in another session
"""
    assert screen.raw.startswith(b"\x1b[1mbuild-7")


def test_terminal_without_utf8(runs):
    runs.answer("x", tree(process(814, 1, "m\u00fcsli"), process(815, 814, "b")))
    screen = Screen(runs, "tree", "x", env={"LC_ALL": "C"})
    assert screen.lines[-1].endswith("`- b") and "m?sli" in screen.text


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_terminal_without_colour(runs, env):
    runs.answer("x", TREE)
    assert b"\x1b" not in Screen(runs, "tree", "x", env=dict(UTF8, **env)).raw
    assert b"\x1b" in Screen(runs, "tree", "x", env=dict(UTF8, NO_COLOR="")).raw


def test_terminal_lines_are_cut_by_columns(runs):
    runs.answer("wide", tree(process(814, 1, "\u6f22" * 60), process(815, 814, "e\u0301" * 90),
                             process(816, 814, "x" * 90), process(817, 814, "\U0001f600" * 60)))
    lines = Screen(runs, "tree", "wide", columns=41, env=UTF8).lines
    # 23 columns stand before a command, three more are lines.
    assert lines[0] == "wide: 4 processes, 12 s, " + "\u6f22" * 8
    assert lines[2].endswith("0.12  " + "\u6f22" * 9)
    assert lines[3].count("e\u0301") == lines[4].count("x") == 15
    assert lines[5].count("\U0001f600") == 7


@pytest.mark.heavy
def test_terminal_list_is_cut(runs):
    runs.answer("x", dict(STATUS, command=["\u6f22" * 60]))
    line = Screen(runs, "list", columns=41, env=UTF8).lines[1]
    assert line == "x   814  12s          9  " + "\u6f22" * 8


def test_terminal_width_from_the_environment(runs):
    runs.answer("x", tree(process(814, 1, "x" * 200)))
    assert len(Screen(runs, "tree", "x", columns=0, env={"COLUMNS": "50"}).lines[2]) == 50
    assert len(Screen(runs, "tree", "x", columns=0, env={"COLUMNS": "-1"}).lines[2]) == 80
    assert len(Screen(runs, "tree", "x", columns=0, env={"COLUMNS": "x"}).lines[2]) == 80
    assert len(Screen(runs, "tree", "x", columns=60, env={"COLUMNS": "50"}).lines[2]) == 60
    assert all(len(line) <= 1 for line in Screen(runs, "tree", "x", columns=1).lines)


def test_terminal_deep_tree_shows_commands(runs):
    runs.answer("x", tree(*(process(n, n - 1, "cmd") for n in range(1, 500))))
    lines = Screen(runs, "tree", "x", columns=80, env=UTF8).lines
    assert len(lines) == 501 and all(line.endswith("cmd") for line in lines[2:])


# ---- hostile and broken ones


NASTY = "a\x1b[2J\x07\n\r\t\x00b\x7f\x9b31m\u202eevil\u2028\u2066\x85c".replace("\x00", "")
SAFE = "a?[2J????b??31m?evil???c"


@pytest.mark.parametrize("env, rest", [(UTF8, "\u00e9\u6f22"), ({"LC_ALL": "C"}, "??")])
def test_nothing_harmful_is_printed(runs, env, rest):
    nasty, safe = NASTY + "\u00e9\u6f22", SAFE + rest
    runs.answer("x", dict(STATUS, command=[nasty], phase=nasty, contain=nasty, id=nasty))
    runs.answer("y", tree(process(814, 813, nasty, state=nasty)))
    runs.answer("z", {"ok": True, "signal": nasty, "to": "tree", "reached": 1})
    runs.answer("e", dict(END, cause=nasty))
    for args in (["status", "x"], ["tree", "y"], ["signal", "z", "TERM"], ["wait", "e"]):
        out = good(runs.ctl(*args, env=env))
        assert safe in out
        assert all(c == "\n" or ord(c) >= 32 and not 127 <= ord(c) < 160 for c in out)
    assert "\x1b[2J" not in Screen(runs, "tree", "y", env=env).raw.decode()
    runs.answer("f", {"ok": False, "error": nasty})
    failed(runs.ctl("stop", "f", env=env), safe)
    runs.answer("g", dict(END, survivors=[dict(SURVIVOR, command=nasty, reason=nasty)]))
    failed(runs.ctl("stop", "g", env=env), safe)


def test_nothing_harmful_in_json(runs):
    reply = dict(STATUS, command=["a\x7f\x9b31m\x85\u00e9"])
    line = json.dumps(reply, ensure_ascii=False).encode()
    runs.answer("x", b"\r\t" + line + b"\r\n")
    out = good(runs.ctl("status", "--json", "x"))
    assert json.loads(out) == reply and "\\u007f\\u009b31m\\u0085\u00e9" in out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)


@pytest.mark.parametrize("line", [
    b"", b"garbage", b"{", b"[]", b"[1,2]", b"null", b"true", b'"ok"', b"1", b"{} {}",
    b'{"ok":true}x', b"\x00", b'{"ok":true,\x00}', b"\xff\xfe", b'{"a":"\xff"}',
    b'{"a":"\x1b"}', b'{"a":"\\u0000"}', b'{"a":"\\ud800"}', b'{"ok":true,"a":1e999}',
    b'{"a":99999999999999999999999}', b"[" * 100000, b'{"a":' * 100000])
@pytest.mark.parametrize("command", ["status", "tree", "stop"])
def test_reply_that_is_no_json(runs, command, line):
    runs.answer("x", line + b"\n")
    failed(runs.ctl(command, "x"), command + " x", "not a JSON object")
    failed(runs.ctl(command, "x", "--json"), "not a JSON object")


@pytest.mark.parametrize("line", [
    b"{}", b'{"ok":1}', b'{"ok":"true"}', b'{"ok":null}', b'{"Ok":true}', b'{"error":"x"}'])
def test_reply_that_does_not_say_whether(runs, line):
    runs.answer("x", line + b"\n")
    failed(runs.ctl("status", "x"), '"ok"')


@pytest.mark.heavy
def test_list_json_of_the_broken(runs):
    runs.answer("a", b"garbage\n")
    runs.answer("b", STATUS)
    result = runs.ctl("list", "--json")
    assert result.status == 0 and json.loads(result.out) == STATUS
    assert result.err == b"treewrapctl: list a: its reply is not a JSON object\n"


def test_refused_without_a_reason(runs):
    runs.answer("x", b'{"ok":false}\n')
    failed(runs.ctl("status", "x"), '"error"')


SIGNALLED = {"ok": True, "signal": "SIGTERM", "to": "tree", "reached": 3}
NEEDED = [
    (["status", "x"], STATUS, ["pid", "phase", "age", "timeout", "processes", "contain",
                               "command"]),
    (["tree", "x"], tree(), ["pid", "age", "count", "processes"]),
    (["signal", "x", "TERM"], SIGNALLED, ["signal", "reached"]),
    (["stop", "x"], END, ["cause", "at", "killed", "survivors"]),
    (["wait", "x"], END, ["cause", "at", "killed", "survivors"]),
]


@pytest.mark.parametrize("args, reply, keys", NEEDED, ids=[n[0][0] for n in NEEDED])
def test_reply_that_lacks_something(runs, args, reply, keys):
    replies = []
    runs.serve("x", lambda connection: connection.sendall(json.dumps(replies[-1]).encode() + b"\n"))
    for key in keys:
        for value in (KeyError, [{}] if not isinstance(reply[key], list) else {}, True, -1):
            replies.append({k: v for k, v in reply.items() if k != key})
            if value is not KeyError:
                replies[-1][key] = value
            failed(runs.ctl(*args), '"%s"' % key)


@pytest.mark.parametrize("key, value", [
    ("pid", None), ("pid", -1), ("pid", 1.5), ("pid", "1"), ("parent", None), ("state", 1),
    ("state", None), ("age", -0.001), ("age", 1e13), ("age", "1"), ("cpu", None),
    ("cpu", 1e300), ("escaped", 0), ("escaped", None), ("command", None), ("command", ["x"])])
def test_tree_with_a_process_that_lacks_something(runs, key, value):
    runs.answer("x", tree(process(814, 813, "a"), dict(process(815, 814, "b"), **{key: value})))
    failed(runs.ctl("tree", "x"), '"%s"' % key)


@pytest.mark.parametrize("processes", [[1], [None], [[]], ["x"], [{}]])
def test_tree_of_no_processes(runs, processes):
    runs.answer("x", dict(tree(), processes=processes))
    failed(runs.ctl("tree", "x"), '"pid"')


def test_survivors_of_no_good(runs):
    runs.answer("x", dict(END, survivors=[1]))
    failed(runs.ctl("stop", "x"), '"pid"')


def test_largest_numbers(runs):
    big = 2 ** 63 - 1
    runs.answer("x", tree(process(big, big, "c", age=1e12, cpu=1e12), count=big, age=1e12))
    runs.answer("y", dict(STATUS, pid=big, processes=big, age=1e12, timeout=1e12))
    assert str(big) in good(runs.ctl("tree", "x"))
    assert str(big) in good(runs.ctl("status", "y"))
    good(runs.ctl("status", "y", "--json"))


def test_command_of_anything(runs):
    runs.answer("x", dict(STATUS, command=[None, 1, {}, [], "z"]))
    assert good(runs.ctl("status", "x")).splitlines()[-1] == "command    ? ? ? ? z"


def endless(connection):
    while True:
        connection.sendall(b"x" * 65536)


def fill(size):
    """A good reply so long."""
    line = json.dumps(dict(STATUS, filler="")).encode()
    return line.replace(b'"filler": ""', b'"filler": "%s"' % (b"x" * (size - len(line)))) + b"\n"


@pytest.mark.parametrize("command", ["status", "tree", "wait"])
def test_endless_line(runs, command):
    runs.serve("x", endless)
    failed(runs.ctl(command, "x"), "longer than 1 MiB")


def test_longest_reply(runs):
    runs.answer("fits", fill(2 ** 20))
    runs.answer("more", fill(2 ** 20 + 1))
    good(runs.ctl("status", "fits"))
    failed(runs.ctl("status", "more"), "longer than 1 MiB")


def test_reply_in_pieces(runs):
    def behave(connection):
        for byte in json.dumps(STATUS).encode() + b"\n":
            connection.sendall(bytes([byte]))
            time.sleep(0.001)

    runs.serve("x", behave)
    good(runs.ctl("status", "x"))


def test_no_newline_and_hang_up(runs):
    runs.answer("x", b'{"ok":true')
    failed(runs.ctl("wait", "x"), "in the middle of its reply")


def test_hang_up_without_reading(runs):
    listener = runs.listen("x")
    process = runs.start("status", "x")
    listener.accept()[0].close()
    failed(tw.finish(process, LIMIT), "hung up without a reply")


def test_silence(runs):
    """10 s are enough for an answer, but not for an end."""
    def drip(connection):
        while not runs.stopping.wait(0.05):
            connection.sendall(b" ")

    def end_late(connection):
        runs.stopping.wait(11)
        connection.sendall(json.dumps(END).encode() + b"\n")

    runs.serve("drips", drip)
    runs.listen("deaf")
    runs.silent("silent")
    runs.serve("late", end_late)
    runs.serve("later", end_late)
    waiting = [runs.start("stop", "late"), runs.start("wait", "later")]
    began = time.monotonic()
    asking = [runs.start("status", "drips"), runs.start("tree", "deaf"),
              runs.start("signal", "silent", "TERM")]
    for process in asking:
        failed(tw.finish(process, LIMIT), "no answer within 10 s")
        assert 9.5 < time.monotonic() - began < 30
    for process in waiting:
        assert "ended (control)" in good(tw.finish(process, LIMIT))
    assert time.monotonic() - began > 10.9


@pytest.mark.heavy
def test_list_beside_an_endless_line(runs):
    runs.serve("a", endless)
    runs.answer("b", STATUS)
    result = runs.ctl("list")
    assert result.status == 0 and result.err.count(b"\n") == 1 and b"make -j8" in result.out


# ---- its own surroundings


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["list"], ["status", "x"],
                                  ["tree", "x"], ["--json", "status", "x"]])
def test_output_that_cannot_be_written(runs, args):
    runs.answer("x", tree(process(814, 813, "c")) if args[0] == "tree" else STATUS)
    with open("/dev/full", "wb") as full:
        result = runs.ctl(*args, stdout=full)
    assert result.status == 1
    assert result.err.startswith(b"treewrapctl: cannot write to standard output: ")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(runs, closed):
    runs.answer("x", STATUS)
    status = subprocess.run(["sh", "-c", '"$0" status x ' + closed, CTL], timeout=LIMIT,
                            env=runs.environment(), capture_output=True)
    assert status.returncode == (1 if ">&-" in closed.replace("2>&-", "") else 0)
    assert runs.asked["x"] == [b"status\n"]


# ---- the manual


def test_manual_is_well_formed():
    result = subprocess.run(["mandoc", "-T", "lint", "-W", "warning",
                             os.path.join(tw.ROOT, "treewrapctl.1")],
                            capture_output=True, timeout=30)
    assert result.stdout == b"" and result.returncode == 0


def test_manual_has_every_option_and_command(runs):
    manual = tw.read_path(os.path.join(tw.ROOT, "treewrapctl.1"))
    usage = good(runs.ctl("--help"))
    for option in set(re.findall(r"--[a-z]+", usage)) - {"--id"}:
        assert "Fl -" + option[2:] in manual
    for command in re.findall(r"^  ([a-z]+) ", usage, re.M):
        assert ".It Cm " + command in manual


def test_install(tmp_path):
    subprocess.run(["make", "-s", "-C", tw.ROOT, "install", "DESTDIR=%s" % tmp_path, "PREFIX=/usr"],
                   check=True, capture_output=True, timeout=60, env={"PATH": os.environ["PATH"]})
    assert (tmp_path / "usr/bin/treewrapctl").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "usr/share/man/man1/treewrapctl.1").exists()
