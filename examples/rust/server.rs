//! Runs commands for HTTP clients. ../README.md has the interface and the reasons.
//!
//!     TREEWRAP_RUNTIME_DIR=/run/exec ./server [PORT]
//!
//! Promises: when a response has ended no process of its run is left, and that is treewrap's
//! proof, not ours; a client that is gone, and the end of this server by whatever, end the run.
//! Does not ask who the client is: that belongs in front of it.
//!
//! std has neither HTTP nor JSON: of HTTP there is here what one request a connection takes
//! (no chunked request bodies), of JSON what json.rs says. A program with crates takes those.

mod json;

use json::{parse, quote, Json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::mpsc::{sync_channel, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fmt::Display, fs::File, process::exit};

/// For what is in the pipe at the end, should somebody hold it open.
const REST: Duration = Duration::from_millis(250);
const LARGEST_HEAD: u64 = 1 << 16;
const LARGEST_BODY: u64 = 1 << 20;
const LONGEST: f64 = 24.0 * 3600.0;
const LOST: &str = r#"{"event":"end","cause":"lost","exit_code":null,"signal":null,"status":null}"#;

/// Named by a shell, as std hands on no more than three descriptors: 0 is the lifeline, 2 gets
/// the events. The shell becomes treewrap.
const PLUMBING: &str = r#"exec "$@" 3>&2 4<&0 2>&1 </dev/null"#;

/// An HTTP status, and why.
type Refused = (u16, String);

fn refuse<T>(status: u16, reason: impl Display) -> Result<T, Refused> {
    Err((status, reason.to_string()))
}

fn failed(error: impl Display) -> Refused {
    (500, error.to_string())
}

#[derive(Clone)]
struct Server {
    treewrap: String,
    directory: String,
}

struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
}

fn read_request(client: &TcpStream) -> Result<Request, Refused> {
    let mut reader = BufReader::new(client.take(LARGEST_HEAD));
    let mut line = String::new();
    reader.read_line(&mut line).map_err(failed)?;
    let mut words = line.split(' ').map(String::from);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line).map_err(failed)? == 0 {
            return refuse(400, "the request's head does not end");
        }
        let (name, value) = match line.trim_end().split_once(':') {
            Some((name, value)) => (name.to_ascii_lowercase(), value.trim()),
            None => break,
        };
        match name.as_str() {
            "content-length" => length = value.parse().or_else(|_| refuse(400, "no length"))?,
            "transfer-encoding" => return refuse(411, "Content-Length is missing"),
            "expect" => (&*client).write_all(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(failed)?,
            _ => {}
        }
    }
    if length > LARGEST_BODY {
        return refuse(413, "the body is too large");
    }
    reader.get_mut().set_limit(length);
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).map_err(failed)?;
    Ok(Request { method, path, body })
}

fn read_object(request: &Request) -> Result<Json, Refused> {
    let text = std::str::from_utf8(&request.body).or_else(|_| refuse(400, "not UTF-8"))?;
    match parse(text) {
        Ok(object @ Json::Object(_)) => Ok(object),
        Ok(_) => refuse(400, "the body must be an object"),
        Err(at) => refuse(400, format!("no JSON from byte {at} on")),
    }
}

fn milliseconds(request: &Json, name: &str, standard: f64, least: f64) -> Result<String, Refused> {
    match request.get(name).unwrap_or(&Json::Number(standard)) {
        Json::Number(value) if (least..=LONGEST).contains(value) => Ok(format!("{:.0}ms", value * 1000.0)),
        _ => refuse(400, format!("{name} must be a number of seconds, {least} to {LONGEST}")),
    }
}

