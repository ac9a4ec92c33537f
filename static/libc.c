/*
 * Stand-ins for parts of musl that treewrap needs little of: printf(3) to a buffer
 * without floating point, a search for a word, the name of the locale's letters, and an
 * allocator for a handful of blocks that are kept to the end. They are a seventh of the
 * static program otherwise, and the allocator the first thing that touches memory.
 *
 * Promises: what tests/static.c compares with libc's is the same. Does not promise: any
 * other conversion than %d %u %x %c %s %%, with a width (and 0 before it), a precision
 * for %s, and l, ll or z; nor that memory is ever given back.
 */
#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- printf ---- */

/* Where the text goes, and how long it would be. */
struct out {
	char *text;
	size_t size, length;
};

static void put(struct out *out, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++, out->length++)
		if (out->length + 1 < out->size)
			out->text[out->length] = text[i];
}

static void pad(struct out *out, char with, int count)
{
	while (count-- > 0)
		put(out, &with, 1);
}

struct conversion {
	bool zeros;
	int width, precision; /* -1: none */
	int longs;	      /* 0 to 2 */
};

static void put_number(struct out *out, const struct conversion *how, bool negative,
		       unsigned long long value, unsigned base)
{
	char digits[24];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value > 0);
	const int missing = how->width - (int)(sizeof(digits) - at) - (negative ? 1 : 0);
	if (!how->zeros)
		pad(out, ' ', missing);
	if (negative)
		put(out, "-", 1);
	if (how->zeros)
		pad(out, '0', missing);
	put(out, digits + at, sizeof(digits) - at);
}

static void put_text(struct out *out, const struct conversion *how, const char *text)
{
	const size_t length = how->precision >= 0 ? strnlen(text, (size_t)how->precision)
						  : strlen(text);

	pad(out, ' ', how->width - (int)length);
	put(out, text, length);
}

/* The number at *FORMAT, or of ARGS for '*'. */
static int take_number(const char **format, va_list *args)
{
	int number = 0;

	if (**format == '*') {
		(*format)++;
		return va_arg(*args, int);
	}
	for (; **format >= '0' && **format <= '9'; (*format)++)
		number = number * 10 + (**format - '0');
	return number;
}

static struct conversion take_conversion(const char **format, va_list *args)
{
	struct conversion how = {false, 0, -1, 0};

	how.zeros = **format == '0';
	how.width = take_number(format, args);
	if (**format == '.') {
		(*format)++;
		how.precision = take_number(format, args);
	}
	for (; **format == 'l'; (*format)++)
		how.longs++;
	/* As long as a long, on all of Linux. */
	if (**format == 'z') {
		(*format)++;
		how.longs = 1;
	}
	return how;
}

static void convert(struct out *out, char what, const struct conversion *how,
		    va_list *args)
{
	if (what == 'd') {
		const long long value = how->longs == 2	  ? va_arg(*args, long long)
					: how->longs == 1 ? va_arg(*args, long)
							  : va_arg(*args, int);
		put_number(out, how, value < 0,
			   value < 0 ? 0 - (unsigned long long)value
				     : (unsigned long long)value,
			   10);
	} else if (what == 'u' || what == 'x') {
		const unsigned long long value =
			how->longs == 2	  ? va_arg(*args, unsigned long long)
			: how->longs == 1 ? va_arg(*args, unsigned long)
					  : va_arg(*args, unsigned);
		put_number(out, how, false, value, what == 'x' ? 16 : 10);
	} else if (what == 's') {
		put_text(out, how, va_arg(*args, const char *));
	} else if (what == 'c') {
		const char c = (char)va_arg(*args, int);
		put(out, &c, 1);
	} else {
		put(out, &what, 1);
	}
}

int vsnprintf(char *restrict text, size_t size, const char *restrict format, va_list args)
{
	struct out out = {text, size, 0};
	const char *at = format;
	va_list rest;

	va_copy(rest, args);
	/* Ends with FORMAT. */
	while (*at != '\0') {
		const size_t plain = strcspn(at, "%");
		put(&out, at, plain);
		at += plain;
		if (*at++ == '\0')
			break;
		const struct conversion how = take_conversion(&at, &rest);
		if (*at == '\0')
			break;
		convert(&out, *at++, &how, &rest);
	}
	va_end(rest);
	if (size > 0)
		text[out.length < size ? out.length : size - 1] = '\0';
	return out.length > INT_MAX ? -1 : (int)out.length;
}

int snprintf(char *restrict text, size_t size, const char *restrict format, ...)
{
	va_list args;

	va_start(args, format);
	const int length = vsnprintf(text, size, format, args);
	va_end(args);
	return length;
}

int dprintf(int fd, const char *restrict format, ...)
{
	char text[2048];
	va_list args;

	va_start(args, format);
	const int length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return (int)write(fd, text, strlen(text)) < 0 ? -1 : length;
}

/* ---- a word in a text ---- */

/* In short texts, where to prepare the search would not pay. */
char *strstr(const char *text, const char *word)
{
	const size_t length = strlen(word);

	/* Ends with TEXT. */
	while (strncmp(text, word, length) != 0)
		if (*text++ == '\0')
			return NULL;
	return (char *)text;
}

/* ---- the caller's locale, of which only the letters are of interest ---- */

char *setlocale(int category, const char *name)
{
	(void)category, (void)name;
	return NULL;
}

/* For CODESET, after setlocale(LC_CTYPE, ""): as glibc has it where that locale is there.
 */
char *nl_langinfo(nl_item item)
{
	static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
	const char *name = NULL;

	(void)item;
	for (size_t i = 0; i < 3 && (name == NULL || *name == '\0'); i++)
		name = getenv(variables[i]);
	const bool utf8 = name != NULL && (strcasestr(name, ".UTF-8") != NULL ||
					   strcasestr(name, ".utf8") != NULL);
	return (char *)(utf8 ? "UTF-8" : "ASCII");
}

/* ---- memory ---- */

#define ALIGNMENT 16
#define LARGE	  4096

/* Before each block: how much it has room for. */
struct head {
	_Alignas(ALIGNMENT) size_t size;
};

static void *from_kernel(size_t size)
{
	void *got = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);

	return got == MAP_FAILED ? NULL : got;
}

void *malloc(size_t size)
{
	static char *room;
	static size_t left;
	struct head *head;

	if (size > PTRDIFF_MAX - LARGE) {
		errno = ENOMEM;
		return NULL;
	}
	size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	const size_t whole = size + sizeof(*head);
	if (whole > LARGE) {
		head = from_kernel(whole);
	} else {
		if (whole > left) {
			room = from_kernel(16 * LARGE);
			left = room != NULL ? 16 * LARGE : 0;
		}
		head = (void *)room;
		room += room != NULL ? whole : 0;
		left -= head != NULL ? whole : 0;
	}
	if (head == NULL)
		return NULL;
	head->size = size;
	return head + 1;
}

void free(void *block)
{
	(void)block;
}

void *calloc(size_t count, size_t size)
{
	size_t whole;

	if (__builtin_mul_overflow(count, size, &whole)) {
		errno = ENOMEM;
		return NULL;
	}
	/* From the kernel, and used once: it is zeros. */
	return malloc(whole);
}

void *realloc(void *block, size_t size)
{
	void *larger;

	if (block == NULL)
		return malloc(size);
	const struct head *head = (const struct head *)block - 1;
	if (size <= head->size)
		return block;
	larger = malloc(size);
	if (larger != NULL)
		memcpy(larger, block, head->size);
	return larger;
}
