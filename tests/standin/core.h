/* What every call of the stand-in shares: the mapped world, handles, consistent reads. */
#ifndef STANDIN_CORE_H
#define STANDIN_CORE_H

#include <stdbool.h>
#include <stddef.h>

#include "nvml_types.h"
#include "world.h"

#define EXPORT __attribute__((visibility("default")))

/* A device call that only a whole card answers, or that its instances answer too. */
enum scope { WHOLE_CARD, CARD_OR_INSTANCE };

struct target {
    struct world *world;
    struct card *card;
    int index;
    int instance; /* -1: the card itself */
};

/* core.c */
bool library_ready(void);
struct world *current_world(void);
bool world_writable(void);
nvmlReturn_t enter_lookup(const char *function); /* meets no fault: which card is not known yet */
nvmlReturn_t enter_system(const char *function);
nvmlReturn_t enter_device(const char *function, nvmlDevice_t device, enum scope scope,
                          struct target *target);
nvmlDevice_t handle_of(int card, int instance);
bool handle_target(nvmlDevice_t device, struct target *target);
nvmlReturn_t read_copy(const struct card *card, void *into, const void *from, size_t size);
nvmlReturn_t read_instance(const struct target *target, struct instance *into);
nvmlReturn_t answer_string(const char *text, char *buffer, unsigned length);
uint64_t clock_us(void);

/* faults.c */
void count_call(struct world *world, const char *function);
nvmlReturn_t meet_faults(struct world *world, const char *function, int card, int instance);

/* mig.c: whether utilization is hidden because the card is split */
bool is_split(const struct target *target);

#define ENTER(device, scope)                                                 \
    struct target at;                                                        \
    do {                                                                     \
        nvmlReturn_t entered = enter_device(__func__, device, scope, &at);   \
        if (entered != NVML_SUCCESS) return entered;                         \
    } while (0)

#define ENTER_SYSTEM()                                                       \
    do {                                                                     \
        nvmlReturn_t entered = enter_system(__func__);                       \
        if (entered != NVML_SUCCESS) return entered;                         \
    } while (0)

#define REQUIRE(pointer)                                                     \
    do {                                                                     \
        if ((pointer) == NULL) return NVML_ERROR_INVALID_ARGUMENT;           \
    } while (0)

#define TRY(expression)                                                      \
    do {                                                                     \
        nvmlReturn_t tried = (expression);                                   \
        if (tried != NVML_SUCCESS) return tried;                             \
    } while (0)

#endif
