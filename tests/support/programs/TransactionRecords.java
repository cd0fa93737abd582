import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.TreeSet;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogValue;

/**
 * Records of transactional ids as Apache Kafka's own classes write and read them. Fields stand in lines, with blanks
 * between them: the id in base 64, the producer's id, the one before and the next, its epoch, timeout, number of the
 * state, times of the start and of the last update, the client's version, and partitions such as "t:0,1;u:3" or "-".
 *
 * "write", a version and fields: answered by key and value in base 64. "read", key and value: answered by fields.
 */
public class TransactionRecords {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, "UTF-8");
        String line;
        while ((line = input.readLine()) != null) {
            String[] words = line.split(" ");
            output.println(words[0].equals("write") ? written(words) : read(words));
        }
        output.flush();
    }

    private static String written(String[] words) {
        short version = Short.parseShort(words[1]);
        String id = new String(Base64.getDecoder().decode(words[2].substring(1)), StandardCharsets.UTF_8);
        TransactionLogValue value = new TransactionLogValue()
            .setProducerId(Long.parseLong(words[3]))
            .setProducerEpoch(Short.parseShort(words[6]))
            .setTransactionTimeoutMs(Integer.parseInt(words[7]))
            .setTransactionStatus(Byte.parseByte(words[8]))
            .setTransactionStartTimestampMs(Long.parseLong(words[9]))
            .setTransactionLastUpdateTimestampMs(Long.parseLong(words[10]))
            .setTransactionPartitions(partitions(words[12]));
        if (version > 0) {
            value.setPreviousProducerId(Long.parseLong(words[4]))
                .setNextProducerId(Long.parseLong(words[5]))
                .setClientTransactionVersion(Short.parseShort(words[11]));
        }
        Base64.Encoder encoder = Base64.getEncoder();
        return encoder.encodeToString(TransactionLog.keyToBytes(id))
            + " " + encoder.encodeToString(MessageUtil.toVersionPrefixedBytes(version, value));
    }

    private static List<TransactionLogValue.PartitionsSchema> partitions(String text) {
        if (text.equals("-")) {
            return null;
        }
        List<TransactionLogValue.PartitionsSchema> found = new ArrayList<>();
        for (String topic : text.split(";")) {
            if (!topic.isEmpty()) {
                String[] parts = topic.split(":");
                found.add(new TransactionLogValue.PartitionsSchema()
                    .setTopic(parts[0])
                    .setPartitionIds(Arrays.stream(parts[1].split(",")).map(Integer::valueOf).toList()));
            }
        }
        return found;
    }

    private static String read(String[] words) {
        ByteBuffer key = ByteBuffer.wrap(Base64.getDecoder().decode(words[1]));
        ByteBuffer value = ByteBuffer.wrap(Base64.getDecoder().decode(words[2]));
        TransactionMetadata found = ((TransactionLog.TxnRecord) TransactionLog.read(key, value)).metadata();
        TreeSet<String> partitions = new TreeSet<>();
        found.topicPartitions().forEach(partition -> partitions.add(partition.topic() + ":" + partition.partition()));
        byte[] id = found.transactionalId().getBytes(StandardCharsets.UTF_8);
        return String.join(
            " ",
            "=" + Base64.getEncoder().encodeToString(id),
            String.valueOf(found.producerId()),
            String.valueOf(found.prevProducerId()),
            String.valueOf(found.prepareNoTransit().nextProducerId()),
            String.valueOf(found.producerEpoch()),
            String.valueOf(found.txnTimeoutMs()),
            String.valueOf(found.state().id()),
            String.valueOf(found.txnStartTimestamp()),
            String.valueOf(found.txnLastUpdateTimestamp()),
            String.valueOf(found.clientTransactionVersion().featureLevel()),
            String.join(";", partitions)
        );
    }
}
