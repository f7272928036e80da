import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.Schema;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/**
 * One line per message, version and variant: {@code <MessageName> <version> <variant> <hex>}.
 * The bytes are the body alone, without a header; of a version without fields no hex follows the space.
 * What each variant holds is said in {@link MessageFiller}.
 */
final class MessageVectors {
    private static final int LARGE_BYTES_MAX = 30_000;

    private final StringBuilder lines = new StringBuilder();

    static String text(Definitions definitions) {
        MessageVectors vectors = new MessageVectors();
        for (Map.Entry<String, Class<?>> message : definitions.messages().entrySet()) {
            try {
                vectors.addMessage(message.getKey(), message.getValue());
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(message.getKey() + " is not like other generated classes", e);
            }
        }
        return vectors.lines.toString();
    }

    private void addMessage(String name, Class<?> type) throws ReflectiveOperationException {
        Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
        Message probe = (Message) type.getConstructor().newInstance();
        for (short version = probe.lowestSupportedVersion(); version <= probe.highestSupportedVersion(); version++) {
            // The array is indexed by version and holds null below the lowest supported one.
            Schema schema = schemas[version];
            addDefault(name, type, version);
            add(name, version, "full", filled(type, schema, version, MessageFiller.full()));
            add(name, version, "null", filled(type, schema, version, MessageFiller.nulls()));
            add(name, version, "large", large(type, schema, version));
            if (MessageFiller.isFlexible(schema)) {
                add(name, version, "unknown", filled(type, schema, version, MessageFiller.unknownTags()));
            }
        }
    }

    private void addDefault(String name, Class<?> type, short version) throws ReflectiveOperationException {
        try {
            add(name, version, "default", bytes((Message) type.getConstructor().newInstance(), version));
        } catch (NullPointerException | UnsupportedVersionException refused) {
            // A default that this version cannot carry, such as null where null is not allowed yet.
        }
    }

    /** The richest large message that stays small enough to be kept in the repository. */
    private static byte[] large(Class<?> type, Schema schema, short version) throws ReflectiveOperationException {
        byte[] bytes = null;
        for (MessageFiller filler : MessageFiller.largeFromRichToPoor()) {
            bytes = filled(type, schema, version, filler);
            if (bytes.length <= LARGE_BYTES_MAX) {
                return bytes;
            }
        }
        throw new IllegalStateException(type + " version " + version + " needs " + bytes.length + " bytes for `large`");
    }

    private static byte[] filled(Class<?> type, Schema schema, short version, MessageFiller filler)
            throws ReflectiveOperationException {
        Message message = (Message) type.getConstructor().newInstance();
        filler.fill(message, schema);
        byte[] bytes = bytes(message, version);
        // What Kafka cannot read back is no vector.
        Message again = (Message) type.getConstructor().newInstance();
        again.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), version);
        if (!Arrays.equals(bytes, bytes(again, version))) {
            throw new IllegalStateException(type + " version " + version + " changes when Kafka reads and writes it");
        }
        return bytes;
    }

    private static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(message.getClass() + " version " + version + " is shorter than its size");
        }
        return buffer.array();
    }

    private void add(String name, short version, String variant, byte[] bytes) {
        List<String> words = List.of(name, Short.toString(version), variant, HexFormat.of().formatHex(bytes));
        lines.append(String.join(" ", words)).append('\n');
    }
}
