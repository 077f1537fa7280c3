/* Finding cards, and what they are called. */
#include "core.h"

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    ENTER_SYSTEM();
    REQUIRE(count);
    *count = current_world()->cards;
    return NVML_SUCCESS;
}

/* A lookup is a call on the card that it finds: a lost card is lost here already. */
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    TRY(enter_lookup(__func__));
    REQUIRE(device);
    bool is_there = index < current_world()->cards;
    TRY(meet_faults(current_world(), __func__, is_there ? (int)index : -1, -1));
    if (!is_there) return NVML_ERROR_INVALID_ARGUMENT;
    *device = handle_of((int)index, -1);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(minor);
    *minor = at.card->minor;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    ENTER(device, CARD_OR_INSTANCE);
    if (at.instance >= 0) {
        struct instance instance;
        TRY(read_instance(&at, &instance));
        return answer_string(instance.uuid, uuid, length);
    }
    char text[NAME_SIZE];
    TRY(read_copy(at.card, text, at.card->uuid, sizeof text));
    return answer_string(text, uuid, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    ENTER(device, CARD_OR_INSTANCE);
    if (at.instance >= 0) {
        struct instance instance;
        TRY(read_instance(&at, &instance));
        return answer_string(instance.name, name, length);
    }
    char text[NAME_SIZE];
    TRY(read_copy(at.card, text, at.card->name, sizeof text));
    return answer_string(text, name, length);
}
