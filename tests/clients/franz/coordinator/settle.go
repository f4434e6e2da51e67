package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func commitSync(ctx context.Context, c *kgo.Client, offsets map[string]map[int32]kgo.EpochOffset) error {
	var told error
	c.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			told = err
			return
		}
		for _, topic := range answer.Topics {
			for _, partition := range topic.Partitions {
				if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
					told = err
				}
			}
		}
	})
	return told
}

// settle has so many members join, then one more, then one leave, and times each.
func settle(seeds []string, count int) error {
	admin, err := client(seeds)
	if err != nil {
		return err
	}
	defer admin.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	topic := fmt.Sprintf("settle-%d", time.Now().UnixMilli())
	if _, err := kadm.NewClient(admin).CreateTopic(ctx, int32(2*count), -1, nil, topic); err != nil {
		return err
	}
	var generations [1 << 10]atomic.Int32
	var all []*kgo.Client
	defer func() {
		for _, c := range all {
			go c.Close()
		}
	}()
	join := func() error {
		at := len(all)
		c, err := client(seeds,
			kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.Balancers(kgo.RangeBalancer()), kgo.HeartbeatInterval(300*time.Millisecond),
			kgo.OnPartitionsAssigned(func(_ context.Context, c *kgo.Client, _ map[string][]int32) {
				_, generation := c.GroupMetadata()
				generations[at].Store(generation)
			}))
		all = append(all, c)
		return err
	}
	// Every member of [from, to) is assigned in one generation, later than this one.
	settled := func(from, to int, after int32) (int32, error) {
		for ctx.Err() == nil {
			newest, same := generations[from].Load(), true
			for at := from; at < to; at++ {
				same = same && generations[at].Load() == newest
			}
			if same && newest > after {
				return newest, nil
			}
			time.Sleep(5 * time.Millisecond)
		}
		return 0, ctx.Err()
	}
	began := time.Now()
	for range count - 1 {
		if err := join(); err != nil {
			return err
		}
	}
	generation, err := settled(0, count-1, 0)
	if err != nil {
		return err
	}
	fmt.Printf("%d members settled %.2f s after they began to join\n", count-1, time.Since(began).Seconds())
	began = time.Now()
	if err := join(); err != nil {
		return err
	}
	if generation, err = settled(0, count, generation); err != nil {
		return err
	}
	fmt.Printf("%d members settled %.2f s after one more joined\n", count, time.Since(began).Seconds())
	began = time.Now()
	all[0].Close()
	if _, err = settled(1, count, generation); err != nil {
		return err
	}
	fmt.Printf("%d members settled %.2f s after one left\n", count-1, time.Since(began).Seconds())
	return nil
}
