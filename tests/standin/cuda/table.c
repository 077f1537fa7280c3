/* Finding calls by their name, as cuda-bindings does. What a driver of this age lacks is not found. */
#define _GNU_SOURCE
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { SINCE_CHECKPOINT = 12080, FOUND = 0, SYMBOL_NOT_FOUND = 1 };

EXPORT result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                  int *status);

/* Names that the table has without the version that our symbols carry. */
static void *look_up(const char *name)
{
    char versioned[128];
    snprintf(versioned, sizeof versioned, "%s_v2", name);
    Dl_info about;
    if (dladdr((void *)(uintptr_t)cuGetProcAddress_v2, &about) == 0) return NULL;
    void *library = dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) return NULL;
    void *found = dlsym(library, versioned);
    if (found == NULL) found = dlsym(library, name);
    dlclose(library);
    return found;
}

EXPORT result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                  int *status)
{
    (void)version;
    (void)flags;
    NEED(name);
    NEED(function);
    int spoken = 0;
    result cuDriverGetVersion(int *);
    bool known = cuDriverGetVersion(&spoken) == OK;
    bool too_new = known && spoken < SINCE_CHECKPOINT && strncmp(name, "cuCheckpoint", 12) == 0;
    *function = too_new ? NULL : look_up(name);
    if (status != NULL) *status = *function == NULL ? SYMBOL_NOT_FOUND : FOUND;
    return *function == NULL ? NOT_FOUND : OK;
}
