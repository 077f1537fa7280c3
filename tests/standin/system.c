/* Calls about the machine rather than about a card. */
#include "core.h"

#include <stdio.h>
#include <string.h>

static const char *const error_text[] = {
    "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
    "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power",
    "Driver Not Loaded", "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found",
    "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
    "GPU access blocked by the operating system", "Driver/library version mismatch",
    "In use by another client", "Insufficient Memory", "No data", "vGPU ECC not supported",
    "Insufficient Resources", "Invalid Frequency", "Argument version mismatch",
    "Requested functionality has been deprecated", "System is not in ready state",
    "No supported GPUs were found",
    "Resource not in correct state to perform requested operation",
    "Reset type is not supported for given device",
};

/* Answers without the library having been started, as the real one does. */
EXPORT const char *nvmlErrorString(unsigned code)
{
    const unsigned known = sizeof error_text / sizeof *error_text;
    return code < known ? error_text[code] : "Unknown Error";
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    ENTER_SYSTEM();
    return answer_string(current_world()->driver_version, version, length);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    ENTER_SYSTEM();
    return answer_string(current_world()->nvml_version, version, length);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    ENTER_SYSTEM();
    REQUIRE(version);
    *version = (int)current_world()->cuda_version;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    ENTER_SYSTEM();
    REQUIRE(version);
    *version = (int)current_world()->cuda_version;
    return NVML_SUCCESS;
}

/* Cuts a long name short instead of refusing, as the real one does. */
EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    ENTER_SYSTEM();
    REQUIRE(name);
    if (length == 0) return NVML_ERROR_INVALID_ARGUMENT;
    char path[64], line[1024] = "";
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) return NVML_ERROR_NOT_FOUND;
    size_t got = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[got] = '\0';
    snprintf(name, length, "%s", line);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetHicVersion(unsigned *count, void *entries)
{
    ENTER_SYSTEM();
    REQUIRE(count);
    (void)entries;
    *count = 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlUnitGetCount(unsigned *count)
{
    ENTER_SYSTEM();
    REQUIRE(count);
    *count = 0;
    return NVML_SUCCESS;
}
