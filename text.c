/*
 * Promises: nothing that a stranger wrote moves the cursor, changes the terminal or the
 * direction of writing, or begins a line; a width is of columns and not of bytes. Does
 * not promise that look-alikes are told apart.
 */
#include "text.h"

#include <langinfo.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#define WIDTH_DEFAULT 80
#define WIDTH_MAX     10000

/* The first character of *TEXT, which is not at its end and moves on; what is no
 * well-formed UTF-8 is '?', byte by byte. */
static wchar_t take_character(const char **text)
{
	static const wchar_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *c = (const unsigned char *)*text;
	int length = c[0] < 0x80   ? 1
		     : c[0] < 0xc2 ? 0
		     : c[0] < 0xe0 ? 2
		     : c[0] < 0xf0 ? 3
		     : c[0] < 0xf5 ? 4
				   : 0;
	wchar_t value = length < 2 ? c[0] : c[0] & (0x7f >> length);

	for (int i = 1; i < length; i++) {
		if ((c[i] & 0xc0) != 0x80)
			length = 0;
		value = value << 6 | (c[i] & 0x3f);
	}
	*text += length > 0 ? length : 1;
	if (length == 0 || value < least[length] || value > 0x10ffff ||
	    (value >= 0xd800 && value <= 0xdfff))
		return L'?';
	return value;
}

/* Those that turn the direction of writing show a line as another than it is. */
static bool is_harmless(wchar_t c)
{
	return iswprint((wint_t)c) && wcwidth(c) >= 0 && !(c >= 0x202a && c <= 0x202e) &&
	       !(c >= 0x2066 && c <= 0x2069);
}

/* C, or '?', in the locale's encoding. */
static size_t encode(wchar_t *c, char bytes[MB_LEN_MAX])
{
	mbstate_t state = {0};
	const size_t length = is_harmless(*c) ? wcrtomb(bytes, *c, &state) : (size_t)-1;

	if (length != (size_t)-1)
		return length;
	*c = L'?';
	bytes[0] = '?';
	return 1;
}

/* Columns of the terminal. */
static size_t find_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	const long width = columns != NULL ? strtol(columns, NULL, 10) : 0;
	return width > 0 && width <= WIDTH_MAX ? (size_t)width : WIDTH_DEFAULT;
}

void page_open(struct page *page)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	*page = (struct page){.width = SIZE_MAX};
	page->terminal = isatty(STDOUT_FILENO) != 0;
	if (!page->terminal)
		return;
	page->width = find_width();
	page->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	page->colour = (no_color == NULL || no_color[0] == '\0') && term != NULL &&
		       strcmp(term, "dumb") != 0;
}

void page_text(struct page *page, const char *text)
{
	char bytes[MB_LEN_MAX];

	/* Ends: every turn takes a character off TEXT. */
	while (*text != '\0' && !page->full) {
		wchar_t c = take_character(&text);
		const size_t length = encode(&c, bytes);
		const size_t width = (size_t)wcwidth(c);
		page->full = width > page->width - page->column;
		if (page->full)
			return;
		page->column += width;
		/* Whether that has worked is asked once, at the end. */
		(void)!fwrite(bytes, 1, length, stdout);
	}
}

void page_format(struct page *page, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	page_text(page, text);
}

void page_style(struct page *page, enum style style)
{
	static const char *const codes[] = {"\033[0m", "\033[1m", "\033[1;33m"};

	if (page->colour)
		fputs(codes[style], stdout);
}

void page_end_line(struct page *page)
{
	putchar('\n');
	page->column = 0;
	page->full = false;
}

void complain(const char *format, ...)
{
	char bytes[MB_LEN_MAX], message[4096];
	const char *text = message;
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	fputs("treewrapctl: ", stderr);
	/* Ends: every turn takes a character off TEXT. */
	while (*text != '\0') {
		wchar_t c = take_character(&text);
		fprintf(stderr, "%.*s", (int)encode(&c, bytes), bytes);
	}
	fputc('\n', stderr);
}

void duration_text(double seconds, char text[DURATION_SIZE])
{
	const long long s = (long long)seconds;

	if (s < 60)
		snprintf(text, DURATION_SIZE, "%llds", s);
	else if (s < 3600)
		snprintf(text, DURATION_SIZE, "%lldm%02llds", s / 60, s % 60);
	else if (s < 86400)
		snprintf(text, DURATION_SIZE, "%lldh%02lldm", s / 3600, s / 60 % 60);
	else
		snprintf(text, DURATION_SIZE, "%lldd%02lldh", s / 86400, s / 3600 % 24);
}
