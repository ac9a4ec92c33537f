/*
 * What Debian's libjansson.a calls, built with glibc's -D_FORTIFY_SOURCE, and musl does
 * not have. Promises what the functions without "chk" promise, and no checks: these are
 * in paths that treewrapctl does not take.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

int __printf_chk(int flag, const char *format, ...);
int __sprintf_chk(char *text, int flag, size_t size, const char *format, ...);
int __snprintf_chk(char *text, size_t room, int flag, size_t size, const char *format,
		   ...);
int __asprintf_chk(char **text, int flag, const char *format, ...);
int __vsnprintf_chk(char *text, size_t room, int flag, size_t size, const char *format,
		    va_list args);
char *__strncpy_chk(char *text, const char *from, size_t length, size_t size);
void __syslog_chk(int priority, int flag, const char *format, ...);

int __printf_chk(int flag, const char *format, ...)
{
	va_list args;

	(void)flag;
	va_start(args, format);
	const int length = vprintf(format, args);
	va_end(args);
	return length;
}

int __sprintf_chk(char *text, int flag, size_t size, const char *format, ...)
{
	va_list args;

	(void)flag;
	va_start(args, format);
	const int length = vsnprintf(text, size, format, args);
	va_end(args);
	return length;
}

int __snprintf_chk(char *text, size_t room, int flag, size_t size, const char *format,
		   ...)
{
	va_list args;

	(void)flag;
	va_start(args, format);
	const int length = vsnprintf(text, room < size ? room : size, format, args);
	va_end(args);
	return length;
}

int __vsnprintf_chk(char *text, size_t room, int flag, size_t size, const char *format,
		    va_list args)
{
	(void)flag;
	return vsnprintf(text, room < size ? room : size, format, args);
}

char *__strncpy_chk(char *text, const char *from, size_t length, size_t size)
{
	return strncpy(text, from, length < size ? length : size);
}

int __asprintf_chk(char **text, int flag, const char *format, ...)
{
	va_list args;

	(void)flag;
	va_start(args, format);
	const int length = vasprintf(text, format, args);
	va_end(args);
	return length;
}

void __syslog_chk(int priority, int flag, const char *format, ...)
{
	va_list args;

	(void)flag;
	va_start(args, format);
	vsyslog(priority, format, args);
	va_end(args);
}
