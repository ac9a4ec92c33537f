"""tini's command line, each option with the meaning that tini's README gives it."""

import os
import signal
import subprocess
import time

import pytest
import tw


def test_leading_dashes():
    assert tw.run("--", "sh", "-c", "exit 4").status == 4


@pytest.mark.parametrize("options", [["-s"], ["-w"], ["-v"], ["-vvv"], ["-s", "-g", "-v", "-w"],
                                     ["-swvg"], ["-e", "5", "-s"], ["-p", "TERM"]])
def test_accepted(options):
    assert tw.run(*options, "--", "sh", "-c", "exit 4").status == 4


def test_help_version_license():
    for option, word in (("-h", b"usage: treewrap"), ("--version", b"treewrap "), ("-l", b"MIT")):
        result = tw.run(option)
        assert result.status == 0 and word in result.out and result.err == b""


def test_remap_of_every_status():
    """-e for all of 0 to 255, each the only one remapped."""
    script = 'for i in $(seq 0 255); do "$0" -e $i sh -c "exit $i" || echo $i; ' \
             'j=$(((i + 1) % 256)); "$0" -e $i sh -c "exit $j"; [ $? = $j ] || echo $i not $j; done'
    result = subprocess.run(["sh", "-c", script, tw.TREEWRAP], capture_output=True, timeout=300)
    assert result.stdout == b"" and result.stderr == b""


def test_tells_of_reaped_orphans():
    result = tw.run("-w", "sh", "-c", "(setsid true &) ; sleep 0.3; exit 4")
    assert result.status == 4
    assert result.err.startswith(b"treewrap: reaped orphan ") and result.err.count(b"\n") == 1
    assert tw.run("sh", "-c", "(setsid true &) ; sleep 0.3").err == b""


@pytest.mark.parametrize("environment, forwarded", [({}, [b"main"]),
                                                    ({"TINI_KILL_PROCESS_GROUP": "1"},
                                                     [b"child", b"main"]),
                                                    ({"TINI_KILL_PROCESS_GROUP": ""},
                                                     [b"child", b"main"])])
def test_kill_process_group(mark, environment, forwarded):
    script = "sh -c 'trap \"echo child\" USR1; echo ready; while :; do sleep 0.01; done' %s & " \
             "trap 'echo main' USR1; echo ready; while :; do sleep 0.01; done" % mark
    process = tw.start("sh", "-c", script, env=environment)
    tw.ready(process), tw.ready(process)
    process.send_signal(signal.SIGUSR1)
    out = [tw.ready(process, b"") for _ in forwarded]
    time.sleep(0.1)
    process.kill()
    process.wait()
    assert sorted(b"".join(out + process.stdout.readlines()).split()) == forwarded
    process.stderr.close()
    tw.until(lambda: not tw.marked(mark))


def test_kill_process_group_gives_way_to_an_option():
    assert tw.run("--forward-to", "main", "true", env={"TINI_KILL_PROCESS_GROUP": "1"}).status == 0


@pytest.mark.parametrize("value, lines", [("0", 0), ("1", 0), ("2", 1), ("3", 1), ("x", 0)])
def test_verbosity(value, lines):
    result = tw.run("-t", "0.1", "sleep", "9", env={"TINI_VERBOSITY": value})
    assert result.status == 124 and result.err.count(b"\n") == lines


def test_subreaper_variable():
    assert tw.run("sh", "-c", "exit 4", env={"TINI_SUBREAPER": ""}).status == 4


@pytest.mark.parametrize("signo, expected", [("USR1", 6), ("SIGTERM", 143), ("KILL", 129)])
def test_signal_when_the_parent_ends(mark, signo, expected):
    """-p: the command is sent what treewrap would have got. SIGKILL ends the tree."""
    command = '"$0" -p %s sh -c "trap \'exit 6\' USR1; setsid sleep 60 & echo ready; ' \
              'while :; do sleep 0.01; done" %s & echo $!; read x' % (signo, mark)
    parent = subprocess.Popen(["bash", "-c", command, tw.TREEWRAP], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, start_new_session=True)
    lines = [parent.stdout.readline(), parent.stdout.readline()]
    lines.remove(b"ready\n")
    parent.kill()
    parent.wait()
    _, status = os.waitpid(int(lines[0]), 0)
    tw.assert_nothing_left(mark)
    assert os.waitstatus_to_exitcode(status) == expected
    parent.stdout.close(), parent.stdin.close()


def test_a_job_in_tmux(mark):
    """One run in a real terminal program, keys typed and screen read."""
    socket = ["tmux", "-L", mark, "-f", "/dev/null"]

    def tmux(*args):
        return subprocess.run([*socket, *args], capture_output=True, timeout=20).stdout.decode()

    def screen_shows(word):
        tw.until(lambda: word in tmux("capture-pane", "-p"), what="%r on the screen" % word)

    tmux("new-session", "-d", "-x", "100", "-y", "30", "bash --norc --noprofile")
    try:
        tmux("send-keys", "PS1='P> '; clear", "Enter")
        tmux("send-keys", "%s sh -c 'setsid sleep 60 & echo ru''ns; read x; echo got-$x' %s" % (
            tw.TREEWRAP, mark), "Enter")
        screen_shows("\nruns")
        tmux("send-keys", "C-z")
        screen_shows("Stopped")
        tmux("send-keys", "fg", "Enter")
        tmux("send-keys", "hello", "Enter")
        screen_shows("\ngot-hello")
        # Then treewrap returns; tmux itself has the mark too.
        tw.until(lambda: all(b"tmux" in tw.read_proc(pid, "cmdline") for pid in tw.marked(mark)),
                 2, "the end of the tree")
        tmux("send-keys", "%s sleep 50; echo status-$?" % tw.TREEWRAP, "Enter")
        tw.until(lambda: tmux("display", "-p", "#{pane_current_command}") == "treewrap\n")
        tmux("send-keys", "C-c")
        tmux("send-keys", "echo after-$?", "Enter")
        screen_shows("\nafter-130")
    finally:
        tmux("kill-server")
