/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a store: the first level gives the class folders, and each of them is listed by a task of
 * its own, several at once. A store lists all below a class in pages of 1,000 keys, one after the
 * other; a web server has a page for each folder.
 *
 * Invariant: what a server says may be hostile. A name is below the folder that was listed, and
 * the walk has a limit on its depth.
 */
#include "dataset/remote/listing/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/shared_memory.h"
#include "base/words.h"
#include "base/xxh3.h"
#include "dataset/imagefolder.h"
#include "dataset/list.h"
#include "dataset/remote/http.h"
#include "dataset/remote/listing/listing_files.h"
#include "dataset/remote/listing/listing_html.h"
#include "dataset/remote/listing/listing_xml.h"
#include "dataset/remote/stores/credentials.h"
#include "dataset/remote/stores/store_name.h"
#include "dataset/remote/url.h"

#define NAME "millrace-listing"
#define NO_CLASS UINT64_MAX
enum {
    N_CONNECTIONS = 16,
    RETRY_MS = 30000,
    MAX_DEPTH = 64,
    MAX_ENDINGS = 8,
    MAX_EMPTY = 10000, /* pages in a row without a key, as of objects that were deleted */
    QUERY = 3 * (MR_LISTING_TOKEN + MR_CATALOG_PATH) + 200 /* each byte may be escaped */
};

/* The listing of one folder. */
struct task {
    struct task *next;
    struct task *waits; /* the one that waits behind it */
    struct listing *listing;
    struct mr_http_get get;
    struct mr_bytes page;
    uint64_t class_; /* NO_CLASS: of the root, whose folders are the classes */
    uint32_t depth;
    char *url;   /* of the folder, ends with a slash */
    char *query; /* of a store; NULL: the page is the folder's own */
    uint32_t n_pages, n_empty;
    uint64_t seen[2]; /* hashes of a page's token and first key, which do not come again */
};

/* Files that are not listed, by the ending of their names. */
struct passed {
    char ending[16];
    uint64_t n;
};

struct listing {
    char root[MR_CATALOG_PATH];   /* as URLs have it; ends with a slash */
    char bucket[MR_CATALOG_PATH]; /* of a store: the begin of the root, which precedes keys */
    bool is_store;
    bool any_file; /* also those that are no images */
    bool no_classes;
    const mr_dataset_options *options;
    struct mr_http *http;
    struct task *tasks;
    struct task *waiting; /* of the last page first, so folders in a circle soon reach the limit */
    struct task **place;  /* of the next one among them */
    uint32_t n_running;
    struct mr_listing_files files;
    struct mr_listing_page page;
    uint64_t n_loose; /* images that are in no class folder */
    uint64_t n_passed;
    struct passed passed[MAX_ENDINGS];
};

static mr_status fail_name(const struct listing *listing, const char *what, const char *name,
                           mr_error *error)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "cannot list %s: %s '%.200s'", listing->root, what,
                        name);
}

static uint8_t *reserve(void *user, size_t len)
{
    struct task *task = user;
    return mr_bytes_reserve(&task->page, len, NULL) == MR_OK ? task->page.data : NULL;
}

/* Write a value of a query: all but letters, digits and -._~ is escaped. */
static size_t put_escaped(char *out, const char *text)
{
    size_t len = 0;
    for (; *text; text++) {
        char c = (char)(*text | 32);
        bool plain = (c >= 'a' && c <= 'z') || strchr("0123456789-._~", *text);
        len += (size_t)sprintf(out + len, plain ? "%c" : "%%%02X", (unsigned char)*text);
    }
    return len;
}

