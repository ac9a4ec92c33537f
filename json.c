/*
 * Promises: what was appended is whole; a text that holds any bytes becomes a valid
 * string; nothing is allocated.
 */
#include "json.h"
#include "clock.h"
#include "signals.h"

#include <stdarg.h>
#include <stdio.h>

void json_add(struct json *json, const char *format, ...)
{
	const size_t room = json->size - json->length;
	va_list args;

	va_start(args, format);
	const int length = vsnprintf(json->text + json->length, room, format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= room)
		json->full = true;
	else
		json->length += (size_t)length;
}

/* The length of the well-formed UTF-8 sequence at TEXT, or 0. */
static int utf8_length(const unsigned char *text)
{
	const unsigned char c = text[0];
	const int length = c < 0x80		   ? 1
			   : c >= 0xc2 && c < 0xe0 ? 2
			   : c >= 0xe0 && c < 0xf0 ? 3
			   : c >= 0xf0 && c < 0xf5 ? 4
						   : 0;

	for (int i = 1; i < length; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, and what lies above U+10FFFF. */
	if ((c == 0xe0 && text[1] < 0xa0) || (c == 0xed && text[1] > 0x9f) ||
	    (c == 0xf0 && text[1] < 0x90) || (c == 0xf4 && text[1] > 0x8f))
		return 0;
	return length;
}

void json_string(struct json *json, const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	json_add(json, "\"");
	while (*c != '\0') {
		const int length = utf8_length(c);
		if (length == 0)
			json_add(json, "\\ufffd");
		else if (*c == '"' || *c == '\\')
			json_add(json, "\\%c", *c);
		else if (*c < 0x20 || *c == 0x7f)
			json_add(json, "\\u%04x", *c);
		else
			json_add(json, "%.*s", length, (const char *)c);
		c += length > 0 ? length : 1;
	}
	json_add(json, "\"");
}

void json_seconds(struct json *json, const char *key, int64_t ns)
{
	json_add(json, ",\"%s\":%lld.%03lld", key, (long long)(ns / NS_PER_S),
		 (long long)(ns % NS_PER_S / NS_PER_MS));
}

void json_signal(struct json *json, const char *key, int signo)
{
	char name[SIGNAL_NAME_SIZE];

	if (signo == 0) {
		json_add(json, ",\"%s\":null", key);
		return;
	}
	signal_name(signo, name);
	json_add(json, ",\"%s\":\"%s\"", key, name);
}

/* One more string, unless it goes beyond LIMIT: then JSON is as it was. */
static bool string_within(struct json *json, const char *before, const char *text,
			  size_t limit)
{
	const size_t length = json->length;

	json_add(json, "%s", before);
	json_string(json, text);
	if (!json->full && json->length <= limit)
		return true;
	json->full = false;
	json->length = length;
	return false;
}

bool json_command(struct json *json, const char *name, char *const args[], size_t limit)
{
	bool whole = true;

	json_add(json, "[");
	if (!string_within(json, "", name, limit)) {
		json_add(json, "\"\"");
		whole = false;
	}
	/* Ends: the arguments do. */
	while (whole && *args != NULL)
		whole = string_within(json, ",", *args++, limit);
	json_add(json, "]");
	return whole;
}
