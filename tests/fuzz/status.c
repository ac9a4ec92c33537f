/*
 * Events: whatever the command's words and the names of processes hold, every event is
 * one line of valid JSON in UTF-8 that is not longer than a pipe takes whole. The words
 * are divided by NUL bytes.
 *
 * with: status.c json.c link.c descriptor.c signals.c
 */
#include "status.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TEXT_MAX  8192
#define WORDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- a small judge of JSON: each function moves past what it is named for ---- */

static const unsigned char *value(const unsigned char *c);

/* One character of UTF-8; written otherwise than status.c does it. */
static const unsigned char *character(const unsigned char *c)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned length = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
	unsigned code = length == 1 ? c[0] : c[0] & (0xff >> (length + 1));

	if ((c[0] >= 0x80 && c[0] < 0xc0) || c[0] >= 0xf8)
		abort();
	for (unsigned i = 1; i < length; i++) {
		if ((c[i] & 0xc0) != 0x80)
			abort();
		code = code << 6 | (c[i] & 0x3f);
	}
	if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		abort();
	return c + length;
}

static const unsigned char *string(const unsigned char *c)
{
	if (*c++ != '"')
		abort();
	while (*c != '"') {
		if (*c < 0x20)
			abort();
		if (*c != '\\') {
			c = character(c);
		} else if (c[1] == 'u') {
			if (strspn((const char *)c + 2, "0123456789abcdef") < 4)
				abort();
			c += 6;
		} else {
			if (c[1] == '\0' || strchr("\"\\/bfnrt", c[1]) == NULL)
				abort();
			c += 2;
		}
	}
	return c + 1;
}

static const unsigned char *list(const unsigned char *c, unsigned char closing)
{
	if (*c == closing)
		return c + 1;
	for (;;) {
		if (closing == '}') {
			c = string(c);
			if (*c++ != ':')
				abort();
		}
		c = value(c);
		if (*c == closing)
			return c + 1;
		if (*c++ != ',')
			abort();
	}
}

static const unsigned char *value(const unsigned char *c)
{
	static const char *const words[] = {"null", "true", "false"};
	const size_t digits = strspn((const char *)c, "0123456789");

	if (*c == '{')
		return list(c + 1, '}');
	if (*c == '[')
		return list(c + 1, ']');
	if (*c == '"')
		return string(c);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strncmp((const char *)c, words[i], strlen(words[i])) == 0)
			return c + strlen(words[i]);
	if (digits == 0 || (c[0] == '0' && digits > 1))
		abort();
	c += digits;
	if (*c != '.')
		return c;
	const size_t places = strspn((const char *)c + 1, "0123456789");
	if (places == 0)
		abort();
	return c + 1 + places;
}

/* Reads what FD holds: COUNT lines. */
static void judge(int fd, unsigned count)
{
	static unsigned char text[4 * PIPE_BUF + 1];
	const ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
	const unsigned char *c = text;

	text[got > 0 ? got : 0] = '\0';
	for (; *c != '\0'; count--) {
		const unsigned char *const line = c;
		c = value(c);
		if (*line != '{' || *c++ != '\n' || c - line > PIPE_BUF)
			abort();
	}
	if (count != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[TEXT_MAX + 1];
	static struct status status;
	static struct ending ending;
	static char *words[WORDS_MAX + 1];
	static int fd = -1;
	unsigned count = 0;

	if (size > TEXT_MAX)
		return 0;
	if (fd < 0)
		fd = memfd_create("events", 0);
	memcpy(text, data, size);
	text[size] = '\0';
	for (size_t at = 0; at <= size && count < WORDS_MAX; at += strlen(text + at) + 1)
		words[count++] = text + at;
	words[count] = NULL;
	const struct options opt = {.command = words, .name = words[0], .status_fd = fd};
	if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		abort();
	status_open(&status, &opt);
	status_start(&status, &opt, NULL, CONTAIN_TREE, 1, 2);
	ending = (struct ending){.leftovers = count, .survivors = count};
	for (unsigned i = 0; i < count; i++) {
		strncpy(ending.leftover_names[i], words[i], PROC_COMMAND_SIZE - 1);
		if (i >= SURVIVORS_MAX)
			continue;
		struct survivor *survivor = &ending.survivor[i];
		survivor->process.state = 'D';
		strncpy(survivor->process.command, words[i], PROC_COMMAND_SIZE - 1);
		strncpy(survivor->reason, words[i], REASON_SIZE - 1);
	}
	status_end(&status, &ending);
	judge(fd, 2);
	return 0;
}
