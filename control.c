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

/* When there is no descriptor for another client: so long nobody is let in. */
#define DEAF_NS (100 * NS_PER_MS)

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
	char file[RUNTIME_NAME_SIZE + sizeof(RUNTIME_SUFFIX)];

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
		snprintf(why, size, "%s: %s", control->runtime.path, strerror(errno));
	return false;
}

void control_keep(const struct control *control, int keep[CONTROL_KEPT])
{
	keep[0] = control != NULL ? control->listener : -1;
	keep[1] = control != NULL ? control->runtime.directory : -1;
}

void control_remove(struct control *control)
{
	char file[RUNTIME_NAME_SIZE + sizeof(RUNTIME_SUFFIX)];
	struct stat st;

	if (control == NULL || !find_inode(control, &st) || st.st_ino != control->inode)
		return;
	snprintf(file, sizeof(file), "%s" RUNTIME_SUFFIX, control->name);
	/* If that fails a stale one stays, which whoever comes upon it clears away. */
	unlinkat(control->runtime.directory, file, 0);
}

/* ---- clients ---- */

static void drop(struct client *client)
{
	close(client->fd);
	client->fd = -1;
}

/* To one who has no place here; whether it arrives is not our concern. */
static void turn_away(int fd, const char *error)
{
	char text[128];

	snprintf(text, sizeof(text), "{\"ok\":false,\"error\":\"%s\"}\n", error);
	if (send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		errno = 0;
	close(fd);
}

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

/*
 * A place for a new client: a free one, or that of whom we have not heard for longest and
 * who has asked for nothing. NULL if there is none; ALL_WAIT then says if none will be
 * before the run's end.
 */
static struct client *find_place(struct control *control, bool *all_wait)
{
	struct client *oldest = NULL;

	*all_wait = true;
	for (int i = 0; i < CONTROL_CLIENTS; i++) {
		struct client *client = &control->clients[i];
		if (client->fd < 0)
			return client;
		*all_wait = *all_wait && client->waits;
		if (!client->waits && !has_request(client) &&
		    (oldest == NULL || client->heard < oldest->heard))
			oldest = client;
	}
	return oldest;
}

static void seat(struct control *control, struct client *client, int fd, pid_t pid)
{
	if (client->fd >= 0)
		drop(client);
	client->fd = fd;
	client->pid = pid;
	client->heard = ++control->heard;
	client->waits = client->silent = client->leaving = false;
	client->got = client->length = client->written = 0;
}

/* To find and end the tree takes a few descriptors, whoever else wants some. */
static bool is_one_of_the_last(int fd)
{
	struct rlimit limit = {0, 0};

	/* It is the lowest that was free. */
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	       (rlim_t)fd + DESCRIPTORS_KEPT >= limit.rlim_cur;
}

static void admit(struct control *control)
{
	bool all_wait;
	pid_t pid;

	/* Ends: after so many, or when there are none. */
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct client *client = find_place(control, &all_wait);
		/* There will be one when those who have asked have been answered. */
		if (client == NULL && !all_wait)
			return;
		const int fd = accept4(control->listener, NULL, NULL,
				       SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			/* Else it would be ready for ever. */
			if (errno != EAGAIN && errno != ECONNABORTED)
				control->deaf_until = clock_now_ns() + DEAF_NS;
			return;
		}
		if (!is_allowed(control, fd, &pid))
			turn_away(fd, "this run is another user's");
		else if (is_one_of_the_last(fd))
			turn_away(fd, "no descriptors are left for more clients");
		else if (client == NULL)
			turn_away(fd, "too many clients wait for this run");
		else
			seat(control, client, fd, pid);
	}
}

static void write_out(struct client *client)
{
	const ssize_t wrote =
		send(client->fd, client->reply + client->written,
		     client->length - client->written, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (wrote > 0)
		client->written += (size_t)wrote;
	else if (errno != EAGAIN)
		drop(client);
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

static void read_in(struct control *control, struct client *client)
{
	const ssize_t got = recv(client->fd, client->request + client->got,
				 sizeof(client->request) - client->got, MSG_DONTWAIT);

	if (got < 0 && errno == EAGAIN)
		return;
	client->heard = ++control->heard;
	if (got > 0) {
		client->got += (size_t)got;
	} else {
		client->silent = true;
		if (got < 0 || !has_request(client)) {
			drop(client);
			return;
		}
	}
	if (client->got == sizeof(client->request) && !has_request(client)) {
		struct json reply = control_begin(client);
		json_add(&reply, "{\"ok\":false,\"error\":\"the request is too long\"}");
		client->leaving = true;
		control_reply(client, &reply);
	}
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
	const bool deaf = control->deaf_until > 0 && clock_now_ns() < control->deaf_until;
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
	for (int i = 0; i < CONTROL_CLIENTS; i++)
		if (has_request(&control->clients[i]))
			return 0;
	if (control->deaf_until == 0)
		return NEVER;
	const int64_t left = control->deaf_until - clock_now_ns();
	return left > 0 ? left : NEVER;
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

static void take(struct control *control, struct client *client, short revents)
{
	if ((revents & POLLOUT) != 0)
		write_out(client);
	else if ((revents & POLLIN) != 0)
		read_in(control, client);
	else if ((revents & (POLLHUP | POLLERR)) != 0 && !has_request(client))
		drop(client);
}

struct client *control_look(struct control *control,
			    const struct pollfd fds[CONTROL_POLLED])
{
	const struct pollfd *its = fds + 1;

	for (int i = 0; i < CONTROL_CLIENTS; i++)
		if (control->clients[i].fd >= 0)
			take(control, &control->clients[i], (its++)->revents);
	/* After that, for it may give a place that FDS speaks of to another. */
	if (fds[0].revents != 0)
		admit(control);
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

void control_wait(struct client *client)
{
	client->waits = true;
}

void control_end(struct control *control, void (*tell)(struct json *reply, const void *),
		 const void *argument)
{
	if (control == NULL)
		return;
	/* First: who hears of the end may use the name anew. */
	control_remove(control);
	for (int i = 0; i < CONTROL_CLIENTS; i++) {
		struct client *client = &control->clients[i];
		if (client->fd < 0 || !client->waits)
			continue;
		struct json reply = control_begin(client);
		tell(&reply, argument);
		control_reply(client, &reply);
	}
}
