/* Time: CLOCK_MONOTONIC in nanoseconds. All deadlines are absolute. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

/* A deadline that is never reached. */
#define NEVER INT64_MAX

static inline int64_t clock_now_ns(void)
{
	struct timespec now;

	/* Cannot fail: the clock exists since Linux 2.6 and the pointer is good. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* FROM plus SPAN, where a sum too large to hold is never. */
static inline int64_t clock_after(int64_t from_ns, int64_t span_ns)
{
	return span_ns < NEVER - from_ns ? from_ns + span_ns : NEVER;
}

#endif
