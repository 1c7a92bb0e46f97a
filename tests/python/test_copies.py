# SPDX-License-Identifier: Apache-2.0
"""What pickle and copy make of the package's objects."""
import copy
import pickle
import warnings

import pytest

import millrace as mr

from support import indices

WAYS = [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))]


@pytest.mark.parametrize("duplicate", WAYS)
def test_datasets_and_transforms_are_opened_again(images, duplicate):
    dataset, transform = duplicate(mr.Dataset(images, allow_empty_classes=True)), duplicate(
        mr.Transform("eval:24:16"))
    assert (len(dataset), dataset.classes) == (21, mr.Dataset(images).classes)
    assert str(transform) == str(mr.Transform("eval:24:16"))
    with mr.Loader(dataset, transform, batch_size=8, num_workers=0, no_shuffle=True) as loader:
        assert indices(loader) == list(range(21))


@pytest.mark.parametrize("duplicate", WAYS)
def test_loaders_and_batches_are_refused_with_words(make_loader, duplicate):
    loader = make_loader(num_workers=0)
    batch = loader.next()
    with pytest.raises(TypeError, match="a Loader cannot be pickled or copied"):
        duplicate(loader)
    for thing in (batch, batch.label):
        with pytest.raises(TypeError, match="a batch cannot be pickled or copied"):
            duplicate(thing)


def test_the_warning_of_kept_batches_is_of_the_programs_line(make_loader):
    loader = make_loader(batch_size=2, num_workers=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        held = list(loader)
        warnings.simplefilter("error")
        loader, kept = make_loader(batch_size=2, num_workers=1), []
        going = iter(loader)
        with pytest.raises(RuntimeWarning, match="batches are held at once"):
            for batch in going:
                kept.append(batch)
    assert len(held) == len([*kept, *going]) == 11  # no batch is lost with the exception
    assert [(warning.category, warning.filename)
            for warning in caught] == [(RuntimeWarning, __file__)]
