// Prints message sets as Apache Kafka's own classes make them, as JSON; see tests/support/records/write_golden.py.

import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;

public class GoldenMessageSets {
    static final long[] TIMES = {1_700_000_000_000L, 1_700_000_000_007L, 1_699_999_999_999L, 1_700_000_060_000L};
    static final byte[][] KEYS = {"key".getBytes(), null, new byte[0], new byte[3]};
    static final byte[][] VALUES = {"value".getBytes(), new byte[0], null, "abcdefgh".repeat(20).getBytes()};
    static final long BASE = 100;
    static final long APPENDED = 1_700_000_099_000L;

    static MemoryRecords records(byte magic, CompressionType codec, TimestampType type) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(4096), magic, Compression.of(codec).build(), type, BASE, APPENDED);
        Header[] headers = magic < 2 ? new Header[0] : new Header[] {new RecordHeader("h", new byte[] {1})};
        for (int i = 0; i < TIMES.length; i++)
            builder.appendWithOffset(BASE + i, TIMES[i], KEYS[i], VALUES[i], headers);
        return builder.build();
    }

    static String hex(MemoryRecords records) {
        ByteBuffer buffer = records.buffer().duplicate();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static String separator = "";

    static void print(String made, int magic, CompressionType codec, TimestampType type, String from, MemoryRecords records) {
        System.out.printf("%s{\"made\": \"%s\", \"magic\": %d, \"codec\": %d, \"log_append_time\": %b, \"from\": %s, \"bytes\": \"%s\"}",
            separator, made, magic, codec.id, type == TimestampType.LOG_APPEND_TIME, from, hex(records));
        separator = ",\n";
    }

    public static void main(String[] arguments) {
        CompressionType[] codecs = {CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4};
        System.out.println("[");
        for (TimestampType type : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}) {
            for (CompressionType codec : codecs) {
                for (byte magic = 0; magic < 2; magic++)
                    print("written", magic, codec, type, "null", records(magic, codec, type));
                for (byte from = 1; from <= 2; from++) {
                    MemoryRecords source = records(from, codec, type);
                    for (byte magic = 0; magic < from; magic++) {
                        MemoryRecords converted = (MemoryRecords) source.downConvert(magic, BASE + 2, Time.SYSTEM).records();
                        print("converted", magic, codec, type, "\"" + hex(source) + "\"", converted);
                    }
                }
            }
        }
        System.out.println("\n]");
    }
}
