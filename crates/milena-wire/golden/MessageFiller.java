import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

import java.util.Collection;
import java.util.List;

/**
 * Fills one of Kafka's generated messages by its schema, so that exactly the fields of one version are set.
 *
 * <ul>
 * <li>{@code full}: every field set to a value computed from its name, arrays with two elements.
 * <li>{@code null}: null where it is allowed, else empty or zero; tagged fields keep their defaults.
 * <li>{@code large}: as full, with long strings, long bytes and arrays long enough for two-byte lengths.
 * <li>{@code unknown}: as null, with one element in arrays of structs (and structs that may be null present),
 *     and unknown tagged fields in the message and in every struct.
 * </ul>
 */
final class MessageFiller {
    /** How many elements an array gets: of structs, of scalars, and of scalars inside a struct of an array. */
    private record Lengths(int structs, int scalars, int nestedScalars) {
    }

    private final Values values;
    private final Lengths lengths;
    private final boolean withUnknownTags;

    private MessageFiller(Values values, Lengths lengths, boolean withUnknownTags) {
        this.values = values;
        this.lengths = lengths;
        this.withUnknownTags = withUnknownTags;
    }

    static MessageFiller full() {
        return new MessageFiller(new Values.Named(), new Lengths(2, 2, 2), false);
    }

    static MessageFiller nulls() {
        return new MessageFiller(new Values.Empty(), new Lengths(0, 0, 0), false);
    }

    static MessageFiller unknownTags() {
        return new MessageFiller(new Values.Empty(), new Lengths(1, 0, 0), true);
    }

    static List<MessageFiller> largeFromRichToPoor() {
        return List.of(large(3, 130, 130), large(3, 130, 3), large(2, 130, 2), large(2, 3, 2), large(1, 3, 1));
    }

    private static MessageFiller large(int structs, int scalars, int nestedScalars) {
        return new MessageFiller(new Values.Large(), new Lengths(structs, scalars, nestedScalars), false);
    }

    /** Flexible versions are those with tagged fields; their schemas end with the section that holds them. */
    static boolean isFlexible(Schema schema) {
        for (BoundField field : schema.fields()) {
            if (field.def.type instanceof TaggedFields) {
                return true;
            }
        }
        return false;
    }

    void fill(Message message, Schema schema) throws ReflectiveOperationException {
        fillStruct(message, schema, false);
    }

    private void fillStruct(Message struct, Schema schema, boolean insideArray) throws ReflectiveOperationException {
        for (BoundField field : schema.fields()) {
            if (!(field.def.type instanceof TaggedFields tagged)) {
                setField(struct, field.def.name, field.def.type, insideArray);
            } else if (values.leavesEmpty()) {
                addUnknownTags(struct);
            } else {
                for (org.apache.kafka.common.protocol.types.Field known : tagged.fields().values()) {
                    setField(struct, known.name, known.type, insideArray);
                }
            }
        }
    }

    private void addUnknownTags(Message struct) {
        if (withUnknownTags) {
            struct.unknownTaggedFields().add(new RawTaggedField(10_000, Values.ascii("unknown")));
            struct.unknownTaggedFields().add(new RawTaggedField(10_001, new byte[0]));
        }
    }

    private void setField(Message struct, String name, Type type, boolean insideArray)
            throws ReflectiveOperationException {
        StructField field = StructField.find(struct, name);
        boolean holdsStructs = type instanceof Schema || type.arrayElementType().orElse(null) instanceof Schema;
        boolean wantsStructs = withUnknownTags && holdsStructs;
        if (values.leavesEmpty() && type.isNullable() && !wantsStructs) {
            field.set(null);
        } else if (type.isArray()) {
            field.set(array(field, name, type.arrayElementType().get(), insideArray));
        } else if (type instanceof Schema schema) {
            field.set(newStruct(field.type(), schema, insideArray));
        } else {
            field.set(values.scalar(type, name, field.type()));
        }
    }

    private Collection<Object> array(StructField field, String name, Type element, boolean insideArray)
            throws ReflectiveOperationException {
        Collection<Object> array = field.newCollection();
        if (element instanceof Schema schema) {
            for (int i = 0; i < lengths.structs; i++) {
                array.add(newStruct(field.elementType(), schema, true));
            }
        } else {
            int length = insideArray ? lengths.nestedScalars : lengths.scalars;
            for (int i = 0; i < length; i++) {
                array.add(values.scalar(element, name, field.elementType()));
            }
        }
        return array;
    }

    private Message newStruct(Class<?> type, Schema schema, boolean insideArray) throws ReflectiveOperationException {
        Message struct = (Message) type.getConstructor().newInstance();
        fillStruct(struct, schema, insideArray);
        return struct;
    }
}
