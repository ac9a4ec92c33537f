"""Bad input: one line that names the word at fault, 125, and nothing is run."""

import pytest
import tw


@pytest.mark.parametrize("word, args", [
    ("--bogus", ["--bogus"]),
    ("-Z", ["-Z"]),
    ("-Z", ["-vZ"]),
    ("-Z", ["--timeout=5", "-vZ"]),
    ("-t", ["-t"]),
    ("--timeout", ["--timeout"]),
    ("--watch-stdin=3", ["--watch-stdin=3"]),
    ("--verbose=1", ["--verbose=1"]),
    ("'5x'", ["-t", "5x"]),
    ("''", ["-t", ""]),
    ("'-1'", ["-t", "-1"]),
    ("'+1'", ["-t", "+1"]),
    ("' 1'", ["-t", " 1"]),
    ("'1 s'", ["-t", "1 s"]),
    ("'1e3'", ["-t", "1e3"]),
    ("'0x10'", ["-t", "0x10"]),
    ("'.'", ["-t", "."]),
    ("'1.2.3'", ["-t", "1.2.3"]),
    ("'s'", ["-t", "s"]),
    ("'5S'", ["-t", "5S"]),
    ("'inf'", ["-t", "inf"]),
    ("'1,5'", ["-t", "1,5"]),
    ("'99999999999999999999'", ["-t", "99999999999999999999"]),
    ("'200000d'", ["-t", "200000d"]),
    ("'x'", ["--kill-after", "x"]),
    ("'x'", ["--verify-for", "x"]),
    ("'x'", ["--linger", "x"]),
    ("'FOO'", ["--signal", "FOO"]),
    ("'0'", ["--signal", "0"]),
    ("'65'", ["--signal", "65"]),
    ("'-9'", ["--signal", "-9"]),
    ("'RTMIN+31'", ["--signal", "RTMIN+31"]),
    ("'RTMIN-1'", ["--signal", "RTMIN-1"]),
    ("'RTMAX-31'", ["--signal", "RTMAX-31"]),
    ("'SIGSIGTERM'", ["--signal", "SIGSIGTERM"]),
    ("'TERM '", ["--signal", "TERM "]),
    ("'all'", ["--stop-scope", "all"]),
    ("'kill'", ["--leftovers", "kill"]),
    ("'me'", ["--forward-to", "me"]),
    ("'old'", ["--process-group", "old"]),
    ("'TERM'", ["--rewrite", "TERM"]),
    ("'X'", ["--rewrite", "X:INT"]),
    ("'Y'", ["--rewrite", "INT:Y"]),
    ("'KILL'", ["--rewrite", "KILL:INT"]),
    ("''", ["--stop-on", ""]),
    ("'BAR'", ["--stop-on", "TERM,BAR"]),
    ("'KILL'", ["--stop-on", "KILL"]),
    ("'256'", ["-e", "256"]),
    ("'-1'", ["-e", "-1"]),
    ("'1x'", ["-e", "1x"]),
    ("'x'", ["--status-fd", "x"]),
    ("77", ["--status-fd", "77"]),
    ("99999999999", ["--status-fd", "99999999999"]),
    ("78", ["--watch-fd", "78"]),
    ("'0'", ["--watch-pid", "0"]),
    ("'abc'", ["--watch-pid", "abc"]),
    ("--forward-to", ["-g", "--forward-to", "main"]),
    ("--linger", ["--linger", "1", "--leftovers", "wait"]),
    ("--linger", ["--leftovers", "leave", "--linger", "1"]),
    ("descriptor 1", ["--status-fd", "1", "--watch-fd", "1"]),
    ("17", ["--signal=%d" % n for n in range(1, 18)]),
    ("'RTMIN+'", ["--signal", "RTMIN+"]),
    ("'RTMIN+x'", ["--signal", "RTMIN+x"]),
    ("'RTMAX-1x'", ["--signal", "RTMAX-1x"]),
    ("'RTMAX+1'", ["--signal", "RTMAX+1"]),
    ("'100'", ["--signal", "100"]),
    ("--watch-fd: '0'", ["--watch-fd=0"] * 9),
    ("--watch-pid: '1'", ["--watch-pid=1"] * 9),
    ("-p", ["-p", "TERM", "--watch-parent"]),
    ("descriptor 0", ["--watch-stdin", "--status-fd", "0"]),
])
def test_named(tmp_path, word, args):
    witness = tmp_path / "witness"
    # Where the word is an option that lacks its value, it stands last.
    command = [] if args in (["-t"], ["--timeout"]) else ["touch", witness]
    result = tw.run(*args, *command)
    assert result.status == 125
    assert result.err.startswith(b"treewrap: ") and result.err.count(b"\n") == 1
    assert word in result.err.decode()
    assert result.out == b""
    assert not witness.exists()


@pytest.mark.parametrize("args", [[], ["--"], ["-t", "5"], ["-t", "5", "--"]])
def test_no_command(args):
    result = tw.run(*args)
    assert result.status == 125
    assert result.err == b"treewrap: no command given (see treewrap --help)\n"


def test_options_end_at_the_command():
    result = tw.run("-t", "5", "printf", "%s,", "-t", "--help", "--")
    assert result.out == b"-t,--help,--,"
    result = tw.run("--", "printf", "%s,", "-x")
    assert result.out == b"-x,"


@pytest.mark.parametrize("name", [
    "TERM", "SIGTERM", "term", "sigterm", "15", "SigTerm"])
def test_signal_names(name, mark):
    # Ended by TERM, politely: far sooner than --kill-after.
    result = tw.run("-t", "0.1", "--signal", name, "-k", "30", "sleep", "60")
    assert result.status == 124 and result.took < 10


@pytest.mark.parametrize("name, number", [
    ("RTMIN", 34), ("SIGRTMIN+3", 37), ("RTMAX", 64), ("rtmax-4", 60), ("IOT", 6), ("CLD", 17)])
def test_signal_numbers(name, number, mark):
    process = tw.start("-t", "1.5", "-k", "0.2", "--signal", name, tw.adversary("signals"), mark)
    tw.ready(process)
    lines = [line.split() for line in tw.finish(process).out.decode().splitlines()]
    # Both were pending at once: the kernel hands out the lower number first.
    assert sorted(int(line[0]) for line in lines) == sorted([number, 18])


def test_status_to_what_cannot_be_written(tmp_path):
    with open("/etc/passwd") as file:
        result = tw.run("--status-fd", file.fileno(), "touch", tmp_path / "witness",
                        pass_fds=[file.fileno()])
    assert result.status == 125 and b"is open for reading only" in result.err
    assert not (tmp_path / "witness").exists()
