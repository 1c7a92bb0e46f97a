/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the loops that decode a scan their bytes. A window of clean bytes, without the zeros that
 * follow each 0xff, moves through the scan from one restart marker to the next.
 */
#include "transforms/jpeg/jpeg_scan.h"

#include "transforms/simd/kernels.h"

#include <assert.h>
#include <string.h>

#define MARKER 0xff
#define FIRST_RESTART 0xd0
#define READ_AHEAD 8 /* bytes from the position to reader->next, at most */

/* Tables. */

bool mr_jpeg_scan_set_ac(struct mr_jpeg_scan_codes *codes, uint32_t number,
                         const struct mr_scan_code *code)
{
    struct mr_jpeg_scan_ac *ac = &codes->ac[number];
    if (ac->made && memcmp(&ac->code, code, sizeof *code) == 0)
        return true;
    ac->code = *code;
    ac->made = mr_scan_table_make_ac(&ac->table, code);
    return ac->made;
}

bool mr_jpeg_scan_set_dc(struct mr_jpeg_scan_codes *codes, uint32_t number,
                         const struct mr_scan_code *code)
{
    struct mr_jpeg_scan_dc *dc = &codes->dc[number];
    if (dc->made && memcmp(&dc->code, code, sizeof *code) == 0)
        return true;
    dc->code = *code;
    dc->made = mr_scan_table_make_dc(&dc->table, code);
    return dc->made;
}

void mr_jpeg_scan_clear_mcu(struct mr_jpeg_scan_codes *codes)
{
    codes->mcu.n_blocks = 0;
}

void mr_jpeg_scan_add_block(struct mr_jpeg_scan_codes *codes, uint32_t component, uint32_t dc,
                            uint32_t ac)
{
    assert(codes->mcu.n_blocks < MR_SCAN_MAX_BLOCKS && codes->ac[ac].made && codes->dc[dc].made);
    codes->mcu.blocks[codes->mcu.n_blocks++] = (struct mr_scan_block){
        .ac = &codes->ac[ac].table, .dc = &codes->dc[dc].table, .component = component};
}

/* Bytes. */

/* Clean more bytes after the n that the window holds. */
static void fill_window(struct mr_jpeg_scan *scan, size_t n)
{
    uint8_t *data = scan->window + MR_JPEG_SCAN_HEAD;
    size_t room = MR_JPEG_SCAN_WINDOW - n;
    size_t written = scan->kernels->scan_clean(&scan->from, scan->end, data + n, room);
    scan->ended = written < room;
    scan->clean_end = data + n + written;
    /* The bytes after the last may be anything: an MCU that consumes them is detected. */
    scan->reader.stop =
        scan->ended ? scan->clean_end + READ_AHEAD : scan->clean_end - MR_SCAN_SLACK;
}

/* Move the bytes that the reader still needs to the front, and clean more after them. */
static void move_window(struct mr_jpeg_scan *scan)
{
    uint8_t *data = scan->window + MR_JPEG_SCAN_HEAD;
    const uint8_t *keep = scan->reader.next - READ_AHEAD;
    if (keep < data)
        return;
    size_t n = (size_t)(scan->clean_end - keep);
    scan->dropped += (uint64_t)(keep - data);
    memmove(data, keep, n);
    scan->reader.next = data + READ_AHEAD;
    fill_window(scan, n);
}

static int64_t bits_left(const struct mr_jpeg_scan *scan)
{
    return -mr_scan_reader_position(&scan->reader, scan->clean_end);
}

static void start_segment(struct mr_jpeg_scan *scan)
{
    struct mr_scan_reader *reader = &scan->reader;
    scan->known = scan->from;
    scan->known_clean = scan->dropped = 0;
    fill_window(scan, 0);
    memset(reader->before, 0, sizeof reader->before);
    const uint8_t *at = scan->window + MR_JPEG_SCAN_HEAD;
    reader->bits = 0;
    for (size_t i = 0; i < READ_AHEAD; i++)
        reader->bits = reader->bits << 8 | at[i];
    reader->next = at + READ_AHEAD - 1;
    reader->used = 7;
    scan->n_left = scan->restart;
}

/* The segment must be at its end, and the next marker in turn must follow. */
static bool pass_restart(struct mr_jpeg_scan *scan)
{
    if (!scan->ended)
        move_window(scan);
    if (!scan->ended || bits_left(scan) >= 8 || scan->end - scan->from < 2)
        return false;
    if (scan->from[0] != MARKER || scan->from[1] != FIRST_RESTART + scan->restart_number)
        return false;
    scan->from += 2;
    scan->restart_number = (scan->restart_number + 1) % 8;
    start_segment(scan);
    return true;
}

