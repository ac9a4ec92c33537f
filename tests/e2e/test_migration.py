"""The table of the manual, COMING FROM OTHER PROGRAMS: each line as it was and as it is now is
run with a command that leaves behind a process in a session of its own."""

import os
import pathlib
import re
import signal
import subprocess

import booted
import pytest
import tw
from test_ctl import CTL

MANUAL = pathlib.Path(tw.ROOT, "treewrap.1").read_text()
TABLE = dict(re.findall(r'^\.It Li "?(.*?)"?\n\.Dl (treewrap .*)$', MANUAL, re.MULTILINE))
# Those that wait for what is left, or end it.
CLEAN = ("unshare", "bwrap", "systemd-run --scope -p RuntimeMaxSec")
SPECIAL = ("setsid", "trap", "setpriv", "catatonit -P")


@pytest.fixture
def place(tmp_path, mark):
    """A cmd that leaves a process behind; gives the environment in which it is found."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "runtime").mkdir(mode=0o700)
    (programs / "treewrap").symlink_to(tw.TREEWRAP)
    (programs / "treewrapctl").symlink_to(CTL)
    cmd = programs / "cmd"
    cmd.write_text("#!/bin/sh\n"
                   "[ \"$MARKED\" ] || MARKED=1 exec sh \"$0\" %(mark)s\n"
                   "setsid sh -c '>%(at)s/ready; sleep 300; : %(mark)s' <&- >&- 2>&- &\n"
                   "until [ -e %(at)s/ready ]; do sleep 0.01; done\n"
                   "while [ \"$LONG\" ]; do sleep 0.1; done\n"
                   "exit 3\n" % {"at": tmp_path, "mark": mark})
    cmd.chmod(0o755)
    (programs / "script").symlink_to(cmd)
    return {"PATH": "%s:%s" % (programs, os.environ["PATH"]), "AT": str(tmp_path),
            "TREEWRAP_RUNTIME_DIR": str(tmp_path / "runtime"), "MARK": mark}


@pytest.fixture(scope="module")
def init():
    """systemd as process 1, somewhere."""
    made = booted.Systemd()
    yield made
    made.close()


def run(line, place, prefix=(), **more):
    """LINE by a shell, in a session of its own: "..." is until cmd is in place."""
    line = re.sub(r"(?<=[ =])(60|1m)(?= )", "0.7", line)
    line = line.replace("-k 10 ", "-k 1 ")
    line = line.replace("...", "until [ -e $AT/ready ]; do sleep 0.01; done")
    if os.path.exists(place["AT"] + "/ready"):
        os.unlink(place["AT"] + "/ready")
    return subprocess.run([*prefix, "sh", "-c", line], env=dict(place, **more), timeout=tw.LIMIT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, start_new_session=True)


def test_the_table_is_understood():
    assert len(TABLE) == MANUAL.split(".Sh COMING FROM")[1].count(".It Li ") >= 16
    assert all(any(old.startswith(word) for old in TABLE) for word in CLEAN + SPECIAL)


@pytest.mark.parametrize("old", [old for old in TABLE if not old.startswith(SPECIAL)])
def test_was_and_is(old, place, init):
    timed = "-t " in TABLE[old]
    more = {"LONG": "1"} if timed else {}
    prefix = init.within if old.startswith("systemd-run") else []
    assert run(old, place, prefix, **more).returncode in (3, 124, 137, 143)
    left = tw.marked(place["MARK"])
    assert bool(left) != old.startswith(CLEAN), tw.describe(left)
    tw.end(left)
    status = run(TABLE[old], place, **more).returncode
    tw.assert_nothing_left(place["MARK"])
    assert status == (143 if "--preserve" in old else 124 if timed else 3)


def test_a_delegated_scope(place, init):
    """What --contain cgroup needs beside systemd, with whom it stays."""
    line = "systemd-run --scope %s treewrap --contain auto --status-fd 2 true"
    for more, word in ("", '"contain":"tree"'), ("-p Delegate=yes", '"contain":"cgroup"'):
        done = init.call("env", "PATH=" + place["PATH"], *(line % more).split())
        assert done.returncode == 0 and word in done.stderr, done


def test_setsid_and_kill(place):
    old, = (old for old in TABLE if old.startswith("setsid"))
    run(old, place, LONG="1")
    left = tw.marked(place["MARK"])
    assert left
    tw.end(left)
    assert run(TABLE[old], place, LONG="1").returncode == 0
    tw.assert_nothing_left(place["MARK"])


def test_kill_0_in_a_trap(place):
    old, = (old for old in TABLE if old.startswith("trap"))
    run(old + "; cmd", place)
    left = tw.marked(place["MARK"])
    assert left
    tw.end(left)
    run(TABLE[old], place)
    tw.assert_nothing_left(place["MARK"])


def test_parent_death(place):
    old, = (old for old in TABLE if old.startswith("setpriv"))
    for line in old, TABLE[old]:
        if os.path.exists(place["AT"] + "/ready"):
            os.unlink(place["AT"] + "/ready")
        parent = subprocess.Popen(["sh", "-c", line + " & echo $!; read line"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, env=dict(place, LONG="1"))
        child = int(parent.stdout.readline())
        tw.until(lambda: os.path.exists(place["AT"] + "/ready"))
        parent.kill()
        parent.communicate()
        tw.wait_gone(child)
        if line == old:
            left = tw.marked(place["MARK"])
            assert left
            tw.end(left)
    tw.assert_nothing_left(place["MARK"])


def test_pause(place):
    pause = subprocess.Popen(TABLE["catatonit -P"].split(), env=place)
    tw.until(lambda: any(b"infinity" in tw.read_proc(pid, "cmdline")
                         for child in tw.children(pause.pid) for pid in tw.children(child)))
    pause.terminate()
    assert tw.wait_at_once(pause) == 128 + signal.SIGTERM
