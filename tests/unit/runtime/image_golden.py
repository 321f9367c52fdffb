#!/usr/bin/env python3
"""Small images of many kinds and their pixels as Pillow decodes them, for image_test.cc.

    image_golden.py > image_golden.txt
    image_golden.py --check    exits with 1 if a file's pixels in image_golden.txt are not what this Pillow decodes; with 77 without Pillow

A line each: name, width, height, the file's bytes, the pixels of convert("RGB"), all in hexadecimal. Needs Pillow and numpy.
"""

import io
import struct
import sys
import zlib
from pathlib import Path

try:
    import numpy
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}; `./dev setup` installs Pillow beside torch")
    sys.exit(77)

WIDTH, HEIGHT = 13, 9


def file_of(image, **options):
    to = io.BytesIO()
    image.save(to, **options)
    return to.getvalue()


def pixels_of(data):
    return Image.open(io.BytesIO(data)).convert("RGB").tobytes()


# A PNG of 16 bits, which Pillow does not write. `color` is PNG's number for the color type.
def png_of(width, height, color, rows):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    packed = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    head = struct.pack(">IIBBBBB", width, height, 16, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


# All forms of Netpbm; Pillow writes only P4 to P6.
def pnm_of(kind, values, largest=None, space=" "):
    head = f"P{kind}\n# {kind}\n{WIDTH} {HEIGHT}\n" + (f"{largest}\n" if largest else "")
    return head.encode() + (space.join(map(str, values.flatten().tolist())) + "\n").encode()


# Each line has runs of 1 to 5 pixels, five literal pixels, and an end marker.
def bmp_of_runs(bits):
    data = bytearray()
    for y in range(HEIGHT):
        data += bytes([0, 5, 1, 2, 3, 4, 5, 0] if bits == 8 else [0, 5, 0x12, 0x34, 0x50, 0])
        data += bytes([5, 0x30 + y, 3, 0x1F - y, 0, 0])
    palette = b"".join(bytes([i * 3 % 256, i * 5 % 256, i * 7 % 256, 0]) for i in range(1 << bits))
    info = struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, bits, 1 if bits == 8 else 2, len(data), 0, 0, 0, 0)
    start = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start) + info + palette + bytes(data)


def write():
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
        # From dark to light: 0 .. 8 in the upper byte.
        "png_gray_16": file_of(Image.fromarray((y * 256 + x * 20).astype(numpy.uint16)), format="PNG"),
        "png_color_16": png_of(WIDTH, HEIGHT, 2, (colors.astype(numpy.uint16) * 256 + 200 - y[:, :, None] * 20).astype(">u2")),
        "png_gray_alpha_16": png_of(WIDTH, HEIGHT, 4, numpy.stack([y * 7000 + x * 300, x * 5000], -1).astype(">u2")),
    }
    gray = colors[..., 0]
    webp = {"format": "WEBP", "quality": 80}
    files |= {
        "bmp": file_of(rgb, format="BMP"),
        "bmp_gray": file_of(rgb.convert("L"), format="BMP"),
        "bmp_palette": file_of(rgb.quantize(16), format="BMP"),
        "bmp_one_bit": file_of(rgb.convert("1"), format="BMP"),
        "bmp_runs": bmp_of_runs(8),
        "bmp_runs_4": bmp_of_runs(4),
        "pbm_text": pnm_of(1, gray % 2),
        "pgm_text": pnm_of(2, gray % 10, 9),
        "ppm_text": pnm_of(3, colors % 8, 7, "\n"),
        "pbm": file_of(rgb.convert("1"), format="PPM"),
        "pgm": file_of(rgb.convert("L"), format="PPM"),
        "ppm": file_of(rgb, format="PPM"),
        "pgm_16": f"P5 {WIDTH} {HEIGHT} 65535\n".encode() + (y * 256 + x * 20).astype(">u2").tobytes(),
        "webp": file_of(rgb, **webp),
        "webp_lossless": file_of(rgb, **webp, lossless=True),
        "webp_alpha": file_of(rgba, **webp),
        "webp_animated": file_of(rgba, **webp, save_all=True, append_images=[rgb]),
        "tiff": file_of(rgb, format="TIFF"),
        "tiff_lzw": file_of(rgb, format="TIFF", compression="tiff_lzw"),
        "tiff_jpeg": file_of(rgb.convert("YCbCr"), format="TIFF", compression="jpeg"),
        "tiff_group4": file_of(rgb.convert("1"), format="TIFF", compression="group4"),
        "tiff_palette": file_of(rgb.quantize(16), format="TIFF", compression="zstd"),
        "tiff_cmyk": file_of(rgb.convert("CMYK"), format="TIFF", compression="packbits"),
        "tiff_gray_16": file_of(Image.fromarray((y * 256 + x * 20).astype(numpy.uint16)), format="TIFF", compression="tiff_adobe_deflate"),
        "tiff_turned": file_of(rgb, format="TIFF", tiffinfo={274: 6}),
    }
    for name, data in files.items():
        print(name, *Image.open(io.BytesIO(data)).size, data.hex(), pixels_of(data).hex())


# Decodes the stored files: another Pillow may write other bytes for the same picture.
def check():
    held = Path(__file__).with_suffix(".txt").read_text().splitlines()
    wrong = 0
    for line in held:
        name, width, height, data, pixels = line.split()
        image = Image.open(io.BytesIO(bytes.fromhex(data)))
        if image.size != (int(width), int(height)) or pixels_of(bytes.fromhex(data)).hex() != pixels:
            print(f"{name} of image_golden.txt does not have the pixels that this Pillow decodes")
            wrong += 1
    print(f"{len(held)} images, {wrong} wrong")
    return 1 if wrong or not held else 0


if __name__ == "__main__":
    sys.exit(check() if sys.argv[1:] == ["--check"] else write())
