"""The same with augmentation, as images of ImageNet's size are read for training."""

from loader_images import ImageFolder, augmented


def make(form, data):
    return ImageFolder(data, augmented), {"batch_size": 64}
