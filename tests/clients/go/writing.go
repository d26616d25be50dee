package clients

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Codecs are those that a producer may have, in the order in which they are written.
var Codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

const (
	each    = 20
	beganMs = 1_700_000_000_000
	everyMs = 1_000
	large   = 500_000
	// TooLarge is beyond what a broker takes in one batch: 1,048,588 bytes.
	TooLarge = 2_000_000
	far      = 100_000
)

// A Record has one header, whose value says what it is.
type Record struct {
	Offset      int64
	Key, Value  []byte
	What        []byte
	TimestampMs int64
}

// How a producer writes.
type How struct {
	Codec      string
	Acks       int
	Idempotent bool
}

// A Writing is a library's producer and consumer of partition 0; tests/clients/writing.py says what each call is.
type Writing interface {
	Write(records []Record, how How) ([]int64, error)
	Bounds() (int64, int64, error)
	OffsetAt(timestampMs int64) (int64, error)
	Read(offset int64, count int) ([]Record, error)
	InGroup(count int) (int64, error)
}

// WritingSteps are those of writing.py.
func WritingSteps(client Writing) []Step {
	all := func(codec string) How { return How{Codec: codec, Acks: -1} }
	written := func(first int, what string, how How) Step {
		return Step{Name: what, Call: func() (any, error) { return span(client.Write(records(first, each, what), how)) }}
	}
	one := func(number int, value []byte) func() (any, error) {
		return func() (any, error) {
			those := records(number, 1, "one")
			those[0].Value = value
			return span(client.Write(those, all("none")))
		}
	}
	bounds := func() (any, error) {
		first, next, err := client.Bounds()
		return fmt.Sprintf("(%d, %d)", first, next), err
	}
	at := func(number int64) func() (any, error) {
		return func() (any, error) { return client.OffsetAt(beganMs + number) }
	}
	read := func(offset int64, count int) func() (any, error) {
		return func() (any, error) { return digest(client.Read(offset, count)) }
	}
	steps, next := []Step{}, 0
	for _, codec := range Codecs {
		steps = append(steps, written(next, "write with "+codec, all(codec)))
		next += each
	}
	unanswered, end := next, next+3*each
	return append(steps,
		Step{Name: "write with acks=0", Call: func() (any, error) {
			_, err := client.Write(records(unanswered, each, "acks=0"), How{Codec: "none"})
			return nil, err
		}},
		Step{Name: "where it ends", Call: bounds, Until: fmt.Sprintf("(0, %d)", next+each)},
		written(next+each, "write with acks=1", How{Codec: "none", Acks: 1}),
		written(next+2*each, "write idempotently", How{Codec: "none", Acks: -1, Idempotent: true}),
		Step{Name: "write a large one", Call: one(end, []byte(strings.Repeat("y", large)))},
		Step{Name: "write one that is too large", Call: one(end+1, []byte(strings.Repeat("z", TooLarge)))},
		Step{Name: "write one without a value", Call: one(end+1, nil)},
		Step{Name: "where it ends", Call: bounds, Until: fmt.Sprintf("(0, %d)", end+2)},
		Step{Name: "the offset of a time", Call: at(30*everyMs - 1)},
		Step{Name: "the offset of a time to come", Call: at(far * everyMs)},
		Step{Name: "read from the start", Call: read(0, end+2)},
		Step{Name: "read from the middle of a batch", Call: read(47, 60)},
		Step{Name: "read past the end", Call: read(far, 1)},
		Step{Name: "read what comes at the end", Call: func() (any, error) {
			if _, err := client.Write(records(end+2, 1, "the last"), all("none")); err != nil {
				return nil, err
			}
			return digest(client.Read(int64(end+2), 1))
		}},
		Step{Name: "read in a group", Call: func() (any, error) { return client.InGroup(end + 3) }},
	)
}

func records(first, count int, what string) []Record {
	found := []Record{}
	for number := first; number < first+count; number++ {
		found = append(found, Record{
			Key:         []byte(fmt.Sprint("key ", number)),
			Value:       []byte(fmt.Sprint(what, " ", number, " ", strings.Repeat("x", 100))),
			What:        []byte(what),
			TimestampMs: beganMs + int64(number)*everyMs,
		})
	}
	return found
}

func span(offsets []int64, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	for place, offset := range offsets {
		if offset != offsets[0]+int64(place) {
			return fmt.Sprint("not in a row: ", offsets), nil
		}
	}
	return fmt.Sprint(offsets[0], " to ", offsets[len(offsets)-1]), nil
}

func digest(read []Record, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, r := range read {
		fmt.Fprintf(sum, "%d %d %s %s %s\n", r.Offset, r.TimestampMs, r.Key, r.Value, r.What)
	}
	return fmt.Sprintf("%d records, %x", len(read), sum.Sum(nil)[:6]), nil
}
