"""--status-fd: events as they happen, one line of valid JSON each; and -v."""

import fcntl
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import jsonschema
import pytest
import tw

SCHEMA = json.loads(pathlib.Path(tw.ROOT, "docs", "status.schema.json").read_text())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def parse(data):
    events = [json.loads(line) for line in data.decode("utf-8").splitlines()]
    for event in events:
        VALIDATOR.validate(event)
    assert [event["event"] for event in events].count("end") == 1
    assert events[-1]["event"] == "end"
    return events


def record(*args, signal_with=None, **keywords):
    """Runs treewrap; its result and its events."""
    read, write = os.pipe()
    process = tw.start("--status-fd", write, *args, pass_fds=[write], **keywords)
    os.close(write)
    if signal_with:
        tw.ready(process)
        signal_with(process)
    result = tw.finish(process)
    with open(read, "rb") as file:
        return result, parse(file.read())


def test_start_and_end():
    result, events = record("sh", "-c", "exit 3")
    start, end = events
    assert start["command"] == ["sh", "-c", "exit 3"] and start["contain"] == "tree"
    assert start["pid"] != start["shim"]
    assert (end["cause"], end["exit_code"], end["signal"], end["status"]) == ("exit", 3, None, 3)
    assert (end["leftovers"], end["killed"], end["reaped"], end["survivors"]) == (0, 0, 1, [])


def test_timeout_and_an_exit_of_124_can_be_told_apart():
    _, events = record("sh", "-c", "exit 124")
    assert (events[-1]["cause"], events[-1]["exit_code"], events[-1]["status"]) == ("exit", 124, 124)
    _, events = record("-t", "0.1", "sleep", "60")
    assert (events[-1]["cause"], events[-1]["exit_code"], events[-1]["status"]) == (
        "timeout", None, 124)
    assert events[-1]["signal"] == "SIGTERM"


def test_polite_end_and_escalation_can_be_told_apart(mark):
    _, events = record("-t", "0.2", "sh", "-c", "setsid sleep 60 & sleep 60")
    assert [event["event"] for event in events] == ["start", "stop", "end"]
    assert events[1]["cause"] == "timeout" and 0.2 <= events[1]["at"] < 4
    assert events[1]["processes"] == 3 and events[-1]["killed"] == 0
    _, events = record("-t", "0.4", "-k", "0.2", "--signal", "INT", "--signal", "TERM",
                       tw.adversary("escape"), mark, "ignore", "ignore")
    assert [event["event"] for event in events] == ["start", "stop", "escalate", "escalate", "end"]
    assert [event["signal"] for event in events[2:4]] == ["SIGTERM", "SIGKILL"]
    assert 0.6 <= events[2]["at"] < events[3]["at"] < 5
    assert events[3]["processes"] == 2 and events[-1]["killed"] == 2


def test_signal(mark):
    def send(process):
        process.send_signal(signal.SIGUSR1)
        os.kill(process.pid, 40)
        tw.ready(process, b"40")
        process.terminate()

    result, events = record("--forward-to", "tree", "sh", "-c",
                            "trap '' USR1; trap 'echo 40' 40; echo ready; while :; do sleep 0.01; done", mark,
                            signal_with=send)
    assert {"event": "signal", "signal": "SIGUSR1", "sender": os.getpid(), "to": "tree"} in events
    assert {"event": "signal", "signal": "SIGRTMIN+6", "sender": os.getpid(), "to": "tree"} in events
    assert events[-1]["signal"] == "SIGTERM" and events[-1]["cause"] == "exit"


def test_start_comes_after_the_exec(mark):
    """At the moment of the event the process is the command's, not treewrap's any more."""
    for _ in range(100):
        read, write = os.pipe()
        process = tw.start("--status-fd", write, "sleep", "60", pass_fds=[write])
        os.close(write)
        start = json.loads(os.read(read, 4096).splitlines()[0])
        assert tw.read_proc(start["pid"], "comm") == b"sleep\n"
        assert start["shim"] == process.pid
        process.terminate()
        tw.finish(process)
        os.close(read)


def test_exec_failure():
    _, events = record("surely-not-there")
    assert len(events) == 1
    assert (events[0]["cause"], events[0]["error"], events[0]["status"]) == (
        "exec-failed", "No such file or directory", 127)
    assert events[0]["exit_code"] is None
    _, events = record("/etc/passwd")
    assert (events[0]["error"], events[0]["status"]) == ("Permission denied", 126)


