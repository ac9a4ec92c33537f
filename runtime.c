/*
 * Promises: two runs never have one name; a socket is removed only when the kernel has
 * said that nobody listens to it; what others can write to is not used.
 */
#include "runtime.h"
#include "descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Who holds the lock needs a few system calls; who holds it longer is an enemy. */
#define LOCK_TRIES    200
#define LOCK_PAUSE_NS 10000000

#define SOCKET_MODE (S_ISVTX | S_IRUSR | S_IWUSR)

#define PROC_FD "/proc/self/fd/"

bool runtime_is_name(const char *word)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789._-";
	const size_t length = strspn(word, good);

	return word[length] == '\0' && length >= 1 && length <= RUNTIME_NAME_MAX &&
	       word[0] != '.' && word[0] != '-' && strstr(word, "..") == NULL;
}

/* Is the directory PATH our own? */
static bool is_own(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/*
 * Where it is to be. False if the path is too long. $XDG_RUNTIME_DIR may be another
 * user's (su, sudo -E), who could rename what we put there. Where it is not told, or we
 * must not listen to it, it is mostly in /run/user.
 */
static bool find_path(char *path, size_t size)
{
	const char *given = secure_getenv("TREEWRAP_RUNTIME_DIR");
	const char *xdg = secure_getenv("XDG_RUNTIME_DIR");
	char usual[32];
	int length;

	snprintf(usual, sizeof(usual), "/run/user/%u", geteuid());
	if (xdg == NULL || xdg[0] == '\0' || !is_own(xdg))
		xdg = geteuid() != 0 && is_own(usual) ? usual : NULL;
	if (given != NULL && given[0] != '\0')
		length = snprintf(path, size, "%s", given);
	else if (xdg != NULL)
		length = snprintf(path, size, "%s/treewrap", xdg);
	else if (geteuid() == 0)
		length = snprintf(path, size, "/run/treewrap");
	else
		length = snprintf(path, size, "/tmp/treewrap-%u", geteuid());
	if (length < 0 || (size_t)length >= size)
		return false;
	/* With a slash behind it, a symbolic link would be followed. */
	while (length > 1 && path[length - 1] == '/')
		path[--length] = '\0';
	return true;
}

/* Why the directory is none for us, or NULL. */
static const char *find_fault(int directory, bool make)
{
	struct stat st;

	if (fstat(directory, &st) < 0)
		return strerror(errno);
	errno = EPERM;
	/* Root's client may go to anybody's runs; root's own are not to be had by others.
	 */
	if (st.st_uid != geteuid() && (make || geteuid() != 0))
		return "it is another user's";
	/* Others could hold its lock, too, if they may read it. */
	if ((st.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO)) != S_IRWXU)
		return "its mode is not 0700";
	return NULL;
}

static bool make_directory(const char *path)
{
	const mode_t mask = umask(S_IRWXG | S_IRWXO);
	const bool made = mkdir(path, S_IRWXU) == 0 || errno == EEXIST;

	umask(mask);
	return made;
}

