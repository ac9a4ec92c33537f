/*
 * Promises: no run keeps another one, or us beyond the deadline, waiting; nobody makes us
 * keep more than a reply's greatest length. Does not look into replies.
 */
#include "ask.h"
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE	 65536
#define RETRY_MS 50 /* a full queue does not tell when it has room */

static void end(struct ask *ask, enum ask_state state, const char *why)
{
	if (ask->fd >= 0)
		close(ask->fd);
	ask->fd = -1;
	ask->state = state;
	ask->why = why;
}

static void fail(struct ask *ask)
{
	end(ask, ASK_FAILED, strerror(errno));
}

static void try_connect(const struct runtime *runtime, struct ask *ask)
{
	ask->fd = runtime_connect(runtime, ask->name);
	if (ask->fd >= 0) {
		ask->state = ASK_SEND;
		return;
	}
	if (errno == EAGAIN || errno == EINTR)
		return;
	if (errno == ENOENT || errno == ECONNREFUSED) {
		ask->error = errno;
		end(ask, ASK_NO_RUN, NULL);
	} else {
		fail(ask);
	}
}

static void try_send(struct ask *ask, const char *request)
{
	const size_t left = strlen(request) - ask->sent;
	const ssize_t sent =
		send(ask->fd, request + ask->sent, left, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent >= 0)
		ask->sent += (size_t)sent;
	/* If it has hung up it may have said why before. */
	if (sent == (ssize_t)left ||
	    (sent < 0 && (errno == EPIPE || errno == ECONNRESET)))
		ask->state = ASK_READ;
	else if (sent < 0 && errno != EAGAIN && errno != EINTR)
		fail(ask);
}

/* Room for PIECE more bytes and a NUL. */
static bool make_room(struct ask *ask)
{
	if (ask->size - ask->length > PIECE)
		return true;
	const size_t size = 2 * ask->size + PIECE + 1;
	char *reply = realloc(ask->reply, size);
	if (reply == NULL)
		return false;
	ask->reply = reply;
	ask->size = size;
	return true;
}

static void try_read(struct ask *ask)
{
	if (!make_room(ask)) {
		fail(ask);
		return;
	}
	char *piece = ask->reply + ask->length;
	const ssize_t length = recv(ask->fd, piece, PIECE, MSG_DONTWAIT);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length <= 0 && (length == 0 || errno == ECONNRESET)) {
		end(ask, ASK_HUNG_UP, NULL);
		return;
	}
	if (length < 0) {
		fail(ask);
		return;
	}
	const char *newline = memchr(piece, '\n', (size_t)length);
	ask->length += newline != NULL ? (size_t)(newline - piece) : (size_t)length;
	ask->reply[ask->length] = '\0';
	if (ask->length > ASK_REPLY_MAX)
		end(ask, ASK_FAILED, "its reply is longer than 1 MiB");
	else if (newline != NULL)
		end(ask, ASK_DONE, NULL);
}

static bool is_pending(const struct ask *ask)
{
	return ask->state <= ASK_READ;
}

static void take_step(const struct runtime *runtime, struct ask *ask, const char *request)
{
	if (ask->state == ASK_CONNECT)
		try_connect(runtime, ask);
	else if (ask->state == ASK_SEND)
		try_send(ask, request);
	else if (ask->state == ASK_READ)
		try_read(ask);
}

/* How long poll(2) may wait, in milliseconds; rounded up, or it would turn fast. */
static int waiting_time(int64_t deadline_ns, bool retry)
{
	if (deadline_ns == NEVER)
		return retry ? RETRY_MS : -1;
	const int64_t left_ns = deadline_ns - clock_now_ns();
	const int64_t left_ms = left_ns > 0 ? (left_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
	const int64_t most = retry ? RETRY_MS : INT_MAX;
	return (int)(left_ms < most ? left_ms : most);
}

/* Until something can be done for one. False if none is left to wait for. */
static bool wait_for_some(const struct ask asks[], size_t count, struct pollfd *polled,
			  int64_t deadline_ns)
{
	bool any = false, retry = false;

	for (size_t i = 0; i < count; i++) {
		const bool pending = is_pending(&asks[i]);
		any |= pending;
		retry |= pending && asks[i].fd < 0;
		polled[i] = (struct pollfd){
			.fd = pending ? asks[i].fd : -1,
			.events = asks[i].state == ASK_SEND ? POLLOUT : POLLIN,
		};
	}
	/* Fails only when a signal interrupts it: then nothing is marked, and the next
	 * turn waits again. */
	if (any && poll(polled, count, waiting_time(deadline_ns, retry)) < 0)
		for (size_t i = 0; i < count; i++)
			polled[i].revents = 0;
	return any;
}

/* runtime_clear_stale() is told only of sockets: a file of such a name refuses a
 * connection too, and is somebody's. */
static void clear_stale(const struct runtime *runtime, const struct ask *ask)
{
	char file[RUNTIME_NAME_SIZE + sizeof(RUNTIME_SUFFIX)];
	struct stat st;

	snprintf(file, sizeof(file), "%s" RUNTIME_SUFFIX, ask->name);
	if (fstatat(runtime->directory, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISSOCK(st.st_mode))
		runtime_clear_stale(runtime, ask->name);
}

void ask_all(const struct runtime *runtime, struct ask asks[], size_t count,
	     const char *request, int64_t deadline_ns)
{
	struct pollfd *polled = calloc(count, sizeof(*polled));

	for (size_t i = 0; i < count; i++) {
		asks[i].fd = -1;
		if (polled == NULL)
			end(&asks[i], ASK_FAILED, "out of memory");
		else
			try_connect(runtime, &asks[i]);
	}
	/* Ends: at the deadline, if not before; without one, when all have answered. */
	while (polled != NULL && wait_for_some(asks, count, polled, deadline_ns)) {
		for (size_t i = 0; i < count; i++)
			if (polled[i].revents != 0 || asks[i].fd < 0)
				take_step(runtime, &asks[i], request);
		if (deadline_ns == NEVER || clock_now_ns() < deadline_ns)
			continue;
		for (size_t i = 0; i < count; i++)
			if (is_pending(&asks[i]))
				end(&asks[i], ASK_SILENT, NULL);
	}
	/* Not before: it may have to wait for a lock. */
	for (size_t i = 0; i < count; i++)
		if (asks[i].state == ASK_NO_RUN && asks[i].error == ECONNREFUSED)
			clear_stale(runtime, &asks[i]);
	free(polled);
}

void ask_free(struct ask *ask)
{
	free(ask->reply);
	ask->reply = NULL;
}
