/*
 * The relay: a third process, in front of the shim, where treewrap was started by exec in
 * a process that had children already ("exec treewrap cmd > >(tee log)"). Those, and what
 * becomes an orphan below them, are not treewrap's to end. In a shim that has never had
 * another child than the reaper, every orphan is the tree's; so the shim is born anew and
 * the old process does no more than to stand for it before the caller.
 */
#ifndef RELAY_H
#define RELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What the shim came to; as in waitid(2). */
struct relayed {
	int code;   /* CLD_EXITED or another */
	int status; /* exit status or signal */
};

/*
 * Passes on to SHIM, our child, what SIGNALS (from signals_open()) brings, stops when it
 * has stopped, and returns when it has ended. MISSED: what was pending before it was born
 * (see signals.h). LEADS_SESSION: this process leads its session.
 */
struct relayed relay_run(pid_t shim, int signals, uint64_t missed, bool leads_session);

#endif
