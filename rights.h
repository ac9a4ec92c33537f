/*
 * The rights of the command where they are to be other than ours: another user
 * (--user), exactly these capabilities (--caps), no way to more (--no-new-privs), signals
 * to its own tree alone (--confine-signals).
 */
#ifndef RIGHTS_H
#define RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What is asked for; all zeros asks for nothing. */
struct rights {
	const char *user_word; /* of --user, for messages; NULL: the user stays */
	uid_t user;
	gid_t group;
	gid_t *groups; /* allocated, to the end */
	size_t group_count;
	bool caps;	  /* the capabilities are to be exactly those of CAP_SET */
	uint64_t cap_set; /* bit N is capability N */
	bool no_new_privs;
	bool confine_signals;
};

/* Is anything asked for? */
bool rights_are_asked(const struct rights *rights);

/*
 * WORD is USER[:GROUP], names or numbers. Finds all that belongs to them. False, and in
 * WHY the reason, if there is no such user or group. Allocates, and asks the user
 * database: before anything has been started.
 */
bool rights_find_user(struct rights *rights, const char *word, char *why, size_t size);

/* LIST is "none" or names, with or without "cap_". False, and *FAULT the word at fault,
 * which LIST is cut up for. */
bool rights_parse_caps(struct rights *rights, char *list, const char **fault);

/* Can this kernel confine signals (Landlock, ABI 6, Linux 6.12)? */
bool rights_can_confine(void);

/*
 * In the command's own process, which must not share memory with another: makes it so.
 * NULL, or what failed, and errno. (Then the process is fit for nothing but to say so.)
 */
const char *rights_take(const struct rights *rights);

#endif
