"""systemd as process 1, of namespaces and a cgroup of its own. It sees the machine's files."""

import os
import pathlib
import subprocess
import tempfile

import tw

HERE = pathlib.Path(__file__).parent
TARGETS = ("basic", "sysinit", "shutdown", "umount", "final", "exit", "multi-user", "room")
LIMIT = 60


class Systemd:
    def __init__(self, units={}):
        self.work = tempfile.TemporaryDirectory(prefix="treewrap-systemd-")
        for name in TARGETS:
            text = "[Unit]\nDescription=%s\nDefaultDependencies=no\n" % name
            pathlib.Path(self.work.name, name + ".target").write_text(text)
        for name, text in units.items():
            pathlib.Path(self.work.name, name).write_text(text)
        self.cgroup = pathlib.Path(self.cgroups(), os.path.basename(self.work.name))
        self.cgroup.mkdir()
        # It ends with us, whatever happens.
        self.process = subprocess.Popen(
            [tw.TREEWRAP, "--watch-parent", "-k", "0", "--stop-on", "TERM", "--", "sh", "-c",
             'echo 0 >"$0" && exec "$@"', self.cgroup / "cgroup.procs", "unshare", "--pid",
             "--fork", "--mount", "--cgroup", "--uts", "--net", "--ipc", "--mount-proc",
             "--kill-child", "sh", HERE / "booted.sh", self.work.name],
            stdin=subprocess.DEVNULL, stdout=open(self.work.name + "/log", "w"),
            stderr=subprocess.STDOUT)
        try:
            tw.until(self.is_running, LIMIT, "systemd")
        except BaseException:
            text = tw.read_path(self.work.name + "/log")
            self.close()
            raise AssertionError(text)

    @staticmethod
    def cgroups():
        lines = [line.split() for line in tw.read_path("/proc/self/mounts").splitlines()]
        return next(line[1] for line in lines if line[2] == "cgroup2")

    def is_running(self):
        assert self.process.poll() is None
        found = [pid for pid in tw.pids() if b"--unit=room.target" in tw.read_proc(pid, "cmdline") and
                 tw.read_proc(pid, "comm") == b"systemd\n" and
                 self.cgroup.name in tw.read_path("/proc/%d/cgroup" % pid)]
        if not found:
            return False
        self.within = ["nsenter", "--target", str(found[0]), "--mount", "--pid", "--cgroup",
                       "--uts", "--net", "--ipc"]
        return self.call("systemctl", "is-active", "room.target").returncode == 0

    def call(self, *words, **keywords):
        return subprocess.run([*self.within, *map(str, words)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT, **keywords)

    def close(self):
        self.process.terminate()
        self.process.wait(LIMIT)
        for path, _, _ in os.walk(self.cgroup, topdown=False):
            tw.until(lambda: tw.try_rmdir(path), what="removal of " + path)
        self.work.cleanup()
        tw.assert_nothing_left(self.work.name)
