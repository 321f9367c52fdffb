#!/usr/bin/env python3
"""torchvision's transforms of a small image with given parameters, for transform_golden_test.cc.

    transform_golden.py > transform_golden.txt
    transform_golden.py --check    exits with 1 if transform_golden.txt is not what this torchvision gives; with 77 without torchvision

A line is a case: its words, a colon, and the result. Of an image that is channels, height, width and the values in hexadecimal, bytes or
float32 (which end in `f`); of a table, its numbers. Needs torch and torchvision.
"""

import struct
import sys
from pathlib import Path

try:
    import torch
    import torchvision
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as F
except ImportError as missing:
    print(f"skipped: {missing}; `./dev setup` installs torchvision beside torch")
    sys.exit(77)

MODES = {mode.value: mode for mode in InterpolationMode}
FILLS = ["none", "0", "7", "200,30,120"]
POLICIES = {"imagenet": v2.AutoAugmentPolicy.IMAGENET, "cifar10": v2.AutoAugmentPolicy.CIFAR10, "svhn": v2.AutoAugmentPolicy.SVHN}
SIZE = (20, 24)  # of the image for which magnitudes are given


def numbers(words, of=float):
    return [of(word) for word in words.split(",")]


def optional(words, of=float):
    return None if words == "none" else numbers(words, of)


def fill_of(words):
    values = optional(words)
    return values[0] if values is not None and len(values) == 1 else values


# Smooth with some noise, so that neither a shift nor a wrong neighbour goes unseen; the small one has few values, as equalize() likes.
def made_image(name):
    channels, height, width = {"color": (3, 12, 15), "gray": (1, 20, 24), "flat": (3, 6, 5), "float": (3, 6, 7)}[name]
    c, y, x = torch.meshgrid(torch.arange(channels), torch.arange(height), torch.arange(width), indexing="ij")
    if name == "flat":
        return (40 + 3 * ((x + y) % 4) + 50 * c).to(torch.uint8) * (c < 2).to(torch.uint8)
    noise = (c * 7919 + y * 104729 + x * 1299709) * 2654435761 % 4294967296 // 67108864
    values = (x * 11 + y * 7 + c * 40 + noise) % 256
    return values.to(torch.float32) / 255 if name == "float" else values.to(torch.uint8)


def case(words, image):
    name, *rest = words
    if name == "image":
        return image
    if name == "pad":
        padding, fill, mode = rest
        return F.pad(image, numbers(padding, int), fill=fill_of(fill), padding_mode=mode)
    if name == "resize":
        size, mode, antialias = rest
        return F.resize(image, numbers(size, int), interpolation=MODES[mode], antialias=antialias == "1")
    if name == "rotate":
        angle, mode, expand, center, fill = rest
        return F.rotate(image, float(angle), interpolation=MODES[mode], expand=expand == "1", center=optional(center), fill=fill_of(fill))
    if name == "affine":
        angle, translate, scale, shear, mode, center, fill = rest
        return F.affine(image, float(angle), numbers(translate, int), float(scale), numbers(shear), interpolation=MODES[mode],
                        center=optional(center), fill=fill_of(fill))
    if name == "perspective":
        corners, mode, fill = rest
        height, width = image.shape[-2:]
        ends = numbers(corners, int)
        return F.perspective(image, [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]],
                             [ends[i : i + 2] for i in range(0, 8, 2)], interpolation=MODES[mode], fill=fill_of(fill))
    if name == "gaussian_blur":
        size, sigma = rest
        return F.gaussian_blur(image, numbers(size, int), [float(sigma)] * 2)
    if name.startswith("adjust_"):
        return getattr(F, name)(image, float(rest[0]))
    if name == "posterize":
        return F.posterize(image, int(rest[0]))
    if name == "solarize":
        return F.solarize(image, float(rest[0]))
    if name in ("autocontrast", "equalize", "invert"):
        return getattr(F, name)(image)
    if name == "augment":
        operation, magnitude, mode, fill = rest
        augment = v2.RandAugment(interpolation=MODES[mode], fill=fill_of(fill))
        return augment._apply_image_or_video_transform(image, operation, float(magnitude), MODES[mode], augment._fill)
    if name == "mixup":
        return v2.MixUp(num_classes=3).transform(image.unsqueeze(0).repeat(2, 1, 1, 1).mul_(torch.tensor([1.0, 0.5]).view(2, 1, 1, 1)),
                                                 {"labels": None, "batch_size": 2, "lam": float(rest[0])}).flatten(0, 1)
    if name == "cutmix":
        lam, middle = float(rest[0]), numbers(rest[1], int)
        mix = v2.CutMix(num_classes=3)
        batch = torch.stack([image, image.flip(2)])
        draws = iter(torch.tensor([value]) for value in middle)
        randint, sample = torch.randint, mix._dist.sample
        torch.randint, mix._dist.sample = lambda *_, **__: next(draws), lambda *_: torch.tensor([lam], dtype=torch.float64)
        try:
            params = mix.make_params([batch])
        finally:
            torch.randint, mix._dist.sample = randint, sample
        return mix.transform(batch, {"labels": None, "batch_size": 2, **params}).flatten(0, 1)
    raise ValueError(name)


