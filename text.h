/*
 * Text for people: what strangers wrote is made harmless, and on a terminal lines are cut
 * to its width. For treewrapctl.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Standard output, and how far its line has come; start with page_open(). */
struct page {
	bool terminal, utf8, colour;
	size_t width; /* SIZE_MAX: lines are not cut */
	size_t column;
	bool full; /* the rest of the line is left out */
};

enum style { STYLE_NONE, STYLE_BOLD, STYLE_WARNING };

/* Needs the locale to be set. */
void page_open(struct page *page);

/* TEXT, which is UTF-8, in the locale's encoding. What is not to be shown becomes '?'. */
void page_text(struct page *page, const char *text);

/* What printf(3) would make of it, up to 255 bytes, as page_text(). */
void page_format(struct page *page, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* For what follows; nothing where there are no colours. */
void page_style(struct page *page, enum style style);

void page_end_line(struct page *page);

/* "treewrapctl: ", the message and a newline on standard error, as page_text(). */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define DURATION_SIZE 32

/* "12s", "3m05s", "2h03m", "4d02h". */
void duration_text(double seconds, char text[DURATION_SIZE]);

#endif
