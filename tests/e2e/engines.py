"""Container engines of the tests' own: podman with runc, podman with crun, Docker's.

Each has a mount namespace, in which /run and /var/lib are empty, and a directory for all that it keeps; when
it is closed its containers, daemons, cgroups and mounts are gone, or that is an error. crun
takes a hierarchy of cgroups of version 2 alone, which that namespace has then.
"""

import glob
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import tw

STATIC = os.path.join(tw.ROOT, "treewrap-static")
APPLETS = "sh sleep cat kill ps setsid true touch mkfifo".split()
V2 = "umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && "
CGROUPS = ("/sys/fs/cgroup/*/libpod_parent", "/sys/fs/cgroup/*/docker",
           "/sys/fs/cgroup/libpod_parent", "/sys/fs/cgroup/docker")
LIMIT = 60


def root_of_image(path):
    """busybox and treewrap, and nothing else."""
    programs = pathlib.Path(path, "bin")
    programs.mkdir(parents=True)
    pathlib.Path(path, "tmp").mkdir()
    shutil.copy(shutil.which("busybox"), programs)
    shutil.copy(STATIC, programs / "treewrap")
    for name in APPLETS:
        (programs / name).symlink_to("busybox")


def remove_cgroups():
    for pattern in CGROUPS:
        for top in glob.glob(pattern):
            for path, _, _ in os.walk(top, topdown=False):
                tw.until(lambda: tw.try_rmdir(path), what="removal of " + path)


def controllers():
    return tw.read_path("/sys/fs/cgroup/unified/cgroup.subtree_control").split()


class Engine:
    program, runs, global_words, room = None, [], [], ""

    def __init__(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="treewrap-engine-"))
        self.controllers = controllers()
        # Whatever becomes of the tests, all that came out of this ends with it.
        self.holder = subprocess.Popen(
            [tw.TREEWRAP, "--watch-parent", "-k", "20", "--", "unshare", "--mount", "sh", "-ec",
             self.room + "mount -t tmpfs none /run; mount -t tmpfs none /var/lib; echo $$; "
             "exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        line = self.holder.stdout.readline()
        assert line, "no mount namespace"
        self.within = ["nsenter", "--mount=/proc/%d/ns/mnt" % int(line)]
        try:
            self.open()
            self.make_images()
        except BaseException:
            self.close()
            raise

    def open(self):
        pass

    def words(self, *words):
        return [*self.within, self.program, *map(str, self.global_words), *map(str, words)]

    def start(self, *words, **keywords):
        """The engine's client, as a process of ours that can be killed."""
        return subprocess.Popen(self.words(*words), **keywords)

    def call(self, *words, status=0, **keywords):
        keywords.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run(self.words(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=LIMIT, **keywords)
        assert status is None or done.returncode == status, (
            "%s %s: %d\n%s%s" % (self.program, words, done.returncode, done.stdout, done.stderr))
        return done

    def run(self, *words, status=0):
        return self.call("run", "--rm", *self.runs, *words, status=status).stdout

    def detach(self, *words):
        """Starts a container, and gives its name."""
        return self.call("run", "-d", *self.runs, *words).stdout.strip()

    def inspect(self, name):
        return json.loads(self.call("inspect", name).stdout)[0]

    def first(self, name):
        """The container's process 1, as the machine counts."""
        return self.inspect(name)["State"]["Pid"]

    def build(self, name, context):
        """By its Dockerfile; gives the image's name."""
        self.call("build", "-t", name, context)
        return name

    def make_images(self):
        """first: treewrap is the entry point; bare: there is none."""
        root = self.work / "image"
        root_of_image(root)
        for name, change in (("first", ["--change", 'ENTRYPOINT ["/bin/treewrap", "--"]']),
                             ("bare", [])):
            with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as tar:
                self.call("import", *change, "-", name + ":1", stdin=tar.stdout)

    def close(self):
        try:
            self.remove_containers()
        finally:
            self.holder.terminate()
            tw.finish(self.holder)
            self.end_daemons()
            remove_cgroups()
            for name in set(controllers()) - set(self.controllers):
                pathlib.Path("/sys/fs/cgroup/unified/cgroup.subtree_control").write_text("-" + name)
            shutil.rmtree(self.work)
        self.assert_nothing_left()

    def end_daemons(self):
        """What podman has left (conmon) is an orphan of ours."""
        for pid in tw.marked(str(self.work)):
            tw.kill(pid)
            tw.wait_gone(pid)
        tw.reap_adopted()

    def assert_nothing_left(self):
        tw.assert_nothing_left(str(self.work))
        assert str(self.work) not in tw.read_path("/proc/self/mounts")
        assert not [path for pattern in CGROUPS for path in glob.glob(pattern)]

    def remove_containers(self):
        self.call("rm", "-f", *self.call("ps", "-aq").stdout.split(), status=None)


class Podman(Engine):
    program = "podman"
    # podman asks for more than a machine may give by default.
    runs = ["--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
    runtime = "runc"

    @property
    def global_words(self):
        return ["--root", self.work / "root", "--runroot", self.work / "run", "--tmpdir",
                self.work / "tmp", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs",
                "--events-backend", "file", "--runtime", self.runtime]

    def with_init(self):
        return ["--init", "--init-path", STATIC]

    def remove_containers(self):
        self.call("rm", "-a", "-f", "-t", "0")


class Crun(Podman):
    runtime = "crun"
    room = V2
    runs = [*Podman.runs, "--cgroups=disabled"]


class Docker(Engine):
    program = "/usr/bin/docker"
    runs = ["--network", "none"]

    @property
    def global_words(self):
        return ["-H", "unix://%s/socket" % self.work]

    def open(self):
        # By the name by which it is asked for its version.
        (self.work / "docker-init").symlink_to(STATIC)
        # Its containers' shims become its orphans, and end with it.
        self.daemon = subprocess.Popen(
            [tw.TREEWRAP, "--watch-parent", "-k", "20", "--", *self.within, "dockerd",
             *self.global_words, "--data-root", self.work / "data", "--exec-root",
             self.work / "exec", "-p", self.work / "pid", "--init-path", self.work / "docker-init",
             "--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false",
             "--ip-masq=false", "--storage-driver=vfs",
             "--exec-opt", "native.cgroupdriver=cgroupfs"],
            stdin=subprocess.DEVNULL, stdout=open(self.work / "log", "w"),
            stderr=subprocess.STDOUT)
        try:
            tw.until(lambda: self.daemon.poll() is not None or
                     self.call("version", status=None).returncode == 0, LIMIT, "Docker's engine")
            assert self.daemon.poll() is None
        except AssertionError:
            raise AssertionError(tw.read_path(self.work / "log"))

    def with_init(self):
        return ["--init"]

    def end_daemons(self):
        self.daemon.terminate()
        tw.finish(self.daemon)
        super().end_daemons()


ENGINES = {"podman-runc": Podman, "podman-crun": Crun, "docker": Docker}
