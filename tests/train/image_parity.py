"""400 pictures of all kinds, for image_parity_test.cc: image_parity.py FOLDER SEED.

FOLDER/images/KIND/N.EXTENSION are the pictures, drawn from the seed. FOLDER/rgb and FOLDER/gray get a file of the same name for each: the
pixels of torchvision's ImageFolder, and of Pillow's convert("L"). Exits with 77 if torchvision is missing."""

import io
import random
import struct
import sys
import zlib
from pathlib import Path

try:
    import numpy
    from PIL import Image
    from torchvision.datasets import ImageFolder
except ImportError as missing:
    print(f"skipped: {missing}; `./dev setup` installs it beside torch")
    sys.exit(77)

PICTURES = 400


class Drawn:
    """One picture: its size, its colors, and the random choices of its kind."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = numpy.random.default_rng(self.random.getrandbits(32))
        self.width, self.height = self.random.randint(1, 41), self.random.randint(1, 33)
        y, x = numpy.mgrid[0 : self.height, 0 : self.width]
        slopes = self.numbers.integers(-9, 10, (2, 3))
        smooth = x[..., None] * slopes[0] + y[..., None] * slopes[1] + self.numbers.integers(0, 256, 3)
        self.colors = (smooth + self.numbers.integers(0, self.random.choice([2, 60]), smooth.shape)).astype(numpy.uint8)

    def one_of(self, *choices):
        return self.random.choice(choices)

    def samples(self, count, dtype=numpy.uint8, low=0, high=None):
        """[height, width, count], any values."""
        info = numpy.iinfo(dtype)
        return self.numbers.integers(low if low else info.min, high or info.max + 1, (self.height, self.width, count)).astype(dtype)

    def image(self, mode):
        rgb = Image.fromarray(self.colors)
        if mode == "P":
            return rgb.quantize(self.random.randint(2, 256))
        if mode in ("RGBA", "LA"):
            rgb.putalpha(Image.fromarray(self.samples(1)[..., 0]))
            return rgb.convert(mode)
        return rgb.convert(mode)


def saved(image, **options):
    to = io.BytesIO()
    image.save(to, **options)
    return to.getvalue()


def packed_bits(values, bits, order=1):
    """Rows of values of `bits` bits each; every row is padded to a byte. `order` 2: the lowest bit first."""
    rows = values.reshape(values.shape[0], -1).astype(numpy.uint32)
    unpacked = (rows[..., None] >> numpy.arange(bits - 1, -1, -1)) & 1
    return numpy.packbits(unpacked.reshape(rows.shape[0], -1).astype(numpy.uint8), axis=1, bitorder="big" if order == 1 else "little")


# ---- BMP


def bmp(drawn, bits, header=40, compression=0, masks=(), palette=(), data=None, colors=0, gap=0):
    top_down = header != 12 and drawn.one_of(True, False)
    if data is None:
        if bits <= 8:
            rows = packed_bits(drawn.samples(1, high=min(1 << bits, len(palette))), bits)
        else:
            rows = drawn.samples(bits // 8).reshape(drawn.height, -1)
        rows = numpy.pad(rows, [(0, 0), (0, -rows.shape[1] % 4)])
        data = rows.tobytes()
    entries = b"".join(bytes(color[::-1]) + (b"" if header == 12 else b"\0") for color in palette)
    if header == 12:
        info = struct.pack("<IHHHH", 12, drawn.width, drawn.height, 1, bits)
    else:
        height = -drawn.height if top_down else drawn.height
        info = struct.pack("<IiiHHIIiiII", header, drawn.width, height, 1, bits, compression, len(data), 2835, 2835, colors, 0)
        if header > 40:
            info += b"".join(struct.pack("<I", mask) for mask in (*masks, 0, 0, 0, 0)[:4])
            info = info.ljust(header, b"\0")[:header]
    extra = b"".join(struct.pack("<I", mask) for mask in masks[:3]) if header == 40 else b""
    start = 14 + len(info) + len(extra) + len(entries) + gap
    return b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start) + info + extra + entries + bytes(gap) + data


def bmp_palette(drawn, bits):
    header = drawn.one_of(12, 40, 64, 124)
    count = 1 << bits if header == 12 else drawn.random.randint(2, 1 << bits)
    palette = [tuple(color) for color in drawn.numbers.integers(0, 256, (count, 3)).tolist()]
    if drawn.one_of(True, False, False):
        count = 1 << bits
        palette = [(value * 255 // (count - 1),) * 3 for value in range(count)]
        drawn.random.shuffle(palette) if bits == 4 else None
    return bmp(drawn, bits, header=header, palette=palette, colors=0 if header == 12 else count, gap=drawn.one_of(0, 5))


def bmp_fields(drawn):
    masks = drawn.one_of((0xFF0000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0), (0xFF000000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
                         (0xFF, 0xFF00, 0xFF0000, 0xFF000000), (0xFF0000, 0xFF00, 0xFF, 0xFF000000), (0xFF000000, 0xFF00, 0xFF, 0xFF0000), (0, 0, 0, 0))
    return bmp(drawn, 32, header=40 if masks[3] == 0 and drawn.one_of(True, False) else drawn.one_of(56, 108, 124), compression=3, masks=masks)


def bmp_16(drawn):
    masks = drawn.one_of((0xF800, 0x7E0, 0x1F), (0x7C00, 0x3E0, 0x1F))
    return bmp(drawn, 16, header=drawn.one_of(40, 52, 108), compression=3, masks=masks)


def bmp_runs(drawn, bits):
    """Runs, literal values, ends of lines and jumps, up to the end of the picture."""
    data, left = bytearray(), drawn.height
    while left:
        x = 0
        while x < drawn.width:
            count = drawn.random.randint(1, min(60, drawn.width - x))
            kind = drawn.random.randint(0, 3)
            values = drawn.random.randbytes((count + 1) // 2 if bits == 4 else count)
            if kind == 0 and count > 2:
                data += bytes([0, count]) + values
                if len(data) % 2:
                    data.append(0)
            elif kind == 1 and x + count < drawn.width:
                data += bytes([0, 2, count, 0])
            else:
                data += bytes([drawn.one_of(count, min(255, count + 3)) if x + count == drawn.width else count, drawn.random.randrange(256)])
            x += count
            if kind == 3:
                break
        data += b"\0\0"
        left -= 1
    palette = [tuple(color) for color in drawn.numbers.integers(0, 256, (1 << bits, 3)).tolist()]
    return bmp(drawn, bits, compression=1 if bits == 8 else 2, palette=palette, data=bytes(data) + b"\0\1", colors=1 << bits)


# ---- PNM


def pnm(drawn, kind):
    color, text = kind in (3, 6), kind <= 3
    largest = 1 if kind in (1, 4) else drawn.one_of(255, 255, 1, 7, 100, 256, 1000, 65535)
    values = drawn.samples(3 if color else 1, numpy.int64, 0, largest + 1)
    values = numpy.abs(values) % (largest + 1)
    if drawn.one_of(True, False):
        values = numpy.minimum(values, largest // 100)  # most values of more than 8 bits are clipped
    space = lambda: drawn.one_of(" ", "\n", "  ", "\t", "\r\n", " # words 12\n", "\n#1\r")
    head = f"P{kind}{drawn.one_of(' ', chr(10))}{drawn.one_of('', '# by hand' + chr(10))}{drawn.width}{space()}{drawn.height}"
    head += "" if kind in (1, 4) else f"{space()}{largest}"
    if text:
        glue = (lambda: drawn.one_of("", "", space())) if kind == 1 else space
        return (head + space() + "".join(f"{value}{glue()}" for value in values.flatten().tolist()) + "\n").encode()
    if kind == 4:
        return (head + "\n").encode() + packed_bits(values, 1).tobytes()
    return (head + drawn.one_of(" ", "\n", "\t")).encode() + values.astype(numpy.uint8 if largest < 256 else ">u2").tobytes()


# ---- TIFF


def tiff(drawn, samples, photometric, *, bits=None, extra=(), planar=1, sample_format=1, palette=None, big=None, fill_order=1, tags=()):
    """A TIFF written by hand, since Pillow does not write most of these: strips or tiles, plain or compressed."""
    order = big or drawn.one_of("<", ">")
    big_tiff = order == "<" and drawn.one_of(False, False, True)  # Pillow cannot read BigTIFF in the other order
    whole_bytes = bits is None
    bits = bits or samples.dtype.itemsize * 8
    compression = drawn.one_of(1, 1, 8, 32946, 32773)
    if planar == 2 and (bits == 16 or extra) and compression == 1:
        compression = 8  # uncompressed, Pillow reads the wrong bytes, or none
    if fill_order == 2 or (order == ">" and (sample_format == 3 or sample_format == 2)):
        compression = 1  # compressed, Pillow takes numbers for those of the other byte order
    tile = (drawn.one_of(16, 32), drawn.one_of(16, 48)) if drawn.one_of(True, False) else None
    if compression == 1 and tile and not whole_bytes:
        tile = None  # Pillow's own tiles consist of whole bytes
    rows = drawn.random.randint(1, drawn.height)
    height, width, count = samples.shape

    def encoded(part):
        if whole_bytes:
            data = part.astype(part.dtype.newbyteorder(order)).tobytes()
        else:
            data = packed_bits(part, bits, fill_order).tobytes()
        if compression == 32773:
            lines = [data[i : i + 128] for i in range(0, len(data), 128)]
            return b"".join(bytes([len(line) - 1]) + line for line in lines)
        return zlib.compress(data) if compression in (8, 32946) else data

    parts = []
    for plane in [samples] if planar == 1 else [samples[..., i : i + 1] for i in range(count)]:
        if tile:
            padded = numpy.pad(plane, [(0, -height % tile[1]), (0, -width % tile[0]), (0, 0)])
            parts += [encoded(padded[y : y + tile[1], x : x + tile[0]]) for y in range(0, height, tile[1]) for x in range(0, width, tile[0])]
        else:
            parts += [encoded(plane[y : y + rows]) for y in range(0, height, rows)]
    head = (b"II" if order == "<" else b"MM") + (struct.pack(order + "HHHQ", 43, 8, 0, 16) if big_tiff else struct.pack(order + "HI", 42, 8))
    entries = {256: (4, [width]), 257: (4, [height]), 258: (3, [bits] * count), 259: (3, [compression]), 262: (3, [photometric]), 266: (3, [fill_order]),
               277: (3, [count]), 284: (3, [planar]), 339: (3, [sample_format] * count)}
    if extra:
        entries[338] = (3, list(extra))
    if palette is not None:
        entries[320] = (3, palette.T.flatten().tolist())
    if tile:
        entries |= {322: (3, [tile[0]]), 323: (3, [tile[1]])}
    else:
        entries[278] = (4, [rows])
    entries |= dict(tags)
    where, sizes = (324, 325) if tile else (273, 279)
    entries[where], entries[sizes] = (4, [0] * len(parts)), (4, [len(part) for part in parts])

    form, inline = ("HHQ", 8) if big_tiff else ("HHI", 4)
    directory = (8 if big_tiff else 2) + len(entries) * (20 if big_tiff else 12) + inline
    start = len(head) + directory
    text = lambda kind, values: struct.pack(order + f"{len(values)}{'H' if kind == 3 else 'I' if kind == 4 else 'B'}", *values)
    long_values = {name: text(*entry) for name, entry in sorted(entries.items()) if len(text(*entry)) > inline}
    places, behind = {}, b""
    for name, value in long_values.items():
        places[name] = start + len(behind)
        behind += value + bytes(len(value) % 2)
    offset, offsets = start + len(behind), []
    for part in parts:
        offsets.append(offset)
        offset += len(part)
    entries[where] = (4, offsets)
    if where in places:
        at = places[where] - start
        value = text(4, offsets)
        behind = behind[:at] + value + behind[at + len(value) :]
    written = struct.pack(order + ("Q" if big_tiff else "H"), len(entries))
    for name, (kind, values) in sorted(entries.items()):
        written += struct.pack(order + form, name, kind, len(values))
        if name in places:
            written += struct.pack(order + ("Q" if big_tiff else "I"), places[name])
        else:
            written += text(kind, values).ljust(inline, b"\0")
    return head + written + bytes(inline) + behind + b"".join(parts)


def tiff_gray_bits(drawn):
    bits = drawn.one_of(1, 2, 4)
    return tiff(drawn, drawn.samples(1, high=1 << bits), drawn.one_of(0, 1), bits=bits, fill_order=drawn.one_of(1, 1, 2))


def tiff_palette(drawn):
    bits = drawn.one_of(1, 2, 4, 8)
    palette = drawn.numbers.integers(0, 65536, (1 << bits, 3))
    return tiff(drawn, drawn.samples(1, high=1 << bits), 3, bits=None if bits == 8 else bits, palette=palette)


def tiff_palette_alpha(drawn):
    return tiff(drawn, drawn.samples(2), 3, extra=(drawn.one_of(0, 2),), palette=drawn.numbers.integers(0, 65536, (256, 3)))


def tiff_alpha(drawn, dtype):
    """Colors that alpha has multiplied are smaller than it."""
    extra = drawn.one_of(0, 1, 2)
    samples = drawn.samples(4, dtype)
    if drawn.one_of(True, False):
        samples[..., 3] = drawn.one_of(0, numpy.iinfo(dtype).max)
    return tiff(drawn, samples, 2, extra=(extra,), planar=drawn.one_of(1, 2) if extra != 1 else 1)


def tiff_extra(drawn):
    kind = drawn.one_of(0, 1, 2)
    more = drawn.one_of(1, 2)
    return tiff(drawn, drawn.samples(4 + more), 2, extra=(kind,) + (0,) * more)


def tiff_cmyk(drawn):
    if drawn.one_of(True, False):
        return tiff(drawn, drawn.samples(4), 5, planar=drawn.one_of(1, 2))
    return tiff(drawn, drawn.samples(4, numpy.uint16), 5)


def tiff_gray_16(drawn):
    values = drawn.samples(1, numpy.uint16)
    if drawn.one_of(True, False):
        values >>= 8
    return tiff(drawn, values, 1)


def tiff_gray_12(drawn):
    return tiff(drawn, drawn.samples(1, numpy.uint16, high=4096) >> drawn.one_of(0, 4), 1, bits=12, big="<")


def tiff_signed(drawn):
    dtype = drawn.one_of(numpy.int16, numpy.int32)
    return tiff(drawn, drawn.samples(1, dtype) // drawn.one_of(1, 1 << (numpy.iinfo(dtype).bits - 9)), 1, sample_format=2)


def tiff_float(drawn):
    values = (drawn.samples(1).astype(numpy.float32) * 1.3 - 30.7).astype(numpy.float32)
    return tiff(drawn, values, drawn.one_of(0, 1), sample_format=3)


def tiff_turned(drawn):
    turn = drawn.random.randint(1, 8)
    if drawn.one_of(True, False):
        return tiff(drawn, drawn.samples(3), 2, tags={274: (3, [turn])})
    xmp = f'<x tiff:Orientation="{turn}"/>'.encode()
    return tiff(drawn, drawn.samples(3), 2, tags={700: (1, list(xmp))})


def tiff_compressed(drawn, mode):
    names = {"1": ["group3", "group4", "tiff_ccitt", "tiff_lzw"], "YCbCr": ["jpeg", "tiff_lzw"], "RGB": ["jpeg", "zstd", "tiff_lzw", "lzma", "packbits"],
             "L": ["jpeg", "zstd", "tiff_lzw", "tiff_adobe_deflate"], "CMYK": ["jpeg", "tiff_lzw"], "P": ["tiff_lzw", "zstd"], "RGBA": ["zstd", "tiff_lzw"]}
    compression = drawn.one_of(*names[mode])
    image = drawn.image(mode)
    options = {"tiffinfo": {317: 2}} if compression in ("tiff_lzw", "zstd") and mode in ("RGB", "L", "RGBA") and drawn.one_of(True, False) else {}
    return saved(image, format="TIFF", compression=compression, **options)


def tiff_pages(drawn):
    return saved(drawn.image("RGB"), format="TIFF", save_all=True, append_images=[Image.new("L", (3, 5))], compression=drawn.one_of(None, "tiff_lzw"))


# ---- WebP


def webp_animation(drawn):
    frames = [drawn.image("RGBA"), Image.new("RGBA", (drawn.width, drawn.height), (1, 2, 3, 4))]
    if drawn.one_of(True, False):  # the first frame does not fill the picture
        frames[0].paste((0, 0, 0, 0), (0, 0, drawn.width // 2, drawn.height))
    return saved(frames[0], format="WEBP", save_all=True, append_images=frames[1:], lossless=drawn.one_of(True, False), minimize_size=True)


KINDS = {
    "jpeg.jpg": lambda d: saved(d.image(d.one_of("RGB", "L", "CMYK")), format="JPEG", quality=d.random.randint(30, 100), progressive=d.one_of(True, False)),
    "png.png": lambda d: saved(d.image(d.one_of("RGB", "L", "RGBA", "LA", "P", "1")), format="PNG"),
    "bmp_pillow.bmp": lambda d: saved(d.image(d.one_of("RGB", "L", "P", "1", "RGBA")), format="BMP"),
    "bmp_1.bmp": lambda d: bmp_palette(d, 1),
    "bmp_4.bmp": lambda d: bmp_palette(d, 4),
    "bmp_8.bmp": lambda d: bmp_palette(d, 8),
    "bmp_16.bmp": lambda d: bmp(d, 16, header=d.one_of(12, 40, 124)),
    "bmp_16_fields.bmp": bmp_16,
    "bmp_24.bmp": lambda d: bmp(d, 24, header=d.one_of(12, 40, 64, 108), gap=d.one_of(0, 3)),
    "bmp_32.bmp": lambda d: bmp(d, 32, header=d.one_of(40, 56, 124)),
    "bmp_32_fields.bmp": bmp_fields,
    "bmp_runs_4.bmp": lambda d: bmp_runs(d, 4),
    "bmp_runs_8.bmp": lambda d: bmp_runs(d, 8),
    **{f"pnm_{kind}.{'pgm' if kind in (2, 5) else 'ppm'}": lambda d, kind=kind: pnm(d, kind) for kind in range(1, 7)},
    "webp_lossy.webp": lambda d: saved(d.image("RGB"), format="WEBP", quality=d.random.randint(1, 100)),
    "webp_lossless.webp": lambda d: saved(d.image("RGB"), format="WEBP", lossless=True),
    "webp_alpha.webp": lambda d: saved(d.image("RGBA"), format="WEBP", lossless=d.one_of(True, False), exact=d.one_of(True, False)),
    "webp_animated.webp": webp_animation,
    "tiff_gray_bits.tif": tiff_gray_bits,
    "tiff_gray.tif": lambda d: tiff(d, d.samples(1), d.one_of(0, 1)),
    "tiff_gray_alpha.tif": lambda d: tiff(d, d.samples(2), 1, extra=(d.one_of(0, 2),)),
    "tiff_gray_12.tif": tiff_gray_12,
    "tiff_gray_16.tif": tiff_gray_16,
    "tiff_gray_16_white.tif": lambda d: tiff(d, d.samples(1, numpy.uint16) >> 8, 0, big="<"),
    "tiff_gray_signed.tif": tiff_signed,
    "tiff_gray_32.tif": lambda d: tiff(d, d.samples(1, numpy.uint32) >> d.one_of(0, 23), 1, big="<"),
    "tiff_float.tif": tiff_float,
    "tiff_palette.tiff": tiff_palette,
    "tiff_palette_alpha.tiff": tiff_palette_alpha,
    "tiff_rgb.tif": lambda d: tiff(d, d.samples(3), 2, planar=d.one_of(1, 2)),
    "tiff_rgb_16.tif": lambda d: tiff(d, d.samples(3, numpy.uint16), 2, planar=d.one_of(1, 2)),
    "tiff_rgb_alpha.tif": lambda d: tiff_alpha(d, numpy.uint8),
    "tiff_rgb_alpha_16.tif": lambda d: tiff_alpha(d, numpy.uint16),
    "tiff_rgb_extra.tif": tiff_extra,
    "tiff_cmyk.tif": tiff_cmyk,
    "tiff_turned.tif": tiff_turned,
    "tiff_pages.tif": tiff_pages,
    **{f"tiff_pillow_{mode}.tif": lambda d, mode=mode: tiff_compressed(d, mode) for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr")},
}


def main():
    folder, seed = Path(sys.argv[1]), sys.argv[2]
    names = list(KINDS)
    for i in range(PICTURES):
        kind, extension = names[i % len(names)].split(".")
        path = folder / "images" / kind / f"{i:03}.{extension}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(KINDS[names[i % len(names)]](Drawn(f"{seed} {i}")))
    gray = ImageFolder(folder / "images", loader=lambda path: Image.open(path).convert("L"))
    for name, pictures in (("rgb", ImageFolder(folder / "images")), ("gray", gray)):
        for i, (path, _) in enumerate(pictures.samples):
            to = folder / name / Path(path).relative_to(folder / "images")
            to.parent.mkdir(parents=True, exist_ok=True)
            try:
                to.write_bytes(pictures[i][0].tobytes())
            except Exception as error:
                raise RuntimeError(f"Pillow does not read {path}: {error}") from error


if __name__ == "__main__":
    main()
