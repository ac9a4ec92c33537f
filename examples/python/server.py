#!/usr/bin/env python3
"""Runs commands for HTTP clients. ../README.md has the interface and the reasons.

    TREEWRAP_RUNTIME_DIR=/run/exec python3 server.py [PORT]

Promises: when a response has ended no process of its run is left, and that is treewrap's
proof, not ours; a client that is gone, and the end of this server by whatever, end the run.
Does not ask who the client is: that belongs in front of it.
"""

import json
import os
import re
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TREEWRAP = os.environ.get("TREEWRAP", "treewrap")
DIRECTORY = os.environ.get("TREEWRAP_RUNTIME_DIR")
REST = 0.25  # seconds for what is in the pipe at the end, should somebody hold it open
LARGEST_BODY = 1 << 20
LONGEST = 24 * 3600
LOST = b'{"event":"end","cause":"lost","exit_code":null,"signal":null,"status":null}\n'


class Refused(Exception):
    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


def milliseconds(request, name, default, least):
    value = request.get(name, default)
    if type(value) not in (int, float) or not least <= value <= LONGEST:
        raise Refused(400, f"{name} must be a number of seconds, {least} to {LONGEST}")
    return f"{round(value * 1000)}ms"


def read_command(request):
    """treewrap's options, and the words of the command."""
    command = request.get("command")
    words = ["sh", "-c", command] if isinstance(command, str) else command
    if not isinstance(words, list) or not words or not all(
            isinstance(word, str) and "\0" not in word for word in words):
        raise Refused(400, "command must be a text or an array of texts")
    return ["-t", milliseconds(request, "timeout", 30, 0.001),
            "-k", milliseconds(request, "kill_after", 5, 0),
            "--", *(word.encode(errors="replace") for word in words)]


def ask(run, line):
    """What the run answers to LINE; nothing if it has ended before it could."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(os.path.join(DIRECTORY, run + ".sock"))
        except (FileNotFoundError, ConnectionRefusedError):
            raise Refused(404, "no such run")
        try:
            connection.sendall(line.encode() + b"\n")
            return connection.makefile("rb").readline()
        except ConnectionError:
            return b""


class Events(threading.Thread):
    """Reads what treewrap tells; at all times, for what finds no room is lost."""

    def __init__(self, pipe):
        super().__init__(daemon=True)
        self.pipe, self.first, self.end = pipe, None, LOST
        self.begun = threading.Event()
        self.start()

    def run(self):
        for line in self.pipe:
            self.first = self.first or line
            if json.loads(line)["event"] == "end":
                self.end = line
            self.begun.set()
        self.begun.set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.answer("POST")

    def do_DELETE(self):
        self.answer("DELETE")

    def answer(self, method):
        self.close_connection = True
        path = re.fullmatch(r"/exec(?:/(exec-[0-9a-f]{16})(/signal)?)?", self.path)
        what = path and (method, bool(path[1]), bool(path[2]))
        try:
            if what == ("POST", False, False):
                self.exec(read_command(self.request_object()))
            elif what == ("POST", True, True):
                self.signal(path[1], self.request_object().get("signal"))
            elif what == ("DELETE", True, False):
                # The process that would have answered may be killed; the other ends the run.
                self.pass_on(ask(path[1], "stop") or ask(path[1], "wait"))
            else:
                raise Refused(404, "no such thing here")
        except Refused as error:
            self.reply(error.status, {"ok": False, "error": str(error)})
        except ConnectionError:
            pass  # nobody is there to be answered

    def send_error(self, code, message=None, explain=None):
        self.reply(code, {"ok": False, "error": message or "HTTP"})  # not a page of HTML

    def request_object(self):
        try:
            length = int(self.headers["Content-Length"])
        except (TypeError, ValueError):
            raise Refused(411, "Content-Length is missing")
        if not 0 <= length <= LARGEST_BODY:
            raise Refused(413, "the body is too large")
        try:
            request = json.loads(self.rfile.read(length))
        except (ValueError, RecursionError) as error:
            raise Refused(400, f"no JSON: {error}")
        if not isinstance(request, dict):
            raise Refused(400, "the body must be an object")
        return request

    def reply(self, status, answer):
        body = json.dumps(answer).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def signal(self, run, name):
        # A line is a request: nothing may come in that would make it two.
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9+]{1,20}", name):
            raise Refused(400, "signal must be a signal's name")
        self.pass_on(ask(run, f"signal {name} tree"))

    def pass_on(self, line):
        if not line:
            raise Refused(404, "the run has ended")
        answer = json.loads(line)
        self.reply(200 if answer["ok"] else 400, answer)

    def exec(self, command):
        run = "exec-" + secrets.token_hex(8)
        status, status_end = os.pipe()
        lifeline_end, lifeline = os.pipe()
        with os.fdopen(lifeline, "wb") as lifeline, os.fdopen(status, "rb") as status:
            try:
                process = subprocess.Popen(
                    [TREEWRAP, "--id", run, "--status-fd", str(status_end),
                     "--watch-fd", str(lifeline_end), "--process-group", "new", *command],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    pass_fds=(status_end, lifeline_end))
            except OSError as error:
                raise Refused(500, f"cannot start: {error}")
            finally:
                os.close(status_end)
                os.close(lifeline_end)
            with process, lifeline:  # the lifeline goes first, whatever happens here
                events = Events(status)
                events.begun.wait()
                if not events.first:
                    said = process.stdout.read().decode(errors="replace").strip()
                    raise Refused(500, f"cannot start: {said}")
                self.stream(run, process, lifeline, events)

    def stream(self, run, process, lifeline, events):
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("X-Exec-Id", run)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        self.copy(process, lifeline)
        events.join()
        self.chunk(b"\n" + events.end)
        self.wfile.write(b"0\r\n\r\n")

    def copy(self, process, lifeline):
        """Output goes to the client as it comes, till treewrap's end."""
        output, client = process.stdout.fileno(), self.connection.fileno()
        ended = os.pidfd_open(process.pid)
        poll = select.poll()
        poll.register(output, select.POLLIN)
        poll.register(client, select.POLLRDHUP)
        poll.register(ended, select.POLLIN)
        try:
            while ended not in (ready := dict(poll.poll())):
                if client in ready:
                    lifeline.close()
                    poll.unregister(client)
                if output in ready:
                    data = os.read(output, 65536)
                    self.chunk(data) if data else poll.unregister(output)
        finally:
            os.close(ended)
        self.chunk(self.rest(output))

    @staticmethod
    def rest(output):
        """What the pipe holds still. So it does its end, unless a stranger has got hold of it."""
        data, deadline = b"", time.monotonic() + REST
        poll = select.poll()
        poll.register(output, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0 and poll.poll(left * 1000):
            more = os.read(output, 65536)
            if not more:
                break
            data += more
        return data

    def chunk(self, data):
        if not data:
            return  # an empty chunk would be the last
        try:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        except ConnectionError:
            pass  # the poll tells of it too; what the command says is read on

    def log_message(self, *args):
        pass


def main():
    if not DIRECTORY:
        sys.exit("server.py: TREEWRAP_RUNTIME_DIR is not set: the directory for control sockets")
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 8080), Handler)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
