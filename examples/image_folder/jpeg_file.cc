#include "examples/image_folder/jpeg_file.h"

#include <cerrno>
#include <cstdio>  // jpeglib.h needs it
#include <cstring>
#include <jpeglib.h>
#include <memory>
#include <stdexcept>

void write_jpeg(const std::string& path, const Picture& picture, int quality) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (!file) throw std::runtime_error("cannot create " + path + ": " + std::strerror(errno));
  jpeg_error_mgr errors{};
  jpeg_compress_struct info{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file.get());
  info.image_width = static_cast<JDIMENSION>(picture.width);
  info.image_height = static_cast<JDIMENSION>(picture.height);
  info.input_components = picture.channels;
  info.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    const std::size_t row_bytes =
        static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.channels);
    // libjpeg only reads the row.
    JSAMPROW row = const_cast<JSAMPROW>(picture.pixels + info.next_scanline * row_bytes);  // NOLINT
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
}
