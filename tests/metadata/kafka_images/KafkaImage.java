import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Asks a Kafka release: a line of records as hex goes in, the line of records of its checkpoint comes out. */
public class KafkaImage {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            MetadataImage image = MetadataImage.EMPTY;
            for (String hex : line.split(" ")) {
                MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
                delta.replay(decode(hex).message());
                image = delta.apply(new MetadataProvenance(0, 0, 0, true));
            }
            System.out.println(String.join(" ", checkpoint(image)));
        }
    }

    private static ApiMessageAndVersion decode(String hex) {
        byte[] value = HexFormat.of().parseHex(hex);
        return MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(ByteBuffer.wrap(value)), value.length);
    }

    private static List<String> checkpoint(MetadataImage image) {
        RecordListWriter writer = new RecordListWriter();
        image.write(writer, new ImageWriterOptions.Builder(image).setLossHandler(loss -> { }).build());
        List<String> values = new ArrayList<>();
        for (ApiMessageAndVersion record : writer.records()) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer value = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
            MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(value));
            values.add(HexFormat.of().formatHex(value.array()));
        }
        return values;
    }
}
