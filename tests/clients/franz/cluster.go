package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const firstTime = int64(1_600_000_000_000)

// cluster is what every case is given.
type cluster struct {
	seeds []string
	raw   *kgo.Client
	admin *kadm.Client
	run   string
}

func connect(seeds []string) (*cluster, error) {
	c := &cluster{seeds: seeds, run: fmt.Sprint(time.Now().UnixMilli())}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	c.raw, c.admin = client, kadm.NewClient(client)
	return c, nil
}

func (c *cluster) close() { c.admin.Close() }

func (c *cluster) client(options ...kgo.Opt) (*kgo.Client, error) {
	common := []kgo.Opt{
		kgo.SeedBrokers(c.seeds...),
		kgo.ClientID("franz-cases"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.UnknownTopicRetries(5),
		// Answers about topics come from a cache that is this old at most.
		kgo.MetadataMinAge(50 * time.Millisecond),
	}
	return kgo.NewClient(append(common, options...)...)
}

// topic makes one that no earlier run has used.
func (c *cluster) topic(ctx context.Context, what string, partitions int32) (string, error) {
	name := fmt.Sprintf("franz-%s-%s", what, c.run)
	return name, c.create(ctx, name, partitions)
}

func (c *cluster) create(ctx context.Context, name string, partitions int32) error {
	if _, err := c.admin.CreateTopic(ctx, partitions, -1, nil, name); err != nil {
		return err
	}
	return c.shown(ctx, name, partitions)
}

// shown waits until every broker names a leader for each partition.
func (c *cluster) shown(ctx context.Context, topic string, partitions int32) error {
	return c.until(ctx, func() (bool, error) {
		metadata, err := c.admin.BrokerMetadata(ctx)
		if err != nil {
			return false, err
		}
		for _, broker := range metadata.Brokers {
			request := kmsg.NewPtrMetadataRequest()
			request.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
			answer, err := c.raw.Broker(int(broker.NodeID)).RetriableRequest(ctx, request)
			if err != nil {
				return false, err
			}
			shown := answer.(*kmsg.MetadataResponse).Topics[0]
			if shown.ErrorCode != 0 || len(shown.Partitions) != int(partitions) {
				return false, nil
			}
			for _, partition := range shown.Partitions {
				if partition.ErrorCode != 0 || partition.Leader < 0 {
					return false, nil
				}
			}
		}
		return true, nil
	})
}

// until asks again until it holds: metadata has no notification.
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

// stamped are records whose values carry a CRC-32 of the rest and whose times lie 10 ms apart.
func stamped(topic string, partition int32, writer string, count int) []*kgo.Record {
	records := make([]*kgo.Record, count)
	for sequence := range records {
		body := fmt.Appendf(nil, "%s/%08d %01000d", writer, sequence, sequence)
		records[sequence] = &kgo.Record{
			Topic:     topic,
			Partition: partition,
			Key:       fmt.Appendf(nil, "%s-%d", writer, sequence),
			Value:     fmt.Appendf(nil, "%08x %s", crc32.ChecksumIEEE(body), body),
			Headers:   []kgo.RecordHeader{{Key: "writer", Value: []byte(writer)}},
			Timestamp: time.UnixMilli(firstTime + 10*int64(sequence)),
		}
	}
	return records
}

// produce writes the records and holds that their offsets follow each other from `first`.
func (c *cluster) produce(ctx context.Context, records []*kgo.Record, first int64, options ...kgo.Opt) error {
	client, err := c.client(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	for at, result := range client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			return result.Err
		}
		if due := first + int64(at); result.Record.Offset != due {
			return fmt.Errorf("offset %d where %d was due", result.Record.Offset, due)
		}
	}
	return nil
}

// read takes the records of a partition from start up to, not including, end.
func (c *cluster) read(ctx context.Context, topic string, partition int32, start, end int64, options ...kgo.Opt) ([]*kgo.Record, error) {
	from := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(start)}}
	client, err := c.client(append(options, kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var records []*kgo.Record
	for int64(len(records)) < end-start {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d records: %w", len(records), err)
		}
		records = append(records, fetches.Records()...)
	}
	return records, nil
}

// comesBack holds that the partition gives back what was sent, from offset start on.
func (c *cluster) comesBack(ctx context.Context, sent []*kgo.Record, start int64, options ...kgo.Opt) error {
	end := start + int64(len(sent))
	read, err := c.read(ctx, sent[0].Topic, sent[0].Partition, start, end, options...)
	if err != nil {
		return err
	}
	for at, due := range sent {
		got := read[at]
		switch {
		case got.Offset != start+int64(at):
			return fmt.Errorf("offset %d where %d was due", got.Offset, start+int64(at))
		case string(got.Key) != string(due.Key) || string(got.Value) != string(due.Value):
			return fmt.Errorf("key or value of offset %d was changed", got.Offset)
		case (got.Key == nil) != (due.Key == nil) || (got.Value == nil) != (due.Value == nil):
			return fmt.Errorf("null and empty were mixed up at offset %d", got.Offset)
		case got.Timestamp.UnixMilli() != due.Timestamp.UnixMilli():
			return fmt.Errorf("time %v where %v was due", got.Timestamp, due.Timestamp)
		case fmt.Sprint(got.Headers) != fmt.Sprint(due.Headers):
			return fmt.Errorf("headers %v where %v were due", got.Headers, due.Headers)
		}
	}
	return nil
}

// commitAs commits an offset of partition 0 as a member says of itself.
func (c *cluster) commitAs(ctx context.Context, group, topic, id string, generation int32, offset int64) error {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.MemberID, request.Generation = group, id, generation
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset = offset
	one := kmsg.NewOffsetCommitRequestTopic()
	one.Topic, one.Partitions = topic, append(one.Partitions, partition)
	request.Topics = append(request.Topics, one)
	// By id from version 10 on, which is not what is asked here.
	capped, err := c.client(kgo.MaxVersions(kversion.V3_5_0()))
	if err != nil {
		return err
	}
	defer capped.Close()
	answer, err := request.RequestWith(ctx, capped)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
}
