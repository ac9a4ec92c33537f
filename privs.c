/*
 * Promises: once the command runs, a flaw in treewrap is worth no more than the right
 * to signal and to raise a priority. Does not change the command's privileges.
 */
#include "privs.h"

#include <cap-ng.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int privs_keep_needed(bool override)
{
	/*
	 * The kernel lets nobody add a capability, so the first of these that it
	 * grants is the most of them that we had. Asking is cheaper than looking:
	 * libcap-ng would read /proc to fill in what is not needed here.
	 */
	static const unsigned wanted[] = {CAP_KILL, CAP_SYS_NICE, CAP_DAC_OVERRIDE};
	static const capng_type_t sets[] = {CAPNG_EFFECTIVE | CAPNG_PERMITTED,
					    CAPNG_EFFECTIVE | CAPNG_PERMITTED,
					    CAPNG_PERMITTED};

	/* All subsets, from the whole down to none: the first in the order of the bits,
	 * of which the lowest stands for the first capability. */
	for (unsigned without = override ? 0 : 4; without < 8; without++) {
		capng_clear(CAPNG_SELECT_CAPS);
		for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
			if ((without >> i & 1) == 0)
				capng_update(CAPNG_ADD, sets[i], wanted[i]);
		if (capng_apply(CAPNG_SELECT_CAPS) == 0)
			return 0;
	}
	return -1;
}

void privs_override(bool on)
{
	/* What was applied last is what libcap-ng adds to. If we do not have it this
	 * fails, as will what it was for. */
	capng_update(on ? CAPNG_ADD : CAPNG_DROP, CAPNG_EFFECTIVE, CAP_DAC_OVERRIDE);
	capng_apply(CAPNG_SELECT_CAPS);
}

void privs_raise_priority(void)
{
	const struct sched_param lowest_real_time = {.sched_priority = 1};

	/* By system call: musl has only the name of it. */
	if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &lowest_real_time) < 0)
		setpriority(PRIO_PROCESS, 0, -20);
}

void privs_seal(void)
{
	/* Cannot fail: 0 is a value that it takes. */
	prctl(PR_SET_DUMPABLE, 0);
}
