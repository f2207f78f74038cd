/* Huff0 as a yardstick: bytes in, four-stream Huffman chunks out, and back.
 *
 * The HUF_* and HIST_* functions are compiled into zstd's static library but stand in no
 * installed header, so the ones used here are declared below, as zstd 1.5.4 and later 1.5
 * releases define them. Benchmarks only: nothing of this reaches the package.
 *
 * Each chunk is a little record: a 32-bit word (kind in the two low bits, payload size above
 * them), then the payload. A chunk that Huffman cannot shrink is stored as it is, a chunk of
 * one repeated byte as that byte.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <zstd.h>

#if ZSTD_VERSION_NUMBER < 10504 || ZSTD_VERSION_NUMBER >= 10600
#error "the Huff0 prototypes below are those of zstd 1.5.4 and later 1.5 releases"
#endif

typedef size_t HUF_CElt;
typedef uint32_t HUF_DTable;

extern size_t HIST_count_wksp(unsigned* count, unsigned* max_symbol, const void* src,
                              size_t src_size, void* workspace, size_t workspace_size);
extern unsigned HUF_isError(size_t code);
extern unsigned HUF_optimalTableLog(unsigned max_table_log, size_t src_size, unsigned max_symbol,
                                    void* workspace, size_t workspace_size, HUF_CElt* table,
                                    const unsigned* count, int flags);
extern size_t HUF_buildCTable_wksp(HUF_CElt* table, const unsigned* count, uint32_t max_symbol,
                                   uint32_t max_bits, void* workspace, size_t workspace_size);
extern size_t HUF_writeCTable_wksp(void* dst, size_t dst_size, const HUF_CElt* table,
                                   unsigned max_symbol, unsigned table_log, void* workspace,
                                   size_t workspace_size);
extern size_t HUF_compress4X_usingCTable(void* dst, size_t dst_size, const void* src,
                                         size_t src_size, const HUF_CElt* table, int flags);
extern size_t HUF_readDTableX2_wksp(HUF_DTable* table, const void* src, size_t src_size,
                                    void* workspace, size_t workspace_size, int flags);
extern size_t HUF_decompress4X_usingDTable(void* dst, size_t dst_size, const void* src,
                                           size_t src_size, const HUF_DTable* table, int flags);

enum {
  kChunkBytes = 128 * 1024, /* the most that Huff0 takes at once */
  kHeaderBytes = 4,
  kTableLog = 11, /* zstd's own choice for literals, and Huff0's fast path */
  kMaxTableLog = 12,
  kMaxSymbol = 255,
  kWorkspaceWords = 4096, /* above each of the workspaces that Huff0 asks for */
  kFlagBmi2 = 1
};

enum { kStored = 0, kRepeated = 1, kHuffman = 2 };

#define HUFF0_ERROR ((size_t)-1)

static int cpu_flags(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("bmi2") ? kFlagBmi2 : 0;
#else
  return 0;
#endif
}

static size_t chunk_size(size_t position, size_t size) {
  const size_t left = size - position;
  return left < kChunkBytes ? left : kChunkBytes;
}

static void write_header(uint8_t* dst, unsigned kind, size_t payload) {
  const uint32_t word = (uint32_t)(payload << 2) | kind;
  memcpy(dst, &word, kHeaderBytes);
}

/* Histogram, table, table description, four streams. 0: Huffman does not pay for this chunk. */
static size_t compress_huffman(uint8_t* dst, size_t capacity, const uint8_t* src, size_t size,
                               const unsigned* count, unsigned max_symbol, int flags) {
  uint32_t workspace[kWorkspaceWords];
  HUF_CElt table[kMaxSymbol + 2];
  const unsigned log = HUF_optimalTableLog(kTableLog, size, max_symbol, workspace,
                                           sizeof workspace, table, count, flags);
  const size_t max_bits =
      HUF_buildCTable_wksp(table, count, max_symbol, log, workspace, sizeof workspace);
  if (HUF_isError(max_bits)) return 0;
  const size_t head = HUF_writeCTable_wksp(dst, capacity, table, max_symbol, (unsigned)max_bits,
                                           workspace, sizeof workspace);
  if (HUF_isError(head) || head + 12 >= size) return 0;
  const size_t body =
      HUF_compress4X_usingCTable(dst + head, capacity - head, src, size, table, flags);
  if (HUF_isError(body) || body == 0 || head + body >= size) return 0;
  return head + body;
}

