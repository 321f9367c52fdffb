"""Folders of JPEG files as a Python dataset, decoded by Pillow, like torchvision.datasets.ImageFolder but without torchvision."""

import math
import random
from pathlib import Path

import numpy
import torch
from PIL import Image
from torch.utils.data import Dataset

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STDDEV = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class ImageFolder(Dataset):
    def __init__(self, folder, transform):
        classes = sorted(path.name for path in Path(folder).iterdir())
        self.samples = [(str(path), target) for target, name in enumerate(classes) for path in sorted((Path(folder) / name).iterdir())]
        self.transform = transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, target = self.samples[index]
        with open(path, "rb") as file:
            image = Image.open(file).convert("RGB")
        return self.transform(image), target


def normalized(image):
    """ToTensor and Normalize."""
    tensor = torch.from_numpy(numpy.array(image)).permute(2, 0, 1).contiguous()
    return tensor.float().div_(255).sub_(MEAN).div_(STDDEV)


def random_box(width, height):
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            left, top = random.randint(0, width - across), random.randint(0, height - down)
            return left, top, left + across, top + down
    return 0, 0, width, height


def augmented(image):
    """RandomResizedCrop(224), RandomHorizontalFlip, ToTensor and Normalize."""
    image = image.crop(random_box(*image.size)).resize((224, 224), Image.Resampling.BILINEAR)
    if random.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return normalized(image)


def make(form, data):
    return ImageFolder(data, normalized), {"batch_size": 64}