/// treewrap's options, and the words of the command.
fn read_command(request: &Json) -> Result<Vec<String>, Refused> {
    let words = match request.get("command") {
        Some(Json::Text(text)) => Some(vec!["sh", "-c", text]),
        Some(Json::Array(words)) if !words.is_empty() => words.iter().map(Json::text).collect(),
        _ => None,
    };
    let words = match words {
        Some(words) if !words.iter().any(|word| word.contains('\0')) => words,
        _ => return refuse(400, "command must be a text or an array of texts"),
    };
    let timeout = milliseconds(request, "timeout", 30.0, 0.001)?;
    let kill_after = milliseconds(request, "kill_after", 5.0, 0.0)?;
    let options = ["-t", &timeout, "-k", &kill_after, "--"];
    Ok(options.into_iter().chain(words).map(String::from).collect())
}

fn reply(mut client: &TcpStream, status: u16, body: &str) -> io::Result<()> {
    let length = body.len() + 1;
    write!(client, "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}\n")
}

fn chunk(mut client: &TcpStream, data: &[u8]) -> io::Result<()> {
    if data.is_empty() {
        return Ok(()); // an empty chunk would be the last
    }
    let head = format!("{:x}\r\n", data.len());
    client.write_all(&[head.as_bytes(), data, b"\r\n"].concat())
}

enum Event {
    Output(Vec<u8>),
    Ended(String),
}

struct Run {
    child: Child,
    lifeline: ChildStdin,
    events: Receiver<Event>,
}

impl Server {
    /// What the run answers to LINE; None if it has ended before it could.
    fn ask(&self, run: &str, line: &str) -> Option<String> {
        let mut connection = UnixStream::connect(format!("{}/{run}.sock", self.directory)).ok()?;
        connection.write_all(format!("{line}\n").as_bytes()).ok()?;
        let mut answer = String::new();
        BufReader::new(connection).read_line(&mut answer).ok()?;
        answer.ends_with('\n').then_some(answer)
    }

    fn pass_on(&self, client: &TcpStream, answer: Option<String>) -> Result<(), Refused> {
        let answer = answer.ok_or((404, "no such run".to_string()))?;
        let ok = matches!(parse(&answer).ok().as_ref().and_then(|it| it.get("ok")), Some(Json::Bool(true)));
        reply(client, if ok { 200 } else { 400 }, answer.trim_end()).map_err(failed)
    }

    fn start(&self, name: &str, command: &[String]) -> Result<Run, Refused> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", PLUMBING, "sh", &self.treewrap, "--id", name])
            .args(["--status-fd", "3", "--watch-fd", "4", "--process-group", "new"])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(format!("cannot start: {error}")))?;
        let lifeline = child.stdin.take().expect("piped");
        let mut output = child.stdout.take().expect("piped");
        let mut status = BufReader::new(child.stderr.take().expect("piped"));
        let mut first = String::new();
        if status.read_line(&mut first).map_err(failed)? == 0 || !first.starts_with('{') {
            let mut said = first;
            output.read_to_string(&mut said).map_err(failed)?;
            child.wait().map_err(failed)?;
            return refuse(500, format!("cannot start: {}", said.trim()));
        }
        let (tell, events) = sync_channel(0);
        let told = tell.clone();
        thread::spawn(move || told.send(Event::Ended(last_event(status, first))));
        thread::spawn(move || {
            let mut piece = [0; 32768];
            while let Ok(length @ 1..) = output.read(&mut piece) {
                if tell.send(Event::Output(piece[..length].to_vec())).is_err() {
                    break; // nobody wants it any more
                }
            }
        });
        Ok(Run { child, lifeline, events })
    }

    fn exec(&self, client: &TcpStream, command: &[String]) -> Result<(), Refused> {
        let mut number = [0; 8];
        File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut number)).map_err(failed)?;
        let name = format!("exec-{:016x}", u64::from_ne_bytes(number));
        let Run { child, lifeline, events } = self.start(&name, command)?;
        let mut other_side = client.try_clone().map_err(failed)?;
        thread::spawn(move || {
            // Till the client is gone, or we have shut this connection down.
            let _ = io::copy(&mut other_side, &mut io::sink());
            drop(lifeline);
        });
        // Whoever does not take what we write is gone; the run's end is waited for all the same.
        let _ = write!(&*client, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nX-Exec-Id: {name}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
        let _ = stream(client, child, events);
        Ok(())
    }

    fn serve(&self, client: &TcpStream) -> Result<(), Refused> {
        let request = read_request(client)?;
        let mut words = request.path.split('/').skip(1);
        let (exec, run, verb) = (words.next() == Some("exec"), words.next(), words.next());
        if !exec || words.next().is_some() || !run.map_or(true, is_run) {
            return refuse(404, "no such thing here");
        }
        match (request.method.as_str(), run, verb) {
            ("POST", None, None) => self.exec(client, &read_command(&read_object(&request)?)?),
            ("POST", Some(run), Some("signal")) => match read_object(&request)?.get("signal") {
                Some(Json::Text(name)) if is_signal(name) => {
                    self.pass_on(client, self.ask(run, &format!("signal {name} tree")))
                }
                _ => refuse(400, "signal must be a signal's name"),
            },
            // The process that would have answered may be killed; the other ends the run.
            ("DELETE", Some(run), None) => {
                self.pass_on(client, self.ask(run, "stop").or_else(|| self.ask(run, "wait")))
            }
            _ => refuse(404, "no such thing here"),
        }
    }
}

