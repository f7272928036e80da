import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/**
 * What Kafka knows about its requests and errors.
 *
 * <pre>
 * api &lt;key> &lt;name> &lt;oldest> &lt;latestStable> &lt;latestIncludingUnstable>
 * header &lt;key> &lt;version> &lt;requestHeaderVersion> &lt;responseHeaderVersion>
 * error &lt;code> &lt;NAME> &lt;exception or -> &lt;retriable> &lt;invalidatesMetadata>
 * </pre>
 */
final class Tables {
    static String text(Definitions definitions) {
        StringBuilder lines = new StringBuilder();
        for (ApiKeys api : ApiKeys.values()) {
            if (definitions.hasRequest(api.id)) {
                addApi(lines, api);
            }
        }
        for (Errors error : Errors.values()) {
            addError(lines, error);
        }
        return lines.toString();
    }

    private static void addApi(StringBuilder lines, ApiKeys api) {
        short oldest = api.oldestVersion();
        short latest = api.latestVersion(true);
        lines.append("api %d %s %d %d %d\n".formatted(api.id, api.name, oldest, api.latestVersion(false), latest));
        for (short version = oldest; version <= latest; version++) {
            short request = api.requestHeaderVersion(version);
            short response = api.responseHeaderVersion(version);
            lines.append("header %d %d %d %d\n".formatted(api.id, version, request, response));
        }
    }

    private static void addError(StringBuilder lines, Errors error) {
        ApiException exception = error.exception();
        String name = exception == null ? "-" : exception.getClass().getSimpleName();
        boolean retriable = exception instanceof RetriableException;
        boolean metadata = exception instanceof InvalidMetadataException;
        lines.append("error %d %s %s %b %b\n".formatted(error.code(), error.name(), name, retriable, metadata));
    }
}
