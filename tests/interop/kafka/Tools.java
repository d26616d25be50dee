import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

/**
 * Runs Kafka's command-line tools one after the other in one JVM, as a JVM takes seconds to start: a JSON array a
 * line on standard input, the main class and its arguments; one answer a line on standard output,
 * `{"status": 0, "out": "...", "error": "..."}`. A tool that ends the process by Kafka's own `Exit` ends its call;
 * what a tool says after that, because it caught what ends the call, does not count.
 */
public final class Tools {
    static final ObjectMapper JSON = new ObjectMapper();
    static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    static final ByteArrayOutputStream ERROR = new ByteArrayOutputStream();
    static Map<String, Object> answer;

    public static void main(String[] none) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = System.out;
        // For good: what is written in Scala keeps the stream that it finds first.
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERROR, true, StandardCharsets.UTF_8));
        at("setExitProcedure", (proxy, method, arguments) -> end((int) arguments[0]));
        at("setHaltProcedure", (proxy, method, arguments) -> end((int) arguments[0]));
        at("setShutdownHookAdder", (proxy, method, arguments) -> null);
        for (String line; (line = lines.readLine()) != null; ) {
            run(JSON.readValue(line, String[].class));
            answers.println(JSON.writeValueAsString(answer));
        }
        Runtime.getRuntime().halt(0);
    }

    /** Gives a setter of `Exit` what it wants to be done instead. */
    static void at(String setter, InvocationHandler instead) throws ReflectiveOperationException {
        for (Method method : exit().getMethods()) {
            if (method.getName().equals(setter)) {
                Class<?> type = method.getParameterTypes()[0];
                method.invoke(null, Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, instead));
            }
        }
    }

    /** 4.4 has it in another package than the releases before. */
    static Class<?> exit() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException before) {
            return Class.forName("org.apache.kafka.common.utils.Exit");
        }
    }

    static void run(String[] line) throws Exception {
        answer = null;
        OUT.reset();
        ERROR.reset();
        var arguments = Arrays.copyOfRange(line, 1, line.length);
        try {
            Class.forName(line[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            note(0);
        } catch (InvocationTargetException thrown) {
            if (answer == null) thrown.getCause().printStackTrace();
            note(1);
        }
    }

    static Object end(int status) {
        note(status);
        throw new Error("the tool has ended");
    }

    /** The first of them counts. */
    static void note(int status) {
        if (answer == null) {
            answer = Map.of("status", status, "out", OUT.toString(StandardCharsets.UTF_8), "error", ERROR.toString(StandardCharsets.UTF_8));
        }
    }
}