fn is_run(name: &str) -> bool {
    let number = name.strip_prefix("exec-").unwrap_or_default();
    number.len() == 16 && number.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// A line is a request: nothing may come in that would make it two.
fn is_signal(name: &str) -> bool {
    (1..=20).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+')
}

/// Reads what treewrap tells, till its end; at all times, for what finds no room is lost.
fn last_event(status: BufReader<ChildStderr>, first: String) -> String {
    let lines = std::iter::once(first).chain(status.lines().map_while(Result::ok));
    let is_end = |line: &String| parse(line).ok().and_then(|it| Some(it.get("event")?.text()? == "end"));
    lines.filter(|line| is_end(line) == Some(true)).last().unwrap_or_else(|| LOST.to_string())
}

/// Output goes to the client as it comes, till treewrap's end.
fn stream(client: &TcpStream, mut child: Child, events: Receiver<Event>) -> io::Result<()> {
    let mut end = String::new();
    while end.is_empty() {
        match events.recv() {
            Ok(Event::Output(piece)) => {
                if chunk(client, &piece).is_err() {
                    let _ = client.shutdown(Shutdown::Both); // so that the lifeline is dropped
                }
            }
            Ok(Event::Ended(line)) => end = line,
            Err(_) => end = LOST.to_string(),
        }
    }
    child.wait()?;
    // What the pipe holds still. So it does its end, unless a stranger has got hold of it.
    let mut rest = Vec::new();
    let over = Instant::now() + REST;
    while let Some(left) = over.checked_duration_since(Instant::now()) {
        match events.recv_timeout(left) {
            Ok(Event::Output(piece)) => rest.extend(piece),
            _ => break,
        }
    }
    chunk(client, &rest)?;
    chunk(client, format!("\n{}\n", end.trim_end()).as_bytes())?;
    (&*client).write_all(b"0\r\n\r\n")
}

fn main() {
    let directory = env::var("TREEWRAP_RUNTIME_DIR").unwrap_or_else(|_| {
        eprintln!("server: TREEWRAP_RUNTIME_DIR is not set: the directory for control sockets");
        exit(1)
    });
    let treewrap = env::var("TREEWRAP").unwrap_or_else(|_| "treewrap".to_string());
    let server = Server { treewrap, directory };
    let port = env::args().nth(1).unwrap_or_else(|| "8080".to_string());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap_or_else(|error| {
        eprintln!("server: port {port}: {error}");
        exit(1)
    });
    println!("listening on http://{}", listener.local_addr().expect("it is bound"));
    for client in listener.incoming().flatten() {
        let server = server.clone();
        thread::spawn(move || {
            if let Err((status, reason)) = server.serve(&client) {
                let _ = reply(&client, status, &format!("{{\"ok\":false,\"error\":{}}}", quote(&reason)));
            }
            let _ = client.shutdown(Shutdown::Both);
        });
    }
}
