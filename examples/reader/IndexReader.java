import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDate;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.conf.PlainParquetConfiguration;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.convert.GroupRecordConverter;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.io.ColumnIOFactory;
import org.apache.parquet.io.LocalInputFile;
import org.apache.parquet.io.RecordReader;
import org.apache.parquet.schema.MessageType;
import org.roaringbitmap.RoaringBitmap;

/**
 * Reads an index of tailbit as docs/index-format.md describes it: where a condition holds, and facets.
 *
 * <p>A condition is TRUE, or tests joined by AND: {@code column = value}, {@code <}, {@code <=}, {@code >}, {@code >=},
 * {@code column IS NULL}, {@code array_contains(column, value)}. In place of a column there may be the term of an index.
 */
public final class IndexReader {
    private static final int OLDEST = 3, NEWEST = 9, SHORTENED = 256;
    private static final ObjectMapper JSON = new ObjectMapper();

    /** What has postings: a column, or an index of one term. */
    private record Indexed(String id, String keyType) {}

    /** The claim of a data file: its rows are positions from `base` on of a row space. */
    private record DataFile(String path, String space, long base, long rows, List<String> columns, String hidden) {}

    private record Posting(String column, String keyType, byte[] key, RoaringBitmap rows) {}

    private final Path index;
    private final Map<String, Indexed> names = new HashMap<>();
    private final List<DataFile> files = new ArrayList<>();
    private final Map<String, RoaringBitmap> hiddenRows = new HashMap<>();
    /** Row space to its postings. */
    private final Map<String, List<Posting>> postings = new TreeMap<>();
    private final Map<String, List<String>> live;
    /** The version of the source that answers are of. */
    private final Long covered;
    private final boolean counted;

    public IndexReader(Path index) throws IOException {
        this.index = index;
        live = liveFiles(index);
        readSettings();
        Group ledger = newest(read("ledger"), row -> "").get("");
        covered = number(ledger, "covered");
        counted = "complete".equals(text(ledger, "state")) && number(ledger, "uncounted") == 0;
        for (Group row : newest(read("files"), file -> text(file, "path")).values()) {
            if (number(row, "left") == null && number(row, "lineage").equals(number(ledger, "lineage"))) {
                String space = text(row, "space"), hidden = text(row, "hidden");
                long base = space == null ? 0 : number(row, "base"), rows = space == null ? 0 : number(row, "rows");
                files.add(new DataFile(text(row, "path"), space, base, rows, texts(row, "columns"), hidden));
            }
        }
        for (Group row : read("hidden_rows")) hiddenRows.put(text(row, "id"), bitmap(bytes(row, "bitmap")));
        for (Group row : read("bitmap_index")) {
            Posting posting = new Posting(text(row, "column"), text(row, "key_type"), keyOf(row), rowsOf(row));
            postings.computeIfAbsent(text(row, "space"), space -> new ArrayList<>()).add(posting);
        }
    }

    private void readSettings() throws IOException {
        Group settings = newest(read("settings"), row -> "").get("");
        long format = number(settings, "format");
        if (format < OLDEST || format > NEWEST) {
            throw new IllegalArgumentException("an index of format " + format + ": this reads " + OLDEST + " to " + NEWEST);
        }
        for (Group column : groups(settings, "indexed")) {
            names.put(text(column, "label"), new Indexed(text(column, "id"), text(column, "key_type")));
        }
        for (Group definition : groups(settings, "definitions")) {
            List<Group> terms = groups(definition, "terms");
            String kind = text(definition, "kind");
            if (terms.size() == 1 && (kind.equals("bitmap") || kind.equals("record_key"))) {
                Indexed indexed = new Indexed(text(definition, "id"), text(terms.get(0), "key_type"));
                names.putIfAbsent(text(terms.get(0), "text"), indexed);
            }
        }
    }

    // ---- Delta and Parquet

