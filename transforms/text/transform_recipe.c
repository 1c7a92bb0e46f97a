/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of recipes. Training texts follow ClassificationPresetTrain of torchvision's
 * references/classification, with the arguments that its README gives for each model: crop, flip,
 * and a policy with the crop's interpolation. Evaluations are the transforms() of the weights.
 * timm's texts follow create_transform(). Those of "ResNet strikes back" follow its train.py and
 * the paper's tables, those of DeiT III its augment.py.
 */
#include "transforms/text/transform_recipe.h"

#include "base/words.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define IMAGENET "+normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225,if_float)"
#define EVAL "resize(#)+center_crop(@)" IMAGENET
#define JITTERED(brightness_contrast_saturation_hue)                                               \
    "+hflip(0.5)+random_apply(color_jitter(" brightness_contrast_saturation_hue                    \
    "),0.8)+random_grayscale(0.2)"
/*
 * main_dino.py: data_augmentation. Every blur has radius 0.1 to 2; solarize is ImageOps' with the
 * default threshold of 128.
 */
#define DINO_GLOBAL "random_resized_crop(@,scale=0.4:1,interp=bicubic)" JITTERED("0.4,0.4,0.2,0.1")
#define DINO_LOCAL                                                                                 \
    "random_resized_crop(@,scale=0.05:0.4,interp=bicubic)" JITTERED("0.4,0.4,0.2,0.1")

/*
 * DINOv2's augmentations.py with the sizes and scales of its ssl_default_config.yaml. Its class
 * GaussianBlur gives 1 - p to RandomApply: the first global crop is never blurred, and the second
 * one with a probability of 0.9.
 */
#define DINOV2(range)                                                                              \
    "random_resized_crop(@,scale=" range ",interp=bicubic)" JITTERED("0.4,0.4,0.2,0.1")
/*
 * DINOv3's augmentations.py draws and blurs as DINOv2's. Its options: one jitter of the whole image
 * for all crops; half of the local crops inside each global one, before its colours, at a multiple
 * of a patch of 16.
 */
#define DINOV3_JITTER "random_apply(color_jitter(0.4,0.4,0.2,0.1),0.8)+random_grayscale(0.2)"
#define DINOV3_CROP(size, range)                                                                   \
    "random_resized_crop(" size ",scale=" range ",interp=bicubic)+hflip(0.5)"
#define DINOV3_BLUR(p) "+random_apply(gaussian_blur(9,0.1:2)," p ")"
#define DINOV3_SHARED(size, range) "shared(" DINOV3_JITTER ")+" DINOV3_CROP(size, range)
#define DINOV3_INSIDE(global)                                                                      \
    "4,inside(" global "," DINOV3_CROP("#", "0.32:1") ")+" DINOV3_JITTER DINOV3_BLUR(              \
        "0.5") "+patch_crop(@,16)" IMAGENET ")"
/* Two global crops and eight local ones. */
#define VIEWS(model)                                                                               \
    {                                                                                              \
        .name = model,                                                                             \
        .text = "view(global1," model "_global1:#)|view(global2," model                            \
                "_global2:#)|view(local,8," model "_local:@)",                                     \
        .size = 96, .resized = 224                                                                 \
    }

#define TIMM_RAND(policy)                                                                          \
    "random_resized_crop(@,interp=random)+hflip(0.5)+timm(\"" policy "\")" IMAGENET
#define TIMM_EVAL "resize(#,interp=bicubic)+center_crop(@)" IMAGENET

