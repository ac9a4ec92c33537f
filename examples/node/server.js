'use strict';
/*
 * Runs commands for HTTP clients. ../README.md has the interface and the reasons.
 *
 *     TREEWRAP_RUNTIME_DIR=/run/exec node server.js [PORT]
 *
 * Promises: when a response has ended no process of its run is left, and that is treewrap's
 * proof, not ours; a client that is gone, and the end of this server by whatever, end the run.
 * Does not ask who the client is: that belongs in front of it.
 *
 * Node's pipes are sockets: what a command writes arrives, but it cannot open /dev/stdout.
 */
const { spawn } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { once } = require('node:events');
const http = require('node:http');
const net = require('node:net');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');

const TREEWRAP = process.env.TREEWRAP || 'treewrap';
const DIRECTORY = process.env.TREEWRAP_RUNTIME_DIR;
const REST_MS = 250; // for what is in the pipe at the end, should somebody hold it open
const LARGEST_BODY = 1 << 20;
const LONGEST = 24 * 3600;
const LOST = '{"event":"end","cause":"lost","exit_code":null,"signal":null,"status":null}';

class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

function milliseconds(request, name, standard, least) {
  const value = request[name] ?? standard;
  if (typeof value !== 'number' || !(value >= least && value <= LONGEST))
    throw new Refused(400, `${name} must be a number of seconds, ${least} to ${LONGEST}`);
  return `${Math.round(value * 1000)}ms`;
}

/* treewrap's options, and the words of the command. */
function readCommand(request) {
  const { command } = request;
  const words = typeof command === 'string' ? ['sh', '-c', command] : command;
  if (!Array.isArray(words) || words.length === 0 ||
      !words.every((word) => typeof word === 'string' && !word.includes('\0')))
    throw new Refused(400, 'command must be a text or an array of texts');
  return ['-t', milliseconds(request, 'timeout', 30, 0.001),
    '-k', milliseconds(request, 'kill_after', 5, 0), '--', ...words];
}

async function readObject(req) {
  const parts = [];
  let length = 0;
  for await (const part of req) {
    parts.push(part);
    length += part.length;
    if (length > LARGEST_BODY)
      throw new Refused(413, 'the body is too large');
  }
  let request;
  try {
    request = JSON.parse(Buffer.concat(parts));
  } catch (error) {
    throw new Refused(400, `no JSON: ${error.message}`);
  }
  if (typeof request !== 'object' || request === null || Array.isArray(request))
    throw new Refused(400, 'the body must be an object');
  return request;
}

/* What the run answers to LINE; nothing if it has ended before it could. */
function ask(run, line) {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = net.connect(path.join(DIRECTORY, `${run}.sock`));
    socket.setEncoding('utf8');
    socket.on('connect', () => socket.write(`${line}\n`));
    socket.on('data', (text) => {
      answer += text;
      if (answer.endsWith('\n'))
        socket.destroy();
    });
    socket.on('error', (error) => {
      if (error.syscall === 'connect')
        reject(new Refused(404, 'no such run'));
    });
    socket.on('close', () => resolve(answer));
  });
}

function reply(res, status, answer) {
  res.writeHead(status, { 'Content-Type': 'application/json', Connection: 'close' });
  res.end(`${JSON.stringify(answer)}\n`);
}

function passOn(res, line) {
  if (line === '')
    throw new Refused(404, 'the run has ended');
  const answer = JSON.parse(line);
  reply(res, answer.ok ? 200 : 400, answer);
}

async function signal(res, run, { signal: name }) {
  // A line is a request: nothing may come in that would make it two.
  if (typeof name !== 'string' || !/^[A-Za-z0-9+]{1,20}$/.test(name))
    throw new Refused(400, "signal must be a signal's name");
  passOn(res, await ask(run, `signal ${name} tree`));
}

/*
 * Reads what treewrap tells; at all times, for what finds no room is lost. What it gives:
 * begun, a promise of the first line (nothing, if none came), and end, one of the last.
 */
function readEvents(status) {
  let partial = '';
  let last = LOST;
  const closed = once(status, 'close');
  status.setEncoding('utf8');
  status.on('data', (text) => {
    const lines = (partial + text).split('\n');
    partial = lines.pop();
    for (const line of lines)
      if (JSON.parse(line).event === 'end')
        last = line;
  });
  const first = once(status, 'data').then(([text]) => text);
  return {
    begun: Promise.race([first, closed.then(() => '')]),
    end: closed.then(() => last),
  };
}

function start(run, command) {
  // The shell is there for its 2>&1, and becomes treewrap.
  const child = spawn('/bin/sh', ['-c', 'exec "$@" 2>&1', 'sh', TREEWRAP, '--id', run,
    '--status-fd', '3', '--watch-fd', '4', '--process-group', 'new', ...command],
  { stdio: ['ignore', 'pipe', 'ignore', 'pipe', 'pipe'] });
  const [, output, , status, lifeline] = child.stdio;
  lifeline.on('error', () => {}); // that treewrap has ended is seen elsewhere
  const { begun, end } = readEvents(status);
  const exited = once(child, 'exit').catch((error) => error);
  return { output, lifeline, begun, ended: exited.then(() => end) };
}

async function exec(res, command) {
  const run = `exec-${randomBytes(8).toString('hex')}`;
  const { output, lifeline, begun, ended } = start(run, command);
  const closed = once(output, 'close');
  const early = []; // what came before treewrap told that it had begun
  let waits = true; // for a client that is slow
  // At once: what nobody listens to when the child exits Node throws away.
  output.on('data', (data) => {
    if (!res.headersSent)
      early.push(data);
    else if (!res.destroyed && !res.write(data) && waits) {
      output.pause();
      res.once('drain', () => output.resume());
    }
  });
  res.on('close', () => { // at the end too
    lifeline.destroy();
    output.resume();
  });
  if (!await begun) {
    await Promise.all([ended, closed]);
    throw new Refused(500, `cannot start: ${Buffer.concat(early).toString().trim()}`);
  }
  res.writeHead(200, { 'Content-Type': 'application/octet-stream', 'X-Exec-Id': run,
    Connection: 'close' });
  res.flushHeaders();
  early.forEach((data) => res.write(data));
  const end = await ended;
  // What the pipe holds still. So it does its end, unless a stranger has got hold of it.
  waits = false;
  output.resume();
  await Promise.race([closed, sleep(REST_MS)]);
  output.destroy();
  res.end(`\n${end}\n`);
}

async function serve(req, res) {
  const [, run, toSignal] = /^\/exec(?:\/(exec-[0-9a-f]{16})(\/signal)?)?$/.exec(req.url) ?? ['no'];
  try {
    if (req.method === 'POST' && req.url === '/exec')
      await exec(res, readCommand(await readObject(req)));
    else if (req.method === 'POST' && toSignal)
      await signal(res, run, await readObject(req));
    else if (req.method === 'DELETE' && run && !toSignal)
      // The process that would have answered may be killed; the other ends the run.
      passOn(res, await ask(run, 'stop') || await ask(run, 'wait'));
    else
      throw new Refused(404, 'no such thing here');
  } catch (error) {
    if (res.headersSent)
      res.destroy();
    else
      reply(res, error.status ?? 500, { ok: false, error: error.message });
  }
}

if (!DIRECTORY) {
  console.error('server.js: TREEWRAP_RUNTIME_DIR is not set: the directory for control sockets');
  process.exit(1);
}
const server = http.createServer({ requestTimeout: 0 }, serve);
server.listen(Number(process.argv[2] ?? 8080), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
