#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "docofl/tensor.h"

namespace docofl {

// Puts pieces that are made in any order, by several threads, one after the other into a room.
// Pieces that do not fit are counted, not written; without a room, none is.
class OrderedWriter {
 public:
  explicit OrderedWriter(MutableByteView room) : room_(room) {}

  // Every number from 0 on must come once. `gap` bytes before the piece are left as they are.
  void put(std::size_t number, ByteView bytes, std::size_t gap = 0) {
    if (room_.data == nullptr) return;
    std::unique_lock lock(mutex_);
    if (number != next_) {
      waiting_[number] = {gap, {bytes.data, bytes.data + bytes.size}};
      return;
    }
    // Places are taken one at a time, but filled side by side.
    const std::size_t place = take_place(gap, bytes.size);
    std::vector<std::pair<std::size_t, std::vector<std::uint8_t>>> following;
    for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_;
         first = waiting_.begin()) {
      Piece& piece = first->second;
      const std::size_t its_place = take_place(piece.gap, piece.bytes.size());
      following.emplace_back(its_place, std::move(piece.bytes));
      waiting_.erase(first);
    }
    lock.unlock();
    write(place, bytes);
    for (const auto& [its_place, piece] : following) write(its_place, {piece.data(), piece.size()});
  }

  // Whether all pieces are in the room.
  bool is_complete() const { return room_.data != nullptr && used_ <= room_.size; }

 private:
  struct Piece {
    std::size_t gap;
    std::vector<std::uint8_t> bytes;
  };

  std::size_t take_place(std::size_t gap, std::size_t size) {
    const std::size_t place = used_ + gap;
    used_ = place + size;
    ++next_;
    return place;
  }

  void write(std::size_t place, ByteView bytes) const {
    if (place > room_.size || bytes.size > room_.size - place || bytes.size == 0) return;
    // SAFETY: the lines above; nobody else has this place.
    std::memcpy(room_.data + place, bytes.data, bytes.size);
  }

  MutableByteView room_;
  std::mutex mutex_;
  std::size_t next_ = 0;
  std::size_t used_ = 0;
  std::map<std::size_t, Piece> waiting_;
};

}  // namespace docofl