/* The query of ListObjectsV2. Only the root is listed one level deep. */
static mr_status write_query(const struct listing *listing, struct task *task, const char *token,
                             mr_error *error)
{
    char text[QUERY];
    size_t len = 0;
    const char *const parts[] = {*token ? "continuation-token=" : NULL,
                                 token,
                                 task->class_ == NO_CLASS ? "delimiter=" : NULL,
                                 "/",
                                 "encoding-type=",
                                 "url",
                                 "list-type=",
                                 "2",
                                 "max-keys=",
                                 "1000",
                                 "prefix=",
                                 task->url + strlen(listing->bucket)};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i += 2) {
        if (!parts[i])
            continue;
        len += (size_t)sprintf(text + len, "%s%s", len > 0 ? "&" : "", parts[i]);
        len += put_escaped(text + len, parts[i + 1]);
    }
    free(task->query);
    task->query = strdup(text);
    return task->query ? MR_OK : mr_error_memory(error, len);
}

static mr_status begin_page(struct listing *listing, struct task *task, const char *token,
                            mr_error *error)
{
    bool is_s3 = mr_store_name_find(listing->root) == MR_STORE_S3;
    mr_status status = listing->is_store ? mr_credentials_find(is_s3, error) : MR_OK;
    if (status == MR_OK && listing->is_store)
        status = write_query(listing, task, token, error);
    task->page.len = 0;
    task->get = (struct mr_http_get){
        .url = listing->is_store ? listing->bucket : task->url,
        .wish = {.len = MR_LEN_UNKNOWN, .max_bytes = MR_LISTING_MAX_PAGE, .query = task->query},
        .reserve = reserve,
        .user = task};
    if (status == MR_OK)
        mr_http_begin(listing->http, &task->get);
    return status;
}

static mr_status add_task(struct listing *listing, const char *url, uint64_t class_, uint32_t depth,
                          mr_error *error)
{
    if (depth > MAX_DEPTH)
        return fail_name(listing, "more than 64 folders deep:", url, error);
    struct task *task = calloc(1, sizeof *task);
    if (!task)
        return mr_error_memory(error, sizeof *task);
    task->next = listing->tasks;
    listing->tasks = task;
    task->class_ = class_;
    task->depth = depth;
    task->url = strdup(url);
    if (!task->url)
        return mr_error_memory(error, strlen(url));
    task->waits = *listing->place;
    *listing->place = task;
    listing->place = &task->waits;
    return MR_OK;
}

static mr_status begin_tasks(struct listing *listing, uint32_t n_connections, mr_error *error)
{
    mr_status status = MR_OK;
    for (struct task *task;
         status == MR_OK && listing->n_running < n_connections && (task = listing->waiting);
         listing->n_running++) {
        listing->waiting = task->waits;
        status = begin_page(listing, task, "", error);
    }
    return status;
}

/* Count a file by its ending; those that have no room are only counted in n_passed. */
static void pass_over(struct listing *listing, const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    struct passed *passed = listing->passed;
    listing->n_passed++;
    if (!dot || strlen(dot) >= sizeof passed->ending || dot[1 + strspn(dot + 1, plain)])
        dot = "without ending";
    for (int i = 0; i < MAX_ENDINGS; i++, passed++) {
        if (passed->n == 0)
            memcpy(passed->ending, dot, strlen(dot) + 1);
        if (strcmp(passed->ending, dot) == 0) {
            passed->n++;
            return;
        }
    }
}

static void report_passed(const struct listing *listing)
{
    char text[500] = "";
    size_t len = 0;
    uint64_t rest = listing->n_passed;
    for (int i = 0; i < MAX_ENDINGS && listing->passed[i].n > 0; i++) {
        rest -= listing->passed[i].n;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%" PRIu64 " %s", i ? ", " : "",
                                listing->passed[i].n, listing->passed[i].ending);
    }
    if (rest > 0)
        len += (size_t)snprintf(text + len, sizeof text - len, ", %" PRIu64 " others", rest);
    if (listing->n_loose > 0)
        snprintf(text + len, sizeof text - len, "%s%" PRIu64 " of images in no class folder",
                 len > 0 ? ", " : "", listing->n_loose);
    if (*text)
        mr_log_line(MR_LOG_INFO, "%s: files that are not listed: %s", listing->root, text);
}

/* A path that no file system has, or that URLs resolve. Keys may have "//". */
static bool is_odd(const char *path, bool is_key)
{
    for (const char *at = path;; at++) {
        size_t len = strcspn(at, "/");
        if ((len == 0 && !is_key) || (len == 1 && at[0] == '.') ||
            (len == 2 && at[0] == '.' && at[1] == '.'))
            return true;
        at += len;
        if (!*at)
            return false;
    }
}

