#include "kv/caps.h"

#include "base/check.h"

namespace ringkeep::kv {
namespace {

constexpr int kClasses = 8;
constexpr int kFeatures = 8;

constexpr const char* kYes = "";
constexpr const char* kNoRecurrent =
    "layers with a running state (state-space, linear attention, convolution) are not supported "
    "yet";
constexpr const char* kNoLatent =
    "compressed latent rows (multi-head latent attention) are not supported yet";
constexpr const char* kNoFeedForward = "layers without attention are not supported yet";
constexpr const char* kNoRows = "its state is one running value without key-value rows to encode";
constexpr const char* kNoBatch = "a running state cannot be held for several sequences yet";
constexpr const char* kNoRollback = "a running state cannot be taken back to an earlier token";
constexpr const char* kNoShare = "it has no key-value rows that another layer could read";
constexpr const char* kNoReuse = "a running state cannot be kept for another sequence yet";
constexpr const char* kNoFile = "a running state cannot be saved to a file yet";
constexpr const char* kNoSpan = "rows that see ahead inside an image are not defined across blocks";

struct Row {
  CacheClass cache;
  const char* name;
  const char* reasons[kFeatures];  // by Feature; kYes: supported
};
constexpr Row kTable[kClasses] = {
    //                                  run  quantize batch rollback share reuse save images
    {CacheClass::full, "full", {kYes, kYes, kYes, kYes, kYes, kYes, kYes, kYes}},
    {CacheClass::bounded, "ring+keep", {kYes, kYes, kYes, kYes, kYes, kYes, kYes, kYes}},
    {CacheClass::ring, "ring", {kYes, kYes, kYes, kYes, kYes, kYes, kYes, kYes}},
    {CacheClass::chunked, "chunked", {kYes, kYes, kYes, kYes, kYes, kYes, kYes, kNoSpan}},
    // Its rows are its donor's: kept and saved with them.
    {CacheClass::shared, "shared", {kYes, kYes, kYes, kYes, kNoShare, kYes, kYes, kYes}},
    {CacheClass::recurrent,
     "recurrent",
     {kNoRecurrent, kNoRows, kNoBatch, kNoRollback, kNoShare, kNoReuse, kNoFile, kNoRecurrent}},
    {CacheClass::latent,
     "latent",
     {kNoLatent, kNoLatent, kNoLatent, kNoLatent, kNoLatent, kNoLatent, kNoLatent, kNoLatent}},
    {CacheClass::none, "none", {kNoFeedForward, kYes, kYes, kYes, kNoShare, kYes, kYes, kYes}},
};
constexpr const char* kFeatureNames[kFeatures] = {"run",   "quantize", "batch", "rollback",
                                                  "share", "reuse",    "save",  "images"};

const Row& row(CacheClass cache) {
  const auto& found = kTable[static_cast<size_t>(cache)];
  RK_CHECK(found.cache == cache);
  return found;
}

}  // namespace

const char* cache_class_name(CacheClass cache) { return row(cache).name; }

const char* feature_name(Feature feature) { return kFeatureNames[static_cast<size_t>(feature)]; }

std::string unsupported_reason(CacheClass cache, Feature feature) {
  return row(cache).reasons[static_cast<size_t>(feature)];
}

}  // namespace ringkeep::kv
