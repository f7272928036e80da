import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.SimpleRecord;

import java.util.List;
import java.util.Map;

/** Message sets of magic 0 and 1, as old clients and old logs have them. Compressed ones are wrapped in one message. */
final class LegacyBatches {
    private static final List<CompressionType> CODECS = List.of(
            CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4);

    static void addTo(Map<String, byte[]> cases) {
        for (CompressionType codec : CODECS) {
            addMagic0("v0-" + codec.name + "-", codec, cases);
            addMagic1("v1-" + codec.name + "-", codec, cases);
        }
        // A log that lived through upgrades has every format in one segment.
        cases.put("v0-v1-v2-mixed", BatchWriter.join(
                new BatchWriter(0, CompressionType.NONE).write(SampleRecords.withoutTimestamp()),
                new BatchWriter(1, CompressionType.LZ4).baseOffset(3).write(SampleRecords.plain()),
                new BatchWriter(2, CompressionType.ZSTD).baseOffset(6).write(SampleRecords.plain())));
    }

    private static void addMagic0(String prefix, CompressionType codec, Map<String, byte[]> cases) {
        List<SimpleRecord> plain = SampleRecords.withoutTimestamp();
        cases.put(prefix + "plain", new BatchWriter(0, codec).write(plain));
        cases.put(prefix + "nulls", new BatchWriter(0, codec).write(SampleRecords.nullsAndEmpties()));
        cases.put(prefix + "base-offset", new BatchWriter(0, codec).baseOffset(1_000).write(plain));
    }

    private static void addMagic1(String prefix, CompressionType codec, Map<String, byte[]> cases) {
        cases.put(prefix + "plain", new BatchWriter(1, codec).write(SampleRecords.plain()));
        cases.put(prefix + "nulls", new BatchWriter(1, codec).write(SampleRecords.nullsAndEmpties()));
        cases.put(prefix + "base-offset", new BatchWriter(1, codec).baseOffset(1_000).write(SampleRecords.plain()));
        cases.put(prefix + "log-append-time", new BatchWriter(1, codec).logAppendTime().write(SampleRecords.plain()));
        cases.put(prefix + "negative-deltas", new BatchWriter(1, codec).write(SampleRecords.goingBackInTime()));
    }
}
