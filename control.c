/*
 * Promises: only the user who started the run, and root, are listened to, whatever the
 * modes of the file; a client that sends half a line, too much, or nothing, that does not
 * read or is gone costs a place among sixteen at most, and that only until another wants
 * it; nothing here allocates or waits once the run has begun.
 */
#include "control.h"
#include "clock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define AUTO_NAME_MAX 40
#define AUTO_TRIES    100

/* Left for the reaper's own work. */
#define DESCRIPTORS_KEPT 8

/* Connections taken in one turn. */
#define ACCEPTS_PER_TURN 8

/* The number of users who have none: see user_namespaces(7). */
#define OVERFLOW_USER 65534

/* When there is no place or descriptor for another client: so long nobody is let in. */
#define DEAF_NS (20 * NS_PER_MS)

/* Who has been still for so long may have to give his place to another. */
#define IDLE_NS (100 * NS_PER_MS)

/* Not all places are for those who wait: somebody has to be able to stop the run. */
#define WAITING_MAX 12

/* Pieces of a client's data that are thrown away before its socket is closed. */
#define DRAINS_MAX 128

/* The time that clients have to take the last replies, in all. */
#define LAST_WORDS_NS (100 * NS_PER_MS)

/* ---- opening ---- */

/* A name for the run of COMMAND, the N-th try. */
static void make_up_name(char name[RUNTIME_NAME_SIZE], const char *command, int n)
{
	const char *slash = strrchr(command, '/');
	const char *from = slash != NULL ? slash + 1 : command;
	size_t length = 0;

	for (; length < AUTO_NAME_MAX && *from != '\0'; from++)
		if (isalnum((unsigned char)*from) || (*from == '_' && length > 0))
			name[length++] = *from;
	if (length == 0)
		name[length++] = 'x';
	snprintf(name + length, RUNTIME_NAME_SIZE - length, n == 0 ? "-%d" : "-%d-%d",
		 (int)getpid(), n);
}

/* The file's inode: by it we see at the end that it is still ours. */
static bool find_inode(const struct control *control, struct stat *st)
{
	char file[RUNTIME_FILE_SIZE];

	snprintf(file, sizeof(file), "%s" RUNTIME_SUFFIX, control->name);
	return fstatat(control->runtime.directory, file, st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void listen_by_name(struct control *control, const char *id, const char *command)
{
	if (strcmp(id, "auto") != 0) {
		snprintf(control->name, sizeof(control->name), "%s", id);
		control->listener = runtime_listen(&control->runtime, id);
		return;
	}
	/* Ends: after so many tries. A number may be used in other PID namespaces too. */
	for (int i = 0; i < AUTO_TRIES; i++) {
		make_up_name(control->name, command, i);
		control->listener = runtime_listen(&control->runtime, control->name);
		if (control->listener >= 0 || errno != EADDRINUSE)
			return;
	}
}

bool control_open(struct control *control, const char *id, const char *command, char *why,
		  size_t size)
{
	struct stat st;

	control->listener = -1;
	for (int i = 0; i < CONTROL_CLIENTS; i++)
		control->clients[i].fd = -1;
	if (!runtime_open(&control->runtime, true, why, size))
		return false;
	listen_by_name(control, id, command);
	if (control->listener >= 0 && find_inode(control, &st)) {
		control->inode = st.st_ino;
		control->owner = geteuid();
		return true;
	}
	if (errno == EADDRINUSE)
		snprintf(why, size, "'%s' is the id of another run", control->name);
	else
		snprintf(why, size, "%s: %s", control->runtime.path,
			 errno == EWOULDBLOCK ? "somebody holds its lock"
					      : strerror(errno));
	return false;
}

void control_keep(const struct control *control, int keep[CONTROL_KEPT])
{
	keep[0] = control != NULL ? control->listener : -1;
	keep[1] = control != NULL ? control->runtime.directory : -1;
}

void control_remove(struct control *control)
{
	char file[RUNTIME_FILE_SIZE];
	struct stat st;

	if (control == NULL || !find_inode(control, &st) || st.st_ino != control->inode)
		return;
	snprintf(file, sizeof(file), "%s" RUNTIME_SUFFIX, control->name);
	/* If that fails a stale one stays, which whoever comes upon it clears away. */
	unlinkat(control->runtime.directory, file, 0);
}

/* ---- letting go of clients ---- */

/*
 * The beginning of what waits on FD, into TEXT, where it stays; *GOT is as of recv(2).
 * True if it brings descriptors (SCM_RIGHTS).
 */
/* NOLINTNEXTLINE(readability-non-const-parameter): recvmsg(2) writes to it */
static bool brings_descriptors(int fd, char *text, size_t size, ssize_t *got)
{
	struct iovec place = {text, size};
	struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1};

	*got = recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT);
	return *got >= 0 && (message.msg_flags & MSG_CTRUNC) != 0;
}

