package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var groupCases = []namedCase{
	{"a_group_goes_on_where_it_committed", goesOn},
	{"members_that_come_take_over_what_others_give_up", takeOver},
	{"a_commit_of_an_old_generation_is_refused", oldGeneration},
	{"offsets_and_groups_are_set_listed_and_deleted_by_hand", byHand},
}

func (c *cluster) member(group, topic string, options ...kgo.Opt) (*kgo.Client, error) {
	common := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.SessionTimeout(10 * time.Second),
	}
	return c.client(append(common, options...)...)
}

// read polls until it has so many records, all from the next offset of each partition on.
func read(ctx context.Context, member *kgo.Client, count int, next map[int32]int64) error {
	for got := 0; got < count; {
		fetches := member.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("after %d of %d records: %w", got, count, err)
		}
		var wrong error
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next[r.Partition] {
				wrong = fmt.Errorf("partition %d: offset %d where %d was due", r.Partition, r.Offset, next[r.Partition])
			}
			next[r.Partition] = r.Offset + 1
			got++
		})
		if wrong != nil {
			return wrong
		}
	}
	return nil
}

func (c *cluster) filled(ctx context.Context, what string, partitions int32, count int) (string, error) {
	topic, err := c.topic(ctx, what, partitions)
	if err != nil {
		return "", err
	}
	for partition := range partitions {
		if err := c.produce(ctx, stamped(topic, partition, what, count), 0); err != nil {
			return "", err
		}
	}
	return topic, nil
}

func goesOn(ctx context.Context, c *cluster) error {
	topic, err := c.filled(ctx, "goes-on", 3, 40)
	if err != nil {
		return err
	}
	next := map[int32]int64{}
	for round := range int64(2) {
		if round == 1 {
			for partition := range int32(3) {
				if err := c.produce(ctx, stamped(topic, partition, "more", 40), 40); err != nil {
					return err
				}
			}
		}
		member, err := c.member(topic, topic)
		if err != nil {
			return err
		}
		err = read(ctx, member, 120, next)
		if err == nil {
			err = member.CommitUncommittedOffsets(ctx)
		}
		member.Close()
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// The cooperative balancer, franz-go's default, moves partitions in two rebalances.
func takeOver(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "take-over", 6)
	if err != nil {
		return err
	}
	var members []*kgo.Client
	defer func() {
		for _, member := range members {
			member.Close()
		}
	}()
	for count := 1; count <= 3; count++ {
		member, err := c.member(topic, topic)
		if err != nil {
			return err
		}
		members = append(members, member)
		if err := c.shares(ctx, topic, 6, count); err != nil {
			return fmt.Errorf("%d members: %w", count, err)
		}
	}
	members[0].Close()
	members = members[1:]
	return c.shares(ctx, topic, 6, 2)
}

// shares waits until the group is stable, of so many members, and each partition is one member's.
func (c *cluster) shares(ctx context.Context, group string, partitions, members int) error {
	return c.until(ctx, func() (bool, error) {
		described, err := c.admin.DescribeGroups(ctx, group)
		if err != nil {
			return false, err
		}
		one := described[group]
		if one.Err != nil || one.State != "Stable" || len(one.Members) != members {
			return false, nil
		}
		seen := map[int32]bool{}
		for _, member := range one.Members {
			assigned, ok := member.Assigned.AsConsumer()
			if !ok {
				return false, fmt.Errorf("%s has an assignment that cannot be read", member.MemberID)
			}
			for _, topic := range assigned.Topics {
				for _, partition := range topic.Partitions {
					if seen[partition] {
						return false, fmt.Errorf("partition %d is two members'", partition)
					}
					seen[partition] = true
				}
			}
		}
		return len(seen) == partitions, nil
	})
}

func oldGeneration(ctx context.Context, c *cluster) error {
	topic, err := c.filled(ctx, "generation", 1, 10)
	if err != nil {
		return err
	}
	member, err := c.member(topic, topic)
	if err != nil {
		return err
	}
	defer member.Close()
	if err := read(ctx, member, 10, map[int32]int64{}); err != nil {
		return err
	}
	id, generation := member.GroupMetadata()
	for _, one := range []struct {
		id         string
		generation int32
		due        error
	}{
		{id, generation, nil},
		{id, generation - 1, kerr.IllegalGeneration},
		{id, generation + 1, kerr.IllegalGeneration},
		{"nobody", generation, kerr.UnknownMemberID},
		{"", -1, kerr.UnknownMemberID},
	} {
		if err := c.commitAs(ctx, topic, topic, one.id, one.generation, 5); !errors.Is(err, one.due) {
			return fmt.Errorf("%q in generation %d: %v, where %v was due", one.id, one.generation, err, one.due)
		}
	}
	return nil
}

func byHand(ctx context.Context, c *cluster) error {
	topic, err := c.filled(ctx, "by-hand", 2, 20)
	if err != nil {
		return err
	}
	wanted := kadm.Offsets{}
	for partition := range int32(2) {
		wanted.Add(kadm.Offset{Topic: topic, Partition: partition, At: 7, LeaderEpoch: 1, Metadata: "by hand"})
	}
	if err := c.admin.CommitAllOffsets(ctx, topic, wanted); err != nil {
		return err
	}
	found, err := c.admin.FetchOffsets(ctx, topic)
	if err != nil {
		return err
	}
	for partition := range int32(2) {
		one, ok := found.Lookup(topic, partition)
		if !ok || one.Err != nil || one.At != 7 || one.LeaderEpoch != 1 || one.Metadata != "by hand" {
			return fmt.Errorf("partition %d: %+v", partition, one)
		}
	}
	listed, err := c.admin.ListGroups(ctx, "empty")
	if err != nil {
		return err
	}
	if _, ok := listed[topic]; !ok {
		return fmt.Errorf("the group is not listed")
	}
	deleted, err := c.admin.DeleteOffsets(ctx, topic, kadm.TopicsSet{topic: {1: {}}})
	if err != nil || deleted.Error() != nil {
		return fmt.Errorf("deleting an offset: %v, %v", err, deleted.Error())
	}
	found, err = c.admin.FetchOffsets(ctx, topic)
	if err != nil {
		return err
	}
	if _, ok := found.Lookup(topic, 1); ok || len(found[topic]) != 1 {
		return fmt.Errorf("after deleting one: %+v", found)
	}
	if _, err := c.admin.DeleteGroup(ctx, topic); err != nil {
		return err
	}
	if _, err := c.admin.DeleteGroup(ctx, topic); !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("deleting it again: %v", err)
	}
	return nil
}
