/* JSON in a buffer of the caller's: events, and replies to requests. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What does not fit marks it full, and changes nothing else. */
struct json {
	char *text; /* no NUL at its end is promised */
	size_t size, length;
	bool full;
};

/* Appends what printf(3) would make of it. */
void json_add(struct json *json, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* TEXT as a string; what is not UTF-8 becomes U+FFFD. */
void json_string(struct json *json, const char *text);

/* ',"KEY":' and NS as seconds with three decimals. */
void json_seconds(struct json *json, const char *key, int64_t ns);

/* ',"KEY":' and the name of SIGNO, or null if that is 0. */
void json_signal(struct json *json, const char *key, int signo);

/*
 * NAME and the arguments ARGS, which end in NULL, as an array. What would go beyond LIMIT
 * bytes of the whole is left out, and all behind it; then false.
 */
bool json_command(struct json *json, const char *name, char *const args[], size_t limit);

#endif
