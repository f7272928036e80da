import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

import java.nio.ByteBuffer;
import java.util.List;

/** Kafka's builder of record batches, with the settings that few cases change. */
final class BatchWriter {
    static final long LOG_APPEND_TIME = 1_700_000_777_000L;
    static final int LEADER_EPOCH = 7;

    private final byte magic;
    private final CompressionType codec;
    private TimestampType timestampType;
    private long baseOffset = 0;
    private long producerId = RecordBatch.NO_PRODUCER_ID;
    private short producerEpoch = RecordBatch.NO_PRODUCER_EPOCH;
    private int baseSequence = RecordBatch.NO_SEQUENCE;
    private boolean transactional = false;

    BatchWriter(int magic, CompressionType codec) {
        this.magic = (byte) magic;
        this.codec = codec;
        this.timestampType = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
    }

    BatchWriter logAppendTime() {
        timestampType = TimestampType.LOG_APPEND_TIME;
        return this;
    }

    BatchWriter baseOffset(long offset) {
        baseOffset = offset;
        return this;
    }

    BatchWriter producer(long id, int epoch, int sequence) {
        producerId = id;
        producerEpoch = (short) epoch;
        baseSequence = sequence;
        return this;
    }

    BatchWriter transactional() {
        transactional = true;
        return this;
    }

    byte[] write(List<SimpleRecord> records) {
        // The stream grows, so its first size does not matter; without a write limit no record is refused.
        ByteBufferOutputStream out = new ByteBufferOutputStream(1024);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(out, magic, Compression.of(codec).build(),
                timestampType, baseOffset, LOG_APPEND_TIME, producerId, producerEpoch, baseSequence,
                transactional, false, LEADER_EPOCH, Integer.MAX_VALUE);
        records.forEach(builder::append);
        return bytes(builder.build().buffer());
    }

    static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    static byte[] join(byte[]... parts) {
        int length = 0;
        for (byte[] part : parts) {
            length += part.length;
        }
        ByteBuffer joined = ByteBuffer.allocate(length);
        for (byte[] part : parts) {
            joined.put(part);
        }
        return joined.array();
    }
}
