/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists an image folder as torchvision's ImageFolder does. Each class folder, in order, is listed
 * with all folders below it. Then the folders are sorted by their whole path ("a", "a-b", "a/b"),
 * and the files in each folder by name.
 *
 * As in os.walk, symbolic links are followed, and everything that is not a folder is a file, even a
 * dangling link.
 */
#include "dataset/imagefolder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/words.h"
#include "dataset/extra.h"
#include "dataset/spec.h"
#include "dataset/catalog_build.h"
#include "dataset/remote/url.h"

enum { PROGRESS_STEP = 8192, NO_PARENT = -1 };

/* Read one code point and move *text past it. At the end it is 0. */
static uint32_t next_code_point(const unsigned char **text)
{
    const unsigned char *s = *text;
    static const unsigned char lead_mask[] = {0, 0, 0x1f, 0x0f, 0x07};
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned n = s[0] >= 0xf0 && s[0] < 0xf8 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 1;
    if (s[0] < 0x80) {
        *text = s + (s[0] != 0);
        return s[0];
    }
    uint32_t c = s[0] & lead_mask[n];
    bool valid = n > 1 && s[0] < 0xf8;
    for (unsigned i = 1; valid && i < n; i++) {
        valid = (s[i] & 0xc0) == 0x80; /* false at the final NUL, so nothing past it is read */
        c = c << 6 | (s[i] & 0x3f);
    }
    if (valid && c >= smallest[n] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff)) {
        *text = s + n;
        return c;
    }
    *text = s + 1;
    return 0xdc00u + s[0];
}

int mr_imagefolder_compare(const char *a, const char *b)
{
    const unsigned char *s = (const unsigned char *)a, *t = (const unsigned char *)b;
    while (*s == *t && *s)
        s++, t++;
    if (*s < 0x80 && *t < 0x80)
        return (*s > *t) - (*s < *t);
    s = (const unsigned char *)a, t = (const unsigned char *)b;
    for (;;) {
        uint32_t c = next_code_point(&s), d = next_code_point(&t);
        if (c != d)
            return c < d ? -1 : 1;
        if (c == 0)
            return 0;
    }
}

bool mr_imagefolder_is_image(const char *name)
{
    static const char *const extensions[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                             ".pgm", ".tif",  ".tiff", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof extensions / sizeof *extensions; i++)
        if (mr_word_is(dot, extensions[i]))
            return true;
    return false;
}

/* A folder below a class folder. */
struct folder {
    size_t path;       /* in paths */
    size_t first_name; /* in name_offs */
    size_t n_names;
    int64_t parent; /* index of the folder above, or NO_PARENT */
    dev_t dev;
    ino_t ino;
};

struct listing {
    int root;
    const char *root_path; /* for messages */
    const mr_dataset_options *options;
    bool unlabelled;
    struct mr_extra_list extra;
    struct mr_catalog_builder builder;
    uint64_t n_found;
    /* Of the current class: */
    struct mr_bytes folders;   /* struct folder, in the order of discovery */
    struct mr_bytes paths;     /* relative to the root, NUL-terminated */
    struct mr_bytes names;     /* NUL-terminated */
    struct mr_bytes name_offs; /* size_t: start of each name in names */
};

static struct folder *folder_at(const struct listing *listing, size_t i)
{
    return (struct folder *)(void *)listing->folders.data + i;
}

static const char *folder_path(const struct listing *listing, const struct folder *folder)
{
    return (const char *)listing->paths.data + folder->path;
}

static mr_status fail_long_path(const struct listing *listing, const char *folder, const char *name,
                                mr_error *error)
{
    return mr_error_os(error, MR_ERR_IO, ENAMETOOLONG, "%.200s/%.400s.../%.200s",
                       listing->root_path, folder, name);
}

/* The class folder has no parent. Without labels it is the root, with the path "". */
static mr_status push_folder(struct listing *listing, int64_t parent, const char *name,
                             mr_error *error)
{
    struct folder folder = {.path = listing->paths.len, .parent = parent};
    char path[MR_CATALOG_PATH]; /* a copy, because appending moves the paths */
    size_t len = 0;
    if (parent != NO_PARENT) {
        const char *above = folder_path(listing, folder_at(listing, (size_t)parent));
        len = strlen(above);
        if (len + 1 + strlen(name) >= sizeof path)
            return fail_long_path(listing, above, name, error);
        memcpy(path, above, len);
        if (len > 0)
            path[len++] = '/';
    }
    mr_status status = mr_bytes_append(&listing->paths, path, len, error);
    if (status == MR_OK)
        status = mr_bytes_append(&listing->paths, name, strlen(name) + 1, error);
    return status < 0 ? status : mr_bytes_append(&listing->folders, &folder, sizeof folder, error);
}