bool runtime_open(struct runtime *runtime, bool make, char *why, size_t size)
{
	const char *fault = NULL;
	char *path = runtime->path;

	runtime->directory = -1;
	if (!find_path(path, sizeof(runtime->path))) {
		snprintf(why, size, "the path of the runtime directory is too long");
		errno = ENAMETOOLONG;
		return false;
	}
	if (make && !make_directory(path))
		fault = strerror(errno);
	if (fault == NULL) {
		runtime->directory = descriptor_above_2(
			open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
		if (runtime->directory >= 0)
			fault = find_fault(runtime->directory, make);
		else
			/* Linux says ENOTDIR of a symbolic link with O_DIRECTORY. */
			fault = errno == ENOTDIR || errno == ELOOP
					? "it is no directory, or a symbolic link"
					: strerror(errno);
	}
	if (fault == NULL)
		return true;
	const int error = errno;
	snprintf(why, size, "%s: %s", path, fault);
	if (runtime->directory >= 0)
		close(runtime->directory);
	errno = error;
	return false;
}

/*
 * NAME's address. By the descriptor, for the path may be too long for an address, and may
 * lead elsewhere by now; without /proc by the path. False if that is too long.
 */
static bool address_of(const struct runtime *runtime, const char *name,
		       struct sockaddr_un *address)
{
	const size_t size = sizeof(address->sun_path);
	char directory[48];
	int length;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(directory, sizeof(directory), PROC_FD "%d", runtime->directory);
	if (access(directory, F_OK) == 0)
		length = snprintf(address->sun_path, size, "%s/%s" RUNTIME_SUFFIX,
				  directory, name);
	else
		length = snprintf(address->sun_path, size, "%s/%s" RUNTIME_SUFFIX,
				  runtime->path, name);
	if (length >= 0 && (size_t)length < size)
		return true;
	errno = ENAMETOOLONG;
	return false;
}

static bool lock(const struct runtime *runtime)
{
	const struct timespec pause = {0, LOCK_PAUSE_NS};

	/* Ends: after so many tries. */
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(runtime->directory, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (errno != EWOULDBLOCK)
			return false;
		nanosleep(&pause, NULL);
	}
	return false;
}

static void unlock(const struct runtime *runtime)
{
	/* Fails only without a lock. */
	flock(runtime->directory, LOCK_UN);
}

/*
 * NAME's socket, as a place in the file system (O_PATH), by ADDRESS too. It must be one,
 * and of the directory's owner: a link could lead root's client to another's run. -1 and
 * errno.
 */
static int find_socket(const struct runtime *runtime, const char *name,
		       struct sockaddr_un *address)
{
	char file[RUNTIME_FILE_SIZE];
	struct stat owner, st;

	snprintf(file, sizeof(file), "%s" RUNTIME_SUFFIX, name);
	const int place = descriptor_above_2(
		openat(runtime->directory, file, O_PATH | O_NOFOLLOW | O_CLOEXEC));
	if (place < 0)
		return -1;
	if (fstat(runtime->directory, &owner) == 0 && fstat(place, &st) == 0 &&
	    S_ISSOCK(st.st_mode) && st.st_uid == owner.st_uid &&
	    address_of(runtime, name, address)) {
		if (strncmp(address->sun_path, PROC_FD, strlen(PROC_FD)) == 0)
			snprintf(address->sun_path, sizeof(address->sun_path),
				 PROC_FD "%d", place);
		return place;
	}
	close(place);
	errno = ENOENT;
	return -1;
}

int runtime_connect(const struct runtime *runtime, const char *name)
{
	struct sockaddr_un address;
	const int place = find_socket(runtime, name, &address);

	if (place < 0)
		return -1;
	/* Without waiting: EAGAIN if its queue is full, so somebody listens. */
	const int fd = descriptor_above_2(
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	const bool connected = fd >= 0 && connect(fd, (const struct sockaddr *)&address,
						  sizeof(address)) == 0;
	const int error = errno;
	close(place);
	if (fd >= 0 && !connected)
		close(fd);
	errno = error;
	return connected ? fd : -1;
}

/* With the lock held. */
static void clear_if_stale(const struct runtime *runtime, const char *name)
{
	const int fd = runtime_connect(runtime, name);
	char file[RUNTIME_FILE_SIZE];

	if (fd >= 0) {
		close(fd);
		return;
	}
	if (errno != ECONNREFUSED)
		return;
	snprintf(file, sizeof(file), "%s" RUNTIME_SUFFIX, name);
	/* If that fails the name stays taken, and who wants it will hear so. */
	unlinkat(runtime->directory, file, 0);
}

void runtime_clear_stale(const struct runtime *runtime, const char *name)
{
	if (!lock(runtime))
		return;
	clear_if_stale(runtime, name);
	unlock(runtime);
}

/* Under the lock: a socket that is bound but does not listen yet looks stale. */
static bool bind_and_listen(int fd, const struct sockaddr_un *address)
{
	const mode_t mask = umask(S_IXUSR | S_IRWXG | S_IRWXO);
	const bool done =
		bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
		listen(fd, SOMAXCONN) == 0;

	umask(mask);
	return done;
}

int runtime_listen(const struct runtime *runtime, const char *name)
{
	struct sockaddr_un address;
	char file[RUNTIME_FILE_SIZE];
	bool done = false;

	snprintf(file, sizeof(file), "%s" RUNTIME_SUFFIX, name);
	if (!address_of(runtime, name, &address))
		return -1;
	const int fd = descriptor_above_2(
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return -1;
	if (lock(runtime)) {
		clear_if_stale(runtime, name);
		done = bind_and_listen(fd, &address);
		/* Those who clear away what is old in /tmp pass over a sticky file. */
		if (done && fchmodat(runtime->directory, file, SOCKET_MODE, 0) < 0)
			errno = 0;
		const int error = errno;
		unlock(runtime);
		errno = error;
	}
	if (done)
		return fd;
	const int error = errno;
	close(fd);
	errno = error;
	return -1;
}
