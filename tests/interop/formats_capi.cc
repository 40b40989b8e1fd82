// mpfa/formats.h behind a C ABI, so that Python can run whole arrays through it. For tests only.
#include <cstddef>
#include <cstdint>

#include "mpfa/formats.h"

// Every function converts `count` elements. Codes of four bits take one byte each.
extern "C" {

void mpfa_bf16_from_float(const float* x, uint16_t* code, size_t count) {
  for (size_t i = 0; i < count; ++i) code[i] = mpfa::bf16_from_float(x[i]).bits;
}
void mpfa_bf16_to_float(const uint16_t* code, float* x, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] = mpfa::bf16_to_float({code[i]});
}

void mpfa_fp16_from_float(const float* x, uint16_t* code, size_t count) {
  for (size_t i = 0; i < count; ++i) code[i] = mpfa::fp16_from_float(x[i]).bits;
}
void mpfa_fp16_to_float(const uint16_t* code, float* x, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] = mpfa::fp16_to_float({code[i]});
}

void mpfa_e4m3_from_float(const float* x, uint8_t* code, size_t count) {
  for (size_t i = 0; i < count; ++i) code[i] = mpfa::e4m3_from_float(x[i]).bits;
}
void mpfa_e4m3_to_float(const uint8_t* code, float* x, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] = mpfa::e4m3_to_float({code[i]});
}

void mpfa_e2m1_from_float(const float* x, uint8_t* code, size_t count) {
  for (size_t i = 0; i < count; ++i) code[i] = mpfa::e2m1_from_float(x[i]);
}
void mpfa_e2m1_to_float(const uint8_t* code, float* x, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] = mpfa::e2m1_to_float(code[i]);
}

// x [count, 16] to codes [count, 8] (packed) and scales [count]; search: 0 plain, 1 scale search.
void mpfa_nvfp4_quantize(const float* x, uint8_t* codes, uint8_t* scales, size_t count,
                         int search) {
  const mpfa::ScaleRule rule = search != 0 ? mpfa::ScaleRule::kSearch : mpfa::ScaleRule::kPlain;
  for (size_t b = 0; b < count; ++b) {
    float values[mpfa::kNvfp4BlockSize];
    for (int i = 0; i < mpfa::kNvfp4BlockSize; ++i) values[i] = x[b * mpfa::kNvfp4BlockSize + i];
    const mpfa::Nvfp4Block block = mpfa::nvfp4_quantize(values, rule);
    scales[b] = block.scale;
    for (int i = 0; i < mpfa::kNvfp4BlockSize / 2; ++i) {
      codes[b * (mpfa::kNvfp4BlockSize / 2) + i] = block.codes[i];
    }
  }
}

// codes [count, 8] and scales [count] to x [count, 16].
void mpfa_nvfp4_dequantize(const uint8_t* codes, const uint8_t* scales, float* x, size_t count) {
  for (size_t b = 0; b < count; ++b) {
    for (int i = 0; i < mpfa::kNvfp4BlockSize; ++i) {
      const uint8_t pair = codes[b * (mpfa::kNvfp4BlockSize / 2) + i / 2];
      const uint8_t code = static_cast<uint8_t>(i % 2 == 0 ? pair & 0xF : pair >> 4);
      x[b * mpfa::kNvfp4BlockSize + i] = mpfa::nvfp4_value(scales[b], code);
    }
  }
}

}  // extern "C"