    /** The live Parquet files of the index, by kind: its newest log checkpoint, and the commits after it. */
    private static Map<String, List<String>> liveFiles(Path index) throws IOException {
        Path log = index.resolve("_delta_log");
        List<String> names;
        try (Stream<Path> found = Files.list(log)) {
            names = found.map(file -> file.getFileName().toString()).sorted().toList();
        }
        TreeSet<String> paths = new TreeSet<>();
        String start = "";
        List<String> checkpoints = names.stream().filter(name -> name.matches("\\d{20}\\.checkpoint\\.parquet")).toList();
        if (!checkpoints.isEmpty()) {
            String checkpoint = checkpoints.get(checkpoints.size() - 1);
            start = checkpoint.substring(0, 20) + ".json";
            for (Group row : rows(log.resolve(checkpoint))) {
                if (has(row, "add")) {
                    paths.add(text(row.getGroup("add", 0), "path"));
                }
            }
        }
        for (String name : names) {
            if (name.matches("\\d{20}\\.json") && name.compareTo(start) > 0) {
                for (String line : Files.readAllLines(log.resolve(name))) {
                    JsonNode action = JSON.readTree(line);
                    if (action.has("remove")) {
                        paths.remove(action.get("remove").get("path").asText());
                    } else if (action.has("add")) {
                        paths.add(action.get("add").get("path").asText());
                    }
                }
            }
        }
        Map<String, List<String>> byKind = new HashMap<>();
        for (String path : paths) {
            String decoded = URI.create(path).getPath();
            String kind = decoded.substring("kind=".length(), decoded.indexOf('/'));
            byKind.computeIfAbsent(kind, any -> new ArrayList<>()).add(decoded);
        }
        return byKind;
    }

    private List<Group> read(String kind) throws IOException {
        List<Group> all = new ArrayList<>();
        for (String path : live.getOrDefault(kind, List.of())) {
            all.addAll(rows(index.resolve(path)));
        }
        return all;
    }

    private static List<Group> rows(Path file) throws IOException {
        List<Group> rows = new ArrayList<>();
        ParquetReadOptions options = ParquetReadOptions.builder(new PlainParquetConfiguration()).build();
        try (ParquetFileReader reader = ParquetFileReader.open(new LocalInputFile(file), options)) {
            MessageType schema = reader.getFileMetaData().getSchema();
            for (PageReadStore pages; (pages = reader.readNextRowGroup()) != null; ) {
                RecordReader<Group> records =
                        new ColumnIOFactory().getColumnIO(schema).getRecordReader(pages, new GroupRecordConverter(schema));
                for (long row = 0; row < pages.getRowCount(); row++) {
                    rows.add(records.read());
                }
            }
        }
        return rows;
    }

    private static Map<String, Group> newest(List<Group> rows, Function<Group, String> name) {
        Map<String, Group> newest = new LinkedHashMap<>();
        for (Group row : rows) {
            newest.merge(name.apply(row), row, (a, b) -> number(a, "seq") >= number(b, "seq") ? a : b);
        }
        return newest;
    }

    private static boolean has(Group row, String column) {
        return row.getType().containsField(column) && row.getFieldRepetitionCount(column) > 0;
    }

    private static String text(Group row, String column) {
        return has(row, column) ? row.getString(column, 0) : null;
    }

    private static byte[] bytes(Group row, String column) {
        return has(row, column) ? row.getBinary(column, 0).getBytes() : null;
    }

    private static Long number(Group row, String column) {
        return has(row, column) ? row.getLong(column, 0) : null;
    }

    /** The elements of a list of three levels: the list, its repeated entries, the value of each. */
    private static List<Group> entries(Group row, String column) {
        List<Group> entries = new ArrayList<>();
        if (has(row, column)) {
            Group list = row.getGroup(column, 0);
            for (int at = 0; at < list.getFieldRepetitionCount(0); at++) {
                entries.add(list.getGroup(0, at));
            }
        }
        return entries;
    }

    private static List<Group> groups(Group row, String column) {
        return entries(row, column).stream().map(entry -> entry.getGroup(0, 0)).toList();
    }

    private static List<String> texts(Group row, String column) {
        return entries(row, column).stream().map(entry -> entry.getString(0, 0)).toList();
    }

    // ---- postings

    private static RoaringBitmap bitmap(byte[] portable) throws IOException {
        RoaringBitmap rows = new RoaringBitmap();
        rows.deserialize(ByteBuffer.wrap(portable));
        return rows;
    }

