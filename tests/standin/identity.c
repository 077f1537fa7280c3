/* Finding cards, and what they are called. */
#include "core.h"

#include <stdio.h>
#include <string.h>

static nvmlReturn_t count_cards(const char *function, unsigned *count)
{
    TRY(enter_system(function));
    REQUIRE(count);
    *count = current_world()->cards;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned *count) { return count_cards(__func__, count); }
EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) { return count_cards(__func__, count); }

/* A lookup is a call on the card that it finds: a lost card is lost here already. */
static nvmlReturn_t hand_out(const char *function, int card, int instance, nvmlDevice_t *device)
{
    TRY(meet_faults(current_world(), function, card, instance));
    *device = handle_of(card, instance);
    return NVML_SUCCESS;
}

static nvmlReturn_t find_nothing(const char *function, nvmlReturn_t answer)
{
    TRY(meet_faults(current_world(), function, -1, -1));
    return answer;
}

static nvmlReturn_t by_index(const char *function, unsigned index, nvmlDevice_t *device)
{
    TRY(enter_lookup(function));
    REQUIRE(device);
    if (index >= current_world()->cards)
        return find_nothing(function, NVML_ERROR_INVALID_ARGUMENT);
    return hand_out(function, (int)index, -1, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return by_index(__func__, index, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    return by_index(__func__, index, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    TRY(enter_lookup(__func__));
    REQUIRE(uuid);
    REQUIRE(device);
    struct world *world = current_world();
    char found[NAME_SIZE];
    for (int i = 0; i < (int)world->cards; i++) {
        struct card *card = &world->card[i];
        TRY(read_copy(card, found, card->uuid, sizeof found));
        if (strcmp(found, uuid) == 0) return hand_out(__func__, i, -1, device);
        for (int slot = 0; card->mig_mode && slot < MAX_INSTANCES; slot++) {
            if (!card->instance[slot].present) continue;
            TRY(read_copy(card, found, card->instance[slot].uuid, sizeof found));
            if (strcmp(found, uuid) == 0) return hand_out(__func__, i, slot, device);
        }
    }
    return find_nothing(__func__, NVML_ERROR_NOT_FOUND);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    TRY(enter_lookup(__func__));
    REQUIRE(serial);
    REQUIRE(device);
    struct world *world = current_world();
    for (int i = 0; i < (int)world->cards; i++)
        if (strcmp(world->card[i].serial, serial) == 0) return hand_out(__func__, i, -1, device);
    return find_nothing(__func__, NVML_ERROR_NOT_FOUND);
}

struct address {
    unsigned domain, bus, device;
};

/* The domain may be left out, and so may the function. */
static bool parse_address(const char *text, struct address *address)
{
    unsigned a, b, c;
    int fields = sscanf(text, "%8x:%2x:%2x", &a, &b, &c);
    if (fields == 3) *address = (struct address){a, b, c};
    if (fields == 2) *address = (struct address){0, a, b};
    return fields >= 2;
}

static nvmlReturn_t by_address(const char *function, const char *text, nvmlDevice_t *device)
{
    TRY(enter_lookup(function));
    REQUIRE(text);
    REQUIRE(device);
    struct address wanted, found;
    if (!parse_address(text, &wanted))
        return find_nothing(function, NVML_ERROR_INVALID_ARGUMENT);
    struct world *world = current_world();
    for (int i = 0; i < (int)world->cards; i++)
        if (parse_address(world->card[i].bus_id, &found) && found.domain == wanted.domain &&
            found.bus == wanted.bus && found.device == wanted.device)
            return hand_out(function, i, -1, device);
    return find_nothing(function, NVML_ERROR_NOT_FOUND);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device)
{
    return by_address(__func__, id, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
    return by_address(__func__, id, device);
}

/* An instance is numbered by its slot, so that the number finds it again. */
EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(index);
    *index = (unsigned)(at.instance >= 0 ? at.instance : at.index);
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

EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length)
{
    ENTER(device, WHOLE_CARD);
    char text[sizeof at.card->serial];
    TRY(read_copy(at.card, text, at.card->serial, sizeof text));
    return answer_string(text, serial, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *text, unsigned length)
{
    ENTER(device, WHOLE_CARD);
    return answer_string("96.00.A5.00.1A", text, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *text, unsigned length)
{
    ENTER(device, WHOLE_CARD);
    return answer_string("692-2G520-0200-000", text, length);
}

static nvmlReturn_t pci_info(const struct target *at, nvmlPciInfo_t *info, int version)
{
    REQUIRE(info);
    char text[sizeof at->card->bus_id];
    struct address found;
    TRY(read_copy(at->card, text, at->card->bus_id, sizeof text));
    if (!parse_address(text, &found)) return NVML_ERROR_UNKNOWN;
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0",
             found.domain & 0xffffu, found.bus & 0xffu, found.device & 0xffu);
    info->domain = found.domain;
    info->bus = found.bus;
    info->device = found.device;
    info->pciDeviceId = at->card->pci_device_id;
    if (version >= 2) info->pciSubSystemId = 0x16c110deu;
    if (version >= 3) memcpy(info->busId, text, sizeof text);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    ENTER(device, CARD_OR_INSTANCE);
    return pci_info(&at, info, 1);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    ENTER(device, CARD_OR_INSTANCE);
    return pci_info(&at, info, 2);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    ENTER(device, CARD_OR_INSTANCE);
    return pci_info(&at, info, 3);
}

EXPORT nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned *board)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(board);
    struct address found;
    if (!parse_address(at.card->bus_id, &found)) return NVML_ERROR_UNKNOWN;
    *board = found.domain << 16 | found.bus << 8 | found.device;
    return NVML_SUCCESS;
}

/* Facts that are the same for every card of a world. */
#define CONSTANT(function, type, reply)                                      \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, type *value)           \
    {                                                                        \
        ENTER(device, CARD_OR_INSTANCE);                                     \
        REQUIRE(value);                                                      \
        *value = (reply);                                                    \
        return NVML_SUCCESS;                                                 \
    }

CONSTANT(nvmlDeviceGetMultiGpuBoard, unsigned, 0)
CONSTANT(nvmlDeviceGetBrand, unsigned, 14)
CONSTANT(nvmlDeviceGetArchitecture, unsigned, 9)
CONSTANT(nvmlDeviceGetBusType, unsigned, 2)
CONSTANT(nvmlDeviceGetNumGpuCores, unsigned, 16896)
CONSTANT(nvmlDeviceGetMemoryBusWidth, unsigned, 5120)
CONSTANT(nvmlDeviceGetDisplayMode, unsigned, 1)
CONSTANT(nvmlDeviceGetDisplayActive, unsigned, 0)
CONSTANT(nvmlDeviceGetVirtualizationMode, unsigned, 0)
CONSTANT(nvmlDeviceGetPowerManagementMode, unsigned, 1)
CONSTANT(nvmlDeviceGetPowerSource, unsigned, 0)
CONSTANT(nvmlDeviceGetPcieReplayCounter, unsigned, 0)
CONSTANT(nvmlDeviceGetAccountingMode, unsigned, 0)
CONSTANT(nvmlDeviceGetModuleId, unsigned, (unsigned)at.index + 1)

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(major);
    REQUIRE(minor);
    *major = (int)at.card->capability_major;
    *minor = (int)at.card->capability_minor;
    return NVML_SUCCESS;
}
