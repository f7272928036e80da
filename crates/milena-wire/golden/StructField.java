import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Collection;

/** A field of a generated message class, found by its name in the schema. */
record StructField(Object struct, Field field) {
    static StructField find(Object struct, String schemaName) {
        for (Field field : struct.getClass().getDeclaredFields()) {
            // The schema says snake_case and the class camelCase; without case and underscores they agree.
            boolean same = field.getName().equalsIgnoreCase(schemaName.replace("_", ""));
            if (same && !Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                return new StructField(struct, field);
            }
        }
        throw new IllegalStateException(struct.getClass() + " has no field for " + schemaName);
    }

    void set(Object value) throws IllegalAccessException {
        field.set(struct, value);
    }

    Class<?> type() {
        return field.getType();
    }

    /** Lists hold most arrays; arrays with a key are Kafka's own linked hash collections. */
    @SuppressWarnings("unchecked")
    Collection<Object> newCollection() throws ReflectiveOperationException {
        boolean ownClass = !type().isInterface();
        return ownClass ? (Collection<Object>) type().getConstructor().newInstance() : new ArrayList<>();
    }

    Class<?> elementType() {
        Type generic = type().isInterface() ? field.getGenericType() : type().getGenericSuperclass();
        return (Class<?>) ((ParameterizedType) generic).getActualTypeArguments()[0];
    }
}
