#include "base/slab_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace ringkeep {
namespace {

constexpr size_t kMiB = 1 << 20;

struct Piece {
  std::byte* data;
  size_t bytes;
  std::byte mark;
};

bool all(const Piece& piece, std::byte value) {
  return std::all_of(piece.data, piece.data + piece.bytes,
                     [&](std::byte byte) { return byte == value; });
}

size_t resident_pages(const std::byte* data, size_t bytes) {
  std::vector<unsigned char> pages((bytes + 4095) / 4096);
  if (::mincore(const_cast<std::byte*>(data), bytes, pages.data()) != 0) return 0;
  return static_cast<size_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

TEST(SlabMemory, IsZeroAndNobodyElses) {
  SlabMemory memory;
  std::mt19937 random(1);
  std::vector<Piece> pieces;
  for (int i = 0; i < 400; ++i) {
    if (pieces.size() > 20 || (!pieces.empty() && random() % 3 == 0)) {
      const size_t which = random() % pieces.size();
      ASSERT_TRUE(all(pieces[which], pieces[which].mark)) << "written by another";
      memory.free(pieces[which].data, pieces[which].bytes);
      pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(which));
    }
    const size_t most = i % 40 == 0 ? 40 * kMiB : 3 * kMiB;  // some lie alone
    Piece piece{nullptr, 1 + random() % most, static_cast<std::byte>(1 + i % 255)};
    piece.data = *memory.allocate(piece.bytes);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(piece.data) % 4096, 0u);
    ASSERT_TRUE(all(piece, std::byte{0}));
    std::memset(piece.data, static_cast<int>(piece.mark), piece.bytes);
    pieces.push_back(piece);
  }
  for (const Piece& piece : pieces) memory.free(piece.data, piece.bytes);
}

TEST(SlabMemory, LiesSideBySide) {
  SlabMemory memory;
  std::byte* first = *memory.allocate(100000);
  std::byte* second = *memory.allocate(kMiB);
  EXPECT_EQ(second - first, 25 * 4096);
  memory.free(first, 100000);
  memory.free(second, kMiB);
}

TEST(SlabMemory, GivesBackWhatIsFreed) {
  SlabMemory memory;
  constexpr size_t kBytes = 8 * kMiB;
  std::byte* kept = *memory.allocate(kBytes);
  std::byte* freed = *memory.allocate(kBytes);
  std::memset(kept, 1, kBytes);
  std::memset(freed, 1, kBytes);
  ASSERT_EQ(resident_pages(freed, kBytes), kBytes / 4096);
  memory.free(freed, kBytes);
  EXPECT_EQ(resident_pages(freed, kBytes), 0u);
  EXPECT_EQ(resident_pages(kept, kBytes), kBytes / 4096);
  memory.free(kept, kBytes);
}

TEST(SlabMemory, TakesNoMoreThanWhatIsThere) {
  SlabMemory memory;
  constexpr size_t kBytes = 25 * 4096;
  std::byte* data = *memory.allocate(kBytes);
  std::memset(data, 1, kBytes);
  EXPECT_EQ(resident_pages(data, kBytes), 25u);
  EXPECT_EQ(resident_pages(data + kBytes, kMiB), 0u);  // not yet handed out
  memory.free(data, kBytes);
}

TEST(SlabMemory, RefusesWhatCannotBeMapped) {
  SlabMemory memory;
  const auto refused = memory.allocate(size_t{1} << 60);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("cannot allocate"), std::string::npos);
}

}  // namespace
}  // namespace ringkeep
