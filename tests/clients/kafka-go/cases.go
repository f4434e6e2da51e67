package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

const firstTime = int64(1_600_000_000_000)

type namedCase struct {
	name string
	run  func(context.Context, *cluster) error
}

var cases = []namedCase{
	{"created_topics_show_partitions_with_leaders", created},
	{"creating_twice_is_refused", twice},
	{"every_codec_comes_back_in_order", codecs},
	{"nulls_come_back", nulls},
	{"bounds_and_times_find_their_records", offsets},
	{"reading_starts_in_the_middle_of_a_batch", middle},
	{"a_larger_record_is_refused", large},
	{"a_topic_made_by_writing_takes_the_write", byWriting},
	{"deleted_topics_are_gone", deleted},
}

// cluster is what every case is given.
type cluster struct {
	seeds  []string
	client *kafka.Client
	run    string
}

func connect(bootstrap string) *cluster {
	seeds := strings.Split(bootstrap, ",")
	client := &kafka.Client{Addr: kafka.TCP(seeds...), Transport: transport("kafka-go-cases")}
	return &cluster{seeds, client, fmt.Sprint(time.Now().UnixMilli())}
}

func transport(clientID string) *kafka.Transport {
	return &kafka.Transport{ClientID: clientID, MetadataTTL: 200 * time.Millisecond}
}

func (c *cluster) create(ctx context.Context, name string, partitions int) error {
	topics := []kafka.TopicConfig{{Topic: name, NumPartitions: partitions, ReplicationFactor: -1}}
	answer, err := c.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: topics})
	if err != nil {
		return err
	}
	return answer.Errors[name]
}

// topic makes one that no earlier run has used, and waits until it is shown.
func (c *cluster) topic(ctx context.Context, what string, partitions int) (string, error) {
	name := fmt.Sprintf("kafka-go-%s-%s", what, c.run)
	if err := c.create(ctx, name, partitions); err != nil {
		return "", err
	}
	return name, c.until(ctx, func() (bool, error) {
		shown, err := c.metadata(ctx, c.client, name)
		return err == nil && shown.Error == nil && len(shown.Partitions) == partitions, err
	})
}

func (c *cluster) metadata(ctx context.Context, client *kafka.Client, topic string) (kafka.Topic, error) {
	answer, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return kafka.Topic{}, err
	}
	return answer.Topics[0], nil
}

func (c *cluster) until(ctx context.Context, holds func() (bool, error)) error {
	for {
		held, err := holds()
		if held || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("the metadata never showed what was waited for")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *cluster) write(ctx context.Context, topic string, codec kafka.Compression, messages ...kafka.Message) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(c.seeds...), Topic: topic, RequiredAcks: kafka.RequireAll, Compression: codec,
		BatchTimeout: 5 * time.Millisecond, BatchSize: len(messages), BatchBytes: 4_000_000, MaxAttempts: 3,
		Transport: transport("kafka-go-cases"),
	}
	defer writer.Close()
	return writer.WriteMessages(ctx, messages...)
}

func (c *cluster) read(ctx context.Context, topic string, start int64, count int) ([]kafka.Message, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: c.seeds, Topic: topic, MaxWait: 200 * time.Millisecond,
		Dialer: &kafka.Dialer{ClientID: "kafka-go-cases", Timeout: 10 * time.Second},
	})
	defer reader.Close()
	if err := reader.SetOffset(start); err != nil {
		return nil, err
	}
	var read []kafka.Message
	for len(read) < count {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return nil, fmt.Errorf("after %d records: %w", len(read), err)
		}
		read = append(read, message)
	}
	return read, nil
}

func stamped(count int) []kafka.Message {
	messages := make([]kafka.Message, count)
	for i := range messages {
		messages[i] = kafka.Message{
			Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "%08d %0500d", i, i),
			Headers: []kafka.Header{{Key: "n", Value: fmt.Appendf(nil, "%d", i)}},
			Time:    time.UnixMilli(firstTime + 10*int64(i)),
		}
	}
	return messages
}

func same(read, sent []kafka.Message, start int64) error {
	for i, due := range sent {
		got := read[i]
		switch {
		case got.Offset != start+int64(i):
			return fmt.Errorf("offset %d where %d was due", got.Offset, start+int64(i))
		case string(got.Key) != string(due.Key) || string(got.Value) != string(due.Value):
			return fmt.Errorf("key or value of offset %d was changed", got.Offset)
		case !got.Time.Equal(due.Time):
			return fmt.Errorf("time %v where %v was due", got.Time, due.Time)
		case fmt.Sprint(got.Headers) != fmt.Sprint(due.Headers):
			return fmt.Errorf("headers %v where %v were due", got.Headers, due.Headers)
		}
	}
	return nil
}

func created(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "created", 7)
	if err != nil {
		return err
	}
	shown, err := c.metadata(ctx, c.client, topic)
	for _, partition := range shown.Partitions {
		if partition.Error != nil || partition.Leader.Host == "" || len(partition.Replicas) == 0 {
			return fmt.Errorf("partition %+v", partition)
		}
	}
	return err
}

func twice(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "twice", 1)
	if err != nil {
		return err
	}
	return refused(c.create(ctx, topic, 1), kafka.TopicAlreadyExists)
}

