import org.apache.kafka.common.record.internal.CompressionType;

import java.util.LinkedHashMap;
import java.util.Map;

/** The cases of record batches: what Kafka writes, followed by what Kafka reads in it (see {@link BatchReader}). */
final class BatchVectors {
    private static final long FAR_OFFSET = 5_000_000_000L;
    private static final long PRODUCER = 4_000_000_001L;

    private final Map<String, byte[]> cases = new LinkedHashMap<>();

    static String text() {
        BatchVectors vectors = new BatchVectors();
        for (CompressionType codec : CompressionType.values()) {
            vectors.addBatches(codec);
        }
        ControlBatches.addTo(vectors.cases);
        CompactedBatches.addTo(vectors.cases);
        LegacyBatches.addTo(vectors.cases);

        StringBuilder text = new StringBuilder();
        vectors.cases.forEach((name, bytes) -> text.append(BatchReader.describe(name, bytes)));
        return text.toString();
    }

    private void addBatches(CompressionType codec) {
        add(codec, "plain", writer(codec).write(SampleRecords.plain()));
        add(codec, "nulls", writer(codec).write(SampleRecords.nullsAndEmpties()));
        add(codec, "headers", writer(codec).write(SampleRecords.headers()));
        add(codec, "negative-deltas", writer(codec).write(SampleRecords.goingBackInTime()));
        add(codec, "no-timestamp", writer(codec).write(SampleRecords.withoutTimestamp()));
        add(codec, "log-append-time", writer(codec).logAppendTime().write(SampleRecords.plain()));
        add(codec, "base-offset", writer(codec).baseOffset(FAR_OFFSET).write(SampleRecords.plain()));
        add(codec, "idempotent", writer(codec).producer(PRODUCER, 3, 42).write(SampleRecords.plain()));
        add(codec, "transactional",
                writer(codec).producer(PRODUCER, 3, 0).transactional().write(SampleRecords.plain()));
        add(codec, "sequence-wrap", writer(codec).producer(PRODUCER, 3, Integer.MAX_VALUE - 1)
                .write(SampleRecords.goingBackInTime().subList(0, 4)));
        add(codec, "two-batches", BatchWriter.join(
                writer(codec).baseOffset(10).write(SampleRecords.plain()),
                writer(codec).baseOffset(13).write(SampleRecords.nullsAndEmpties())));
        add(codec, "big", writer(codec).write(SampleRecords.big()));
    }

    private void add(CompressionType codec, String scenario, byte[] bytes) {
        cases.put("v2-" + codec.name + "-" + scenario, bytes);
    }

    private static BatchWriter writer(CompressionType codec) {
        return new BatchWriter(2, codec);
    }
}
