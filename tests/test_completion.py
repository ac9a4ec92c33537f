"""Completion: bash is driven for real, by keys on a terminal. What it has made of the line is
seen by the words that a function gets which stands for the program."""

import itertools
import os
import pathlib
import pty
import re
import select
import subprocess
import time

import pytest
import tw
from test_ctl import CTL

COMPLETIONS = pathlib.Path(tw.ROOT, "completions")
AUTOLOADER = "/usr/share/bash-completion/bash_completion"
ALL = "\x1b*"  # readline: insert all that is offered
TAB = "\t"


class Shell:
    """An interactive bash that knows the completion. Its treewrap prints its words."""

    def __init__(self, lines, path, environment={}):
        rc = path / "rc"
        rc.write_text("\n".join((
            "PS1=; bind 'set enable-bracketed-paste off'; bind 'set completion-query-items 0'",
            "bind 'set show-all-if-ambiguous off'",
            lines,
            "source %s/treewrap.bash" % COMPLETIONS,
            "treewrap() { printf '\\n%s' \"${@/#/word: }\" 'end of words' ''; }",
            "stand-in-for-one() { :; }")))
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(path)
            os.environ.update(environment, TERM="dumb", HISTFILE="")
            os.execvp("bash", ["bash", "--noprofile", "--rcfile", str(rc), "-i"])
        self.number = itertools.count()
        self.say("stty -echo; printf 'now%s\\n' 0")
        self.read_to("now0\r\n")

    def say(self, keys):
        os.write(self.terminal, keys.encode() + b"\r")

    def read_to(self, word, limit=20):
        seen, deadline = "", time.monotonic() + limit
        while word not in seen:
            wait = max(0, deadline - time.monotonic())
            assert select.select([self.terminal], [], [], wait)[0], "only %r" % seen
            seen += os.read(self.terminal, 65536).decode()
        return seen

    def words(self, keys):
        """What treewrap is called with after these keys and return."""
        self.say(keys)
        seen = self.read_to("\nend of words\r\n")
        return re.findall(r"\nword: (.*?)\r", seen)

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


@pytest.fixture(params=["by itself", "with bash-completion"])
def shell(request, tmp_path):
    lines = ""
    if request.param != "by itself":
        assert os.path.exists(AUTOLOADER), "the package bash-completion is missing"
        lines = "source %s" % AUTOLOADER
    made = Shell(lines, tmp_path)
    yield made
    made.close()


def options_of(program):
    text = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=30).stdout
    text = text.replace("treewrap --id ID", "")  # treewrapctl's help names treewrap's
    return (set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) |
            set(re.findall(r"(?<![\w-])-[a-z](?![\w-])", text)))


BOTH = options_of(tw.TREEWRAP) | options_of(CTL)


def test_help_is_understood():
    assert {"--timeout", "-t", "-p", "-g", "--watch-fd", "--to", "--json"} <= BOTH


def test_bash_offers_the_options_of_help(shell):
    assert set(shell.words("treewrap -" + ALL)) - {"--"} == options_of(tw.TREEWRAP)


def test_zsh_has_the_options_of_help():
    text = (COMPLETIONS / "treewrap.zsh").read_text()
    named = set(re.findall(r"(?<=['{*,)])(--?[a-z][a-z-]*)(?=[+=\[},])", text))
    assert named == BOTH


def test_fish_has_the_options_of_help():
    text = (COMPLETIONS / "treewrap.fish").read_text()
    lines = [line for line in text.splitlines() if line.startswith("complete ")]
    named = {"--" + name for line in lines for name in re.findall(r" -l ([a-z-]+)", line)}
    named |= {"-" + name for line in lines for name in re.findall(r" -s ([a-z])", line)}
    assert named == BOTH


@pytest.mark.parametrize("option, words", [
    ("--contain", "auto cgroup pidns tree"), ("--leftovers", "fail leave stop wait"),
    ("--stop-scope", "main tree"), ("--forward-to", "group main tree"),
    ("--process-group", "keep new"), ("--as", "catatonit docker-init dumb-init timeout tini"), ("--id", "auto"), ("--caps", "none")])
def test_words_of_options(shell, option, words):
    assert shell.words("treewrap %s %s" % (option, ALL)) == [option] + words.split()
    first = words.split()[0]
    assert shell.words("treewrap %s=%s%s" % (option, first[:2], TAB)) == [
        "%s=%s" % (option, first)]
    assert shell.words("treewrap -v -t 5 %s %s%s" % (option, first[:2], TAB)) == [
        "-v", "-t", "5", option, first]


