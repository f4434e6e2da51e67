package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

var topicCases = []namedCase{
	{"a_created_topic_shows_partitions_leaders_and_an_id", created},
	{"creating_twice_is_refused", createdTwice},
	{"a_topic_shows_its_config", configured},
	{"a_grown_topic_keeps_and_takes_records", grown},
	{"a_deleted_topic_is_gone_and_starts_again_with_another_id", again},
}

// refused holds that the error is the broker's, and this one.
func refused(err error, due *kerr.Error) error {
	if !errors.Is(err, due) {
		return fmt.Errorf("answered %v, where %s was due", err, due.Message)
	}
	return nil
}

func created(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "created", 9)
	if err != nil {
		return err
	}
	metadata, err := c.admin.Metadata(ctx, topic)
	if err != nil {
		return err
	}
	if metadata.Cluster == "" || len(metadata.Brokers) == 0 {
		return fmt.Errorf("cluster id %q, %d brokers", metadata.Cluster, len(metadata.Brokers))
	}
	shown := metadata.Topics[topic]
	if shown.ID == (kadm.TopicID{}) {
		return errors.New("the topic has no id")
	}
	for _, partition := range shown.Partitions.Sorted() {
		if partition.Leader < 0 || partition.LeaderEpoch < 0 || len(partition.Replicas) == 0 || len(partition.ISR) == 0 {
			return fmt.Errorf("%+v", partition)
		}
	}
	return nil
}

func createdTwice(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "twice", 1)
	if err != nil {
		return err
	}
	_, err = c.admin.CreateTopic(ctx, 1, -1, nil, topic)
	return refused(err, kerr.TopicAlreadyExists)
}

func configured(ctx context.Context, c *cluster) error {
	topic, due := "franz-configured-"+c.run, "3600000"
	if _, err := c.admin.CreateTopic(ctx, 1, -1, map[string]*string{"retention.ms": &due}, topic); err != nil {
		return err
	}
	return c.until(ctx, func() (bool, error) {
		described, err := c.admin.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return false, err
		}
		shown, err := described.On(topic, nil)
		if err != nil || errors.Is(shown.Err, kerr.UnknownTopicOrPartition) {
			return false, err // not yet known at the broker that was asked
		}
		for _, config := range shown.Configs {
			if config.Key == "retention.ms" && config.MaybeValue() == due {
				return true, nil
			}
		}
		return false, fmt.Errorf("retention.ms is not shown as it was set: %v", shown.Err)
	})
}

func grown(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "grown", 1)
	if err != nil {
		return err
	}
	old := stamped(topic, 0, "old", 30)
	if err := c.produce(ctx, old, 0); err != nil {
		return err
	}
	answers, err := c.admin.UpdatePartitions(ctx, 4, topic)
	if err != nil {
		return err
	}
	if err := answers[topic].Err; err != nil {
		return err
	}
	if err := c.shown(ctx, topic, 4); err != nil {
		return err
	}
	added := stamped(topic, 3, "new", 30)
	if err := c.produce(ctx, added, 0); err != nil {
		return err
	}
	if err := c.comesBack(ctx, old, 0); err != nil {
		return err
	}
	return c.comesBack(ctx, added, 0)
}

func again(ctx context.Context, c *cluster) error {
	var last kadm.TopicID
	for round := range 3 {
		topic, err := c.topic(ctx, "again", 2)
		if err != nil {
			return err
		}
		topics, err := c.admin.ListTopics(ctx, topic)
		if err != nil {
			return err
		}
		if topics[topic].ID == last {
			return fmt.Errorf("the id %v came again", last)
		}
		last = topics[topic].ID
		sent := stamped(topic, 1, fmt.Sprint("round", round), 10+round)
		if err := c.produce(ctx, sent, 0); err != nil {
			return err
		}
		if err := c.comesBack(ctx, sent, 0); err != nil {
			return err
		}
		if _, err := c.admin.DeleteTopic(ctx, topic); err != nil {
			return err
		}
		err = c.until(ctx, func() (bool, error) {
			topics, err := c.admin.ListTopics(ctx)
			return err == nil && !topics.Has(topic), err
		})
		if err != nil {
			return err
		}
	}
	_, err := c.admin.DeleteTopic(ctx, "franz-again-"+c.run)
	return refused(err, kerr.UnknownTopicOrPartition)
}
