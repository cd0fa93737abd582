import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools by their main methods, many in one JVM, as most of a tool's time is the JVM's start.
 * One line of JSON says which and with what, one line says how it ended and what it printed.
 */
public final class ToolShell {
    /** What the tool would have ended the JVM with. */
    private static final class Ended extends RuntimeException {
        final int status;

        Ended(int status) {
            super("", null, false, false); // tools print what they catch; of this there is nothing to print
            this.status = status;
        }

        @Override
        public String toString() {
            return "";
        }
    }

    private static final List<Runnable> HOOKS = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        PrintStream log = System.err;
        int[] first = {-1};
        Exit.Procedure end = (status, message) -> {
            if (message != null) {
                System.err.println(message);
            }
            if (first[0] < 0) {
                first[0] = status; // tools that catch everything would end once more
            }
            throw new Ended(first[0]);
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            first[0] = -1;
            answers.println(json.writeValueAsString(run(json.readTree(line), log)));
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> run(JsonNode request, PrintStream log) throws Exception {
        String[] arguments = new String[request.get("arguments").size()];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = request.get("arguments").get(i).asText();
        }
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        PrintStream printed = new PrintStream(output, true, "UTF-8");
        System.setIn(new ByteArrayInputStream(request.get("input").asText().getBytes(StandardCharsets.UTF_8)));
        System.setOut(printed);
        System.setErr(new PrintStream(errors, true, "UTF-8"));
        int status = 0;
        try {
            // Scala's Console keeps the streams that it found first.
            scala.Console.withOut(printed, () -> {
                try {
                    Class.forName(request.get("main").asText())
                            .getMethod("main", String[].class)
                            .invoke(null, (Object) arguments);
                } catch (ReflectiveOperationException error) {
                    throw new RuntimeException(error);
                }
                return null;
            });
        } catch (RuntimeException error) {
            Throwable cause = error;
            while (cause.getCause() != null && !(cause instanceof Ended)) {
                cause = cause.getCause();
            }
            status = cause instanceof Ended ? ((Ended) cause).status : 1;
            if (!(cause instanceof Ended)) {
                cause.printStackTrace();
            }
        } finally {
            HOOKS.forEach(Runnable::run);
            HOOKS.clear();
            System.setOut(log);
            System.setErr(log);
        }
        Map<String, Object> ending = new HashMap<>();
        ending.put("status", status);
        ending.put("output", output.toString("UTF-8"));
        ending.put("errors", errors.toString("UTF-8"));
        Map<String, Object> answer = new HashMap<>();
        answer.put("answer", ending);
        return answer;
    }
}
