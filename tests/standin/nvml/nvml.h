/* What every call of the stand-in NVML shares: devices, and how a call begins. */
#ifndef STANDIN_NVML_H
#define STANDIN_NVML_H

#include "../shared.h"
#include "types.h"

/* A device call that only a whole card answers, or that its instances answer too. */
enum scope { WHOLE_CARD, CARD_OR_INSTANCE };

struct target {
    struct card *card;
    struct instance *instance; /* NULL: the card itself */
    int index;
    bool locked;
};

/* library.c */
nvmlReturn_t enter(const char *function);        /* a call about no card, or about one that is not known yet */
nvmlReturn_t enter_system(const char *function); /* the same, with its faults */
nvmlReturn_t enter_device(const char *function, nvmlDevice_t device, enum scope scope, struct target *at);
void leave(struct target *at);
nvmlReturn_t find_device(nvmlDevice_t device, struct target *at);
nvmlDevice_t handle_of(int card, int slot); /* slot -1: the card itself */
nvmlReturn_t answer_string(const char *text, char *buffer, unsigned length);

/* While a card is split, the driver gives no utilization for it nor for its instances. */
static inline bool is_split(const struct target *at) { return at->card->mig_mode != 0; }

#define TRY(expression)                                                      \
    do {                                                                     \
        nvmlReturn_t tried = (nvmlReturn_t)(expression);                     \
        if (tried != NVML_SUCCESS) return tried;                             \
    } while (0)

/* The world stays locked until the call returns. */
#define ENTER(device, scope)                                                 \
    struct target at __attribute__((cleanup(leave))) = {0};                  \
    TRY(enter_device(__func__, device, scope, &at))

#define REQUIRE(pointer)                                                     \
    do {                                                                     \
        if ((pointer) == NULL) return NVML_ERROR_INVALID_ARGUMENT;           \
    } while (0)

#endif
