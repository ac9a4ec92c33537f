#!/usr/bin/python3
"""Rounds of chance: random options, a random tree, and one of many things that happen to it at
a random moment. After each round nothing may be left, and the events must agree with what was
done.

    python3 tests/chaos.py [--rounds N] [--seed S] [--round K] [--jobs J]

A round's choices follow from the seed and its number alone, so that one that failed can be run
again by itself; when things happen among themselves is up to the machine.

What proves that nothing is left is the kernel, not a list of names: the process that runs the
rounds is a subreaper, so that whatever escapes comes to it, and has no other children.
"""

import argparse
import ctypes
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tw  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
WALL = 0x40000000

# Above all that a round can take by its options; much above, for the machine may be busy.
LIMIT = 60

ACTIONS = ["nothing", "timeout", "hangup", "term", "burst", "kill shim", "kill reaper",
           "stop both", "kill both"]
WATCHES = ["stdin", "fd", "pid", "parent"]
LADDER = ["TERM", "INT", "HUP", "QUIT", "USR1", "RTMIN+3"]
BURST = [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT,
         signal.SIGWINCH, signal.SIGRTMIN + 1]
# Without what newer kernels have, and as an old kernel or a filter says so.
REFUSED = ["pidfd_open", "pidfd_info", "pidfd_send_signal", "clone3", "close_range",
           "timerfd_create", "signalfd4"]


HIERARCHY = next((root for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
                  if os.path.exists(root + "/cgroup.controllers")), None)


class Plan:
    """What a round does: everything that is left to chance, decided before it begins."""

    def __init__(self, seed, number):
        rng = random.Random("%s %d" % (seed, number))
        self.seed, self.number = seed, number
        self.action = rng.choice(ACTIONS)
        self.moment = rng.choice([0, rng.uniform(0, 0.004), rng.uniform(0, 0.02),
                                  rng.uniform(0, 0.15)])
        self.life = rng.choice([-1, -1, rng.randint(0, 100)])
        self.code = rng.choice([0, 0, 3, 7, 42])
        self.tree = rng.getrandbits(31)
        self.watches = [kind for kind in WATCHES if rng.random() < 0.2]
        if self.action == "hangup" and not self.watches:
            self.watches = [rng.choice(WATCHES)]
        self.hangup = rng.choice(self.watches) if self.action == "hangup" else None
        self.ladder = rng.choices(LADDER, k=rng.choice([0, 0, 1, 1, 2, 3]))
        self.kill_after = rng.choice([0, rng.uniform(0.001, 0.1), rng.uniform(0.001, 0.1)])
        self.leftovers = rng.choice(["stop", "stop", "fail", "wait", "leave"])
        self.linger = rng.choice([0, rng.uniform(0.001, 0.06)])
        self.scope = rng.choice(["tree", "main"])
        self.forward = rng.choice(["main", "group", "tree"])
        self.group = rng.choice([None, "new", "keep"])
        self.stop_on = rng.random() < 0.3
        self.preserve = rng.random() < 0.3
        self.remap = rng.choice([[], [], [124, 129], [0, 3]])
        self.verbose = rng.random() < 0.2
        self.reaper_first = rng.random() < 0.5
        self.pause = rng.choice([0, rng.uniform(0, 0.01), rng.uniform(0, 0.2)])
        self.burst = rng.choices(BURST, k=rng.randint(1, 12))
        self.refused = rng.sample(REFUSED, rng.randint(1, 3)) if rng.random() < 0.15 else []
        self.errno = rng.choice([1, 38])
        self.ordinary = rng.random() < 0.5
        # Whatever would not end by what is done to it needs a timeout.
        needed = self.action in ("timeout", "term", "burst", "stop both") or (
            self.action == "nothing" and (self.life < 0 or self.leftovers == "wait"))
        self.timeout = None
        if needed or rng.random() < 0.3:
            self.timeout = rng.uniform(0.001, 0.3)
        self.contain = rng.choice(["tree", "tree", "cgroup", "pidns"])
        # These are root's here; and out of its namespace nothing can be left.
        if os.geteuid() != 0 or (self.contain == "pidns" and self.leftovers == "leave"):
            self.contain = "tree"
        if self.contain == "cgroup" and HIERARCHY is None:
            self.contain = "tree"

    def __repr__(self):
        return ", ".join("%s=%s" % item for item in vars(self).items())

    def options(self, status_fd, watch_fd, watch_pid):
        words = ["--status-fd", status_fd, "--leftovers", self.leftovers,
                 "--kill-after", "%.4f" % self.kill_after, "--stop-scope", self.scope,
                 "--forward-to", self.forward, "--verify-for", "50", "--contain", self.contain]
        if self.leftovers in ("stop", "fail"):
            words += ["--linger", "%.4f" % self.linger]
        for name in self.ladder:
            words += ["--signal", name]
        if self.timeout is not None:
            words += ["--timeout", "%.4f" % self.timeout]
        for kind in self.watches:
            words += {"stdin": ["--watch-stdin"], "fd": ["--watch-fd", watch_fd],
                      "pid": ["--watch-pid", watch_pid], "parent": ["--watch-parent"]}[kind]
        if self.group is not None:
            words += ["--process-group", self.group]
        if self.stop_on:
            words += ["--stop-on", "TERM"]
        if self.preserve:
            words += ["--preserve-status"]
        for status in self.remap:
            words += ["-e", status]
        if self.verbose:
            words += ["-v"]
        return [str(word) for word in words]

    def wrap(self):
        """What treewrap is started by: things that take rights or system calls away."""
        words = []
        if self.ordinary and os.geteuid() == 0:
            words += ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"]
        if self.refused:
            words += [tw.adversary("refuse"), str(self.errno), ",".join(self.refused)]
        return words


