#!/usr/bin/env python3
"""Small images of many kinds and their pixels as Pillow decodes them, for image_test.cc.

    image_golden.py > image_golden.txt

A line each: name, width, height, the file's bytes, the pixels of convert("RGB"), all in hexadecimal. Needs Pillow and numpy.
"""

import io

import numpy
from PIL import Image

WIDTH, HEIGHT = 13, 9


def file_of(image, **options):
    to = io.BytesIO()
    image.save(to, **options)
    return to.getvalue()


def main():
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    colors = numpy.stack([x * 19, y * 28, 255 - x * 9 - y * 15], -1).astype(numpy.uint8)
    rgb = Image.fromarray(colors)
    rgba = Image.fromarray(numpy.concatenate([colors, (y * 25 + x)[:, :, None].astype(numpy.uint8)], -1))
    jpeg = {"format": "JPEG", "quality": 85, "optimize": True}
    files = {
        "jpeg": file_of(rgb, **jpeg),
        "jpeg_full_color": file_of(rgb, **jpeg, subsampling=0),
        "jpeg_progressive": file_of(rgb, **jpeg, progressive=True),
        "jpeg_gray": file_of(rgb.convert("L"), **jpeg),
        "jpeg_cmyk": file_of(rgb.convert("CMYK"), **jpeg),
        "png": file_of(rgb, format="PNG"),
        "png_alpha": file_of(rgba, format="PNG"),
        "png_gray": file_of(rgb.convert("L"), format="PNG"),
        "png_palette": file_of(rgb.quantize(16), format="PNG"),
        "png_one_bit": file_of(rgb.convert("1"), format="PNG"),
    }
    for name, data in files.items():
        pixels = Image.open(io.BytesIO(data)).convert("RGB").tobytes()
        print(name, WIDTH, HEIGHT, data.hex(), pixels.hex())


if __name__ == "__main__":
    main()
