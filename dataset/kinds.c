/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the kinds of dataset. Each kind is a file with one function that opens it and makes
 * its catalog.
 */
#include "dataset/kinds.h"

#include "dataset/annotations/coco.h"
#include "dataset/annotations/voc.h"
#include "dataset/annotations/yolo.h"
#include "dataset/imagefolder.h"
#include "dataset/list.h"
#include "dataset/mix_open.h"
#include "dataset/pack_open.h"
#include "dataset/ranges.h"
#include "dataset/records.h"
#include "dataset/tar/tar.h"
#include "dataset/tokens/tokens_open.h"

const struct mr_kind mr_kinds[] = {
    {.name = "imagefolder",
     .advice = "a server is not asked for names; write them by `millrace list URL --save FILE`, "
               "and open list:FILE",
     .open = mr_imagefolder_open},
    {.name = "cifar10",
     .advice = "name its files as records (docs/formats.md#cifar10)",
     .open = mr_records_open_cifar10},
    {.name = "list", .remote = true, .open = mr_list_open},
    {.name = "ranges", .remote = true, .open = mr_ranges_open},
    {.name = "records", .many_paths = true, .remote = true, .open = mr_records_open},
    {.name = "pack", .remote = true, .open = mr_pack_open},
    {.name = "tar", .many_paths = true, .raw_paths = true, .remote = true, .open = mr_tar_open},
    {.name = "coco", .remote = true, .open = mr_coco_open},
    {.name = "voc", .remote = true, .open = mr_voc_open},
    {.name = "yolo", .remote = true, .open = mr_yolo_open},
    {.name = "tokens", .many_paths = true, .remote = true, .open = mr_tokens_open},
    {.name = "mix", .raw_paths = true, .whole = true, .open = mr_mix_open},
    {.name = NULL},
};
