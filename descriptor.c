/* Promises: 0, 1 and 2 are never ours. */
#include "descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int descriptor_above_2(int descriptor)
{
	if (descriptor < 0 || descriptor > 2)
		return descriptor;
	const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
	const int why = errno;
	close(descriptor);
	errno = why;
	return copy;
}
