"""Everything that gets away from a simple kill, times every way to stop the tree. What is
left is looked for at the moment treewrap returns."""

import json
import os
import signal
import subprocess

import pytest
import tw

KINDS = ["background", "nohup", "setsid", "double", "group", "thread", "thread-gone", "name",
         "ignore", "stopped", "traced", "env", "nested", "leaderless", "clone-parent", "vfork",
         "deep", "no-signal", "subreaper", "seized", "exit-stop"] + (
             ["namespace"] if os.geteuid() == 0 else [])

# Short, for some of them ignore every polite signal.
LADDER = ["-k", "0.2", "--linger", "0.05"]


def escape(mark, *kinds, code=None):
    return [tw.adversary("escape"), mark, *kinds] + (
        ["=", "exit", str(code)] if code is not None else [])


def end_by_timeout(mark, kinds):
    process = tw.start(*LADDER, "-t", "2" if len(kinds) == 1 else "5", *escape(mark, *kinds))
    tw.ready(process)
    return tw.finish(process).status, 124


def end_by_exit(mark, kinds):
    process = tw.start(*LADDER, *escape(mark, *kinds, code=7))
    return tw.finish(process).status, 7


def end_by_forwarded_signal(mark, kinds):
    process = tw.start(*LADDER, *escape(mark, *kinds))
    tw.ready(process)
    process.send_signal(signal.SIGTERM)
    return tw.finish(process).status, 128 + signal.SIGTERM


def end_by_stop_on(mark, kinds):
    process = tw.start(*LADDER, "--stop-on", "USR1,TERM", *escape(mark, *kinds))
    tw.ready(process)
    process.send_signal(signal.SIGTERM)
    return tw.finish(process).status, 129


def end_by_watch_fd(mark, kinds):
    ours, theirs = os.pipe()
    process = tw.start(*LADDER, "--watch-fd", ours, *escape(mark, *kinds), pass_fds=[ours])
    os.close(ours)
    tw.ready(process)
    os.close(theirs)
    return tw.finish(process).status, 129


def end_by_watch_stdin(mark, kinds):
    process = tw.start(*LADDER, "--watch-stdin", *escape(mark, *kinds), stdin=subprocess.PIPE)
    tw.ready(process)
    process.stdin.close()
    process.stdin = None
    return tw.finish(process).status, 129


def end_by_reaper_death(mark, kinds):
    process = tw.start(*LADDER, *escape(mark, *kinds))
    tw.ready(process)
    tw.kill(tw.reaper_of(process))
    return tw.finish(process).status, 125


def end_by_shim_death(mark, kinds):
    process = tw.start(*LADDER, *escape(mark, *kinds))
    tw.ready(process)
    reaper = tw.reaper_of(process)
    process.kill()
    process.wait()
    # Treewrap has returned when its second process has: it comes to us as an orphan.
    tw.wait_gone(reaper)
    assert tw.reap_adopted() == [reaper]
    return tw.finish(process).status, -signal.SIGKILL


WAYS = [end_by_timeout, end_by_exit, end_by_forwarded_signal, end_by_stop_on, end_by_watch_fd,
        end_by_watch_stdin, end_by_reaper_death, end_by_shim_death]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_one(mark, kind, way):
    tw.reap_adopted()
    status, expected = way(mark, [kind])
    tw.assert_nothing_left(mark)
    assert status == expected
    assert not tw.children(os.getpid()), "orphans have come to us: %s" % tw.describe(
        tw.children(os.getpid()))


@pytest.mark.parametrize("way", WAYS)
def test_all_at_once(mark, way):
    status, expected = way(mark, KINDS + KINDS)
    tw.assert_nothing_left(mark)
    assert status == expected


def test_the_demonstration(mark):
    sleep = "sleep 1000.%d" % os.getpid()
    result = tw.run("--timeout", "1", "--", "sh", "-c",
                    "setsid {0} & nohup {0} & (setsid sh -c '{0} &' &) ; {0}".format(sleep))
    assert result.status == 124
    assert 1 <= result.took < 8
    tw.assert_nothing_left(sleep.replace(" ", "\0"))


