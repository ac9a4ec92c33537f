"""Containers of real engines, from an image that has busybox and the static treewrap alone. The
processes are looked for from outside, among all of the machine. Each leak is shown without
treewrap first: a test in which nothing leaks then would show nothing."""

import os
import select
import signal
import subprocess
import time

import engines
import pytest
import tw

TREE = "setsid sh -c 'sleep 300; : %s' & %s; : %s"


@pytest.fixture(scope="module", params=engines.ENGINES)
def engine(request):
    opened = engines.ENGINES[request.param]()
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def remove(engine):
    """The containers of a test end with it."""
    yield
    engine.remove_containers()


def tree(mark, then="sleep 300"):
    return ["sh", "-c", TREE % (mark, then, mark)]


def is_treewrap(pid):
    with open("/proc/%d/exe" % pid, "rb") as running, open(engines.STATIC, "rb") as ours:
        return running.read() == ours.read()


def zombies(pid):
    return [child for child in tw.children(pid) if tw.state(child) == "Z"]


def time_to_stop(engine, name):
    """From the order to the end of process 1. The container is asked to end in 5 seconds."""
    fd = os.pidfd_open(engine.first(name))
    began = time.monotonic()
    client = engine.start("stop", "-t", "5", name, stdout=subprocess.DEVNULL)
    select.select([fd], [], [], engines.LIMIT)
    took = time.monotonic() - began
    os.close(fd)
    assert client.wait(engines.LIMIT) == 0
    return took


def in_place(engine, name, mark):
    """Waits until the tree runs in the container: its first shell and the one that has left."""
    namespace = os.readlink("/proc/%d/ns/pid" % engine.first(name))

    def shells():
        return [pid for pid in tw.marked(mark) if tw.read_proc(pid, "comm") == b"sh\n" and
                read_link("/proc/%d/ns/pid" % pid) == namespace]
    tw.until(lambda: len(shells()) == 2, 20, "the tree")


def read_link(path):
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return None


# How treewrap comes to be process 1: as the image's entry point, or as the engine's own init.
@pytest.fixture(params=["entry point", "init"])
def first(request, engine):
    return ["first:1"] if request.param == "entry point" else [*engine.with_init(), "bare:1"]


def test_exit_status(engine, first):
    engine.run(*first, "sh", "-c", "exit 7", status=7)
    engine.run(*first, "sh", "-c", "kill -9 $$", status=137)
    engine.run(*first, "no-such-program", status=127)
    out = engine.run(*first, "sh", "-c", "echo $$ $PPID").split()
    assert out[0] != "1" and out[1] == "1"


def test_leftovers_of_the_command(engine, first, mark):
    assert engine.run(*first, *tree(mark, "exit 5"), status=5) == ""
    tw.assert_nothing_left(mark)


def test_zombies(engine, first):
    bare = engine.detach("bare:1", "sleep", "300")
    name = engine.detach(*first, "sleep", "300")
    assert is_treewrap(engine.first(name))
    for container in bare, name:
        for _ in range(3):
            engine.call("exec", container, "sh", "-c", "sleep 0.05 & exit")
    tw.until(lambda: len(zombies(engine.first(bare))) == 3, what="zombies without treewrap")
    pid = engine.first(name)
    tw.until(lambda: len(tw.children(pid)) == 1, what="the end of the orphans")
    assert not zombies(pid)


def test_stop_within_a_second(engine, first, mark):
    """A process 1 that has no handler does not get SIGTERM at all."""
    bare = engine.detach("bare:1", *tree(mark))
    assert time_to_stop(engine, bare) >= 5
    assert engine.inspect(bare)["State"]["ExitCode"] == 137
    times = []
    for _ in range(3):  # the client itself takes some tenths of a second, and more beside others
        name = engine.detach(*first, *tree(mark))
        in_place(engine, name, mark)
        times.append(time_to_stop(engine, name))
        tw.assert_nothing_left(mark)
        assert engine.inspect(name)["State"]["ExitCode"] == 128 + signal.SIGTERM
        if times[-1] < 1:
            return
    pytest.fail("took %s seconds to stop" % times)


