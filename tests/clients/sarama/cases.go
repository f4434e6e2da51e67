package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

type namedCase struct {
	name  string
	since sarama.KafkaVersion
	run   func(*cluster) error
}

var cases = []namedCase{
	{"topics_are_made_once_and_grow", sarama.V0_11_0_0, topics},
	{"every_codec_comes_back_in_order", sarama.V0_11_0_0, codecs},
	{"bounds_and_times_find_their_records", sarama.V0_11_0_0, offsets},
	{"an_idempotent_producer_keeps_order", sarama.V0_11_0_0, idempotent},
	{"what_was_aborted_is_not_read_and_its_offsets_are_not_kept", sarama.V0_11_0_0, transactions},
	{"the_second_producer_of_a_transactional_id_fences_the_first", sarama.V0_11_0_0, fenced},
	{"groups_read_everything_with_every_strategy", sarama.V0_11_0_0, groups},
	{"offsets_of_a_group_are_listed_and_deleted", sarama.V2_4_0_0, groupOffsets},
	{"records_are_deleted", sarama.V0_11_0_0, deleted},
	{"settings_are_changed_one_by_one", sarama.V2_3_0_0, settings},
	{"there_are_no_access_rules_and_that_is_said", sarama.V2_0_0_0, noRules},
}

func expect(what string, got, due any) error {
	if fmt.Sprint(got) != fmt.Sprint(due) {
		return fmt.Errorf("%s: %v instead of %v", what, got, due)
	}
	return nil
}

func topics(c *cluster) error {
	name, err := c.topic("topics", 3, nil)
	if err != nil {
		return err
	}
	err = c.admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false)
	if !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		return fmt.Errorf("made twice: %v", err)
	}
	if c.kafka.IsAtLeast(sarama.V1_0_0_0) {
		if err := c.admin.CreatePartitions(name, 5, nil, false); err != nil {
			return err
		}
		told, err := c.admin.DescribeTopics([]string{name})
		if err != nil {
			return err
		}
		if err := expect("partitions", len(told[0].Partitions), 5); err != nil {
			return err
		}
	}
	return c.admin.DeleteTopic(name)
}

func codecs(c *cluster) error {
	topic, err := c.topic("codecs", 1, nil)
	if err != nil {
		return err
	}
	var written []string
	for codec := sarama.CompressionNone; codec <= sarama.CompressionZSTD; codec++ {
		if codec == sarama.CompressionZSTD && !c.kafka.IsAtLeast(sarama.V2_1_0_0) {
			continue
		}
		config := c.config()
		config.Producer.Compression = codec
		some := values(codec.String(), 20)
		if err := c.write(config, topic, 0, some); err != nil {
			return fmt.Errorf("%v: %w", codec, err)
		}
		written = append(written, some...)
	}
	for _, start := range []int{0, 13, 47} {
		read, err := c.read(c.config(), topic, int64(start), len(written)-start)
		if err != nil {
			return err
		}
		if err := expect("records", read, written[start:]); err != nil {
			return err
		}
	}
	_, err = c.read(c.config(), topic, 5000, 1)
	return expect("beyond the end", err, sarama.ErrOffsetOutOfRange)
}

func offsets(c *cluster) error {
	topic, err := c.topic("offsets", 1, nil)
	if err != nil {
		return err
	}
	if err := c.write(c.config(), topic, 0, values("r", 7)); err != nil {
		return err
	}
	now := time.Now()
	for _, one := range []struct{ time, due int64 }{
		{sarama.OffsetOldest, 0}, {sarama.OffsetNewest, 7},
		{now.Add(-time.Hour).UnixMilli(), 0}, {now.Add(time.Hour).UnixMilli(), -1},
	} {
		offset, err := c.client.GetOffset(topic, 0, one.time)
		if err != nil {
			return err
		}
		if err := expect(fmt.Sprint("at ", one.time), offset, one.due); err != nil {
			return err
		}
	}
	return nil
}

func idempotent(c *cluster) error {
	topic, err := c.topic("idempotent", 1, nil)
	if err != nil {
		return err
	}
	config := c.idempotent()
	config.Producer.Flush.Messages = 50
	if err := c.write(config, topic, 0, values("i", 500)); err != nil {
		return err
	}
	read, err := c.read(c.config(), topic, 0, 500)
	if err != nil {
		return err
	}
	return expect("records", read, values("i", 500))
}

func (c *cluster) transactional(id string) (sarama.SyncProducer, error) {
	config := c.idempotent()
	config.Producer.Transaction.ID = c.name(id)
	return sarama.NewSyncProducer(c.seeds, config)
}