/* Take a folder of the root or of one of its classes. */
static mr_status take_folder(struct listing *listing, struct task *task, const char *path,
                             const char *url, mr_error *error)
{
    uint64_t class_ = task->class_;
    mr_status status = MR_OK;
    if (class_ == NO_CLASS && listing->no_classes)
        class_ = 0;
    else if (class_ == NO_CLASS && !*path)
        return fail_name(listing, "a class folder has no name:", url, error);
    else if (class_ == NO_CLASS)
        status = mr_listing_files_class(&listing->files, path, &class_, error);
    return status < 0 ? status : add_task(listing, url, class_, task->depth + 1, error);
}

/* Take what is at a URL below the root. A path in the URL of a server has escapes. */
static mr_status take_item(struct listing *listing, struct task *task,
                           const struct mr_listing_item *item, const char *url, mr_error *error)
{
    char path[MR_CATALOG_PATH];
    const char *spelled = url + strlen(listing->root);
    size_t len = strlen(spelled);
    memcpy(path, spelled, len + 1);
    if (item->is_folder && len > 0)
        path[len - 1] = '\0'; /* its slash */
    if (!listing->is_store && !mr_listing_page_decode(path, false))
        return fail_name(listing, "a wrong escape in", spelled, error);
    if (is_odd(path, listing->is_store))
        return fail_name(listing, "no file can be called", path, error);
    if (item->is_folder)
        return take_folder(listing, task, path, url, error);
    if (!listing->any_file && !mr_imagefolder_is_image(path)) {
        pass_over(listing, path);
        return MR_OK;
    }
    bool is_loose = task->class_ == NO_CLASS;
    if (is_loose && !listing->no_classes) { /* as in imagefolder, where images are in classes */
        listing->n_loose++;
        return MR_OK;
    }
    return mr_listing_files_add(&listing->files, is_loose ? 0 : task->class_, path, spelled,
                                item->size, mr_listing_page_text(&listing->page, item->etag),
                                error);
}

static mr_status take_page(struct listing *listing, struct task *task, mr_error *error)
{
    char url[MR_CATALOG_PATH];
    size_t n, above = strlen(listing->is_store ? listing->bucket : task->url);
    const struct mr_listing_item *items = mr_listing_page_items(&listing->page, &n);
    mr_status status = MR_OK;
    listing->place = &listing->waiting;
    for (size_t i = 0; status == MR_OK && i < n; i++) {
        const char *name = mr_listing_page_text(&listing->page, items[i].name);
        int len = snprintf(url, sizeof url, "%.*s%s", (int)above, task->url, name);
        if ((size_t)len >= sizeof url)
            return fail_name(listing, "the URL has more than 4095 bytes:", name, error);
        bool ends_with_slash = url[len - 1] == '/';
        if (strncmp(url, task->url, strlen(task->url)) != 0 ||
            (items[i].is_folder && (!ends_with_slash || strcmp(url, task->url) == 0 ||
                                    (listing->is_store && task->class_ != NO_CLASS))))
            return fail_name(listing, "the server lists what is elsewhere:", name, error);
        if (items[i].is_folder || !ends_with_slash) /* an empty object may stand for a folder */
            status = take_item(listing, task, &items[i], url, error);
    }
    return status;
}

/*
 * Find pages that come in a circle: page 1, 2, 4, 8 and so on is remembered, and no later one has
 * its token or its first key.
 */
