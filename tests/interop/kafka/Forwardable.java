import org.apache.kafka.common.protocol.ApiKeys;

/** Prints the keys of the APIs that may be in an Envelope, one a line. */
public final class Forwardable {
    public static void main(String[] none) {
        for (var api : ApiKeys.values()) if (api.forwardable) System.out.println(api.id);
    }
}
