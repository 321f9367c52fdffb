// Writes pictures as JPEG files.
//
// For a command-line tool: an error in libjpeg prints its message and ends the process.
#pragma once

#include <cstdint>
#include <string>

struct Picture {
  const std::uint8_t* pixels = nullptr;  // row by row, the channels of a pixel side by side
  int channels = 1;                      // or 3
  int height = 0;
  int width = 0;
};

// std::runtime_error names a file that cannot be written.
void write_jpeg(const std::string& path, const Picture& picture, int quality);
