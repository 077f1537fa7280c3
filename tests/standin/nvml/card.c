/* What a card shows: its name, load, memory, power, heat, clocks, bus, links and instances. */
#include "nvml.h"

enum { USUAL_SLOTS = 7, SENSOR_OF_THE_GPU = 0, CLOCKS = 4, P2P_NVLINK = 2, P2P_NOT_SUPPORTED = 5 };

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    ENTER(device, CARD_OR_INSTANCE);
    return answer_string(at.instance == NULL ? at.card->uuid : at.instance->uuid, uuid, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    ENTER(device, CARD_OR_INSTANCE);
    return answer_string(at.instance == NULL ? at.card->name : at.instance->name, name, length);
}

/* A plain number of a card. */
#define READING(function, type, field)                                       \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, type *value)           \
    {                                                                        \
        ENTER(device, WHOLE_CARD);                                           \
        REQUIRE(value);                                                      \
        *value = at.card->field;                                             \
        return NVML_SUCCESS;                                                 \
    }

READING(nvmlDeviceGetMinorNumber, unsigned, minor)
READING(nvmlDeviceGetPowerUsage, unsigned, power_mw)
READING(nvmlDeviceGetEnforcedPowerLimit, unsigned, power_limit_mw)
READING(nvmlDeviceGetPerformanceState, unsigned, performance_state)
READING(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, throttle_reasons)

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(rates);
    if (is_split(&at)) return NVML_ERROR_NOT_SUPPORTED;
    *rates = (nvmlUtilization_t){at.card->utilization, at.card->memory_utilization};
    return NVML_SUCCESS;
}

/* A wrong version is answered so by the real call, unlike by its younger siblings. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *info)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(info);
    if (info->version != STRUCT_VERSION(nvmlMemory_v2_t, 2)) return NVML_ERROR_FUNCTION_NOT_FOUND;
    if (at.instance == NULL) {
        info->total = at.card->memory_total;
        info->reserved = at.card->memory_reserved;
        info->used = at.card->memory_used + held_by_all(at.index);
    } else {
        info->total = at.instance->memory_total;
        info->reserved = at.instance->memory_reserved;
        info->used = at.instance->memory_used;
    }
    unsigned long long taken = info->reserved + info->used;
    info->free = taken < info->total ? info->total - taken : 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *value)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(value);
    if (sensor != SENSOR_OF_THE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    *value = at.card->temperature_c;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *mhz)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(mhz);
    if (type >= CLOCKS) return NVML_ERROR_NOT_SUPPORTED;
    *mhz = at.card->clock_mhz[type];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned counter, unsigned *kbps)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(kbps);
    if (counter > 1) return NVML_ERROR_INVALID_ARGUMENT;
    *kbps = counter == 0 ? at.card->pcie_tx_kbps : at.card->pcie_rx_kbps;
    return NVML_SUCCESS;
}

/* A call on two cards meets the faults of both. */
static nvmlReturn_t enter_pair(const char *function, nvmlDevice_t one, nvmlDevice_t other, struct target *first,
                               struct target *second)
{
    TRY(enter(function));
    TRY(find_device(one, first));
    TRY(find_device(other, second));
    if (first->instance != NULL || second->instance != NULL) return NVML_ERROR_NOT_SUPPORTED;
    TRY(meet_faults(function, first->index));
    return (nvmlReturn_t)meet_faults(function, second->index);
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned *level)
{
    struct target first, second;
    TRY(enter_pair(__func__, one, other, &first, &second));
    REQUIRE(level);
    *level = world->link_level[first.index][second.index];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, unsigned kind, unsigned *status)
{
    struct target first, second;
    TRY(enter_pair(__func__, one, other, &first, &second));
    REQUIRE(status);
    *status = kind == P2P_NVLINK ? world->link_status[first.index][second.index] : P2P_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(current);
    REQUIRE(pending);
    if (!at.card->mig_capable) return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = at.card->mig_mode;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(count);
    if (!at.card->mig_capable) return NVML_ERROR_NOT_SUPPORTED;
    *count = at.card->mig_slots > USUAL_SLOTS ? at.card->mig_slots : USUAL_SLOTS;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *instance)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(instance);
    if (!at.card->mig_mode) return NVML_ERROR_NOT_FOUND;
    if (index >= MAX_INSTANCES) return NVML_ERROR_INVALID_ARGUMENT;
    if (!at.card->instance[index].present) return NVML_ERROR_NOT_FOUND;
    *instance = handle_of(at.index, (int)index);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(id);
    if (at.instance == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    *id = at.instance->gpu_instance;
    return NVML_SUCCESS;
}
