/*
 * Promises: once the command runs, a flaw in treewrap is worth no more than the right
 * to signal, to raise a priority and, in a cgroup of its own, to pass over modes; and
 * what treewrap does by mistake it does without even these. Does not change the command's
 * privileges, see rights.h.
 */
#include "privs.h"

#include <cap-ng.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has(uint32_t low_half, unsigned capability)
{
	return (low_half >> capability & 1) != 0;
}

void privs_look(struct privs *privs)
{
	/* By system call: libcap-ng would read /proc to fill in what is not needed here.
	 * All that we look for is in the first half. */
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	memset(data, 0, sizeof(data));
	/* If that fails we have none. */
	if (syscall(SYS_capget, &header, data) < 0)
		memset(data, 0, sizeof(data));
	*privs = (struct privs){
		.kill = has(data[0].permitted, CAP_KILL),
		.nice = has(data[0].permitted, CAP_SYS_NICE),
		.override = has(data[0].permitted, CAP_DAC_OVERRIDE),
		.kill_is_callers = has(data[0].effective, CAP_KILL),
	};
}

/* The sets that no process of ours needs, for none of them executes anything. */
static void empty_other_sets(void)
{
	/* The kernel refuses a number that it does not know: there they end. What else it
	 * refuses stays, and is of no effect without an exec. */
	for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
		prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

int privs_keep(struct privs *privs, bool other_user)
{
	const bool kill = privs != NULL && privs->kill;

	empty_other_sets();
	capng_clear(CAPNG_SELECT_CAPS);
	if (kill)
		capng_update(CAPNG_ADD, CAPNG_PERMITTED, CAP_KILL);
	if (privs != NULL && privs->nice)
		capng_update(CAPNG_ADD, CAPNG_PERMITTED, CAP_SYS_NICE);
	if (privs != NULL && privs->override)
		capng_update(CAPNG_ADD, CAPNG_PERMITTED, CAP_DAC_OVERRIDE);
	if (kill && other_user && privs->kill_is_callers) {
		privs->kill_at_death = true;
		capng_update(CAPNG_ADD, CAPNG_EFFECTIVE, CAP_KILL);
	}
	return capng_apply(CAPNG_SELECT_CAPS) == 0 ? 0 : -1;
}

void privs_use(const struct privs *privs, enum privilege privilege, bool on)
{
	static const unsigned capabilities[] = {
		[PRIVILEGE_KILL] = CAP_KILL,
		[PRIVILEGE_NICE] = CAP_SYS_NICE,
		[PRIVILEGE_OVERRIDE] = CAP_DAC_OVERRIDE,
	};
	const bool there = privilege == PRIVILEGE_KILL	 ? privs->kill
			   : privilege == PRIVILEGE_NICE ? privs->nice
							 : privs->override;

	if (!there || (privilege == PRIVILEGE_KILL && privs->kill_at_death))
		return;
	/* To what privs_keep() has applied. It fails for nothing that was kept. */
	capng_update(on ? CAPNG_ADD : CAPNG_DROP, CAPNG_EFFECTIVE,
		     capabilities[privilege]);
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
