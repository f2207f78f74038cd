#pragma once

#include <cstdint>
#include <string>

#include "common/byte_io.h"
#include "docofl/tensor.h"

// Fields that the payloads of both coders have.
namespace docofl {

constexpr std::uint8_t kCoderHuffman = 0;
constexpr std::uint8_t kCoderRans = 1;

// Frames with rANS, with levels displaced from the centres of their bins, or with several code
// tables.
constexpr std::uint8_t kSecondVersion = 2;

// Throws Error(kCorruptFrame).
[[noreturn]] void corrupt_ecuq(const std::string& message);

// `value`, just read, if it is within bounds; otherwise throws.
std::uint32_t read_bounded(ByteReader* reader, const char* field, std::uint32_t value,
                           std::uint32_t low, std::uint32_t high);

float read_finite(ByteReader* reader, const char* field);

// The least magnitude that rounds to an infinity of the dtype.
float overflow_of(DType dtype);

// The largest number of the dtype, or of float32 if that is less.
float largest_of(DType dtype);

}  // namespace docofl