static size_t compress_chunk(uint8_t* dst, size_t capacity, const uint8_t* src, size_t size,
                             int flags) {
  uint32_t workspace[kWorkspaceWords];
  unsigned count[kMaxSymbol + 1];
  unsigned max_symbol = kMaxSymbol;
  const size_t largest =
      HIST_count_wksp(count, &max_symbol, src, size, workspace, sizeof workspace);
  uint8_t* const payload = dst + kHeaderBytes;
  if (largest == size) {
    payload[0] = src[0];
    write_header(dst, kRepeated, 1);
    return kHeaderBytes + 1;
  }
  const size_t coded = compress_huffman(payload, capacity - kHeaderBytes, src, size, count,
                                        max_symbol, flags);
  if (coded != 0) {
    write_header(dst, kHuffman, coded);
    return kHeaderBytes + coded;
  }
  memcpy(payload, src, size);
  write_header(dst, kStored, size);
  return kHeaderBytes + size;
}

static int decompress_huffman(uint8_t* dst, size_t size, const uint8_t* src, size_t payload,
                              int flags) {
  uint32_t workspace[kWorkspaceWords];
  /* The first word tells Huff0 how large a table it may write. */
  HUF_DTable table[1 + (1 << kMaxTableLog)];
  table[0] = (HUF_DTable)kMaxTableLog * 0x01000001u;
  const size_t head =
      HUF_readDTableX2_wksp(table, src, payload, workspace, sizeof workspace, flags);
  if (HUF_isError(head) || head >= payload) return 0;
  const size_t written =
      HUF_decompress4X_usingDTable(dst, size, src + head, payload - head, table, flags);
  return written == size;
}

static int decompress_chunk(uint8_t* dst, size_t size, const uint8_t* src, unsigned kind,
                            size_t payload, int flags) {
  switch (kind) {
    case kHuffman:
      return decompress_huffman(dst, size, src, payload, flags);
    case kRepeated:
      if (payload != 1) return 0;
      memset(dst, src[0], size);
      return 1;
    case kStored:
      if (payload != size) return 0;
      memcpy(dst, src, size);
      return 1;
    default:
      return 0;
  }
}

/* Bytes that huff0_compress may need. Twice the input, since Huff0 takes its fast path only
 * while the room left exceeds the worst case of 11 bits a byte. */
size_t huff0_bound(size_t size) {
  return 2 * size + 1024;
}

/* Compresses `size` bytes. Returns the bytes written, or (size_t)-1 when `capacity` is below
 * huff0_bound(size). */
size_t huff0_compress(uint8_t* dst, size_t capacity, const uint8_t* src, size_t size) {
  const int flags = cpu_flags();
  size_t written = 0;
  if (capacity < huff0_bound(size)) return HUFF0_ERROR;
  for (size_t position = 0; position < size; position += kChunkBytes) {
    written += compress_chunk(dst + written, capacity - written, src + position,
                              chunk_size(position, size), flags);
  }
  return written;
}

/* Restores exactly `size` bytes. Returns `size`, or (size_t)-1 on malformed input. */
size_t huff0_decompress(uint8_t* dst, size_t size, const uint8_t* src, size_t src_size) {
  const int flags = cpu_flags();
  size_t read = 0;
  for (size_t position = 0; position < size; position += kChunkBytes) {
    uint32_t word;
    if (src_size - read < kHeaderBytes) return HUFF0_ERROR;
    memcpy(&word, src + read, kHeaderBytes);
    read += kHeaderBytes;
    const size_t payload = word >> 2;
    if (payload > src_size - read) return HUFF0_ERROR;
    if (!decompress_chunk(dst + position, chunk_size(position, size), src + read, word & 3u,
                          payload, flags))
      return HUFF0_ERROR;
    read += payload;
  }
  return read == src_size ? size : HUFF0_ERROR;
}

unsigned huff0_zstd_version(void) {
  return ZSTD_versionNumber();
}
