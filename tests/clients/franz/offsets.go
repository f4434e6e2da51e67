package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var offsetCases = []namedCase{
	{"start_and_end_offsets_follow_the_records", bounds},
	{"a_time_finds_the_first_record_at_or_after_it", byTime},
	{"reading_starts_in_the_middle_of_a_batch", middle},
	{"past_the_end_is_out_of_range", past},
	{"the_leader_epoch_ends_where_the_log_ends", epoch},
}

func bounds(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "bounds", 2)
	if err != nil {
		return err
	}
	for round := range int64(3) {
		first, err := c.admin.ListStartOffsets(ctx, topic)
		if err != nil {
			return err
		}
		last, err := c.admin.ListEndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		for partition, due := range []int64{0, 50 * round} {
			from, to := first[topic][int32(partition)], last[topic][int32(partition)]
			if from.Err != nil || to.Err != nil || from.Offset != 0 || to.Offset != due {
				return fmt.Errorf("partition %d after %d rounds: %+v to %+v", partition, round, from, to)
			}
		}
		if err := c.produce(ctx, stamped(topic, 1, "bounds", 50), 50*round); err != nil {
			return err
		}
	}
	return nil
}

func byTime(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "times", 1)
	if err != nil {
		return err
	}
	if err := c.produce(ctx, stamped(topic, 0, "times", 100), 0, kgo.ProducerBatchCompression(kgo.ZstdCompression())); err != nil {
		return err
	}
	// kadm turns "no record is that young" into the end of the log.
	for after, due := range map[int64]int64{-10: 0, 0: 0, 1: 1, 500: 50, 501: 51, 990: 99, 991: 100} {
		listed, err := c.admin.ListOffsetsAfterMilli(ctx, firstTime+after, topic)
		if err != nil {
			return err
		}
		found := listed[topic][0]
		if found.Err != nil || found.Offset != due {
			return fmt.Errorf("%d ms after the first record: %+v, not %d", after, found, due)
		}
		if due < 100 && found.Timestamp != firstTime+10*due {
			return fmt.Errorf("offset %d was found with time %d", due, found.Timestamp)
		}
	}
	return nil
}

func middle(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "middle", 1)
	if err != nil {
		return err
	}
	sent := stamped(topic, 0, "middle", 100)
	if err := c.produce(ctx, sent, 0); err != nil {
		return err
	}
	for _, start := range []int64{1, 37, 99} {
		if err := c.comesBack(ctx, sent[start:], start); err != nil {
			return fmt.Errorf("from %d: %w", start, err)
		}
	}
	return nil
}

func past(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "past", 1)
	if err != nil {
		return err
	}
	if err := c.produce(ctx, stamped(topic, 0, "past", 10), 0); err != nil {
		return err
	}
	_, err = c.read(ctx, topic, 0, 1000, 1001)
	return refused(err, kerr.OffsetOutOfRange)
}

func epoch(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "epoch", 1)
	if err != nil {
		return err
	}
	if err := c.produce(ctx, stamped(topic, 0, "epoch", 70), 0); err != nil {
		return err
	}
	topics, err := c.admin.ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	now := topics[topic].Partitions[0].LeaderEpoch
	var asked kadm.OffsetForLeaderEpochRequest
	asked.Add(topic, 0, now)
	answered, err := c.admin.OffsetForLeaderEpoch(ctx, asked)
	if err != nil {
		return err
	}
	found := answered[topic][0]
	if found.Err != nil || found.EndOffset != 70 || found.LeaderEpoch != now {
		return fmt.Errorf("epoch %d: %+v", now, found)
	}
	return nil
}