const struct mr_transform_recipe mr_transform_recipes[] = {
    {.name = "resnet50_v1", .text = "random_resized_crop(@)+hflip(0.5)" IMAGENET, .size = 224},
    {.name = "resnet50_v1_eval", .text = EVAL, .size = 224, .resized = 256},
    {.name = "resnet50_v2",
     .text = "random_resized_crop(@)+hflip(0.5)+trivial_augment_wide(interp=bilinear)" IMAGENET,
     .size = 176},
    {.name = "resnet50_v2_eval", .text = EVAL, .size = 224, .resized = 232},
    {.name = "vit_b_16",
     .text = "random_resized_crop(@)+hflip(0.5)+rand_augment(2,9,31,interp=bilinear)" IMAGENET,
     .size = 224},
    {.name = "vit_b_16_eval", .text = EVAL, .size = 224, .resized = 256},
    {.name = "swin_t",
     .text = "random_resized_crop(@,interp=bicubic)+hflip(0.5)+trivial_augment_wide(interp="
             "bicubic)" IMAGENET,
     .size = 224},
    {.name = "swin_t_eval",
     .text = "resize(#,interp=bicubic)+center_crop(@)" IMAGENET,
     .size = 224,
     .resized = 232},
    {.name = "convnext_tiny",
     .text = "random_resized_crop(@)+hflip(0.5)+trivial_augment_wide(interp=bilinear)" IMAGENET,
     .size = 176},
    {.name = "convnext_tiny_eval", .text = EVAL, .size = 224, .resized = 236},
    {.name = "simclr",
     .text = "random_resized_crop(@)" JITTERED(
         "0.8,0.8,0.8,0.2") "+random_apply(gaussian_blur(%,0.1:2),0.5)" IMAGENET,
     .size = 224},
    {.name = "dino_global1", .text = DINO_GLOBAL "+pil_gaussian_blur(0.1:2)" IMAGENET, .size = 224},
    {.name = "dino_global2",
     .text = DINO_GLOBAL "+random_apply(pil_gaussian_blur(0.1:2),0.1)+solarize(128,0.2)" IMAGENET,
     .size = 224},
    {.name = "dino_local",
     .text = DINO_LOCAL "+random_apply(pil_gaussian_blur(0.1:2),0.5)" IMAGENET,
     .size = 96},
    VIEWS("dino"),
    {.name = "dinov2_global1", .text = DINOV2("0.32:1") IMAGENET, .size = 224},
    {.name = "dinov2_global2",
     .text =
         DINOV2("0.32:1") "+random_apply(gaussian_blur(9,0.1:2),0.9)+solarize(128,0.2)" IMAGENET,
     .size = 224},
    {.name = "dinov2_local",
     .text = DINOV2("0.05:0.32") "+random_apply(gaussian_blur(9,0.1:2),0.5)" IMAGENET,
     .size = 96},
    VIEWS("dinov2"),
    {.name = "dinov3_shared_jitter",
     .text = "view(global1," DINOV3_SHARED("#", "0.32:1") IMAGENET ")|view(global2," DINOV3_SHARED(
         "#", "0.32:1") DINOV3_BLUR("0.9") "+solarize(128,0.2)" IMAGENET
                                           ")|view(local,8," DINOV3_SHARED("@", "0.05:0.32")
                                               DINOV3_BLUR("0.5") IMAGENET ")",
     .size = 96,
     .resized = 224},
    {.name = "dinov3_local_subset",
     .text =
         "view(global1,dinov2_global1:#)|view(global2,dinov2_global2:#)|view(local1," DINOV3_INSIDE(
             "global1") "|view(local2," DINOV3_INSIDE("global2"),
     .size = 96,
     .resized = 224},
    {.name = "timm_train",
     .text = "random_resized_crop(@)+hflip(0.5)+color_jitter(0.4,0.4,0.4)" IMAGENET,
     .size = 224},
    {.name = "timm_eval", .text = EVAL, .size = 224, .resized = 256},
    {.name = "timm_a1", .text = TIMM_RAND("rand-m7-mstd0.5-inc1"), .size = 224},
    {.name = "timm_a1_eval", .text = TIMM_EVAL, .size = 224, .resized = 235},
    {.name = "timm_a2", .text = TIMM_RAND("rand-m7-mstd0.5-inc1"), .size = 224},
    {.name = "timm_a2_eval", .text = TIMM_EVAL, .size = 224, .resized = 235},
    {.name = "timm_a3", .text = TIMM_RAND("rand-m6-mstd0.5-inc1"), .size = 160},
    {.name = "timm_a3_eval", .text = TIMM_EVAL, .size = 224, .resized = 235},
    {.name = "deit3",
     .text = "resize(@,interp=bicubic)+random_crop(@,padding=4,padding_mode=reflect)+hflip(0.5)"
             "+random_choice(grayscale(3),solarize(128,1),pil_gaussian_blur(0.1:2))+color_jitter(0."
             "3,0.3,0.3)" IMAGENET,
     .size = 224},
    {.name = "deit3_eval", .text = TIMM_EVAL, .size = 224, .resized = 224},
    /* The presets of references/segmentation, backend pil, v2, which resizes to a square. */
    {.name = "segmentation_train",
     .text = "random_resize(260,1040)+hflip(0.5)+pad_if_smaller(@)+random_crop(@)"
             "+mask(fill=255)" IMAGENET,
     .size = 480},
    {.name = "segmentation_eval", .text = "resize(@:@)+mask(fill=255)" IMAGENET, .size = 520},
    /* v1's keeps the shape of each image; Pillow resizes the masks. */
    {.name = "segmentation_eval_v1",
     .text = "resize(@)+mask(nearest=pil,fill=255)" IMAGENET,
     .size = 520},
    /*
     * Those of references/detection: pixels become floats from 0 to 1, because the models
     * normalise.
     */
    {.name = "detection_hflip", .text = "hflip(0.5)+sanitize"},
    {.name = "detection_lsj",
     .text = "scale_jitter(@)+fixed_size_crop(@,fill=123:117:104)+hflip(0.5)+sanitize",
     .size = 1024},
    {.name = "detection_multiscale",
     .text = "random_shortest_size(480:512:544:576:608:640:672:704:736:768:800,max_size=1333)"
             "+hflip(0.5)+sanitize"},
    {.name = "detection_ssd",
     .text = "photometric_distort+random_zoom_out+random_iou_crop+hflip(0.5)+sanitize"},
    {.name = "detection_ssdlite", .text = "random_iou_crop+hflip(0.5)+sanitize"},
    {.name = "detection_eval", .text = "none"},
};
const uint32_t mr_transform_recipe_count =
    sizeof mr_transform_recipes / sizeof *mr_transform_recipes;