static mr_status push_name(struct listing *listing, size_t folder, const char *name,
                           mr_error *error)
{
    if (!mr_imagefolder_is_image(name))
        return MR_OK;
    const char *path = folder_path(listing, folder_at(listing, folder));
    if (strlen(path) + 1 + strlen(name) >= MR_CATALOG_PATH)
        return fail_long_path(listing, path, name, error);
    size_t off = listing->names.len;
    mr_status status = mr_bytes_append(&listing->names, name, strlen(name) + 1, error);
    if (status == MR_OK)
        status = mr_bytes_append(&listing->name_offs, &off, sizeof off, error);
    if (status < 0)
        return status;
    folder_at(listing, folder)->n_names++;
    listing->n_found++;
    if (listing->options->progress && listing->n_found % PROGRESS_STEP == 0)
        listing->options->progress(listing->options->user, listing->n_found);
    return MR_OK;
}

/*
 * True for what os.walk calls a folder. Only links, and file systems without d_type, cost a stat.
 */
static bool is_folder(int dir, const struct dirent *entry)
{
    struct stat st;
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
        return entry->d_type == DT_DIR;
    return fstatat(dir, entry->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static bool is_dot(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* The next entry; NULL at the end (errno 0) or on failure (errno). */
static struct dirent *next_entry(DIR *dir)
{
    struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(dir);
    } while (entry && is_dot(entry->d_name));
    return entry;
}

static mr_status open_folder(int root, const char *root_path, const char *path, DIR **dir_out,
                             mr_error *error)
{
    int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int os_error = errno;
        if (fd >= 0)
            close(fd);
        return mr_error_os(error, MR_ERR_IO, os_error, "cannot list %s/%s", root_path, path);
    }
    *dir_out = dir;
    return MR_OK;
}

/*
 * True if the folder is a link to one of the folders above it. It is then skipped; os.walk would
 * follow it about 40 times.
 */
static bool is_loop(struct listing *listing, size_t i, DIR *dir)
{
    struct folder *folder = folder_at(listing, i);
    struct stat st;
    if (fstat(dirfd(dir), &st) != 0)
        return false;
    folder->dev = st.st_dev;
    folder->ino = st.st_ino;
    for (int64_t up = folder->parent; up != NO_PARENT;
         up = folder_at(listing, (size_t)up)->parent) {
        const struct folder *above = folder_at(listing, (size_t)up);
        if (above->dev == st.st_dev && above->ino == st.st_ino) {
            mr_log_line(MR_LOG_WARNING, "%s/%s is a link back to %s/%s and is skipped",
                        listing->root_path, folder_path(listing, folder), listing->root_path,
                        folder_path(listing, above));
            return true;
        }
    }
    return false;
}

static mr_status list_folder(struct listing *listing, size_t i, mr_error *error)
{
    DIR *dir = NULL;
    const char *path = folder_path(listing, folder_at(listing, i));
    mr_status status =
        open_folder(listing->root, listing->root_path, *path ? path : ".", &dir, error);
    if (status < 0)
        return status;
    folder_at(listing, i)->first_name = listing->name_offs.len / sizeof(size_t);
    struct dirent *entry;
    if (!is_loop(listing, i, dir)) {
        while (status == MR_OK && (entry = next_entry(dir)))
            status = is_folder(dirfd(dir), entry)
                         ? push_folder(listing, (int64_t)i, entry->d_name, error)
                         : push_name(listing, i, entry->d_name, error);
        if (status == MR_OK && errno)
            status = mr_error_os(error, MR_ERR_IO, errno, "cannot list %s/%s", listing->root_path,
                                 folder_path(listing, folder_at(listing, i)));
    }
    closedir(dir);
    return status;
}

static int compare_folders(const void *a, const void *b, void *paths)
{
    const struct folder *x = a, *y = b;
    return mr_imagefolder_compare((const char *)paths + x->path, (const char *)paths + y->path);
}

static int compare_names(const void *a, const void *b, void *names)
{
    return mr_imagefolder_compare((const char *)names + *(const size_t *)a,
                                  (const char *)names + *(const size_t *)b);
}

/* Sort the folders and names of one class and append them to the catalog. */
static mr_status flush_class(struct listing *listing, uint64_t class_, mr_error *error)
{
    size_t n_folders = listing->folders.len / sizeof(struct folder);
    size_t *offs = (size_t *)(void *)listing->name_offs.data;
    char *names = (char *)listing->names.data;
    qsort_r(listing->folders.data, n_folders, sizeof(struct folder), compare_folders,
            listing->paths.data);
    mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < n_folders; i++) {
        const struct folder *folder = folder_at(listing, i);
        if (folder->n_names == 0)
            continue;
        qsort_r(offs + folder->first_name, folder->n_names, sizeof *offs, compare_names, names);
        status = mr_catalog_builder_folder(&listing->builder, folder_path(listing, folder), class_,
                                           error);
        for (size_t k = 0; status == MR_OK && k < folder->n_names; k++)
            status = mr_catalog_builder_name(&listing->builder,
                                             names + offs[folder->first_name + k], error);
    }
    return status;
}