static mr_status check_progress(const struct listing *listing, struct task *task, mr_error *error)
{
    size_t n;
    const struct mr_listing_page *page = &listing->page;
    const struct mr_listing_item *items = mr_listing_page_items(page, &n);
    const char *texts[2] = {page->token, n > 0 ? mr_listing_page_text(page, items->name) : ""};
    task->n_empty = n > 0 ? 0 : task->n_empty + 1;
    task->n_pages++;
    bool remember = (task->n_pages & (task->n_pages - 1)) == 0, good = task->n_empty <= MAX_EMPTY;
    for (int i = 0; i < 2; i++) {
        uint64_t hash = mr_xxh3(texts[i], strlen(texts[i]));
        good = good && (!*texts[i] || task->seen[i] != hash);
        task->seen[i] = remember && *texts[i] ? hash : task->seen[i];
    }
    return good ? MR_OK
                : mr_error_set(
                      error, MR_ERR_DAMAGED,
                      "cannot list %s: the server sends the same page again, or none with keys",
                      task->url);
}

static mr_status end_page(struct listing *listing, struct task *task, mr_error *error)
{
    const struct mr_http_get *get = &task->get;
    struct mr_listing_page *page = &listing->page;
    mr_error why;
    if (get->status == MR_ERR_NO_MEMORY)
        return mr_error_memory(error, get->len);
    if (get->status != MR_OK)
        return mr_error_set(error, MR_ERR_IO, "cannot list %s: %s", task->url, get->words);
    mr_listing_page_clear(page);
    const char *bytes = task->page.data ? (const char *)task->page.data : "";
    mr_status status = listing->is_store
                           ? mr_listing_xml_read(bytes, get->len, page, &why)
                           : mr_listing_html_read(task->url, bytes, get->len, page, &why);
    if (status < 0)
        return mr_error_set(error, status, "cannot list %s: %s", task->url, why.text);
    status = take_page(listing, task, error);
    if (status == MR_OK && *page->token)
        status = check_progress(listing, task, error);
    if (status == MR_OK && *page->token)
        return begin_page(listing, task, page->token, error);
    mr_bytes_fini(&task->page);
    listing->n_running--;
    return status;
}

/* List until all is listed, or at least limit files are. */
static mr_status walk(struct listing *listing, uint32_t n_connections, uint64_t limit,
                      mr_error *error)
{
    const struct mr_http_options options = {.n_connections = n_connections, .retry_ms = RETRY_MS};
    const mr_dataset_options *show = listing->options;
    struct mr_http_get *get;
    mr_status status = mr_http_create(&options, &listing->http, error);
    listing->place = &listing->waiting;
    if (status == MR_OK)
        status = add_task(listing, listing->root, NO_CLASS, 0, error);
    while (status == MR_OK && mr_listing_files_count(&listing->files) < limit &&
           (status = begin_tasks(listing, n_connections, error)) == MR_OK &&
           (get = mr_http_next(listing->http, true))) {
        status = end_page(listing, get->user, error);
        if (show && show->progress)
            show->progress(show->user, mr_listing_files_count(&listing->files));
    }
    mr_http_destroy(listing->http);
    return status;
}

static mr_status init_listing(struct listing *listing, const char *url, mr_error *error)
{
    struct mr_store_name name = {0};
    mr_status status = mr_url_check(url, error);
    if (status < 0)
        return status;
    enum mr_store store = mr_store_name_find(url);
    listing->is_store = store != MR_STORE_NONE;
    if (store == MR_STORE_HF)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "hf:// cannot be listed");
    size_t len = strlen(url);
    if (listing->is_store && len < sizeof listing->root)
        memcpy(listing->root, url, len + 1);
    else if (len >= sizeof listing->root || strchr(url, '?') ||
             mr_url_encode(url, listing->root, sizeof listing->root) < 0)
        return mr_error_set(error, MR_ERR_INVALID, "the URL '%.*s' is too long, or has a query",
                            (int)mr_url_shown_len(url), url);
    len = strlen(listing->root);
    if (listing->root[len - 1] != '/' && len + 1 < sizeof listing->root)
        memcpy(listing->root + len, "/", 2);
    if (listing->is_store && mr_store_name_parse(listing->root, &name))
        memcpy(listing->bucket, listing->root, (size_t)(name.key - listing->root));
    return MR_OK;
}

