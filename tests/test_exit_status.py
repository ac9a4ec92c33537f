"""The exit contract, row by row."""

import os
import signal
import subprocess

import pytest
import tw


def status(*args, **keywords):
    return tw.run(*args, **keywords).status


@pytest.mark.parametrize("code", [0, 1, 2, 42, 123, 124, 125, 126, 127, 128, 255])
def test_own_status(code):
    result = tw.run("sh", "-c", "exit %d" % code)
    assert result.status == code
    assert result.err == b""


@pytest.mark.parametrize("signo", [s for s in range(1, 65) if s not in (
    signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH,
    signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)])
def test_ended_by_signal(signo, tmp_path):
    # Raw, for libc refuses two of them (which make leaves ignored). In tmp_path, where a core
    # file does not matter.
    code = "import ctypes,os,resource; resource.setrlimit(resource.RLIMIT_CORE,(0,0)); " \
           "c=ctypes.CDLL(None); c.syscall(13,%d,b'\\0'*32,None,8); r=c.syscall(62,os.getpid(),%d); " \
           "print(r, open('/proc/self/status').read())" % (signo, signo)
    if os.uname().machine != "x86_64" and signo in (32, 33):
        pytest.skip("the number of kill(2) is x86-64's")
    result = tw.run("/usr/bin/python3", "-c", code, cwd=tmp_path)
    if signo in (signal.SIGINT, signal.SIGQUIT):
        assert result.status == -signo
    else:
        assert result.status == 128 + signo, result
    assert not list(tmp_path.iterdir())


def test_int_is_plain_status_as_pid_1():
    result = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", tw.TREEWRAP,
                             "sh", "-c", "kill -INT $$; sleep 5"], timeout=30)
    assert result.returncode == 130


@pytest.mark.parametrize("policy, code, expected", [
    ("stop", 0, 0), ("stop", 3, 3), ("fail", 0, 123), ("fail", 3, 3), ("wait", 0, 0)])
def test_leftovers(mark, policy, code, expected):
    lifetime = "0.3" if policy == "wait" else "1000"
    assert status("--leftovers", policy, "sh", "-c", "sleep %s & : %s; exit %d" % (
        lifetime, mark, code)) == expected
    tw.assert_nothing_left(mark)


def test_leftovers_that_end_in_time_are_no_failure():
    assert status("--leftovers", "fail", "--linger", "5", "sh", "-c", "sleep 0.2 & exit 0") == 0


def test_leftovers_left(mark):
    result = tw.run("--leftovers", "leave", "sh", "-c",
                    "exec >/dev/null 2>&1; %s %s setsid & exit 3" % (tw.adversary("escape"), mark))
    assert result.status == 3
    assert tw.until(lambda: tw.marked(mark))


def test_timeout():
    result = tw.run("-t", "0.05", "sleep", "60")
    assert result.status == 124
    assert 0.05 <= result.took < 8
    assert result.err == b""


def test_timeout_that_needs_sigkill(mark):
    result = tw.run("-t", "0.3", "-k", "0.2", "sh", "-c", "trap '' TERM; while :; do sleep 9; done",
                    mark)
    assert result.status == 124
    assert 0.5 <= result.took < 8
    tw.assert_nothing_left(mark)


@pytest.mark.parametrize("how, expected", [
    ("exit 5", 5), ("kill -KILL $$", 137)])
def test_preserve_status(how, expected):
    assert status("--preserve-status", "-t", "0.2", "sh", "-c",
                  "trap '%s' TERM; while :; do sleep 0.01; done" % how) == expected


def test_not_found():
    for name in ("surely-not-there", "/surely/not/there", "./surely-not-there", "",
                 "/etc/passwd/below"):
        result = tw.run(name)
        assert result.status == 127
        assert result.err.decode() == "treewrap: cannot run '%s': not found\n" % name


def test_cannot_run(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("exit 0\n")
    orphan = tmp_path / "no-interpreter"
    orphan.write_text("#!/surely/not/there\n")
    orphan.chmod(0o755)
    for name, reason in ((str(plain), "Permission denied"), (str(tmp_path), "it is a directory"),
                         (str(orphan), "the interpreter or loader that it names is missing")):
        result = tw.run(name)
        assert result.status == 126
        assert result.err.decode() == "treewrap: cannot run '%s': %s\n" % (name, reason)


def test_path_search_as_execvp(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir(), second.mkdir()
    (first / "tool").write_text("not to be run")
    (first / "only-first").write_text("not to be run")
    (second / "tool").write_text('echo "$0 $*"; exit 9\n')  # without #!
    (second / "tool").chmod(0o755)
    path = "%s::/surely/not:%s:/usr/bin:/bin" % (first, second)
    result = tw.run("tool", "a", "b c", env={"PATH": path})
    assert (result.status, result.out.decode()) == (9, "%s/tool a b c\n" % second)
    assert tw.run("only-first", env={"PATH": path}).status == 126
    assert tw.run("none", env={"PATH": path}).status == 127
    # An empty part is the working directory.
    (tmp_path / "here").write_text("exit 8\n")
    (tmp_path / "here").chmod(0o755)
    assert tw.run("here", env={"PATH": path}, cwd=tmp_path).status == 8




def test_remap():
    assert status("-e", "143", "-e", "7", "sh", "-c", "exit 7") == 0
    assert status("-e", "143", "sh", "-c", "kill $$") == 0
    assert status("-e", "130", "sh", "-c", "kill -INT $$") == 0
    assert status("-e", "124", "-t", "0.05", "sleep", "9") == 0
    assert status("-e", "7", "sh", "-c", "exit 8") == 8


def test_remap_every_status():
    for code in range(0, 256, 5):
        assert status("-e", code, "sh", "-c", "exit %d" % code) == 0
        assert status("-e", code, "sh", "-c", "exit %d" % (code ^ 1)) == code ^ 1


def test_timeout_of_zero_is_never():
    assert status("-t", "0", "sleep", "0.2") == 0


def test_duration_units():
    for word in ("50ms", "0.05", "0.05s", ".05", "50.5ms", "0.001m", "0.00001h"):
        result = tw.run("-t", word, "sleep", "60")
        assert result.status == 124 and result.took < 8, (word, result)


def test_one_millisecond_and_years():
    assert status("-t", "1ms", "sleep", "60") == 124
    assert status("-t", "0.0000000001", "sleep", "60") == 124
    assert status("-t", "36500d", "true") == 0
    assert status("-t", "100000d", "-k", "100000d", "--verify-for", "100000d", "true") == 0


def test_usage_goes_to_stdout():
    result = tw.run("--help")
    assert result.status == 0 and result.err == b"" and b"--timeout" in result.out
    assert tw.run("--version").out.startswith(b"treewrap ")
    with open("/dev/full", "wb") as full:
        assert tw.run("--help", stdout=full).status == 125


def test_closed_standard_streams():
    # Nothing of ours may take their numbers and be written to as if it were them.
    script = '"$@" <&- >&- 2>&-'
    result = subprocess.run(["sh", "-c", script, "sh", tw.TREEWRAP, "-v", "-t", "0.3", "sh", "-c",
                             "for fd in 0 1 2; do [ ! -e /proc/$$/fd/$fd ] || exit 9; done; exit 6"],
                            timeout=30)
    assert result.returncode == 6
