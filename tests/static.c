/*
 * static: compares static/libc.c, the stand-ins of the static program, with libc's own.
 * Prints the seed, and how many comparisons were made; fails at the first difference.
 */
/* Before the names are changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define vsnprintf   small_vsnprintf
#define snprintf    small_snprintf
#define dprintf	    small_dprintf
#define malloc	    small_malloc
#define calloc	    small_calloc
#define realloc	    small_realloc
#define free	    small_free
#define setlocale   small_setlocale
#define nl_langinfo small_nl_langinfo
#define strstr	    small_strstr
#include "../static/libc.c"
#undef vsnprintf
#undef snprintf
#undef dprintf
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef setlocale
#undef nl_langinfo
#undef strstr

static unsigned long long state, compared;

static unsigned long long chance(void)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return state >> 20;
}

/* Numbers of all lengths, and the ends of their ranges. */
static long long number(void)
{
	static const long long ends[] = {0,	    1,	      -1,	INT_MAX,
					 INT_MIN,   LONG_MAX, LONG_MIN, UINT_MAX,
					 LLONG_MAX, LLONG_MIN};

	if (chance() % 4 == 0)
		return ends[chance() % (sizeof(ends) / sizeof(ends[0]))];
	const long long some = (long long)(chance() << 30 ^ chance());
	return (chance() % 2 ? some : -some) >> chance() % 63;
}

static void expect(const char *format, size_t size, const char *ours, int length,
		   const char *theirs, int right)
{
	compared++;
	if (length == right && memcmp(ours, theirs, size < 200 ? size : 200) == 0)
		return;
	printf("'%s' in %zu: %d '%.*s', and not %d '%.*s'\n", format, size, length, 150,
	       ours, right, 150, theirs);
	exit(1);
}

/* The arguments are of chance, and the same for both. */
#define COMPARE(format, ...)                                                             \
	do {                                                                             \
		char ours[200], theirs[200];                                             \
		const size_t size = chance() % 150;                                      \
		const unsigned long long before = state;                                 \
		memset(ours, '#', sizeof(ours));                                         \
		memset(theirs, '#', sizeof(theirs));                                     \
		const int length = small_snprintf(ours, size, format, __VA_ARGS__);      \
		state = before;                                                          \
		const int right = snprintf(theirs, size, format, __VA_ARGS__);           \
		expect(format, size, ours, length, theirs, right);                       \
	} while (0)

static void compare_texts(void)
{
	static const char *const words[] = {"", "x", "some text",
					    "a longer one, of words"};
	const char *word = words[chance() % 4];
	const int width = (int)(chance() % 30);

	COMPARE("%d", (int)number());
	COMPARE("<%5d|%05d>", (int)number(), (int)number());
	COMPARE("%u %x %04x", (unsigned)number(), (unsigned)number(), (unsigned)number());
	COMPARE("%ld %lld %lu", (long)number(), number(), (unsigned long)number());
	COMPARE("%llu %llx", (unsigned long long)number(), (unsigned long long)number());
	COMPARE("%03lld.%zu", number(), (size_t)number());
	COMPARE("%s, %.3s, %.*s", word, word, width, word);
	COMPARE("%12s|%*d|%c%%", word, width, (int)number(), 'x');
	COMPARE("%s\n", word);
}

/* Of few letters, so that there is something to be found. */
static void compare_searches(void)
{
	char text[32], word[8];
	const size_t length = chance() % sizeof(text), wanted = chance() % sizeof(word);

	for (size_t i = 0; i < length; i++)
		text[i] = (char)('a' + chance() % 2);
	for (size_t i = 0; i < wanted; i++)
		word[i] = (char)('a' + chance() % 2);
	text[length] = word[wanted] = '\0';
	compared++;
	if (small_strstr(text, word) == strstr(text, word))
		return;
	printf("'%s' in '%s'\n", word, text);
	exit(1);
}

static void check_memory(void)
{
	unsigned char *blocks[64] = {0};
	size_t sizes[64] = {0};

	for (int i = 0; i < 20000; i++) {
		const int at = (int)(chance() % 64);
		const size_t size = chance() % (chance() % 8 == 0 ? 20000 : 200);
		unsigned char *block = small_realloc(blocks[at], size);
		if (block == NULL || ((uintptr_t)block & 15) != 0)
			exit(printf("no block of %zu\n", size));
		for (size_t j = 0; j < sizes[at] && j < size; j++)
			if (block[j] != (unsigned char)at)
				exit(printf("block %d has changed\n", at));
		memset(block, at, size);
		blocks[at] = block;
		sizes[at] = size;
		compared++;
	}
	const unsigned char *zeros = small_calloc(100, 100);
	for (int i = 0; i < 10000; i++)
		if (zeros[i] != 0)
			exit(printf("not zeros\n"));
	if (small_calloc(SIZE_MAX, 2) != NULL || small_malloc(SIZE_MAX) != NULL)
		exit(printf("too much memory\n"));
}

int main(int argc, char **argv)
{
	state = argc > 1 ? strtoull(argv[1], NULL, 10) : (unsigned long long)time(NULL);
	printf("seed %llu\n", state);
	for (int i = 0; i < 100000; i++) {
		compare_texts();
		compare_searches();
	}
	check_memory();
	printf("%llu comparisons\n", compared);
	return 0;
}