@pytest.mark.parametrize("typed, made", [
    ("--signal HU", "--signal HUP"), ("--signal SIGHU", "--signal SIGHUP"),
    ("--signal=HU", "--signal=HUP"), ("-p USR1", "-p USR1"), ("-vp HU", "-vp HUP"),
    ("--stop-on TERM,HU", "--stop-on TERM,HUP"), ("--stop-on=TERM,HU", "--stop-on=TERM,HUP"),
    ("--rewrite TERM:QU", "--rewrite TERM:QUIT"), ("--rewrite=TERM:QU", "--rewrite=TERM:QUIT"),
    ("--rewrite HU", "--rewrite HUP"), ("--user roo", "--user root"),
    ("--user root:roo", "--user root:root"), ("--stop-s", "--stop-scope"),
    ("--watch-pid 1 --stop-s", "--watch-pid 1 --stop-scope")])
def test_completes(shell, typed, made):
    assert shell.words("treewrap %s%s" % (typed, TAB)) == made.split()


@pytest.mark.parametrize("before", ["", "-- ", "-t 5 ", "-vt 5 ", "-t5 ", "--contain tree ",
                                    "--contain=tree ", "--rewrite TERM:HUP ", "-v -- "])
def test_the_command_completes_itself(shell, tmp_path, before):
    (tmp_path / "some-file").touch()
    assert shell.words("treewrap %sstand-in-f%s" % (before, TAB)) == before.split() + [
        "stand-in-for-one"]
    assert shell.words("treewrap %scat some-f%s" % (before, TAB)) == before.split() + [
        "cat", "some-file"]


def test_the_commands_own_options(tmp_path):
    shell = Shell("source %s; _own() { COMPREPLY=(--own-option); }; complete -F _own own-command"
                  % AUTOLOADER, tmp_path)
    try:
        assert shell.words("treewrap -t 5 own-command --%s" % TAB) == [
            "-t", "5", "own-command", "--own-option"]
        shell.say("complete -W --foreground timeout")
        assert shell.words("treewrap --as timeout --f" + TAB) == ["--as", "timeout", "--foreground"]
        assert shell.words("treewrap -- treewrap --contain cg" + TAB) == [
            "--", "treewrap", "--contain", "cgroup"]
    finally:
        shell.close()


def test_treewrapctl(tmp_path, mark):
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    place = {"TREEWRAP_RUNTIME_DIR": str(runtime)}
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "treewrapctl").symlink_to(CTL)
    shell = Shell("PATH=%s:$PATH\nsource %s" % (programs, AUTOLOADER), tmp_path, place)
    run = tw.start("--id", "build-7", "sh", "-c", "echo ready; sleep 100; : %s" % mark, env=place)
    try:
        tw.ready(run)
        # The real one is asked for the ids.
        shell.say('treewrapctl() { if [ -n "$COMP_LINE" ]; then command treewrapctl "$@"; '
                  'else treewrap "$@"; fi; }')
        for typed, words in (
                (ALL, "list signal status stop tree wait"), ("status " + TAB, "status build-7"),
                ("--json tree b" + TAB, "--json tree build-7"),
                ("signal build-7 HU" + TAB, "signal build-7 HUP"),
                ("signal build-7 HUP --to m" + TAB, "signal build-7 HUP --to main"),
                ("--to=gr" + TAB, "--to=group"), ("list " + TAB, "list")):
            assert shell.words("treewrapctl " + typed) == words.split()
        assert set(shell.words("treewrapctl -" + ALL)) == options_of(CTL)
    finally:
        run.terminate()
        tw.finish(run)
        shell.close()


def test_the_autoloader_finds_both(tmp_path):
    """Installed, each is loaded when it is first needed."""
    subprocess.run(["make", "-s", "-C", tw.ROOT, "install-data", "DESTDIR=%s" % tmp_path,
                    "PREFIX=/usr"], check=True, capture_output=True, timeout=60,
                   env={"PATH": os.environ["PATH"]})
    place = tmp_path / "usr/share/bash-completion/completions"
    for name in ("treewrap", "treewrapctl"):
        out = subprocess.run(
            ["bash", "--norc", "-c", "source %s; _completion_loader %s; complete -p %s" % (
                AUTOLOADER, name, name)], capture_output=True, text=True, timeout=30,
            env={"PATH": os.environ["PATH"], "BASH_COMPLETION_USER_DIR": str(place.parent)})
        assert out.stdout.strip() == "complete -F _%s %s" % (name, name)