/*
 * Closes FD; but not if descriptors are on their way on it. Who lets go of the last
 * reference to one has to wait, with no deadline, for what it takes to end it: for a
 * socket's unsent data, as long as the sender has set (SO_LINGER). So what brings
 * descriptors is neither read nor closed, but left to our exit, when the kernel does not
 * wait.
 */
static void shut(int fd)
{
	char text[CONTROL_REQUEST_SIZE];
	ssize_t got;

	/* Nothing more comes after this; so the loop sees all. It fails if the other
	 * side is gone, and then nothing comes either. */
	shutdown(fd, SHUT_RD);
	for (int i = 0; i < DRAINS_MAX; i++) {
		if (brings_descriptors(fd, text, sizeof(text), &got))
			return;
		if (got <= 0 || recv(fd, text, (size_t)got, MSG_DONTWAIT) != got) {
			close(fd);
			return;
		}
	}
}

static void drop(struct client *client)
{
	shut(client->fd);
	client->fd = -1;
}

/* To one who has no place here; whether it arrives is not our concern. */
static void turn_away(int fd, const char *error)
{
	char text[128];

	snprintf(text, sizeof(text), "{\"ok\":false,\"error\":\"%s\"}\n", error);
	if (send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		errno = 0;
	shut(fd);
}

/* ---- who is let in ---- */

/*
 * May the process on the other side of FD give orders? In a user namespace of our own
 * (--contain pidns of an ordinary user) all users but him have one number, that of
 * nobody. There the file's mode tells: none but him and root could connect.
 */
static bool is_allowed(const struct control *control, int fd, pid_t *pid)
{
	struct ucred who;
	socklen_t size = sizeof(who);
	struct stat st;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
		return false;
	*pid = who.pid;
	if (!control->nobody_is_root || who.uid != OVERFLOW_USER)
		return who.uid == control->owner || who.uid == 0;
	return find_inode(control, &st) && st.st_ino == control->inode &&
	       (st.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/* Has CLIENT's request a whole line, and nothing else to be done for it before? */
static bool has_request(const struct client *client)
{
	return client->fd >= 0 && !client->waits && !client->leaving &&
	       client->written == client->length &&
	       memchr(client->request, '\n', client->got) != NULL;
}

/* Has CLIENT asked for nothing, or does not take the answer, for a while? */
static bool is_idle(const struct client *client, int64_t now)
{
	return !client->waits && !has_request(client) &&
	       now - client->heard_ns >= IDLE_NS;
}

/*
 * A place for a new client: a free one, or that of an idle one; first of those to whom
 * nothing is being said. NULL if there is none; ALL_WAIT then says if none will be before
 * the run's end.
 */
static struct client *find_place(struct control *control, int64_t now, bool *all_wait)
{
	struct client *idle = NULL;

	*all_wait = true;
	for (int i = 0; i < CONTROL_CLIENTS; i++) {
		struct client *client = &control->clients[i];
		if (client->fd < 0)
			return client;
		*all_wait = *all_wait && client->waits;
		if (is_idle(client, now) &&
		    (idle == NULL || client->written == client->length))
			idle = client;
	}
	return idle;
}

/* To find and end the tree takes a few descriptors, whoever else wants some. */
static bool is_one_of_the_last(int fd)
{
	struct rlimit limit = {0, 0};

	/* It is the lowest that was free. */
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	       (rlim_t)fd + DESCRIPTORS_KEPT >= limit.rlim_cur;
}

static void seat(struct client *client, int fd, pid_t pid, int64_t now)
{
	if (client->fd >= 0)
		drop(client);
	client->fd = fd;
	client->pid = pid;
	client->heard_ns = now;
	client->waits = client->silent = client->leaving = false;
	client->got = client->length = client->written = 0;
}

static void admit(struct control *control, int64_t now)
{
	bool all_wait;
	pid_t pid;

	/* Ends: after so many, or when there are none. */
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct client *client = find_place(control, now, &all_wait);
		/* There will be one when those who have asked have been answered. Not to
		 * be told all the time that somebody is at the door: */
		if (client == NULL && !all_wait) {
			control->deaf_until = now + DEAF_NS;
			return;
		}
		const int fd = accept4(control->listener, NULL, NULL,
				       SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			if (errno != EAGAIN && errno != ECONNABORTED)
				control->deaf_until = now + DEAF_NS;
			return;
		}
		if (!is_allowed(control, fd, &pid))
			turn_away(fd, "this run is another user's");
		else if (is_one_of_the_last(fd))
			turn_away(fd, "no descriptors are left for more clients");
		else if (client == NULL)
			turn_away(fd, "too many clients wait for this run");
		else
			seat(client, fd, pid, now);
	}
}

/* ---- lines in and out ---- */

static void write_out(struct client *client)
{
	const ssize_t wrote =
		send(client->fd, client->reply + client->written,
		     client->length - client->written, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (wrote > 0) {
		client->written += (size_t)wrote;
		client->heard_ns = clock_now_ns();
	} else if (errno != EAGAIN) {
		drop(client);
	}
	if (client->fd >= 0 && client->written == client->length &&
	    (client->leaving || (client->silent && !has_request(client))))
		drop(client);
}

struct json control_begin(struct client *client)
{
	/* Room for a newline. */
	return (struct json){client->reply, sizeof(client->reply) - 1, 0, false};
}

void control_reply(struct client *client, const struct json *reply)
{
	static const char failed[] = "{\"ok\":false,\"error\":\"the reply is too long\"}";

	client->length = reply->length;
	client->written = 0;
	if (reply->full) {
		memcpy(client->reply, failed, sizeof(failed) - 1);
		client->length = sizeof(failed) - 1;
	}
	client->reply[client->length++] = '\n';
	write_out(client);
}

static void refuse_long_request(struct client *client)
{
	struct json reply = control_begin(client);

	json_add(&reply, "{\"ok\":false,\"error\":\"the request is too long\"}");
	client->leaving = true;
	control_reply(client, &reply);
}

static void read_in(struct client *client, int64_t now)
{
	char *const end = client->request + client->got;
	ssize_t got;

	if (brings_descriptors(client->fd, end, sizeof(client->request) - client->got,
			       &got)) {
		/* As in shut(). */
		client->fd = -1;
		return;
	}
	if (got < 0 && errno == EAGAIN)
		return;
	client->heard_ns = now;
	/* Just what was looked at: behind it there may be descriptors by now. */
	if (got > 0)
		got = recv(client->fd, end, (size_t)got, MSG_DONTWAIT);
	if (got > 0) {
		client->got += (size_t)got;
	} else {
		client->silent = true;
		if (got < 0 || !has_request(client)) {
			drop(client);
			return;
		}
	}
	if (client->got == sizeof(client->request) && !has_request(client))
		refuse_long_request(client);
}

/* ---- in the loop ---- */

/* What is wanted of CLIENT now. */
static short events_of(const struct client *client)
{
	if (client->written < client->length)
		return POLLOUT;
	/* It hears of nothing else before; that it hangs up is told all the same. */
	if (client->waits || client->silent || has_request(client))
		return 0;
	return POLLIN;
}

unsigned control_fill_poll(const struct control *control,
			   struct pollfd fds[CONTROL_POLLED])
{
	const bool deaf = control->deaf_until > 0;
	unsigned count = 1;

	fds[0] = (struct pollfd){.fd = deaf ? -1 : control->listener, .events = POLLIN};
	for (int i = 0; i < CONTROL_CLIENTS; i++) {
		const struct client *client = &control->clients[i];
		if (client->fd >= 0)
			fds[count++] = (struct pollfd){.fd = client->fd,
						       .events = events_of(client)};
	}
	return count;
}

int64_t control_patience_ns(const struct control *control)
{
	if (control == NULL)
		return NEVER;
	int64_t look_at = control->deaf_until > 0 ? control->deaf_until : NEVER;
	for (int i = 0; i < CONTROL_CLIENTS; i++)
		if (has_request(&control->clients[i]) && control->rest_until < look_at)
			look_at = control->rest_until;
	if (look_at == NEVER)
		return NEVER;
	const int64_t left = look_at - clock_now_ns();
	return left > 0 ? left : 0;
}

/* Takes CLIENT's first line out of its request, to LINE as a string. */
static void cut_line(struct client *client, char line[CONTROL_REQUEST_SIZE])
{
	const char *end = memchr(client->request, '\n', client->got);
	const size_t length = (size_t)(end - client->request);

	/* A NUL in it would make another request of it. */
	for (size_t i = 0; i < length; i++) {
		line[i] = client->request[i];
		if (line[i] == '\0')
			line[i] = '?';
	}
	line[length] = '\0';
	client->got -= length + 1;
	memmove(client->request, end + 1, client->got);
}

static void take(struct client *client, short revents, int64_t now)
{
	if ((revents & POLLOUT) != 0)
		write_out(client);
	else if ((revents & POLLIN) != 0)
		read_in(client, now);
	else if ((revents & (POLLHUP | POLLERR)) != 0 && !has_request(client))
		drop(client);
}

struct client *control_look(struct control *control,
			    const struct pollfd fds[CONTROL_POLLED])
{
	const int64_t now = clock_now_ns();
	const struct pollfd *its = fds + 1;

	for (int i = 0; i < CONTROL_CLIENTS; i++)
		if (control->clients[i].fd >= 0)
			take(&control->clients[i], (its++)->revents, now);
	if (now >= control->deaf_until)
		control->deaf_until = 0;
	/* After that, for it may give a place that FDS speaks of to another. */
	if (fds[0].revents != 0)
		admit(control, now);
	if (now < control->rest_until)
		return NULL;
	/* One a turn, for to answer may take a walk over the tree. */
	for (unsigned i = 0; i < CONTROL_CLIENTS; i++) {
		struct client *client =
			&control->clients[(control->turn + i) % CONTROL_CLIENTS];
		if (!has_request(client))
			continue;
		control->turn = (control->turn + i + 1) % CONTROL_CLIENTS;
		cut_line(client, control->line);
		return client;
	}
	return NULL;
}

void control_answered(struct control *control, int64_t began_ns)
{
	const int64_t now = clock_now_ns();

	control->rest_until = now + (now - began_ns);
}

bool control_wait(const struct control *control, struct client *client, bool stops)
{
	int waiting = 0;

	for (int i = 0; i < CONTROL_CLIENTS; i++)
		waiting += control->clients[i].fd >= 0 && control->clients[i].waits;
	client->waits = stops || waiting < WAITING_MAX;
	return client->waits;
}

/* Those who had asked and not been heard yet, whose request WAITS() for the end. */
static void hear_the_last(struct control *control, bool (*waits)(char *line))
{
	const int64_t now = clock_now_ns();

	/* Nobody can come any more, the name is gone: so many are at the door at most. */
	for (int i = 0; i < CONTROL_CLIENTS / ACCEPTS_PER_TURN; i++)
		admit(control, now);
	for (int i = 0; i < CONTROL_CLIENTS; i++) {
		struct client *client = &control->clients[i];
		if (client->fd < 0 || client->waits || client->written < client->length)
			continue;
		/* Who sends something after this is told that it does not arrive. */
		shutdown(client->fd, SHUT_RD);
		if (!has_request(client))
			read_in(client, now);
		if (!has_request(client))
			continue;
		cut_line(client, control->line);
		client->waits = waits(control->line);
	}
}

/* Gives those who read slowly a moment. */
static void write_the_last(struct control *control)
{
	const int64_t until = clock_now_ns() + LAST_WORDS_NS;
	struct pollfd fds[CONTROL_POLLED];
	int64_t left;

	/* Ends: at that time. */
	while ((left = until - clock_now_ns()) > 0) {
		unsigned count = 0;
		for (int i = 0; i < CONTROL_CLIENTS; i++) {
			struct client *client = &control->clients[i];
			if (client->fd >= 0 && client->written < client->length)
				write_out(client);
			if (client->fd >= 0 && client->written < client->length)
				fds[count++] = (struct pollfd){.fd = client->fd,
							       .events = POLLOUT};
		}
		if (count == 0 || poll(fds, count, (int)(left / NS_PER_MS) + 1) < 0)
			return;
	}
}

void control_end(struct control *control, bool (*waits)(char *line),
		 void (*tell)(struct json *reply, const void *), const void *argument)
{
	if (control == NULL)
		return;
	/* First: who hears of the end may use the name anew. */
	control_remove(control);
	hear_the_last(control, waits);
	for (int i = 0; i < CONTROL_CLIENTS; i++) {
		struct client *client = &control->clients[i];
		if (client->fd < 0 || !client->waits)
			continue;
		struct json reply = control_begin(client);
		tell(&reply, argument);
		control_reply(client, &reply);
	}
	write_the_last(control);
}
