// What a release's classes say and its message JSON does not: the error codes, and the control record types.
import java.util.List;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

public class Constants {
    /** The class has moved between releases. */
    private static final List<String> CONTROL_RECORD_TYPES = List.of(
        "org.apache.kafka.common.record.internal.ControlRecordType",
        "org.apache.kafka.common.record.ControlRecordType");

    public static void main(String[] arguments) throws Exception {
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            System.out.println("error\t" + error.code() + "\t" + error.name() + "\t" + retriable);
        }
        for (Object type : controlRecordTypes().getEnumConstants()) {
            System.out.println("control\t" + type.getClass().getMethod("type").invoke(type) + "\t" + type);
        }
    }

    private static Class<?> controlRecordTypes() throws ClassNotFoundException {
        for (String name : CONTROL_RECORD_TYPES) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(CONTROL_RECORD_TYPES.toString());
    }
}
