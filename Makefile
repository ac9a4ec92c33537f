# treewrap: see README.md. All that is needed to build is a C compiler and libcap-ng.

PREFIX  = /usr/local
DESTDIR =

CC      = cc
CFLAGS  = -O2 -g
WARN    = -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Wstrict-prototypes -Wvla -Werror
HARDEN  = -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE -fstack-clash-protection
LINK    = -pie -Wl,-z,relro,-z,now -Wl,--as-needed
LIBS    = -lcap-ng

PARTS   = shim reaper forward signals tree proc command options watch status link descriptors privs
OBJECTS = $(PARTS:=.o)

all: treewrap

treewrap: $(OBJECTS)
	$(CC) $(CFLAGS) $(LINK) $(LDFLAGS) -o $@ $(OBJECTS) $(LIBS)

.c.o:
	$(CC) $(WARN) $(HARDEN) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

-include $(PARTS:=.d)
