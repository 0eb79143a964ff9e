// What the host tells each kernel: one list of fields, from which its struct, its signature and what launch.py
// packs are made (parameters.py reads the lists here).
//
// A(type, name) is a pointer to memory that the kernel reaches through nothing else, V(type, name) any other value,
// S() stands between two. A signature takes the fields one by one and gathers them: as one __grid_constant__ struct
// F's fields lose `restrict` and are loaded in pairs, no build has the same code, and one (D = 256, associated, no
// mask) then lets multiplies wait for each other. Both ways lie alike in the constant bank. A pointer that a mode
// does not use is null.
#pragma once

#define COMMA() ,
#define SEMICOLON() ;
#define MEMBER(type, name) type name
#define ARGUMENT(type, name) type name
#define ALONE(type, name) type __restrict__ name
#define NAME(type, name) name

#define STRUCT(fields) { fields(MEMBER, MEMBER, SEMICOLON); }
#define SIGNATURE(fields) (fields(ARGUMENT, ALONE, COMMA))
#define GATHERED(fields) {fields(NAME, NAME, COMMA)}

// Of a head: tokens, blocks of 128 queries, tiles of 64 keys; the last two of lengths padded to 128.
#define LENGTHS(V, S) V(int, nq) S() V(int, nk) S() V(int, q_blocks) S() V(int, k_tiles)
// Units whose records exist at once (stripes.py): heads of all batches from first_bh on, head_step apart (1, or a
// group), of each the blocks of 128 queries [first_block, first_block + stripe_blocks).
#define STRIPE(V, S)                                                                                   \
  V(int, first_bh) S() V(int, head_step) S() V(int, stripe_heads) S() V(int, first_block) S() V(int, stripe_blocks)

#if DUMP
#define FORWARD_DUMP(V, S) S() V(u8*, dump_codes) S() V(float2*, dump_windows)
#define QUERY_DUMP(V, S)                                                                               \
  S() V(float*, dump_p) S() V(float*, dump_dp) S() V(float*, dump_ds) S() V(u8*, dump_p_codes)         \
  S() V(u8*, dump_ds_codes) S() V(int2*, dump_exponents) S() V(float2*, dump_shifts)
#else
#define FORWARD_DUMP(V, S)
#define QUERY_DUMP(V, S)
#endif

#define FORWARD_FIELDS(V, A, S)                                                                        \
  A(const u8*, q_rows) S() A(const u8*, k_rows) S() A(const u8*, v_channels)                           \
  S() A(const float4*, q_heads) S() A(const float4*, kv_heads) S() A(const float*, q_shift)            \
  S() A(u32*, out) S() A(float2*, statistics) S() A(float*, lse) S() A(int*, top_keys)                 \
  S() A(float2*, rescales) S() A(float2*, exact_out)                                                   \
  S() V(int, heads) S() V(int, kv_heads_count) S() V(int, batch_heads) S() LENGTHS(V, S)               \
  S() V(float, c) S() V(float, scale) FORWARD_DUMP(V, S)

#define QUERY_FIELDS(V, A, S)                                                                          \
  A(const u8*, q_rows) S() A(const u8*, g_rows) S() A(const u8*, k_rows) S() A(const u8*, v_rows)      \
  S() A(const u8*, k_channels) S() A(const float4*, q_heads) S() A(const float4*, kv_heads)            \
  S() A(const float2*, statistics) S() A(float*, delta) S() A(const int*, top_keys)                    \
  S() A(const float2*, rescales) S() A(u32*, dq_out) S() A(u8*, records)                               \
  S() V(int, heads) S() V(int, kv_heads_count) S() STRIPE(V, S) S() LENGTHS(V, S)                      \
  S() V(float, c) S() V(float, scale) QUERY_DUMP(V, S)

#define KEY_FIELDS(V, A, S)                                                                            \
  A(const u8*, records) S() A(const u8*, q_channels) S() A(const u8*, g_channels)                      \
  S() A(u32*, dk_out) S() A(u32*, dv_out) S() A(float*, open_sums)                                     \
  S() V(int, heads) S() V(int, kv_heads_count) S() STRIPE(V, S) S() LENGTHS(V, S) S() V(float, scale)

// One operand P of the quantiser: tokens of 8 BF16 channels an element, images and scales, strides in elements,
// heads of a batch, tokens, units of 128 tokens of a head, units of all heads.
#define OPERAND(V, S, P)                                                                               \
  V(const uint4*, P##_x) S() V(u8*, P##_rows) S() V(u8*, P##_channels) S() V(float*, P##_scales)       \
  S() V(i64, P##_batch) S() V(i64, P##_token) S() V(i64, P##_head)                                     \
  S() V(int, P##_heads) S() V(int, P##_n) S() V(int, P##_units) S() V(int, P##_blocks)

#define QUANTISE_FIRST_FIELDS(V, A, S) OPERAND(V, S, k) S() OPERAND(V, S, v) S() V(float*, sums)
#define QUANTISE_REST_FIELDS(V, A, S)                                                                  \
  OPERAND(V, S, k) S() OPERAND(V, S, q) S() OPERAND(V, S, v)                                           \
  S() V(float*, q_shift) S() V(const float*, sums) S() V(const float*, means) S() V(int, flip)
#define KEY_MEANS_FIELDS(V, A, S) V(const float*, sums) S() V(float*, means) S() V(int, units) S() V(int, n)
#define QUANTISE_GRADIENT_FIELDS(V, A, S)                                                              \
  OPERAND(V, S, g) S() V(float*, delta) S() V(const uint4*, output) S() V(int, shortcut)
