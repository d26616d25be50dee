// Writes and reads by franz-go: franzrecords SERVERS TOPIC.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"quorate/clients"
)

const wait = 30 * time.Second

type franz struct {
	servers []string
	topic   string
}

func (f franz) client(more ...kgo.Opt) (*kgo.Client, *kadm.Client, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.servers...)}, more...)...)
	if err != nil {
		return nil, nil, err
	}
	return client, kadm.NewClient(client), nil
}

func (f franz) Write(records []clients.Record, how clients.How) ([]int64, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[int]kgo.Acks{-1: kgo.AllISRAcks(), 0: kgo.NoAck(), 1: kgo.LeaderAck()}
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[how.Codec]), kgo.RequiredAcks(acks[how.Acks]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(100 * time.Millisecond),
		kgo.ProducerBatchMaxBytes(2 * clients.TooLarge),
	}
	if !how.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, _, err := f.client(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	made := []*kgo.Record{}
	for _, each := range records {
		made = append(made, &kgo.Record{
			Topic: f.topic, Key: each.Key, Value: each.Value, Timestamp: time.UnixMilli(each.TimestampMs),
			Headers: []kgo.RecordHeader{{Key: "what", Value: each.What}},
		})
	}
	offsets := []int64{}
	for _, result := range client.ProduceSync(context.Background(), made...) {
		if result.Err != nil {
			return nil, result.Err
		}
		offsets = append(offsets, result.Record.Offset)
	}
	return offsets, nil
}

func (f franz) listed(list func(*kadm.Client) (kadm.ListedOffsets, error)) (int64, error) {
	client, admin, err := f.client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	found, err := list(admin)
	if err != nil {
		return 0, err
	}
	return found[f.topic][0].Offset, found[f.topic][0].Err
}

func (f franz) Bounds() (int64, int64, error) {
	first, err := f.listed(func(admin *kadm.Client) (kadm.ListedOffsets, error) {
		return admin.ListStartOffsets(context.Background(), f.topic)
	})
	if err != nil {
		return 0, 0, err
	}
	next, err := f.listed(func(admin *kadm.Client) (kadm.ListedOffsets, error) {
		return admin.ListEndOffsets(context.Background(), f.topic)
	})
	return first, next, err
}

func (f franz) OffsetAt(timestampMs int64) (int64, error) {
	return f.listed(func(admin *kadm.Client) (kadm.ListedOffsets, error) {
		return admin.ListOffsetsAfterMilli(context.Background(), timestampMs, f.topic)
	})
}

func (f franz) Read(offset int64, count int) ([]clients.Record, error) {
	from := map[string]map[int32]kgo.Offset{f.topic: {0: kgo.NewOffset().At(offset)}}
	client, _, err := f.client(kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return taken(client, count)
}

func (f franz) InGroup(count int) (int64, error) {
	group := f.topic + "-readers"
	client, admin, err := f.client(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(f.topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if _, err := taken(client, count); err != nil {
		return 0, err
	}
	if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
		return 0, err
	}
	found, err := admin.FetchOffsets(context.Background(), group)
	if err != nil {
		return 0, err
	}
	return found[f.topic][0].At, found[f.topic][0].Err
}

func taken(client *kgo.Client, count int) ([]clients.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	found := []clients.Record{}
	for len(found) < count {
		polled := client.PollRecords(ctx, count-len(found))
		if err := polled.Err(); err != nil {
			return nil, err
		}
		polled.EachRecord(func(each *kgo.Record) {
			found = append(found, clients.Record{
				Offset: each.Offset, Key: each.Key, Value: each.Value, What: each.Headers[0].Value,
				TimestampMs: each.Timestamp.UnixMilli(),
			})
		})
	}
	return found, nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "franzrecords SERVERS TOPIC")
		os.Exit(2)
	}
	client := franz{strings.Split(os.Args[1], ","), os.Args[2]}
	clients.Run(clients.WritingSteps(client), func(err error) string {
		var known *kerr.Error
		if errors.As(err, &known) {
			return known.Message
		}
		return err.Error()
	})
}
