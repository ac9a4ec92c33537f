"""Trees that defend themselves: by forking, by rousing those that are stopped, by killing who
would kill them. Each runs in a PID namespace of its own, where the test's process adopts what
treewrap leaves, and most of them beside a bystander who may not get a single signal although he
is given the numbers that they have just had (see bystander.py)."""

import os
import signal
import subprocess

import bystander
import pytest
import tw

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a PID namespace")

KILL = ["-t", "0.5", "-k", "0", "--verify-for", "60"]
POLITE = ["-t", "0.5", "-k", "0.2", "--verify-for", "60"]


def fight(options, *adversary, **keywords):
    """Treewrap with OPTIONS against the ADVERSARY, alone with it or beside the bystander.
    Nothing may be left; returns the status and the seconds that it took."""
    lines = bystander.run_once([tw.TREEWRAP, *options, tw.adversary(adversary[0]), "mark",
                                *adversary[1:]], **keywords)
    print("\n".join(lines))
    assert not [line for line in lines if line.startswith(("left", "hit"))], lines
    assert keywords.get("beside") is False or lines[-1].startswith("forks"), lines
    told = dict(line.split() for line in lines if line.startswith(("status", "took")))
    return int(told["status"]), float(told["took"])


@pytest.mark.parametrize("options", [KILL, POLITE], ids=["kill", "polite"])
@pytest.mark.parametrize("chain", ["setsid", "plain"])
def test_chains(chain, options):
    status, took = fight(options, "chain", "8", *(["plain"] if chain == "plain" else []))
    assert status == 124 and took < 60


@pytest.mark.parametrize("bomb", ["setsid", "group"])
def test_bomb_that_takes_every_number(bomb):
    """Each number that a death frees is taken at once, by the bomb or by the bystander."""
    status, took = fight(KILL, "bomb", bomb)
    assert status == 124 and took < 60


@pytest.mark.parametrize("options", [KILL, POLITE], ids=["kill", "polite"])
def test_stopped_ones_are_roused(options):
    # They would rouse the bystander too, who is given their numbers.
    status, took = fight(options, "conts", "20", beside=False)
    assert status == 124 and took < 60


def test_stopped_ones_are_roused_and_fork(pids_limit):
    status, took = fight(KILL, "conts", "8", "forks", beside=False, procs=pids_limit(300))
    assert status == 124 and took < 100


@pytest.mark.parametrize("how", [[], ["stop"], ["fork"], ["stop", "fork"]],
                         ids=["", "stop", "fork", "stop-fork"])
def test_the_reaper_is_killed_from_below(how):
    """The shim ends what is left, he who did it included."""
    status, took = fight(["-t", "50"], "patricide", "1", *how, beside=False)
    assert status == 125 and took < 40


def test_both_are_killed_from_below():
    """First the reaper, then, by one who has been handed over to it, the shim. Nothing of this
    user's can prevent that; but if the shim lives to tell, it has won."""
    for _ in range(5):
        lines = bystander.run_once([tw.TREEWRAP, tw.adversary("patricide"), "mark", "2", "fork"],
                                   beside=False)
        left = [line for line in lines if line.startswith("left")]
        assert "status -9" in lines or "status 125" in lines and not left, lines


@pytest.mark.parametrize("kind", ["traced", "seized", "exit-stop", "leaderless", "vfork",
                                  "clone-parent", "no-signal", "subreaper", "namespace", "name"])
def test_odd_processes_beside_a_bystander(kind):
    status, took = fight(["-t", "0.5", "-k", "0.1"], "escape", kind, kind, "double")
    assert status == 124 and took < 30


@pytest.mark.heavy
@pytest.mark.parametrize("shape", [
    ["600", "deep"], ["3000"], pytest.param(["3000", "deep"], marks=pytest.mark.long),
    pytest.param(["10000"], marks=pytest.mark.long)], ids=" ".join)
def test_very_large_tree(pids_limit, shape):
    status, took = fight(["-k", "0", "--stop-on", "USR1", "--verify-for", "100"], "crowd",
                         *shape, beside=False, procs=pids_limit(11000), when_ready="USR1",
                         limit=300)
    assert status == 129 and took < 100


# ---- the bystander, and that it reports ----

def test_bystander():
    result = bystander.run(60, seed=os.environ.get("SEED", tw.new_mark()))
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("signo", ["TERM", "KILL", "STOP", "CONT"])
def test_bystander_reports_a_signal(signo):
    result = bystander.run(5, seed=1, control=signo)
    assert result.returncode != 0 and "hit" in result.stdout, result.stdout


@pytest.mark.parametrize("contain", ["tree", "pidns"])
@pytest.mark.parametrize("how", ["stdin", "timeout", "shim", "signal", "reaper"])
def test_limits_lowered_from_inside(mark, everybodys, contain, how):
    """Any process of the same user may set ours: poll(2) refuses everything then."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become an ordinary user")
    program, escape = everybodys(tw.TREEWRAP, tw.adversary("escape"))
    lower = "for pid in $PPID $1; do prlimit --pid $pid --nofile=0:0 --nproc=0:0 --fsize=0:0; done; "
    process = subprocess.Popen(
        tw.as_user(program, "--contain", contain, "--watch-stdin", "-t",
                   "3" if how == "timeout" else "60", "-k", "0.2", "sh", "-c",
                   "read shim; set -- \"$0\" $shim; " + lower + 'exec %s %s setsid background ignore' %
                   (escape, mark), mark), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, bufsize=0, cwd="/", start_new_session=True)
    process.stdin.write(b"%d\n" % (process.pid if contain == "tree" else 1))
    tw.ready(process)
    reaper = tw.reaper_of(process)
    assert b"Max open files            0 " in tw.read_proc(reaper, "limits")
    if how == "shim":
        process.kill()
        process.wait()
        tw.wait_gone(reaper)
    elif how == "reaper":
        tw.kill(reaper)
        assert process.wait(30) == 125
    else:
        if how == "stdin":
            process.stdin.close()
        elif how == "signal":
            # Forwarded, it ends the command; the leftovers are stopped.
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == {"stdin": 129, "timeout": 124, "signal": 143}[how]
    tw.assert_nothing_left(mark)
    tw.reap_adopted()
    process.stdout.close(), process.stdin.close()
