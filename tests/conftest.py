import ctypes
import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tw  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def pytest_collection_modifyitems(items):
    """TREEWRAP_BUILD: which of `make sanitize` and `make coverage` has built what is tested."""
    build = os.environ.get("TREEWRAP_BUILD")
    for item in items:
        for marker in item.iter_markers("not_with"):
            if build in marker.args[:-1]:
                item.add_marker(pytest.mark.skip(reason="%s: %s" % (build, marker.args[-1])))


@pytest.fixture
def mark():
    """A word that no other process has in its command line. At the end of the test the
    processes that still have it are ended, by id; that some were left is the test's to
    find, before."""
    word = tw.new_mark()
    yield word
    for pid in tw.marked(word):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    tw.reap_adopted()


@pytest.fixture
def pids_limit():
    """Makes a cgroup that holds so many processes; gives its cgroup.procs."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for a cgroup")
    for root, kind in (("/sys/fs/cgroup/pids", "v1"), ("/sys/fs/cgroup", "v2")):
        if kind == "v1" and os.path.exists(root + "/cgroup.procs"):
            break
        if kind == "v2" and "pids" in tw.read_path(root + "/cgroup.controllers").split():
            pathlib.Path(root, "cgroup.subtree_control").write_text("+pids")
            break
    else:
        pytest.skip("no pids cgroup controller here")
    made = []

    def make(limit):
        path = pathlib.Path(root, "treewrap-%s" % tw.new_mark())
        path.mkdir()
        made.append(path)
        (path / "pids.max").write_text(str(limit))
        return path / "cgroup.procs"

    yield make
    for path in made:
        tw.until(lambda: not (path / "cgroup.procs").read_text(), what="an empty cgroup")
        tw.until(lambda: tw.try_rmdir(path), what="the cgroup's removal")


@pytest.fixture
def prompt():
    """The test gets the CPU at once, whoever else wants it, or it would measure its own waiting;
    what it starts does not."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(2))
    except PermissionError:
        pytest.skip("needs the right to real-time priority")
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.fixture
def absent():
    """Gives the environment in which treewrap finds no file of a name."""
    if not tw.is_dynamic(tw.TREEWRAP):
        pytest.skip("nothing can be preloaded into this build")
    # The loader passes over one that is missing.
    assert os.path.exists(tw.adversary("absent.so"))
    return lambda name: {"LD_PRELOAD": tw.adversary("absent.so"), "ABSENT": name}


@pytest.fixture
def everybodys(mark):
    """Copies programs to where any user gets at them; gives their paths."""
    made = []

    def copy(*paths):
        for path in paths:
            target = pathlib.Path("/var/tmp", "%s-%s" % (mark, os.path.basename(path)))
            target.write_bytes(pathlib.Path(path).read_bytes())
            target.chmod(0o755)
            made.append(target)
        return [str(path) for path in made]

    yield copy
    for path in set(made):
        path.unlink()
