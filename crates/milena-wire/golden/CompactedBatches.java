import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter.BatchRetention;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter.BatchRetentionResult;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Set;

/** What the log cleaner leaves of batches: gaps between offsets, delete horizons and batches without a record. */
final class CompactedBatches {
    private static final long CLEANED_AT = 1_700_000_500_000L;
    private static final long DELETE_RETENTION_MS = 86_400_000;

    static void addTo(Map<String, byte[]> cases) {
        for (CompressionType codec : CompressionType.values()) {
            byte[] written = writer(codec).write(SampleRecords.nullsAndEmpties());
            String name = "v2-" + codec.name + "-compacted";
            // The record at 101 is a tombstone, so the batch gets a delete horizon.
            // The record at 105 goes, yet 105 stays the last offset.
            cases.put(name + "-tombstone", compact(written, Set.of(101L, 104L), false));
            cases.put(name + "-gaps", compact(written, Set.of(100L, 103L), false));
        }
        // An empty batch is not compressed, so one codec stands for all.
        byte[] written = writer(CompressionType.ZSTD).write(SampleRecords.plain());
        cases.put("v2-compacted-nothing-left", compact(written, Set.of(), false));
        byte[] marker = ControlBatches.endOfTransaction(ControlRecordType.COMMIT);
        cases.put("v2-control-commit-delete-horizon", compact(marker, Set.of(123L), true));
        cases.put("v2-empty", emptyBatch(false));
        cases.put("v2-empty-transactional", emptyBatch(true));
    }

    private static BatchWriter writer(CompressionType codec) {
        return new BatchWriter(2, codec).baseOffset(100).producer(77, 1, 5);
    }

    private static byte[] compact(byte[] batch, Set<Long> keptOffsets, boolean endsEmptyTransaction) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(batch));
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(CLEANED_AT, DELETE_RETENTION_MS) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch ignored) {
                return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, endsEmptyTransaction);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch ignored, Record record) {
                return keptOffsets.contains(record.offset());
            }
        };
        ByteBuffer space = ByteBuffer.allocate(4096);
        ByteBuffer filtered = records.filterTo(filter, space, BufferSupplier.NO_CACHING).outputBuffer();
        return BatchWriter.bytes(filtered.flip());
    }

    private static byte[] emptyBatch(boolean transactional) {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(buffer, RecordBatch.MAGIC_VALUE_V2, 77, (short) 1, 5, 100, 109,
                BatchWriter.LEADER_EPOCH, TimestampType.CREATE_TIME, SampleRecords.TIME, transactional, false);
        return buffer.array();
    }
}
