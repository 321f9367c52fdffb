#include <algorithm>
#include <cmath>
#include <cstdio>  // jpeglib.h needs it
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <jpeglib.h>
#include <random>

#include "bench/formats/run.h"
#include "common/base/check.h"

namespace muster::bench {

namespace {

namespace fs = std::filesystem;

constexpr int kSide = 224;
constexpr std::int64_t kPictures = 64, kPicturesOfArchive = 256;  // generated, and written into each archive
constexpr std::int64_t kSampleBytes = 17 << 10;

using Random = std::mt19937_64;
using Plane = std::vector<float>;

// ---- Pictures

// Adds noise of one detail size: random values on a coarse grid, interpolated between grid points.
void add_detail(Random& random, int size, float weight, Plane& to) {
  const int points = kSide / size + 2;
  std::normal_distribution<float> normal;
  std::vector<float> grid(static_cast<std::size_t>(points * points));
  for (float& value : grid) value = weight * normal(random);
  for (int y = 0; y < kSide; ++y)
    for (int x = 0; x < kSide; ++x) {
      const float* at = grid.data() + y / size * points + x / size;
      const auto right = static_cast<float>(x % size) / static_cast<float>(size),
                 down = static_cast<float>(y % size) / static_cast<float>(size);
      to[static_cast<std::size_t>(y * kSide + x)] +=
          (1 - down) * ((1 - right) * at[0] + right * at[1]) +
          down * ((1 - right) * at[points] + right * at[points + 1]);
    }
}

// As in photographs, finer detail is weaker. The mean is 0 and the variance 1.
Plane natural_noise(Random& random) {
  Plane plane(kSide * kSide);
  for (int size = 64; size > 0; size /= 2)
    add_detail(random, size, std::pow(static_cast<float>(size), 0.6F), plane);
  double sum = 0, squares = 0;
  for (const float value : plane) sum += value, squares += value * value;
  const double mean = sum / static_cast<double>(plane.size());
  const double deviation = std::sqrt(squares / static_cast<double>(plane.size()) - mean * mean);
  for (float& value : plane) value = static_cast<float>((value - mean) / deviation);
  return plane;
}

std::vector<std::uint8_t> picture(Random& random) {
  const Plane light = natural_noise(random), warm = natural_noise(random), blue = natural_noise(random);
  std::vector<std::uint8_t> pixels;
  const auto put = [&](float value) {
    pixels.push_back(static_cast<std::uint8_t>(std::clamp(128 + value, 0.0F, 255.0F)));
  };
  for (std::size_t i = 0; i < light.size(); ++i) {
    put(45 * light[i] + 20 * warm[i]);
    put(45 * light[i] - 10 * warm[i] - 8 * blue[i]);
    put(45 * light[i] + 20 * blue[i]);
  }
  return pixels;
}

std::string jpeg_of(std::vector<std::uint8_t> pixels) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = info.image_height = kSide;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 90, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + std::size_t{3} * kSide * info.next_scanline;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);
  return file;
}

// ---- Archives

void add_file(std::ofstream& archive, const std::string& name, const std::string& contents) {
  constexpr std::size_t kBlock = 512;
  std::string header(kBlock, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  put(0, name);
  put(100, "0000644");
  put(124, fmt::format("{:011o}", contents.size()));
  put(148, "        0");  // the checksum counts as spaces; the type is a file
  put(257, "ustar");
  put(263, "00");
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum) + '\0');
  archive << header << contents << std::string((kBlock - contents.size() % kBlock) % kBlock, '\0');
}

void end_archive(std::ofstream& archive) {
  archive << std::string(1024, '\0');
  archive.close();
  CHECK(archive.good(), "cannot write an archive");
}

std::string random_bytes(Random& random, std::int64_t count) {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t drawn = random();
    std::memcpy(bytes.data() + i, &drawn, 8);
  }
  return bytes;
}

std::string archive_name(const std::string& folder, std::int64_t number) {
  return fmt::format("{}/{:03}.tar", folder, number);
}

