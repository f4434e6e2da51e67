package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions  = 8
	members     = 6
	patienceMax = 30 * time.Second
)

// record runs members that read, commit, leave and come back, and somebody who looks at what is committed.
func record(seeds []string, runs time.Duration, path string) error {
	history, err := newRecorder(path)
	if err != nil {
		return err
	}
	admin, err := client(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer admin.Close()
	topic := fmt.Sprintf("coordinator-%d", time.Now().UnixMilli())
	setup, cancel := context.WithTimeout(context.Background(), 2*patienceMax)
	defer cancel()
	if _, err := kadm.NewClient(admin).CreateTopic(setup, partitions, -1, nil, topic); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), runs)
	defer stop()
	var all sync.WaitGroup
	start := func(work func()) {
		all.Add(1)
		go func() { defer all.Done(); work() }()
	}
	start(func() { write(ctx, admin, topic) })
	start(func() { look(ctx, admin, topic, history) })
	for range members {
		start(func() {
			for ctx.Err() == nil {
				if err := belong(ctx, seeds, topic, history); err != nil && ctx.Err() == nil {
					fmt.Println("a member starts again:", err)
				}
			}
		})
	}
	all.Wait()
	return history.close()
}

func write(ctx context.Context, c *kgo.Client, topic string) {
	for n := 0; ctx.Err() == nil; n++ {
		for partition := range int32(partitions) {
			c.Produce(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: fmt.Appendf(nil, "%d", n)}, nil)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func look(ctx context.Context, c *kgo.Client, topic string, history *recorder) {
	for admin := kadm.NewClient(c); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		e := event{What: "seen", Begun: history.now(), Offsets: map[int32]int64{}}
		found, err := admin.FetchOffsets(ctx, group)
		if err != nil {
			continue
		}
		found.Each(func(one kadm.OffsetResponse) {
			if one.Err == nil && one.Topic == topic {
				e.Offsets[one.Partition] = one.At
			}
		})
		history.add(e)
	}
}

// belong is one life of a member.
func belong(ctx context.Context, seeds []string, topic string, history *recorder) error {
	// Partitions whose first record is to be noted, and when they were assigned.
	var mutex sync.Mutex
	fresh := map[int32]int64{}
	note := func(_ context.Context, c *kgo.Client, assigned map[string][]int32) {
		mutex.Lock()
		defer mutex.Unlock()
		id, generation := c.GroupMetadata()
		e := event{What: "assigned", Begun: history.now(), Member: id, Generation: generation, Offsets: map[int32]int64{}}
		for _, partition := range assigned[topic] {
			e.Offsets[partition] = 0
			fresh[partition] = e.Begun
		}
		history.add(e)
	}
	c, err := client(seeds,
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// Each generation assigns everything anew, so an assignment is a whole one.
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.OnPartitionsAssigned(note), kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		return err
	}
	defer c.CloseAllowingRebalance()
	life, leave := context.WithTimeout(ctx, time.Duration(5+rand.IntN(20))*time.Second)
	defer leave()
	for life.Err() == nil {
		fetches := c.PollRecords(life, 200)
		id, generation := c.GroupMetadata()
		next := map[int32]int64{}
		offsets := map[string]map[int32]kgo.EpochOffset{topic: {}}
		mutex.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			if since, ok := fresh[r.Partition]; ok {
				delete(fresh, r.Partition)
				history.add(event{What: "read", Begun: since, Member: id, Generation: generation, Offsets: map[int32]int64{r.Partition: r.Offset}})
			}
			next[r.Partition] = r.Offset + 1
			offsets[topic][r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
		})
		mutex.Unlock()
		if len(next) > 0 {
			commit(life, c, id, generation, next, offsets, history)
		}
		c.AllowRebalance()
	}
	return nil
}

func commit(ctx context.Context, c *kgo.Client, id string, generation int32, next map[int32]int64, offsets map[string]map[int32]kgo.EpochOffset, history *recorder) {
	e := event{What: "commit", Begun: history.now(), Member: id, Generation: generation, Offsets: next}
	// A member that is told to leave waits for its last answer all the same: an end that nobody knows is no end.
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), patienceMax)
	defer cancel()
	err := commitSync(waiting, c, offsets)
	if err != nil {
		e.Error = err.Error()
	}
	history.add(e)
}
