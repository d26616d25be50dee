// The admin calls of kafka-go: segmentio SERVERS.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/segmentio/kafka-go"

	"quorate/clients"
)

const topic = "by-kafka-go"

func main() {
	client := &kafka.Client{Addr: kafka.TCP(strings.Split(os.Args[1], ",")...)}
	ctx := context.Background()

	create := func(name string, factor int) func() (any, error) {
		return func() (any, error) {
			wanted := kafka.TopicConfig{Topic: name, NumPartitions: 3, ReplicationFactor: factor}
			found, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{wanted}})
			if err != nil {
				return nil, err
			}
			return nil, found.Errors[name]
		}
	}
	partitions := func() (any, error) {
		found, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
		if err != nil {
			return nil, err
		}
		return fmt.Sprintf("%d partitions", len(found.Topics[0].Partitions)), found.Topics[0].Error
	}
	alter := func(of, name, value string) func() (any, error) {
		return func() (any, error) {
			entry := kafka.IncrementalAlterConfigsRequestConfig{
				Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet,
			}
			found, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
				Resources: []kafka.IncrementalAlterConfigsRequestResource{{
					ResourceType: kafka.ResourceTypeTopic, ResourceName: of,
					Configs: []kafka.IncrementalAlterConfigsRequestConfig{entry},
				}},
			})
			if err != nil {
				return nil, err
			}
			return nil, found.Resources[0].Error
		}
	}
	retention := func() (any, error) {
		found, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
			Resources: []kafka.DescribeConfigRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"},
			}},
		})
		if err != nil {
			return nil, err
		}
		for _, each := range found.Resources[0].ConfigEntries {
			return each.ConfigValue, found.Resources[0].Error
		}
		return "none", found.Resources[0].Error
	}
	grow := func(count int32) func() (any, error) {
		return func() (any, error) {
			found, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
				Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: count}},
			})
			if err != nil {
				return nil, err
			}
			return nil, found.Errors[topic]
		}
	}
	deleted := func(name string) func() (any, error) {
		return func() (any, error) {
			found, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{name}})
			if err != nil {
				return nil, err
			}
			return nil, found.Errors[name]
		}
	}
	acls := func() (any, error) {
		found, err := client.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
			ResourceTypeFilter: kafka.ResourceTypeTopic, ResourceNameFilter: topic,
			ResourcePatternTypeFilter: kafka.PatternTypeLiteral,
			Operation:                 kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
		}})
		if err != nil {
			return nil, err
		}
		return len(found.Resources), found.Error
	}

	clients.Run([]clients.Step{
		{Name: "brokers of the cluster", Call: func() (any, error) {
			found, err := client.Metadata(ctx, &kafka.MetadataRequest{})
			if err != nil {
				return nil, err
			}
			return len(found.Brokers), nil
		}},
		{Name: "create a topic", Call: create(topic, 1)},
		{Name: "create it again", Call: create(topic, 1)},
		{Name: "create with too many replicas", Call: create("too-many", 9)},
		{Name: "create with a bad name", Call: create("a/b", 1)},
		{Name: "describe the topic", Call: partitions, Until: "3 partitions"},
		{Name: "set a config", Call: alter(topic, "retention.ms", "60000")},
		{Name: "set an unknown config", Call: alter(topic, "nonsense", "1")},
		{Name: "set a bad value", Call: alter(topic, "retention.ms", "soon")},
		{Name: "set a config of no topic", Call: alter("nothing", "retention.ms", "1")},
		{Name: "describe the config", Call: retention, Until: "60000"},
		{Name: "add a partition", Call: grow(4)},
		{Name: "describe the topic", Call: partitions, Until: "4 partitions"},
		{Name: "take partitions away", Call: grow(2)},
		{Name: "create an ACL", Call: func() (any, error) {
			found, err := client.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ResourcePatternType: kafka.PatternTypeLiteral,
				Principal: "User:a", Host: "*",
				Operation: kafka.ACLOperationTypeRead, PermissionType: kafka.ACLPermissionTypeAllow,
			}}})
			if err != nil {
				return nil, err
			}
			return nil, found.Errors[0]
		}},
		{Name: "describe ACLs", Call: acls, Until: "1"},
		{Name: "delete the topic", Call: deleted(topic)},
		{Name: "delete no topic", Call: deleted("nothing")},
	}, func(err error) string {
		var known kafka.Error
		if errors.As(err, &known) {
			return fmt.Sprint("error ", int(known))
		}
		return err.Error()
	})
}
