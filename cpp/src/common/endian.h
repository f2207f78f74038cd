#pragma once

#include <cstdint>
#include <cstring>

// Little-endian loads and stores at any alignment.
namespace docofl {

template <class T>
inline T byteswap(T value) {
  unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  for (std::size_t i = 0; i < sizeof(T) / 2; ++i) {
    const unsigned char b = bytes[i];
    bytes[i] = bytes[sizeof(T) - 1 - i];
    bytes[sizeof(T) - 1 - i] = b;
  }
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
constexpr bool kBigEndian = true;
#else
constexpr bool kBigEndian = false;
#endif

template <class T>
inline T load_le(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return kBigEndian ? byteswap(value) : value;
}

template <class T>
inline void store_le(void* to, T value) {
  if (kBigEndian) value = byteswap(value);
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace docofl
