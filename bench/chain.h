#ifndef CHAIN_H
#define CHAIN_H

#include <sys/types.h>

/*
 * A subject's own processes, and the command at the end: each the only child of the one
 * before. Right only while the command has no children.
 */
struct chain {
	pid_t pid[8];
	int count; /* the subject's own: the command is pid[count] */
};

struct chain chain_from(pid_t first);

/* The sum of the numbers in the file /proc/PID/NAME of the subject's own processes, in
 * lines that begin with one of WORDS (the last is NULL). */
double chain_sum(const struct chain *chain, const char *name, const char *const *words);

#endif
