import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.zip.CRC32;

/** Which value a scalar field gets. */
abstract class Values {
    private static final Set<Type> STRINGS = Set.of(
            Type.STRING, Type.COMPACT_STRING, Type.NULLABLE_STRING, Type.COMPACT_NULLABLE_STRING);
    private static final Set<Type> RECORDS = Set.of(
            Type.RECORDS, Type.COMPACT_RECORDS, Type.NULLABLE_RECORDS, Type.COMPACT_NULLABLE_RECORDS);
    private static final Set<Type> BYTES = Set.of(
            Type.BYTES, Type.COMPACT_BYTES, Type.NULLABLE_BYTES, Type.COMPACT_NULLABLE_BYTES);

    /** Whether nullable fields become null and tagged fields keep their defaults. */
    abstract boolean leavesEmpty();

    /** The number from which every fixed-size value of this field comes; below 2^32. */
    abstract long number(String name);

    abstract boolean bool();

    abstract String string(String name);

    abstract byte[] bytes(String name);

    final Object scalar(Type type, String name, Class<?> javaType) {
        if (STRINGS.contains(type)) {
            return string(name);
        }
        if (RECORDS.contains(type)) {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(name)));
        }
        if (BYTES.contains(type)) {
            // Some byte fields are declared "zero copy" and are buffers in Java.
            return javaType == byte[].class ? bytes(name) : ByteBuffer.wrap(bytes(name));
        }
        return fixedSize(type, name);
    }

    private Object fixedSize(Type type, String name) {
        long number = number(name);
        if (type == Type.BOOLEAN) {
            return bool();
        } else if (type == Type.INT8) {
            return (byte) (number & 0x7f);
        } else if (type == Type.INT16) {
            return (short) (number & 0x7fff);
        } else if (type == Type.UINT16) {
            return (int) (number & 0xffff);
        } else if (type == Type.INT32) {
            return (int) (number & 0x7fffffff);
        } else if (type == Type.UNSIGNED_INT32) {
            return number;
        } else if (type == Type.INT64) {
            return (number << 20) + number;
        } else if (type == Type.FLOAT64) {
            return number / 4.0;
        } else if (type == Type.UUID) {
            return number == 0 ? Uuid.ZERO_UUID : new Uuid(number, number + 1);
        }
        throw new IllegalStateException("field " + name + " has the type " + type + ", which no vector has yet");
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    /** A function of the field's name, so that a value in the wrong field is seen. */
    static class Named extends Values {
        @Override
        boolean leavesEmpty() {
            return false;
        }

        @Override
        long number(String name) {
            CRC32 crc = new CRC32();
            crc.update(ascii(name));
            return crc.getValue();
        }

        @Override
        boolean bool() {
            return true;
        }

        @Override
        String string(String name) {
            return name;
        }

        @Override
        byte[] bytes(String name) {
            return ascii(name);
        }
    }

    /** As named, but strings and bytes are long, and strings end with characters of two, three and four bytes. */
    static final class Large extends Named {
        @Override
        String string(String name) {
            return name.repeat(200 / name.length() + 1).substring(0, 200) + "é中🙂";
        }

        @Override
        byte[] bytes(String name) {
            byte[] bytes = new byte[300];
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = (byte) i;
            }
            return bytes;
        }
    }

    static final class Empty extends Values {
        @Override
        boolean leavesEmpty() {
            return true;
        }

        @Override
        long number(String name) {
            return 0;
        }

        @Override
        boolean bool() {
            return false;
        }

        @Override
        String string(String name) {
            return "";
        }

        @Override
        byte[] bytes(String name) {
            return new byte[0];
        }
    }
}
