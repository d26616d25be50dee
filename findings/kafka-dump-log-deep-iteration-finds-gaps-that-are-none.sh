#!/usr/bin/env bash
# Apache Kafka 4.4.0, kafka-dump-log --deep-iteration: "Non-consecutive offsets" of every sound segment that begins above 0.
#
# The tool compares the first record of a file with "the offset before", which it takes for -1, and not with the base
# offset in the file's name. So it reports a gap in each segment but a partition's first one, whoever wrote it. Without
# --deep-iteration it reports none. A script that takes any line of the error stream for damage finds all logs damaged.
#
# Seen (a segment of two records at 171 and 172, written with Kafka's own MemoryRecords):
#   Non-consecutive offsets in …/00000000000000000171.log
#     -1 is followed by 171
#
# Needs a JDK 17 and Maven. Exits with 0 while this holds, and with 1 if it has changed. Takes about 20 s.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

cat > "$directory/pom.xml" <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>a</groupId><artifactId>a</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>4.4.0</version></dependency>
  </dependencies>
</project>
POM
mvn --quiet --file "$directory/pom.xml" dependency:copy-dependencies -DoutputDirectory="$directory/jars"

cat > "$directory/Write.java" <<'JAVA'
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;

class Write {
    public static void main(String[] arguments) throws Exception {
        var records = MemoryRecords.withRecords(
            171L, Compression.NONE, new SimpleRecord("one".getBytes()), new SimpleRecord("two".getBytes()));
        var bytes = new byte[records.sizeInBytes()];
        records.buffer().get(bytes);
        Files.write(Path.of(arguments[0]), bytes);
    }
}
JAVA
segment="$directory/00000000000000000171.log"
java -cp "$directory/jars/*" "$directory/Write.java" "$segment"
dump() { java -cp "$directory/jars/*" org.apache.kafka.tools.DumpLogSegments "$@" --files "$segment" 2>&1; }
deep=$(dump --deep-iteration)
shallow=$(dump)
printf '%s\n' "$deep"

grep -q 'baseOffset: 171 lastOffset: 172 count: 2 .* isvalid: true' <<< "$deep"
grep -q 'Non-consecutive offsets in ' <<< "$deep"
grep -q -- '-1 is followed by 171' <<< "$deep"
if grep -q 'Non-consecutive' <<< "$shallow"; then exit 1; fi
