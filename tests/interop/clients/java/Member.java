import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** A consumer in a group: a thread that polls all the time and does what it is asked between two polls. */
final class Member extends Thread {
    private final KafkaConsumer<String, String> consumer;
    private List<Object> records = new ArrayList<>();
    private List<Object> assignment = new ArrayList<>();
    private boolean committing;
    private boolean leaving;
    private Throwable failure;

    Member(KafkaConsumer<String, String> consumer, List<String> topics) {
        this.consumer = consumer;
        consumer.subscribe(topics);
        setDaemon(true);
    }

    @Override
    public void run() {
        try {
            while (turn()) {
                // The next turn.
            }
        } catch (Throwable error) {
            synchronized (this) {
                failure = error;
                committing = false;
                notifyAll();
            }
        } finally {
            consumer.close();
        }
    }

    private boolean turn() {
        List<Object> polled = new ArrayList<>();
        for (ConsumerRecord<String, String> record : Compat.poll(consumer)) {
            polled.add(Agent.asJson(record));
        }
        synchronized (this) {
            records.addAll(polled);
            assignment = new ArrayList<>();
            for (TopicPartition item : consumer.assignment()) {
                assignment.add(Arrays.asList(item.topic(), item.partition()));
            }
            if (!committing) {
                return !leaving;
            }
        }
        consumer.commitSync();
        synchronized (this) {
            committing = false;
            notifyAll();
            return !leaving;
        }
    }

    synchronized Map<String, Object> look() throws Exception {
        raiseFailure();
        Map<String, Object> seen = new HashMap<>();
        seen.put("records", records);
        seen.put("assignment", assignment);
        records = new ArrayList<>();
        return seen;
    }

    synchronized Object commit() throws Exception {
        raiseFailure();
        committing = true;
        while (committing) {
            wait();
        }
        raiseFailure();
        return null;
    }

    Object leave() throws Exception {
        synchronized (this) {
            leaving = true;
        }
        join();
        raiseFailure();
        return null;
    }

    private void raiseFailure() throws Exception {
        if (failure != null) {
            throw new Exception(failure);
        }
    }
}
