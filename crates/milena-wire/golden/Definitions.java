import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;

/** The message definitions of this repository: they say which of Kafka's messages get vectors. */
final class Definitions {
    /** Where Kafka's build puts the class of a definition; the first that exists is taken. */
    private static final List<String> CLASS_PATTERNS = List.of(
            "org.apache.kafka.common.message.%sData",
            "org.apache.kafka.common.message.%s",
            "org.apache.kafka.coordinator.group.generated.%s",
            "org.apache.kafka.coordinator.transaction.generated.%s");

    private final Map<String, JsonNode> byName = new TreeMap<>();
    private final Set<Integer> requestKeys = new HashSet<>();

    static Definitions read(Path directory) throws IOException {
        if (!Files.isDirectory(directory)) {
            throw new Golden.Refusal("no directory " + directory + "; the message definitions belong there");
        }
        Definitions definitions = new Definitions();
        ObjectMapper json = new ObjectMapper().enable(JsonParser.Feature.ALLOW_COMMENTS);
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.filter(path -> path.toString().endsWith(".json")).toList()) {
                definitions.add(json.readTree(file.toFile()));
            }
        }
        if (definitions.byName.isEmpty()) {
            throw new Golden.Refusal("no message definition (*.json) in " + directory);
        }
        return definitions;
    }

    private void add(JsonNode definition) {
        byName.put(definition.get("name").asText(), definition);
        if (definition.get("type").asText().equals("request")) {
            requestKeys.add(definition.get("apiKey").asInt());
        }
    }

    boolean hasRequest(int apiKey) {
        return requestKeys.contains(apiKey);
    }

    /** The messages that can be written, by name: some have no version left, and a response alone is never sent. */
    Map<String, Class<?>> messages() {
        Map<String, Class<?>> classes = new TreeMap<>();
        byName.forEach((name, definition) -> {
            boolean response = definition.get("type").asText().equals("response");
            boolean alone = response && !hasRequest(definition.get("apiKey").asInt());
            if (!alone && !definition.get("validVersions").asText().equals("none")) {
                classes.put(name, kafkaClass(name));
            }
        });
        return classes;
    }

    private static Class<?> kafkaClass(String name) {
        for (String pattern : CLASS_PATTERNS) {
            try {
                return Class.forName(pattern.formatted(name));
            } catch (ClassNotFoundException next) {
                // Another pattern may fit.
            }
        }
        throw new Golden.Refusal("Kafka has no class for the definition " + name + "; looked for " + CLASS_PATTERNS);
    }
}
