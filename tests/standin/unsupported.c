/* Calls that a reader may make and that these cards do not support.
 *
 * Each is declared with the arguments that it really has, though it looks at none of them
 * but the handle. */
#include "core.h"

#define UNSUPPORTED(function, ...)                                           \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, __VA_ARGS__);          \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, __VA_ARGS__)           \
    {                                                                        \
        ENTER(device, CARD_OR_INSTANCE);                                     \
        return NVML_ERROR_NOT_SUPPORTED;                                     \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"

UNSUPPORTED(nvmlDeviceGetEccMode, unsigned *current, unsigned *pending)
UNSUPPORTED(nvmlDeviceGetDefaultEccMode, unsigned *mode)
UNSUPPORTED(nvmlDeviceGetTotalEccErrors, unsigned error, unsigned counter, unsigned long long *n)
UNSUPPORTED(nvmlDeviceGetDetailedEccErrors, unsigned error, unsigned counter, void *counts)
UNSUPPORTED(nvmlDeviceGetMemoryErrorCounter, unsigned error, unsigned counter, unsigned place,
            unsigned long long *n)
UNSUPPORTED(nvmlDeviceGetRetiredPages, unsigned cause, unsigned *count, unsigned long long *pages)
UNSUPPORTED(nvmlDeviceGetRetiredPages_v2, unsigned cause, unsigned *count,
            unsigned long long *pages, unsigned long long *times)
UNSUPPORTED(nvmlDeviceGetRetiredPagesPendingStatus, unsigned *pending)
UNSUPPORTED(nvmlDeviceGetRemappedRows, unsigned *corrected, unsigned *uncorrected,
            unsigned *pending, unsigned *failed)
UNSUPPORTED(nvmlDeviceGetDriverModel, unsigned *current, unsigned *pending)
UNSUPPORTED(nvmlDeviceGetDriverModel_v2, unsigned *current, unsigned *pending)
UNSUPPORTED(nvmlDeviceGetGpuOperationMode, unsigned *current, unsigned *pending)
UNSUPPORTED(nvmlDeviceGetConfComputeMemSizeInfo, void *info)
UNSUPPORTED(nvmlDeviceGetInforomVersion, unsigned object, char *version, unsigned length)
UNSUPPORTED(nvmlDeviceGetInforomImageVersion, char *version, unsigned length)
UNSUPPORTED(nvmlDeviceGetNumaNodeId, unsigned *node)
UNSUPPORTED(nvmlDeviceGetJpgUtilization, unsigned *value, unsigned *period_us)
UNSUPPORTED(nvmlDeviceGetOfaUtilization, unsigned *value, unsigned *period_us)
UNSUPPORTED(nvmlDeviceGetSupportedMemoryClocks, unsigned *count, unsigned *clocks)
UNSUPPORTED(nvmlDeviceGetSupportedGraphicsClocks, unsigned memory, unsigned *count,
            unsigned *clocks)
UNSUPPORTED(nvmlDeviceGetViolationStatus, unsigned policy, void *time)
UNSUPPORTED(nvmlDeviceGetBridgeChipInfo, void *chips)
UNSUPPORTED(nvmlDeviceGetNvLinkState, unsigned link, unsigned *active)
UNSUPPORTED(nvmlDeviceGetNvLinkVersion, unsigned link, unsigned *version)
UNSUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2, unsigned link, nvmlPciInfo_t *info)
