# SPDX-License-Identifier: Apache-2.0
"""A loop in JAX: softmax regression on photographs. It prints the loss of each epoch.

    jax_train.py DATA
"""
import os
import sys

import jax
import jax.numpy as jnp

import millrace as mr


@jax.jit
def step(weights, image, label):
    def loss(weights):
        scores = jax.nn.log_softmax(image.reshape(len(image), -1) @ weights)
        return -scores[jnp.arange(len(label)), label].mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.001 * gradient, value


def main(data):
    weights, losses = jnp.zeros((3 * 32 * 32, 10)), []
    with mr.Loader("imagefolder:" + os.path.join(data, "train"), "train:32", batch_size=8,
                   num_workers=2, dtype="f32", drop_last=True) as loader:
        for epoch in range(10):
            loader.set_epoch(epoch)
            for batch in loader:
                image = jax.dlpack.from_dlpack(batch.image)  # no copy
                label = jax.dlpack.from_dlpack(batch.label)
                weights, value = step(weights, image, label)
                losses.append(float(value))
    return losses


if __name__ == "__main__":
    print(main(sys.argv[1]))
