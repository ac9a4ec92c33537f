/* Of both programs, and of the packages that are made of them. */
#ifndef VERSION_H
#define VERSION_H

#define VERSION "0.1.0"

#endif
