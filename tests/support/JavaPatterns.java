import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * Matches names with regular expressions as Kafka's group coordinator does. The first line of the input has the names,
 * with blanks between them; every further line is an expression in base 64. The answer to it is a line: a digit per
 * name, 1 for a match, or "no" and why it is no expression.
 */
public class JavaPatterns {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, "UTF-8");
        String[] names = input.readLine().split(" ", -1);
        String line;
        while ((line = input.readLine()) != null) {
            output.println(answer(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8), names));
        }
        output.flush();
    }

    private static String answer(String expression, String[] names) {
        try {
            Pattern pattern = Pattern.compile(expression);
            StringBuilder answer = new StringBuilder();
            for (String name : names) {
                answer.append(pattern.matcher(name).matches() ? '1' : '0');
            }
            return answer.toString();
        } catch (PatternSyntaxException error) {
            return "no " + error.getDescription();
        }
    }
}
