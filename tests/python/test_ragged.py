# SPDX-License-Identifier: Apache-2.0
"""Images that keep their own sizes: a row of bytes, and where each image is in it."""
import pytest

import millrace as mr

from support import module

numpy = module("numpy")
ROOM = 3 << 20


@pytest.mark.skipif(not numpy, reason="NumPy is not here, or too old")
def test_each_image_is_where_offsets_and_shapes_say(make_loader, images):
    options = dict(dataset=f"imagefolder:{images}", batch_size=5, num_workers=0, layout="nhwc")
    loader = make_loader(transform="none", ragged=True, max_row_bytes=ROOM, **options)
    small = make_loader(transform="center_crop(8)", **options)
    for batch, cropped in zip(loader, small):
        flat, offsets, shapes = (numpy.asarray(batch[name]) for name in
                                 ("image", "image.offsets", "image.shape"))
        assert flat.shape == (len(offsets) * ROOM,)
        for i, (height, width) in enumerate(shapes):
            image = flat[offsets[i]:offsets[i] + height * width * 3].reshape(height, width, 3)
            top, left = round((height - 8) / 2), round((width - 8) / 2)
            expected = numpy.asarray(cropped.image)[i]
            assert (image[top:top + 8, left:left + 8] == expected).all()


def test_what_needs_equal_rows_is_refused(make_loader, images):
    with pytest.raises(mr.Error, match="ragged needs max_row_bytes"):
        make_loader(dataset=f"imagefolder:{images}", transform="none", ragged=True)
