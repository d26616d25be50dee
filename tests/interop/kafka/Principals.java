import java.io.ByteArrayInputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Says who the client of a certificate is: on each line of the input rules, a tab, and a certificate in base64. */
public class Principals {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] parts = line.split("\t");
            byte[] der = Base64.getDecoder().decode(parts[1]);
            X509Certificate certificate = (X509Certificate) CertificateFactory.getInstance("X.509")
                .generateCertificate(new ByteArrayInputStream(der));
            String name = certificate.getSubjectX500Principal().getName();
            try {
                out.println("= " + SslPrincipalMapper.fromRules(parts[0]).getName(name));
            } catch (Exception problem) {
                out.println("! " + problem.getClass().getSimpleName());
            }
        }
    }
}
