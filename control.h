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
	int fd;		  /* -1: nobody */
	pid_t pid;	  /* 0: it is outside our PID namespace */
	int64_t heard_ns; /* when it sent something, or took some of a reply, last */
	bool waits;	  /* for the end of the run: nothing is read until then */
	bool silent;	  /* has shut down its side: what it has sent is all */
	bool leaving;	  /* to be let go once its reply is written */
	size_t got;	  /* of REQUEST */
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
	int64_t rest_until;  /* no request is answered before */
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

/* How long nothing has to be done for CONTROL, which may be NULL, in nanoseconds;
 * INT64_MAX: until something comes. */
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

/*
 * The request that BEGAN to be answered then has been answered. For as long as that took
 * nobody else is: at real-time priority clients could take all of a CPU by asking.
 */
void control_answered(struct control *control, int64_t began_ns);

/*
 * CLIENT is answered when the run has ended: by control_end(). False if too many wait
 * already; never if it STOPS the run.
 */
bool control_wait(const struct control *control, struct client *client, bool stops);

/*
 * The run has ended: its name is free again, and those who wait get what TELL(REPLY,
 * ARGUMENT) makes of it; so do those whose request came too late to be heard, and is one
 * that WAITS(LINE) for the end. Takes a tenth of a second at most. CONTROL may be NULL.
 */
void control_end(struct control *control, bool (*waits)(char *line),
		 void (*tell)(struct json *reply, const void *), const void *argument);

/* Removes the socket if it is still ours, as control_end() does. CONTROL may be NULL. */
void control_remove(struct control *control);

#endif