void mr_jpeg_scan_start(struct mr_jpeg_scan *scan, const struct mr_kernel_ops *kernels,
                        const struct mr_scan_mcu *mcu, const uint8_t *bytes, size_t len,
                        uint32_t restart)
{
    scan->kernels = kernels;
    scan->mcu = mcu;
    scan->from = bytes;
    scan->end = bytes + len;
    scan->restart = restart;
    scan->restart_number = 0;
    start_segment(scan);
}

void mr_jpeg_scan_start_at(struct mr_jpeg_scan *scan, const struct mr_kernel_ops *kernels,
                           const struct mr_scan_mcu *mcu, const struct mr_jpeg_scan_place *place,
                           const uint8_t *end, uint32_t restart)
{
    assert(place->bit < 8);
    mr_jpeg_scan_start(scan, kernels, mcu, place->at, (size_t)(end - place->at), restart);
    scan->reader.bits <<= place->bit;
    scan->reader.used += place->bit;
    memcpy(scan->reader.before, place->predict, sizeof scan->reader.before);
    if (restart == 0)
        return;
    scan->n_left = restart - (uint32_t)(place->mcu % restart);
    scan->restart_number = (uint32_t)(place->mcu / restart % 8);
}

/* Positions in the file. */

/*
 * The byte of the file that became the n-th clean one of this segment; if that is the last, the
 * byte after it.
 */
static const uint8_t *find_byte(struct mr_jpeg_scan *scan, uint64_t n)
{
    while (scan->known_clean < n) {
        size_t left = (size_t)(scan->end - scan->known),
               wanted = n - scan->known_clean < left ? n - scan->known_clean : left;
        const uint8_t *found = memchr(scan->known, MARKER, wanted);
        size_t step = found ? (size_t)(found - scan->known) + 1 : wanted;
        assert(step > 0);
        scan->known += step + (found != NULL); /* with the zero after it */
        scan->known_clean += step;
    }
    return scan->known;
}

static uint64_t count_bits(const struct mr_jpeg_scan *scan)
{
    return scan->dropped * 8 +
           (uint64_t)mr_scan_reader_position(&scan->reader, scan->window + MR_JPEG_SCAN_HEAD);
}

bool mr_jpeg_scan_find_place(struct mr_jpeg_scan *scan, struct mr_jpeg_scan_place *place_out)
{
    if (scan->restart > 0 && scan->n_left == 0 && !pass_restart(scan))
        return false;
    uint64_t bits = count_bits(scan);
    place_out->at = find_byte(scan, bits / 8);
    place_out->bit = (uint32_t)(bits % 8);
    memcpy(place_out->predict, scan->reader.before, sizeof place_out->predict);
    return true;
}

const uint8_t *mr_jpeg_scan_find_end(struct mr_jpeg_scan *scan)
{
    return find_byte(scan, (count_bits(scan) + 7) / 8);
}

/* MCUs. */

/* How many of the next n MCUs the kernels may decode now; 0: something is odd. */
static uint32_t prepare(struct mr_jpeg_scan *scan, uint64_t n)
{
    if (scan->restart > 0 && scan->n_left == 0 && !pass_restart(scan))
        return 0;
    if (!scan->ended && scan->reader.next > scan->reader.stop)
        move_window(scan);
    if (scan->reader.next > scan->reader.stop)
        return 0;
    uint32_t most = scan->restart > 0 ? scan->n_left : UINT32_MAX;
    return n < most ? (uint32_t)n : most;
}

/* n MCUs are decoded; false: something is odd. */
static bool pass(struct mr_jpeg_scan *scan, uint32_t n)
{
    if (scan->restart > 0)
        scan->n_left -= n;
    return bits_left(scan) >= 0;
}

static bool run_mcus(struct mr_jpeg_scan *scan, uint64_t n, int16_t (*blocks)[64])
{
    const struct mr_kernel_ops *kernels = scan->kernels;
    while (n > 0) {
        uint32_t most = prepare(scan, n), done = 0;
        if (most > 0)
            done = blocks ? kernels->scan_store(&scan->reader, scan->mcu, most, blocks)
                          : kernels->scan_skip(&scan->reader, scan->mcu, most);
        if (done == 0 || !pass(scan, done))
            return false;
        n -= done;
        blocks = blocks ? blocks + (size_t)done * scan->mcu->n_blocks : NULL;
    }
    return true;
}

bool mr_jpeg_scan_store(struct mr_jpeg_scan *scan, uint64_t n, int16_t (*blocks)[64])
{
    return run_mcus(scan, n, blocks);
}

bool mr_jpeg_scan_skip(struct mr_jpeg_scan *scan, uint64_t n)
{
    return run_mcus(scan, n, NULL);
}
