import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.Collectors;

/**
 * Says as text what Kafka's own reader finds in record batches. Empty bytes are `0x`, null is `-`.
 *
 * <pre>
 * case &lt;name> &lt;hex of the bytes>
 * batch &lt;magic> &lt;baseOffset> &lt;lastOffset> &lt;partitionLeaderEpoch or -1> &lt;maxTimestamp> &lt;timestampType>
 *       &lt;compression> &lt;isTransactional> &lt;isControl> &lt;producerId> &lt;producerEpoch> &lt;baseSequence>
 *       &lt;lastSequence> &lt;count or -1> &lt;deleteHorizonMs or ->                                     (one line)
 * record &lt;offset> &lt;timestamp> &lt;timestampType> &lt;key> &lt;value> &lt;key=value,… of the headers, or .>
 * </pre>
 */
final class BatchReader {
    static String describe(String name, byte[] bytes) {
        StringBuilder lines = new StringBuilder("case " + name + " " + hex(bytes) + "\n");
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            lines.append(batchLine(batch)).append('\n');
            for (Record record : batch) {
                record.ensureValid();
                lines.append(recordLine(batch, record)).append('\n');
            }
        }
        if (records.validBytes() != bytes.length) {
            throw new KafkaException(records.validBytes() + " of " + bytes.length + " bytes are whole batches");
        }
        return lines.toString();
    }

    /** The judge of batches that we wrote: the file has only `case` lines. */
    static void readCases(Path file, PrintStream out) throws IOException {
        for (String line : Files.readAllLines(file)) {
            String[] words = line.split(" ");
            if (words.length != 3 || !words[0].equals("case")) {
                throw new Golden.Refusal(file + ": expected `case <name> <hex>`, found: " + line);
            }
            out.print(describeOrRefuse(words[1], words[2]));
        }
        out.flush();
    }

    private static String describeOrRefuse(String name, String hex) {
        try {
            byte[] bytes = hex.equals("0x") ? new byte[0] : HexFormat.of().parseHex(hex);
            return describe(name, bytes);
        } catch (RuntimeException e) {
            // Corrupt bytes surface as several kinds of exceptions, depending on which of Kafka's readers meets them.
            throw new Golden.Refusal("Kafka refuses the case " + name + ": " + e);
        }
    }

    private static String batchLine(RecordBatch batch) {
        OptionalLong deleteHorizon = batch.deleteHorizonMs();
        Integer count = batch.countOrNull();
        List<Object> words = List.of("batch", batch.magic(), batch.baseOffset(), batch.lastOffset(),
                batch.partitionLeaderEpoch(), batch.maxTimestamp(), batch.timestampType().name(),
                batch.compressionType().name, batch.isTransactional(), batch.isControlBatch(),
                batch.producerId(), batch.producerEpoch(),
                batch.baseSequence(), batch.lastSequence(), count == null ? -1 : count,
                deleteHorizon.isPresent() ? deleteHorizon.getAsLong() : "-");
        return words.stream().map(Object::toString).collect(Collectors.joining(" "));
    }

    private static String recordLine(RecordBatch batch, Record record) {
        return "record " + record.offset() + " " + record.timestamp() + " " + timestampType(batch, record).name()
                + " " + hex(record.key()) + " " + hex(record.value()) + " " + headers(record.headers());
    }

    private static TimestampType timestampType(RecordBatch batch, Record record) {
        // Since magic 2 only the batch knows; records answer no to every type.
        return Arrays.stream(TimestampType.values())
                .filter(record::hasTimestampType)
                .findFirst()
                .orElse(batch.timestampType());
    }

    private static String headers(Header[] headers) {
        if (headers.length == 0) {
            return ".";
        }
        return Arrays.stream(headers)
                .map(header -> hex(header.key().getBytes(StandardCharsets.UTF_8)) + "=" + hex(header.value()))
                .collect(Collectors.joining(","));
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return hex(bytes);
    }

    private static String hex(byte[] bytes) {
        if (bytes == null) {
            return "-";
        }
        return bytes.length == 0 ? "0x" : HexFormat.of().formatHex(bytes);
    }
}
