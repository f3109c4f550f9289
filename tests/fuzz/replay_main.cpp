// Runs a fuzz target without libFuzzer: every file of a corpus folder, each cut short at some
// places, and then seeded mutations of them until the time or a number of runs is spent.
// usage: fuzz_NAME CORPUS_FOLDER [SECONDS] [SEED]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;
constexpr int64_t kMostRuns = 2'000'000;

void mutate(Bytes& bytes, std::mt19937_64& random) {
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  const size_t edits = 1 + below(4);
  for (size_t i = 0; i < edits && !bytes.empty(); ++i) {
    const size_t at = below(bytes.size());
    switch (below(6)) {
      case 0: bytes[at] = static_cast<uint8_t>(random()); break;
      case 1: bytes[at] ^= static_cast<uint8_t>(1u << below(8)); break;
      case 2: bytes[at] = below(2) != 0 ? 0xff : 0; break;
      case 3: bytes.resize(at); break;
      case 4:
        bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), bytes[below(bytes.size())]);
        break;
      default: {  // a block over another one: repeats keys, names and counts
        const size_t from = below(bytes.size());
        const size_t count = std::min({below(32) + 1, bytes.size() - at, bytes.size() - from});
        const Bytes block(bytes.begin() + static_cast<ptrdiff_t>(from),
                          bytes.begin() + static_cast<ptrdiff_t>(from + count));
        std::copy(block.begin(), block.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER [SECONDS] [SEED]\n", argv[0]);
    return 2;
  }
  const double seconds = argc > 2 ? std::atof(argv[2]) : 5.0;
  std::mt19937_64 random(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    if (entry.is_regular_file()) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> corpus;
  for (const auto& path : paths) {
    std::ifstream stream(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no files\n", argv[1]);
    return 1;
  }

  // Exact-size heap copies, so that a sanitizer sees a read past the end.
  const auto run = [](const Bytes& bytes) {
    const Bytes copy(bytes);
    LLVMFuzzerTestOneInput(copy.data(), copy.size());
  };
  for (const Bytes& bytes : corpus) run(bytes);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int64_t runs = 0;
  while (runs < kMostRuns && std::chrono::steady_clock::now() < end) {
    Bytes bytes = corpus[random() % corpus.size()];
    mutate(bytes, random);
    run(bytes);
    ++runs;
  }
  std::printf("%zu files, %lld mutations\n", corpus.size(), static_cast<long long>(runs));
  return 0;
}
