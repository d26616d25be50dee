// The admin calls of sarama: sarama SERVERS.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/IBM/sarama"

	"quorate/clients"
)

const topic = "by-sarama"

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	admin, err := sarama.NewClusterAdmin(strings.Split(os.Args[1], ","), config)
	if err != nil {
		panic(err)
	}
	defer admin.Close()
	text := func(value string) *string { return &value }

	create := func(name string, factor int16, configs map[string]*string) func() (any, error) {
		return func() (any, error) {
			wanted := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: factor, ConfigEntries: configs}
			return nil, admin.CreateTopic(name, wanted, false)
		}
	}
	partitions := func() (any, error) {
		found, err := admin.DescribeTopics([]string{topic})
		if err != nil {
			return nil, err
		}
		return fmt.Sprintf("%d partitions", len(found[0].Partitions)), nil
	}
	alter := func(of string, op sarama.IncrementalAlterConfigsOperation, name string, value *string) func() (any, error) {
		return func() (any, error) {
			entries := map[string]sarama.IncrementalAlterConfigsEntry{name: {Operation: op, Value: value}}
			return nil, admin.IncrementalAlterConfig(sarama.TopicResource, of, entries, false)
		}
	}
	retention := func() (any, error) {
		found, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
		for _, each := range found {
			if each.Name == "retention.ms" {
				return each.Value, err
			}
		}
		return "none", err
	}
	grow := func(count int32) func() (any, error) {
		return func() (any, error) { return nil, admin.CreatePartitions(topic, count, nil, false) }
	}
	deleted := func(name string) func() (any, error) {
		return func() (any, error) { return nil, admin.DeleteTopic(name) }
	}
	resource := sarama.Resource{
		ResourceType: sarama.AclResourceTopic, ResourceName: topic, ResourcePatternType: sarama.AclPatternLiteral,
	}
	acl := sarama.Acl{
		Principal: "User:a", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow,
	}
	like := sarama.AclFilter{
		ResourceType: sarama.AclResourceTopic, ResourceName: text(topic),
		ResourcePatternTypeFilter: sarama.AclPatternLiteral,
		Operation:                 sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
	}
	acls := func() (any, error) {
		found, err := admin.ListAcls(like)
		count := 0
		for _, each := range found {
			count += len(each.Acls)
		}
		return count, err
	}
	user := []sarama.QuotaEntityComponent{
		{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: "by-sarama"},
	}
	quota := func(remove bool) func() (any, error) {
		return func() (any, error) {
			op := sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1024, Remove: remove}
			return nil, admin.AlterClientQuotas(user, op, false)
		}
	}
	quotas := func() (any, error) {
		wanted := sarama.QuotaFilterComponent{
			EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: "by-sarama",
		}
		found, err := admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{wanted}, true)
		said := []string{}
		for _, each := range found {
			said = append(said, fmt.Sprint(each.Values))
		}
		return fmt.Sprint(said), err
	}
	scram := func() (any, error) {
		return first(admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{{
			Name: "by-sarama", Mechanism: sarama.SCRAM_MECHANISM_SHA_256, Iterations: 4096,
			Salt: []byte("salt of sixteen!"), Password: []byte("not a secret"),
		}}))
	}
	unscram := func() (any, error) {
		return first(admin.DeleteUserScramCredentials([]sarama.AlterUserScramCredentialsDelete{{
			Name: "by-sarama", Mechanism: sarama.SCRAM_MECHANISM_SHA_256,
		}}))
	}

	clients.Run([]clients.Step{
		{Name: "brokers of the cluster", Call: func() (any, error) {
			found, _, err := admin.DescribeCluster()
			return len(found), err
		}},
		{Name: "create a topic", Call: create(topic, 1, nil)},
		{Name: "create it again", Call: create(topic, 1, nil)},
		{Name: "create with too many replicas", Call: create("too-many", 9, nil)},
		{Name: "create with a bad name", Call: create("a/b", 1, nil)},
		{Name: "create with a bad config", Call: create("bad", 1, map[string]*string{"retention.ms": text("soon")})},
		{Name: "describe the topic", Call: partitions, Until: "3 partitions"},
		{Name: "set a config", Call: alter(topic, sarama.IncrementalAlterConfigsOperationSet, "retention.ms", text("60000"))},
		{Name: "set an unknown config", Call: alter(topic, sarama.IncrementalAlterConfigsOperationSet, "nonsense", text("1"))},
		{Name: "set a bad value", Call: alter(topic, sarama.IncrementalAlterConfigsOperationSet, "retention.ms", text("soon"))},
		{Name: "set a config of no topic", Call: alter("nothing", sarama.IncrementalAlterConfigsOperationSet, "retention.ms", text("1"))},
		{Name: "describe the config", Call: retention, Until: "60000"},
		{Name: "add a partition", Call: grow(4)},
		{Name: "describe the topic", Call: partitions, Until: "4 partitions"},
		{Name: "take partitions away", Call: grow(2)},
		{Name: "create an ACL", Call: func() (any, error) { return nil, admin.CreateACL(resource, acl) }},
		{Name: "describe ACLs", Call: acls, Until: "1"},
		{Name: "delete ACLs", Call: func() (any, error) {
			found, err := admin.DeleteACL(like, false)
			return len(found), err
		}},
		{Name: "describe ACLs", Call: acls, Until: "0"},
		{Name: "set a quota", Call: quota(false)},
		{Name: "describe the quota", Call: quotas, Until: "[map[producer_byte_rate:1024]]"},
		{Name: "remove the quota", Call: quota(true)},
		{Name: "describe no quota", Call: quotas, Until: "[]"},
		{Name: "add a SCRAM user", Call: scram},
		{Name: "delete the user", Call: unscram},
		{Name: "delete the user again", Call: unscram},
		{Name: "delete the topic", Call: deleted(topic)},
		{Name: "delete no topic", Call: deleted("nothing")},
	}, func(err error) string {
		var known sarama.KError
		if errors.As(err, &known) {
			return fmt.Sprint("error ", int16(known))
		}
		return err.Error()
	})
}

func first(found []*sarama.AlterUserScramCredentialsResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if found[0].ErrorCode != sarama.ErrNoError {
		return nil, found[0].ErrorCode
	}
	return nil, nil
}