static void fini_listing(struct listing *listing)
{
    for (struct task *task = listing->tasks, *next; task; task = next) {
        next = task->next;
        mr_bytes_fini(&task->page);
        free(task->url);
        free(task->query);
        free(task);
    }
    mr_listing_page_fini(&listing->page);
    mr_listing_files_fini(&listing->files);
    free(listing);
}

/* As imagefolder, which this is a copy of. */
static mr_status check_classes(const struct listing *listing, mr_error *error)
{
    const struct mr_listing_class *classes =
        (const struct mr_listing_class *)(const void *)listing->files.classes.data;
    uint64_t n = listing->files.classes.len / sizeof *classes, n_empty = 0, first = 0;
    if (mr_listing_files_count(&listing->files) == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s holds no image%s", listing->root,
                            n == 0 ? " in a class folder" : "");
    for (uint64_t i = n; i-- > 0;)
        if (classes[i].n_files == 0) {
            n_empty++;
            first = i;
        }
    if (n_empty == 0 || listing->options->allow_empty_classes)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "%s: %" PRIu64 " of %" PRIu64 " class folders hold no image, such as '%s'",
                        listing->root, n_empty, n,
                        (const char *)listing->files.texts.data + classes[first].name);
}

static mr_status make_list(const struct listing *listing, int *fd_out, size_t *len_out,
                           mr_error *error)
{
    const struct mr_listing_files *files = &listing->files;
    size_t len = mr_listing_files_write(files, listing->root, !listing->no_classes, NULL);
    mr_status status = mr_shared_memory_create(NAME, len, fd_out, error);
    if (status < 0)
        return status;
    char *text = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, *fd_out, 0);
    if (text == MAP_FAILED)
        return mr_error_memory(error, len);
    mr_listing_files_write(files, listing->root, !listing->no_classes, text);
    munmap(text, len);
    int rc = mr_shared_memory_seal_content(*fd_out);
    *len_out = len;
    return rc < 0 ? mr_error_os(error, MR_ERR_IO, -rc, "cannot seal " NAME) : MR_OK;
}

mr_status mr_listing_open(const char *url, const mr_dataset_options *options,
                          int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    const struct mr_extra_list none = {0};
    struct listing *listing = calloc(1, sizeof *listing);
    mr_error why;
    uint64_t class_;
    size_t len = 0;
    if (!listing)
        return mr_error_memory(error, sizeof *listing);
    listing->options = options;
    listing->no_classes = options->no_classes;
    mr_status status = init_listing(listing, url, error);
    if (status == MR_OK && listing->no_classes)
        status = mr_listing_files_class(&listing->files, "", &class_, error);
    if (status == MR_OK)
        status = walk(listing, N_CONNECTIONS, UINT64_MAX, error);
    if (status == MR_OK)
        status = check_classes(listing, error);
    if (status == MR_OK && (status = mr_listing_files_sort(&listing->files, &why)) < 0)
        mr_error_set(error, status, "cannot list %s: %s", listing->root, why.text);
    if (status == MR_OK)
        status = make_list(listing, &fds_out[MR_CATALOG_FD_NAMES], &len, error);
    if (status == MR_OK)
        report_passed(listing);
    fini_listing(listing);
    return status == MR_OK ? mr_list_scan_beside(NAME, len, MR_I64, &none, fds_out, error) : status;
}

mr_status mr_listing_find(const char *url, char file_url_out[MR_CATALOG_PATH], mr_error *error)
{
    struct listing *listing = calloc(1, sizeof *listing);
    uint64_t class_;
    if (!listing)
        return mr_error_memory(error, sizeof *listing);
    listing->any_file = listing->no_classes = true;
    mr_status status = init_listing(listing, url, error);
    if (status == MR_OK)
        status = mr_listing_files_class(&listing->files, "", &class_, error);
    if (status == MR_OK)
        status = walk(listing, 1, 1, error);
    if (status == MR_OK && mr_listing_files_count(&listing->files) == 0)
        status = mr_error_set(error, MR_ERR_DAMAGED, "there is no file below %s", listing->root);
    if (status == MR_OK)
        mr_listing_files_url(&listing->files, 0, listing->root, file_url_out);
    fini_listing(listing);
    return status;
}
