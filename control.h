/*
 * The control socket of a run that has a name: who may connect, lines in, lines out. What
 * a request means is not known here, see serve.h.
 *
 * A client sends a line and gets a line. None can hold up another, or the run: nothing
 * here waits, each has its own bounded buffers, and of whole requests one is handed out
 * at a time, each client in its turn.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "json.h"
#include "runtime.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONTROL_CLIENTS	     16
#define CONTROL_REQUEST_SIZE 4096
#define CONTROL_REPLY_SIZE   (256 * 1024)

struct client {
	int fd;			/* -1: nobody */
	pid_t pid;		/* 0: it is outside our PID namespace */
	uint64_t heard;		/* when it sent something last, as a count */
	bool waits;		/* for the end of the run: nothing is read until then */
	bool silent;		/* has shut down its side: what it has sent is all */
	bool leaving;		/* to be let go once its reply is written */
	size_t got;		/* of REQUEST */
	size_t length, written; /* of REPLY */
	char request[CONTROL_REQUEST_SIZE];
	char reply[CONTROL_REPLY_SIZE];
};

/* Large: most of it costs nothing until it is used, if it begins as untouched zeros. */
struct control {
	struct runtime runtime;
	char name[RUNTIME_NAME_SIZE];
	int listener;
	ino_t inode; /* of the socket's file */
	uid_t owner;
	int64_t deaf_until;  /* no descriptors were left for another client */
	bool nobody_is_root; /* in a user namespace of our own, see control.c */
	uint64_t heard;
	unsigned turn;
	char line[CONTROL_REQUEST_SIZE]; /* the request that is being answered */
	struct client clients[CONTROL_CLIENTS];
};

#define CONTROL_POLLED (1 + CONTROL_CLIENTS)
#define CONTROL_KEPT   2

/*
 * Makes the socket for the run ID; "auto" makes a name up out of COMMAND's. CONTROL is
 * all zeros. False, and in WHY the reason, if that cannot be.
 */
bool control_open(struct control *control, const char *id, const char *command, char *why,
		  size_t size);

/* The descriptors that CONTROL, or NULL, needs to the end, into KEEP. */
void control_keep(const struct control *control, int keep[CONTROL_KEPT]);

/*
 * What to poll(2) for CONTROL into FDS, no more than there is: poll(2) takes no more than
 * descriptors may be open. Returns how many.
 */
unsigned control_fill_poll(const struct control *control,
			   struct pollfd fds[CONTROL_POLLED]);

/* In nanoseconds, 0 if a whole request waits already; else INT64_MAX or when to look. */
int64_t control_patience_ns(const struct control *control);

/*
 * Does what FDS, from control_fill_poll(), tells. Returns a client whose request is to be
 * answered, which is in CONTROL->line; or NULL.
 */
struct client *control_look(struct control *control,
			    const struct pollfd fds[CONTROL_POLLED]);

/* The beginning of a reply to CLIENT, to be handed to control_reply() when it is whole.
 */
struct json control_begin(struct client *client);
void control_reply(struct client *client, const struct json *reply);

/* The request is answered when the run has ended: by control_end(). */
void control_wait(struct client *client);

/*
 * The run has ended: its name is free again, and those who wait get what TELL(REPLY,
 * ARGUMENT) makes of it. CONTROL may be NULL.
 */
void control_end(struct control *control, void (*tell)(struct json *reply, const void *),
		 const void *argument);

/* Removes the socket if it is still ours, as control_end() does. CONTROL may be NULL. */
void control_remove(struct control *control);

#endif