// Writes samples of a file and a class; `contents` returns file number i of an archive.
void make_archives(const std::string& folder, const std::string& part, std::int64_t count,
                   const std::function<std::string(std::int64_t)>& contents) {
  for (std::int64_t number = 0; number < kArchives; ++number) {
    std::ofstream archive(archive_name(folder, number), std::ios::binary);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string key = fmt::format("{:06}", number * count + i);
      add_file(archive, key + "." + part, contents(i));
      add_file(archive, key + ".cls", std::to_string(i % 1000));
    }
    end_archive(archive);
  }
}

void make_jpegs(const std::string& folder) {
  Random random(1);
  std::vector<std::string> files;
  for (std::int64_t i = 0; i < kPictures; ++i) files.push_back(jpeg_of(picture(random)));
  make_archives(folder, "jpg", kPicturesOfArchive,
                [&](std::int64_t i) { return files[static_cast<std::size_t>(i % kPictures)]; });
}

void make_samples(const std::string& folder) {
  Random random(1);
  make_archives(folder, "bin", kSamples, [&](std::int64_t) { return random_bytes(random, kSampleBytes); });
}

void make_members(const std::string& folder) {
  Random random(1);
  std::ofstream archive(archive_name(folder, 0), std::ios::binary);
  for (std::int64_t i = 0; i < kMembers; ++i)
    add_file(archive, fmt::format("{:06}.bin", i), random_bytes(random, 1 << 20));
  end_archive(archive);
}

// ---- Tokens

constexpr std::int64_t kTokens = std::int64_t{32} << 20, kDocuments = 1 << 15;

void make_npy(const std::string& folder) {
  Random random(1);
  std::string header = fmt::format("{{'descr': '<u2', 'fortran_order': False, 'shape': ({},), }}", kTokens);
  header.resize(128 - 10 - 1, ' ');
  std::ofstream(tokens_in(folder) + ".npy", std::ios::binary)
      << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(header.size() + 1) << '\0' << header << '\n'
      << random_bytes(random, kTokens * 2);
}

template <class Number>
void put(std::ofstream& file, Number number) {
  file.write(reinterpret_cast<const char*>(&number), sizeof number);
}

// All documents have the same length.
void make_megatron(const std::string& folder) {
  Random random(1);
  std::ofstream(tokens_in(folder) + ".bin", std::ios::binary) << random_bytes(random, kTokens * 2);
  std::ofstream index(tokens_in(folder) + ".idx", std::ios::binary);
  index.write("MMIDIDX\0\0", 9);
  put<std::uint64_t>(index, 1);  // the version
  put<std::uint8_t>(index, 8);   // uint16
  put<std::uint64_t>(index, kDocuments);
  put<std::uint64_t>(index, kDocuments + 1);
  constexpr std::int64_t kLength = kTokens / kDocuments;
  for (std::int64_t i = 0; i < kDocuments; ++i) put<std::int32_t>(index, kLength);
  for (std::int64_t i = 0; i < kDocuments; ++i) put<std::int64_t>(index, i * kLength * 2);
  for (std::int64_t i = 0; i <= kDocuments; ++i) put<std::int64_t>(index, i);
}

}  // namespace

std::vector<std::string> archives_in(const std::string& folder) {
  std::vector<std::string> archives;
  for (const auto& each : fs::directory_iterator(folder)) archives.push_back(each.path());
  std::ranges::sort(archives);
  return archives;
}

std::string tokens_in(const std::string& folder) {
  return folder + "/tokens";
}

void make_data(const std::string& name, const std::string& folder) {
  const std::map<std::string, void (*)(const std::string&)> makers = {{"jpegs", make_jpegs},
                                                                      {"samples", make_samples},
                                                                      {"members", make_members},
                                                                      {"npy", make_npy},
                                                                      {"megatron", make_megatron}};
  CHECK(makers.contains(name), "unknown case {}", name);
  makers.at(name)(folder);
}

}  // namespace muster::bench