/* List the images below one folder of the root. */
static mr_status list_below(struct listing *listing, const char *name, uint64_t class_,
                            mr_error *error)
{
    listing->folders.len = listing->paths.len = listing->names.len = listing->name_offs.len = 0;
    mr_status status = push_folder(listing, NO_PARENT, name, error);
    for (size_t i = 0; status == MR_OK && i < listing->folders.len / sizeof(struct folder); i++)
        status = list_folder(listing, i, error);
    return status < 0 ? status : flush_class(listing, class_, error);
}

static mr_status list_class(struct listing *listing, const char *name, uint64_t class_,
                            mr_error *error)
{
    mr_status status = mr_catalog_builder_class(&listing->builder, name, error);
    return status < 0 ? status : list_below(listing, name, class_, error);
}

static void report_progress(const struct listing *listing)
{
    if (listing->options->progress && listing->n_found % PROGRESS_STEP != 0)
        listing->options->progress(listing->options->user, listing->n_found);
}

/* List all images below the root, without classes. */
static mr_status list_unlabelled(struct listing *listing, mr_error *error)
{
    mr_status status = list_below(listing, "", 0, error);
    if (status < 0)
        return status;
    if (listing->n_found == 0 && !listing->options->allow_empty_classes)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s holds no image", listing->root_path);
    report_progress(listing);
    return MR_OK;
}

/*
 * Find the class folders: names gets their names, NUL-terminated; offs their starts, sorted by
 * name.
 */
static mr_status find_classes(const struct listing *listing, struct mr_bytes *names,
                              struct mr_bytes *offs, mr_error *error)
{
    DIR *dir = NULL;
    mr_status status = open_folder(listing->root, listing->root_path, ".", &dir, error);
    if (status < 0)
        return status;
    struct dirent *entry;
    while (status == MR_OK && (entry = next_entry(dir))) {
        size_t off = names->len;
        if (!is_folder(dirfd(dir), entry))
            continue;
        status = mr_bytes_append(names, entry->d_name, strlen(entry->d_name) + 1, error);
        if (status == MR_OK)
            status = mr_bytes_append(offs, &off, sizeof off, error);
    }
    if (status == MR_OK && errno)
        status = mr_error_os(error, MR_ERR_IO, errno, "cannot list %s", listing->root_path);
    closedir(dir);
    if (status == MR_OK && offs->len == 0)
        status = mr_error_set(error, MR_ERR_DAMAGED,
                              "%s has no class folder; ?label=none reads its images without "
                              "labels, list:FILE reads paths and labels",
                              listing->root_path);
    if (status == MR_OK)
        qsort_r(offs->data, offs->len / sizeof(size_t), sizeof(size_t), compare_names, names->data);
    return status;
}

/* The classes without an image, for the error message. */
struct empty_classes {
    size_t n;
    char text[400];
};

static void note_empty(struct empty_classes *empty, const char *name)
{
    size_t len = strlen(empty->text);
    if (empty->n++ < 8)
        snprintf(empty->text + len, sizeof empty->text - len, "%s'%.40s'", len ? ", " : "", name);
    else if (empty->n == 9)
        snprintf(empty->text + len, sizeof empty->text - len, ", ...");
}

static mr_status list_classes(struct listing *listing, const char *names, const size_t *offs,
                              size_t n_classes, mr_error *error)
{
    struct empty_classes empty = {0};
    for (size_t i = 0; i < n_classes; i++) {
        uint64_t before = listing->n_found;
        mr_status status = list_class(listing, names + offs[i], i, error);
        if (status < 0)
            return status;
        if (listing->n_found == before)
            note_empty(&empty, names + offs[i]);
    }
    if (empty.n > 0 && !listing->options->allow_empty_classes)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s: %zu of %zu class folders hold no image: %s",
                            listing->root_path, empty.n, n_classes, empty.text);
    report_progress(listing);
    return MR_OK;
}

