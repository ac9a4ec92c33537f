/*
 * Promises: once the command runs, a flaw in treewrap is worth no more than the right
 * to signal and to raise a priority. Does not change the command's privileges.
 */
#include "privs.h"

#include <cap-ng.h>
#include <stddef.h>

int privs_keep_needed(void)
{
	/*
	 * The kernel lets nobody add a capability, so the first of these that it
	 * grants is the most of them that we had. Asking is cheaper than looking:
	 * libcap-ng would read /proc to fill in what is not needed here.
	 */
	static const struct {
		int kill, nice;
	} wanted[] = {{1, 1}, {1, 0}, {0, 1}, {0, 0}};
	const capng_type_t both = CAPNG_EFFECTIVE | CAPNG_PERMITTED;

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		capng_clear(CAPNG_SELECT_CAPS);
		if (wanted[i].kill)
			capng_update(CAPNG_ADD, both, CAP_KILL);
		if (wanted[i].nice)
			capng_update(CAPNG_ADD, both, CAP_SYS_NICE);
		if (capng_apply(CAPNG_SELECT_CAPS) == 0)
			return 0;
	}
	return -1;
}
