import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * Asks a library of regular expressions, by its package, for matches: those of a method of its Matcher. The first line
 * of the input has the names, with blanks between them; every further line is an expression in base 64. The answer to it
 * is a line: a digit per name, 1 for a match, or "no" and why it is no expression.
 */
public class JavaPatterns {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, "UTF-8");
        Class<?> library = Class.forName(arguments[0] + ".Pattern");
        Method compile = library.getMethod("compile", String.class);
        Method matcher = library.getMethod("matcher", CharSequence.class);
        Method matches = Class.forName(arguments[0] + ".Matcher").getMethod(arguments[1]);
        String[] names = input.readLine().split(" ", -1);
        String line;
        while ((line = input.readLine()) != null) {
            String expression = new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
            try {
                Object pattern = compile.invoke(null, expression);
                StringBuilder answer = new StringBuilder();
                for (String name : names) {
                    answer.append((boolean) matches.invoke(matcher.invoke(pattern, name)) ? '1' : '0');
                }
                output.println(answer);
            } catch (InvocationTargetException thrown) {
                Throwable error = thrown.getCause();
                Object why = error.getClass().getMethod("getDescription").invoke(error);
                output.println("no " + why.toString().replace('\n', ' '));
            }
        }
        output.flush();
    }
}
