/* The numbers that a card shows: load, memory, power, heat, clocks, bus. */
#include "core.h"
#include "holders.h"

/* A plain number of a card; NO_READING says that this card does not have it. */
#define READING(function, type, field)                                       \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, type *value)           \
    {                                                                        \
        ENTER(device, WHOLE_CARD);                                           \
        REQUIRE(value);                                                      \
        return number(at.card->field, value);                                \
    }

static nvmlReturn_t number(uint32_t reading, unsigned *value)
{
    if (reading == NO_READING) return NVML_ERROR_NOT_SUPPORTED;
    *value = reading;
    return NVML_SUCCESS;
}

READING(nvmlDeviceGetPowerUsage, unsigned, power_mw)
READING(nvmlDeviceGetEnforcedPowerLimit, unsigned, power_limit_mw)
READING(nvmlDeviceGetPowerManagementLimit, unsigned, power_limit_mw)
READING(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, power_default_mw)
READING(nvmlDeviceGetFanSpeed, unsigned, fan_speed)
READING(nvmlDeviceGetPerformanceState, unsigned, performance_state)
READING(nvmlDeviceGetPowerState, unsigned, performance_state)
READING(nvmlDeviceGetPersistenceMode, unsigned, persistence_mode)
READING(nvmlDeviceGetComputeMode, unsigned, compute_mode)
READING(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, pcie_generation)
READING(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, pcie_generation)
READING(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, pcie_generation)
READING(nvmlDeviceGetCurrPcieLinkWidth, unsigned, pcie_width)
READING(nvmlDeviceGetMaxPcieLinkWidth, unsigned, pcie_width)

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(rates);
    if (is_split(&at)) return NVML_ERROR_NOT_SUPPORTED;
    TRY(number(at.card->utilization, &rates->gpu));
    return number(at.card->memory_utilization, &rates->memory);
}

static nvmlReturn_t engine(const struct target *at, uint32_t reading, unsigned *value,
                           unsigned *period_us)
{
    REQUIRE(value);
    REQUIRE(period_us);
    if (is_split(at)) return NVML_ERROR_NOT_SUPPORTED;
    *period_us = 100000;
    return number(reading, value);
}

EXPORT nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned *value,
                                                    unsigned *period_us)
{
    ENTER(device, CARD_OR_INSTANCE);
    return engine(&at, at.card->encoder_utilization, value, period_us);
}

EXPORT nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned *value,
                                                    unsigned *period_us)
{
    ENTER(device, CARD_OR_INSTANCE);
    return engine(&at, at.card->decoder_utilization, value, period_us);
}

struct memory {
    uint64_t total, reserved, used, free;
};

static nvmlReturn_t memory_of(const struct target *at, struct memory *memory)
{
    if (at->instance >= 0) {
        struct instance instance;
        TRY(read_instance(at, &instance));
        memory->total = instance.memory_total;
        memory->reserved = instance.memory_reserved;
        memory->used = instance.memory_used;
    } else {
        memory->total = at->card->memory_total;
        memory->reserved = at->card->memory_reserved;
        memory->used = at->card->memory_used + held_by_all(at->world, at->index);
    }
    uint64_t taken = memory->reserved + memory->used;
    memory->free = taken < memory->total ? memory->total - taken : 0;
    return NVML_SUCCESS;
}

