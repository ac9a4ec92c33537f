"""The benchmark's harness, with counts so small that only its rows can be tested and not what
they say."""

import os
import subprocess

import pytest

import tw

BENCH = os.path.join(tw.ROOT, "build", "bench", "bench")
PARTS = {  # section: the rows that it has at least
    "1. ": ["bare", "treewrap-static / bare", "treewrap-static", "treewrap", "unshare",
            "page faults: treewrap-static"],
    "2. ": ["20 wide, kernel", "20 deep, treewrap-static / kernel", "4 wide of 10 threads, kernel",
            "growth: one of 20 wide / one of 10"],
    "3. ": ["rate, process 1: treewrap-static", "zombies, subreaper: treewrap"],
    "4. ": ["bare", "treewrap-static", "treewrap"],
    "5. ": ["treewrap-static: private", "treewrap-static: growth", "treewrap: Pss"],
    "6. ": ["treewrap-static", "treewrap", "timeout"],
    "7. Time": ["%s, 30, %s, %s" % (kind, contain, priority) for kind in ("setsid", "group")
                for contain in ("tree", "cgroup", "pidns") for priority in ("priority", "none")],
    "7. ...": ["setsid, 60, tree, priority", "group, 60, pidns, none"],
}


pytestmark = [
    pytest.mark.heavy,
    pytest.mark.not_with("sanitize", "coverage", "measures what the Makefile builds, and no other"),
]


def bench(folder, *arguments, **keywords):
    assert os.path.exists(BENCH), "make treewrap-static bench-programs"
    return subprocess.run([BENCH, folder, *arguments], cwd=tw.ROOT, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=tw.LIMIT, text=True, **keywords)


def sections(table):
    """What each section of the table has in its rows: the first cell, and the others."""
    found, rows = {}, {}
    for line in table.splitlines():
        if line.startswith("## "):
            rows = found.setdefault(line[3:], {})
        elif line.startswith("| ") and "---" not in line and not line.startswith("| what "):
            what, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows[what] = cells
    return found


def section(found, start):
    [name] = [name for name in found if name.startswith(start)]
    return found[name]


def test_bench_has_all_rows(pids_limit, tmp_path):
    result = bench(tmp_path, "tiny", "1")
    assert result.returncode == 0, result.stderr
    table = (tmp_path / "README.md").read_text()
    assert table == result.stdout
    found = sections(table)
    assert len(found) == len(PARTS)
    for start, rows in PARTS.items():
        there = section(found, start)
        for row in rows:
            assert row in there, (row, sorted(there))
            median, quartiles, count = there[row][:3]
            if int(count) == 0:
                # What has not ended in time is a finding; the rest of these is never missing.
                assert quartiles == "not in time", (row, there[row])
            else:
                low, high = map(float, quartiles.split(" - "))
                assert 0 <= float(low) <= float(median) <= float(high), (row, there[row])


def test_bench_names_what_is_missing(tmp_path):
    """With nothing installed but treewrap, the peers are named and have rows all the same."""
    result = bench(tmp_path, "tiny", "1", "head", "start", "signal",
                   env={"PATH": str(tmp_path)})
    assert result.returncode == 0, result.stderr
    [line] = [line for line in result.stdout.splitlines() if line.startswith("Missing: ")]
    assert line == ("Missing: tini-static, tini, dumb-init, catatonit, timeout, bwrap, "
                    "unshare.")
    found = sections(result.stdout)
    for start in "1. ", "4. ":
        assert section(found, start)["tini"][1] == "missing"
        assert section(found, start)["treewrap / tini"][1] == "missing"
        assert section(found, start)["treewrap-static"][1] != "missing"


def test_bench_refuses_what_it_does_not_know(tmp_path):
    for arguments, message in (([], "usage: bench"), (["huge", "1"], "usage: bench"),
                               (["tiny", "1", "bomb"], "no such part: bomb")):
        result = bench(tmp_path, *arguments)
        assert result.returncode == 1
        assert message in result.stderr
