"""docs/recipes.md, block by block, as it stands there: only times are made shorter, and what is
to be run is a stand-in that leaves a process in a session of its own."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import booted
import engines
import pytest
import tw
import yaml
from test_ctl import CTL

TEXT = pathlib.Path(tw.ROOT, "docs/recipes.md").read_text()
HEADINGS = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
MARKED = '[ "$MARKED" ] || MARKED=1 exec sh "$0" "$@" %s\n'  # in the command line
LEFT = "setsid sh -c '>ready; sleep 300; : %s' <&- >&- 2>&- & until [ -e ready ]; do sleep 0.01; done\n"


def block(heading):
    """The code below the heading that begins so."""
    section, = (part for part in TEXT.split("\n## ")[1:] if part.startswith(heading))
    code, = re.findall(r"^```[a-z]+\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return code


def shorter(text):
    """Every time limit and every patience of treewrap's."""
    text = re.sub(r"(-t\W{1,4})\d+m?\b", r"\g<1>0.7", text)
    return re.sub(r"(-k\W{1,4})\d+\b", r"\g<1>0.5", text)


@pytest.fixture
def here(tmp_path, mark, monkeypatch):
    """A directory, made the current one, with programs and runs of its own."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "runs").mkdir(mode=0o700)
    (tmp_path / "programs/treewrap").symlink_to(tw.TREEWRAP)
    (tmp_path / "programs/treewrapctl").symlink_to(CTL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path / "programs", os.environ["PATH"]))
    monkeypatch.setenv("TREEWRAP_RUNTIME_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    return tmp_path


@pytest.fixture
def program(here, mark):
    """Makes a stand-in that leaves a process behind, and then does what is said."""
    def make(name, then="exit 0", before=""):
        path = here / name
        path.write_text("#!/bin/sh\n%s%s%s%s\n" % (MARKED % mark, before, LEFT % mark, then))
        path.chmod(0o755)
        return path
    return make


def call(*command, **keywords):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=tw.LIMIT, **keywords)


def assert_left(mark):
    """What the recipe is for: without treewrap something stays. Ends it."""
    # One that executes has no command line for a moment.
    tw.end(tw.until(lambda: tw.marked(mark), what="what a stand-in leaves"))
    pathlib.Path("ready").unlink()


def without_treewrap(command):
    """The line without "treewrap ... --"."""
    return re.sub(r"treewrap .*? -- ", "", command)


def test_all_recipes_are_tested():
    tests = pathlib.Path(__file__).read_text()
    assert len(HEADINGS) == 10
    for heading in HEADINGS:
        begins = re.findall(r'block\("(.*?)"\)', tests)
        assert any(heading.startswith(word) for word in begins if word), heading


def test_makefile_target(here, program, mark):
    (here / "Makefile").write_text(shorter(block("A Makefile target")))
    program("run-tests")
    made = call("make", "test")
    tw.assert_nothing_left(mark)
    assert made.returncode == 2 and "Error 123" in made.stderr, made
    program("run-tests", "sleep 300")
    made = call("make", "test")
    tw.assert_nothing_left(mark)
    assert "Error 124" in made.stderr, made
    (here / "run-tests").write_text("#!/bin/sh\nexit 0\n")
    assert call("make", "test").returncode == 0
    (here / "parts").mkdir()
    (here / "parts/Makefile").write_text(
        "all: one two\none:\n\tuntil [ -e seen ]; do sleep 0.01; done\ntwo:\n\ttouch seen\n")
    (here / "Makefile").write_text(block("A Makefile target"))
    made = call("make", "-j2", "parts")  # ends if both run at the same time
    assert made.returncode == 0 and "jobserver" not in made.stderr, made
    (here / "Makefile").write_text(without_treewrap(block("A Makefile target")))
    program("run-tests")
    assert call("make", "test").returncode == 0
    assert_left(mark)


def test_step(here, program, mark):
    step, = yaml.safe_load(block("A step in CI"))
    limit, = re.findall(r"-t (\d+)m", step["run"])
    assert int(limit) < step["timeout-minutes"]
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]  # as the runner starts it
    (here / "step.sh").write_text(shorter(step["run"]))
    program("run-tests", "exit 3")
    assert call(*shell, "step.sh").returncode == 3
    tw.assert_nothing_left(mark)
    program("run-tests", "sleep 300")
    done = call(*shell, "step.sh")
    assert done.returncode == 124 and "treewrap: " in done.stderr
    tw.assert_nothing_left(mark)
    for run in step["run"], without_treewrap(step["run"]):
        (here / "step.sh").write_text(run + "\n:")  # bash becomes the last command otherwise
        cancelled(shell + ["step.sh"])
        if run == step["run"]:
            tw.assert_nothing_left(mark)
            (here / "ready").unlink()
    assert_left(mark)


def cancelled(command):
    """Kills it when what it is to run is in place, and waits for what it had started itself."""
    if os.path.exists("ready"):
        os.unlink("ready")
    shell = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tw.until(lambda: os.path.exists("ready"))
    started = tw.children(shell.pid)
    shell.kill()
    shell.wait()
    for pid in started:
        if b"treewrap" in tw.read_proc(pid, "cmdline"):
            tw.wait_gone(pid)


def test_cron_line(here, program, mark):
    line = block("A cron job").split(None, 5)[5]
    program("programs/fetch-mail", "sleep 300", "cd %s\n" % here)
    first = subprocess.Popen(["sh", "-c", line], stdin=subprocess.DEVNULL)
    tw.until(lambda: os.path.exists("ready"))
    again = call("sh", "-c", line)
    assert again.returncode == 125 and "mail" in again.stderr
    assert first.poll() is None
    assert call("treewrapctl", "stop", "mail").returncode == 0
    tw.assert_nothing_left(mark)
    assert tw.wait_at_once(first) == 129


def test_cron(here, program, mark):
    """A cron daemon runs it, the next time that a minute begins."""
    (here / "tabs").mkdir()
    (here / "tabs/root").write_text("* " + block("A cron job").split(None, 1)[1])
    program("programs/fetch-mail", "echo done >done; mv done here", "cd %s\n" % here)
    cron = subprocess.Popen(["busybox", "crond", "-f", "-c", here / "tabs", "-L", here / "log"],
                            stdin=subprocess.DEVNULL)
    try:
        tw.until(lambda: os.path.exists("here"), 150, "the job")
        # The job's treewrap is cron's child.
        tw.until(lambda: not tw.children(cron.pid), what="the end of the job")
        tw.assert_nothing_left(mark)
    finally:
        cron.kill()
        cron.wait()


SERVER = """#!/usr/bin/env node
require("child_process").spawn("sh", ["-c", "sleep 300; : %s"], {detached: true, stdio: "ignore"});
process.stdin.on("data", line => console.log(JSON.stringify(
	{jsonrpc: "2.0", id: JSON.parse(line).id, result: {protocolVersion: "2025-06-18"}})));