    private static RoaringBitmap rowsOf(Group row) throws IOException {
        if (has(row, "bitmap")) {
            return bitmap(bytes(row, "bitmap"));
        }
        int count = Math.toIntExact(number(row, "cardinality"));
        int[] gaps = new int[count];
        gaps[0] = row.getInteger("first", 0);
        for (int part = 0; part < 4; part++) {
            byte[] some = bytes(row, "gaps_" + part);
            for (int at = 0; some != null && at < some.length; at++) {
                gaps[at + 1] += (some[at] & 0xFF) << 8 * part;
            }
        }
        Arrays.parallelPrefix(gaps, Integer::sum);
        return RoaringBitmap.bitmapOf(gaps);
    }

    /** The key of a posting, null for NULL: of a record key it may stand as a number, or as the digits of a UUID. */
    private static byte[] keyOf(Group row) {
        if (has(row, "number")) {
            return bytesOf(row.getLong("number", 0) ^ Long.MIN_VALUE);
        }
        byte[] uuid = bytes(row, "uuid");
        if (uuid != null) {
            String digits = HexFormat.of().formatHex(uuid);
            return digits.replaceFirst("(.{8})(.{4})(.{4})(.{4})", "$1-$2-$3-$4-").getBytes(StandardCharsets.US_ASCII);
        }
        return bytes(row, "key");
    }

    // ---- keys

    private static byte[] bytesOf(long value) {
        return ByteBuffer.allocate(8).putLong(value).array();
    }

    /** The key of a written value. */
    private static byte[] encode(String keyType, String literal) {
        if (keyType.startsWith("decimal(")) {
            int scale = Integer.parseInt(keyType.substring(8, keyType.length() - 1));
            byte[] unscaled = new BigDecimal(literal).setScale(scale).unscaledValue().toByteArray();
            byte[] key = new byte[16];
            Arrays.fill(key, 0, 16 - unscaled.length, (byte) (unscaled[0] < 0 ? 0xFF : 0));
            System.arraycopy(unscaled, 0, key, 16 - unscaled.length, unscaled.length);
            key[0] ^= (byte) 0x80;
            return key;
        }
        if (keyType.startsWith("char(")) {
            int length = Integer.parseInt(keyType.substring(5, keyType.length() - 1));
            String value = quoted(literal, "");
            return shortened((value + " ".repeat(Math.max(0, length - value.length()))).getBytes(StandardCharsets.UTF_8));
        }
        switch (keyType) {
            case "boolean":
                return new byte[] {(byte) (Boolean.parseBoolean(literal) ? 1 : 0)};
            case "integer":
                return bytesOf(Long.parseLong(literal) ^ Long.MIN_VALUE);
            case "double":
                long bits = Double.doubleToLongBits(Double.parseDouble(literal) + 0.0);
                return bytesOf(bits < 0 ? ~bits : bits ^ Long.MIN_VALUE);
            case "string":
                return shortened(quoted(literal, "").getBytes(StandardCharsets.UTF_8));
            case "binary":
                return shortened(HexFormat.of().parseHex(quoted(literal, "X")));
            case "date":
                return bytesOf(LocalDate.parse(quoted(literal, "DATE")).toEpochDay() ^ Long.MIN_VALUE);
            case "timestamp":
            case "timestamp_ntz":
                String moment = quoted(literal, "TIMESTAMP(?:_NTZ)?").replace(' ', 'T');
                Instant instant = Instant.parse(moment.endsWith("Z") ? moment : moment + "Z");
                return bytesOf(ChronoUnit.MICROS.between(Instant.EPOCH, instant) ^ Long.MIN_VALUE);
            default:
                throw new IllegalArgumentException("keys of type " + keyType + " are not compared");
        }
    }

    private static String quoted(String literal, String word) {
        Matcher found = Pattern.compile("(?i:" + word + ")\\s*'((?:[^']|'')*)'").matcher(literal);
        if (!found.matches()) {
            throw new IllegalArgumentException("expected " + word + "'...', found " + literal);
        }
        return found.group(1).replace("''", "'");
    }