@pytest.mark.parametrize("word", [
    b'quo"te', b"back\\slash", b"new\nline\ttab\r\b\f", b"\x01\x1f\x7f", b"caf\xc3\xa9 \xf0\x9f\x8c\xb3",
    b"\xff\xfe", b"\xc3", b"\xc3(", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf", b"\xe2\x82",
    b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"</script>", b"%s%n", b""])
def test_any_name(tmp_path, word):
    path = bytes(tmp_path) + b"/" + (word.replace(b"/", b"") or b"empty")
    os.symlink(b"/bin/true", path)
    read, write = os.pipe()
    process = subprocess.Popen([tw.TREEWRAP.encode(), b"--status-fd", b"%d" % write, path, word],
                               pass_fds=[write])
    os.close(write)
    assert process.wait(30) == 0
    with open(read, "rb") as file:
        events = parse(file.read())
    try:
        expected = word.decode("utf-8")
        assert events[0]["command"][1] == expected
    except UnicodeDecodeError:
        assert "\ufffd" in events[0]["command"][1]


def test_names_of_leftovers_are_any_bytes(mark):
    _, events = record("--linger", "0", tw.adversary("escape"), mark, "name", "=", "exit", "0")
    assert events[-1]["leftovers"] == 2
    assert "a) S 1 1 (b c) " in events[-1]["leftover_names"]


def test_long_command_lines():
    _, events = record("true", *["x" * 100] * 200)
    assert events[0]["truncated"] is True and 10 < len(events[0]["command"]) < 200
    _, events = record("true", "y" * 100000)
    assert events[0] == {**events[0], "command": ["true"], "truncated": True}
    # The name itself: too long to be told, but the record must be valid.
    _, events = record("/" + "z/" * 3000)
    assert events[-1]["cause"] == "exec-failed"


@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize("policy", ["stop", "wait", "leave", "fail"])
def test_leftovers(mark, count, policy):
    lifetime = "5" if policy == "wait" else "60"
    script = "i=0; while [ $i -lt %d ]; do setsid sleep %s & i=$((i+1)); done; " \
             "while [ $(cat /proc/[0-9]*/stat 2>/dev/null | grep -c \"^[0-9]* (sleep) . $$ \") " \
             "-lt %d ]; do :; done; exit 0" % (count, lifetime, count)
    result, events = record("--linger" if policy in ("stop", "fail") else "-k", "0.1",
                            "--leftovers", policy, "sh", "-c", "exec 2>/dev/null >&2; " + script,
                            mark)
    end = events[-1]
    assert end["leftovers"] == count
    assert end["leftover_names"] == ["sleep"] * count
    assert (end["cause"], end["exit_code"]) == ("exit", 0)
    assert result.status == end["status"] == (123 if policy == "fail" and count else 0)
    stops = [event for event in events if event["event"] == "stop"]
    assert len(stops) == (1 if policy in ("stop", "fail") and count else 0)
    if stops:
        assert (stops[0]["cause"], stops[0]["processes"]) == ("exit", count)
    if policy == "leave":
        for pid in tw.children(os.getpid()):
            tw.kill(pid)


def test_reaper_killed(mark):
    def send(process):
        tw.kill(tw.reaper_of(process))

    result, events = record(tw.adversary("escape"), mark, "setsid", "ignore", signal_with=send)
    end = events[-1]
    assert (end["cause"], end["status"], result.status) == ("reaper-killed", 125, 125)
    assert end["killed"] >= 2


def test_shim_killed(mark):
    read, write = os.pipe()
    process = tw.start("--status-fd", write, tw.adversary("escape"), mark, "setsid", "ignore",
                       pass_fds=[write])
    os.close(write)
    tw.ready(process)
    process.kill()
    # The end of the file is the end of both of treewrap's processes.
    with open(read, "rb") as file:
        events = parse(file.read())
    tw.assert_nothing_left(mark)
    assert events[-1]["cause"] == "shim-killed" and events[-1]["killed"] == 3
    tw.finish(process)
    tw.reap_adopted()


# ---- readers that do not read ----

def test_closed_reader(mark):
    read, write = os.pipe()
    os.close(read)
    process = tw.start("--status-fd", write, "-t", "0.3", "sh", "-c", "sleep 60", mark,
                       pass_fds=[write])
    os.close(write)
    assert tw.finish(process).status == 124
    tw.assert_nothing_left(mark)


