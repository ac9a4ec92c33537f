"""Completion in zsh, by keys on a terminal, and in fish, which can be asked. For bash see
tests/test_completion.py; the options' names are compared there for all three."""

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
ALL = "\x18a"  # bound below: insert all that is offered
ZSHRC = """
PS1= PS2= RPS1=; unsetopt zle_bracketed_paste beep prompt_sp; stty -echo
fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -D
zle -C all-matches complete-word _generic
bindkey '^Xa' all-matches
zstyle ':completion:all-matches:*' insert true
zstyle ':completion:all-matches::::' completer _all_matches _complete
treewrap() { printf '\\n%s' ${@/#/word: } 'end of words' '' }
treewrapctl() { if [[ $1 = list && $# = 1 ]]; then command treewrapctl list; else treewrap $@; fi }
compdef '_arguments --own-option' own-command
"""


@pytest.fixture
def run(mark, tmp_path):
    """A run that is known as build-7; gives the environment in which it is."""
    runtime, programs = tmp_path / "runtime", tmp_path / "programs"
    runtime.mkdir(mode=0o700)
    programs.mkdir()
    (programs / "treewrap").symlink_to(tw.TREEWRAP)
    (programs / "treewrapctl").symlink_to(CTL)
    (programs / "own-command").symlink_to("/bin/true")
    place = {"TREEWRAP_RUNTIME_DIR": str(runtime), "HOME": str(tmp_path),
             "PATH": "%s:%s" % (programs, os.environ["PATH"])}
    started = tw.start("--id", "build-7", "sh", "-c", "echo ready; sleep 100; : %s" % mark,
                       env=place)
    tw.ready(started)
    yield place
    started.terminate()
    tw.finish(started)


class Zsh:
    def __init__(self, path, environment):
        (path / "functions").mkdir()
        (path / "functions/_treewrap").write_text((COMPLETIONS / "treewrap.zsh").read_text())
        (path / ".zshrc").write_text(ZSHRC)
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(path)
            os.environ.update(environment, TERM="dumb", ZDOTDIR=str(path))
            os.execvp("zsh", ["zsh", "-d", "-i"])
        self.words("treewrap in place")

    def words(self, keys, limit=30):
        os.write(self.terminal, keys.encode() + b"\r")
        seen, deadline = "", time.monotonic() + limit
        while "\nend of words\r\n" not in seen:
            wait = max(0, deadline - time.monotonic())
            assert select.select([self.terminal], [], [], wait)[0], "only %r" % seen
            seen += os.read(self.terminal, 65536).decode()
        return re.findall(r"\nword: (.*?)\r", seen)

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


def test_zsh(tmp_path, run):
    zsh = Zsh(tmp_path, run)
    try:
        for typed, words in (
                ("treewrap --contain cg\t", "--contain cgroup"),
                ("treewrap --contain=cg\t", "--contain=cgroup"),
                ("treewrap -v --leftovers " + ALL, "-v --leftovers fail leave stop wait"),
                ("treewrap --signal HU\t", "--signal HUP"),
                ("treewrap --signal SIGHU\t", "--signal SIGHUP"),
                ("treewrap --stop-on TERM,HU\t", "--stop-on TERM,HUP"),
                ("treewrap --rewrite TERM:QU\t", "--rewrite TERM:QUIT"),
                ("treewrap --stop-s\t", "--stop-scope"),
                ("treewrap -t 5 own-com\t", "-t 5 own-command"),
                ("treewrap -t 5 own-command --o\t", "-t 5 own-command --own-option"),
                ("treewrap -t 5 -- own-command --o\t", "-t 5 -- own-command --own-option"),
                ("treewrap -- own-command --o\t", "-- own-command --own-option"),
                ("treewrap -t 5 treewrap --contain=cg\t", "-t 5 treewrap --contain=cgroup"),
                ("treewrap --as tim\t", "--as timeout"),
                ("treewrap --as own-command --o\t", "--as own-command --own-option"),
                ("treewrapctl " + ALL, "list signal status stop tree wait"),
                ("treewrapctl status b\t", "status build-7"),
                ("treewrapctl signal build-7 HU\t", "signal build-7 HUP"),
                ("treewrapctl signal build-7 HUP --to m\t", "signal build-7 HUP --to main")):
            made = [word.rstrip() for word in zsh.words(typed)]
            assert made == words.split(), typed
    finally:
        zsh.close()


def fish(typed, environment):
    done = subprocess.run(
        ["fish", "-c", "source %s/treewrap.fish; complete -c own-command -l own-option; "
         "complete -C $argv[1]" % COMPLETIONS, typed], env=dict(os.environ, **environment),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


def test_fish(run):
    for typed, words in (
            ("treewrap --contain ", "auto cgroup pidns tree"),
            ("treewrap --contain=cg", "--contain=cgroup"),
            ("treewrap --stop-on TERM,HU", "TERM,HUP"),
            ("treewrap --rewrite=TERM:QU", "--rewrite=TERM:QUIT"),
            ("treewrap --stop-", "--stop-on --stop-scope"),
            ("treewrap own-command --o", "--own-option"),
            ("treewrap -t 5 -- own-command --o", "--own-option"),
            ("treewrap own-command --contain", ""),
            ("treewrap --as tim", "timeout"),
            ("treewrap --as own-command --o", "--own-option"),
            ("treewrapctl ", "list status tree signal stop wait"),
            ("treewrapctl status ", "build-7"),
            ("treewrapctl list ", ""),
            ("treewrapctl signal build-7 HU", "HUP"),
            ("treewrapctl signal build-7 --to ", "main group tree")):
        assert fish(typed, run) == set(words.split()), typed
