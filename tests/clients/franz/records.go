package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var recordCases = []namedCase{
	{"every_codec_comes_back_idempotent", codecs},
	{"plain_producers_are_served", plain},
	{"nulls_and_empties_come_back", nulls},
	{"four_producers_share_a_partition_without_gaps", shared},
	{"a_large_record_comes_back_and_a_larger_one_is_refused", large},
	{"an_unknown_topic_is_refused", unknown},
}

func codecs(ctx context.Context, c *cluster) error {
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		topic, err := c.topic(ctx, "codec-"+name, 3)
		if err != nil {
			return err
		}
		for partition := range int32(3) {
			sent := stamped(topic, partition, name, 2000)
			// In two rounds, by two producers: the second must continue where the first ended.
			for _, half := range []int{0, 1000} {
				err := c.produce(ctx, sent[half:half+1000], int64(half), kgo.ProducerBatchCompression(codec))
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			if err := c.comesBack(ctx, sent, 0); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func plain(ctx context.Context, c *cluster) error {
	for name, acks := range map[string]kgo.Acks{"leader": kgo.LeaderAck(), "all": kgo.AllISRAcks()} {
		topic, err := c.topic(ctx, "plain-"+name, 1)
		if err != nil {
			return err
		}
		sent := stamped(topic, 0, name, 500)
		if err := c.produce(ctx, sent, 0, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(acks), kgo.MaxProduceRequestsInflightPerBroker(1)); err != nil {
			return err
		}
		if err := c.comesBack(ctx, sent, 0); err != nil {
			return err
		}
	}
	return nil
}

func nulls(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "nulls", 1)
	if err != nil {
		return err
	}
	at := time.UnixMilli(firstTime)
	sent := []*kgo.Record{
		{Topic: topic, Key: []byte("k"), Timestamp: at},
		{Topic: topic, Value: []byte("v"), Timestamp: at, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{}}}},
		{Topic: topic, Key: []byte{}, Value: []byte{}, Timestamp: at, Headers: []kgo.RecordHeader{{Key: ""}, {Key: ""}}},
	}
	if err := c.produce(ctx, sent, 0); err != nil {
		return err
	}
	return c.comesBack(ctx, sent, 0)
}

// Each producer's records must stand in its own order, whatever the others wrote between them.
func shared(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "shared", 1)
	if err != nil {
		return err
	}
	const writers, each = 4, 2000
	done := make(chan error, writers)
	for writer := range writers {
		go func() {
			client, err := c.client(kgo.MaxBufferedRecords(200))
			if err == nil {
				err = client.ProduceSync(ctx, stamped(topic, 0, fmt.Sprint(writer), each)...).FirstErr()
				client.Close()
			}
			done <- err
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			return err
		}
	}
	read, err := c.read(ctx, topic, 0, 0, writers*each)
	if err != nil {
		return err
	}
	next := map[string]int{}
	for _, record := range read {
		writer := string(record.Headers[0].Value)
		if due := fmt.Sprintf("%s-%d", writer, next[writer]); string(record.Key) != due {
			return fmt.Errorf("%s where %s was due", record.Key, due)
		}
		next[writer]++
	}
	return nil
}

func large(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "large", 1)
	if err != nil {
		return err
	}
	big := kgo.ProducerBatchMaxBytes(4_000_000)
	record := func(size int) []*kgo.Record {
		return []*kgo.Record{{Topic: topic, Value: make([]byte, size), Timestamp: time.UnixMilli(firstTime)}}
	}
	uncompressed := kgo.ProducerBatchCompression(kgo.NoCompression())
	if err := c.produce(ctx, record(1_040_000), 0, big, uncompressed); err != nil {
		return err
	}
	if err := refused(c.produce(ctx, record(1_100_000), 1, big, uncompressed), kerr.MessageTooLarge); err != nil {
		return err
	}
	return c.comesBack(ctx, record(1_040_000), 0)
}

func unknown(ctx context.Context, c *cluster) error {
	sent := stamped("franz-never-made-"+c.run, 0, "lost", 1)
	return refused(c.produce(ctx, sent, 0), kerr.UnknownTopicOrPartition)
}
