#!/usr/bin/python3
"""Treewrap beside somebody whose processes it may not touch, where process numbers are scarce.

    python3 tests/bystander.py [--rounds N] [--seed S] [--control SIGNAL]

In a PID namespace where a hundred numbers go round, so that what had a number a moment ago is
somebody else now, treewrap is run again and again with trees that fork and exit quickly; beside
it runs the bystander (see tests/adversaries/bystander.c), which reports every signal that it
gets. There must be none, and nothing of treewrap's trees may be left. With --control a signal
is sent to numbers at random in treewrap's place, which must be reported. Needs root.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tw  # noqa: E402

# Numbers below 300 are given out once only: that is the kernel's.
PID_MAX = 400
LIMIT = 60


class Bystander:
    def __init__(self):
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen([tw.adversary("bystander")], stdin=subprocess.PIPE,
                                        stdout=self.output, start_new_session=True)
        tw.until(lambda: os.fstat(self.output.fileno()).st_size > 0, LIMIT, "the bystander")

    def end(self):
        """Ends it. Returns its lines; what happened to its first process is among them."""
        self.process.stdin.close()
        hits, ended = [], False
        deadline = time.monotonic() + LIMIT
        while not ended and time.monotonic() < deadline:
            info = os.waitid(os.P_PID, self.process.pid,
                             os.WEXITED | os.WSTOPPED | os.WNOHANG)
            if info is None:
                time.sleep(0.005)
                continue
            ended = info.si_code != os.CLD_STOPPED
            if info.si_code != os.CLD_EXITED:
                hits.append("hit: the first process, code %d, signal %d" % (
                    info.si_code, info.si_status))
                tw.kill(self.process.pid, signal.SIGCONT)
        self.process.returncode = 0
        self.output.seek(0)
        return self.output.read().decode().splitlines() + hits + (
            [] if ended else ["hit: it does not end"])


def choose(rng, mark):
    """A round's options and command, and what is done to it meanwhile."""
    chain = [tw.adversary("chain"), mark, "3"]
    tangle = [tw.adversary("tangle"), mark, str(rng.getrandbits(31))]
    short = "%.3f" % rng.uniform(0.001, 0.03)
    return rng.choice([
        (["-t", short, "-k", "0"], chain, None),
        (["-t", short, "-k", "0.005"], chain, None),
        (["-t", short, "-k", "0", "--stop-scope", "main"], tangle + ["-1", "0"], None),
        (["-t", short, "-k", "0.003", "--signal", "USR1", "--signal", "TERM"],
         tangle + ["-1", "0"], None),
        (["-k", "0.003", "--linger", "0"], tangle + [str(rng.randint(0, 15)), "3"], None),
        (["--linger", "0", "-k", "0"], ["sh", "-c", "(true & true) & true & exit 5", mark],
         None),
        (["--forward-to", "tree", "-t", "0.03", "-k", "0"], chain, "signals"),
        (["--forward-to", "group", "-t", "0.03", "-k", "0"], tangle + ["-1", "0"], "signals"),
        ([], chain, "kill reaper"), ([], chain, "kill shim"),
        ([], tangle + ["-1", "0"], "kill reaper"), ([], tangle + ["-1", "0"], "kill shim"),
    ])