func codecs(ctx context.Context, c *cluster) error {
	for name, codec := range map[string]kafka.Compression{
		"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	} {
		topic, err := c.topic(ctx, "codec-"+name, 1)
		if err != nil {
			return err
		}
		sent := stamped(1000)
		if err := c.write(ctx, topic, codec, sent...); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		read, err := c.read(ctx, topic, 0, len(sent))
		if err == nil {
			err = same(read, sent, 0)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func nulls(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "nulls", 1)
	if err != nil {
		return err
	}
	// This client reads empty as null, from whatever broker.
	sent := []kafka.Message{{Key: []byte("k")}, {Value: []byte("v")}}
	if err := c.write(ctx, topic, 0, sent...); err != nil {
		return err
	}
	read, err := c.read(ctx, topic, 0, len(sent))
	if err != nil {
		return err
	}
	for i, due := range sent {
		got := read[i]
		if (got.Key == nil) != (due.Key == nil) || (got.Value == nil) != (due.Value == nil) {
			return fmt.Errorf("null and not null were mixed up at offset %d", got.Offset)
		}
	}
	return nil
}

func offsets(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "offsets", 1)
	if err != nil {
		return err
	}
	if err := c.write(ctx, topic, kafka.Gzip, stamped(100)...); err != nil {
		return err
	}
	at := func(wanted kafka.OffsetRequest) (kafka.PartitionOffsets, error) {
		request := &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {wanted}}}
		answer, err := c.client.ListOffsets(ctx, request)
		if err != nil {
			return kafka.PartitionOffsets{}, err
		}
		return answer.Topics[topic][0], answer.Topics[topic][0].Error
	}
	first, err := at(kafka.FirstOffsetOf(0))
	if err != nil || first.FirstOffset != 0 {
		return fmt.Errorf("first offset %d: %w", first.FirstOffset, err)
	}
	last, err := at(kafka.LastOffsetOf(0))
	if err != nil || last.LastOffset != 100 {
		return fmt.Errorf("last offset %d: %w", last.LastOffset, err)
	}
	found, err := at(kafka.TimeOffsetOf(0, time.UnixMilli(firstTime+501)))
	if _, there := found.Offsets[51]; err != nil || !there {
		return fmt.Errorf("by time %v: %w", found.Offsets, err)
	}
	return nil
}

func middle(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "middle", 1)
	if err != nil {
		return err
	}
	sent := stamped(100)
	if err := c.write(ctx, topic, kafka.Lz4, sent...); err != nil {
		return err
	}
	for _, start := range []int64{1, 37, 99} {
		read, err := c.read(ctx, topic, start, 100-int(start))
		if err == nil {
			err = same(read, sent[start:], start)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func large(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "large", 1)
	if err != nil {
		return err
	}
	if err := c.write(ctx, topic, 0, kafka.Message{Value: make([]byte, 1_040_000)}); err != nil {
		return err
	}
	return refused(c.write(ctx, topic, 0, kafka.Message{Value: make([]byte, 1_100_000)}), kafka.MessageSizeTooLarge)
}

func byWriting(ctx context.Context, c *cluster) error {
	topic := "kafka-go-by-writing-" + c.run
	writer := &kafka.Writer{
		Addr: kafka.TCP(c.seeds...), Topic: topic, AllowAutoTopicCreation: true, RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond, Transport: transport("kafka-go-cases"),
	}
	defer writer.Close()
	// Whoever finds no topic yet is told so, and tries again, with Kafka as well.
	err := c.until(ctx, func() (bool, error) {
		err := writer.WriteMessages(ctx, kafka.Message{Value: []byte("v")})
		if errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, kafka.LeaderNotAvailable) {
			return false, nil
		}
		return err == nil, err
	})
	return err
}

func deleted(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "deleted", 2)
	if err != nil {
		return err
	}
	answer, err := c.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err == nil {
		err = answer.Errors[topic]
	}
	if err != nil {
		return err
	}
	return c.until(ctx, func() (bool, error) {
		answer, err := c.client.Metadata(ctx, &kafka.MetadataRequest{})
		if err != nil {
			return false, err
		}
		for _, shown := range answer.Topics {
			if shown.Name == topic {
				return false, nil
			}
		}
		return true, nil
	})
}

func ledToTheirZone(ctx context.Context, c *cluster, zones []string) error {
	topic, err := c.topic(ctx, "led", 12)
	if err != nil {
		return err
	}
	for _, zone := range zones {
		name, due, _ := strings.Cut(zone, "=")
		client := &kafka.Client{Addr: kafka.TCP(c.seeds...), Transport: transport("kafka-go,zone=" + name)}
		shown, err := c.metadata(ctx, client, topic)
		if err != nil {
			return err
		}
		for _, partition := range shown.Partitions {
			if leader := fmt.Sprintf("%s:%d", partition.Leader.Host, partition.Leader.Port); leader != due {
				return fmt.Errorf("a client of %s is led to %s for partition %d", name, leader, partition.ID)
			}
		}
	}
	return nil
}

func refused(err, due error) error {
	var several kafka.WriteErrors
	if errors.As(err, &several) && len(several) > 0 {
		err = several[0]
	}
	var tooLarge kafka.MessageTooLargeError
	if errors.Is(err, due) || (errors.As(err, &tooLarge) && due == kafka.MessageSizeTooLarge) {
		return nil
	}
	return fmt.Errorf("answered %v, where %v was due", err, due)
}