def image_cases():
    yield from (f"image {name}" for name in ("color", "gray", "flat", "float"))
    for image, fills in (("color", FILLS), ("float", ["none", "0", "0.5", "0.1,0.9,0.4"])):
        for fill in fills[1:]:
            yield f"pad {image} 2 {fill} constant"
        for mode in ("edge", "reflect", "symmetric"):
            yield f"pad {image} 1,2,3,4 0 {mode}"
        for mode, fill in (("nearest", fills[0]), ("nearest", fills[3]), ("bilinear", fills[0]), ("bilinear", fills[1]), ("bilinear", fills[3])):
            yield f"rotate {image} 33 {mode} 0 none {fill}"
            yield f"affine {image} -20 2,-3 1.3 10,0 {mode} none {fill}"
            yield f"perspective {image} 2,1,5,0,6,4,1,5 {mode} {fill}"
        yield f"rotate {image} 400 bilinear 1 none {fills[2]}"
        yield f"rotate {image} -75.5 nearest 1 none {fills[2]}"
        yield f"rotate {image} 15 bilinear 0 3,2 {fills[1]}"
        yield f"rotate {image} 15 nearest 0 3,2.5 {fills[2]}"
        yield f"affine {image} 8 0,0 0.7 -5,12 bilinear 1,4 {fills[2]}"
        for mode, antialias in (("nearest", 1), ("nearest-exact", 1), ("bilinear", 1), ("bilinear", 0), ("bicubic", 1), ("bicubic", 0)):
            yield f"resize {image} 5,9 {mode} {antialias}"
            yield f"resize {image} 17,4 {mode} {antialias}"
    # Turning an image with an even and an odd side puts pixels halfway between two others: the processor's rounding decides which is nearer.
    for angle in (0, 90, 180, 270, -90):
        yield f"rotate color {angle} nearest 1 none none"
        yield f"rotate gray {angle} nearest 0 none none"
    for image in ("color", "gray", "float"):
        for size, sigma in (("3,3", 0.1), ("3,3", 2), ("5,3", 1.1), ("1,5", 0.8)):
            yield f"gaussian_blur {image} {size} {sigma}"
    for image in ("color", "gray", "flat", "float"):
        for name in ("adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_sharpness"):
            for factor in (0, 0.3, 1.9):
                yield f"{name} {image} {factor}"
        for turn in (0.1, -0.3, 0.5, 0.03, -0.017):
            yield f"adjust_hue {image} {turn}"
        for bits in (0, 3, 4, 8):
            yield f"posterize {image} {bits}"
        for threshold in (0, 0.4, 1):
            yield f"solarize {image} {threshold if image == 'float' else threshold * 255}"
        yield from (f"{name} {image}" for name in ("autocontrast", "equalize", "invert"))
    for operation, magnitude in (("ShearX", 0.3), ("ShearX", -0.9), ("ShearY", 0.23), ("TranslateX", 3.7), ("TranslateX", -3.7), ("TranslateY", 2.2),
                                 ("Rotate", 21), ("Brightness", -0.4), ("Color", 0.7), ("Contrast", -0.6), ("Sharpness", 0.9), ("Posterize", 5),
                                 ("Solarize", 0.5), ("AutoContrast", 0), ("Equalize", 0), ("Invert", 0), ("Identity", 0)):
        for mode, fill in (("nearest", "none"), ("bilinear", "200,30,120")):
            yield f"augment color {operation} {magnitude} {mode} {fill}"
    for lam in (0.2, 0.75):
        yield f"mixup float {lam}"
        for middle in ("0,5", "3,2", "6,0"):
            yield f"cutmix float {lam} {middle}"


