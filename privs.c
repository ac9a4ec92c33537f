/*
 * Promises: once the command runs, a flaw in treewrap is worth no more than the right
 * to signal, to raise a priority and, in a cgroup of its own, to pass over modes; and
 * what treewrap does by mistake it does without even these. Does not change the command's
 * privileges, see rights.h.
 */
#include "privs.h"

#include <linux/capability.h>
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

static uint32_t bit(bool wanted, unsigned capability)
{
	return wanted ? UINT32_C(1) << capability : 0;
}

/* All others are given up, in all sets: what is not permitted nor inheritable is not
 * ambient either. By system call: it is one, and libcap-ng makes three and its own state
 * of it, for every run. */
static int set_caps(uint32_t permitted, uint32_t effective)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	const struct __user_cap_data_struct data[2] = {
		{.permitted = permitted, .effective = effective}};

	return syscall(SYS_capset, &header, data) == 0 ? 0 : -1;
}

static uint32_t kept(const struct privs *privs)
{
	return bit(privs->kill, CAP_KILL) | bit(privs->nice, CAP_SYS_NICE) |
	       bit(privs->override, CAP_DAC_OVERRIDE);
}

int privs_keep(struct privs *privs, bool other_user)
{
	/* No process of ours executes anything; it could not gain anything by it. */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (privs == NULL)
		return set_caps(0, 0);
	privs->kill_at_death = other_user && privs->kill && privs->kill_is_callers;
	return set_caps(kept(privs), bit(privs->kill_at_death, CAP_KILL));
}

void privs_use(const struct privs *privs, enum privilege privilege, bool on)
{
	const uint32_t wanted = privilege == PRIVILEGE_KILL ? bit(privs->kill, CAP_KILL)
				: privilege == PRIVILEGE_NICE
					? bit(privs->nice, CAP_SYS_NICE)
					: bit(privs->override, CAP_DAC_OVERRIDE);
	const uint32_t always = bit(privs->kill_at_death, CAP_KILL);

	/* It fails for nothing that was kept. */
	if (wanted != 0)
		set_caps(kept(privs), always | (on ? wanted : 0));
}

bool privs_raise_priority(void)
{
	const struct sched_param lowest_real_time = {.sched_priority = 1};

	/* By system call: musl has only the name of it. */
	if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO | SCHED_RESET_ON_FORK,
		    &lowest_real_time) == 0)
		return true;
	setpriority(PRIO_PROCESS, 0, -20);
	return false;
}

void privs_lower_priority(void)
{
	const struct sched_param none = {.sched_priority = 0};

	syscall(SYS_sched_setscheduler, 0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none);
}

bool privs_are_ordinary(void)
{
	/* As in sched_getattr(2); not all libcs have it, and the kernel's header is at
	 * odds with theirs. */
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} now;

	/* Where it is refused: not known to be. */
	return syscall(SYS_sched_getattr, 0, &now, sizeof(now), 0) == 0 &&
	       now.policy == SCHED_OTHER && now.nice == 0;
}

void privs_seal(void)
{
	/* Cannot fail: 0 is a value that it takes. */
	prctl(PR_SET_DUMPABLE, 0);
}
