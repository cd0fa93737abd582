import java.util.Map;

/** The Java client of 0.10 administers nothing. */
final class Admin {
    static void addOperations(Map<String, Agent.Operation> operations) {
        // None.
    }
}
