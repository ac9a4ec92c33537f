/*
 * Promises: all that is asked for is in force, or the command does not run; nothing is
 * given that this process does not have.
 *
 * The order: signals are confined while we may still do so without giving up set-user-ID
 * programs; the bounding set is cut while we may; then groups, group, user; then the
 * capabilities, which the change of user would have taken; last what can never be undone.
 */
#include "rights.h"
#include "kernel.h"

#include <cap-ng.h>
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <unistd.h>

/* linux/landlock.h, as of Linux 6.12: older headers know less of it. */
struct landlock_ruleset {
	uint64_t handled_access_fs, handled_access_net, scoped;
};
#define LANDLOCK_VERSION       1
#define LANDLOCK_SIGNAL_SCOPE  2
#define LANDLOCK_ABI_OF_SCOPES 6

/* More groups than this a process cannot have (NGROUPS_MAX). */
#define GROUPS_MAX 65536

bool rights_are_asked(const struct rights *rights)
{
	return rights->user_word != NULL || rights->caps || rights->no_new_privs ||
	       rights->confine_signals;
}

/* ---- finding ---- */

/* WORD as a number that a user or group can have (-1 means "none" to the kernel). */
static bool parse_number(const char *word, uint32_t *number)
{
	char *end;

	errno = 0;
	const unsigned long long value = strtoull(word, &end, 10);
	if (!isdigit((unsigned char)word[0]) || *end != '\0' || errno != 0 ||
	    value >= UINT32_MAX)
		return false;
	*number = (uint32_t)value;
	return true;
}

/* HOME and the like are of the user, if there is anything known of him. */
static bool set_environment(const struct passwd *known)
{
	return setenv("HOME", known->pw_dir, 1) == 0 &&
	       setenv("USER", known->pw_name, 1) == 0 &&
	       setenv("LOGNAME", known->pw_name, 1) == 0;
}

/* NAME's groups, of which RIGHTS->group is the first; NULL: nothing is known of him. */
static bool find_groups(struct rights *rights, const char *name)
{
	int count = GROUPS_MAX;

	rights->groups = malloc(GROUPS_MAX * sizeof(gid_t));
	if (rights->groups == NULL)
		return false;
	rights->groups[0] = rights->group;
	rights->group_count = 1;
	if (name == NULL)
		return true;
	/* Fails only if there are more than any process can have. */
	if (getgrouplist(name, rights->group, rights->groups, &count) < 0) {
		errno = E2BIG;
		return false;
	}
	rights->group_count = (size_t)count;
	return true;
}

static bool find_group(struct rights *rights, const char *word)
{
	const struct group *known = getgrnam(word);

	if (known != NULL)
		rights->group = known->gr_gid;
	return known != NULL || parse_number(word, &rights->group);
}

bool rights_find_user(struct rights *rights, const char *word, char *why, size_t size)
{
	const char *colon = strchr(word, ':');
	const size_t length = colon != NULL ? (size_t)(colon - word) : strlen(word);
	char name[256];

	rights->user_word = word;
	snprintf(name, sizeof(name), "%.*s", (int)length, word);
	/* A name may be made of digits; it goes before the number. */
	const struct passwd *known = length < sizeof(name) ? getpwnam(name) : NULL;
	if (known == NULL && parse_number(name, &rights->user))
		known = getpwuid(rights->user);
	else if (known == NULL) {
		snprintf(why, size, "'%s' is not a user", name);
		return false;
	}
	if (known != NULL) {
		rights->user = known->pw_uid;
		rights->group = known->pw_gid;
	}
	if (colon != NULL && !find_group(rights, colon + 1)) {
		snprintf(why, size, "'%s' is not a group", colon + 1);
		return false;
	}
	if (colon == NULL && known == NULL) {
		snprintf(why, size,
			 "nothing is known of user %s: give his group, as %s:GROUP", name,
			 name);
		return false;
	}
	if ((known != NULL && !set_environment(known)) ||
	    !find_groups(rights, known != NULL ? known->pw_name : NULL)) {
		snprintf(why, size, "'%s': %s", name, strerror(errno));
		return false;
	}
	return true;
}