/* The old call counts what the driver keeps for itself as used. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *info)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(info);
    struct memory memory;
    TRY(memory_of(&at, &memory));
    *info = (nvmlMemory_t){memory.total, memory.free, memory.total - memory.free};
    return NVML_SUCCESS;
}

/* A wrong version is answered so by the real call, unlike by its younger siblings. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *info)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(info);
    if (info->version != STRUCT_VERSION(nvmlMemory_v2_t, 2)) return NVML_ERROR_FUNCTION_NOT_FOUND;
    struct memory memory;
    TRY(memory_of(&at, &memory));
    info->total = memory.total;
    info->reserved = memory.reserved;
    info->free = memory.free;
    info->used = memory.used;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *info)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(info);
    const unsigned long long total = 128ULL << 30, used = 2ULL << 20;
    *info = (nvmlBAR1Memory_t){total, total - used, used};
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *value)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(value);
    if (sensor != 0) return NVML_ERROR_INVALID_ARGUMENT;
    return number(at.card->temperature_c, value);
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *value)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(value);
    if (value->version != STRUCT_VERSION(nvmlTemperature_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (value->sensorType != 0) return NVML_ERROR_INVALID_ARGUMENT;
    unsigned reading;
    TRY(number(at.card->temperature_c, &reading));
    value->temperature = (int)reading;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned threshold,
                                                      unsigned *value)
{
    static const unsigned celsius[] = {95, 89, 95, 87}; /* shutdown, slowdown, memory, card */
    ENTER(device, WHOLE_CARD);
    REQUIRE(value);
    if (threshold >= 8) return NVML_ERROR_INVALID_ARGUMENT;
    if (threshold >= 4) return NVML_ERROR_NOT_SUPPORTED;
    *value = celsius[threshold];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned *count)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(count);
    *count = at.card->fan_speed == NO_READING ? 0 : 1;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *speed)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(speed);
    uint32_t reading = at.card->fan_speed;
    if (fan > 0 || reading == NO_READING) return NVML_ERROR_INVALID_ARGUMENT;
    *speed = reading;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device,
                                                                 unsigned *low, unsigned *high)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(low);
    REQUIRE(high);
    *low = at.card->power_min_mw;
    *high = at.card->power_max_mw;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                        unsigned long long *energy)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(energy);
    *energy = at.card->energy_mj;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *mhz)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(mhz);
    if (type >= 4) return NVML_ERROR_NOT_SUPPORTED;
    return number(at.card->clock_mhz[type], mhz);
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned type, unsigned *mhz)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(mhz);
    if (type >= 4) return NVML_ERROR_INVALID_ARGUMENT;
    return number(at.card->max_clock_mhz[type], mhz);
}

EXPORT nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, unsigned type,
                                                   unsigned *mhz)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(mhz);
    if (type >= 4) return NVML_ERROR_INVALID_ARGUMENT;
    if (type == 3) return NVML_ERROR_NOT_SUPPORTED;
    return number(at.card->max_clock_mhz[type], mhz);
}

EXPORT nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned type, unsigned id,
                                       unsigned *mhz)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(mhz);
    if (type >= 4 || id >= 4) return NVML_ERROR_INVALID_ARGUMENT;
    return number(id == 0 ? at.card->clock_mhz[type] : at.card->max_clock_mhz[type], mhz);
}

static nvmlReturn_t reasons(uint64_t mask, unsigned long long *value)
{
    REQUIRE(value);
    *value = mask;
    return NVML_SUCCESS;
}

/* Two names of one reading: the newer one came when "throttle" became "event". */
#define REASONS(function, mask)                                              \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned long long *value) \
    {                                                                        \
        ENTER(device, WHOLE_CARD);                                           \
        return reasons(mask, value);                                         \
    }

REASONS(nvmlDeviceGetCurrentClocksThrottleReasons, at.card->throttle_reasons)
REASONS(nvmlDeviceGetCurrentClocksEventReasons, at.card->throttle_reasons)
REASONS(nvmlDeviceGetSupportedClocksThrottleReasons, 0x1ff)
REASONS(nvmlDeviceGetSupportedClocksEventReasons, 0x1ff)

EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned counter,
                                                unsigned *kbps)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(kbps);
    if (counter > 1) return NVML_ERROR_INVALID_ARGUMENT;
    return number(counter == 0 ? at.card->pcie_tx_kbps : at.card->pcie_rx_kbps, kbps);
}

static void answer_field(const struct card *card, nvmlFieldValue_t *field)
{
    enum { MEMORY_TEMPERATURE = 82, TOTAL_ENERGY = 83, POWER_AVERAGE = 185, POWER_INSTANT = 186 };
    field->timestamp = (long long)clock_us();
    field->latencyUsec = 0;
    field->nvmlReturn = NVML_SUCCESS;
    field->valueType = VALUE_TYPE_UNSIGNED_INT;
    field->value.ullVal = 0;
    switch (field->fieldId) {
    case MEMORY_TEMPERATURE:
        field->value.uiVal = card->temperature_c;
        break;
    case POWER_AVERAGE:
    case POWER_INSTANT:
        field->value.uiVal = card->power_mw;
        break;
    case TOTAL_ENERGY:
        field->valueType = VALUE_TYPE_UNSIGNED_LONG_LONG;
        field->value.ullVal = card->energy_mj;
        break;
    default:
        field->nvmlReturn =
            field->fieldId < 1000 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    }
}

/* The call itself succeeds; every field carries an answer of its own. */
EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                             nvmlFieldValue_t *fields)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(fields);
    if (count <= 0) return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) {
        answer_field(at.card, &fields[i]);
        if (at.instance >= 0) fields[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
}