setInterval(() => {}, 1000); // does not mind the end of its input
"""
CLIENT = """
import json, subprocess, sys
server = subprocess.Popen(json.loads(sys.argv[1]), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}\\n')
server.stdin.flush()
answer = json.loads(server.stdout.readline())
print(server.pid, answer["result"]["protocolVersion"], flush=True)
if sys.stdin.readline():
    server.stdin.close()
    sys.exit(server.wait())
"""


def client(command):
    """A client that has had an answer, and the id of what it has started."""
    started = subprocess.Popen([sys.executable, "-c", CLIENT, json.dumps(command)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pid, version = started.stdout.readline().split()
    assert version == b"2025-06-18"
    return started, int(pid)


def test_mcp_server(here, mark, monkeypatch):
    server, = json.loads(block("An MCP server"))["mcpServers"].values()
    package = here / "node_modules/files-server"
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps(
        {"name": "files-server", "version": "1.0.0", "bin": "server.js"}))
    (package / "server.js").write_text(SERVER % mark)
    (package / "server.js").chmod(0o755)
    (here / "node_modules/.bin").mkdir()
    (here / "node_modules/.bin/files-server").symlink_to("../files-server/server.js")
    (here / "package.json").write_text('{"dependencies": {"files-server": "1.0.0"}}')
    monkeypatch.setenv("npm_config_offline", "true")
    monkeypatch.setenv("npm_config_update_notifier", "false")

    command = [server["command"], *server["args"]]
    closing, _ = client(command)
    closing.communicate(b"close\n", timeout=tw.LIMIT)
    tw.assert_nothing_left(mark)
    assert closing.returncode == 129
    killed, pid = client(command)
    assert tw.marked(mark)
    killed.kill()
    killed.communicate()
    tw.wait_gone(pid)
    tw.assert_nothing_left(mark)

    killed, pid = client(command[command.index("--") + 1:])
    killed.kill()
    killed.communicate()
    tw.kill(pid)
    tw.wait_gone(pid)
    left = tw.marked(mark)
    assert left
    tw.end(left)
    tw.end([pid for pid in tw.pids() if b"files-server" in tw.read_proc(pid, "cmdline")])


def test_tool_call(here, program, mark):
    program("tool", "echo said")
    scope = {}
    exec(block("A tool call of an agent"), scope)
    out, outcome = scope["run_tool"]("./tool; exit 3", 30)
    tw.assert_nothing_left(mark)
    assert out == b"said\n" and outcome["cause"] == "exit" and outcome["status"] == 3
    out, outcome = scope["run_tool"]("./tool; trap '' TERM; sleep 300", 0.7)
    tw.assert_nothing_left(mark)
    assert outcome["cause"] == "timeout" and outcome["killed"] >= 1
    out, outcome = scope["run_tool"]("kill -9 %d || echo refused" % os.getpid(), 30)
    assert b"refused" in out
    (here / "agent.py").write_text(block("A tool call of an agent") +
                                   "\nrun_tool('./tool; sleep 300', 300)\n")
    cancelled([sys.executable, "agent.py"])
    tw.assert_nothing_left(mark)


def test_test_runner(here, program, mark):
    (here / "tests").mkdir()
    program("tests/leaves")
    for name, text in (("good", "exit 0"), ("hangs", "trap '' TERM; sleep 300"),
                       ("wrong", "exit 1")):
        (here / "tests" / name).write_text("#!/bin/sh\n%s\n" % text)
        (here / "tests" / name).chmod(0o755)
    (here / "runner").write_text(shorter(block("A test runner")))
    done = call("sh", "runner")
    tw.assert_nothing_left(mark)
    assert done.returncode == 1 and done.stdout.splitlines() == [
        "ok ./tests/good", "FAIL ./tests/hangs: took too long",
        "FAIL ./tests/leaves: has left processes", "FAIL ./tests/wrong"]
    (here / "runner").write_text(re.sub("treewrap .* -- ", "", block("A test runner")))
    for name in "hangs", "wrong":
        (here / "tests" / name).unlink()
    (here / "ready").unlink()
    assert call("sh", "runner").returncode == 0
    assert_left(mark)


def test_kubernetes_probe(here, program, mark):
    """The command alone: a kubelet takes a cluster. test_containers.py has a real engine's
    probes."""
    probe = yaml.safe_load(block("A probe of Kubernetes"))["livenessProbe"]
    command = probe["exec"]["command"]
    assert float(command[command.index("-t") + 1]) < probe["timeoutSeconds"]
    program("programs/check-health", "sleep 300")
    command[command.index("-t") + 1] = "0.7"
    assert call(*command).returncode == 124
    tw.assert_nothing_left(mark)
    program("programs/check-health", '[ "$1" = --deep ] && exit 1')
    assert call(*command).returncode == 1
    tw.assert_nothing_left(mark)
    # A runtime that kills the probe's first process, at the end of its time.
    pathlib.Path("ready").unlink()
    program("programs/check-health", "sleep 300")
    cancelled(["sh", "-c", shlex.join(command[command.index("--") + 1:]) + "; :"])
    assert_left(mark)


@pytest.fixture(scope="module", params=["docker", "podman-runc"])
def engine(request):
    opened = engines.ENGINES[request.param]()
    yield opened
    opened.close()


@pytest.fixture
def image(engine, here, mark):
    """What the recipe's Dockerfile makes, under the name of server: a server and a check of its
    health that hangs, each of which leaves a process behind."""
    context = here / "context"
    engines.root_of_image(context)
    for name, before, then in (
            ("server", '[ "$2" = 80 ] || exit 1; trap "exit 4" TERM', "while :; do sleep 0.1; done"),
            ("check-health", "", "sleep 300")):
        (context / "bin" / name).write_text(
            "#!/bin/sh\n%s\nsetsid sh -c 'sleep 300; : %s' &\n%s\n" % (before, mark, then))
        (context / "bin" / name).chmod(0o755)
    text = shorter(block("A Dockerfile")).replace("--interval=10s", "--interval=1s")
    (context / "Dockerfile").write_text(text)
    yield engine.build("server", context)
    engine.remove_containers()


def test_dockerfile(engine, image, mark):
    name = engine.detach(image)
    tw.until(lambda: tw.marked(mark), what="the server")
    if isinstance(engine, engines.Docker):  # podman leaves probes to systemd
        def log():
            return engine.inspect(name)["State"]["Health"]["Log"] or []
        tw.until(lambda: len(log()) >= 2, 30, "two probes")
        assert {probe["ExitCode"] for probe in log()} == {124}
    engine.call("exec", name, "/bin/treewrap", "-t", "0.7", "-k", "0", "--", "/bin/check-health",
                status=124)
    engine.call("stop", name)
    assert engine.inspect(name)["State"]["ExitCode"] == 4
    tw.assert_nothing_left(mark)


@pytest.mark.parametrize("engine", ["docker"], indirect=True)
def test_compose(engine, image, here, mark):
    recipe = yaml.safe_load(block("docker-compose"))
    server = recipe["services"]["server"]
    assert float(server["entrypoint"][server["entrypoint"].index("-k") + 1]) < 10
    (here / "compose.yml").write_text(shorter(block("docker-compose")))
    # The engine has no network to give.
    (here / "more.yml").write_text(yaml.safe_dump({"version": recipe["version"], "services": {
        "server": {"network_mode": "none", "healthcheck": {"interval": "1s"}}}}))
    place = dict(os.environ, DOCKER_HOST="unix://%s/socket" % engine.work)
    compose = ["docker-compose", "-f", "compose.yml", "-f", "more.yml", "-p", "recipe"]
    up = call(*compose, "up", "-d", env=place)
    assert up.returncode == 0, up
    name = call(*compose, "ps", "-q", env=place).stdout.strip()
    tw.until(lambda: tw.marked(mark), what="the server")
    tw.until(lambda: len(engine.inspect(name)["State"]["Health"]["Log"] or []) >= 2, 30, "probes")
    assert {probe["ExitCode"] for probe in engine.inspect(name)["State"]["Health"]["Log"]} == {124}
    stop = call(*compose, "stop", env=place)
    tw.assert_nothing_left(mark)
    assert stop.returncode == 0 and engine.inspect(name)["State"]["ExitCode"] == 129
    assert call(*compose, "down", env=place).returncode == 0


POLITE = "setsid sh -c 'trap \"touch %s/polite; exit\" TERM; >%s/ready; " \
         "while :; do sleep 0.1; done; : %s' &"


def test_systemd_unit(here, mark, monkeypatch):
    """Run by systemd. What the server has left is asked to end, and not by SIGKILL alone."""
    text = block("A systemd unit")
    command = shlex.split(re.search("^ExecStart=(.*)$", text, re.MULTILINE).group(1))
    assert float(command[command.index("-k") + 1]) < float(re.search("StopSec=(.*)", text).group(1))
    text = text.replace("/usr/local/bin/server", str(here / "server"))
    text = text.replace("/usr/bin/treewrap", tw.TREEWRAP)
    units = {"server.service": text, "bare.service": re.sub("(?<==)/.* -- ", "", text)}
    assert tw.TREEWRAP not in units["bare.service"]
    (here / "server.service").write_text(text)
    checked = call("systemd-analyze", "verify", here / "server.service")
    assert checked.returncode == 0 and "server.service" not in checked.stderr, checked
    (here / "server").write_text("#!/bin/sh\ntrap 'exit 0' TERM\n%s\n%s\n" % (
        POLITE % (here, here, mark), "while :; do sleep 0.1; done"))
    (here / "server").chmod(0o755)
    init = booted.Systemd(units)
    try:
        for name, polite in ("bare", False), ("server", True):
            started = init.call("systemctl", "start", name)
            assert started.returncode == 0, started
            tw.until(lambda: os.path.exists("ready"), what="the server")
            if name == "server":
                monkeypatch.delenv("TREEWRAP_RUNTIME_DIR")  # that of `here`: the unit has none
                assert mark in init.call(CTL, "tree", "server").stdout
            init.call("systemctl", "stop", name)
            tw.assert_nothing_left(mark)
            shown = init.call("systemctl", "show", "-p", "Result", "-p", "ExecMainStatus", name)
            assert set(shown.stdout.split()) == {"Result=success", "ExecMainStatus=0"}
            assert os.path.exists("polite") == polite
            os.unlink("ready")
    finally:
        init.close()