def tables():
    for name, policy in POLICIES.items():
        for number, steps in enumerate(v2.AutoAugment(policy)._policies):
            yield f"policy {name} {number}", " ".join(f"{step} {p} {-1 if magnitude is None else magnitude}" for step, p, magnitude in steps)
    for kind, of, bins in (("narrow", v2.AutoAugment, 10), ("narrow", v2.RandAugment, 31), ("wide", v2.TrivialAugmentWide, 31), ("wide", v2.TrivialAugmentWide, 8)):
        for name, (magnitudes, signed) in of._AUGMENTATION_SPACE.items():
            values = magnitudes(bins, *SIZE)
            yield f"magnitudes {kind} {bins} {name} {int(signed)}", "" if values is None else " ".join(repr(float(value)) for value in values)
    for kind in (v2.RandAugment, v2.TrivialAugmentWide):
        yield f"choices {kind.__name__}", " ".join(kind._AUGMENTATION_SPACE)
    for labels, classes in (("0,2,1", 3), ("1,1,0", 2)):
        rows = v2.MixUp(num_classes=classes)._mixup_label(torch.tensor(numbers(labels, int)), lam=0.25)
        yield f"labels {labels} {classes} 0.25", " ".join(repr(float(value)) for value in rows.flatten())


def packed(image):
    image = image.contiguous()
    values = image.flatten().tolist()
    data = struct.pack(f"<{len(values)}f", *values).hex() + "f" if image.is_floating_point() else bytes(values).hex()
    return " ".join(map(str, (*image.shape, data)))


def lines():
    for words in image_cases():
        name, image, *rest = words.split()
        yield words, packed(case([name, *rest], made_image(image)))
    yield from tables()


def values_of(result):
    *shape, data = result.split()
    if not data.endswith("f") or len(shape) != 3:
        return shape, bytes.fromhex(data) if len(shape) == 3 else [data]
    return shape, struct.unpack(f"<{len(data) // 8}f", bytes.fromhex(data[:-1]))


# Another processor adds in another order, so a rounded value may be the next one.
def same(words, held, now):
    if held == now:
        return True
    if words.split()[0] in ("policy", "magnitudes", "choices", "labels", "image"):
        return False
    (shape, old), (new_shape, new) = values_of(held), values_of(now)
    return shape == new_shape and all(abs(a - b) <= (1 if isinstance(old, bytes) else 1e-5) for a, b in zip(old, new))


def check():
    held = dict(line.split(":", 1) for line in Path(__file__).with_suffix(".txt").read_text().splitlines())
    now = dict(lines())
    wrong = [words for words in held.keys() | now.keys() if not same(words, held.get(words, "0"), now.get(words, "0"))]
    for words in sorted(wrong):
        print(f"'{words}' of transform_golden.txt is not what torchvision {torchvision.__version__} gives")
    print(f"{len(held)} cases, {len(wrong)} wrong")
    return 1 if wrong or not held else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(check())
    for words, result in lines():
        print(f"{words}:{result}")
