/* Counting of calls, and the faults that a test put in their way. */
#define _GNU_SOURCE
#include "core.h"

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

static bool same_function(const char *one, const char *other)
{
    size_t length = base_length(one);
    return length == base_length(other) && memcmp(one, other, length) == 0;
}

void count_call(struct world *world, const char *function)
{
    if (!world_writable()) return;
    size_t length = base_length(function);
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)function[i]) * 16777619u;
    for (uint32_t step = 0; step < MAX_COUNTERS; step++) {
        struct counter *counter = &world->counter[(hash + step) % MAX_COUNTERS];
        uint32_t state = 0;
        if (atomic_compare_exchange_strong(&counter->state, &state, 1)) {
            memset(counter->function, 0, FUNCTION_SIZE);
            memcpy(counter->function, function, length);
            atomic_store(&counter->state, 2);
            state = 2;
        }
        /* Bounded: whoever was naming it may have been killed; a second entry does no harm. */
        for (int wait = 0; state == 1 && wait < 1000; wait++) state = atomic_load(&counter->state);
        if (state != 2 || !same_function(counter->function, function)) continue;
        atomic_fetch_add(&counter->calls, 1);
        return;
    }
}

static wide *mark_stuck(struct world *world)
{
    if (!world_writable()) return NULL;
    uint64_t me = (uint64_t)getpid() << 32 | (uint32_t)syscall(SYS_gettid);
    for (int i = 0; i < MAX_STUCK; i++) {
        uint64_t empty = 0;
        if (atomic_compare_exchange_strong(&world->stuck[i], &empty, me)) return &world->stuck[i];
    }
    return NULL;
}

/* Waits until the fault is withdrawn, or until its delay is over. */
static void wait_out(struct world *world, const struct fault *fault, uint64_t token)
{
    const struct timespec nap = {0, 2000000};
    if (fault->never) {
        wide *mark = mark_stuck(world);
        while (atomic_load(&fault->token) == token) nanosleep(&nap, NULL);
        if (mark != NULL) atomic_store(mark, 0);
        return;
    }
    uint64_t delay = fault->delay_us;
    const uint64_t end = clock_us() + delay;
    while (atomic_load(&fault->token) == token) {
        uint64_t now = clock_us();
        if (now >= end || now + delay < end) return; /* over, or the clock was set back */
        if (fault->busy) continue;
        uint64_t left = end - now;
        struct timespec rest = {0, (long)(left < 2000 ? left : 2000) * 1000};
        nanosleep(&rest, NULL);
    }
}

static bool concerns(const struct fault *fault, const char *function, int card, int instance)
{
    bool everything = strcmp(fault->function, "*") == 0;
    if (!everything && !same_function(fault->function, function)) return false;
    if (card < 0) return !everything && fault->card < 0; /* a call that is about no card */
    if (fault->card >= 0 && fault->card != card) return false;
    return fault->instance < 0 || fault->instance == instance;
}

nvmlReturn_t meet_faults(struct world *world, const char *function, int card, int instance)
{
    uint32_t limit = world->fault_limit;
    for (uint32_t i = 0; i < limit && i < MAX_FAULTS; i++) {
        const struct fault *fault = &world->fault[i];
        uint64_t token = atomic_load(&fault->token);
        if (token == 0 || !concerns(fault, function, card, instance)) continue;
        uint32_t error = fault->error;
        bool waits = fault->never || fault->delay_us;
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load(&fault->token) != token) continue; /* changed while it was read */
        if (waits) wait_out(world, fault, token);
        bool withdrawn = atomic_load(&fault->token) != token;
        if (error != NVML_SUCCESS && !withdrawn) return (nvmlReturn_t)error;
    }
    return NVML_SUCCESS;
}
