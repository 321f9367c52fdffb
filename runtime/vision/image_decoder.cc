#include "runtime/vision/image_decoder.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "runtime/data/datasets/file_kind.h"

namespace muster {

namespace {

using namespace std::string_view_literals;

struct ImageFormat {
  std::string_view magic;
  std::unique_ptr<ImageDecoder> (*make)();
  std::string_view without = {};  // the error if make() returns null
};
constexpr std::string_view kNoWebp =
    "it is a WebP file, and this Muster was built without libwebp (Debian: libwebp-dev)";
constexpr std::string_view kNoTiff =
    "it is a TIFF file, and this Muster was built without libtiff 4.5 or newer (Debian: libtiff-dev)";
constexpr ImageFormat kImageFormats[] = {
    {"\xff\xd8\xff"sv, make_jpeg_decoder},
    {"\x89PNG\r\n\x1a\n"sv, make_png_decoder},
    {"BM"sv, make_bmp_decoder},
    {"RIFF"sv, make_webp_decoder, kNoWebp},
    {"II*\0"sv, make_tiff_decoder, kNoTiff},
    {"MM\0*"sv, make_tiff_decoder, kNoTiff},
    {"II+\0"sv, make_tiff_decoder, kNoTiff},
    {"MM\0+"sv, make_tiff_decoder, kNoTiff},
    {"P1"sv, make_pnm_decoder},
    {"P2"sv, make_pnm_decoder},
    {"P3"sv, make_pnm_decoder},
    {"P4"sv, make_pnm_decoder},
    {"P5"sv, make_pnm_decoder},
    {"P6"sv, make_pnm_decoder},
};

// A kind of picture that Muster does not decode. Such a file has the bytes `magic` at offset `at`. `name` is
// the name of the kind, and `convert` is a command that converts such a picture.
struct OtherPicture {
  std::size_t at;
  std::string_view magic;
  std::string_view name;
  std::string_view convert;
};
constexpr OtherPicture kOtherPictures[] = {
    {0, "GIF87a"sv, "a GIF picture", "magick 'in.gif[0]' out.png"},
    {0, "GIF89a"sv, "a GIF picture", "magick 'in.gif[0]' out.png"},
    {4, "ftypavif"sv, "an AVIF picture", "avifdec in.avif out.png"},
    {4, "ftypavis"sv, "an AVIF picture", "avifdec in.avif out.png"},
    {4, "ftyphei"sv, "an HEIC picture", "heif-convert in.heic out.png"},
    {4, "ftyphev"sv, "an HEIC picture", "heif-convert in.heic out.png"},
    {4, "ftypmif1"sv, "an HEIF picture", "heif-convert in.heic out.png"},
    {4, "ftypmsf1"sv, "an HEIF picture", "heif-convert in.heic out.png"},
    {4, "ftyp"sv, "a video", "ffmpeg -i in.mp4 out-%05d.png"},
    {0, "\0\0\0\x0cjP  \r\n\x87\n"sv, "a JPEG 2000 picture", "opj_decompress -i in.jp2 -o out.png"},
    {0, "\xff\x4f\xff\x51"sv, "a JPEG 2000 picture", "opj_decompress -i in.j2k -o out.png"},
    {0, "\0\0\0\x0cJXL \r\n\x87\n"sv, "a JPEG XL picture", "djxl in.jxl out.png"},
    {0, "\xff\x0a"sv, "a JPEG XL picture", "djxl in.jxl out.png"},
    {0, "<svg"sv, "an SVG drawing", "rsvg-convert in.svg -o out.png"},
    {128, "DICM"sv, "a DICOM file", "dcm2img in.dcm out.png"},
    {0, "8BPS"sv, "a Photoshop picture", "magick 'in.psd[0]' out.png"},
    {0, "\x76\x2f\x31\x01"sv, "an OpenEXR picture", "magick in.exr out.png"},
    {0, "#?RADIANCE"sv, "a Radiance picture", "magick in.hdr out.png"},
    {0, "\0\0\1\0"sv, "a Windows icon", "magick in.ico out.png"},
    {0, "P7\n"sv, "a PAM picture", "pamtopnm in.pam > out.ppm"},
    {0, "Pf\n"sv, "a picture of floating-point numbers (PFM)", "magick in.pfm out.png"},
    {0, "PF\n"sv, "a picture of floating-point numbers (PFM)", "magick in.pfm out.png"},
    {0, "qoif"sv, "a QOI picture", "magick in.qoi out.png"},
    {0, "DDS "sv, "a DirectDraw surface", "magick in.dds out.png"},
    {0, "gimp xcf"sv, "a GIMP picture", "magick in.xcf out.png"},
    {0, "%PDF-"sv, "a PDF document", "pdftoppm -png in.pdf out"},
    {0, "\x1a\x45\xdf\xa3"sv, "a video", "ffmpeg -i in.webm out-%05d.png"},
};

std::string_view text_of_file(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_svg(std::string_view text) {
  return text.starts_with("<?xml") && text.substr(0, 1024).contains("<svg");
}

Error not_a_picture(std::span<const std::uint8_t> bytes) {
  const std::string_view text = text_of_file(bytes);
  const auto error = [](std::string reason) { return Error(ErrorCode::kCorrupt, std::move(reason)); };
  if (text.empty()) return error("the file is empty");
  const auto other = std::ranges::find_if(kOtherPictures, [text](const OtherPicture& each) {
    return text.size() >= each.at && text.substr(each.at).starts_with(each.magic);
  });
  if (other != std::end(kOtherPictures))
    return error(fmt::format("it is {}, which Muster does not read: convert it, for example with `{}`",
                             other->name, other->convert));
  if (is_svg(text))
    return error(
        "it is an SVG drawing, which Muster does not read: "
        "convert it, for example with `rsvg-convert in.svg -o out.png`");
  if (text.starts_with("version https://git-lfs"))
    return error("it is a Git LFS pointer, not the file itself: fetch the file with `git lfs pull`");
  if (const auto kind = file_kind(std::as_bytes(bytes), bytes.size()))
    return error("it is not a picture, but " + description_of(*kind));
  return error("its first bytes are not those of a JPEG, PNG, BMP, WebP, TIFF, PPM, PGM or PBM file");
}

bool is_webp(std::string_view text) {
  return text.size() >= 12 && text.substr(8, 4) == "WEBP";
}

}  // namespace

Expected<OpenedImage> open_image(std::span<const std::uint8_t> bytes, int channels) {
  thread_local std::array<std::unique_ptr<ImageDecoder>, std::size(kImageFormats)> decoders;
  const std::string_view text = text_of_file(bytes);
  const auto format = std::ranges::find_if(
      kImageFormats, [text](const ImageFormat& each) { return text.starts_with(each.magic); });
  if (format == std::end(kImageFormats) || (format->make == make_webp_decoder && !is_webp(text)))
    return std::unexpected(not_a_picture(bytes));
  // A format can have several magic numbers, and so several entries in kImageFormats. They all share one
  // decoder, so that its buffers are used again.
  const auto first = std::ranges::find(kImageFormats, format->make, &ImageFormat::make);
  auto& decoder = decoders[static_cast<std::size_t>(first - kImageFormats)];
  if (!decoder) decoder = format->make();
  if (!decoder) return failure(ErrorCode::kInvalidArgument, "{}", format->without);
  auto shape = decoder->open(bytes, channels);
  if (!shape) return std::unexpected(std::move(shape).error());
  return OpenedImage{.decoder = decoder.get(), .shape = *shape};
}

Expected<ImageShape> checked_shape(ImageShape shape) {
  if (shape.width <= 0 || shape.height <= 0)
    return failure(ErrorCode::kCorrupt, "it has no pixels: {} x {}", shape.width, shape.height);
  if (shape.height <= kLargestImagePixels / shape.width) return shape;
  return failure(ErrorCode::kCorrupt, "its {} x {} pixels are more than {}", shape.width, shape.height,
                 kLargestImagePixels);
}

Expected<ImageShape> RgbDecoder::open(std::span<const std::uint8_t> bytes, int channels) {
  auto shape = open_rgb(bytes);
  if (!shape) return shape;
  shape->channels = channels;
  return shape_ = *shape;
}

Status RgbDecoder::read(std::uint8_t* pixels) {
  if (shape_.channels == 3) return read_rgb(pixels);
  rgb_.resize(3 * shape_.bytes());
  if (Status status = read_rgb(rgb_.data()); !status) return status;
  for (std::size_t i = 0; i < shape_.bytes(); ++i) pixels[i] = luminance(&rgb_[3 * i]);
  return {};
}

}  // namespace muster
