"""Like images.py with augmentation, as a training reads images of ImageNet's size."""

from loader_images import ImageFolder, augmented


def make(form, data):
    return ImageFolder(data, augmented), {"batch_size": 64}
