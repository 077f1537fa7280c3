/* What the parts of the stand-in libcuda share. Codes and numbers are those of the real one. */
#ifndef STANDIN_CUDA_H
#define STANDIN_CUDA_H

#include "../shared.h"

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    OPERATING_SYSTEM = 304,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    UNKNOWN = 999
};

typedef int result;
typedef uint64_t pointer;

/* start.c: how a call begins. On a card: -1 is the one of the current context. */
result enter(const char *function);
result enter_card(const char *function, int *card);
struct cuda_process *ourselves(void);

/* memory.c */
void *reach(pointer at, uint64_t bytes);

#define CALL(...)                                                            \
    do {                                                                     \
        result called = (__VA_ARGS__);                                       \
        if (called != OK) return called;                                     \
    } while (0)
#define NEED(given)                                                          \
    do {                                                                     \
        if ((given) == NULL) return INVALID_VALUE;                           \
    } while (0)

#endif
