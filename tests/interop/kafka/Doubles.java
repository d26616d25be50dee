import java.io.BufferedReader;
import java.io.InputStreamReader;

/** Prints its own version, and then Double.toString of each double that is asked for by its bits in hex, one a line. */
public final class Doubles {
    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder(System.getProperty("java.specification.version")).append('\n');
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String bits = in.readLine(); bits != null; bits = in.readLine()) {
            out.append(Double.longBitsToDouble(Long.parseUnsignedLong(bits, 16))).append('\n');
        }
        System.out.print(out);
    }
}
