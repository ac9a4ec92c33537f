/*
 * The link between shim and reaper: a pair of sockets that keeps messages whole.
 * It is also their lifeline: each sees the other's end hang up when that process
 * has died of whatever cause, for nobody else holds it.
 */
#ifndef LINK_H
#define LINK_H

#include "outcome.h"
#include "signals.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LINK_TEXT_SIZE 1024

enum link_type {
	LINK_SIGNAL,	/* shim to reaper: this was sent to the shim */
	LINK_CONTINUE,	/* shim to reaper: nobody else continues the command */
	LINK_STOPPED,	/* reaper to shim: the command was stopped */
	LINK_CONTINUED, /* reaper to shim: it runs again */
	LINK_ENDED, /* reaper to shim: the end has been told, only the exit is to come */
	LINK_SAY,   /* reaper to shim: put TEXT on standard error */
};

struct link_message {
	enum link_type type;
	union {
		struct arrived signal;
		struct {
			int signo;
			unsigned number; /* counted from 1 */
		} stop;
		struct outcome outcome;
		char text[LINK_TEXT_SIZE]; /* ends in a NUL */
	};
};

/* Makes the pair, close-on-exec and not below descriptor 3. 0, or -1 and errno. */
int link_open(int ends[2]);

/*
 * Sends MESSAGE without waiting. False if the other side is gone or its queue is
 * full; no signal is raised.
 */
bool link_send(int end, const struct link_message *message);

/* Takes the next message, if there is one. False if there is none. */
bool link_receive(int end, struct link_message *message);

#endif
