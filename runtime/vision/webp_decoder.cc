#include "runtime/vision/image_decoder.h"

#ifdef MUSTER_WEBP

#include <algorithm>
#include <webp/decode.h>
#include <webp/demux.h>

#include "runtime/data/datasets/number_at.h"

namespace muster {

namespace {

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

// Decodes the first frame of an animation. If the canvas is larger than the frame, the area around the frame
// is black, as in Pillow.
class WebpDecoder : public RgbDecoder {
 protected:
  Expected<ImageShape> open_rgb(std::span<const std::uint8_t> bytes) override {
    const WebPData data{.bytes = bytes.data(), .size = bytes.size()};
    demuxer_.reset(WebPDemux(&data));
    // The header of a RIFF file has a size. It does not include the first 8 bytes of the file.
    if (!demuxer_ && bytes.size() - 8 < number_at<std::uint32_t>(bytes, 4)) return ends_early();
    if (!demuxer_) return failure(ErrorCode::kCorrupt, "WebP: its structure is damaged");
    auto shape = checked_shape({.channels = 3,
                                .height = WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_HEIGHT),
                                .width = WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_WIDTH)});
    if (shape) shape_ = *shape;
    return shape;
  }

  Status read_rgb(std::uint8_t* rgb) override {
    WebPIterator frame;
    if (WebPDemuxGetFrame(demuxer_.get(), 1, &frame) == 0)
      return failure(ErrorCode::kCorrupt, "WebP: it contains no picture");
    const VP8StatusCode status = decode(frame, rgb);
    WebPDemuxReleaseIterator(&frame);
    if (status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED) return ends_early();
    if (status == VP8_STATUS_OUT_OF_MEMORY) return failure(ErrorCode::kInternal, "libwebp ran out of memory");
    if (status != VP8_STATUS_OK)
      return failure(ErrorCode::kCorrupt, "WebP: the picture is damaged (libwebp's status {})",
                     static_cast<int>(status));
    return {};
  }

 private:
  VP8StatusCode decode(const WebPIterator& frame, std::uint8_t* rgb) const {
    const bool covers = frame.width == shape_.width && frame.height == shape_.height;
    const std::int64_t right = std::int64_t{frame.x_offset} + frame.width,
                       bottom = std::int64_t{frame.y_offset} + frame.height;
    if (right > shape_.width || bottom > shape_.height) return VP8_STATUS_BITSTREAM_ERROR;
    if (!covers) std::fill_n(rgb, shape_.bytes(), std::uint8_t{0});
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0) return VP8_STATUS_INVALID_PARAM;
    const std::int64_t before = 3 * (frame.y_offset * shape_.width + frame.x_offset);
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {.rgba = rgb + before,
                            .stride = static_cast<int>(3 * shape_.width),
                            .size = shape_.bytes() - static_cast<std::size_t>(before)};
    return WebPDecode(frame.fragment.bytes, frame.fragment.size, &config);
  }

  std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer_;
  ImageShape shape_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_webp_decoder() {
  return std::make_unique<WebpDecoder>();
}

}  // namespace muster

#else

namespace muster {

std::unique_ptr<ImageDecoder> make_webp_decoder() {
  return nullptr;
}

}  // namespace muster

#endif