def test_stop_scope_main(mark):
    # A manager that drains its workers itself: they must not get the polite signal.
    script = "trap 'kill $!; wait; echo drained; exit 0' USR1; " \
             "sh -c 'trap \"echo hit\" USR1; while :; do sleep 0.01; done' %s & echo ready; wait"
    process = tw.start("-t", "1.5", "--signal", "USR1", "--stop-scope", "main", "sh", "-c",
                       script % mark)
    tw.ready(process)
    result = tw.finish(process)
    assert result.out == b"drained\n" and result.status == 124
    tw.assert_nothing_left(mark)


def test_stop_scope_main_still_kills_all(mark):
    process = tw.start("-t", "1.5", "-k", "0.2", "--stop-scope", "main",
                       *escape(mark, "ignore", "setsid"))
    tw.ready(process)
    assert tw.finish(process).status == 124
    tw.assert_nothing_left(mark)


def test_ladder_in_order(mark):
    process = tw.start("-t", "1", "-k", "0.15", "--signal", "INT", "--signal", "USR2",
                       "--signal", "QUIT", tw.adversary("signals"), mark)
    tw.ready(process)
    result = tw.finish(process)
    assert [line.split()[0] for line in result.out.decode().splitlines()] == [
        "2", "18", "12", "18", "3", "18"]
    assert 3 * 0.15 <= result.took < 9
    assert result.status == 124


def test_ladder_ends_early(mark):
    result = tw.run("-t", "0.1", "-k", "60", "sh", "-c", "trap 'exit 0' TERM; sleep 60 & wait")
    assert result.status == 124 and result.took < 5


def test_every_process_gets_a_polite_signal_once(mark):
    # Each of 40 writes a line for each TERM that it gets.
    script = "for i in $(seq 40); do setsid sh -c 'trap \"echo $$\" TERM; echo ready; " \
             "while :; do sleep 0.01; done' %s & done; trap '' TERM; wait" % mark
    process = tw.start("--stop-on", "USR1", "-k", "1", "sh", "-c", script)
    [tw.ready(process) for _ in range(40)]
    process.send_signal(signal.SIGUSR1)
    lines = tw.finish(process).out.split()
    assert len(lines) == 40 and len(set(lines)) == 40
    tw.assert_nothing_left(mark)


@pytest.mark.parametrize("prefix", [[], ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c",
                                         '"$@"; exit $?', "sh"]], ids=["", "alone"])
@pytest.mark.parametrize("options", [["-k", "10"], ["-k", "0"]], ids=["polite", "kill"])
@pytest.mark.parametrize("threads", [30, 300])
def test_what_one_of_many_threads_has_forked(mark, prefix, options, threads):
    """Where there are more threads than processes these are looked through instead."""
    if prefix and os.geteuid() != 0:
        pytest.skip("needs root, for a PID namespace")
    script = "import subprocess, threading, time\n" \
             "def sleep(): time.sleep(60)\n" \
             "def fork(): subprocess.Popen(['sleep', '60.5'], start_new_session=True); sleep()\n" \
             "for i in range(%d): threading.Thread(target=fork if i == 17 else sleep).start()\n" \
             "print('ready', flush=True)" % threads
    read, write = os.pipe()
    process = tw.start_with(prefix, *options, "-t", "3", "--status-fd", write, "/usr/bin/python3", "-c",
                            script, mark, pass_fds=[write])
    os.close(write)
    tw.ready(process)
    result = tw.finish(process)
    with open(read, "rb") as file:
        events = [json.loads(line) for line in file.read().splitlines()]
    stop, end = [event for event in events if event["event"] == "stop"][0], events[-1]
    assert result.status == 124
    if options == ["-k", "10"]:
        # Both were found, and have gone by the polite signal.
        assert (stop["processes"], end["killed"]) == (2, 0) and end["at"] < 10
    else:
        assert stop["processes"] == 2 and end["killed"] == 2
    tw.assert_nothing_left(mark)
