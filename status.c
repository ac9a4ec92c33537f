/*
 * Promises: every event is one line of valid JSON in UTF-8, at most PIPE_BUF bytes, so
 * that no other writer's bytes get between; a reader that is slow, gone or never there
 * costs events, never time or the process.
 */
#include "status.h"
#include "clock.h"
#include "json.h"
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "treewrap: "

/* Time that a slow reader of standard error, and of the last event, is given. */
#define PATIENCE_MS 100

/* Where the lists in an end record stop, so that the rest of it finds room. */
#define NAMES_END     2000
#define SURVIVORS_END 3300
#define LONGEST_START (PIPE_BUF - 64)

/* ---- writing without waiting ---- */

/*
 * How FD can be written to without waiting. O_NONBLOCK would belong to the open file,
 * which the caller and the command share; a new open file of the same pipe or terminal
 * is ours alone.
 */
static void sink_prepare(struct sink *sink)
{
	char path[32];
	struct stat st;

	sink->kind = SINK_MAY_WAIT;
	if (fstat(sink->fd, &st) < 0 || S_ISREG(st.st_mode)) {
		sink->kind = SINK_NEVER_WAITS;
	} else if (S_ISSOCK(st.st_mode)) {
		sink->kind = SINK_SOCKET;
	} else if (ioctl(sink->fd, TIOCGPTN, &(unsigned){0}) < 0) {
		/* (Not a terminal's master, which would make another terminal.) */
		snprintf(path, sizeof(path), "/proc/self/fd/%d", sink->fd);
		const int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd < 0)
			return;
		sink->kind = SINK_NEVER_WAITS;
		/* In the old one's place, so that what is kept open stays known. */
		if (dup3(fd, sink->fd, O_CLOEXEC) < 0)
			sink->kind = SINK_MAY_WAIT;
		close(fd);
	}
}