func transactions(c *cluster) error {
	topic, err := c.topic("transactions", 1, nil)
	if err != nil {
		return err
	}
	input, err := c.topic("input", 1, nil)
	if err != nil {
		return err
	}
	producer, err := c.transactional("txn")
	if err != nil {
		return err
	}
	defer producer.Close()
	group := c.name("txn-group")
	for _, one := range []struct {
		what string
		end  func() error
	}{{"kept", producer.CommitTxn}, {"aborted", producer.AbortTxn}, {"kept-too", producer.CommitTxn}} {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		if err := producer.SendMessages(messages(topic, 0, values(one.what, 3))); err != nil {
			return err
		}
		// The offset that the group goes on from follows on the record that was read.
		was := &sarama.ConsumerMessage{Topic: input, Offset: int64(len(one.what))}
		if err := producer.AddMessageToTxn(was, group, nil); err != nil {
			return err
		}
		if err := one.end(); err != nil {
			return err
		}
	}
	config := c.config()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	read, err := c.read(config, topic, 0, 6)
	if err != nil {
		return err
	}
	if err := expect("committed", read, append(values("kept", 3), values("kept-too", 3)...)); err != nil {
		return err
	}
	if read, err = c.read(c.config(), topic, 0, 9); err != nil {
		return err
	}
	if err := expect("all", read[3:6], values("aborted", 3)); err != nil {
		return err
	}
	committed, err := c.admin.ListConsumerGroupOffsets(group, map[string][]int32{input: {0}})
	if err != nil {
		return err
	}
	return expect("the group's offset", committed.GetBlock(input, 0).Offset, len("kept-too")+1)
}

func fenced(c *cluster) error {
	topic, err := c.topic("fenced", 1, nil)
	if err != nil {
		return err
	}
	first, err := c.transactional("fenced")
	if err != nil {
		return err
	}
	defer first.Close()
	if err := first.BeginTxn(); err != nil {
		return err
	}
	if err := first.SendMessages(messages(topic, 0, values("first", 1))); err != nil {
		return err
	}
	second, err := c.transactional("fenced")
	if err != nil {
		return err
	}
	defer second.Close()
	if err := second.BeginTxn(); err != nil {
		return err
	}
	if err := second.SendMessages(messages(topic, 0, values("second", 1))); err != nil {
		return err
	}
	if err := second.CommitTxn(); err != nil {
		return err
	}
	if first.CommitTxn() == nil {
		return errors.New("the first producer has committed")
	}
	config := c.config()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	read, err := c.read(config, topic, 0, 1)
	if err != nil {
		return err
	}
	return expect("committed", read, values("second", 1))
}

func deleted(c *cluster) error {
	topic, err := c.topic("deleted", 1, nil)
	if err != nil {
		return err
	}
	if err := c.write(c.config(), topic, 0, values("d", 10)); err != nil {
		return err
	}
	if err := c.admin.DeleteRecords(topic, map[int32]int64{0: 4}); err != nil {
		return err
	}
	oldest, err := c.client.GetOffset(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	return expect("oldest", oldest, 4)
}

func settings(c *cluster) error {
	old, set := "777777", "2000000"
	topic, err := c.topic("settings", 1, map[string]*string{"retention.ms": &old, "max.message.bytes": &set})
	if err != nil {
		return err
	}
	changes := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms":        {Operation: sarama.IncrementalAlterConfigsOperationDelete},
		"min.insync.replicas": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &[]string{"2"}[0]},
	}
	if err := c.admin.IncrementalAlterConfig(sarama.TopicResource, topic, changes, false); err != nil {
		return err
	}
	names := []string{"max.message.bytes", "min.insync.replicas", "retention.ms"}
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: names}
	entries, err := c.admin.DescribeConfig(resource)
	if err != nil {
		return err
	}
	var told []string
	for _, entry := range entries {
		told = append(told, entry.Name+"="+entry.Value)
	}
	slices.Sort(told)
	return expect("settings", told, "[max.message.bytes=2000000 min.insync.replicas=2 retention.ms=604800000]")
}

// As with a Kafka that has no authorizer.
func noRules(c *cluster) error {
	every := sarama.AclFilter{
		ResourceType: sarama.AclResourceAny, Operation: sarama.AclOperationAny,
		PermissionType: sarama.AclPermissionAny, ResourcePatternTypeFilter: sarama.AclPatternAny,
	}
	_, err := c.admin.ListAcls(every)
	if err == nil || !strings.Contains(err.Error(), "Security features are disabled") {
		return fmt.Errorf("asked for rules: %v", err)
	}
	return nil
}
