import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Writes what Kafka's own definitions say about each topic, broker and group config, for tests/golden/configs.txt.
 *
 * Run by `cargo xtask golden`.
 *
 * Columns are separated by tabs: kind, name, type, default, allowed values, whether it is hidden from describe; then
 * for a topic config the broker's synonyms with their units in order of precedence, for a group config its one synonym
 * if it has any, for a broker config how it can be updated.
 */
public class Configs {
    public static void main(String[] arguments) {
        for (ConfigKey key : sorted(LogConfig.configKeys()).values()) {
            System.out.println("topic\t" + describe(key) + "\t" + topicSynonyms(key.name));
        }
        for (ConfigKey key : sorted(GroupConfig.CONFIG_DEF.configKeys()).values()) {
            System.out.println("group\t" + describe(key) + "\t" + GroupConfig.brokerSynonym(key.name).orElse(""));
        }
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (ConfigKey key : sorted(AbstractKafkaConfig.CONFIG_DEF.configKeys()).values()) {
            System.out.println("broker\t" + describe(key) + "\t" + modes.getOrDefault(key.name, "read-only"));
        }
    }

    private static Map<String, ConfigKey> sorted(Map<String, ConfigKey> keys) {
        return new TreeMap<>(keys);
    }

    private static String describe(ConfigKey key) {
        Object value = key.hasDefault() ? key.defaultValue : null;
        String text = value == null ? "null" : "\"" + ConfigDef.convertToString(value, key.type) + "\"";
        String allowed = key.validator == null ? "" : key.validator.toString();
        return key.name + "\t" + key.type + "\t" + text + "\t" + allowed + "\t" + (key.internalConfig ? "hidden" : "shown");
    }

    private static String topicSynonyms(String name) {
        List<ConfigSynonym> synonyms = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(name, List.of());
        return synonyms.stream().map(one -> one.name() + unit(one.converter())).collect(Collectors.joining(","));
    }

    /** What the broker's value counts, found by converting a one. */
    private static String unit(Function<String, String> converter) {
        return switch (converter.apply("1")) {
            case "1" -> "";
            case "60000" -> " minutes";
            case "3600000" -> " hours";
            default -> throw new IllegalStateException("a unit we do not know");
        };
    }
}