def one_round(rng, wrap):
    mark = tw.new_mark()
    options, command, action = choose(rng, mark)
    process = subprocess.Popen(wrap + [tw.TREEWRAP, *options, *command],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    reapers = []
    while action is not None and not reapers and tw.state(process.pid) not in (None, "Z"):
        reapers = tw.children(process.pid)
    if action is not None:
        time.sleep(rng.uniform(0, 0.02))
    if action == "signals":
        for signo in (signal.SIGUSR2, signal.SIGTERM, signal.SIGHUP):
            tw.kill(process.pid, signo)
            time.sleep(0.001)
    elif action == "kill shim":
        tw.kill(process.pid)
    elif action == "kill reaper" and reapers:
        tw.kill(reapers[0])
    process.wait(LIMIT)


def left_of(bystander, limit):
    """What is left beside the bystander. The reaper of a killed shim gets a moment."""
    deadline = time.monotonic() + limit
    while True:
        left = [pid for pid in tw.children(os.getpid())
                if bystander is None or pid != bystander.process.pid]
        reapers = [pid for pid in left if
                   tw.read_proc(pid, "comm") in (b"tree-reaper\n", tw.COMM + b"\n")]
        for pid in reapers:
            os.waitpid(pid, os.WNOHANG)
        if not reapers or time.monotonic() > deadline:
            return tw.describe(left)
        time.sleep(0.001)


def once(arguments):
    """Runs one command instead, in the pids cgroup that it is given, and tells how it ended and
    what it has left, by the kernel's word: whatever has lost its parent is our child."""
    bystander = None
    if arguments.procs:
        with open(arguments.procs, "w") as file:
            file.write("0")
    if not arguments.alone:
        scarce_numbers()
        bystander = Bystander()
    began = time.monotonic()
    process = subprocess.Popen(arguments.wrap, stdin=subprocess.DEVNULL, start_new_session=True,
                               stdout=subprocess.PIPE, bufsize=0)
    if arguments.when_ready:
        tw.ready(process, limit=LIMIT)
        began = time.monotonic()
        process.send_signal(signal.Signals["SIG" + arguments.when_ready])
    print("status %d" % process.wait(), flush=True)
    print("took %.3f" % (time.monotonic() - began))
    print("\n".join("left %s" % left for left in left_of(bystander, LIMIT)))
    if bystander is not None:
        print("\n".join(bystander.end()))


def scarce_numbers():
    with open("/proc/sys/kernel/pid_max", "w") as file:
        file.write(str(PID_MAX))


def send_at_random(rng, signo):
    """What treewrap would do if it took the wrong process for its own."""
    for number in rng.sample(range(2, PID_MAX), PID_MAX - 2):
        tw.kill(number, signo)


def inside(arguments):
    """In the namespace, as its first process: orphans come to us."""
    rng = random.Random(arguments.seed)
    scarce_numbers()
    bystander = Bystander()
    failures = 0
    deadline = time.monotonic() + arguments.limit
    for number in range(arguments.rounds):
        if arguments.control:
            time.sleep(0.05)
            send_at_random(rng, signal.Signals["SIG" + arguments.control])
            continue
        one_round(rng, arguments.wrap)
        left = left_of(bystander, LIMIT)
        if left:
            print("round %d: left: %s" % (number, left))
            failures += 1
        if time.monotonic() > deadline:
            print("round %d: out of time" % number)
            failures += 1
            break
    lines = bystander.end()
    print("\n".join(lines))
    return failures != 0 or any(line.startswith("hit") for line in lines)


def run(rounds, seed, control=None, wrap=(), limit=600):
    """Returns the result of it all, a completed process: 0 if nobody was hit."""
    words = [sys.executable, os.path.abspath(__file__), "--inside", "--rounds", str(rounds),
             "--seed", str(seed), "--limit", str(limit)]
    if control is not None:
        words += ["--control", control]
    return in_namespace(words + ["--", *wrap], limit + 120)


def in_namespace(words, limit):
    return subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=limit)


def run_once(command, procs=None, beside=True, when_ready=None, limit=150):
    """Runs COMMAND once in a namespace of its own, beside the bystander or not; in the pids
    cgroup of PROCS; sends it WHEN_READY once it has said so. Returns the lines: "status N",
    "took SECONDS", "left PROCESS"..., "hit ..."..., and those of the command."""
    words = [sys.executable, os.path.abspath(__file__), "--once"]
    words += ["--procs", str(procs)] if procs is not None else []
    words += ["--alone"] if not beside else []
    words += ["--when-ready", when_ready] if when_ready is not None else []
    return in_namespace([*words, "--", *map(str, command)], limit).stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description="Treewrap beside a bystander.")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", default=str(random.SystemRandom().getrandbits(32)))
    parser.add_argument("--control", metavar="SIGNAL", help="TERM, say: is it reported?")
    parser.add_argument("--limit", type=float, default=600, help="seconds for all of it")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--procs", help=argparse.SUPPRESS)
    parser.add_argument("--when-ready", help=argparse.SUPPRESS)
    parser.add_argument("wrap", nargs="*", help="runs treewrap: tests/bin/refuse, say")
    arguments = parser.parse_args()
    if arguments.once:
        return once(arguments)
    if arguments.inside:
        return inside(arguments)
    print("seed %s" % arguments.seed, flush=True)
    result = run(arguments.rounds, arguments.seed, arguments.control, arguments.wrap,
                 arguments.limit)
    print(result.stdout, end="")
    print("%d rounds, %s" % (arguments.rounds, "FAILED" if result.returncode else "no hit"))
    return result.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