class Failure(AssertionError):
    pass


def check(condition, *what):
    if not condition:
        raise Failure(*what)


def comm(pid):
    return tw.read_proc(pid, "comm").rstrip(b"\n")


def any_child():
    """A child of ours, alive or not; None only if the kernel says that there is none."""
    try:
        info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | WALL)
        return info.si_pid if info is not None else (tw.children(os.getpid()) or ["?"])[0]
    except ChildProcessError:
        return None


def wait_ended(pid, what):
    """Waits for the end of PID, a child or not, without fetching it."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        check(select.select([fd], [], [], LIMIT)[0],
              "%s has not ended" % what, tw.describe([pid] + tw.children(pid)))
    finally:
        os.close(fd)


def end_all_children():
    """After a failure, or where leftovers were to stay."""
    deadline = time.monotonic() + LIMIT
    while any_child() is not None and time.monotonic() < deadline:
        for pid in tw.children(os.getpid()):
            tw.kill(pid)
            try:
                os.waitpid(pid, os.WNOHANG | WALL)
            except ChildProcessError:
                pass


class Round:
    def __init__(self, plan):
        self.plan = plan
        self.mark = tw.new_mark()
        self.open = []
        self.reaper = None
        self.acted = False

    # ---- start ----

    def pipe(self):
        ends = os.pipe()
        self.open += ends
        return ends

    def close(self, fd):
        self.open.remove(fd)
        os.close(fd)

    def start(self):
        plan = self.plan
        self.events, status_fd = self.pipe()
        watch_fd, self.lifeline = self.pipe()
        input_fd, self.input = self.pipe()
        self.watched = self.parent = None
        if "pid" in plan.watches:
            self.watched = subprocess.Popen([tw.adversary("parent")],
                                            stdout=subprocess.DEVNULL)
        words = plan.wrap() + [tw.TREEWRAP] + plan.options(
            status_fd, watch_fd, self.watched.pid if self.watched else 0)
        words += ["--", tw.adversary("tangle"), self.mark, str(plan.tree), str(plan.life),
                  str(plan.code)]
        self.words = words
        if "parent" in plan.watches:
            words = [tw.adversary("parent")] + words
        self.errors = tempfile.TemporaryFile()
        self.began = time.monotonic()
        process = subprocess.Popen(
            words, pass_fds=[status_fd, watch_fd], stdin=input_fd, stderr=self.errors,
            stdout=subprocess.PIPE if "parent" in plan.watches else subprocess.DEVNULL,
            start_new_session=True)
        self.shim = process.pid
        if "parent" in plan.watches:
            self.parent = process
            self.shim = int(process.stdout.readline())
            process.stdout.close()
        else:
            process.returncode = 0  # we wait for it ourselves
        for fd in (status_fd, watch_fd, input_fd):
            self.close(fd)

    # ---- what happens ----

    def find_reaper(self, wait):
        while True:
            found = [pid for pid in tw.children(self.shim) if tw.state(pid) not in (None, "Z")]
            if found and comm(self.shim) == tw.COMM:
                self.reaper = found[0]
            if self.reaper or not wait or tw.state(self.shim) in (None, "Z"):
                return

    def end_process(self, process):
        process.kill()
        process.wait()

    def act(self):
        plan = self.plan
        while time.monotonic() < self.began + plan.moment:
            time.sleep(0)
        # (Before there is a reaper, treewrap may not have seen yet who its parent is.)
        self.find_reaper(wait=plan.hangup == "parent" or plan.action in (
            "kill reaper", "kill both", "stop both", "burst"))
        self.acted_at = time.monotonic()
        pair = [pid for pid in (self.shim, self.reaper) if pid is not None]
        if plan.reaper_first:
            pair.reverse()
        if plan.hangup == "stdin":
            self.close(self.input)
        elif plan.hangup == "fd":
            self.close(self.lifeline)
        elif plan.hangup == "pid":
            self.end_process(self.watched)
        elif plan.hangup == "parent":
            self.end_process(self.parent)
        elif plan.action == "term":
            tw.kill(self.shim, signal.SIGTERM)
        elif plan.action == "burst" and self.reaper:
            for signo in plan.burst:
                tw.kill(self.shim, signo)
                time.sleep(plan.pause / 50)
        elif plan.action == "kill shim":
            tw.kill(self.shim)
        elif plan.action == "kill reaper" and self.reaper:
            tw.kill(self.reaper)
        elif plan.action == "kill both":
            [tw.kill(pid) for pid in pair]
        elif plan.action == "stop both":
            [tw.kill(pid, signal.SIGSTOP) for pid in pair]
            time.sleep(plan.pause)
            [tw.kill(pid, signal.SIGCONT) for pid in pair]

    # ---- what is left ----

    def wait(self):
        """Until both of treewrap's processes have ended."""
        plan = self.plan
        wait_ended(self.shim, "treewrap")
        self.took = time.monotonic() - self.began
        for process in (self.parent, self.watched):
            if process is not None and process.returncode is None:
                self.end_process(process)
        _, status = os.waitpid(self.shim, 0)
        self.status = os.waitstatus_to_exitcode(status)
        if self.status != -signal.SIGKILL:
            return
        check(plan.action in ("kill shim", "kill both"), "treewrap was killed, not by us")
        # The reaper comes to us; treewrap has returned when it has.
        for pid in tw.children(os.getpid()):
            if comm(pid) in (b"tree-reaper", tw.COMM):
                wait_ended(pid, "the reaper")
                os.waitpid(pid, WALL)

    def check_nothing_left(self):
        plan, end = self.plan, self.end
        if plan.action == "kill both" and self.status == -signal.SIGKILL:
            # Of this we promise the end of the command alone.
            if self.lines[:1] and self.lines[0]["event"] == "start":
                tw.wait_gone(self.lines[0]["pid"], LIMIT)
            return
        if plan.leftovers == "leave" and end is not None and end["cause"] == "exit":
            return
        left = any_child()
        check(left is None, "left to us", tw.describe(tw.marked(self.mark)),
              tw.describe([left] if isinstance(left, int) else []))
        # Made before there were two to guard each other, it is the next run's to remove.
        if plan.contain == "cgroup" and end is not None:
            check(not [name for name in os.listdir(HIERARCHY)
                       if name.startswith("treewrap-%d-" % self.shim)], "a cgroup is left")

    # ---- what was told ----

    def read_events(self):
        text = b""
        # Nobody has the other end any more, so this ends. (Leftovers do not have it.)
        while True:
            check(select.select([self.events], [], [], LIMIT)[0],
                  "somebody holds the descriptor of the events")
            got = os.read(self.events, 65536)
            if not got:
                break
            text += got
        self.lines = [json.loads(line) for line in text.splitlines()]
        self.ends = [line for line in self.lines if line["event"] == "end"]
        self.end = self.ends[-1] if self.ends else None

    def check_events(self):
        plan, lines = self.plan, self.lines
        names = [line["event"] for line in lines]
        check(names.count("start") <= 1 and "start" not in names[1:], "start is not first")
        if self.end is None:
            # Signals from before treewrap was ready end it as they end anybody; and if both
            # are killed nobody is left to tell.
            early = self.status == -signal.SIGTERM and plan.action == "term" or (
                self.status == -signal.SIGKILL and (
                    plan.action == "kill both" or self.reaper is None))
            check(early, "no end")
            check(plan.action == "kill both" or lines == [], "an end is missing")
            return
        check(len(self.ends) == 1, "%d ends" % len(self.ends))
        check(names[-1] == "end", "end is not last")
        times = [line["at"] for line in lines if "at" in line]
        check(times == sorted(times) and times[-1] <= self.took + 0.002 or
              plan.action in ("kill shim", "kill both"), "times")
        end = self.end
        check(end["survivors"] == [], "survivors")
        self.check_cause()
        if self.was_not_run():
            check(end["exit_code"] is None and end["signal"] is None, "how")
        else:
            self.check_command_end()
        self.check_counts()
        self.check_status()

    def was_not_run(self):
        """--watch-pid came too late."""
        return self.end is not None and self.end["cause"] == "pid" and (
            b"is gone already" in self.said)

    def check_cause(self):
        plan, end = self.plan, self.end
        possible = {"exit"}
        if plan.timeout is not None:
            possible.add("timeout")
        if plan.hangup is not None:
            possible.add(plan.hangup)
        if plan.action in ("term", "burst") and plan.stop_on:
            possible.add("signal")
        if plan.action in ("kill shim", "kill both"):
            possible.add("shim-killed")
        if plan.action in ("kill reaper", "kill both"):
            possible.add("reaper-killed")
        check(end["cause"] in possible, "cause", possible)
        stops = [line for line in self.lines if line["event"] == "stop"]
        check(len(stops) <= 2 and all(stop["cause"] in possible for stop in stops), "stops")
        if self.was_not_run():
            check(len(self.lines) == 1, "it was not to be run")
        elif end["cause"] not in ("exit", "reaper-killed"):
            check(stops and stops[-1]["cause"] == end["cause"], "stop and end disagree")
        if end["cause"] == "timeout":
            check(stops[-1]["at"] >= int(plan.timeout * 1000) / 1000, "timed out early")
        if self.lines[0]["event"] == "start":
            check(self.lines[0]["shim"] == self.shim, "shim")
        else:
            # Whatever stops it, or a signal passed on, may come before the exec.
            early = plan.action in ("term", "burst") and end["signal"] is not None
            check(end["cause"] != "exit" or early, "no start")

    def check_command_end(self):
        """How the command itself ended is what can have ended it."""
        plan, end = self.plan, self.end
        check(not end["core"] and (end["exit_code"] is None or end["signal"] is None), "how")
        if end["cause"] == "reaper-killed":
            check(end["exit_code"] is None and end["signal"] is None, "who told?")
            return
        sent = set()
        if plan.action == "term":
            sent.add("SIGTERM")
        if plan.action == "burst":
            sent |= {"SIGTERM", "SIGHUP", "SIGUSR1", "SIGRTMIN+1"}
        if end["cause"] != "exit":
            sent |= {"SIG" + name for name in plan.ladder or ["TERM"]} | {"SIGKILL"}
        if end["exit_code"] is not None:
            # The tree's first process may take a SIGTERM by exiting with 15.
            by_itself = plan.life >= 0 and end["exit_code"] == plan.code
            check(by_itself or end["exit_code"] == 15 and "SIGTERM" in sent, "exit_code")
        else:
            check(end["signal"] in sent, "signal", sent)

    def check_counts(self):
        end = self.end
        escalations = [line["signal"] for line in self.lines if line["event"] == "escalate"]
        polite = [name for name in escalations if name != "SIGKILL"]
        kills = escalations[len(polite):]
        # The shim has to begin anew where a reaper was killed that was killing.
        check(kills.count("SIGKILL") == len(kills) <= 1 + (end["cause"] == "reaper-killed"),
              "escalations")
        ladder = ["SIG" + name for name in self.plan.ladder or ["TERM"]]
        check(polite == ladder[1:1 + len(polite)], "escalations")
        check(end["killed"] <= end["reaped"], "killed")
        check(end["killed"] == 0 or escalations[-1:] == ["SIGKILL"], "killed")
        if end["exit_code"] is not None or end["signal"] is not None:
            check(end["reaped"] >= 1, "reaped")
        if end["signal"] == "SIGKILL":
            check(end["killed"] >= 1 or self.lines[0]["event"] != "start", "killed")

    def check_status(self):
        plan, end = self.plan, self.end
        ended = end["exit_code"] is not None or end["signal"] is not None
        signo = self.number(end["signal"]) if end["signal"] else 0
        if end["cause"] == "reaper-killed":
            expected = 125
        elif end["cause"] != "exit" and not (plan.preserve and ended):
            expected = 124 if end["cause"] == "timeout" else 129
        elif not ended:
            expected = 125
        elif signo:
            expected = 128 + signo
        elif end["exit_code"] == 0 and plan.leftovers == "fail" and any(
                line["event"] == "stop" and line["cause"] == "exit" for line in self.lines):
            expected = 123
        else:
            expected = end["exit_code"]
        if expected in plan.remap and end["cause"] != "reaper-killed":
            expected = 0
        check(end["status"] == expected, "status", expected)
        if self.status == -signal.SIGKILL:
            return
        check(self.status == expected or (
            self.status in (-signal.SIGINT, -signal.SIGQUIT) and signo == -self.status and
            expected == 128 + signo), "status and exit status", self.status)

    def number(self, name):
        if name.startswith("SIGRTMIN+"):
            return signal.SIGRTMIN + int(name[9:])
        return getattr(signal, name).value

    def read_errors(self):
        self.errors.seek(0)
        self.said = self.errors.read()

    def check_errors(self):
        if self.plan.verbose:
            return
        killed = b"treewrap: the reaper was killed by SIGKILL; what it left has been ended\n"
        expected = killed if self.end and self.end["cause"] == "reaper-killed" else b""
        check(self.said == expected or self.was_not_run() or self.plan.action == "kill both", "said")

    # ---- all of it ----

    def run(self):
        self.lines, self.status, self.said = [], None, b""
        check(any_child() is None, "a child from before")
        try:
            self.start()
            self.act()
            self.wait()
            self.read_errors()
            self.read_events()
            self.check_nothing_left()
            self.check_events()
            self.check_errors()
        except Exception as failure:
            raise Failure(self.account(failure)) from failure
        finally:
            end_all_children()
            for fd in self.open:
                os.close(fd)
            self.errors.close()

    def account(self, failure):
        return "\n".join([
            "%s" % (failure if isinstance(failure, Failure) else repr(failure)),
            "again by: tests/chaos.py --seed %s --round %d" % (
                self.plan.seed, self.plan.number),
            "plan: %r" % self.plan, "command: %s" % " ".join(self.words),
            "exit status %s, reaper %s, said %r" % (self.status, self.reaper, self.said),
            *["  %s" % json.dumps(line) for line in self.lines]])


