"""The manuals, --help and the README name the same options."""

import os
import pathlib
import re
import subprocess

import pytest
import tw
from test_ctl import CTL

ROOT = pathlib.Path(tw.ROOT)


PROGRAMS = {"treewrap": tw.TREEWRAP, "treewrapctl": CTL}


def help_of(name):
    text = subprocess.run([PROGRAMS[name], "--help"], capture_output=True, text=True,
                          timeout=30).stdout
    return text.replace("treewrap --id ID", "")  # treewrapctl's names an option of treewrap's


def options_in_help(name="treewrap"):
    text = help_of(name)
    return (set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) |
            set(re.findall(r"(?<![\w-])-[a-z](?![\w-])", text)))


def options_in_manual(name):
    """Those that have an entry of their own."""
    entries = re.findall(r"^\.It (Fl .*)", (ROOT / (name + ".1")).read_text(), re.MULTILINE)
    return {"-" + word for entry in entries
            for word in re.findall(r"(?:Fl|,) (-?[a-z][a-z-]*)", entry)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_manual_is_well_formed(name):
    result = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", ROOT / (name + ".1")],
                            capture_output=True, timeout=30)
    assert result.stdout == b"" and result.returncode == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_manual_has_the_options_of_help(name):
    assert options_in_manual(name) == options_in_help(name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_manual_has_the_words_of_help(name):
    """In the same order: the first is what holds if none is given."""
    manual = re.sub(r"[\n ]*\.Cm ", " ", (ROOT / (name + ".1")).read_text())
    words = re.findall(r"(--[a-z-]+) ([a-z]+(?:\|[a-z]+)+)", help_of(name))
    assert words
    for option, choice in words:
        assert re.search(r"Fl -%s(?: Cm| Ns)? %s\b" % (option[2:], choice.replace("|", r" \| ")),
                         manual), option


def test_readme_names_no_option_that_is_not_there():
    words = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / "README.md").read_text()))
    assert words - options_in_help() - options_in_help("treewrapctl") == set()


def test_install(tmp_path):
    environment = {name: os.environ[name] for name in ("PATH",)}
    subprocess.run(["make", "-s", "-C", ROOT, "install", "DESTDIR=%s" % tmp_path, "PREFIX=/usr"],
                   check=True, capture_output=True, timeout=60, env=environment)
    assert (tmp_path / "usr/bin/treewrap").stat().st_mode & 0o777 == 0o755
    for name in ("man/man1/treewrap.1", "man/man1/treewrapctl.1", "zsh/site-functions/_treewrap",
                 "bash-completion/completions/treewrapctl",
                 "fish/vendor_completions.d/treewrapctl.fish"):
        assert (tmp_path / "usr/share" / name).exists(), name
    assert tw.run("true").status == 0
