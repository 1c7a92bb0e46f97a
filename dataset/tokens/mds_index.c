/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/tokens/mds_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "dataset/remote/url.h"
#include "dataset/tokens/mds_json.h"
#include "dataset/tokens/token_source.h"

enum { MAX_INDEX = 1 << 30 };

struct expansion {
    int root;
    const char *index, *shown; /* the index that is being read */
    struct mr_bytes names;     /* NUL-terminated paths */
    size_t n;
};

static bool is_index(const char *path)
{
    static const char NAME[] = "index.json";
    size_t len = (size_t)mr_url_path_len(path), n = strlen(NAME);
    return len >= n && memcmp(path + len - n, NAME, n) == 0 &&
           (len == n || path[len - n - 1] == '/');
}

static mr_status add_name(struct expansion *expansion, const char *folder, size_t folder_len,
                          const char *name, mr_error *error)
{
    mr_status status = mr_bytes_append(&expansion->names, folder, folder_len, error);
    expansion->n++;
    return status == MR_OK ? mr_bytes_append(&expansion->names, name, strlen(name) + 1, error)
                           : status;
}

static mr_status check_file(const struct expansion *expansion, const char *path,
                            const struct mr_mds_entry *entry, mr_error *error)
{
    struct stat st;
    bool is_there = !mr_url_is(path) && fstatat(expansion->root, path, &st, 0) == 0;
    if (entry->compression && !is_there)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%s: %s is compressed (%s): decompress it beside the index, or write "
                            "the dataset without compression",
                            expansion->shown, entry->name, entry->compression);
    if (is_there && (uint64_t)st.st_size != entry->bytes)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s has %jd bytes; %s says %" PRIu64, path,
                            (intmax_t)st.st_size, expansion->shown, entry->bytes);
    return MR_OK; /* opening reports a file that is missing */
}

static mr_status add_entry(void *user, const struct mr_mds_entry *entry, mr_error *error)
{
    struct expansion *expansion = user;
    const char *slash = strrchr(expansion->shown, '/');
    size_t begin = expansion->names.len;
    mr_status status =
        add_name(expansion, expansion->index, slash ? (size_t)(slash + 1 - expansion->shown) : 0,
                 entry->name, error);
    return status == MR_OK
               ? check_file(expansion, (const char *)expansion->names.data + begin, entry, error)
               : status;
}

static mr_status read_index(struct expansion *expansion, mr_error *error)
{
    struct mr_token_source source;
    char *text = NULL;
    mr_status status =
        mr_token_source_open(expansion->root, expansion->index, NULL, &source, error);
    if (status != MR_OK)
        return status;
    expansion->shown = source.shown;
    if (source.size > MAX_INDEX)
        status = mr_error_set(error, MR_ERR_DAMAGED, "%s has %" PRIu64 " bytes", source.shown,
                              source.size);
    else if (!(text = calloc(1, (size_t)source.size + 1)))
        status = mr_error_memory(error, (size_t)source.size + 1);
    else
        status = mr_token_source_read(&source, 0, text, (size_t)source.size, error);
    if (status == MR_OK)
        status = mr_mds_index_parse(text, source.shown, add_entry, expansion, error);
    free(text);
    mr_token_source_close(&source);
    return status;
}

/* The array and its texts are one allocation, as the SPEC frees only the array. */
static mr_status set_paths(const struct expansion *expansion, struct mr_spec *spec, mr_error *error)
{
    size_t array = expansion->n * sizeof *spec->paths;
    char **paths = malloc(array + expansion->names.len);
    if (!paths)
        return mr_error_memory(error, array + expansion->names.len);
    char *text = memcpy((char *)paths + array, expansion->names.data, expansion->names.len);
    for (size_t i = 0; i < expansion->n; i++, text += strlen(text) + 1)
        paths[i] = text;
    free(spec->paths);
    spec->paths = paths;
    spec->n_paths = expansion->n;
    return MR_OK;
}

mr_status mr_mds_index_expand(int root, struct mr_spec *spec, mr_error *error)
{
    struct expansion expansion = {.root = root};
    mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < spec->n_paths; i++) {
        expansion.index = spec->paths[i];
        status = is_index(expansion.index) ? read_index(&expansion, error)
                                           : add_name(&expansion, "", 0, expansion.index, error);
    }
    if (status == MR_OK)
        status = set_paths(&expansion, spec, error);
    mr_bytes_fini(&expansion.names);
    return status;
}