    /** The value of a key, as text; of a string, the string. Of a shortened one, what the key has of it: begin and hash. */
    private static Object decode(String keyType, byte[] key) {
        if (key == null) {
            return null;
        }
        if (keyType.startsWith("decimal(")) {
            byte[] unscaled = key.clone();
            unscaled[0] ^= (byte) 0x80;
            int scale = Integer.parseInt(keyType.substring(8, keyType.length() - 1));
            return new BigDecimal(new BigInteger(unscaled), scale).toPlainString();
        }
        if (keyType.equals("string") || keyType.startsWith("char(")) {
            String begin = new String(key, 0, Math.min(key.length, SHORTENED), StandardCharsets.UTF_8);
            return key.length > SHORTENED ? begin + "#" + HexFormat.of().formatHex(key, SHORTENED, key.length) : begin;
        }
        if (keyType.equals("boolean")) {
            return key[0] == 1;
        }
        if (keyType.equals("binary") || keyType.contains("(")) {
            return HexFormat.of().formatHex(key);
        }
        long value = ByteBuffer.wrap(key).getLong();
        switch (keyType) {
            case "date":
                return LocalDate.ofEpochDay(value ^ Long.MIN_VALUE).toString();
            case "timestamp":
            case "timestamp_ntz":
                return Instant.EPOCH.plus(value ^ Long.MIN_VALUE, ChronoUnit.MICROS).toString();
            case "double":
                return Double.longBitsToDouble(value < 0 ? value ^ Long.MIN_VALUE : ~value);
            default:
                return value ^ Long.MIN_VALUE;
        }
    }

    private static byte[] shortened(byte[] value) {
        if (value.length <= SHORTENED) {
            return value;
        }
        byte[] key = Arrays.copyOf(value, SHORTENED + 16);
        System.arraycopy(blake2b(value, 16), 0, key, SHORTENED, 16);
        return key;
    }

    private static final long[] IV = {
        0x6A09E667F3BCC908L, 0xBB67AE8584CAA73BL, 0x3C6EF372FE94F82BL, 0xA54FF53A5F1D36F1L,
        0x510E527FADE682D1L, 0x9B05688C2B3E6C1FL, 0x1F83D9ABFB41BD6BL, 0x5BE0CD19137E2179L
    };
    private static final String[] SIGMA = {
        "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
        "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0"
    };

    /** BLAKE2b of RFC 7693 without a key, which the JDK has not. */
    private static byte[] blake2b(byte[] value, int size) {
        long[] state = IV.clone();
        state[0] ^= 0x01010000L ^ size;
        int blocks = Math.max(1, (value.length + 127) / 128);
        ByteBuffer data = ByteBuffer.wrap(Arrays.copyOf(value, blocks * 128)).order(ByteOrder.LITTLE_ENDIAN);
        for (int block = 0; block < blocks; block++) {
            boolean last = block == blocks - 1;
            long[] v = Arrays.copyOf(state, 16);
            System.arraycopy(IV, 0, v, 8, 8);
            v[12] ^= last ? value.length : (block + 1) * 128L;
            v[14] ^= last ? -1 : 0;
            for (int round = 0; round < 12; round++) {
                String order = SIGMA[round % 10];
                for (int at = 0; at < 8; at++) {
                    int turn = at < 4 ? 0 : 1;
                    int a = at % 4, b = 4 + (at + turn) % 4, c = 8 + (at + 2 * turn) % 4, d = 12 + (at + 3 * turn) % 4;
                    long x = data.getLong(block * 128 + 8 * Character.digit(order.charAt(2 * at), 16));
                    long y = data.getLong(block * 128 + 8 * Character.digit(order.charAt(2 * at + 1), 16));
                    v[a] += v[b] + x;
                    v[d] = Long.rotateRight(v[d] ^ v[a], 32);
                    v[c] += v[d];
                    v[b] = Long.rotateRight(v[b] ^ v[c], 24);
                    v[a] += v[b] + y;
                    v[d] = Long.rotateRight(v[d] ^ v[a], 16);
                    v[c] += v[d];
                    v[b] = Long.rotateRight(v[b] ^ v[c], 63);
                }
            }
            for (int at = 0; at < 8; at++) {
                state[at] ^= v[at] ^ v[at + 8];
            }
        }
        ByteBuffer digest = ByteBuffer.allocate(64).order(ByteOrder.LITTLE_ENDIAN);
        for (long word : state) digest.putLong(word);
        return Arrays.copyOf(digest.array(), size);
    }

    // ---- conditions

    private static final Pattern TEST = Pattern.compile(
            "(?i)\\s*(?:array_contains\\((?<array>[^,]+),\\s*(?<element>'(?:[^']|'')*'|[^)]+)\\)"
                    + "|(?<term>\\w+\\([^)]*\\)|[\\w.]+)\\s*(?:(?<null>IS\\s+NULL)"
                    + "|(?<op>=|<=|>=|<|>)\\s*(?<value>(?:[A-Z_]+\\s*)?'(?:[^']|'')*'|[^\\s']+)))\\s*(?<and>AND\\b|$)");

