"""The manual, --help and the README name the same options."""

import os
import pathlib
import re
import subprocess

import tw
from test_ctl import CTL

ROOT = pathlib.Path(tw.ROOT)


def options_in_help():
    return set(re.findall(r"--[a-z-]+", tw.run("--help").out.decode())) - {"--"}


def test_manual_is_well_formed():
    result = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", ROOT / "treewrap.1"],
                            capture_output=True, timeout=30)
    assert result.stdout == b"" and result.returncode == 0


def test_manual_has_every_option():
    manual = (ROOT / "treewrap.1").read_text()
    missing = [option for option in options_in_help() if "Fl -" + option[2:] not in manual]
    assert not missing


def test_readme_names_no_option_that_is_not_there():
    words = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / "README.md").read_text()))
    client = subprocess.run([CTL, "--help"], capture_output=True, text=True, timeout=30).stdout
    assert words - options_in_help() - set(re.findall(r"--[a-z-]+", client)) == set()


def test_install(tmp_path):
    environment = {name: os.environ[name] for name in ("PATH",)}
    subprocess.run(["make", "-s", "-C", ROOT, "install", "DESTDIR=%s" % tmp_path, "PREFIX=/usr"],
                   check=True, capture_output=True, timeout=60, env=environment)
    assert (tmp_path / "usr/bin/treewrap").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "usr/share/man/man1/treewrap.1").exists()
    assert tw.run("true").status == 0
