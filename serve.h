/* What can be asked for through the control socket; see treewrapctl(1), PROTOCOL. */
#ifndef SERVE_H
#define SERVE_H

#include "control.h"
#include "run.h"

/* Answers CLIENT's request, LINE, which it changes, or has it wait for the run's end. */
void serve(struct reaper *r, struct client *client, char *line);

/* Is LINE, which it changes, a request that is answered at the end? */
bool serve_waits(char *line);

/* The reply to all who wait for the end. RUN is a struct reaper. */
void serve_end(struct json *reply, const void *run);

#endif
