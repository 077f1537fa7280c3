/* Counting of calls, and the faults that a test put in their way. */
#define _GNU_SOURCE
#include "shared.h"

#include <ctype.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* nvmlDeviceGetMemoryInfo_v2 goes by nvmlDeviceGetMemoryInfo. */
static size_t base_length(const char *name)
{
    size_t length = strnlen(name, FUNCTION_SIZE);
    size_t at = length;
    while (at > 0 && isdigit((unsigned char)name[at - 1])) at--;
    bool versioned = at < length && at >= 2 && name[at - 1] == 'v' && name[at - 2] == '_';
    return versioned ? at - 2 : length;
}

void count_call(const char *function)
{
    size_t length = base_length(function);
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)function[i]) * 16777619u;
    atomic_fetch_add(&world->calls[hash % MAX_COUNTERS], 1);
}

static wide *mark_stuck(void)
{
    uint64_t me = (uint64_t)getpid() << 32 | (uint32_t)syscall(SYS_gettid);
    for (int i = 0; i < MAX_STUCK; i++) {
        uint64_t empty = 0;
        if (atomic_compare_exchange_strong(&world->stuck[i], &empty, me)) return &world->stuck[i];
    }
    return NULL;
}

/* Waits until the fault is withdrawn, or until its delay is over. */
static void wait_out(const struct fault *fault, uint64_t token)
{
    const struct timespec nap = {0, 1000000};
    wide *mark = fault->never ? mark_stuck() : NULL;
    const uint64_t end = clock_us() + fault->delay_us;
    while (atomic_load(&fault->token) == token && (fault->never || clock_us() < end)) nanosleep(&nap, NULL);
    if (mark != NULL) atomic_store(mark, 0);
}

static bool concerns(const struct fault *fault, const char *function, int card)
{
    bool everything = strcmp(fault->function, "*") == 0;
    size_t length = base_length(function);
    bool same = length == strlen(fault->function) && memcmp(fault->function, function, length) == 0;
    if (!everything && !same) return false;
    if (card < 0) return !everything && fault->card < 0; /* a call that is about no card */
    return fault->card < 0 || fault->card == card;
}

int meet_faults(const char *function, int card)
{
    for (int i = 0; i < MAX_FAULTS; i++) {
        const struct fault *fault = &world->fault[i];
        uint64_t token = atomic_load(&fault->token);
        if (token == 0 || !concerns(fault, function, card)) continue;
        int error = (int)fault->error;
        if (fault->never || fault->delay_us) wait_out(fault, token);
        bool withdrawn = atomic_load(&fault->token) != token;
        if (error != 0 && !withdrawn) return error;
    }
    return 0;
}
