/* Asks runs, over their control sockets, and waits for what they say. For treewrapctl. */
#ifndef ASK_H
#define ASK_H

#include "runtime.h"

#include <stddef.h>
#include <stdint.h>

#define ASK_REPLY_MAX ((size_t)1024 * 1024)

enum ask_state {
	ASK_CONNECT, /* not connected yet: its queue is full */
	ASK_SEND,
	ASK_READ,
	ASK_DONE,    /* REPLY is there */
	ASK_NO_RUN,  /* nobody has the name, or only a stale socket */
	ASK_SILENT,  /* no answer in time */
	ASK_HUNG_UP, /* ... nor will there be one */
	ASK_FAILED,  /* WHY says why */
};

/* One run that is asked; start with {.name = NAME}. */
struct ask {
	char name[RUNTIME_NAME_SIZE];
	enum ask_state state;
	int fd; /* while it is being asked */
	int error;
	size_t sent;
	char *reply; /* without its newline; ends in a NUL and may hold others */
	size_t length, size;
	const char *why;
};

/* Sends REQUEST, a line, to all COUNT of ASKS, and returns when each has answered or
 * failed or at DEADLINE_NS. Stale sockets are removed. */
void ask_all(const struct runtime *runtime, struct ask asks[], size_t count,
	     const char *request, int64_t deadline_ns);

void ask_free(struct ask *ask);

#endif
