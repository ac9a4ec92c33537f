"""The static program: small, needs nothing, and its stand-ins for libc do what libc does."""

import os
import pathlib
import subprocess

import pytest
import tw

ROOT = pathlib.Path(tw.ROOT)
STATIC = ROOT / "treewrap-static"
SIZE_MAX = 120000
CALLS_MAX = 45


def test_stand_ins(tmp_path):
    """Against libc's own, with arguments by chance."""
    program = tmp_path / "static"
    subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
                    "-Wno-format-truncation", "-fno-builtin", "-O1", "-o", program, ROOT / "tests/static.c"],
                   check=True, timeout=60)
    result = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout
    assert int(result.stdout.splitlines()[-1].split()[0]) > 900000


def test_size():
    assert STATIC.stat().st_size <= SIZE_MAX
    result = subprocess.run(["ldd", STATIC], capture_output=True, text=True, timeout=30)
    assert "not a dynamic executable" in result.stderr


def test_few_calls_before_the_exec(tmp_path):
    """Of shim and reaper until they wait, and of the command's process with its exec."""
    trace = tmp_path / "trace"
    if not tw.can_trace():
        pytest.skip("nothing can be traced here")
    subprocess.run(["strace", "-ff", "-qq", "-e", "signal=none", "-o", trace, STATIC, "/bin/true"], check=True,
                   timeout=tw.LIMIT)
    calls = {"shim": None, "reaper": None, "command": None}
    for file in sorted(tmp_path.iterdir(), key=lambda path: int(path.suffix[1:])):
        lines = [line.split("(")[0] for line in file.read_text().splitlines()]
        who = next(name for name in calls if calls[name] is None)
        calls[who] = (lines[1:lines.index("ppoll") + 1] if who == "shim" else
                      lines[:lines.index("ppoll") + 1] if who == "reaper" else
                      lines[:lines.index("execve") + 1])
    assert lines.count("execve") == 1
    assert sum(map(len, calls.values())) <= CALLS_MAX, calls


@pytest.mark.parametrize("args, status", [
    (["-t", "1", "-k", "0.2"], 124), (["--contain", "pidns", "-t", "1", "-k", "0"], 124),
    (["--contain", "auto", "--id", "auto", "-t", "1", "-k", "0"], 124),
    (["--user", "12345:12345", "--caps", "none", "-t", "1"], 124)])
def test_works(mark, tmp_path, args, status):
    """All the rest is tested with the other program."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for another user")
    result = subprocess.run([STATIC, *args, "sh", "-c", "setsid sleep 60 & echo up; sleep 60", mark],
                            capture_output=True, timeout=tw.LIMIT, stdin=subprocess.DEVNULL,
                            env={**os.environ, "TREEWRAP_RUNTIME_DIR": str(tmp_path / "run")})
    assert (result.returncode, result.stdout, result.stderr) == (status, b"up\n", b"")
    tw.assert_nothing_left(mark)


def test_alone_in_its_root(tmp_path):
    """As in an image from scratch: no library, no /proc, no user database."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to change the root")
    program = tmp_path / "treewrap"
    program.write_bytes(STATIC.read_bytes())
    program.chmod(0o755)
    result = subprocess.run(["chroot", tmp_path, "/treewrap", "--", "/treewrap", "-t", "5", "/treewrap",
                             "--version"], capture_output=True, timeout=tw.LIMIT)
    assert result.returncode == 0 and result.stdout.startswith(b"treewrap ")
    result = subprocess.run(["chroot", tmp_path, "/treewrap", "--user", "nobody", "/treewrap"],
                            capture_output=True, timeout=tw.LIMIT)
    assert (result.returncode, result.stderr) == (125, b"treewrap: --user: 'nobody' is not a user\n")
