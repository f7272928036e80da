import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The records that the batches of the cases hold. */
final class SampleRecords {
    static final long TIME = 1_700_000_000_000L;
    private static final String[] CITIES = {"Lisbon", "Osaka", "Quito", "Tromso", "Perth", "Accra", "Izmir", "Halifax"};
    private static final int BIG_COUNT = 2_000;
    private static final int BIG_VALUE_BYTES = 100;

    static List<SimpleRecord> plain() {
        return List.of(record(TIME, "alpha", "first value"), record(TIME + 5, "beta", "second value"),
                record(TIME + 1_000, "gamma", "third value, é中🙂"));
    }

    static List<SimpleRecord> nullsAndEmpties() {
        return List.of(record(TIME, null, "no key"), record(TIME + 1, "no value", null), record(TIME + 2, null, null),
                record(TIME + 3, "", "empty key"), record(TIME + 4, "empty value", ""), record(TIME + 5, "", ""));
    }

    static List<SimpleRecord> headers() {
        Header[] several = {header("trace", "one"), header("trace", "two"), header("nothing", null),
                header("", "empty key"), header("empty value", ""), header("é中🙂", "unicode key")};
        Header[] single = {header("only", "header")};
        return List.of(new SimpleRecord(TIME, bytes("key"), bytes("several"), several),
                new SimpleRecord(TIME + 1, bytes(null), bytes(null), single), record(TIME + 2, "key", "none"));
    }

    static List<SimpleRecord> goingBackInTime() {
        return List.of(record(TIME, "a", "base"), record(TIME - 1, "b", "a bit earlier"),
                record(TIME - 86_400_000, "c", "a day earlier"), record(TIME + 3_600_000, "d", "an hour later"),
                record(0, "e", "at the epoch"));
    }

    static List<SimpleRecord> withoutTimestamp() {
        List<SimpleRecord> records = new ArrayList<>();
        for (SimpleRecord record : plain()) {
            records.add(new SimpleRecord(RecordBatch.NO_TIMESTAMP, record.key(), record.value(), record.headers()));
        }
        return records;
    }

    /** More than one block of every codec, and as compressible as real JSON. */
    static List<SimpleRecord> big() {
        List<SimpleRecord> records = new ArrayList<>();
        for (int i = 0; i < BIG_COUNT; i++) {
            String json = "{\"id\":%d,\"user\":\"user-%d\",\"city\":\"%s\",\"amount\":%d,\"note\":\"".formatted(
                    i, i * 37 % 101, CITIES[i * 5 % CITIES.length], i * 7919 % 10_007);
            String filled = json + "a note that fills the record up to its size".repeat(2);
            String value = filled.substring(0, BIG_VALUE_BYTES);
            records.add(record(TIME + i, Integer.toString(i), value));
        }
        return records;
    }

    static SimpleRecord record(long timestamp, String key, String value) {
        return new SimpleRecord(timestamp, bytes(key), bytes(value));
    }

    private static Header header(String key, String value) {
        return new RecordHeader(key, bytes(value));
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }
}
