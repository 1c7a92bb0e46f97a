/* SPDX-License-Identifier: Apache-2.0 */
/* A corpus of transforms, each cut at every length and with every byte changed in a few ways. */
#include "tests/support/corpus.h"

static const char *const corpus[] = {
    "exif+train(8,bicubic)+normalize(mean=0.5,std=0.1:0.2:0.3,exact)",
    "cifar+rgb+vflip(.1)+eval:9:8",
    "Resize( 9 , interp = box )+random_crop(7:5,padding=4,padding_mode=reflect)",
    "random_crop(6,padding=3,fill=1:2:3)+color_jitter(0.4,0.1:2,hue=0.1)+equalize(1)",
    "random_apply(invert+posterize(4),p=1)+random_choice(solarize(9),autocontrast(1)+random_order("
    "invert,invert))",
    "gaussian_blur(3,0.1:2)+pil_gaussian_blur(2)+adjust_sharpness(2,1)+grayscale",
    "rotation(-90:40,bilinear,center=3:4,fill=9)+perspective(0.9,1)",
    "affine(9,translate=0.5:0.1,scale=0.1:3,shear=1:2:3:4,bicubic)",
    "random_crop(6,0,0:0:0)",
    "rand_augment(3,9,31)+trivial_augment_wide(bilinear)+auto_augment(svhn)",
    "pad(1:2:3:4,fill=1:2:3)+random_crop(9,pad_if_needed,reflect)+resize(7,max_size=9)+pad(2,edge)",
    "random_order(hflip,vflip(0.1),channel_permutation,photometric_distort(0:2,p=1),jpeg(1:100))",
    "rand_augment_v2(3,9,31)+trivial_augment_wide_v2(bilinear)+auto_augment_v2(svhn)",
    "augmix(10,63,3,0.5,0,nearest,fill=1:2:3)+augmix_v2(chain_depth=-1)",
    "timm(\"rand-m9-n3-mstd0.5-p1-inc1\")+timm('v0r',bicubic)+timm(policy=\"rand-tweights\",fill=1:"
    "2:3)",
};

int main(void)
{
    static const uint8_t changes[] = {'(', ')', ',', '+', ':', '=', '-',
                                      '9', ' ', '"', 128, 147, 0xff};
    mr_corpus_feed_texts(corpus, sizeof corpus / sizeof *corpus, changes, sizeof changes);
    return 0;
}