    /** A test of the postings of one column: `exact` is false where equal keys only may mean equal values. */
    private record Test(Indexed column, Predicate<Posting> holds, boolean exact) {}

    private Indexed indexed(String name) {
        Indexed found = names.get(name.trim());
        if (found == null) {
            throw new IllegalArgumentException("no postings of " + name + ", only of " + new TreeSet<>(names.keySet()));
        }
        return found;
    }

    private List<Test> parse(String condition) {
        List<Test> tests = new ArrayList<>();
        if (condition.isBlank() || condition.trim().equalsIgnoreCase("TRUE")) {
            return tests;
        }
        Matcher found = TEST.matcher(condition);
        int end = 0;
        boolean more = true;
        while (more) {
            if (!found.find(end) || found.start() != end) {
                throw new IllegalArgumentException("not understood: " + condition.substring(end));
            }
            end = found.end();
            more = !found.group("and").isEmpty();
            tests.add(test(found));
        }
        return tests;
    }

    private Test test(Matcher found) {
        String array = found.group("array");
        if (array != null) {
            String type = indexed(array).keyType();
            String ofElements = type.substring("elements(".length(), type.length() - 1);
            byte[] element = encode(ofElements, found.group("element"));
            byte[] key = new byte[element.length + 1];
            key[0] = 2;
            System.arraycopy(element, 0, key, 1, element.length);
            return new Test(indexed(array), posting -> Arrays.equals(posting.key(), key), element.length <= SHORTENED);
        }
        Indexed column = indexed(found.group("term"));
        if (found.group("null") != null) {
            return new Test(column, posting -> posting.key() == null, true);
        }
        String literal = found.group("value"), operator = found.group("op");
        Map<String, byte[]> keys = new HashMap<>();
        keys.put(column.keyType(), encode(column.keyType(), literal));
        Predicate<Posting> holds = posting -> {
            byte[] value = keys.computeIfAbsent(posting.keyType(), type -> encode(type, literal));
            return posting.key() != null && holds(operator, posting.key(), value);
        };
        return new Test(column, holds, keys.get(column.keyType()).length <= SHORTENED);
    }

    private static boolean holds(String operator, byte[] key, byte[] value) {
        int order = Arrays.compareUnsigned(key, value);
        return switch (operator) {
            case "=" -> order == 0;
            case "<" -> order < 0 || unordered(key, value);
            case "<=" -> order <= 0 || unordered(key, value);
            case ">" -> order > 0 || unordered(key, value);
            default -> order >= 0 || unordered(key, value);
        };
    }

    /** Whether both were shortened to the same bytes: what follows decides, and the index has not got it. */
    private static boolean unordered(byte[] a, byte[] b) {
        return a.length > SHORTENED && b.length > SHORTENED && Arrays.equals(a, 0, SHORTENED, b, 0, SHORTENED);
    }

    /** What was found: per file the rows, the files whose data must be read, and whether rows must be compared again. */
    public record Answer(Map<String, int[]> rows, List<String> scan, boolean recheck) {}

    /** The rows where a condition is TRUE, in the files that the index covers for it. */
    public Answer where(String condition) {
        List<Test> tests = parse(condition);
        Map<String, int[]> rows = new TreeMap<>();
        List<String> scan = new ArrayList<>();
        for (DataFile file : files) {
            RoaringBitmap found = matching(file, tests, tests.stream().map(Test::column).toList());
            if (found == null) {
                scan.add(file.path());
            } else if (!found.isEmpty()) {
                rows.put(file.path(), RoaringBitmap.addOffset(found, -file.base()).toArray());
            }
        }
        return new Answer(rows, scan, tests.stream().anyMatch(test -> !test.exact()));
    }