bool rights_parse_caps(struct rights *rights, char *list, const char **fault)
{
	char *rest = list;

	rights->caps = true;
	if (strcmp(list, "none") == 0)
		return true;
	/* Ends: every turn takes a word off REST. */
	for (char *word; (word = strsep(&rest, ",")) != NULL;) {
		const int prefix = strncasecmp(word, "cap_", 4) == 0 ? 4 : 0;
		const int capability = capng_name_to_capability(word + prefix);
		if (capability < 0 || capability > 63) {
			*fault = word;
			return false;
		}
		rights->cap_set |= UINT64_C(1) << capability;
	}
	return true;
}

bool rights_can_confine(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION) >=
	       LANDLOCK_ABI_OF_SCOPES;
}

/* ---- taking ---- */

static const char *forbid_new_privileges(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
		       ? "--no-new-privs: cannot give up new privileges"
		       : NULL;
}

/* Whoever has no privilege may do it only to those who can gain none. */
static const char *confine_signals(void)
{
	static const char failed[] = "--confine-signals: cannot confine signals";
	const struct landlock_ruleset ruleset = {.scoped = LANDLOCK_SIGNAL_SCOPE};
	const int fd =
		(int)syscall(SYS_landlock_create_ruleset, &ruleset, sizeof(ruleset), 0);
	const char *failure = NULL;

	if (fd < 0)
		return failed;
	if (syscall(SYS_landlock_restrict_self, fd, 0) < 0) {
		failure = errno == EPERM ? forbid_new_privileges() : failed;
		if (failure == NULL && syscall(SYS_landlock_restrict_self, fd, 0) < 0)
			failure = failed;
	}
	close(fd);
	return failure;
}

static bool has_cap(const struct rights *rights, unsigned capability)
{
	return capability < 64 && (rights->cap_set >> capability & 1) != 0;
}

/* The kernel refuses a capability that it does not know: there they end. */
static const char *cut_bounding_set(const struct rights *rights)
{
	for (unsigned i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
		if (!has_cap(rights, i) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0)
			return "--caps: cannot cut the bounding set";
	return NULL;
}

static const char *become_user(const struct rights *rights)
{
	/* Or they would be gone when we set them. Cleared by the exec. */
	if (rights->cap_set != 0 && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return "--user: cannot keep capabilities";
	if (setgroups(rights->group_count, rights->groups) < 0)
		return "--user: cannot set the groups";
	if (setresgid(rights->group, rights->group, rights->group) < 0)
		return "--user: cannot set the group";
	if (setresuid(rights->user, rights->user, rights->user) < 0)
		return "--user: cannot set the user";
	return NULL;
}

static const char *set_caps(const struct rights *rights)
{
	const capng_type_t sets = CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_INHERITABLE;

	capng_clear(CAPNG_SELECT_CAPS);
	capng_clear(CAPNG_SELECT_AMBIENT);
	for (unsigned i = 0; i < 64; i++)
		if (has_cap(rights, i) &&
		    (capng_update(CAPNG_ADD, sets, i) < 0 ||
		     capng_update(CAPNG_ADD, CAPNG_AMBIENT, i) < 0)) {
			errno = EINVAL;
			return "--caps: cannot have one that the kernel does not know";
		}
	if (capng_apply(CAPNG_SELECT_CAPS) < 0)
		return "--caps: cannot have exactly these";
	if (capng_apply(CAPNG_SELECT_AMBIENT) < 0)
		return "--caps: cannot keep them through the exec";
	return NULL;
}

const char *rights_take(const struct rights *rights)
{
	const char *failure = NULL;

	if (rights->confine_signals)
		failure = confine_signals();
	if (failure == NULL && rights->caps)
		failure = cut_bounding_set(rights);
	if (failure == NULL && rights->user_word != NULL)
		failure = become_user(rights);
	if (failure == NULL && rights->caps)
		failure = set_caps(rights);
	if (failure == NULL && rights->no_new_privs)
		failure = forbid_new_privileges();
	return failure;
}
