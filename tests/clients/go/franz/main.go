// The admin calls of franz-go, by its package kadm: franz SERVERS.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"quorate/clients"
)

const topic = "by-franz-go"

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Args[1], ",")...))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	admin, ctx := kadm.NewClient(client), context.Background()
	text := func(value string) *string { return &value }

	create := func(name string, factor int16, configs map[string]*string) func() (any, error) {
		return func() (any, error) {
			_, err := admin.CreateTopic(ctx, 3, factor, configs, name)
			return nil, err
		}
	}
	partitions := func() (any, error) {
		found, err := admin.ListTopics(ctx, topic)
		if err != nil {
			return nil, err
		}
		return fmt.Sprintf("%d partitions", len(found[topic].Partitions)), found[topic].Err
	}
	alter := func(of string, op kadm.IncrementalOp, name string, value *string) func() (any, error) {
		return func() (any, error) {
			found, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: op, Name: name, Value: value}}, of)
			if err != nil {
				return nil, err
			}
			return nil, found[0].Err
		}
	}
	retention := func() (any, error) {
		found, err := admin.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return nil, err
		}
		for _, config := range found[0].Configs {
			if config.Key == "retention.ms" {
				return *config.Value, found[0].Err
			}
		}
		return "none", found[0].Err
	}
	grow := func(count int) func() (any, error) {
		return func() (any, error) {
			found, err := admin.UpdatePartitions(ctx, count, topic)
			if err != nil {
				return nil, err
			}
			return nil, found[topic].Err
		}
	}
	deleted := func(name string) func() (any, error) {
		return func() (any, error) {
			_, err := admin.DeleteTopic(ctx, name)
			return nil, err
		}
	}
	rule := func() *kadm.ACLBuilder {
		return kadm.NewACLs().Allow("User:a").AllowHosts("*").Topics(topic).
			ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead)
	}
	acls := func() (any, error) {
		found, err := admin.DescribeACLs(ctx, rule())
		if err != nil {
			return nil, err
		}
		return len(found[0].Described), found[0].Err
	}
	quota := func(remove bool) func() (any, error) {
		return func() (any, error) {
			entry := kadm.AlterClientQuotaEntry{
				Entity: kadm.ClientQuotaEntity{{Type: "user", Name: text("by-franz")}},
				Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1024, Remove: remove}},
			}
			found, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{entry})
			if err != nil {
				return nil, err
			}
			return nil, found[0].Err
		}
	}
	quotas := func() (any, error) {
		found, err := admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{
			{Type: "user", MatchName: text("by-franz"), MatchType: 0},
		})
		if err != nil {
			return nil, err
		}
		said := []string{}
		for _, each := range found {
			for _, value := range each.Values {
				said = append(said, fmt.Sprint(value.Key, "=", value.Value))
			}
		}
		return fmt.Sprint(said), nil
	}
	scram := func() (any, error) {
		found, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{
			{User: "by-franz", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "not a secret"},
		})
		if err != nil {
			return nil, err
		}
		return nil, found["by-franz"].Err
	}
	unscram := func() (any, error) {
		found, err := admin.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: "by-franz", Mechanism: kadm.ScramSha512}}, nil)
		if err != nil {
			return nil, err
		}
		return nil, found["by-franz"].Err
	}
	scrams := func() (any, error) {
		found, err := admin.DescribeUserSCRAMs(ctx, "by-franz")
		if err != nil {
			return nil, err
		}
		return fmt.Sprint(len(found["by-franz"].CredInfos), " credentials"), found["by-franz"].Err
	}
	elect := func() (any, error) {
		found, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, kadm.TopicsSet{topic: {0: {}}})
		if err != nil {
			return nil, err
		}
		return nil, found[topic][0].Err
	}

	clients.Run([]clients.Step{
		{Name: "brokers of the cluster", Call: func() (any, error) {
			found, err := admin.BrokerMetadata(ctx)
			return len(found.Brokers), err
		}},
		{Name: "create a topic", Call: create(topic, 1, nil)},
		{Name: "create it again", Call: create(topic, 1, nil)},
		{Name: "create with too many replicas", Call: create("too-many", 9, nil)},
		{Name: "create with a bad name", Call: create("a/b", 1, nil)},
		{Name: "create with a bad config", Call: create("bad", 1, map[string]*string{"retention.ms": text("soon")})},
		{Name: "describe the topic", Call: partitions, Until: "3 partitions"},
		{Name: "set a config", Call: alter(topic, kadm.SetConfig, "retention.ms", text("60000"))},
		{Name: "set an unknown config", Call: alter(topic, kadm.SetConfig, "nonsense", text("1"))},
		{Name: "set a bad value", Call: alter(topic, kadm.SetConfig, "retention.ms", text("soon"))},
		{Name: "append to what is no list", Call: alter(topic, kadm.AppendConfig, "retention.ms", text("1"))},
		{Name: "set a config of no topic", Call: alter("nothing", kadm.SetConfig, "retention.ms", text("1"))},
		{Name: "describe the config", Call: retention, Until: "60000"},
		{Name: "reset the config", Call: alter(topic, kadm.DeleteConfig, "retention.ms", nil)},
		{Name: "describe it again", Call: retention, Until: "604800000"},
		{Name: "add a partition", Call: grow(4)},
		{Name: "describe the topic", Call: partitions, Until: "4 partitions"},
		{Name: "take partitions away", Call: grow(2)},
		{Name: "create an ACL", Call: func() (any, error) {
			found, err := admin.CreateACLs(ctx, rule())
			if err != nil {
				return nil, err
			}
			return nil, found[0].Err
		}},
		{Name: "describe ACLs", Call: acls, Until: "1"},
		{Name: "delete ACLs", Call: func() (any, error) {
			found, err := admin.DeleteACLs(ctx, rule())
			if err != nil {
				return nil, err
			}
			return len(found[0].Deleted), found[0].Err
		}},
		{Name: "describe ACLs", Call: acls, Until: "0"},
		{Name: "set a quota", Call: quota(false)},
		{Name: "describe the quota", Call: quotas, Until: "[producer_byte_rate=1024]"},
		{Name: "remove the quota", Call: quota(true)},
		{Name: "describe no quota", Call: quotas, Until: "[]"},
		{Name: "add a SCRAM user", Call: scram},
		{Name: "describe the user", Call: scrams, Until: "1 credentials"},
		{Name: "delete the user", Call: unscram},
		{Name: "delete the user again", Call: unscram},
		{Name: "elect a leader that leads", Call: elect},
		{Name: "delete the topic", Call: deleted(topic)},
		{Name: "delete no topic", Call: deleted("nothing")},
	}, func(err error) string {
		var known *kerr.Error
		if errors.As(err, &known) {
			return known.Message
		}
		return err.Error()
	})
}