def fill(fd):
    os.set_blocking(fd, False)
    try:
        while True:
            os.write(fd, b"x" * 4096)
    except BlockingIOError:
        pass
    try:
        while True:
            os.write(fd, b"x")
    except BlockingIOError:
        pass
    os.set_blocking(fd, True)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
@pytest.mark.parametrize("which", ["status", "errors", "both"])
def test_full_and_never_read(mark, kind, which):
    if kind == "pipe":
        read, write = os.pipe()
    else:
        ours, theirs = socket.socketpair()
        read, write = os.dup(ours.fileno()), os.dup(theirs.fileno())
        ours.close(), theirs.close()
    fill(write)
    options = ["--status-fd", str(write)] if which != "errors" else []
    process = tw.start(*options, "-v", "-t", "0.3", "-k", "0.2", tw.adversary("escape"), mark,
                       "ignore", pass_fds=[write],
                       **({"stderr": write} if which != "status" else {}))
    began = time.monotonic()
    assert process.wait(20) == 124
    assert time.monotonic() - began < 8
    tw.assert_nothing_left(mark)
    # The flags of the open file that we share are as they were.
    assert os.get_blocking(write)
    os.close(read), os.close(write)
    process.stdout.close()


def test_slow_reader_gets_all(mark):
    """What found no room at first comes when there is some."""
    read, write = os.pipe()
    fill(write)
    process = tw.start("--status-fd", write, "sh", "-c", "echo ready; read x; exit 4", mark,
                       pass_fds=[write], stdin=subprocess.PIPE)
    tw.ready(process)
    time.sleep(0.1)
    filling = os.read(read, 1 << 20)
    assert set(filling) == {ord("x")}
    line = os.read(read, 4096)
    assert json.loads(line)["event"] == "start"
    process.communicate(b"\n")
    os.close(write)
    with open(read, "rb") as file:
        assert parse(file.read())[-1]["exit_code"] == 4


def test_status_to_a_file(tmp_path):
    path = tmp_path / "events"
    for options in ("w", "a"):
        with open(path, options) as file:
            assert tw.run("--status-fd", file.fileno(), "true", pass_fds=[file.fileno()]).status == 0
    lines = path.read_text().splitlines()
    assert len(lines) == 4 and [json.loads(line)["event"] for line in lines] == [
        "start", "end", "start", "end"]