def become_subreaper():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_and_tell(seed, numbers):
    """Runs the rounds and prints each failure. Returns how many there were."""
    failures = 0
    become_subreaper()
    for number in numbers:
        try:
            Round(Plan(seed, number)).run()
        except Failure as failure:
            failures += 1
            print("\nFAILED: %s" % failure, flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description="Rounds of chance for treewrap.")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", default=str(random.SystemRandom().getrandbits(32)))
    parser.add_argument("--round", type=int, help="this round alone")
    parser.add_argument("--jobs", type=int, default=1, help="so many rounds at a time")
    arguments = parser.parse_args()
    print("seed %s" % arguments.seed, flush=True)
    if arguments.round is not None:
        plan = Plan(arguments.seed, arguments.round)
        print(plan)
        return run_and_tell(arguments.seed, [arguments.round]) != 0
    # Stopped in the middle, each ends what it has begun.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    jobs = []
    for job in range(arguments.jobs):
        pid = os.fork()
        if pid == 0:
            failures = 100
            try:
                failures = run_and_tell(arguments.seed,
                                        range(job, arguments.rounds, arguments.jobs))
            finally:
                os._exit(min(failures, 100))
        jobs.append(pid)
    failures = sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in jobs)
    print("%d rounds, %s" % (arguments.rounds, "FAILED" if failures else "no failure"))
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