def test_stop_gives_the_commands_own_status(engine, first):
    name = engine.detach(*first, "sh", "-c", "trap 'exit 9' TERM; touch /tmp/ready; "
                         "while :; do sleep 0.05; done")
    tw.until(lambda: engine.call("exec", name, "cat", "/tmp/ready", status=None).returncode == 0)
    engine.call("stop", "-t", "5", name)
    assert engine.inspect(name)["State"]["ExitCode"] == 9


def killed_client(engine, signo, mark, *words):
    """A client of exec that is killed when its command is in place."""
    client = engine.start("exec", "-i", *words, stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    in_place(engine, words[0], mark)
    client.send_signal(signo)
    client.wait(engines.LIMIT)
    client.stdin.close()


@pytest.mark.parametrize("image", ["first:1", "bare:1"])
@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_exec_client_is_killed(engine, signo, image, mark):
    name = engine.detach(image, "sleep", "300")
    killed_client(engine, signo, mark, name, "treewrap", "--watch-stdin", "-k", "1", "--",
                  *tree(mark))
    tw.until(lambda: not tw.marked(mark), what="the end of the tree")

    killed_client(engine, signo, mark, name, *tree(mark))
    # As long as it took with treewrap, and more.
    time.sleep(1)
    left = tw.marked(mark)
    assert left, "nothing is left without treewrap"
    tw.end(left)


def test_exec_status(engine, mark):
    name = engine.detach("bare:1", "sleep", "300")
    engine.call("exec", name, "treewrap", "--", *tree(mark, "exit 7"), status=7)
    tw.assert_nothing_left(mark)
    engine.call("exec", name, "treewrap", "-t", "0.5", "-k", "0.5", "--", *tree(mark), status=124)
    tw.assert_nothing_left(mark)


def probes(engine, name):
    return engine.inspect(name)["State"]["Health"]["Log"] or []


def probed(engine, limit, command, image):
    return engine.detach("--health-cmd", command, "--health-interval", "1s", "--health-timeout",
                         limit, "--health-retries", "100", image, "sleep", "300")


@pytest.mark.parametrize("engine", ["docker"], indirect=True)
def test_timed_out_probes(engine, mark):
    """Docker kills the probe's first process, of treewrap's two the one: the other sees that.
    podman has no daemon that would run probes."""
    bare_mark = mark + "-bare"
    probe = "setsid sh -c 'sleep 300; : %s' & sleep 300; : %s"
    bare = probed(engine, "1s", probe % (bare_mark, bare_mark), "bare:1")
    killed = probed(engine, "1s", "exec treewrap -- sh -c \"%s\"" % (probe % (mark, mark)), "bare:1")
    limited = probed(engine, "5s", "treewrap -t 0.5 -k 0 -- sh -c \"%s\"" % (probe % (mark, mark)),
                     "first:1")
    for container in bare, killed, limited:
        tw.until(lambda: len(probes(engine, container)) >= 3, 60, "three probes")
    assert len(tw.marked(bare_mark)) >= 3
    assert {probe["ExitCode"] for probe in probes(engine, killed)} == {-1}
    assert {probe["ExitCode"] for probe in probes(engine, limited)} == {124}
    # Between two probes nothing is there; the mark is in the other's too.
    tw.until(lambda: not set(tw.marked(mark)) - set(tw.marked(bare_mark)), 30, "a moment of none")
    engine.remove_containers()
    tw.assert_nothing_left(mark)


@pytest.mark.parametrize("engine", ["docker"], indirect=True)
def test_info_tells_of_the_init(engine):
    """Docker's engine asks its init for its version, as it does tini; podman does not ask."""
    info = engine.call("info")
    assert "/docker-init" in info.stdout, info.stdout + info.stderr
    assert "init version: tw" in info.stdout, info.stdout + info.stderr
