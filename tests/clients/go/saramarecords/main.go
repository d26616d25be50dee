// Writes and reads by sarama: saramarecords SERVERS TOPIC.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"quorate/clients"
)

const wait = 30 * time.Second

type shopify struct {
	servers []string
	topic   string
}

func (s shopify) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	return config
}

func (s shopify) Write(records []clients.Record, how clients.How) ([]int64, error) {
	config := s.config()
	config.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[how.Codec]
	config.Producer.RequiredAcks = sarama.RequiredAcks(how.Acks)
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Frequency = 100 * time.Millisecond
	config.Producer.MaxMessageBytes = 2 * clients.TooLarge
	config.Producer.Return.Successes = true
	if how.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(s.servers, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	made := []*sarama.ProducerMessage{}
	for _, each := range records {
		message := &sarama.ProducerMessage{
			Topic: s.topic, Key: sarama.ByteEncoder(each.Key), Timestamp: time.UnixMilli(each.TimestampMs),
			Headers: []sarama.RecordHeader{{Key: []byte("what"), Value: each.What}},
		}
		if each.Value != nil {
			message.Value = sarama.ByteEncoder(each.Value)
		}
		made = append(made, message)
	}
	if err := producer.SendMessages(made); err != nil {
		return nil, err.(sarama.ProducerErrors)[0].Err
	}
	offsets := []int64{}
	for _, each := range made {
		offsets = append(offsets, each.Offset)
	}
	return offsets, nil
}

func (s shopify) offset(timestampMs int64) (int64, error) {
	client, err := sarama.NewClient(s.servers, s.config())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	return client.GetOffset(s.topic, 0, timestampMs)
}

func (s shopify) Bounds() (int64, int64, error) {
	first, err := s.offset(sarama.OffsetOldest)
	if err != nil {
		return 0, 0, err
	}
	next, err := s.offset(sarama.OffsetNewest)
	return first, next, err
}

func (s shopify) OffsetAt(timestampMs int64) (int64, error) { return s.offset(timestampMs) }

func (s shopify) Read(offset int64, count int) ([]clients.Record, error) {
	consumer, err := sarama.NewConsumer(s.servers, s.config())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(s.topic, 0, offset)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	found, late := []clients.Record{}, time.After(wait)
	for len(found) < count {
		select {
		case each := <-partition.Messages():
			found = append(found, clients.Record{
				Offset: each.Offset, Key: each.Key, Value: each.Value, What: each.Headers[0].Value,
				TimestampMs: each.Timestamp.UnixMilli(),
			})
		case <-late:
			return nil, fmt.Errorf("%d of %d records", len(found), count)
		}
	}
	return found, nil
}

// InGroup commits by the library's manager of offsets, which asks the coordinator; members are for a consumer group.
func (s shopify) InGroup(count int) (int64, error) {
	group := s.topic + "-readers"
	read, err := s.Read(0, count)
	if err != nil {
		return 0, err
	}
	config := s.config()
	config.Consumer.Offsets.AutoCommit.Enable = false
	client, err := sarama.NewClient(s.servers, config)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	manager, err := sarama.NewOffsetManagerFromClient(group, client)
	if err != nil {
		return 0, err
	}
	defer manager.Close()
	partition, err := manager.ManagePartition(s.topic, 0)
	if err != nil {
		return 0, err
	}
	partition.MarkOffset(read[len(read)-1].Offset+1, "")
	manager.Commit()
	partition.AsyncClose()
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return 0, err
	}
	found, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{s.topic: {0}})
	if err != nil {
		return 0, err
	}
	return found.GetBlock(s.topic, 0).Offset, nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "saramarecords SERVERS TOPIC")
		os.Exit(2)
	}
	client := shopify{strings.Split(os.Args[1], ","), os.Args[2]}
	clients.Run(clients.WritingSteps(client), func(err error) string { return err.Error() })
}
