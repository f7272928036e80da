import java.util.HexFormat;
import java.util.UUID;

import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.*;

/**
 * Writes values with Kafka's serializers and reads bytes with its deserializers, for tests/golden/serialized.txt.
 *
 * Run by `cargo xtask golden`. Columns are separated by tabs: the class of the deserializer, bytes in hexadecimal or null,
 * and the value as text, or no if the deserializer refuses the bytes.
 */
public class Serialized {
    public static void main(String[] arguments) {
        write(new StringSerializer(), new StringDeserializer(), "", "grün 🦀");
        write(new ByteArraySerializer(), new ByteArrayDeserializer(), new byte[0], new byte[] {'a', 'b'});
        write(new ShortSerializer(), new ShortDeserializer(), (short) 0, (short) -2, Short.MAX_VALUE);
        write(new IntegerSerializer(), new IntegerDeserializer(), 0, -2, Integer.MIN_VALUE);
        write(new LongSerializer(), new LongDeserializer(), 0L, -2L, Long.MAX_VALUE);
        write(new FloatSerializer(), new FloatDeserializer(), 1.5f, -0.25f, Float.NaN);
        write(new DoubleSerializer(), new DoubleDeserializer(), 1.5, -0.25, 1234.5678);
        write(new BooleanSerializer(), new BooleanDeserializer(), true, false);
        write(new UUIDSerializer(), new UUIDDeserializer(), UUID.fromString("00112233-4455-6677-8899-AABBCCDDEEFF"));
        write(new VoidSerializer(), new VoidDeserializer(), (Void) null);
        for (String hex : new String[] {"", "00", "01", "02", "0001", "000102", "00010203", "0001020304", "0001020304050607",
            "000102030405060708"}) {
            byte[] bytes = HexFormat.of().parseHex(hex);
            read(new ShortDeserializer(), bytes);
            read(new IntegerDeserializer(), bytes);
            read(new LongDeserializer(), bytes);
            read(new BooleanDeserializer(), bytes);
            read(new UUIDDeserializer(), bytes);
            read(new VoidDeserializer(), bytes);
        }
    }

    @SafeVarargs
    private static <T> void write(Serializer<T> serializer, Deserializer<T> deserializer, T... values) {
        read(deserializer, null);
        for (T value : values) {
            read(deserializer, serializer.serialize("topic", value));
        }
    }

    private static void read(Deserializer<?> deserializer, byte[] bytes) {
        String hex = bytes == null ? "null" : HexFormat.of().formatHex(bytes);
        System.out.println(deserializer.getClass().getName() + "\t" + hex + "\t" + text(deserializer, bytes));
    }

    private static String text(Deserializer<?> deserializer, byte[] bytes) {
        try {
            Object value = deserializer.deserialize("topic", bytes);
            return value instanceof byte[] raw ? new String(raw) : String.valueOf(value);
        } catch (SerializationException | IllegalArgumentException refused) {
            return "no";
        }
    }
}
