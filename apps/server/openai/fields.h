// The fields of a request, declared once and visited twice: read from JSON, and described for
// /openapi.json. So the description cannot differ from what the server does.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/openai/api_error.h"
#include "server/openai/json.h"

namespace ringkeep::openai {

class Fields {
 public:
  virtual ~Fields() = default;
  // The field's name, then aliases of other programs.
  using Names = std::vector<std::string>;

  // Each of these leaves `value` as it is where the field is absent or null.
  virtual void number(const Names& names, float& value, double least, double most,
                      const char* doc) = 0;
  virtual void integer(const Names& names, int64_t& value, int64_t least, int64_t most,
                       const char* doc) = 0;
  virtual void boolean(const Names& names, bool& value, const char* doc) = 0;
  virtual void text(const Names& names, std::string& value, const char* doc) = 0;
  // A value of another shape: its schema, and what reads it (and may call fail()).
  virtual void other(const Names& names, const Json& schema,
                     const std::function<void(const Json&)>& read, const char* doc) = 0;
  virtual void required(const std::string& name) = 0;
  // A field that changes nothing here, whatever it says.
  virtual void without_effect(const Names& names) = 0;
  // A field whose only value here is the one that switches it off. `why` ends "NAME ...".
  virtual void only(const std::string& name, const std::vector<Json>& allowed, const char* why) = 0;
  // A field that is refused by name unless it is null.
  virtual void refused(const Names& names, const char* why) = 0;

  // The value of `param` is wrong. The first one counts.
  virtual void fail(const std::string& param, const std::string& message,
                    const std::string& code = "invalid_value") = 0;
};

class FieldReader : public Fields {
 public:
  // `object` must outlive the reader.
  FieldReader(const Json& object, std::string path = "");

  void number(const Names&, float&, double, double, const char*) override;
  void integer(const Names&, int64_t&, int64_t, int64_t, const char*) override;
  void boolean(const Names&, bool&, const char*) override;
  void text(const Names&, std::string&, const char*) override;
  void other(const Names&, const Json&, const std::function<void(const Json&)>&,
             const char*) override;
  void required(const std::string& name) override;
  void without_effect(const Names& names) override;
  void only(const std::string& name, const std::vector<Json>& allowed, const char* why) override;
  void refused(const Names& names, const char* why) override;
  void fail(const std::string& param, const std::string& message,
            const std::string& code = "invalid_value") override;

  // The first error; fields that nobody asked for are one. Call it last.
  std::optional<ApiError> finish();

 private:
  // The non-null value of a field under one of its names, whichever is there.
  const Json* find(const Names& names, std::string& name);

  const Json& object_;
  const std::string path_;
  std::set<std::string> known_;
  std::optional<ApiError> error_;
};

class FieldSchema : public Fields {
 public:
  void number(const Names&, float&, double, double, const char*) override;
  void integer(const Names&, int64_t&, int64_t, int64_t, const char*) override;
  void boolean(const Names&, bool&, const char*) override;
  void text(const Names&, std::string&, const char*) override;
  void other(const Names&, const Json&, const std::function<void(const Json&)>&,
             const char*) override;
  void required(const std::string& name) override;
  void without_effect(const Names& names) override;
  void only(const std::string& name, const std::vector<Json>& allowed, const char* why) override;
  void refused(const Names&, const char*) override {}
  void fail(const std::string&, const std::string&, const std::string&) override {}

  Json schema() const;  // of the object

 private:
  void add(const Names& names, Json schema, const std::string& doc);

  Json properties_ = Json::object();
  Json required_ = Json::array();
};

// The non-null value `value` as a whole number in [least, most]; 5.0 is one. Nothing otherwise.
std::optional<int64_t> whole_number(const Json& value, int64_t least, int64_t most);

}  // namespace ringkeep::openai