def test_status_to_a_file_that_may_not_grow(tmp_path):
    import resource
    with open(tmp_path / "events", "w") as file:
        process = tw.start("--status-fd", file.fileno(), "-t", "0.2", "sleep", "60",
                           pass_fds=[file.fileno()],
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
        assert tw.finish(process).status == 124


def test_status_on_a_socket():
    ours, theirs = socket.socketpair()
    process = tw.start("--status-fd", theirs.fileno(), "true", pass_fds=[theirs.fileno()])
    theirs.close()
    assert tw.finish(process).status == 0
    assert [event["event"] for event in parse(ours.makefile("rb").read())] == ["start", "end"]


# ---- what the command writes ----

def test_tee_loses_nothing(tmp_path):
    log = tmp_path / "log"
    result = tw.run("bash", "-c", "exec > >(tee %s); seq 20000" % log)
    assert result.status == 0
    assert log.read_text().split() == [str(n) for n in range(1, 20001)]
    assert result.out == log.read_bytes()


def test_lines_before_a_timeout_all_arrive(tmp_path):
    log = tmp_path / "log"
    result = tw.run("-t", "1", "bash", "-c", "exec > >(tee %s); seq 10000; sleep 60" % log)
    assert result.status == 124
    assert log.read_text().split() == [str(n) for n in range(1, 10001)]


BURN = "import os,time\n" \
       "if os.fork() == 0:\n" \
       "    os.setsid()\n" \
       "    if os.fork() == 0:\n" \
       "        while time.process_time() < 0.7: pass\n" \
       "        os._exit(0)\n" \
       "    os._exit(0)\n" \
       "os.wait()\n"


def test_cpu_seconds_are_the_whole_trees():
    """The burner is nobody's child when it ends."""
    _, events = record("--linger", "30", "/usr/bin/python3", "-c", BURN)
    assert 0.65 <= events[-1]["user"] + events[-1]["system"] < 3
    assert events[-1]["leftovers"] == 1


# ---- survivors ----

def test_survivor_is_named(mark):
    """SIGKILL does not end a process that a v1 freezer holds."""
    read, write = os.pipe()
    with tw.v1_freezer(mark) as freeze:
        process = tw.start("-k", "0.1", "--verify-for", "1", "--stop-on", "USR1", "--status-fd",
                           write, tw.adversary("escape"), mark, "setsid", pass_fds=[write])
        os.close(write)
        tw.ready(process)
        command = tw.children(tw.reaper_of(process))[0]
        victim = tw.children(command)[0]
        freeze(victim)
        process.send_signal(signal.SIGUSR1)
        # It holds the pipes: they do not end yet.
        assert process.wait(10) == 125
        assert tw.marked(mark) == [victim]
    with open(read, "rb") as file:
        end = parse(file.read())[-1]
    assert end["status"] == 125 and 1.1 <= end["at"] < 8
    assert end["survivors"] == [{"pid": victim, "command": "escape", "state": "D",
                                 "reason": "frozen by its cgroup"}]
    assert process.stderr.read().decode().splitlines() == [
        "treewrap: process %d (escape) survived SIGKILL: frozen by its cgroup" % victim,
        "treewrap: 1 process left after SIGKILL and 1000 ms"]
    process.stdout.close(), process.stderr.close()


# A tree that says "ready" when all of it is there: each argument after the mark is how many
# children each of one more generation has. With "threads" first, all have a second thread.
BROOD = """
import os, signal, sys, threading
generations = [int(argument) for argument in sys.argv[3:]]
read, write = os.pipe()
total, width = 0, 1
for count in generations:
    width *= count
    total += width
generation, child = 0, 0
while generation < len(generations) and child < generations[generation]:
    child += 1
    if os.fork() == 0:
        generation, child = generation + 1, 0
if sys.argv[2] == "threads":
    threading.Thread(target=signal.pause, daemon=True).start()
if generation > 0:
    os.write(write, b".")
else:
    for _ in range(total):
        os.read(read, 1)
    print("ready", flush=True)
while True:
    signal.pause()
"""


GENERATIONS = pytest.mark.parametrize("generations", [
    "1 1 1 1 1", "4 4", "5 5 2", "1 30 1 1", "90", "1 1 1 1 1 1 1 1 1 1 1 1 1 1"])


@pytest.mark.parametrize("kind", ["alone", "threads"])
@GENERATIONS
def test_all_that_are_killed_are_counted(mark, generations, kind):
    total, width = 1, 1
    for count in generations.split():
        width *= int(count)
        total += width
    result, events = record("-k", "0", "--stop-on", "TERM", "/usr/bin/python3", "-c", BROOD, mark,
                            kind, *generations.split(),
                            signal_with=lambda process: process.terminate())
    assert result.status == 129
    tw.assert_nothing_left(mark)
    assert [event["event"] for event in events] == ["start", "stop", "escalate", "end"]
    assert events[1]["processes"] == events[2]["processes"] == events[3]["killed"] == total
    assert events[3]["reaped"] >= total


@pytest.mark.parametrize("kind", ["alone", "threads"])
@GENERATIONS
def test_parents_are_killed_first(mark, generations, kind):
    """Where nobody is to be told how many there are."""
    process = tw.start("-k", "0", "--stop-on", "TERM", "/usr/bin/python3", "-c", BROOD, mark, kind,
                       *generations.split())
    tw.ready(process)
    process.terminate()
    result = tw.finish(process)
    tw.assert_nothing_left(mark)
    assert (result.status, result.err) == (129, b"")


@pytest.mark.parametrize("verify_for", ["0.02", "0.9"])
@pytest.mark.parametrize("told", [False, True])
def test_children_of_one_that_cannot_die_are_ended(mark, told, verify_for):
    """They do not become ours, as those of a dead one would."""
    with open(os.devnull, "w") as nowhere, tw.v1_freezer(mark) as freeze:
        process = tw.start("-k", "0", "--verify-for", verify_for, "--stop-on", "TERM",
                           *(["--status-fd", nowhere.fileno()] if told else []),
                           "/usr/bin/python3", "-c", BROOD, mark, "alone", "1", "20",
                           pass_fds=[nowhere.fileno()])
        tw.ready(process)
        victim = tw.children(tw.children(tw.reaper_of(process))[0])[0]
        freeze(victim)
        process.terminate()
        assert process.wait(10) == 125
        # The last of the others may be dying.
        tw.until(lambda: tw.marked(mark) == [victim], 1)
    process.stdout.close(), process.stderr.close()


def test_survivor_we_may_not_signal(mark, everybodys):
    """A set-user-ID descendant of an ordinary user's run."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a set-user-ID program")
    # Where the user nobody gets to, and set-user-ID works.
    program, helper = everybodys(tw.TREEWRAP, tw.adversary("rootly"))
    os.chmod(helper, 0o4755)
    process = subprocess.Popen([program, "-t", "2", "-k", "0.1", "--verify-for", "0.7", helper,
                                mark], stdout=subprocess.PIPE, stderr=subprocess.PIPE, user=65534,
                               group=65534, extra_groups=[], cwd="/", start_new_session=True)
    tw.ready(process)
    assert process.wait(10) == 125
    err = process.stderr.read().decode() if not tw.marked(mark) else None
    for pid in tw.marked(mark):
        tw.kill(pid)
    err = err or process.stderr.read().decode()
    assert err.count("survived SIGKILL: permission denied") == 2
    assert "2 processes left" in err
    process.stdout.close(), process.stderr.close()
    tw.reap_adopted()


def test_verbose(mark):
    result = tw.run("-v", "-t", "0.4", "-k", "0.1", tw.adversary("escape"), mark, "ignore")
    lines = result.err.decode().splitlines()
    assert lines == ["treewrap: stopping 2 processes: timeout", "treewrap: SIGKILL to 1 process"]
    result = tw.run("-v", "--linger", "0", "sh", "-c", "sleep 60 & sleep 0.2; exit 0")
    assert re.fullmatch(r"treewrap: the command has ended and left 1 process \(sleep\)\n",
                        result.err.decode())
    assert tw.run("-v", "true").err == b""


def test_names_in_messages_stay_on_their_line(tmp_path):
    program = tmp_path / "a\n\x1b[31mb"
    os.symlink("/bin/sleep", program)
    result = tw.run("-v", "--linger", "0", "sh", "-c", '"$0" 60 & sleep 0.2; exit 0', program)
    assert result.err == b"treewrap: the command has ended and left 1 process (a??[31mb)\n"


def test_lines_are_never_cut(mark):
    """A small pipe and a slow reader: whole lines or none, and the last is the end."""
    read, write = os.pipe()
    fcntl.fcntl(write, 1031, 4096)  # F_SETPIPE_SZ
    process = tw.start("--status-fd", write, "--forward-to", "main", tw.adversary("signals"), mark,
                       pass_fds=[write])
    os.close(write)
    command = int(tw.ready(process).split()[1])
    for _ in range(300):
        os.kill(process.pid, 40)
        tw.ready(process, b"40 ")
    os.kill(command, signal.SIGKILL)
    with open(read, "rb") as file:
        events = parse(file.read())
    assert tw.finish(process).status == 137
    assert events[-1]["signal"] == "SIGKILL"
    assert events[-1].get("lost_events", 0) + len(events) == 302


def test_long_name_is_left_out_not_the_event(tmp_path):
    path = tmp_path
    for _ in range(3):
        path = path / ("\x01" * 240)
    path.mkdir(parents=True)
    (path / "p").symlink_to("/bin/true")
    _, events = record(path / "p")
    assert [event["event"] for event in events] == ["start", "end"]


def test_early_end_with_nobody_there(mark):
    """Neither a closed reader nor a closed standard error kills treewrap before it has begun."""
    read, write = os.pipe()
    os.close(read)
    process = tw.start("--watch-pid", "4000000", "--status-fd", write, "true", pass_fds=[write],
                       stderr=write)
    os.close(write)
    assert process.wait(10) == 129
    process.stdout.close()


def test_status_on_a_terminal_master():
    """It can be full, does not say so before, and cannot be opened anew: said, not waited for."""
    import pty
    master, slave = pty.openpty()
    result = tw.run("--status-fd", master, "true", pass_fds=[master])
    assert result.status == 0
    assert result.err == (b"treewrap: --status-fd: this terminal cannot be written to without "
                          b"waiting\n")
    os.close(master), os.close(slave)


def test_status_on_a_terminal_that_is_not_read(mark):
    import pty
    import tty
    master, slave = pty.openpty()
    tty.setraw(slave)
    for user in ({}, {"user": 65534, "group": 65534, "extra_groups": []}):
        if user and os.geteuid() != 0:
            continue
        process = tw.start("-t", "1", "-k", "0", "--status-fd", slave, "sh", "-c",
                           "trap '' USR1; echo ready; sleep 60; :", mark, pass_fds=[slave],
                           cwd="/", **user)
        tw.ready(process)
        for _ in range(400):
            os.kill(process.pid, signal.SIGUSR1)
            time.sleep(0.001)
        assert tw.finish(process, 10).status == 124
    os.close(master), os.close(slave)