    /** Visible rows of a file where tests hold, as positions of its row space; null if the index does not cover them. */
    private RoaringBitmap matching(DataFile file, List<Test> tests, List<Indexed> columns) {
        boolean isCovered = file.space() != null && columns.stream().allMatch(one -> file.columns().contains(one.id()));
        boolean isWhole = file.hidden() == null || file.hidden().isEmpty();
        RoaringBitmap hidden = isWhole ? new RoaringBitmap() : hiddenRows.get(file.hidden());
        if (!isCovered || hidden == null) {
            return null;
        }
        RoaringBitmap claim = RoaringBitmap.bitmapOfRange(file.base(), file.base() + file.rows());
        RoaringBitmap found = RoaringBitmap.andNot(claim, RoaringBitmap.addOffset(hidden, file.base()));
        List<Posting> all = postings.getOrDefault(file.space(), List.of());
        for (Indexed column : columns) {
            String raised = column.id() + "#raised";
            if (all.stream().anyMatch(one -> one.column().equals(raised) && RoaringBitmap.intersects(one.rows(), claim))) {
                return null;
            }
        }
        for (Test test : tests) {
            RoaringBitmap some = new RoaringBitmap();
            for (Posting posting : all) {
                if (posting.column().equals(test.column().id()) && test.holds().test(posting)) {
                    some.or(posting.rows());
                }
            }
            found.and(some);
        }
        return found;
    }

    /** Pairs of a value of a column and how many rows have it, where a condition is TRUE: the most frequent first. */
    public List<List<Object>> facets(String term, String condition) throws IOException {
        Indexed column = indexed(term);
        List<Test> tests = parse(condition);
        List<Indexed> columns = new ArrayList<>(tests.stream().map(Test::column).toList());
        columns.add(column);
        Map<Object, Long> counts = new HashMap<>();
        for (DataFile file : files) {
            RoaringBitmap found = matching(file, tests, columns);
            if (found == null) {
                throw new IllegalStateException("the data of " + file.path() + " must be read");
            }
            for (Posting posting : postings.getOrDefault(file.space(), List.of())) {
                int count = posting.column().equals(column.id()) ? RoaringBitmap.andCardinality(found, posting.rows()) : 0;
                if (count > 0) {
                    counts.merge(decode(posting.keyType(), posting.key()), (long) count, Long::sum);
                }
            }
        }
        Map<Object, Long> recorded = tests.isEmpty() && counted ? recorded(column) : Map.of();
        if (!recorded.isEmpty() && !counts.equals(recorded)) {  // of some definitions nothing is recorded
            throw new IllegalStateException("the value counts of " + term + " are " + recorded + ", not " + counts);
        }
        Comparator<Map.Entry<Object, Long>> byCount = Map.Entry.comparingByValue(Comparator.reverseOrder());
        return counts.entrySet().stream()
                .sorted(byCount.thenComparing(entry -> String.valueOf(entry.getKey())))
                .map(entry -> Arrays.asList(entry.getKey(), (Object) entry.getValue()))
                .toList();
    }

    /** The visible rows per value of a column, as they are recorded. */
    private Map<Object, Long> recorded(Indexed column) throws IOException {
        Map<Object, Long> counts = new HashMap<>();
        for (Group row : read("value_counts")) {
            if (text(row, "column").equals(column.id())) {
                counts.merge(decode(text(row, "key_type"), bytes(row, "key")), number(row, "delta"), Long::sum);
            }
        }
        counts.values().removeIf(count -> count == 0);
        return counts;
    }

    private static final Pattern FACETS = Pattern.compile("(?i)facets\\s+(.+?)\\s+where\\s+(.+)");

    /** Answers questions, given one by one or as lines of the input: a condition, or {@code FACETS term WHERE condition}. */
    public static void main(String[] arguments) throws IOException {
        if (arguments.length == 0) {
            throw new IllegalArgumentException("IndexReader INDEX [CONDITION or FACETS term WHERE condition]...");
        }
        IndexReader reader = new IndexReader(Path.of(arguments[0]));
        List<String> questions = new ArrayList<>(List.of(arguments).subList(1, arguments.length));
        if (questions.isEmpty()) {
            questions.addAll(new String(System.in.readAllBytes(), StandardCharsets.UTF_8).lines().toList());
        }
        for (String question : questions) {
            Matcher facets = FACETS.matcher(question);
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("version", reader.covered);
            if (facets.matches()) {
                told.put("facets", reader.facets(facets.group(1), facets.group(2)));
            } else {
                Answer answer = reader.where(question);
                told.put("rows", answer.rows());
                told.put("scan", answer.scan());
                told.put("recheck", answer.recheck());
            }
            System.out.write(JSON.writeValueAsBytes(told));
            System.out.println();
        }
    }
}
