/*
 * Names of runs, and the directory where their sockets are: NAME.sock in a directory that
 * is the user's own. For treewrap, which puts them there, and treewrapctl, which looks
 * for them.
 */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RUNTIME_NAME_MAX  64
#define RUNTIME_NAME_SIZE (RUNTIME_NAME_MAX + 1)
#define RUNTIME_PATH_SIZE 1024
#define RUNTIME_SUFFIX	  ".sock"
#define RUNTIME_FILE_SIZE (RUNTIME_NAME_SIZE + sizeof(RUNTIME_SUFFIX))

struct runtime {
	int directory; /* close-on-exec and above 2 */
	char path[RUNTIME_PATH_SIZE];
};

/* At most 64 letters, digits, '.', '_' and '-', not beginning with '.' or '-', no "..".
 */
bool runtime_is_name(const char *word);

/*
 * Opens the directory, which is $TREEWRAP_RUNTIME_DIR, else treewrap in $XDG_RUNTIME_DIR
 * if that is our own (for others than root also if it is /run/user/UID), else
 * /run/treewrap for root and /tmp/treewrap-UID for others; a program with privileges of
 * its file does not look at the variables. If MAKE it is made. It must be our own (as
 * root: anybody's, unless MAKE), no symbolic link, and of mode 0700. False, and in WHY
 * the path and the reason, if it cannot be had; errno is ENOENT if it is not there.
 */
bool runtime_open(struct runtime *runtime, bool make, char *why, size_t size);

/*
 * A listening socket for NAME, which nobody else can write to: close-on-exec,
 * non-blocking, above 2. A stale one, which nobody listens to any more, is replaced. -1
 * and errno: EADDRINUSE if another run has the name, EWOULDBLOCK if somebody holds the
 * directory's lock for long.
 */
int runtime_listen(const struct runtime *runtime, const char *name);

/*
 * A connection to NAME. -1 and errno: ECONNREFUSED if its socket is stale, ENOENT if
 * there is none, or none of the directory's owner.
 */
int runtime_connect(const struct runtime *runtime, const char *name);

/*
 * Removes NAME's socket if it is stale. (Seen under a lock that makers of sockets hold,
 * so that no new one is taken for it.)
 */
void runtime_clear_stale(const struct runtime *runtime, const char *name);

#endif