const struct mr_transform_recipe *mr_transform_recipe_find(const char *name)
{
    for (uint32_t i = 0; i < mr_transform_recipe_count; i++)
        if (mr_word_is(mr_transform_recipes[i].name, name))
            return &mr_transform_recipes[i];
    return NULL;
}

void mr_transform_recipe_expand(const struct mr_transform_recipe *recipe, uint32_t height,
                                uint32_t width, uint32_t resized,
                                char text_out[MR_TRANSFORM_RECIPE_MAX_TEXT])
{
    char size[24], side[12], kernel[12];
    if (height == width)
        snprintf(size, sizeof size, "%u", height);
    else
        snprintf(size, sizeof size, "%u:%u", height, width);
    snprintf(side, sizeof side, "%u", resized);
    /* SimCLR's data_util.py: the radius is a tenth of the height, halved, both rounded down. */
    snprintf(kernel, sizeof kernel, "%u", height / 10 / 2 * 2 + 1);
    size_t used = 0;
    for (const char *c = recipe->text; *c; c++) {
        const char one[2] = {*c, '\0'};
        const char *part = *c == '@' ? size : *c == '#' ? side : *c == '%' ? kernel : one;
        size_t len = strlen(part);
        assert(used + len < MR_TRANSFORM_RECIPE_MAX_TEXT);
        memcpy(text_out + used, part, len);
        used += len;
    }
    text_out[used] = '\0';
}