static mr_status list_labelled(struct listing *listing, mr_error *error)
{
    struct mr_bytes names = {0}, offs = {0};
    mr_status status = find_classes(listing, &names, &offs, error);
    if (status == MR_OK)
        status =
            list_classes(listing, (const char *)names.data, (const size_t *)(const void *)offs.data,
                         offs.len / sizeof(size_t), error);
    mr_bytes_fini(&names);
    mr_bytes_fini(&offs);
    return status;
}

/* Its absolute path is stored: a later chdir() has no effect, and workers need no descriptor. */
static mr_status add_member_folder(struct mr_bytes *texts, const char *folder, const char *suffix,
                                   mr_error *error)
{
    char absolute[PATH_MAX];
    int fd = -1;
    if (mr_url_is(folder))
        return mr_error_set(error, MR_ERR_INVALID,
                            "the folder %.*s of a further member is a URL, which imagefolder does "
                            "not read",
                            mr_url_path_len(folder), folder);
    mr_status status = mr_kind_open_root(folder, &fd, absolute, error);
    if (status < 0)
        return status;
    close(fd);
    if (!*absolute)
        return mr_error_set(error, MR_ERR_IO, "the absolute path of the folder %s is not known",
                            folder);
    status = mr_bytes_append(texts, absolute, strlen(absolute) + 1, error);
    return status < 0 ? status : mr_bytes_append(texts, suffix, strlen(suffix) + 1, error);
}

static mr_status add_members(struct listing *listing, mr_error *error)
{
    const struct mr_extra_list *extra = &listing->extra;
    struct mr_catalog_builder *builder = &listing->builder;
    mr_status status = MR_OK;
    for (uint32_t k = 0; status == MR_OK && k < extra->n; k++)
        status = add_member_folder(&builder->sections[MR_SECTION_EXTRA], extra->folders[k],
                                   extra->suffixes[k], error);
    mr_extra_declare(extra, &builder->header.kind);
    return status;
}

static mr_status build_catalog(struct listing *listing, const char *absolute, int *fd_out,
                               mr_error *error)
{
    struct mr_catalog_header *header = &listing->builder.header;
    mr_status status =
        mr_catalog_builder_root(&listing->builder, listing->root_path, absolute, error);
    if (status == MR_OK)
        status = add_members(listing, error);
    if (status == MR_OK)
        status =
            listing->unlabelled ? list_unlabelled(listing, error) : list_labelled(listing, error);
    if (status < 0)
        return status;
    header->n_samples = header->n_files = listing->n_found;
    header->kind.encoded = 1;
    header->kind.picture = 1;
    mr_kind_set_integer_label(&header->kind);
    return mr_catalog_builder_finish(&listing->builder, fd_out, error);
}

static mr_status take_keys(struct mr_spec *spec, struct listing *listing, mr_error *error)
{
    const char *text = mr_spec_take(spec, "label");
    if (text && !mr_word_is(text, "none") && !mr_word_is(text, "folder"))
        return mr_error_set(error, MR_ERR_INVALID,
                            "label '%s' of imagefolder is neither folder nor none", text);
    listing->unlabelled = text && mr_word_is(text, "none");
    mr_status status =
        mr_extra_parse(spec, "extra", "NAME:BYTES:SUFFIX:DIR", &listing->extra, error);
    return status < 0 ? status : mr_spec_finish(spec, "label, extra, boxes", error);
}

mr_status mr_imagefolder_open(struct mr_spec *spec, const mr_dataset_options *options,
                              int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    char absolute[PATH_MAX];
    struct listing listing = {.root_path = spec->paths[0], .options = options};
    mr_status status = take_keys(spec, &listing, error);
    if (status == MR_OK)
        status = mr_kind_open_root(spec->paths[0], &fds_out[MR_CATALOG_FD_ROOT], absolute, error);
    if (status < 0)
        return error && (error->os_error == ENOENT || error->os_error == ENOTDIR)
                   ? mr_spec_no_folder(spec, error->os_error, error)
                   : status;
    listing.root = fds_out[MR_CATALOG_FD_ROOT];
    status = mr_catalog_builder_init(&listing.builder, MR_SCHEME_FOLDER, error);
    if (status == MR_OK)
        status = build_catalog(&listing, absolute, &fds_out[MR_CATALOG_FD_REGION], error);
    mr_catalog_builder_fini(&listing.builder);
    mr_bytes_fini(&listing.folders);
    mr_bytes_fini(&listing.paths);
    mr_bytes_fini(&listing.names);
    mr_bytes_fini(&listing.name_offs);
    return status;
}