/* Writes what goes without waiting. The number of bytes, or -1 and errno. */
static ssize_t sink_write(struct sink *sink, const char *text, size_t length)
{
	struct pollfd room = {.fd = sink->fd, .events = POLLOUT};

	if (sink->kind == SINK_UNKNOWN)
		sink_prepare(sink);
	if (sink->kind == SINK_SOCKET)
		return send(sink->fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
	/* SIGPIPE and SIGXFSZ are blocked, and not forwarded when they come from us. */
	if (sink->kind == SINK_NEVER_WAITS)
		return write(sink->fd, text, length);
	/* A pipe that is writable takes PIPE_BUF bytes; that somebody else fills it in
	 * this moment cannot be excluded where it could not be opened anew. */
	if (poll(&room, 1, 0) == 1)
		return write(sink->fd, text, length < PIPE_BUF ? length : PIPE_BUF);
	errno = EAGAIN;
	return -1;
}

static void wait_for_room(const struct sink *sink)
{
	struct pollfd room = {.fd = sink->fd, .events = POLLOUT};

	poll(&room, 1, PATIENCE_MS);
}

/* ---- messages ---- */

void die(const char *format, ...)
{
	char text[LINK_TEXT_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* Nobody is left to tell if this fails. */
	dprintf(STDERR_FILENO, PREFIX "%s\n", text);
	exit(STATUS_FAILED);
}

void status_open(struct status *status, const struct options *opt)
{
	/* The command will inherit it: as it is. */
	status->errors = (struct sink){STDERR_FILENO, SINK_MAY_WAIT};
	status->link = -1;
	status->patient = true;
	status->verbose = opt->verbose;
	status->prefix = opt->as.prefix != NULL ? opt->as.prefix : PREFIX;
	status->events = (struct sink){opt->status_fd, SINK_UNKNOWN};
	status->start_ns = clock_now_ns();
	if (opt->status_fd < 0)
		return;
	/* Now: later the reaper is in another session, where a terminal cannot be opened.
	 */
	sink_prepare(&status->events);
	/* A terminal that is stopped, or full, takes nothing and does not tell before. */
	if (status->events.kind == SINK_MAY_WAIT && isatty(opt->status_fd)) {
		say(status,
		    "--status-fd: this terminal cannot be written to without waiting");
		status->events.fd = -1;
	}
}

void status_own_errors(struct status *status)
{
	status->errors.kind = SINK_UNKNOWN;
}

void say_for(struct status *status, const char *line)
{
	const size_t length = strlen(line);

	if (sink_write(&status->errors, line, length) >= 0 || errno != EAGAIN)
		return;
	/* Once: a reader that sleeps must not add up to a delay. */
	if (status->patient)
		wait_for_room(&status->errors);
	status->patient = false;
	if (sink_write(&status->errors, line, length) < 0)
		return; /* there is no other place to say so */
}

static void say_list(struct status *status, const char *format, va_list args)
{
	struct link_message message = {.type = LINK_SAY};
	/* Less than a half: the longest names are cut before. */
	const size_t prefix = strlen(status->prefix);

	memcpy(message.text, status->prefix, prefix);
	/* Room for a newline; a longer message is cut. */
	vsnprintf(message.text + prefix, sizeof(message.text) - prefix - 1, format, args);
	/* A name may hold anything, but is to stay on its line and off the terminal. */
	char *c = message.text;
	for (; *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	memcpy(c, "\n", sizeof("\n"));
	if (status->errors.fd >= 0)
		say_for(status, message.text);
	else
		link_send(status->link, &message);
}

void say(struct status *status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_list(status, format, args);
	va_end(args);
}

void say_more(struct status *status, const char *format, ...)
{
	va_list args;

	if (status->verbose == 0)
		return;
	va_start(args, format);
	say_list(status, format, args);
	va_end(args);
}

/* ---- events ---- */

static void add_now(struct json *line, const struct status *status)
{
	json_seconds(line, "at", clock_now_ns() - status->start_ns);
}

/* Hands a finished line over: written, or kept until the reader takes it. */
static void emit(struct status *status, struct json *line, bool is_end)
{
	const size_t room = sizeof(status->pending) - status->pending_length;
	/* Some is kept for the end record. */
	const size_t kept = is_end ? 0 : line->size;

	if (status->events.fd < 0)
		return;
	json_add(line, "}\n");
	if (line->full || line->length + kept > room) {
		status->lost++;
		return;
	}
	memcpy(status->pending + status->pending_length, line->text, line->length);
	status->pending_length += line->length;
	status_flush(status);
}

bool status_waits(const struct status *status)
{
	return status->events.fd >= 0 && status->pending_length > 0;
}

void status_flush(struct status *status)
{
	/* Ends: every turn but the last writes something of what is pending. */
	while (status_waits(status)) {
		/* A line at a time: so much a pipe takes whole or not at all. */
		const char *end = memchr(status->pending, '\n', status->pending_length);
		const ssize_t wrote = sink_write(&status->events, status->pending,
						 (size_t)(end - status->pending) + 1);
		if (wrote < 0 && errno == EAGAIN)
			return;
		if (wrote <= 0) {
			/* The reader is gone: there is nobody to tell. */
			status->events.fd = -1;
			return;
		}
		status->pending_length -= (size_t)wrote;
		memmove(status->pending, status->pending + wrote, status->pending_length);
	}
}

const char *cause_name(enum cause cause)
{
	static const char *const names[] = {
		[CAUSE_EXIT] = "exit",
		[CAUSE_TIMEOUT] = "timeout",
		[CAUSE_STDIN] = "stdin",
		[CAUSE_FD] = "fd",
		[CAUSE_PARENT] = "parent",
		[CAUSE_PID] = "pid",
		[CAUSE_SIGNAL] = "signal",
		[CAUSE_CONTROL] = "control",
		[CAUSE_SHIM_KILLED] = "shim-killed",
		[CAUSE_REAPER_KILLED] = "reaper-killed",
		[CAUSE_EXEC_FAILED] = "exec-failed",
	};
	return names[cause];
}

static const char *scope_name(enum scope scope)
{
	return scope == TO_MAIN ? "main" : scope == TO_TREE ? "tree" : "group";
}

const char *contain_name(enum contain contain)
{
	return contain == CONTAIN_CGROUP  ? "cgroup"
	       : contain == CONTAIN_PIDNS ? "pidns"
					  : "tree";
}

void status_start(struct status *status, const struct options *opt, const char *id,
		  enum contain contain, pid_t shim, pid_t pid)
{
	char text[PIPE_BUF];
	struct json line = {text, sizeof(text), 0, false};

	if (status->events.fd < 0)
		return;
	json_add(&line, "{\"event\":\"start\"");
	if (id != NULL)
		json_add(&line, ",\"id\":\"%s\"", id);
	json_add(&line,
		 ",\"shim\":%d,\"pid\":%d,\"contain\":\"%s\",\"command\":", (int)shim,
		 (int)pid, contain_name(contain));
	/* That some of it was left out is said. */
	if (!json_command(&line, opt->name, opt->command + 1, LONGEST_START))
		json_add(&line, ",\"truncated\":true");
	emit(status, &line, false);
}

void status_signal(struct status *status, int signo, pid_t sender, enum scope to)
{
	char text[PIPE_BUF];
	struct json line = {text, sizeof(text), 0, false};

	json_add(&line, "{\"event\":\"signal\"");
	json_signal(&line, "signal", signo);
	json_add(&line, ",\"sender\":%d,\"to\":\"%s\"", (int)sender, scope_name(to));
	emit(status, &line, false);
}

void status_stop(struct status *status, enum cause cause, unsigned processes)
{
	char text[PIPE_BUF];
	struct json line = {text, sizeof(text), 0, false};

	json_add(&line, "{\"event\":\"stop\",\"cause\":\"%s\"", cause_name(cause));
	add_now(&line, status);
	json_add(&line, ",\"processes\":%u", processes);
	emit(status, &line, false);
}

void status_escalate(struct status *status, int signo, unsigned processes)
{
	char text[PIPE_BUF];
	struct json line = {text, sizeof(text), 0, false};

	json_add(&line, "{\"event\":\"escalate\"");
	json_signal(&line, "signal", signo);
	add_now(&line, status);
	json_add(&line, ",\"processes\":%u", processes);
	emit(status, &line, false);
}

/* What the command itself came to. */
static void add_command_end(struct json *line, const struct ending *ending)
{
	if (ending->command_ended && ending->cause != CAUSE_EXEC_FAILED &&
	    ending->signo == 0)
		json_add(line, ",\"exit_code\":%d", ending->exit_code);
	else
		json_add(line, ",\"exit_code\":null");
	json_signal(line, "signal", ending->signo);
	json_add(line, ",\"core\":%s", ending->core ? "true" : "false");
}

static void add_leftovers(struct json *line, const struct ending *ending)
{
	json_add(line, ",\"leftovers\":%u,\"leftover_names\":[", ending->leftovers);
	/* Names may be cut short, the record must not be. */
	for (unsigned i = 0; i < ending->leftovers && i < LEFTOVER_NAMES_MAX; i++) {
		if (line->length > NAMES_END)
			break;
		json_add(line, "%s", i > 0 ? "," : "");
		json_string(line, ending->leftover_names[i]);
	}
	json_add(line, "]");
}

static void add_survivors(struct json *line, const struct ending *ending)
{
	json_add(line, ",\"survivors\":[");
	for (unsigned i = 0; i < ending->survivors && i < SURVIVORS_MAX; i++) {
		if (line->length > SURVIVORS_END)
			break;
		const struct survivor *survivor = &ending->survivor[i];
		json_add(line, "%s{\"pid\":%d,\"command\":", i > 0 ? "," : "",
			 (int)survivor->process.pid);
		json_string(line, survivor->process.command);
		json_add(line, ",\"state\":\"%c\",\"reason\":", survivor->process.state);
		json_string(line, survivor->reason);
		json_add(line, "}");
	}
	json_add(line, "]");
}

/* What its controllers count. */
static void add_cgroup(struct json *line, const struct cgroup_usage *usage)
{
	if (usage->memory_peak >= 0)
		json_add(line, ",\"memory_peak_bytes\":%lld",
			 (long long)usage->memory_peak);
	if (usage->pids_peak >= 0)
		json_add(line, ",\"pids_peak\":%lld", (long long)usage->pids_peak);
	if (usage->cpu_usec >= 0)
		json_seconds(line, "cgroup_cpu", usage->cpu_usec * 1000);
}

static int64_t timeval_ns(struct timeval time)
{
	return time.tv_sec * NS_PER_S + time.tv_usec * INT64_C(1000);
}

void status_tell_end(struct json *line, const struct status *status,
		     const struct ending *ending)
{
	struct rusage usage = {0};

	/* Covers every descendant that was reaped, by us or by its parent. */
	getrusage(RUSAGE_CHILDREN, &usage);
	json_add(line, "\"cause\":\"%s\"", cause_name(ending->cause));
	if (ending->cause == CAUSE_EXEC_FAILED) {
		json_add(line, ",\"error\":");
		json_string(line, strerror(ending->error));
	}
	add_command_end(line, ending);
	json_add(line, ",\"status\":%d", ending->status);
	add_now(line, status);
	add_leftovers(line, ending);
	json_add(line, ",\"killed\":%u,\"reaped\":%u", ending->killed, ending->reaped);
	add_survivors(line, ending);
	json_seconds(line, "user", timeval_ns(usage.ru_utime));
	json_seconds(line, "system", timeval_ns(usage.ru_stime));
	json_add(line, ",\"max_rss_kib\":%ld", usage.ru_maxrss);
	if (ending->had_cgroup)
		add_cgroup(line, &ending->usage);
}

void status_end(struct status *status, const struct ending *ending)
{
	char text[PIPE_BUF];
	struct json line = {text, sizeof(text), 0, false};

	if (status->events.fd < 0)
		return;
	json_add(&line, "{\"event\":\"end\",");
	status_tell_end(&line, status, ending);
	if (status->lost > 0)
		json_add(&line, ",\"lost_events\":%u", status->lost);
	emit(status, &line, true);
	/* It is the last: a reader that is there but slow gets a moment. */
	const int64_t until = clock_now_ns() + PATIENCE_MS * NS_PER_MS;
	while (status_waits(status) && clock_now_ns() < until) {
		wait_for_room(&status->events);
		status_flush(status);
	}
}
