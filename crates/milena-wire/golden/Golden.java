import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;

/**
 * Writes the golden vectors with Kafka's own classes, so that our codec is judged by Kafka and never by itself.
 * Started by `cargo xtask golden`.
 */
public final class Golden {
    // The JDK's zlib is not pinned, so gzip may compress the same records to other bytes on another machine.
    private static final Pattern GZIP_BYTES = Pattern.compile("^(case \\S*gzip\\S*) \\S+$", Pattern.MULTILINE);

    public static void main(String[] args) throws Exception {
        try {
            switch (args[0]) {
                case "write" -> write(vectors(Path.of(args[1])), Path.of(args[2]));
                case "check" -> check(vectors(Path.of(args[1])), Path.of(args[2]));
                case "read-batches" -> BatchReader.readCases(Path.of(args[1]), standardOutput());
                default -> throw new Refusal("no chore " + args[0]);
            }
        } catch (Refusal refusal) {
            System.err.println(refusal.getMessage());
            System.exit(1);
        }
    }

    /** A failure whose message alone tells what to do: a stack trace would only hide it. */
    static final class Refusal extends RuntimeException {
        Refusal(String message) {
            super(message);
        }
    }

    private static Map<String, String> vectors(Path definitions) throws IOException {
        Definitions defined = Definitions.read(definitions);
        Map<String, String> files = new LinkedHashMap<>();
        files.put("messages.txt.gz", MessageVectors.text(defined));
        files.put("batches.txt.gz", BatchVectors.text());
        files.put("tables.txt", Tables.text(defined));
        return files;
    }

    private static void write(Map<String, String> files, Path directory) throws IOException {
        Files.createDirectories(directory);
        for (Map.Entry<String, String> file : files.entrySet()) {
            byte[] bytes = file.getValue().getBytes(StandardCharsets.UTF_8);
            byte[] stored = file.getKey().endsWith(".gz") ? gzip(bytes) : bytes;
            Files.write(directory.resolve(file.getKey()), stored);
            long lines = file.getValue().lines().count();
            System.out.printf("%s: %d lines, %d bytes%n", file.getKey(), lines, stored.length);
        }
    }

    private static void check(Map<String, String> files, Path directory) throws IOException {
        for (Map.Entry<String, String> file : files.entrySet()) {
            Path path = directory.resolve(file.getKey());
            if (!Files.exists(path)) {
                throw new Refusal(path + " is missing; run `cargo xtask golden` and commit it");
            }
            compare(path, comparable(stored(path)), comparable(file.getValue()));
        }
        System.out.println("the golden vectors are what Kafka writes today");
    }

    private static void compare(Path path, String committed, String fresh) {
        String[] old = committed.split("\n", -1);
        String[] now = fresh.split("\n", -1);
        for (int line = 0; line < Math.max(old.length, now.length); line++) {
            String before = line < old.length ? old[line] : "(nothing)";
            String after = line < now.length ? now[line] : "(nothing)";
            if (!before.equals(after)) {
                throw new Refusal(path + " is stale from line " + (line + 1) + ":\n  committed " + shorten(before)
                        + "\n  Kafka     " + shorten(after)
                        + "\nrun `cargo xtask golden`, look at the difference and commit it");
            }
        }
    }

    private static String comparable(String text) {
        return GZIP_BYTES.matcher(text).replaceAll("$1");
    }

    private static String shorten(String line) {
        return line.length() > 160 ? line.substring(0, 160) + "…" : line;
    }

    private static String stored(Path path) throws IOException {
        if (!path.toString().endsWith(".gz")) {
            return Files.readString(path);
        }
        try (GZIPInputStream in = new GZIPInputStream(Files.newInputStream(path))) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    private static byte[] gzip(byte[] bytes) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        // The JDK writes no modification time, so equal text gives equal files.
        try (GZIPOutputStream zip = new BestGzip(out)) {
            zip.write(bytes);
        }
        return out.toByteArray();
    }

    private static final class BestGzip extends GZIPOutputStream {
        BestGzip(ByteArrayOutputStream out) throws IOException {
            super(out);
            def.setLevel(9);
        }
    }

    private static PrintStream standardOutput() {
        return new PrintStream(System.out, false, StandardCharsets.UTF_8);
    }
}
